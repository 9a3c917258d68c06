//! Facts about the UCX that is loaded, and what has to be undone after loading it.

use crate::engine::base::log;
use crate::engine::base::status::{Error, Result, Status};
use crate::sys;
use std::ffi::{c_void, CStr, CString};
use std::sync::{Once, OnceLock};

/// A UCX release.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Release {
    /// Major, minor and patch level.
    pub numbers: (u32, u32, u32),
}

impl Release {
    pub(crate) const fn new(major: u32, minor: u32) -> Self {
        Release { numbers: (major, minor, 0) }
    }
}

impl std::fmt::Display for Release {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (major, minor, patch) = self.numbers;
        write!(f, "{major}.{minor}.{patch}")
    }
}

/// The release that is loaded, which need not be the one that the program was built against.
pub fn ucx_release() -> Release {
    static RELEASE: OnceLock<Release> = OnceLock::new();
    *RELEASE.get_or_init(|| {
        let (mut major, mut minor, mut patch) = (0, 0, 0);
        // SAFETY: three valid out-pointers.
        unsafe { sys::ucp_get_version(&mut major, &mut minor, &mut patch) };
        Release { numbers: (major, minor, patch) }
    })
}

/// The file that the loaded libucp came from, or an empty string where the loader does not tell.
pub fn ucx_path() -> &'static CStr {
    static PATH: OnceLock<CString> = OnceLock::new();
    PATH.get_or_init(|| {
        // SAFETY: all-zero is a valid Dl_info.
        let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: the address of a function, and a valid out-pointer.
        let found = unsafe { libc::dladdr(sys::ucp_get_version as *const c_void, &mut info) };
        if found == 0 || info.dli_fname.is_null() {
            return CString::default();
        }
        // SAFETY: the loader's string, which lives as long as the library is mapped.
        let path = unsafe { CStr::from_ptr(info.dli_fname) };
        let resolved = std::fs::canonicalize(path.to_string_lossy().as_ref());
        match resolved {
            Ok(path) => CString::new(path.to_string_lossy().into_owned()).unwrap_or_default(),
            Err(_) => path.to_owned(),
        }
    })
}

/// How many images of libucp are mapped into this process. More than one is trouble: each has its
/// own global state.
pub fn ucx_copies() -> u32 {
    unsafe extern "C" fn count(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        data: *mut c_void,
    ) -> libc::c_int {
        // SAFETY: the loader passes a valid info, and `data` is the counter below.
        let (name, counter) = unsafe { ((*info).dlpi_name, &mut *data.cast::<u32>()) };
        if !name.is_null() {
            // SAFETY: a terminated string of the loader's.
            let name = unsafe { CStr::from_ptr(name) }.to_bytes();
            let file = name.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            if file.starts_with(b"libucp.so") || file.starts_with(b"libucp-") {
                *counter += 1;
            }
        }
        0
    }
    let mut copies = 0u32;
    // SAFETY: the callback above matches the signature, and the counter outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(count), (&raw mut copies).cast()) };
    copies
}

/// Takes back the signal handlers that loading UCX installs, unless the user asked for them, and
/// routes UCX's log.
pub(crate) fn initialise() {
    static DONE: Once = Once::new();
    DONE.call_once(|| {
        log::take_over_ucx();
        let wanted = ["UCX_HANDLE_ERRORS", "UCX_ERROR_SIGNALS"]
            .iter()
            .any(|name| std::env::var_os(name).is_some());
        if wanted {
            return;
        }
        let disable = sys::symbol(c"ucs_debug_disable_signals");
        if !disable.is_null() {
            // SAFETY: exported by libucs, takes and returns nothing.
            let disable: unsafe extern "C" fn() = unsafe { std::mem::transmute(disable) };
            // SAFETY: restores the handlers that stood before libucs was loaded.
            unsafe { disable() };
        }
    });
}

/// Runs when the library is loaded, after UCX's own constructors, which the loader runs first as we
/// depend on it.
#[used]
#[cfg_attr(target_os = "linux", link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = {
    extern "C" fn at_load() {
        let _ = std::panic::catch_unwind(initialise);
    }
    at_load
};

/// Signals that programs handle, and that the kernel gives to any thread which does not block them.
///
/// Not among them are those that are sent to one thread: a garbage collector stops the threads that
/// it knows by SIGPWR, SIGXCPU, SIGURG or a real-time signal, and a callback may have made one of
/// the library's known to it; a fault is that of the thread.
const TAKEN_BY_ACCIDENT: [libc::c_int; 18] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGCHLD,
    libc::SIGCONT,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGIO,
    libc::SIGPIPE,
    libc::SIGWINCH,
    libc::SIGXFSZ,
];

