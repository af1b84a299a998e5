//! What callers have encoded and the flusher has not taken: frames in segments, in the order of their pushes.
//!
//! The lock is held to copy a frame and to move lists of pieces, never to allocate a segment, to encode or to write. A
//! push that finds room goes ahead of callers that wait for it: they are woken in the order they came, and one that
//! finds the room taken keeps its place. Answers may go past the limit by the reserve, so that a caller need not wait for
//! other callers' room. The queue knows whether the flusher has been told that there is work: the push that finds it idle has to kick it.

use crate::dictionary::{AtomId, UsedAtoms, UsedBits};
use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

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

/// How far a push may fill the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Up to the limit.
    Common,
    /// Up to the limit and the reserve behind it.
    Answers,
}

/// Bytes that are sent together with what follows them, unless a frame ends here.
struct Piece {
    bytes: Bytes,
    frame_ends: bool,
}

#[derive(Default)]
struct Inner {
    open: BytesMut,
    full: Vec<Piece>,
    used: UsedAtoms,
    pushed: u64,
    kicked: bool,
    stalled: bool,
    closed: bool,
}

/// The queue of one shard.
pub struct Queue {
    inner: Mutex<Inner>,
    bytes: AtomicUsize,
    limit: usize,
    reserve: usize,
    /// Which atoms stand in `used`.
    pub used_bits: UsedBits,
}

/// What the flusher takes at once.
#[derive(Debug)]
pub struct Taken {
    pub pieces: Vec<Bytes>,
    pub announce_upto: usize,
}

impl Queue {
    pub fn new(limit: usize, reserve: usize) -> Self {
        Queue {
            inner: Mutex::default(),
            bytes: AtomicUsize::new(0),
            limit,
            reserve,
            used_bits: UsedBits::default(),
        }
    }

    /// Bytes queued at this moment.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Frames queued since the beginning.
    pub fn pushed(&self) -> u64 {
        self.inner.lock().pushed
    }

    /// Room below the limit.
    pub fn room(&self) -> usize {
        self.limit.saturating_sub(self.bytes())
    }

    /// No push of this share finds room.
    pub fn is_full(&self, share: Share) -> bool {
        let limit = match share {
            Share::Common => self.limit,
            Share::Answers => self.limit.saturating_add(self.reserve),
        };
        self.bytes() >= limit
    }

