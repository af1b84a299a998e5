//! Frees a new thread from the scheduler it was born on. Under `+sbt` the BEAM binds its threads to cores, and a
//! thread inherits the binding of the one that starts it; two control threads must not share one scheduler's core.

/// Gives the calling thread the cores of the process's first thread, which the BEAM never binds and which keeps what
/// `taskset` and the like have set. Where that cannot be had the inherited binding stays: slower, not wrong.
#[cfg(target_os = "linux")]
pub(crate) fn reset() {
    use nix::sched::{sched_getaffinity, sched_setaffinity};
    use nix::unistd::Pid;
    let this_thread = Pid::from_raw(0);
    let _ = sched_getaffinity(Pid::this()).and_then(|cores| sched_setaffinity(this_thread, &cores));
}

/// Other systems bind no threads, or have no safe call for it.
#[cfg(not(target_os = "linux"))]
pub(crate) fn reset() {}
