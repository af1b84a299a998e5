//! Reports refused connections without letting strangers fill the log: the first of a kind at once, the others of the
//! same second as one line with their count. Owned by the listener; counts nothing else.

use crate::exchange::Failure;
use hawser_core::handshake::Refusal;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::time::Instant;
use tracing::{info, warn};

const WINDOW: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct Refusals {
    open: Vec<Window>,
}

struct Window {
    kind: &'static str,
    closes: Instant,
    /// Refused since the last line.
    more: u64,
}

impl Refusals {
    pub(crate) fn note(&mut self, from: SocketAddr, failure: &Failure, now: Instant) {
        let kind = kind(failure);
        match self.open.iter_mut().find(|window| window.kind == kind) {
            Some(window) => window.more += 1,
            None => {
                self.open.push(Window {
                    kind,
                    closes: now + WINDOW,
                    more: 0,
                });
                match failure {
                    Failure::Closed => {
                        info!("a connection from {} came to nothing: {failure}", from.ip())
                    }
                    _ => warn!("refused a connection from {}: {failure}", from.ip()),
                }
            }
        }
    }

    /// When the next line may be due.
    pub(crate) fn next_report(&self) -> Option<Instant> {
        self.open.iter().map(|window| window.closes).min()
    }

    /// Writes the lines that are due by `now`.
    pub(crate) fn report(&mut self, now: Instant) {
        self.open.retain_mut(|window| {
            if window.closes > now {
                return true;
            }
            let more = std::mem::take(&mut window.more);
            if more > 0 {
                warn!(
                    "refused {more} more connections within a second: {}",
                    window.kind
                );
                window.closes = now + WINDOW;
            }
            more > 0
        });
    }
}

/// What is counted together. Fixed texts: nothing that a peer sends makes a new kind.
fn kind(failure: &Failure) -> &'static str {
    match failure {
        Failure::Closed => "closed before the handshake was over",
        Failure::Timeout => "handshake not finished in time",
        Failure::Evicted => "too many waiting to authenticate",
        Failure::Io(_) => "connection broken during the handshake",
        Failure::Refused(refusal) => match refusal {
            Refusal::NotHawser => "not a hawser handshake",
            Refusal::Version(_) => "no common protocol version",
            Refusal::Capability => "no common capabilities",
            Refusal::UnknownInvitation => "unknown invitation",
            Refusal::Place | Refusal::Taken => "wrong shard",
            Refusal::Authentication => "authentication failed",
            Refusal::ByPeer { .. } => "refused by the peer",
            _ => "malformed handshake",
        },
    }
}