    /// Appends a frame given in parts (head and content). `fresh` are the atoms that it may be the first to use.
    pub fn push(
        &self,
        share: Share,
        frame: &[u8],
        large: Option<Bytes>,
        fresh: &[AtomId],
    ) -> Pushed {
        let length = frame.len() + large.as_ref().map_or(0, Bytes::len);
        let alone = frame.len() > SEGMENT / 2;
        let mut own = alone.then(|| Bytes::copy_from_slice(frame));
        let mut segment = None;
        loop {
            let mut inner = self.inner.lock();
            if inner.closed {
                return Pushed::Closed;
            }
            if self.is_full(share) {
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
                    inner.full.push(Piece {
                        bytes: filled.freeze(),
                        frame_ends: true,
                    });
                }
            }
            for id in fresh {
                if self.used_bits.set(*id) {
                    inner.used.note(*id);
                }
            }
            match own.take() {
                Some(bytes) => {
                    inner.seal(true);
                    inner.full.push(Piece {
                        bytes,
                        frame_ends: large.is_none(),
                    });
                }
                None => inner.open.extend_from_slice(frame),
            }
            if let Some(bytes) = large {
                // The segment ends with this frame's head.
                inner.seal(false);
                inner.full.push(Piece {
                    bytes,
                    frame_ends: true,
                });
            }
            self.bytes.fetch_add(length, Ordering::Relaxed);
            inner.pushed += 1;
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
        inner.seal(true);
        if inner.full.is_empty() {
            if idle() {
                inner.kicked = false;
            }
            return None;
        }
        let mut bytes = 0;
        let mut pieces = Vec::with_capacity(inner.full.len());
        let mut between_frames = true;
        let rest = inner.full.iter().position(|piece| {
            let full = between_frames && bytes > 0 && bytes + piece.bytes.len() > BODY;
            if !full {
                bytes += piece.bytes.len();
                between_frames = piece.frame_ends;
            }
            full
        });
        let upto = rest.unwrap_or(inner.full.len());
        pieces.extend(inner.full.drain(..upto).map(|piece| piece.bytes));
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

    /// Ends an empty queue: nothing is to be sent any more. False, and nothing changed, when something is queued.
    pub fn finish(&self) -> bool {
        let mut inner = self.inner.lock();
        let empty = inner.open.is_empty() && inner.full.is_empty();
        inner.closed |= empty;
        empty
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
    fn seal(&mut self, frame_ends: bool) {
        if !self.open.is_empty() {
            let bytes = self.open.split().freeze();
            self.full.push(Piece { bytes, frame_ends });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn queue() -> Queue {
        Queue::new(64 << 20, 0)
    }

    fn taken(queue: &Queue) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| queue.take(|| true))
            .map(|taken| {
                taken
                    .pieces
                    .iter()
                    .flat_map(|piece| piece.to_vec())
                    .collect()
            })
            .collect()
    }

    #[test]
    fn the_push_that_finds_the_flusher_idle_kicks_it_and_no_other_does() {
        let queue = queue();
        assert_eq!(queue.push(Share::Common, b"a", None, &[]), Pushed::Kick);
        assert_eq!(queue.push(Share::Common, b"b", None, &[]), Pushed::Queued);
        assert!(!queue.poke());
        assert!(queue.take(|| true).is_some());
        assert_eq!(queue.push(Share::Common, b"c", None, &[]), Pushed::Queued);
        assert!(queue.take(|| true).is_some());
        assert!(queue.take(|| false).is_none());
        assert_eq!(queue.push(Share::Common, b"d", None, &[]), Pushed::Queued);
        assert!(queue.take(|| true).is_some());
        assert!(queue.take(|| true).is_none());
        assert!(queue.poke());
    }

    #[test]
    fn a_stalled_flusher_is_left_alone_until_there_is_room_to_send() {
        let queue = queue();
        assert_eq!(queue.push(Share::Common, b"a", None, &[]), Pushed::Kick);
        assert!(!queue.stall(|| false));
        assert!(queue.stall(|| true));
        assert_eq!(queue.push(Share::Common, b"b", None, &[]), Pushed::Queued);
        assert!(queue.unstall());
        assert!(!queue.unstall());
        assert_eq!(taken(&queue), [b"ab".to_vec()]);
        assert!(!queue.unstall());
        assert_eq!(queue.push(Share::Common, b"c", None, &[]), Pushed::Kick);
    }

    #[test]
    fn a_full_queue_is_busy_and_a_closed_one_closed() {
        let queue = Queue::new(10, 0);
        assert_eq!(
            queue.push(
                Share::Common,
                b"12345",
                Some(Bytes::from_static(b"67890")),
                &[]
            ),
            Pushed::Kick
        );
        assert_eq!(
            (queue.push(Share::Common, b"x", None, &[]), queue.room()),
            (Pushed::Busy, 0)
        );
        assert_eq!(taken(&queue), [b"1234567890".to_vec()]);
        assert_eq!(queue.push(Share::Common, b"abc", None, &[]), Pushed::Kick);
        assert_eq!(queue.close(), 3);
        assert_eq!(
            (queue.push(Share::Common, b"x", None, &[]), queue.poke()),
            (Pushed::Closed, false)
        );
    }

    #[test]
    fn answers_go_past_the_limit_by_the_reserve_and_no_further() {
        let queue = Queue::new(10, 5);
        let push = |share, bytes: &[u8]| queue.push(share, bytes, None, &[]);
        assert_eq!(push(Share::Common, b"1234567890"), Pushed::Kick);
        assert_eq!(push(Share::Common, b"x"), Pushed::Busy);
        assert_eq!(push(Share::Answers, b"123"), Pushed::Queued);
        // One that begins below the end of the reserve fits, as one does that begins below the limit.
        assert_eq!(push(Share::Answers, b"456"), Pushed::Queued);
        assert_eq!(push(Share::Answers, b"x"), Pushed::Busy);
        assert_eq!((queue.bytes(), queue.room()), (16, 0));
        assert_eq!(taken(&queue), [b"1234567890123456".to_vec()]);
        assert_eq!(push(Share::Common, b"x"), Pushed::Kick);
    }

    #[test]
    fn a_queue_is_finished_when_it_is_empty_and_takes_nothing_then() {
        let queue = queue();
        queue.push(Share::Common, b"a", None, &[]);
        assert!(!queue.finish());
        assert_eq!(taken(&queue), [b"a".to_vec()]);
        assert!(queue.finish());
        assert_eq!(queue.push(Share::Common, b"b", None, &[]), Pushed::Closed);
        assert_eq!(queue.close(), 0);
    }

    #[test]
    fn an_atom_is_noted_once() {
        let queue = queue();
        queue.push(Share::Common, b"x", None, &[3, 3, 5]);
        queue.push(Share::Common, b"x", None, &[5, 7]);
        assert!(queue.used_bits.get(7) && !queue.used_bits.get(4));
        assert_eq!(
            queue.take(|| true).map(|taken| taken.announce_upto),
            Some(3)
        );
        assert_eq!(queue.used_range(0, 3), [3, 5, 7]);
        assert_eq!(queue.used_range(3, 3), [0u16; 0]);
    }

    /// A frame of `size` bytes that starts with its own size.
    fn frame(size: usize) -> Vec<u8> {
        let mut frame = (size as u32).to_be_bytes().to_vec();
        frame.resize(size, size as u8);
        frame
    }

    fn is_whole_frames(mut bytes: &[u8]) -> bool {
        while let Some(head) = bytes.first_chunk::<4>() {
            match bytes.split_at_checked(u32::from_be_bytes(*head) as usize) {
                Some((_, rest)) => bytes = rest,
                None => return false,
            }
        }
        bytes.is_empty()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn bodies_are_whole_frames_in_the_order_of_the_pushes(
            sizes in prop::collection::vec(
                (prop_oneof![8usize..300, 10_000usize..40_000, 100_000usize..400_000], any::<bool>(), 0u8..20), 1..60)
        ) {
            let queue = queue();
            let (mut pushed, mut bodies) = (Vec::new(), Vec::new());
            for (size, split, take) in sizes {
                let frame = frame(size);
                pushed.extend_from_slice(&frame);
                let before = queue.bytes();
                if split {
                    let (head, tail) = frame.split_at(6);
                    queue.push(Share::Common, head, Some(Bytes::copy_from_slice(tail)), &[]);
                } else {
                    queue.push(Share::Common, &frame, None, &[]);
                }
                prop_assert_eq!(queue.bytes(), before + size);
                if take == 0 {
                    bodies.extend(taken(&queue));
                }
            }
            bodies.extend(taken(&queue));
            prop_assert!(bodies.iter().all(|body| is_whole_frames(body)));
            prop_assert_eq!(bodies.concat(), pushed);
            prop_assert_eq!(queue.bytes(), 0);
        }
    }
}
