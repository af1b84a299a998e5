//! What a scheduler thread keeps for itself between calls: caches and buffers that no process owns.

use crate::atoms::AtomCache;
use crate::pids::PidTables;
use crate::session::RouteCache;
use std::cell::RefCell;

/// One thread's working set.
pub struct Scratch {
    pub atoms: AtomCache,
    pub pids: PidTables,
    /// The frame that is being encoded.
    pub frame: Vec<u8>,
    /// Atoms that the frame may be the first to use.
    pub fresh: Vec<u16>,
    /// Work done for processes on this thread that has not been reported to the scheduler, in bytes.
    pub unreported: usize,
}

struct Kept {
    routes: RouteCache,
    scratch: Scratch,
}

thread_local! {
    static KEPT: RefCell<Option<Box<Kept>>> = const { RefCell::new(None) };
}

/// Runs `f` with this thread's scratch. NIFs do not nest, so it is never taken twice.
#[inline(always)]
pub fn with<R>(f: impl FnOnce(&mut Scratch) -> R) -> R {
    KEPT.with_borrow_mut(|slot| f(&mut slot.get_or_insert_with(new).scratch))
}

/// The same with the thread's routes beside it, so that a session can be looked at without counting the look.
#[inline(always)]
pub fn with_routes<R>(f: impl FnOnce(&mut RouteCache, &mut Scratch) -> R) -> R {
    KEPT.with_borrow_mut(|slot| {
        let kept = slot.get_or_insert_with(new);
        f(&mut kept.routes, &mut kept.scratch)
    })
}

#[cold]
fn new() -> Box<Kept> {
    let scratch = Scratch {
        atoms: AtomCache::new(),
        pids: PidTables::new(),
        frame: Vec::with_capacity(4096),
        fresh: Vec::new(),
        unreported: 0,
    };
    Box::new(Kept {
        routes: RouteCache::new(),
        scratch,
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
