//! Tests of allocation on a GPU and of finding memory. They run this program again with the C
//! tests' stand-in for the CUDA driver.

use crate::engine::base::status::{Result, Status};
use crate::engine::core::channel::receive_buffers::{Allocator, Buffers, Frame};
use crate::engine::ucx::cuda_driver::{find, gpu, may_be_on_device};
use crate::engine::ucx::memory_type::{CUDA, CUDA_MANAGED, CUDA_PINNED, HOST};
use crate::sys::cuda::{is_loaded, CUcontext};
use std::ffi::{c_char, c_int, c_long, c_void, CStr, CString};
use std::path::Path;
use std::process::Command;

const TASK: &str = "UCXX_TEST_STAND_IN";
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cuda/double.c");
const ILLEGAL_ADDRESS: c_int = 700;
/// As in double.h.
const CONTEXTS: c_int = 0;
const BLOCKS: c_int = 3;
const MISUSES: c_int = 6;
const CALLS: c_int = 7;

/// The folder of the stand-in, removed on drop.
struct Folder(std::path::PathBuf);

impl Folder {
    fn with_stand_in() -> Self {
        let folder = std::env::temp_dir().join(format!("ucxx_rs-stand-in-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let folder = Folder(folder);
        let mut compiler = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".to_owned()));
        compiler.args([
            "-shared",
            "-fPIC",
            "-pthread",
            "-fvisibility=hidden",
            "-Wl,-soname,libcuda.so.1",
            "-o",
        ]);
        assert!(compiler
            .arg(folder.0.join("libcuda.so.1"))
            .arg(SOURCE)
            .status()
            .unwrap()
            .success());
        folder
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The stand-in's own functions, besides those that the library calls.
struct StandIn(*mut c_void);

impl StandIn {
    fn open() -> Self {
        // SAFETY: a terminated name; the stand-in's constructors have no precondition.
        let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW) };
        assert!(!library.is_null());
        StandIn(library)
    }

    /// # Safety
    /// `F` is the type of the function of this name.
    unsafe fn function<F>(&self, name: &CStr) -> F {
        // SAFETY: a library that is loaded, and a terminated name.
        let found = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        assert!(!found.is_null(), "{name:?}");
        // SAFETY: `F` is the function's type by this function's contract.
        unsafe { std::mem::transmute_copy(&found) }
    }

    fn count(&self, what: c_int) -> c_long {
        // SAFETY: the signature is that in double.h.
        unsafe { self.function::<unsafe extern "C" fn(c_int) -> c_long>(c"double_count")(what) }
    }

    fn fail(&self, call: &str, after: c_int, code: c_int) {
        let call = CString::new(call).unwrap();
        // SAFETY: the signature is that in double.h, and the string is terminated.
        unsafe {
            let fail: unsafe extern "C" fn(*const c_char, c_int, c_int, c_int) =
                self.function(c"double_fail");
            fail(call.as_ptr(), after, 1, code);
        }
    }

    /// Makes device memory managed, or device memory again.
    fn manage(&self, data: *mut u8, managed: bool) {
        // SAFETY: the signature is that in double.h.
        unsafe {
            self.function::<unsafe extern "C" fn(u64, c_int)>(c"double_manage")(
                data as u64,
                managed.into(),
            )
        }
    }

    fn current(&self) -> CUcontext {
        let mut context = std::ptr::null_mut();
        // SAFETY: the driver's function of this signature; a valid pointer for the result.
        unsafe {
            self.function::<unsafe extern "C" fn(*mut CUcontext) -> c_int>(c"cuCtxGetCurrent")(
                &mut context,
            )
        };
        context
    }

    /// Makes the primary context of a device this thread's current one.
    fn enter(&self, device: c_int) -> CUcontext {
        let mut context = std::ptr::null_mut();
        // SAFETY: the driver's functions of these signatures; valid pointers for the results.
        unsafe {
            let retain: unsafe extern "C" fn(*mut CUcontext, c_int) -> c_int =
                self.function(c"cuDevicePrimaryCtxRetain");
            assert_eq!(retain(&mut context, device), 0);
            assert_eq!(
                self.function::<unsafe extern "C" fn(CUcontext) -> c_int>(c"cuCtxPushCurrent_v2")(
                    context
                ),
                0
            );
        }
        context
    }

    fn leave(&self, device: c_int) {
        let mut context = std::ptr::null_mut();
        // SAFETY: the context that `enter` pushed; a valid pointer for the result.
        unsafe {
            assert_eq!(
                self.function::<unsafe extern "C" fn(*mut CUcontext) -> c_int>(
                    c"cuCtxPopCurrent_v2"
                )(&mut context),
                0
            );
            let release: unsafe extern "C" fn(c_int) -> c_int =
                self.function(c"cuDevicePrimaryCtxRelease_v2");
            assert_eq!(release(device), 0);
        }
    }

    /// Frees a frame's memory as the user does. 0 means success.
    fn free(&self, frame: Frame) -> c_int {
        self.enter(frame.device_id);
        // SAFETY: the frame's memory, freed once.
        let code = unsafe {
            self.function::<unsafe extern "C" fn(u64) -> c_int>(c"cuMemFree_v2")(frame.data as u64)
        };
        self.leave(frame.device_id);
        code
    }
}

const OWN: Allocator = Allocator {
    allocate: None,
    deallocate: None,
    arg: std::ptr::null_mut(),
    max_frames: usize::MAX,
    max_total_bytes: usize::MAX,
};

fn make(frames: &[(usize, i32)]) -> Result<Buffers> {
    Buffers::allocate(OWN, frames.iter().copied(), true, &std::sync::Arc::default())
}

/// Checks the error of an attempt that should fail.
fn refused(made: Result<Buffers>, status: Status, named: &str) {
    let error = made.err().expect("an error");
    assert_eq!(error.status(), status, "{error}");
    assert!(error.message().contains(named), "{error}");
}

#[test]
fn frames_of_cuda_memory() {
    let folder = Folder::with_stand_in();
    let path = |name: &str| std::env::var_os(name).unwrap_or_default();
    let folders = std::env::join_paths(
        std::iter::once(folder.0.clone()).chain(std::env::split_paths(&path("LD_LIBRARY_PATH"))),
    );
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "engine::cuda_tests::on_the_stand_in", "--nocapture"]);
    child.env("LD_LIBRARY_PATH", folders.unwrap()).env("UCX_MODULES", "^cuda").env(TASK, &folder.0);
    assert!(child.status().unwrap().success());
}

