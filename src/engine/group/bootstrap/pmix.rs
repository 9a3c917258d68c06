//! The rendezvous by a launcher's PMIx server, which Open MPI's mpirun and srun have: it knows the
//! ranks and carries the bytes.
//!
//! libpmix is loaded when a group asks for it, so the library does not depend on it.

use crate::engine::base::lockdep::Mutex;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::group::bootstrap::bootstrap::{Bootstrap, MOST_MEMBERS};
use crate::engine::os::fork::Generation;
use crate::engine::ucx::runtime;
use crate::engine::wire::bootstrap::LONGEST_PART;
use crate::sys::pmix::{
    Bytes, Data, Info, Library, Proc, Value, BOOL, BYTE_OBJECT, ERR_TIMEOUT, GLOBAL, INT,
    RANK_WILDCARD, SUCCESS, UINT32,
};
use std::ffi::{c_int, CStr, CString};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;

/// Loads libpmix, once. Blocks signals, as it may start threads.
fn library() -> Result<Library> {
    static LOADED: OnceLock<std::result::Result<Library, String>> = OnceLock::new();
    let loaded = LOADED.get_or_init(|| runtime::with_signals_blocked(Library::load));
    loaded.clone().map_err(|why| {
        let text = format!(
            "bootstrap: PMIX needs PMIx 3 or later: {why}; without it use ENV, TCP or CALLBACKS"
        );
        Error::new(Status::UNSUPPORTED, text)
    })
}

impl Library {
    fn check(&self, code: c_int, what: &str) -> Result<()> {
        if code == SUCCESS {
            return Ok(());
        }
        // SAFETY: the function takes any number, and returns null or a static text.
        let name = unsafe { (self.error_string)(code) };
        let name = if name.is_null() {
            code.to_string()
        } else {
            // SAFETY: not null; a terminated static text.
            unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
        };
        let status = if code == ERR_TIMEOUT { Status::TIMED_OUT } else { Status::IO_ERROR };
        Err(Error::new(status, format!("PMIx: {what} failed: {name}")))
    }

    /// Reads the value that the process, or its job, has put under the key, and converts it by
    /// `read`.
    fn read<T>(
        &self,
        from: &Proc,
        key: &CStr,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<T> {
        let mut value: *mut Value = std::ptr::null_mut();
        // SAFETY: valid pointers to the process, the key and the result; no info is passed.
        let code = unsafe { (self.get)(from, key.as_ptr(), std::ptr::null(), 0, &mut value) };
        let key = key.to_string_lossy();
        let whose = if from.rank == RANK_WILDCARD {
            "the job".to_owned()
        } else {
            format!("rank {}", from.rank)
        };
        self.check(code, &format!("PMIx_Get of {key} of {whose}"))?;
        if value.is_null() {
            return Err(Error::new(
                Status::IO_ERROR,
                format!("PMIx: there is no {key} of {whose}"),
            ));
        }
        // SAFETY: PMIx_Get succeeded with a value that is not null, and the caller owns it.
        let result = read(unsafe { &*value });
        // SAFETY: the value and a byte object's bytes were allocated by malloc, belong to the
        // caller, and are freed once. All other kinds that we ask for contain no pointers.
        unsafe {
            if (*value).kind == BYTE_OBJECT {
                libc::free((*value).data.bytes.bytes.cast());
            }
            libc::free(value.cast());
        }
        result.ok_or_else(|| {
            Error::new(Status::IO_ERROR, format!("PMIx: {key} of {whose} has an unexpected type"))
        })
    }
}

/// This process's connection to the launcher's server.
#[derive(Clone, Copy)]
struct Session {
    library: Library,
    me: Proc,
    size: u32,
}

impl Session {
    /// The only session of the process, which lasts until the process exits. After PMIx_Finalize a
    /// server treats the process as gone, and its later fences return partial success.
    fn get() -> Result<Self> {
        static SESSION: Mutex<Option<(Generation, Session)>> = Mutex::new(None);
        extern "C" fn end() {
            // Must not wait, as the process ends. A forked child has no session to end.
            let session = SESSION.try_lock().and_then(|mut session| session.take());
            if let Some((generation, session)) = session {
                if !generation.is_past() {
                    // SAFETY: matches the PMIx_Init below. PMIx counts its users in the process,
                    // Open MPI included.
                    unsafe { (session.library.finalize)(std::ptr::null(), 0) };
                }
            }
        }
        let mut kept = SESSION.lock();
        if let Some((generation, session)) = &*kept {
            if generation.is_past() {
                let text =
                    "bootstrap: PMIX cannot be used in a forked child: the launcher's server knows \
                    its parent alone";
                return Err(Error::new(Status::FORKED, text));
            }
            return Ok(*session);
        }
        let library = library()?;
        let mut me = Proc { namespace: [0; 256], rank: 0 };
        // SAFETY: a valid place for the name; no info. Signals are blocked, as this starts a
        // thread.
        let code = runtime::with_signals_blocked(|| unsafe {
            (library.init)(&mut me, std::ptr::null(), 0)
        });
        library.check(code, "PMIx_Init").map_err(|error| {
            let text = format!(
                "{}: is this process started by a launcher with PMIx (mpirun, srun --mpi=pmix)?",
                error.message()
            );
            Error::new(Status::UNREACHABLE, text)
        })?;
        let session = Session::complete(library, me).inspect_err(|_| {
            // SAFETY: matches the PMIx_Init above.
            unsafe { (library.finalize)(std::ptr::null(), 0) };
        })?;
        *kept = Some((Generation::current(), session));
        // A launcher treats a process that ends without PMIx_Finalize as failed, and ends the
        // others.
        // SAFETY: a function that does not unwind. It is registered after libpmix was loaded, so it
        // runs before libpmix's own exit handlers.
        unsafe { libc::atexit(end) };
        Ok(session)
    }

