//! The authentication handshake of one socket, as a pure state machine: bytes in, [`Step`]s out. It owns the wire
//! below; the control plane drives it ([`Dialer`] on one end, [`Acceptor`] on the other). It never opens a socket,
//! reads a clock, draws a random number, makes an atom or keeps a byte that lies beyond the handshake.
//!
//! All numbers are big-endian. A frame is at most [`MAX_FRAME_BYTES`] long; `length` counts what follows it.
//!
//! ```text
//! Hello      dialer -> acceptor         Its first 29 bytes stand like this in every version.
//!   0        2      3            7         9        13              29      31       33           65
//!   +--------+------+------------+---------+--------+---------------+-------+--------+------------+
//!   | length | 0x01 | "HWSR"     | version | flags  | invitation id | shard | shards | nonce      |
//!   | 63     |      | 4 bytes    | u16     | u32    | 16 bytes      | u16   | u16    | 32 bytes   |
//!   +--------+------+------------+---------+--------+---------------+-------+--------+------------+
//!   A Hello of a later version may be longer; an acceptor answers with the newest version that both can speak.
//!
//! Challenge  acceptor -> dialer
//!   0        2      3         5        9              41            73
//!   +--------+------+---------+--------+--------------+-------------+
//!   | length | 0x02 | version | flags  | nonce        | mac         |     version and flags as agreed
//!   | 71     |      | u16     | u32    | 32 bytes     | 32 bytes    |
//!   +--------+------+---------+--------+--------------+-------------+
//!
//! Proof      dialer -> acceptor                Accept     acceptor -> dialer
//!   0        2      3             35             0        2      3
//!   +--------+------+-------------+              +--------+------+
//!   | length | 0x03 | mac         |              | length | 0x04 |
//!   | 33     |      | 32 bytes    |              | 1      |      |
//!   +--------+------+-------------+              +--------+------+
//!
//! Refuse     either way, in place of any frame but Hello; the sender closes behind it
//!   0        2      3      4                     4+n
//!   +--------+------+------+---------------------+
//!   | length | 0x05 | code | text, UTF-8         |     n <= 200; codes: [`Refusal`]
//!   | 2+n    |      | u8   | n bytes             |
//!   +--------+------+------+---------------------+
//!
//! mac = HMAC-SHA-256, key: the invitation's secret, over
//!   label               "hawser handshake: acceptor" 0x00 in Challenge, "hawser handshake: dialer" 0x00 in Proof
//!   u64 n, n bytes      the whole Hello
//!   u64 n, n bytes      the Challenge up to its mac
//!   u64 n, n bytes      the dialer's node name; u32 its creation; 16 bytes its incarnation
//!   u64 n, n bytes      the acceptor's node name; u32 its creation; 16 bytes its incarnation
//!   u64 n, n bytes      channel binding (empty without TLS)
//! ```
//!
//! The dialer sends nothing between Proof and Accept, and the acceptor nothing between Challenge and Accept. Each end
//! reads at most [`Machine::wanted`] bytes at a time, so that the first byte of the session is still in the socket
//! when the handshake is over.
//!
//! The secret, the names, the creations and the incarnations came over the distribution channel and are never on this
//! wire: a peer of another name, creation or incarnation fails the proof. Roles have labels of their own, so nothing
//! can be reflected; both nonces are in both macs, and every (invitation, shard) is given away once, so nothing can be
//! replayed. The shard is claimed after the proof only: who merely saw an invitation's id cannot use it up.

mod acceptor;
mod dialer;
mod frame;
mod refusal;
mod terms;
mod transcript;

use frame::Inbox;

pub use acceptor::{Acceptor, Invitations};
pub use dialer::Dialer;
pub use refusal::Refusal;
pub use terms::{
    Agreed, Capabilities, Incarnation, Invitation, InvitationId, Nonce, Party, Place, Secret,
};

/// The newest version that this end speaks.
pub const VERSION: u16 = 1;
/// The oldest version that this end still speaks.
pub const OLDEST_VERSION: u16 = 1;
/// The longest frame of the handshake, its length field included.
pub const MAX_FRAME_BYTES: usize = 512;
/// The largest number of shards that a session can have.
pub const MAX_SHARDS: u16 = 64;

/// What the driver of a handshake does next.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Read on: at most [`Machine::wanted`] bytes.
    Read,
    /// Write these bytes, then read on.
    Write(Vec<u8>),
    /// Write `reply` (empty: nothing); from there on the socket belongs to the session.
    Established { reply: Vec<u8>, agreed: Agreed },
    /// Write `reply` (empty: nothing), then close the socket.
    Refused { reply: Vec<u8>, refusal: Refusal },
}

/// One end of a handshake.
pub trait Machine {
    /// How many bytes may be read from the socket now. Never reaches beyond the handshake; 0 once it is over.
    fn wanted(&self) -> usize;

    /// Takes the next bytes. Answers how many of them it consumed, never more than [`Machine::wanted`] in sum over a
    /// frame, and what comes next. After `Established` or `Refused` it consumes nothing and answers `Refused`.
    fn feed(&mut self, input: &[u8]) -> (usize, Step);
}

/// What each of the two machines has of its own. How bytes become frames, and how a handshake ends, is one thing for
/// both: `Machine`, below.
trait End {
    fn inbox(&self) -> &Inbox;

    fn inbox_mut(&mut self) -> &mut Inbox;

    fn is_over(&self) -> bool;

    fn end(&mut self);

    /// Judges what there is of a frame, before more of it is asked for.
    fn on_part(&mut self) -> Result<(), Refusal> {
        Ok(())
    }

    fn on_frame(&mut self, bytes: &[u8]) -> Result<Step, Refusal>;
}

impl<E: End> Machine for E {
    fn wanted(&self) -> usize {
        if self.is_over() {
            0
        } else {
            self.inbox().wanted()
        }
    }

    fn feed(&mut self, input: &[u8]) -> (usize, Step) {
        if self.is_over() {
            return (0, refused(Refusal::Over));
        }
        let (consumed, filled) = self.inbox_mut().fill(input);
        let step = self
            .on_part()
            .and(filled)
            .and_then(|()| match self.inbox_mut().take() {
                None => Ok(Step::Read),
                Some(bytes) => self.on_frame(&bytes),
            });
        let step = step.unwrap_or_else(|refusal| {
            self.end();
            refused(refusal)
        });
        (consumed, step)
    }
}

fn refused(refusal: Refusal) -> Step {
    Step::Refused {
        reply: frame::refuse(&refusal),
        refusal,
    }
}
