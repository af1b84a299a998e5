//! The callers that wait for answers on one shard: the table of their calls, with what is needed to reach them.
//!
//! A caller is reached by its alias, which it drops when it stops waiting, so that no answer ever comes late. An entry
//! keeps the alias in an environment of its own, which is used again for the next call.

use crate::vm::kept::KeptOne;
use crate::vm::{LocalPid, Vm, Word};
use hawser_core::calls::Calls;
use hawser_core::wire::CallId;
use std::sync::atomic::{AtomicU32, Ordering};

/// Environments kept for use again, under load and from one heartbeat to the next; what is beyond that is freed.
const SPARE: usize = 16 * 1024;
const SPARE_WHEN_QUIET: usize = 256;
/// Entries looked at in one sweep, and environments freed.
const SWEPT_AT_ONCE: usize = 32 * 1024;
const FREED_AT_ONCE: usize = 2 * 1024;

struct Caller {
    pid: LocalPid,
    alias: KeptOne,
}

/// One shard's waiting callers.
pub struct Waiting {
    calls: Calls<Caller>,
    spare: Vec<KeptOne>,
}

impl Waiting {
    pub fn new(shard: usize) -> Self {
        // Numbers of one session mean nothing in another.
        static NEXT_SESSION: AtomicU32 = AtomicU32::new(0);
        let first_use = NEXT_SESSION.fetch_add(0x0100_0193, Ordering::Relaxed);
        Waiting {
            calls: Calls::new(shard as u8, first_use),
            spare: Vec::new(),
        }
    }

    /// Enters the calling process. `None` when too many wait.
    pub fn enter(&mut self, vm: Vm<'_>, alias: Word<'_>) -> Option<CallId> {
        let pid = vm.self_pid()?;
        let mut kept = self.spare.pop().unwrap_or_default();
        kept.set(alias);
        self.calls.enter(Caller { pid, alias: kept }).ok()
    }

    /// Takes a call out; answers the alias of who waited for it, if anybody still did.
    pub fn take(&mut self, id: CallId) -> Option<KeptOne> {
        self.calls.take(id).map(|caller| caller.alias)
    }

    /// Takes back what `take` gave, for use again.
    pub fn give_back(&mut self, aliases: impl Iterator<Item = KeptOne>) {
        let room = SPARE - self.spare.len().min(SPARE);
        self.spare.extend(aliases.take(room));
    }

    /// Takes everybody out.
    pub fn drain<'a>(&mut self, vm: Vm<'a>) -> Vec<Word<'a>> {
        self.calls
            .drain()
            .filter_map(|caller| caller.alias.copy(vm))
            .collect()
    }

    /// Forgets callers that have died and gives back what a burst has left, a bounded number of them at a time.
    pub fn sweep(&mut self, vm: Vm<'_>) {
        self.calls
            .retain(SWEPT_AT_ONCE, |caller| vm.is_alive(caller.pid));
        let wanted = SPARE_WHEN_QUIET.max(self.calls.waiting());
        let kept = self.spare.len().saturating_sub(FREED_AT_ONCE).max(wanted);
        self.spare.truncate(kept);
        self.spare.shrink_to(kept);
    }

    /// Calls that wait.
    pub fn count(&self) -> usize {
        self.calls.waiting()
    }
}
