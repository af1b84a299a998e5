//! The way into the runtime: commands from scheduler threads to the desk. Bounded; the only refusal is [`Busy`].
//! Sending never waits.

use crate::dialer::DialRequest;
use crossbeam_channel::{Receiver, Sender, bounded};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::Notify;

/// Commands that can wait at once. The desk empties the queue at every turn, so this many stand for a desk that hangs.
const MAX_WAITING: usize = 1024;

/// More commands wait than the queue takes.
pub(crate) struct Busy;

pub(crate) enum Command {
    Listen(TcpListener),
    /// The notification ends the dial: it is not wanted any more.
    Dial(Box<DialRequest>, Arc<Notify>),
}

pub(crate) struct Commands {
    sender: Sender<Command>,
    receiver: Receiver<Command>,
    bell: Arc<Notify>,
}

impl Commands {
    /// `bell` is what the desk waits for.
    pub(crate) fn new(bell: Arc<Notify>) -> Commands {
        let (sender, receiver) = bounded(MAX_WAITING);
        Commands {
            sender,
            receiver,
            bell,
        }
    }

    pub(crate) fn send(&self, command: Command) -> Result<(), Busy> {
        self.sender.try_send(command).map_err(|_| Busy)?;
        self.bell.notify_one();
        Ok(())
    }

    pub(crate) fn next(&self) -> Option<Command> {
        self.receiver.try_recv().ok()
    }
}
