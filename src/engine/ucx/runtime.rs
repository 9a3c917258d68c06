//! The loaded UCX: its release and file; and what we undo or check around it: its signal handlers,
//! its log, its threads, the locale.

use crate::engine::base::log;
use crate::engine::base::status::{Error, Result, Status};
use crate::sys;
use std::ffi::{c_void, CStr, CString};
use std::sync::{Once, OnceLock};

/// A UCX release.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Release {
    /// Major and minor version, and patch level.
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

/// The release that is loaded. It may differ from the one that the program was built against.
pub fn ucx_release() -> Release {
    static RELEASE: OnceLock<Release> = OnceLock::new();
    *RELEASE.get_or_init(|| {
        let (mut major, mut minor, mut patch) = (0, 0, 0);
        // SAFETY: three valid pointers to numbers.
        unsafe { sys::ucp_get_version(&mut major, &mut minor, &mut patch) };
        Release { numbers: (major, minor, patch) }
    })
}

/// The file of the loaded libucp; empty if the loader does not report it.
pub fn ucx_path() -> &'static CStr {
    static PATH: OnceLock<CString> = OnceLock::new();
    PATH.get_or_init(|| {
        // SAFETY: all-zero is a valid Dl_info.
        let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: the address of a function, and a valid pointer for the result.
        let found = unsafe { libc::dladdr(sys::ucp_get_version as *const c_void, &mut info) };
        if found == 0 || info.dli_fname.is_null() {
            return CString::default();
        }
        // SAFETY: the loader's terminated string, which stays valid while libucp is mapped.
        let path = unsafe { CStr::from_ptr(info.dli_fname) };
        let resolved = std::fs::canonicalize(path.to_string_lossy().as_ref());
        match resolved {
            Ok(path) => CString::new(path.to_string_lossy().into_owned()).unwrap_or_default(),
            Err(_) => path.to_owned(),
        }
    })
}

/// Number of libucp images mapped into this process. More than one causes trouble, as each has its
/// own global state.
pub fn ucx_copies() -> u32 {
    unsafe extern "C" fn count(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        data: *mut c_void,
    ) -> libc::c_int {
        // SAFETY: the loader passes a valid info, and `data` is `copies` below, which nobody else
        // uses.
        let (name, counter) = unsafe { ((*info).dlpi_name, &mut *data.cast::<u32>()) };
        if !name.is_null() {
            // SAFETY: not null; a terminated string of the loader.
            let name = unsafe { CStr::from_ptr(name) }.to_bytes();
            let file = name.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            if file.starts_with(b"libucp.so") || file.starts_with(b"libucp-") {
                *counter += 1;
            }
        }
        0
    }
    let mut copies = 0u32;
    // SAFETY: `count` has the right signature, and `copies` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(count), (&raw mut copies).cast()) };
    copies
}

/// Removes the signal handlers that UCX installs when it is loaded, unless the user asked for some,
/// and redirects UCX's log.
pub(crate) fn initialise() {
    static DONE: Once = Once::new();
    DONE.call_once(|| {
        log::take_over_ucx();
        let wanted = ["UCX_HANDLE_ERRORS", "UCX_ERROR_SIGNALS"]
            .iter()
            .any(|name| std::env::var_os(name).is_some_and(|set| !set.is_empty()));
        if wanted {
            return;
        }
        let disable = sys::symbol(c"ucs_debug_disable_signals");
        if !disable.is_null() {
            // SAFETY: libucs exports this function, which takes and returns nothing.
            let disable: unsafe extern "C" fn() = unsafe { std::mem::transmute(disable) };
            // SAFETY: it restores the handlers from before libucs was loaded, and has no
            // precondition.
            unsafe { disable() };
        }
    });
}

/// Runs when the library is loaded. UCX's constructors have run by then: we depend on UCX, so the
/// loader runs them first.
#[used]
#[cfg_attr(target_os = "linux", link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = {
    extern "C" fn at_load() {
        let _ = std::panic::catch_unwind(initialise);
    }
    at_load
};

/// Signals that programs handle, and that the kernel delivers to any thread that does not block
/// them.
///
/// Signals that are sent to one thread are not in the list. Garbage collectors stop the threads
/// that they know by SIGPWR, SIGXCPU, SIGURG or a real-time signal, and one of our threads may have
/// become known to them by a callback. Faults belong to the thread that causes them.
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

/// Blocks these signals on this thread while `f` runs. Threads that `f` starts inherit the mask, so
/// the program's signals go to the program's own threads.
pub(crate) fn with_signals_blocked<T>(f: impl FnOnce() -> T) -> T {
    // SAFETY: sigemptyset initialises the set before it is used, and all pointers are to locals.
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
    // SAFETY: the mask that was read above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &old, std::ptr::null_mut()) };
    value
}

/// Runs `f` with "." as the decimal point: UCX reads and prints numbers of its configuration by the
/// locale. Changes only LC_NUMERIC, and only on this thread.
pub(crate) fn with_decimal_point<T>(f: impl FnOnce() -> T) -> T {
    /// Restores the thread's locale, also after a panic.
    struct Own {
        own: libc::locale_t,
        ours: libc::locale_t,
    }
    impl Drop for Own {
        fn drop(&mut self) {
            if !self.ours.is_null() {
                // SAFETY: `own` is what `uselocale` returned; after that nothing uses `ours`.
                unsafe {
                    libc::uselocale(self.own);
                    libc::freelocale(self.ours);
                }
            }
        }
    }
    // SAFETY: null only queries the current locale.
    let own = unsafe { libc::uselocale(std::ptr::null_mut()) };
    // SAFETY: `own` is the thread's locale, or the process's if it has none. `newlocale` takes over
    // the copy if it succeeds; otherwise the copy is freed here.
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

/// UCX fails an assertion, and so ends the process, if it cannot create the thread that its first
/// context needs. This creates a thread for a trial. Error: NO_RESOURCE.
pub(crate) fn check_thread_can_be_made() -> Result<()> {
    extern "C" fn trial(id: *mut c_void) -> *mut c_void {
        // SAFETY: a pointer to the caller's `id`; the caller waits for this thread.
        unsafe { *id.cast::<libc::pid_t>() = libc::gettid() };
        std::ptr::null_mut()
    }
    let mut id: libc::pid_t = 0;
    // SAFETY: all-zero is a valid pthread_t to be overwritten.
    let mut thread: libc::pthread_t = unsafe { std::mem::zeroed() };
    // With default attributes, like UCX: there may be no memory for the stack.
    let error = with_signals_blocked(|| {
        // SAFETY: a function that does not unwind; its argument lives until the thread is joined
        // below.
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
    // SAFETY: the thread was created above, and is joined once.
    unsafe { libc::pthread_join(thread, std::ptr::null_mut()) };
    // The kernel still counts the thread for a moment. Until it is gone, UCX's thread might exceed
    // the limit.
    for _ in 0..MOST_LOOKS {
        // SAFETY: signal 0 sends nothing, it only checks that the thread exists.
        if unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), id, 0) } != 0 {
            break;
        }
        std::thread::yield_now();
    }
    Ok(())
}

/// Longer than a thread needs to disappear; a bound in case its id is reused.
const MOST_LOOKS: u32 = 1000;

/// UCX has one thread, named "async", while a context of the process needs it.
fn ucx_has_its_thread() -> bool {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    threads.into_iter().any(|thread| {
        std::fs::read(thread.path().join("comm")).is_ok_and(|name| name == b"async\n")
    })
}
