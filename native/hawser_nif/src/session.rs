//! A live session with one peer: its shards, its limits, and the way from a node's name to it.
//!
//! Routes are read by every push: a thread asks its own cache, which is good as long as the generation stands. The
//! owner process opens, routes and closes a session; the death of a process that a shard needs closes it as well.

use crate::pids::NodeIdentity;
use crate::shard::Shard;
use crate::vm::{Immediate, Vm};
use once_cell::sync::Lazy;
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Bounds that the owner sets, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub max_message_bytes: usize,
    pub max_queue_bytes: usize,
    pub reply_reserve_bytes: usize,
    pub max_unacked_bytes: usize,
    pub ack_every_bytes: usize,
}

/// Messages that were not delivered, by reason.
#[derive(Default)]
pub struct Dropped {
    pub stale_pid: AtomicU64,
    pub unknown_name: AtomicU64,
    pub stale_alias: AtomicU64,
    /// Answers to calls that nobody waits for any more.
    pub late_answer: AtomicU64,
    /// Calls that arrived after their deadline and were not executed.
    pub expired_call: AtomicU64,
    /// Casts for which no process could be started.
    pub refused_cast: AtomicU64,
    pub queued_at_close_bytes: AtomicU64,
    /// Sent, and not known to have arrived.
    pub unacked_at_close_bytes: AtomicU64,
}

/// One session.
pub struct Session {
    pub node: Immediate,
    pub own: NodeIdentity,
    pub peer: NodeIdentity,
    pub limits: Limits,
    pub shards: Vec<Arc<Shard>>,
    pub dropped: Dropped,
    closed: AtomicBool,
}

static ROUTES: Lazy<RwLock<HashMap<Immediate, Arc<Session>>>> = Lazy::new(Default::default);
static GENERATION: AtomicU64 = AtomicU64::new(1);

impl Session {
    pub fn new(
        node: Immediate,
        own: NodeIdentity,
        peer: NodeIdentity,
        limits: Limits,
        shards: Vec<Arc<Shard>>,
    ) -> Arc<Self> {
        let session = Arc::new(Session {
            node,
            own,
            peer,
            limits,
            shards,
            dropped: Dropped::default(),
            closed: AtomicBool::new(false),
        });
        for shard in &session.shards {
            shard.belong_to(&session);
        }
        session
    }

    /// Pushes for the node go through this session from now on. False when it is closed.
    pub fn up(self: &Arc<Self>) -> bool {
        let mut routes = ROUTES.write();
        if self.closed.load(Ordering::Acquire) {
            return false;
        }
        routes.insert(self.node, self.clone());
        GENERATION.fetch_add(1, Ordering::AcqRel);
        true
    }

    /// Withdraws the route, if it is this session's. What is queued still goes out.
    pub fn down(&self) {
        let mut routes = ROUTES.write();
        if routes
            .get(&self.node)
            .is_some_and(|routed| std::ptr::eq(routed.as_ref(), self))
        {
            routes.remove(&self.node);
            GENERATION.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Ends the session: no route, no sockets, nothing queued. Idempotent.
    pub fn close(&self, vm: Vm<'_>) {
        self.closed.store(true, Ordering::Release);
        self.down();
        for shard in &self.shards {
            let cut = shard.close(vm);
            let dropped = &self.dropped;
            dropped
                .queued_at_close_bytes
                .fetch_add(cut.queued as u64, Ordering::Relaxed);
            dropped
                .unacked_at_close_bytes
                .fetch_add(cut.unacked as u64, Ordering::Relaxed);
        }
    }

    /// The shard of a sender: always the same one, whatever it sends to.
    #[inline]
    pub fn shard_of(&self, sender: Immediate) -> Option<&Arc<Shard>> {
        let spread = (sender.mixed() >> 32) as usize;
        self.shards.get((spread * self.shards.len()) >> 32)
    }
}

/// The session that a node's messages go through, without a thread's cache.
pub fn routed(node: Immediate) -> Option<Arc<Session>> {
    ROUTES.read().get(&node).cloned()
}

/// One thread's short cut from a node to its session.
pub struct RouteCache {
    generation: u64,
    known: Vec<(Immediate, Option<Arc<Session>>)>,
}

/// Nodes that a thread remembers; a further one takes the place of the last.
const KNOWN: usize = 64;

impl RouteCache {
    pub const fn new() -> Self {
        RouteCache {
            generation: 0,
            known: Vec::new(),
        }
    }

    #[inline]
    pub fn find(&mut self, node: Immediate) -> Option<&Session> {
        let generation = GENERATION.load(Ordering::Acquire);
        if generation != self.generation {
            self.known.clear();
            self.generation = generation;
        }
        let at = match self.known.iter().position(|(known, _)| *known == node) {
            Some(at) => at,
            None => {
                self.known.truncate(KNOWN - 1);
                self.known.push((node, routed(node)));
                self.known.len() - 1
            }
        };
        self.known
            .get(at)
            .and_then(|(_, session)| session.as_deref())
    }
}

/// Incarnations of nodes that are remembered at a time.
const IDENTITIES: usize = 1024;

/// Gives a node's name and creation an epoch of their own, the same one each time it is asked with them.
pub fn identity(name: String, creation: u32) -> NodeIdentity {
    static KNOWN: Lazy<Mutex<HashMap<(String, u32), u32>>> = Lazy::new(Default::default);
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let mut known = KNOWN.lock();
    if known.len() >= IDENTITIES {
        // Who is asked for again gets another epoch, which costs a few misses in the pid tables and nothing else.
        known.clear();
    }
    let epoch = *known
        .entry((name.clone(), creation))
        .or_insert_with(|| NEXT.fetch_add(1, Ordering::Relaxed));
    drop(known);
    NodeIdentity {
        name,
        creation,
        epoch,
    }
}
