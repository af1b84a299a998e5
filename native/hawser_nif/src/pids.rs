//! Pids on their way in and out, without going through external term format each time.
//!
//! Four small tables per scheduler thread, all direct-mapped, so bounded: this node's pids to numbers (encoding),
//! numbers to this node's pids (decoding), and the same for the peer's pids, which are boxed terms and therefore kept
//! in an environment that is emptied when it has taken enough of them. What a table does not know is asked of the VM.

use crate::vm::kept::{Kept, KeptTerm};
use crate::vm::{Immediate, Kind, Vm, Word};
use hawser_core::etf::{self, Pid};

/// Slots of a table at first, and at the most: one grows while it is asked for more than it can hold.
const FEWEST: usize = 256;
const MOST: usize = 16 * 1024;
/// Kept terms after which the environment that holds them is emptied.
const KEEP_AT_MOST: usize = 2 * MOST;

/// A direct-mapped table: an entry's place is its hash, and a newcomer takes the place of who stood there.
struct Slots<T> {
    slots: Vec<Option<T>>,
    misses: usize,
}

impl<T: Copy> Slots<T> {
    fn new() -> Self {
        Slots {
            slots: vec![None; FEWEST],
            misses: 0,
        }
    }

    #[inline]
    fn get(&self, hash: usize) -> Option<T> {
        self.slots
            .get(hash & (self.slots.len() - 1))
            .copied()
            .flatten()
    }

    /// Takes an entry that was missed. A table in which most is missed gets four times the room, empty.
    fn put(&mut self, hash: usize, entry: T) {
        self.misses += 1;
        if self.misses > 4 * self.slots.len() && self.slots.len() < MOST {
            let more = 4 * self.slots.len();
            *self = Slots {
                slots: vec![None; more],
                misses: 0,
            };
        }
        let at = hash & (self.slots.len() - 1);
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = Some(entry);
        }
    }
}

/// Name and creation of a node at one time; `epoch` differs whenever one of them does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeIdentity {
    pub name: String,
    pub creation: u32,
    pub epoch: u32,
}

/// Where a foreign pid belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Belongs {
    /// A process of the peer's present incarnation.
    Peer { id: u32, serial: u32 },
    /// A process of an earlier incarnation of the peer, or of another node.
    Elsewhere,
}

#[derive(Clone, Copy)]
struct Numbers {
    id: u32,
    serial: u32,
}

#[derive(Clone, Copy)]
struct Decoded<T> {
    id: u32,
    serial: u32,
    epoch: u32,
    term: T,
}

/// One thread's tables.
pub struct PidTables {
    own_out: Slots<(Immediate, Numbers)>,
    own_in: Slots<Decoded<Immediate>>,
    peer_out: Slots<(KeptTerm, u32, Belongs)>,
    peer_in: Slots<Decoded<KeptTerm>>,
    kept: Kept,
    kept_count: usize,
}

impl PidTables {
    pub fn new() -> Self {
        PidTables {
            own_out: Slots::new(),
            own_in: Slots::new(),
            peer_out: Slots::new(),
            peer_in: Slots::new(),
            kept: Kept::new(),
            kept_count: 0,
        }
    }

    /// Id and serial of a pid of this node.
    #[inline]
    pub fn own_numbers(&mut self, vm: Vm<'_>, pid: Immediate) -> Option<(u32, u32)> {
        let hash = pid.mixed() as usize;
        if let Some((known, Numbers { id, serial })) = self.own_out.get(hash)
            && known == pid
        {
            return Some((id, serial));
        }
        let Pid { id, serial, .. } = external(vm, pid.word())?;
        self.own_out.put(hash, (pid, Numbers { id, serial }));
        Some((id, serial))
    }

    /// The pid of this node with these numbers. `None` when the node is not `own` any more.
    #[inline]
    pub fn own_pid<'a>(
        &mut self,
        vm: Vm<'a>,
        own: &NodeIdentity,
        id: u32,
        serial: u32,
    ) -> Option<Word<'a>> {
        let hash = spread(id, serial);
        if let Some(d) = self.own_in.get(hash)
            && (d.id, d.serial, d.epoch) == (id, serial, own.epoch)
        {
            return Some(d.term.word());
        }
        let word = decode(vm, own, id, serial)?;
        if vm.kind(word) != Kind::LocalPid {
            return None;
        }
        let term = vm.immediate(word)?;
        self.own_in.put(
            hash,
            Decoded {
                id,
                serial,
                epoch: own.epoch,
                term,
            },
        );
        Some(word)
    }

    /// Where a pid that is not this node's belongs, seen from a session with `peer`.
    #[inline]
    pub fn belongs<'a>(
        &mut self,
        vm: Vm<'a>,
        pid: Word<'a>,
        peer: &NodeIdentity,
    ) -> Option<Belongs> {
        let hash = vm.hash(pid) as usize;
        if let Some((kept, epoch, belongs)) = self.peer_out.get(hash)
            && epoch == peer.epoch
            && self.kept.same(kept, pid)
        {
            return Some(belongs);
        }
        let Pid {
            node,
            id,
            serial,
            creation,
        } = external(vm, pid)?;
        let belongs = if node == peer.name && creation == peer.creation {
            Belongs::Peer { id, serial }
        } else {
            Belongs::Elsewhere
        };
        let kept = self.keep(pid);
        self.peer_out.put(hash, (kept, peer.epoch, belongs));
        Some(belongs)
    }

    /// The pid of the peer with these numbers.
    #[inline]
    pub fn peer_pid<'a>(
        &mut self,
        vm: Vm<'a>,
        peer: &NodeIdentity,
        id: u32,
        serial: u32,
    ) -> Option<Word<'a>> {
        let hash = spread(id, serial);
        if let Some(d) = self.peer_in.get(hash)
            && (d.id, d.serial, d.epoch) == (id, serial, peer.epoch)
            && let Some(word) = self.kept.copy(d.term, vm)
        {
            return Some(word);
        }
        let word = decode(vm, peer, id, serial)?;
        let term = self.keep(word);
        self.peer_in.put(
            hash,
            Decoded {
                id,
                serial,
                epoch: peer.epoch,
                term,
            },
        );
        Some(word)
    }

    fn keep(&mut self, word: Word<'_>) -> KeptTerm {
        if self.kept_count >= KEEP_AT_MOST {
            self.kept.clear();
            self.kept_count = 0;
        }
        self.kept_count += 1;
        self.kept.keep(word)
    }
}

fn spread(id: u32, serial: u32) -> usize {
    (id ^ serial.wrapping_mul(0x9E37_79B1)) as usize
}

fn external<'a>(vm: Vm<'a>, pid: Word<'a>) -> Option<Pid> {
    etf::parse_pid(vm.encode(pid)?.bytes().get(1..)?).ok()
}

fn decode<'a>(vm: Vm<'a>, node: &NodeIdentity, id: u32, serial: u32) -> Option<Word<'a>> {
    let mut bytes = Vec::with_capacity(64);
    bytes.push(etf::VERSION);
    etf::write_pid(&node.name, id, serial, node.creation, &mut bytes);
    vm.decode(&bytes)
}