/// Does nothing unless `frames_of_cuda_memory` has started it.
#[test]
fn on_the_stand_in() {
    let Some(folder) = std::env::var_os(TASK) else { return };
    assert!(Path::new(&folder).join("libcuda.so.1").exists());
    // The driver is not loaded, so the answer is unknown; and asking does not load it.
    assert!(may_be_on_device((&raw const folder).cast()) && !is_loaded());
    let double = StandIn::open();
    assert!(is_loaded());
    where_memory_is(&double);
    where_it_cannot_be(&double);
    where_nothing_is_current(&double);
    where_a_context_is_current(&double);
    what_is_taken(&double);
    what_fails(&double);
    the_users_own(&double);
    assert_eq!((double.count(BLOCKS), double.count(MISUSES)), (0, 0));
    // One context for each device that ever had memory, kept to the end.
    assert_eq!(double.count(CONTEXTS), 2);
    assert!(double.current().is_null());
}

fn where_memory_is(double: &StandIn) {
    let on_host = 5u64;
    let is = |data: *mut u8| (may_be_on_device(data.cast()), find(data.cast()));
    assert_eq!(is((&raw const on_host).cast_mut().cast()), (false, None));
    let gpu = gpu(1).unwrap();
    let (device, pinned) = (gpu.allocate(100).unwrap(), gpu.allocate_pinned(100).unwrap());
    assert_eq!(is(device), (true, Some((CUDA, 1))));
    assert_eq!(is(device.wrapping_add(99)), (true, Some((CUDA, 1))));
    assert_eq!(is(device.wrapping_add(100)), (false, None));
    assert_eq!(is(pinned), (false, Some((CUDA_PINNED, 0))));
    double.manage(device, true);
    assert_eq!(is(device), (false, Some((CUDA_MANAGED, 0))));
    double.manage(device, false);
    // A driver that refuses every question.
    double.fail("cuPointerGetAttribute", 0, ILLEGAL_ADDRESS);
    assert!(may_be_on_device((&raw const on_host).cast()));
    // SAFETY: allocated above, and freed once.
    unsafe {
        gpu.free(device);
        gpu.free_pinned(pinned);
    }
    drop(gpu);
    assert_eq!((double.count(BLOCKS), double.count(CONTEXTS)), (0, 0));
}

fn where_it_cannot_be(double: &StandIn) {
    let calls = double.count(CALLS);
    let made = Buffers::allocate(
        OWN,
        [(8, HOST), (100, CUDA)].into_iter(),
        false,
        &std::sync::Arc::default(),
    );
    refused(made, Status::UNSUPPORTED, "cannot receive into CUDA memory");
    refused(make(&[(100, 4)]), Status::UNSUPPORTED, "this type");
    assert_eq!((double.count(CALLS), double.count(CONTEXTS)), (calls, 0));
    double.fail("cuDevicePrimaryCtxRetain", 0, 2);
    refused(make(&[(100, CUDA)]), Status::NO_MEMORY, "cuDevicePrimaryCtxRetain");
    assert_eq!(double.count(CONTEXTS), 0);
}

