//! Parses what arrives on a connection, item by item, without keeping a byte of it.
//!
//! The driver shows the bytes it has; the receiver answers with the next item and how many bytes it took, or with
//! the number of bytes that the next item needs. It checks every declared length against what encloses it and
//! against the largest frame allowed, before the driver reserves memory for it. Terms are left to the codec.

use crate::batch::{Inbox, OutOfOrder};
use crate::wire::{self, BatchNumber, CallId, ClockMs, CloseReason};

/// What a connection delivers, in order.
#[derive(Debug, PartialEq)]
pub enum Item<'a> {
    /// A batch begins; its number is the next one.
    Batch {
        ack: BatchNumber,
        number: BatchNumber,
        clock_ms: ClockMs,
    },
    /// The connection may refer to this atom from now on.
    Announce { id: u16, name: &'a str },
    /// A message for a process.
    Frame(Frame<'a>),
    /// All frames of the batch have been given out; `bytes` of them.
    BatchEnd { number: BatchNumber, bytes: usize },
    /// A sign of life.
    Tick { ack: BatchNumber },
    /// The peer sends nothing any more.
    Close {
        ack: BatchNumber,
        reason: CloseReason,
        text: &'a str,
    },
    /// Something optional of a later version, skipped.
    Skipped,
}

/// One message: where to, and its term.
#[derive(Debug, PartialEq)]
pub struct Frame<'a> {
    pub to: Destination<'a>,
    /// The term is plain external term format with its leading 131.
    pub plain: bool,
    pub term: &'a [u8],
}

#[derive(Debug, PartialEq)]
pub enum Destination<'a> {
    Pid {
        creation: u32,
        id: u32,
        serial: u32,
    },
    Name(Name<'a>),
    /// A reference in external term format without 131.
    Alias(&'a [u8]),
    /// A process to be started: nobody waits for it.
    Cast,
    /// A process to be started: somebody waits for its answer, at the most until the deadline.
    Call {
        id: CallId,
        deadline: Option<ClockMs>,
    },
    /// Whoever waits for the answer to this call.
    Caller(CallId),
}

/// A registered name, by dictionary or as text.
#[derive(Debug, PartialEq)]
pub enum Name<'a> {
    Id(u16),
    Text(&'a str),
}

/// Answer to "what is next".
#[derive(Debug, PartialEq)]
pub enum Step<'a> {
    /// The next item and the bytes it took.
    Item(Item<'a>, usize),
    /// The next item needs so many bytes in all.
    Need(usize),
}

/// The peer broke the protocol; the session ends.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Malformed {
    UnknownRecord(u8),
    UnknownFrame(u8),
    BadLength,
    FrameTooLarge { bytes: usize, limit: usize },
    BadAtom,
    BadDeadline,
    BatchOutOfOrder(OutOfOrder),
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Malformed::UnknownRecord(kind) => write!(f, "record of unknown kind {kind}"),
            Malformed::UnknownFrame(kind) => write!(f, "frame of unknown kind {kind}"),
            Malformed::BadLength => write!(f, "a length that does not fit what encloses it"),
            Malformed::FrameTooLarge { bytes, limit } => {
                write!(f, "a frame of {bytes} bytes, the limit is {limit}")
            }
            Malformed::BadAtom => write!(f, "an atom's name that is too long or not UTF-8"),
            Malformed::BadDeadline => {
                write!(f, "a call whose deadline is neither given nor left out")
            }
            Malformed::BatchOutOfOrder(OutOfOrder { expected, got }) => {
                write!(f, "batch {got} where batch {expected} was due")
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum State {
    Record,
    Announcements {
        left: u16,
        rest: usize,
        number: BatchNumber,
    },
    Frames {
        rest: usize,
        number: BatchNumber,
        bytes: usize,
    },
    Skip {
        rest: usize,
    },
    /// In a frame that is skipped, `left` bytes before its end; the others are of what follows it.
    SkipFrame {
        left: usize,
        rest: usize,
        number: BatchNumber,
        bytes: usize,
    },
}

/// Where one connection's parsing stands.
#[derive(Debug)]
pub struct Receiver {
    state: State,
    max_frame: usize,
}

/// Reads big-endian fields from the front of a slice; an absent byte is a length that lied.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], Malformed> {
        let (head, tail) = self.0.split_at_checked(n).ok_or(Malformed::BadLength)?;
        self.0 = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, tail) = self
            .0
            .split_first_chunk::<N>()
            .ok_or(Malformed::BadLength)?;
        self.0 = tail;
        Ok(*head)
    }

    fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_be_bytes(self.array()?))
    }
}

impl Receiver {
    /// `max_frame` bounds a frame's length, destination and term together.
    pub fn new(max_frame: usize) -> Self {
        Receiver {
            state: State::Record,
            max_frame,
        }
    }

