//! A shard's outgoing batches: their bodies, their numbers, and which of them the peer has taken over.
//!
//! A body is what was queued when the flusher came: frames, and the position in the dictionary that must have been
//! announced before them. What belongs to a connection (acknowledgement, age, announcements) is written around a
//! body at each transmission, so a body can be sent again on another connection. The outbox never writes to a socket.

use crate::wire::BatchNumber;
use bytes::Bytes;
use std::collections::VecDeque;

/// The frames of one batch, without anything that belongs to a connection.
#[derive(Clone, Debug)]
pub struct Body {
    pub number: BatchNumber,
    /// The frames, in pieces as they were queued.
    pub pieces: Vec<Bytes>,
    /// Bytes of all pieces.
    pub bytes: usize,
    /// How many of the shard's used atoms must have been announced before this body.
    pub announce_upto: usize,
    /// The sender's monotonic clock when the batch got its number, in milliseconds.
    pub numbered_at_ms: u64,
}

/// Bodies that have a number and are not acknowledged yet, oldest first.
#[derive(Debug)]
pub struct Outbox {
    next: BatchNumber,
    unacked: VecDeque<Body>,
    unacked_bytes: usize,
}

/// The peer acknowledged a batch that was never sent.
#[derive(Debug, PartialEq, Eq)]
pub struct AckOfUnsent {
    pub ack: BatchNumber,
    pub sent: BatchNumber,
}

impl Default for Outbox {
    fn default() -> Self {
        Outbox {
            next: 1,
            unacked: VecDeque::new(),
            unacked_bytes: 0,
        }
    }
}

impl Outbox {
    /// Gives a body its number and keeps it until it is acknowledged.
    pub fn number(&mut self, pieces: Vec<Bytes>, announce_upto: usize, now_ms: u64) -> &Body {
        let bytes = pieces.iter().map(Bytes::len).sum();
        let number = self.next;
        self.next += 1;
        self.unacked_bytes += bytes;
        self.unacked.push_back(Body {
            number,
            pieces,
            bytes,
            announce_upto,
            numbered_at_ms: now_ms,
        });
        // The queue is not empty: the body was pushed just now.
        &self.unacked[self.unacked.len() - 1]
    }

    /// Takes an acknowledgement; hands the pieces of every body it covers to `release`. Old news is no error.
    pub fn acknowledge(
        &mut self,
        ack: BatchNumber,
        mut release: impl FnMut(Bytes),
    ) -> Result<(), AckOfUnsent> {
        if ack >= self.next {
            return Err(AckOfUnsent {
                ack,
                sent: self.next - 1,
            });
        }
        while let Some(body) = self.unacked.pop_front_if(|body| body.number <= ack) {
            self.unacked_bytes -= body.bytes;
            body.pieces.into_iter().for_each(&mut release);
        }
        Ok(())
    }

    /// Bodies to send again on a new connection to a peer that has taken over everything up to `taken`.
    pub fn after(&self, taken: BatchNumber) -> impl Iterator<Item = &Body> {
        self.unacked.iter().filter(move |body| body.number > taken)
    }

    /// Bytes of frames that wait for an acknowledgement.
    pub fn unacked_bytes(&self) -> usize {
        self.unacked_bytes
    }

    /// Number of bodies that wait for an acknowledgement.
    pub fn unacked(&self) -> usize {
        self.unacked.len()
    }

    /// Number of the newest body, 0 before the first.
    pub fn newest(&self) -> BatchNumber {
        self.next - 1
    }
}

/// The receiving end of the numbers: what has arrived, what is taken over, and whether the peer should hear of it.
#[derive(Debug, Default)]
pub struct Inbox {
    arrived: BatchNumber,
    taken: BatchNumber,
    untold_bytes: usize,
}

/// A batch that is not the next one.
#[derive(Debug, PartialEq, Eq)]
pub struct OutOfOrder {
    pub expected: BatchNumber,
    pub got: BatchNumber,
}

impl Inbox {
    /// Notes the head of a batch.
    pub fn begin(&mut self, number: BatchNumber) -> Result<(), OutOfOrder> {
        if number != self.arrived + 1 {
            return Err(OutOfOrder {
                expected: self.arrived + 1,
                got: number,
            });
        }
        self.arrived = number;
        Ok(())
    }

    /// Everything up to `number` has been delivered; `bytes` of frames were in it.
    pub fn take_over(&mut self, number: BatchNumber, bytes: usize) {
        self.taken = self.taken.max(number);
        self.untold_bytes += bytes;
    }

    /// Has enough been taken over since the last time for an acknowledgement of its own? Starts to count afresh.
    pub fn ack_due(&mut self, every_bytes: usize) -> bool {
        let due = self.untold_bytes >= every_bytes;
        if due {
            self.untold_bytes = 0;
        }
        due
    }

    /// The acknowledgement to write into whatever is sent next.
    pub fn taken(&self) -> BatchNumber {
        self.taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn piece(n: usize) -> Vec<Bytes> {
        vec![Bytes::from(vec![0; n])]
    }

    #[test]
    fn numbers_start_at_one_and_an_ack_releases_up_to_itself() {
        let mut outbox = Outbox::default();
        for n in 1..=3 {
            assert_eq!(outbox.number(piece(10 * n), 0, 5).number, n as u64);
        }
        let mut released = 0;
        assert_eq!(outbox.acknowledge(2, |p| released += p.len()), Ok(()));
        assert_eq!(
            (released, outbox.unacked_bytes(), outbox.unacked()),
            (30, 30, 1)
        );
        assert_eq!(outbox.acknowledge(1, |_| ()), Ok(()));
        assert_eq!(outbox.after(2).map(|b| b.number).collect::<Vec<_>>(), [3]);
        assert_eq!(
            outbox.acknowledge(4, |_| ()),
            Err(AckOfUnsent { ack: 4, sent: 3 })
        );
    }

    #[test]
    fn an_inbox_wants_every_number_once() {
        let mut inbox = Inbox::default();
        assert_eq!(inbox.begin(1), Ok(()));
        assert_eq!(
            inbox.begin(1),
            Err(OutOfOrder {
                expected: 2,
                got: 1
            })
        );
        assert_eq!(
            inbox.begin(3),
            Err(OutOfOrder {
                expected: 2,
                got: 3
            })
        );
        inbox.take_over(1, 100);
        assert_eq!(inbox.taken(), 1);
        assert!(!inbox.ack_due(101));
        assert!(inbox.ack_due(100));
        assert!(!inbox.ack_due(1));
    }

    proptest! {
        #[test]
        fn unacked_bytes_are_the_sum_of_what_is_kept(
            sizes in prop::collection::vec(0usize..500, 1..40), acks in prop::collection::vec(0u64..45, 0..40)
        ) {
            let mut outbox = Outbox::default();
            for size in &sizes { outbox.number(piece(*size), 0, 0); }
            for ack in acks {
                let legal = ack <= sizes.len() as u64;
                prop_assert_eq!(outbox.acknowledge(ack, |_| ()).is_ok(), legal);
                let kept: usize = outbox.after(0).map(|b| b.bytes).sum();
                prop_assert_eq!(outbox.unacked_bytes(), kept);
            }
        }
    }
}
