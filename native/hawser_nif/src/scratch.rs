//! What a scheduler thread keeps for itself between calls: caches and buffers that no process owns.

use crate::atoms::AtomCache;
use crate::pids::PidTables;
use crate::session::RouteCache;
use std::cell::RefCell;

/// Bytes asked of a socket in one call.
pub const READ_BYTES: usize = 64 * 1024;

/// One thread's working set.
pub struct Scratch {
    pub atoms: AtomCache,
    pub pids: PidTables,
    pub routes: RouteCache,
    /// The frame that is being encoded.
    pub frame: Vec<u8>,
    /// Atoms that the frame may be the first to use.
    pub fresh: Vec<u16>,
    /// What a socket gave.
    pub read: Vec<u8>,
    /// Work done for processes on this thread that has not been reported to the scheduler, in bytes.
    pub unreported: usize,
}

thread_local! {
    static SCRATCH: RefCell<Option<Box<Scratch>>> = const { RefCell::new(None) };
}

/// Runs `f` with this thread's scratch. NIFs do not nest, so it is never taken twice.
#[inline(always)]
pub fn with<R>(f: impl FnOnce(&mut Scratch) -> R) -> R {
    SCRATCH.with_borrow_mut(|slot| f(slot.get_or_insert_with(new)))
}

#[cold]
fn new() -> Box<Scratch> {
    Box::new(Scratch {
        atoms: AtomCache::new(),
        pids: PidTables::new(),
        routes: RouteCache::new(),
        frame: Vec::with_capacity(4096),
        fresh: Vec::new(),
        read: Vec::new(),
        unreported: 0,
    })
}

/// Encoded bytes that count as one percent of a time slice (10 microseconds).
const BYTES_PER_PERCENT: usize = 4096;

impl Scratch {
    /// Notes work; answers the percent of a time slice to report now, 0 for nothing yet.
    #[inline]
    pub fn worked(&mut self, bytes: usize) -> i32 {
        self.unreported += bytes;
        if self.unreported < BYTES_PER_PERCENT {
            return 0;
        }
        let percent = (self.unreported / BYTES_PER_PERCENT).min(100);
        self.unreported = 0;
        percent as i32
    }
}