fn where_nothing_is_current(double: &StandIn) {
    let buffers =
        make(&[(100, CUDA), (0, CUDA), (50, HOST), (1 << 20, CUDA), (9, CUDA_PINNED)]).unwrap();
    assert!(double.current().is_null());
    assert_eq!(double.count(BLOCKS), 2);
    let at: Vec<_> =
        buffers.frames().iter().map(|frame| (find(frame.data), frame.device_id)).collect();
    assert_eq!(at, [(Some((CUDA, 0)), 0), (None, 0), (None, 0), (Some((CUDA, 0)), 0), (None, 0)]);
    assert!(buffers.frames()[1].data.is_null());
    // SAFETY: host memory of at least 50 bytes.
    unsafe { buffers.frames()[2].data.cast::<u8>().write_bytes(7, 50) };
    drop(buffers);
    assert_eq!((double.count(BLOCKS), double.count(CONTEXTS)), (0, 1));
}

fn where_a_context_is_current(double: &StandIn) {
    let current = double.enter(1);
    let buffers = make(&[(100, CUDA), (200, CUDA)]).unwrap();
    assert_eq!(double.current(), current);
    assert!(buffers
        .frames()
        .iter()
        .all(|frame| frame.device_id == 1 && find(frame.data) == Some((CUDA, 1))));
    // The thread that frees them has no current context, or another one.
    std::thread::scope(|scope| scope.spawn(|| drop(buffers)).join().unwrap());
    assert_eq!(double.count(BLOCKS), 0);
    let buffers = make(&[(100, CUDA)]).unwrap();
    let other = double.enter(0);
    drop(buffers);
    assert_eq!((double.count(BLOCKS), double.current()), (0, other));
    double.leave(0);
    assert_eq!(double.current(), current);
    double.leave(1);
}

fn what_is_taken(double: &StandIn) {
    let mut buffers = make(&[(100, CUDA), (200, CUDA)]).unwrap();
    let taken = buffers.take(1).unwrap();
    drop(buffers);
    assert_eq!((double.count(BLOCKS), find(taken.data)), (1, Some((CUDA, 0))));
    // Nobody else holds a reference to the context.
    assert_eq!(double.free(taken), 0);
}

fn what_fails(double: &StandIn) {
    for (after, code, status) in [
        (0, 2, Status::NO_MEMORY),
        (1, 2, Status::NO_MEMORY),
        (1, ILLEGAL_ADDRESS, Status::IO_ERROR),
    ] {
        double.fail("cuMemAlloc", after, code);
        refused(make(&[(8, HOST), (100, CUDA), (200, CUDA)]), status, "CUDA device 0: cuMemAlloc");
        assert_eq!(double.count(BLOCKS), 0);
    }
    double.enter(0);
    double.fail("cuCtxGetDevice", 0, ILLEGAL_ADDRESS);
    refused(make(&[(100, CUDA)]), Status::IO_ERROR, "cuCtxGetDevice");
    double.leave(0);
    // More memory than there is.
    refused(make(&[(100, CUDA), (1 << 40, CUDA)]), Status::NO_MEMORY, "cuMemAlloc");
    assert_eq!(double.count(BLOCKS), 0);
    assert!(make(&[(100, CUDA)]).is_ok());
}

fn the_users_own(double: &StandIn) {
    unsafe extern "C" fn allocate(
        _: *mut c_void,
        length: usize,
        kind: i32,
        device: i32,
        data: *mut *mut c_void,
    ) -> i32 {
        assert_eq!((kind, device), (CUDA, 0));
        // SAFETY: a valid pointer for the result.
        unsafe { data.write(libc::malloc(length)) };
        0
    }
    unsafe extern "C" fn deallocate(
        _: *mut c_void,
        data: *mut c_void,
        _: usize,
        kind: i32,
        _: i32,
    ) {
        assert_eq!(kind, CUDA);
        // SAFETY: allocated by malloc in the other function, and freed once.
        unsafe { libc::free(data) };
    }
    let allocator = Allocator { allocate: Some(allocate), deallocate: Some(deallocate), ..OWN };
    for reaches in [false, true] {
        let buffers = Buffers::allocate(
            allocator,
            [(100, CUDA)].into_iter(),
            reaches,
            &std::sync::Arc::default(),
        )
        .unwrap();
        assert_eq!((double.count(BLOCKS), find(buffers.frames()[0].data)), (0, None));
    }
    assert!(gpu(2).is_err());
}