    /// The next item in `bytes`, which start where the last item ended. `inbox` checks the batches' numbers.
    #[inline]
    pub fn next<'a>(&mut self, bytes: &'a [u8], inbox: &mut Inbox) -> Result<Step<'a>, Malformed> {
        match self.state {
            State::Frames {
                rest: 0,
                number,
                bytes,
            } => {
                self.state = State::Record;
                Ok(Step::Item(Item::BatchEnd { number, bytes }, 0))
            }
            State::Frames {
                rest,
                number,
                bytes: so_far,
            } => self.frame(bytes, rest, number, so_far),
            State::Record => self.record(bytes, inbox),
            State::Announcements {
                left: 0,
                rest,
                number,
            } => {
                self.state = State::Frames {
                    rest,
                    number,
                    bytes: 0,
                };
                self.next(bytes, inbox)
            }
            State::Announcements { left, rest, number } => {
                self.announcement(bytes, left, rest, number)
            }
            State::Skip { rest } => Ok(self.skip(bytes, rest)),
            State::SkipFrame {
                left,
                rest,
                number,
                bytes: so_far,
            } => Ok(self.skip_frame(bytes, left, rest, number, so_far)),
        }
    }

    fn record<'a>(&mut self, bytes: &'a [u8], inbox: &mut Inbox) -> Result<Step<'a>, Malformed> {
        if bytes.len() < wire::RECORD_HEAD {
            return Ok(Step::Need(wire::RECORD_HEAD));
        }
        let mut fields = Fields(bytes);
        let length = fields.u32()? as usize;
        let rest = length
            .checked_sub(wire::RECORD_HEAD - wire::LENGTH_BYTES)
            .ok_or(Malformed::BadLength)?;
        let kind = fields.u8()?;
        let _flags = fields.u8()?;
        let ack = fields.u64()?;
        match kind {
            wire::RECORD_BATCH => {
                if bytes.len() < wire::BATCH_HEAD {
                    return Ok(Step::Need(wire::BATCH_HEAD));
                }
                let rest = rest
                    .checked_sub(wire::BATCH_HEAD - wire::RECORD_HEAD)
                    .ok_or(Malformed::BadLength)?;
                let number = fields.u64()?;
                let clock_ms = fields.u32()?;
                let left = fields.u16()?;
                inbox.begin(number).map_err(Malformed::BatchOutOfOrder)?;
                self.state = State::Announcements { left, rest, number };
                Ok(Step::Item(
                    Item::Batch {
                        ack,
                        number,
                        clock_ms,
                    },
                    wire::BATCH_HEAD,
                ))
            }
            wire::RECORD_TICK if rest == 0 => Ok(Step::Item(Item::Tick { ack }, wire::RECORD_HEAD)),
            wire::RECORD_CLOSE if (2..=wire::MAX_CLOSE_BYTES).contains(&rest) => {
                let total = wire::RECORD_HEAD + rest;
                if bytes.len() < total {
                    return Ok(Step::Need(total));
                }
                let reason = CloseReason::from_code(fields.u16()?);
                let text = std::str::from_utf8(fields.take(rest - 2)?).unwrap_or("");
                Ok(Step::Item(Item::Close { ack, reason, text }, total))
            }
            wire::RECORD_TICK | wire::RECORD_CLOSE => Err(Malformed::BadLength),
            kind if kind & wire::SKIPPABLE != 0 => {
                self.state = State::Skip { rest };
                Ok(Step::Item(Item::Tick { ack }, wire::RECORD_HEAD))
            }
            kind => Err(Malformed::UnknownRecord(kind)),
        }
    }

    fn announcement<'a>(
        &mut self,
        bytes: &'a [u8],
        left: u16,
        rest: usize,
        number: BatchNumber,
    ) -> Result<Step<'a>, Malformed> {
        if rest < 4 {
            return Err(Malformed::BadLength);
        }
        if bytes.len() < 4 {
            return Ok(Step::Need(4));
        }
        let mut fields = Fields(bytes);
        let id = fields.u16()?;
        let length = usize::from(fields.u16()?);
        if length > wire::MAX_ATOM_BYTES {
            return Err(Malformed::BadAtom);
        }
        let total = 4 + length;
        let rest = rest.checked_sub(total).ok_or(Malformed::BadLength)?;
        if bytes.len() < total {
            return Ok(Step::Need(total));
        }
        let name = atom_name(fields.take(length)?)?;
        self.state = State::Announcements {
            left: left - 1,
            rest,
            number,
        };
        Ok(Step::Item(Item::Announce { id, name }, total))
    }

    fn frame<'a>(
        &mut self,
        bytes: &'a [u8],
        rest: usize,
        number: BatchNumber,
        so_far: usize,
    ) -> Result<Step<'a>, Malformed> {
        if rest < wire::FRAME_HEAD {
            return Err(Malformed::BadLength);
        }
        if bytes.len() < wire::FRAME_HEAD {
            return Ok(Step::Need(wire::FRAME_HEAD));
        }
        let mut fields = Fields(bytes);
        let kind = fields.u8()?;
        let length = fields.u32()? as usize;
        if length > self.max_frame {
            return Err(Malformed::FrameTooLarge {
                bytes: length,
                limit: self.max_frame,
            });
        }
        let total = wire::FRAME_HEAD + length;
        let rest = rest.checked_sub(total).ok_or(Malformed::BadLength)?;
        if !is_known(kind) {
            if kind & wire::SKIPPABLE == 0 {
                return Err(Malformed::UnknownFrame(kind));
            }
            // However long it is, nothing of it is kept.
            self.state = State::SkipFrame {
                left: length,
                rest,
                number,
                bytes: so_far + total,
            };
            return Ok(Step::Item(Item::Skipped, wire::FRAME_HEAD));
        }
        if bytes.len() < total {
            return Ok(Step::Need(total));
        }
        let frame = parse_frame(kind, fields.take(length)?)?;
        self.state = State::Frames {
            rest,
            number,
            bytes: so_far + total,
        };
        Ok(Step::Item(Item::Frame(frame), total))
    }

    fn skip(&mut self, bytes: &[u8], rest: usize) -> Step<'static> {
        let taken = rest.min(bytes.len());
        self.state = if taken == rest {
            State::Record
        } else {
            State::Skip { rest: rest - taken }
        };
        skipped(taken, rest)
    }

    fn skip_frame(
        &mut self,
        input: &[u8],
        left: usize,
        rest: usize,
        number: BatchNumber,
        bytes: usize,
    ) -> Step<'static> {
        let taken = left.min(input.len());
        self.state = if taken == left {
            State::Frames {
                rest,
                number,
                bytes,
            }
        } else {
            State::SkipFrame {
                left: left - taken,
                rest,
                number,
                bytes,
            }
        };
        skipped(taken, left)
    }
}

