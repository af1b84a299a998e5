//! The bytes of an established connection: records, and the frames inside a batch. Everything is big-endian.
//!
//! A connection is a stream of records in each direction. TLS, when it comes, seals whole records.
//!
//! ```text
//! record
//!   0  4  length of everything after these four bytes
//!   4  1  kind: 1 batch, 2 tick, 3 close; a kind with bit 7 set may be skipped by who does not know it
//!   5  1  flags, 0 in this version
//!   6  8  acknowledgement: the highest batch number that the sender of this record has taken over, 0 for none
//!  14     by kind
//!
//! batch (kind 1)                               close (kind 3)
//!  14  8  number, from 1, one after the other    14  2  reason
//!  22  4  the sender's clock in milliseconds      16     UTF-8 text for the log
//!  26  2  count of announcements
//!  28     announcements, then frames, to the    tick (kind 2): nothing after the acknowledgement
//!         end of the record
//!
//! announcement: this connection may now refer to the atom by its id
//!   0  2  id
//!   2  2  length of the name in bytes
//!   4     the name, UTF-8
//!
//! frame
//!   0  1  kind: 1 to a pid, 2 to a name, 3 to an alias, 4 a cast, 5 a call, 6 an answer; bit 6: the term is
//!         plain external term format with its leading 131; bit 7: may be skipped by who does not know the kind
//!   1  4  length of everything after these five bytes
//!   5     destination by kind, then the term
//!
//! destination
//!   pid    0  4  creation, then 4  id, then 4  serial: the node is the receiver
//!   name   0     an atom as a term (reference into the dictionary, or text)
//!   alias  0  2  length, then the reference in external term format without 131
//!   cast   nothing; the term is {GroupLeader, Module, Function, Arguments}
//!   call   0  8  number of the call, given back in its answer
//!          8  1  1: a deadline follows, 0: none does and the next field is 0
//!          9  4  deadline on the clock of the batch records: past it the call is not to be executed
//!                the term is as for a cast
//!   answer 0  8  number of the call; the term says how the body ended: {return, Value}, {throw, Value},
//!                {exit, Reason}, {error, Reason, Stack}, {signal, Reason}, {system, Reason}
//!
//! term: external term format without the leading 131, and these tags besides
//!   'R' (82)  2  id                  an atom of the dictionary
//!   'S' (83)  4  id, 4  serial       a pid of the sender's node and creation
//!   'D' (68)  4  id, 4  serial       a pid of the receiver's node and creation
//!   'E' (69)  4  length, then bytes  a term in external term format with its leading 131
//! ```

/// A sender's monotonic clock in milliseconds; it wraps, so only differences mean something.
pub type ClockMs = u32;

/// Number of a call, given by the calling side and meaningless to the other.
pub type CallId = u64;

/// Milliseconds left until `deadline`, both on the same clock; 0 when it has passed.
pub fn left_ms(deadline: ClockMs, now: ClockMs) -> u32 {
    let left = deadline.wrapping_sub(now);
    if left > u32::MAX / 2 { 0 } else { left }
}

/// Number of a batch within its shard and session. The first batch has number 1.
pub type BatchNumber = u64;

/// Bytes of the length field in front of a record.
pub const LENGTH_BYTES: usize = 4;
/// Bytes of a record in front of what depends on its kind, length field included.
pub const RECORD_HEAD: usize = 14;
/// Bytes of a batch record in front of its announcements, length field included.
pub const BATCH_HEAD: usize = 28;
/// Bytes of a frame in front of its destination.
pub const FRAME_HEAD: usize = 5;
/// Longest name of an atom in bytes: 255 characters of four bytes.
pub const MAX_ATOM_BYTES: usize = 1020;
/// Longest frame whose term is in hawser's own form: it is decoded in one go, on a scheduler. Longer terms travel plain.
pub const MAX_NATIVE_FRAME: usize = 128 * 1024;
/// Longest close record: nobody needs more text to say why.
pub const MAX_CLOSE_BYTES: usize = 512;

pub const RECORD_BATCH: u8 = 1;
pub const RECORD_TICK: u8 = 2;
pub const RECORD_CLOSE: u8 = 3;
/// A record or frame of unknown kind with this bit is skipped; without it the session ends.
pub const SKIPPABLE: u8 = 0x80;

pub const FRAME_TO_PID: u8 = 1;
pub const FRAME_TO_NAME: u8 = 2;
pub const FRAME_TO_ALIAS: u8 = 3;
pub const FRAME_CAST: u8 = 4;
pub const FRAME_CALL: u8 = 5;
pub const FRAME_ANSWER: u8 = 6;
/// The frame's term is plain external term format with its leading 131.
pub const FRAME_PLAIN: u8 = 0x40;