    fn complete(library: Library, me: Proc) -> Result<Self> {
        let job = Proc { rank: RANK_WILDCARD, ..me };
        let size = library.read(&job, c"pmix.job.size", |value| {
            // SAFETY: PMIx has set at least four bytes of the union, whatever the kind is.
            let number = unsafe { value.data.uint32 };
            (value.kind == UINT32).then_some(number)
        })?;
        if me.rank >= size || size > MOST_MEMBERS {
            let text = format!("PMIx: the launcher says that this is rank {} of {size}", me.rank);
            return Err(Error::new(Status::IO_ERROR, text));
        }
        Ok(Session { library, me, size })
    }
}

/// A group of the processes that a launcher started together.
pub(crate) struct Pmix {
    session: Session,
    timeout: u64,
    /// Distinguishes this group's keys from those of other groups of the process: keys are never
    /// removed.
    number: u32,
    exchanges: u32,
    failed: Option<(Status, String)>,
}

impl Pmix {
    pub(crate) fn open(timeout: u64) -> Result<Self> {
        static GROUPS: AtomicU32 = AtomicU32::new(0);
        let session = Session::get()?;
        let number = GROUPS.fetch_add(1, Ordering::Relaxed);
        Ok(Pmix { session, timeout, number, exchanges: 0, failed: None })
    }

    fn fence(&self) -> Result<()> {
        let seconds = self.timeout.div_ceil(1_000_000_000).clamp(1, c_int::MAX as u64) as c_int;
        let infos = [
            Info::new(c"pmix.collect", BOOL, Data { flag: true }),
            Info::new(c"pmix.timeout", INT, Data { integer: seconds }),
        ];
        // Launchers that do not know the time limit ignore it. Leaving it out means no limit.
        let count = if self.timeout == u64::MAX { 1 } else { 2 };
        // SAFETY: null means all processes of the job; the infos are valid, and `count` of them
        // exist.
        let code =
            unsafe { (self.session.library.fence)(std::ptr::null(), 0, infos.as_ptr(), count) };
        self.session.library.check(code, "PMIx_Fence")
    }

    fn try_exchange(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let Session { library, me, size } = self.session;
        if mine.len() > LONGEST_PART {
            let (rank, length) = (me.rank, mine.len());
            let text = format!(
                "rank {rank} has {length} bytes to exchange; at most {LONGEST_PART} are possible"
            );
            return Err(Error::new(Status::EXCEEDS_LIMIT, text));
        }
        let key =
            CString::new(format!("ucxx_rs.{}.{}", self.number, self.exchanges)).unwrap_or_default();
        self.exchanges += 1;
        // Never empty: PMIx does not transport empty values.
        let mut framed = vec![0u8];
        framed.extend_from_slice(mine);
        let bytes = Bytes { bytes: framed.as_mut_ptr().cast(), size: framed.len() };
        let mut value = Value { kind: BYTE_OBJECT, data: Data { bytes } };
        // SAFETY: a valid key and value, which PMIx copies.
        let code = unsafe { (library.put)(GLOBAL, key.as_ptr(), &mut value) };
        library.check(code, "PMIx_Put")?;
        // SAFETY: `Session::get` has initialised PMIx.
        let code = unsafe { (library.commit)() };
        library.check(code, "PMIx_Commit")?;
        self.fence()?;
        let mut parts = Vec::new();
        for rank in 0..size {
            let part = if rank == me.rank {
                mine.to_vec()
            } else {
                library.read(&Proc { rank, ..me }, &key, read_part)?
            };
            parts.push(part);
        }
        Ok(parts)
    }
}

fn read_part(value: &Value) -> Option<Vec<u8>> {
    if value.kind != BYTE_OBJECT {
        return None;
    }
    // SAFETY: the kind says that this member of the union is set.
    let Bytes { bytes, size } = unsafe { value.data.bytes };
    if bytes.is_null() || !(1..=LONGEST_PART + 1).contains(&size) {
        return None;
    }
    // SAFETY: not null, and PMIx set `size` bytes, which live as long as the value.
    Some(unsafe { std::slice::from_raw_parts(bytes.cast_const().cast::<u8>(), size) }[1..].to_vec())
}

impl Bootstrap for Pmix {
    fn rank(&self) -> u32 {
        self.session.me.rank
    }

    fn size(&self) -> u32 {
        self.session.size
    }

    fn exchange(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        if let Some((status, text)) = &self.failed {
            return Err(Error::new(*status, text.clone()));
        }
        self.try_exchange(mine)
            .inspect_err(|error| self.failed = Some((error.status(), error.message().to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structs_are_those_of_pmix() {
        // Sizes as a C compiler has them, from pmix_common.h 4.2.2, on x86_64 and aarch64.
        assert_eq!((size_of::<Proc>(), size_of::<Value>(), size_of::<Info>()), (260, 32, 552));
        assert_eq!(
            (std::mem::offset_of!(Info, value), std::mem::offset_of!(Value, data)),
            (520, 8)
        );
        let info = Info::new(c"pmix.timeout", INT, Data { longest: [0; 3] });
        assert_eq!((info.flags, info.key[0] as u8, info.key[12]), (0, b'p', 0));
    }
}
