//! The way out of the runtime: events for the owner in the BEAM. Anything in the process may push; the owner drains.
//! When the queue turns non-empty the desk wakes the owner once. Bounded twice: log lines may fill a small part of the
//! queue, so that outcomes always find room; what finds none is counted, and the next drain says so.

use crossbeam_channel::{Receiver, Sender, bounded};
use hawser_core::handshake::InvitationId;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use tokio::sync::Notify;

/// Events that can wait for the owner.
const MAX_WAITING: usize = 16_384;
/// Log lines among them.
const MAX_LOGS: usize = 256;

/// Which end of the session this node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Dialer,
    Acceptor,
}

/// The levels of OTP's logger that the control plane uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Error,
    Warning,
    Info,
    Debug,
}

#[derive(Debug)]
pub enum Event {
    /// All sockets of the session are authenticated. In shard order, non-blocking, out of tokio's hands.
    Established {
        id: InvitationId,
        side: Side,
        sockets: Vec<TcpStream>,
    },
    /// A dial ended without a session, or an invitation ran out.
    Failed {
        id: InvitationId,
        reason: String,
    },
    Log {
        level: Level,
        text: String,
    },
}

/// Who hears of events. Called from a thread of the runtime, never from the thread that pushed.
pub trait Owner: Send + Sync {
    /// There are events to drain. Must not block.
    fn wake(&self);
}

pub(crate) struct Events {
    sender: Sender<Event>,
    receiver: Receiver<Event>,
    bell: Arc<Notify>,
    /// The owner has been woken, or is about to be, and has not drained since.
    announced: AtomicBool,
    /// The desk has still to do the waking.
    owed: AtomicBool,
    logs: AtomicUsize,
    dropped: AtomicU64,
}

impl Events {
    /// `bell` is what the desk waits for.
    pub(crate) fn new(bell: Arc<Notify>) -> Events {
        let (sender, receiver) = bounded(MAX_WAITING);
        Events {
            sender,
            receiver,
            bell,
            announced: AtomicBool::new(false),
            owed: AtomicBool::new(false),
            logs: AtomicUsize::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    /// Queues an event; sockets of one that finds no room are closed.
    pub(crate) fn push(&self, event: Event) {
        if let Event::Log { .. } = event
            && self.logs.fetch_add(1, SeqCst) >= MAX_LOGS
        {
            self.logs.fetch_sub(1, SeqCst);
            self.dropped.fetch_add(1, SeqCst);
            return;
        }
        match self.sender.try_send(event) {
            Ok(()) => self.announce(),
            Err(refused) => {
                if let Event::Log { .. } = refused.into_inner() {
                    self.logs.fetch_sub(1, SeqCst);
                }
                self.dropped.fetch_add(1, SeqCst);
            }
        }
    }

    /// At most `max` events, oldest first. What is left over is announced again.
    pub(crate) fn drain(&self, max: usize) -> Vec<Event> {
        // First, so that an event pushed from here on wakes the owner anew.
        self.announced.store(false, SeqCst);
        let mut events: Vec<Event> = self.receiver.try_iter().take(max).collect();
        let logs = events
            .iter()
            .filter(|event| matches!(event, Event::Log { .. }))
            .count();
        self.logs.fetch_sub(logs, SeqCst);
        if !self.receiver.is_empty() {
            self.announce();
        }
        let dropped = self.dropped.swap(0, SeqCst);
        if dropped > 0 {
            events.push(Event::Log {
                level: Level::Warning,
                text: format!(
                    "{dropped} events of the control plane were dropped: too many waited to be read"
                ),
            });
        }
        events
    }

    /// Whether the owner is to be woken now. For the desk alone.
    pub(crate) fn take_owed(&self) -> bool {
        self.owed.swap(false, SeqCst)
    }

    fn announce(&self) {
        if !self.announced.swap(true, SeqCst) {
            self.owed.store(true, SeqCst);
            self.bell.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(n: u8) -> Event {
        Event::Failed {
            id: InvitationId([n; 16]),
            reason: String::new(),
        }
    }

    fn log() -> Event {
        Event::Log {
            level: Level::Info,
            text: String::new(),
        }
    }

    fn queue() -> Events {
        Events::new(Arc::new(Notify::new()))
    }

    #[test]
    fn one_wake_up_per_turn_from_empty_to_not_empty() {
        let events = queue();
        assert!(!events.take_owed());
        events.push(failed(1));
        events.push(failed(2));
        assert!(events.take_owed());
        events.push(failed(3));
        assert!(!events.take_owed());
        assert_eq!(events.drain(10).len(), 3);
        events.push(failed(4));
        assert!(events.take_owed());
    }

    #[test]
    fn what_a_drain_leaves_is_announced_again() {
        let events = queue();
        (0..5).for_each(|n| events.push(failed(n)));
        assert!(events.take_owed());
        assert_eq!(events.drain(3).len(), 3);
        assert!(events.take_owed());
        assert_eq!(events.drain(3).len(), 2);
        assert!(!events.take_owed());
    }

    #[test]
    fn log_lines_are_bounded_counted_and_never_in_an_outcomes_way() {
        let events = queue();
        (0..MAX_LOGS + 7).for_each(|_| events.push(log()));
        events.push(failed(1));
        let drained = events.drain(usize::MAX);
        assert_eq!(drained.len(), MAX_LOGS + 2);
        assert!(matches!(drained[MAX_LOGS], Event::Failed { .. }));
        match &drained[MAX_LOGS + 1] {
            Event::Log {
                level: Level::Warning,
                text,
            } => assert!(text.starts_with("7 events"), "{text}"),
            other => panic!("{other:?}"),
        }
        // There is room again.
        events.push(log());
        assert_eq!(events.drain(usize::MAX).len(), 1);
    }

    #[test]
    fn a_full_queue_drops_and_counts() {
        let events = queue();
        (0..MAX_WAITING + 3).for_each(|_| events.push(failed(1)));
        events.push(log());
        let drained = events.drain(usize::MAX);
        assert_eq!(drained.len(), MAX_WAITING + 1);
        assert!(
            matches!(drained.last(), Some(Event::Log { text, .. }) if text.starts_with("4 events"))
        );
    }
}
