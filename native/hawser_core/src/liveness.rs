//! Whether a shard owes its peer a tick, and whether the peer has been silent for too long.
//!
//! The session's owner asks once per interval and passes the time in. Counters are compared, not clocks of
//! arrival, so the hot path keeps no time. A reader that was not scheduled is not a dead peer: the owner tells
//! whether bytes are waiting unread.

/// Intervals, and looks, without a byte after which a peer counts as dead. The looks are counted too, since a node
/// that was itself stopped for a while must not take its own absence for the peer's.
pub const SILENT_INTERVALS: u32 = 4;

/// What to do about a shard at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Bytes flow both ways, or are waiting to be read.
    Fine,
    /// Nothing was written since the last look: write a tick.
    Tick,
    /// Nothing arrived for so many milliseconds: end the session.
    Dead { silent_ms: u64 },
}

/// One shard's memory between two looks.
#[derive(Debug, Default)]
pub struct Liveness {
    heard: Option<Heard>,
    written: u64,
}

#[derive(Debug, Clone, Copy)]
struct Heard {
    bytes: u64,
    at_ms: u64,
    silent_looks: u32,
}

impl Liveness {
    /// Looks at a shard. `received` counts the bytes that arrived, `written` the batches that were sent (a tick is none, so
    /// a quiet shard ticks at every look), `unread` tells of bytes in the socket.
    pub fn look(
        &mut self,
        now_ms: u64,
        interval_ms: u64,
        received: u64,
        written: u64,
        unread: bool,
    ) -> Verdict {
        let heard = match self.heard {
            Some(heard) if heard.bytes == received && !unread => Heard {
                silent_looks: heard.silent_looks + 1,
                ..heard
            },
            _ => Heard {
                bytes: received,
                at_ms: now_ms,
                silent_looks: 0,
            },
        };
        self.heard = Some(heard);
        let silent_ms = now_ms.saturating_sub(heard.at_ms);
        if heard.silent_looks >= SILENT_INTERVALS
            && silent_ms >= interval_ms.saturating_mul(u64::from(SILENT_INTERVALS))
        {
            return Verdict::Dead { silent_ms };
        }
        let quiet = written == self.written;
        self.written = written;
        if quiet { Verdict::Tick } else { Verdict::Fine }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn silence(l: &mut Liveness, times: impl IntoIterator<Item = u64>) -> Vec<Verdict> {
        times
            .into_iter()
            .map(|at| l.look(at, 100, 7, 7, false))
            .collect()
    }

    #[test]
    fn a_quiet_shard_ticks_and_a_silent_peer_is_dead_after_four_intervals() {
        let mut l = Liveness::default();
        assert_eq!(l.look(1_000, 100, 0, 0, false), Verdict::Tick);
        assert_eq!(l.look(1_100, 100, 0, 14, false), Verdict::Fine);
        assert_eq!(l.look(1_200, 100, 0, 14, false), Verdict::Tick);
        assert_eq!(l.look(1_300, 100, 0, 28, false), Verdict::Fine);
        assert_eq!(
            l.look(1_400, 100, 0, 42, false),
            Verdict::Dead { silent_ms: 400 }
        );
    }

    #[test]
    fn any_byte_is_a_sign_of_life_and_so_are_unread_ones() {
        let mut l = Liveness::default();
        silence(&mut l, [0, 100, 200, 300]);
        assert_eq!(l.look(400, 100, 8, 8, false), Verdict::Fine);
        for at in [500, 600, 700] {
            assert_ne!(
                l.look(at, 100, 8, at, false),
                Verdict::Dead {
                    silent_ms: at - 400
                }
            );
        }
        assert_eq!(l.look(800, 100, 8, 9, true), Verdict::Fine);
    }

    #[test]
    fn a_node_that_was_stopped_itself_first_listens_again() {
        let mut l = Liveness::default();
        silence(&mut l, [0, 100]);
        let late = silence(&mut l, [30_000, 30_100]);
        assert_eq!(late, [Verdict::Tick, Verdict::Tick]);
        assert_eq!(
            silence(&mut l, [30_200]),
            [Verdict::Dead { silent_ms: 30_200 }]
        );
    }
}
