//! What callers have encoded and the flusher has not taken: frames in segments, in the order of their pushes.
//!
//! The lock is held to copy a frame and to swap lists, never to allocate a segment, to encode or to write. The queue
//! knows whether the flusher has been told that there is work: the push that finds it idle has to kick it.

use bytes::{Bytes, BytesMut};
use hawser_core::dictionary::{AtomId, UsedAtoms};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::encode::UsedBits;

/// Size of a segment. Frames of more than half of it stand alone.
const SEGMENT: usize = 32 * 1024;

/// A body takes pieces up to this many bytes, and at least one piece.
const BODY: usize = 256 * 1024;

/// What a push found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// Queued; the flusher knows already.
    Queued,
    /// Queued; the caller has to kick the flusher.
    Kick,
    /// The queue is over its limit: wait for room.
    Busy,
    /// The session has ended.
    Closed,
}

#[derive(Default)]
struct Inner {
    open: BytesMut,
    full: Vec<Bytes>,
    used: UsedAtoms,
    kicked: bool,
    stalled: bool,
    closed: bool,
}

/// The queue of one shard.
pub struct Queue {
    inner: Mutex<Inner>,
    bytes: AtomicUsize,
    limit: usize,
    /// Which atoms stand in `used`.
    pub used_bits: UsedBits,
}

/// What the flusher takes at once.
pub struct Taken {
    pub pieces: Vec<Bytes>,
    pub announce_upto: usize,
}

impl Queue {
    pub fn new(limit: usize) -> Self {
        Queue {
            inner: Mutex::default(),
            bytes: AtomicUsize::new(0),
            limit,
            used_bits: UsedBits::new(),
        }
    }

    /// Bytes queued at this moment.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Room below the limit.
    pub fn room(&self) -> usize {
        self.limit.saturating_sub(self.bytes())
    }

    /// Appends a frame given in parts (head and content). `fresh` are the atoms that it may be the first to use.
    pub fn push(&self, frame: &[u8], large: Option<Bytes>, fresh: &[AtomId]) -> Pushed {
        let length = frame.len() + large.as_ref().map_or(0, Bytes::len);
        let alone = frame.len() > SEGMENT / 2;
        let mut own = alone.then(|| Bytes::copy_from_slice(frame));
        let mut segment = None;
        loop {
            let mut inner = self.inner.lock();
            if inner.closed {
                return Pushed::Closed;
            }
            if self.bytes() >= self.limit {
                return Pushed::Busy;
            }
            if own.is_none() && inner.open.capacity() - inner.open.len() < frame.len() {
                let Some(new) = segment.take() else {
                    // Allocate outside the lock, then look again.
                    drop(inner);
                    segment = Some(BytesMut::with_capacity(SEGMENT));
                    continue;
                };
                let filled = std::mem::replace(&mut inner.open, new);
                if !filled.is_empty() {
                    inner.full.push(filled.freeze());
                }
            }
            for id in fresh {
                if self.used_bits.set(*id) {
                    inner.used.note(*id);
                }
            }
            match own.take() {
                Some(own) => {
                    inner.seal();
                    inner.full.push(own);
                }
                None => inner.open.extend_from_slice(frame),
            }
            if let Some(large) = large {
                inner.seal();
                inner.full.push(large);
            }
            self.bytes.fetch_add(length, Ordering::Relaxed);
            let kick = !inner.kicked && !inner.stalled;
            inner.kicked |= kick;
            return if kick { Pushed::Kick } else { Pushed::Queued };
        }
    }

    /// Notes that the flusher has to look at something else than frames. True when the caller has to kick it.
    pub fn poke(&self) -> bool {
        let mut inner = self.inner.lock();
        !inner.closed && !std::mem::replace(&mut inner.kicked, true)
    }

    /// Takes the next body. `None` when nothing is queued; then, if `idle` agrees, the next push kicks again.
    pub fn take(&self, idle: impl Fn() -> bool) -> Option<Taken> {
        let mut inner = self.inner.lock();
        inner.stalled = false;
        inner.seal();
        if inner.full.is_empty() {
            if idle() {
                inner.kicked = false;
            }
            return None;
        }
        let mut bytes = 0;
        let count = inner.full.iter().take_while(|piece| {
            let fits = bytes == 0 || bytes + piece.len() <= BODY;
            if fits {
                bytes += piece.len();
            }
            fits
        });
        let count = count.count();
        let pieces = if count == inner.full.len() {
            std::mem::take(&mut inner.full)
        } else {
            inner.full.drain(..count).collect()
        };
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        Some(Taken {
            pieces,
            announce_upto: inner.used.len(),
        })
    }

    /// The flusher may not send now, since too much is unacknowledged: pushes leave it alone until it takes again.
    /// Answers false, and changes nothing, when `still` says that there is something to do after all.
    pub fn stall(&self, still: impl Fn() -> bool) -> bool {
        let mut inner = self.inner.lock();
        if !still() {
            return false;
        }
        inner.stalled = true;
        inner.kicked = false;
        true
    }

    /// Room to send has come. True when the flusher waits for that and the caller has to kick it.
    pub fn unstall(&self) -> bool {
        let mut inner = self.inner.lock();
        inner.stalled && !inner.closed && !std::mem::replace(&mut inner.kicked, true)
    }

    /// Gives the segment back that an idle shard does not need.
    pub fn trim(&self) {
        let mut inner = self.inner.lock();
        if inner.open.is_empty() && inner.full.is_empty() {
            inner.open = BytesMut::new();
        }
    }

    /// The ids between two positions of the order of first use.
    pub fn used_range(&self, from: usize, upto: usize) -> Vec<AtomId> {
        if from >= upto {
            return Vec::new();
        }
        self.inner.lock().used.range(from, upto).to_vec()
    }

    /// Ends the queue and drops what is in it; returns how many bytes that was.
    pub fn close(&self) -> usize {
        let dropped = {
            let mut inner = self.inner.lock();
            inner.closed = true;
            (
                std::mem::take(&mut inner.open),
                std::mem::take(&mut inner.full),
            )
        };
        drop(dropped);
        self.bytes.swap(0, Ordering::Relaxed)
    }
}

impl Inner {
    /// Moves what the open segment holds behind the full ones; its rest stays open.
    fn seal(&mut self) {
        if !self.open.is_empty() {
            let filled = self.open.split().freeze();
            self.full.push(filled);
        }
    }
}