pub const TERM_ATOM: u8 = b'R';
pub const TERM_SENDER_PID: u8 = b'S';
pub const TERM_RECEIVER_PID: u8 = b'D';
pub const TERM_EMBEDDED: u8 = b'E';

/// Why a side closes a shard in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseReason {
    /// The application stops or the session was disconnected.
    Finished,
    /// A reason of a later version.
    Other(u16),
}

impl CloseReason {
    pub fn code(self) -> u16 {
        match self {
            CloseReason::Finished => 1,
            CloseReason::Other(code) => code,
        }
    }

    pub fn from_code(code: u16) -> Self {
        match code {
            1 => CloseReason::Finished,
            other => CloseReason::Other(other),
        }
    }
}

fn record(kind: u8, ack: BatchNumber, rest: usize, out: &mut Vec<u8>) {
    let length = (RECORD_HEAD - LENGTH_BYTES + rest) as u32;
    out.extend_from_slice(&length.to_be_bytes());
    out.push(kind);
    out.push(0);
    out.extend_from_slice(&ack.to_be_bytes());
}

/// Writes the head of a batch record; `announcements` and then the frames follow it.
pub fn write_batch_head(
    head: &BatchHead,
    announcements: &[u8],
    frame_bytes: usize,
    out: &mut Vec<u8>,
) {
    let rest = BATCH_HEAD - RECORD_HEAD + announcements.len() + frame_bytes;
    record(RECORD_BATCH, head.ack, rest, out);
    out.extend_from_slice(&head.number.to_be_bytes());
    out.extend_from_slice(&head.clock_ms.to_be_bytes());
    out.extend_from_slice(&head.announcement_count.to_be_bytes());
    out.extend_from_slice(announcements);
}

/// What stands in front of a batch's announcements and frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHead {
    pub ack: BatchNumber,
    pub number: BatchNumber,
    pub clock_ms: ClockMs,
    pub announcement_count: u16,
}

/// Writes one announcement. The caller has made sure that `name` is at most [`MAX_ATOM_BYTES`] long.
pub fn write_announcement(id: u16, name: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&id.to_be_bytes());
    out.extend_from_slice(&(name.len() as u16).to_be_bytes());
    out.extend_from_slice(name);
}

/// Writes a tick: a sign of life that carries the acknowledgement.
pub fn write_tick(ack: BatchNumber, out: &mut Vec<u8>) {
    record(RECORD_TICK, ack, 0, out);
}

/// Writes a close record; the text is cut to what the record may hold.
pub fn write_close(ack: BatchNumber, reason: CloseReason, text: &str, out: &mut Vec<u8>) {
    let mut end = text.len().min(MAX_CLOSE_BYTES - 2);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let text = text.get(..end).unwrap_or("");
    record(RECORD_CLOSE, ack, 2 + text.len(), out);
    out.extend_from_slice(&reason.code().to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// The fixed part of a frame: kind and length of what follows.
pub fn frame_head(kind: u8, length: u32) -> [u8; FRAME_HEAD] {
    let l = length.to_be_bytes();
    [kind, l[0], l[1], l[2], l[3]]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_deadline_is_the_same_distance_ahead_across_the_wrap_of_the_clock() {
        let before = u32::MAX - 4;
        assert_eq!(left_ms(before.wrapping_add(10), before), 10);
        assert_eq!(left_ms(before.wrapping_add(10), u32::MAX), 6);
        assert_eq!(left_ms(before.wrapping_add(10), 0), 5);
        assert_eq!(left_ms(before.wrapping_add(10), 5), 0);
        assert_eq!(left_ms(before.wrapping_add(10), 6), 0);
        assert_eq!(left_ms(before, before.wrapping_add(10)), 0);
        assert_eq!(left_ms(0, u32::MAX), 1);
        assert_eq!(left_ms(u32::MAX, 0), 0);
    }

    proptest! {
        /// Half the clock's range lies ahead and the other half has passed, wherever the clock stands.
        #[test]
        fn what_is_left_is_what_has_not_passed(now in any::<u32>(), ahead in 0..=i32::MAX as u32, passed in any::<u32>()) {
            let deadline = now.wrapping_add(ahead);
            prop_assert_eq!(left_ms(deadline, now), ahead);
            let later = passed.min(i32::MAX as u32);
            let left = ahead.saturating_sub(later);
            prop_assert_eq!(left_ms(deadline, now.wrapping_add(later)), left);
        }
    }
}
