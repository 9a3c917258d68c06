//! Scheduling of our threads: CPU affinity and time slices.

use crate::engine::base::status::{Error, Result};
use rustix::thread::{sched_setaffinity, CpuSet};

/// Binds the calling thread to one CPU.
pub(crate) fn pin(cpu: usize) -> Result<()> {
    let refused = |cause: &str| Error::invalid(format!("cpu: {cpu} cannot be used: {cause}"));
    if cpu >= CpuSet::MAX_CPU {
        return Err(refused("there is no such CPU"));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(|cause| refused(&cause.to_string()))
}

/// The kernel's `struct sched_attr` (sched_setattr(2)), first version.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// The shortest slice that the kernel allows.
const SHORT_SLICE_NS: u64 = 100_000;

/// For a thread that does little each time it wakes, and that others wait for: asks for short time
/// slices. The kernel then runs it sooner, even if another thread computes on its CPU (EEVDF, Linux
/// 6.12). Its share of CPU time stays the same. Older kernels ignore the request.
pub(crate) fn prefer_short_slices() {
    const SIZE: u32 = size_of::<Attributes>() as u32;
    let mut attributes = Attributes::default();
    // SAFETY: a struct of the stated size, for the calling thread.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, SIZE, 0) };
    let is_usual = [libc::SCHED_OTHER, libc::SCHED_BATCH].contains(&(attributes.policy as i32));
    if got != 0 || !is_usual {
        return;
    }
    attributes.size = SIZE;
    attributes.runtime = SHORT_SLICE_NS;
    // SAFETY: a valid struct of the stated size. All other attributes keep their values, and a
    // failure changes nothing.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes() -> Attributes {
        let mut attributes = Attributes::default();
        // SAFETY: a struct of the stated size, for the calling thread.
        let got = unsafe {
            libc::syscall(
                libc::SYS_sched_getattr,
                0,
                &raw mut attributes,
                size_of::<Attributes>(),
                0,
            )
        };
        assert_eq!(got, 0);
        attributes
    }

    #[test]
    fn slices_become_short_and_nothing_else_changes() {
        std::thread::spawn(|| {
            // SAFETY: takes numbers only; every thread may lower its own priority.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 3) };
            let before = attributes();
            prefer_short_slices();
            let after = attributes();
            assert_eq!((after.policy, after.flags, after.nice), (before.policy, before.flags, 3));
            // 0 if the kernel has no slices.
            assert!(before.runtime == 0 || after.runtime == SHORT_SLICE_NS, "{}", after.runtime);
        })
        .join()
        .unwrap();
    }
}