fn skipped(taken: usize, of: usize) -> Step<'static> {
    if taken == 0 && of > 0 {
        Step::Need(1)
    } else {
        Step::Item(Item::Skipped, taken)
    }
}

fn is_known(frame_kind: u8) -> bool {
    matches!(
        frame_kind & !wire::FRAME_PLAIN,
        wire::FRAME_TO_PID..=wire::FRAME_ANSWER
    )
}

/// Takes the content of a frame of a known kind apart.
#[inline]
pub fn parse_frame(kind: u8, content: &[u8]) -> Result<Frame<'_>, Malformed> {
    let mut fields = Fields(content);
    let to = match kind & !wire::FRAME_PLAIN {
        wire::FRAME_TO_PID => Destination::Pid {
            creation: fields.u32()?,
            id: fields.u32()?,
            serial: fields.u32()?,
        },
        wire::FRAME_TO_NAME => Destination::Name(match fields.u8()? {
            wire::TERM_ATOM => Name::Id(fields.u16()?),
            crate::etf::SMALL_ATOM_UTF8 => {
                let length = fields.u8()?;
                Name::Text(atom_name(fields.take(usize::from(length))?)?)
            }
            crate::etf::ATOM_UTF8 => {
                let length = fields.u16()?;
                Name::Text(atom_name(fields.take(usize::from(length))?)?)
            }
            _ => return Err(Malformed::BadAtom),
        }),
        wire::FRAME_TO_ALIAS => {
            let length = fields.u16()?;
            Destination::Alias(fields.take(usize::from(length))?)
        }
        wire::FRAME_CAST => Destination::Cast,
        wire::FRAME_CALL => {
            let (id, flag, deadline) = (fields.u64()?, fields.u8()?, fields.u32()?);
            let deadline = match (flag, deadline) {
                (0, 0) => None,
                (1, deadline) => Some(deadline),
                _ => return Err(Malformed::BadDeadline),
            };
            Destination::Call { id, deadline }
        }
        wire::FRAME_ANSWER => Destination::Caller(fields.u64()?),
        _ => return Err(Malformed::UnknownFrame(kind)),
    };
    Ok(Frame {
        to,
        plain: kind & wire::FRAME_PLAIN != 0,
        term: fields.0,
    })
}

/// A name that the VM will take as an atom: UTF-8, at most 255 characters.
pub fn atom_name(bytes: &[u8]) -> Result<&str, Malformed> {
    let name = std::str::from_utf8(bytes).map_err(|_| Malformed::BadAtom)?;
    if name.len() > 255 && name.chars().count() > 255 {
        return Err(Malformed::BadAtom);
    }
    Ok(name)
}
