//! Why a handshake ended without a session: the codes of the Refuse frame, and one sentence each for the log.
//! Nothing of what the peer sent is repeated in a sentence, except a peer's own Refuse text, made printable.

use core::fmt;

/// The longest text of a Refuse frame, in bytes.
pub(super) const MAX_TEXT_BYTES: usize = 200;

/// Why a handshake was refused. The number beside each is its code in the Refuse frame.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Not answered: the first bytes are not a Hello.
    NotHawser,
    /// 1: a frame that the protocol does not have here, or of a wrong length.
    Malformed,
    /// 2: no version that both ends speak.
    Version(u16),
    /// 3: one end requires a capability that the other does not know.
    Capability,
    /// 4: no such invitation is outstanding: never made, expired, withdrawn, or used up.
    UnknownInvitation,
    /// 5: the invitation is for another number of shards.
    Place,
    /// 6: this shard of the invitation is already connected.
    Taken,
    /// 7: the proof is wrong: another secret, name, creation, incarnation, or a changed byte on the way.
    Authentication,
    /// The peer refused: its code and text.
    ByPeer { code: u8, text: String },
    /// The handshake was already over.
    Over,
}

impl Refusal {
    /// The code that goes on the wire; `None` where the peer is not answered.
    pub(super) fn code(&self) -> Option<u8> {
        match self {
            Refusal::Malformed => Some(1),
            Refusal::Version(_) => Some(2),
            Refusal::Capability => Some(3),
            Refusal::UnknownInvitation => Some(4),
            Refusal::Place => Some(5),
            Refusal::Taken => Some(6),
            Refusal::Authentication => Some(7),
            Refusal::NotHawser | Refusal::ByPeer { .. } | Refusal::Over => None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NotHawser => f.write_str("the first bytes are not a hawser handshake"),
            Refusal::Malformed => f.write_str("a malformed handshake frame"),
            Refusal::Version(theirs) => write!(
                f,
                "the peer offers protocol version {theirs}, this end speaks {} to {}",
                super::OLDEST_VERSION,
                super::VERSION
            ),
            Refusal::Capability => {
                f.write_str("one end requires a capability that the other does not have")
            }
            Refusal::UnknownInvitation => {
                f.write_str("the invitation is unknown, expired or used up")
            }
            Refusal::Place => f.write_str("the invitation is for another number of shards"),
            Refusal::Taken => f.write_str("this shard of the invitation is already connected"),
            Refusal::Authentication => f.write_str(
                "authentication failed: wrong secret, node name, creation or incarnation",
            ),
            Refusal::ByPeer { code, text } => write!(f, "refused by the peer ({code}): {text}"),
            Refusal::Over => f.write_str("the handshake is over"),
        }
    }
}

impl std::error::Error for Refusal {}

/// A peer's text, fit for a log: printable, on one line, bounded.
pub(super) fn printable(text: &[u8]) -> String {
    String::from_utf8_lossy(text)
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MAX_TEXT_BYTES)
        .collect()
}

/// As much of `text` as a Refuse frame takes, cut between characters.
pub(super) fn bounded(text: &str) -> &str {
    let mut end = text.len().min(MAX_TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}