/// Blocks them on this thread while `f` runs, so that threads which it starts inherit the mask and
/// leave the program's signals to the program.
pub(crate) fn with_signals_blocked<T>(f: impl FnOnce() -> T) -> T {
    // SAFETY: plain sets, initialised by sigemptyset before use; the old mask is put back below.
    let old = unsafe {
        let mut blocked: libc::sigset_t = std::mem::zeroed();
        let mut old: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut blocked);
        for signal in TAKEN_BY_ACCIDENT {
            libc::sigaddset(&mut blocked, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &blocked, &mut old);
        old
    };
    let value = f();
    // SAFETY: the mask read above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &old, std::ptr::null_mut()) };
    value
}

/// Runs `f` with the decimal point, whatever the program's locale has: UCX reads and prints numbers
/// of its configuration as the locale says. Only this thread's locale changes, and nothing of it
/// but that.
pub(crate) fn with_decimal_point<T>(f: impl FnOnce() -> T) -> T {
    /// The thread's own locale is put back, also after a panic.
    struct Own {
        own: libc::locale_t,
        ours: libc::locale_t,
    }
    impl Drop for Own {
        fn drop(&mut self) {
            if !self.ours.is_null() {
                // SAFETY: what `uselocale` returned; ours is used by nobody any more.
                unsafe {
                    libc::uselocale(self.own);
                    libc::freelocale(self.ours);
                }
            }
        }
    }
    // SAFETY: asks only.
    let own = unsafe { libc::uselocale(std::ptr::null_mut()) };
    // SAFETY: the thread's locale, or the process's if it has none. `newlocale` takes the copy
    // where it succeeds.
    let ours = unsafe {
        let copy = libc::duplocale(own);
        let ours = libc::newlocale(libc::LC_NUMERIC_MASK, c"C".as_ptr(), copy);
        if ours.is_null() && !copy.is_null() {
            libc::freelocale(copy);
        }
        if !ours.is_null() {
            libc::uselocale(ours);
        }
        ours
    };
    let _own = Own { own, ours };
    f()
}

/// UCX asserts where it cannot make the thread that its first context needs. Tries whether one can
/// be made; else NO_RESOURCE.
pub(crate) fn check_thread_can_be_made() -> Result<()> {
    extern "C" fn trial(id: *mut c_void) -> *mut c_void {
        // SAFETY: the caller's number, which waits for this thread.
        unsafe { *id.cast::<libc::pid_t>() = libc::gettid() };
        std::ptr::null_mut()
    }
    let mut id: libc::pid_t = 0;
    // SAFETY: all-zero is a valid place for the result.
    let mut thread: libc::pthread_t = unsafe { std::mem::zeroed() };
    // As UCX makes it: with the same stack, which may be what there is no room for.
    let error = with_signals_blocked(|| {
        // SAFETY: a function that does not unwind; its argument lives until it is joined below.
        unsafe { libc::pthread_create(&mut thread, std::ptr::null(), trial, (&raw mut id).cast()) }
    });
    if error != 0 {
        if ucx_has_its_thread() {
            return Ok(());
        }
        let cause = std::io::Error::from_raw_os_error(error);
        let text = format!(
            "no thread can be made, and UCX needs one (see RLIMIT_NPROC and the limits of a \
            container): {cause}"
        );
        return Err(Error::new(Status::NO_RESOURCE, text));
    }
    // SAFETY: made above, joined once.
    unsafe { libc::pthread_join(thread, std::ptr::null_mut()) };
    // The kernel counts it a moment longer, and a next one might be one too many.
    for _ in 0..MOST_LOOKS {
        // SAFETY: no signal is sent.
        if unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), id, 0) } != 0 {
            break;
        }
        std::thread::yield_now();
    }
    Ok(())
}

/// More than a thread takes to go; a bound in case its number is used again.
const MOST_LOOKS: u32 = 1000;

/// UCX has one thread, by the name of "async", while anything in the process needs it.
fn ucx_has_its_thread() -> bool {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    threads.into_iter().any(|thread| {
        std::fs::read(thread.path().join("comm")).is_ok_and(|name| name == b"async\n")
    })
}
