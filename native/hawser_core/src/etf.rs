//! The part of the term format that needs no VM: tags, identifiers, and the way between hawser's terms and plain
//! external term format.
//!
//! [`expand`] writes a hawser term as external term format that any reader understands; it is how a term is looked
//! at outside a VM (a recorded batch, a test with an independent decoder). The NIF's codec builds VM terms and never
//! goes through here. Both walks keep a stack of counts, so nesting costs memory and no recursion.

use crate::dictionary::AtomId;
use crate::wire;

pub const VERSION: u8 = 131;
pub const NEW_FLOAT: u8 = 70;
pub const NEW_PID: u8 = 88;
pub const NEWER_REFERENCE: u8 = 90;
pub const SMALL_INTEGER: u8 = 97;
pub const INTEGER: u8 = 98;
pub const ATOM_LATIN1: u8 = 100;
pub const SMALL_TUPLE: u8 = 104;
pub const LARGE_TUPLE: u8 = 105;
pub const NIL: u8 = 106;
pub const STRING: u8 = 107;
pub const LIST: u8 = 108;
pub const BINARY: u8 = 109;
pub const SMALL_BIG: u8 = 110;
pub const SMALL_ATOM_LATIN1: u8 = 115;
pub const MAP: u8 = 116;
pub const ATOM_UTF8: u8 = 118;
pub const SMALL_ATOM_UTF8: u8 = 119;

/// Why bytes are not a term.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadTerm {
    Truncated,
    TrailingBytes(usize),
    UnknownTag(u8),
    UnknownAtom(AtomId),
    BadAtomName,
    NotEmbeddable,
}

/// A pid in external term format, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pid {
    pub node: String,
    pub id: u32,
    pub serial: u32,
    pub creation: u32,
}

/// Reads a pid (tag included, 131 excluded) and nothing behind it.
pub fn parse_pid(bytes: &[u8]) -> Result<Pid, BadTerm> {
    let mut read = Reader(bytes);
    if read.u8()? != NEW_PID {
        return Err(BadTerm::UnknownTag(bytes.first().copied().unwrap_or(0)));
    }
    let node = read.atom()?;
    let pid = Pid {
        node,
        id: read.u32()?,
        serial: read.u32()?,
        creation: read.u32()?,
    };
    read.end()?;
    Ok(pid)
}

/// Writes a pid as external term format without the leading 131.
pub fn write_pid(node: &str, id: u32, serial: u32, creation: u32, out: &mut Vec<u8>) {
    out.push(NEW_PID);
    write_atom(node.as_bytes(), out);
    out.extend_from_slice(&id.to_be_bytes());
    out.extend_from_slice(&serial.to_be_bytes());
    out.extend_from_slice(&creation.to_be_bytes());
}

/// The node and creation in a reference (tag included, 131 excluded) that has nothing behind it.
pub fn parse_reference(bytes: &[u8]) -> Result<(String, u32), BadTerm> {
    let mut read = Reader(bytes);
    if read.u8()? != NEWER_REFERENCE {
        return Err(BadTerm::UnknownTag(bytes.first().copied().unwrap_or(0)));
    }
    let words = usize::from(read.u16()?);
    let node = read.atom()?;
    let creation = read.u32()?;
    read.take(4 * words)?;
    read.end()?;
    Ok((node, creation))
}

/// Reads an atom of any of the four tags and nothing behind it, as UTF-8.
pub fn parse_atom(bytes: &[u8]) -> Result<String, BadTerm> {
    let mut read = Reader(bytes);
    let name = read.atom()?;
    read.end()?;
    Ok(name)
}

/// Writes an atom as text.
pub fn write_atom(name: &[u8], out: &mut Vec<u8>) {
    match u8::try_from(name.len()) {
        Ok(length) => out.extend_from_slice(&[SMALL_ATOM_UTF8, length]),
        Err(_) => {
            out.push(ATOM_UTF8);
            out.extend_from_slice(&(name.len() as u16).to_be_bytes());
        }
    }
    out.extend_from_slice(name);
}

/// The two ends of a connection, as far as a term needs them to become plain external term format.
#[derive(Debug)]
pub struct Ends<'a> {
    pub sender: (&'a str, u32),
    pub receiver: (&'a str, u32),
}

/// Writes one hawser term (all of `bytes`) as external term format with its leading 131.
pub fn expand<'a>(
    bytes: &[u8],
    ends: &Ends<'_>,
    atom: impl Fn(AtomId) -> Option<&'a str>,
) -> Result<Vec<u8>, BadTerm> {
    let mut read = Reader(bytes);
    let mut out = vec![VERSION];
    let mut open: Vec<u64> = vec![1];
    while let Some(left) = open.last_mut() {
        if *left == 0 {
            open.pop();
            continue;
        }
        *left -= 1;
        let tag = read.u8()?;
        match tag {
            wire::TERM_ATOM => {
                let id = read.u16()?;
                write_atom(
                    atom(id).ok_or(BadTerm::UnknownAtom(id))?.as_bytes(),
                    &mut out,
                );
            }
            wire::TERM_SENDER_PID | wire::TERM_RECEIVER_PID => {
                let (node, creation) = if tag == wire::TERM_SENDER_PID {
                    ends.sender
                } else {
                    ends.receiver
                };
                write_pid(node, read.u32()?, read.u32()?, creation, &mut out);
            }
            wire::TERM_EMBEDDED => {
                let length = read.u32()? as usize;
                match read.take(length)?.split_first() {
                    Some((&VERSION, term)) => out.extend_from_slice(term),
                    _ => return Err(BadTerm::NotEmbeddable),
                }
            }
            _ => {
                let children = read.copy(tag, &mut out)?;
                if children > 0 {
                    open.push(children);
                }
            }
        }
    }
    read.end()?;
    Ok(out)
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], BadTerm> {
        let (head, tail) = self.0.split_at_checked(n).ok_or(BadTerm::Truncated)?;
        self.0 = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], BadTerm> {
        let (head, tail) = self.0.split_first_chunk::<N>().ok_or(BadTerm::Truncated)?;
        self.0 = tail;
        Ok(*head)
    }

    fn u8(&mut self) -> Result<u8, BadTerm> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    fn u16(&mut self) -> Result<u16, BadTerm> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32, BadTerm> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    fn end(&self) -> Result<(), BadTerm> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(BadTerm::TrailingBytes(self.0.len()))
        }
    }

    fn atom(&mut self) -> Result<String, BadTerm> {
        let tag = self.u8()?;
        let length = match tag {
            SMALL_ATOM_UTF8 | SMALL_ATOM_LATIN1 => usize::from(self.u8()?),
            ATOM_UTF8 | ATOM_LATIN1 => usize::from(self.u16()?),
            tag => return Err(BadTerm::UnknownTag(tag)),
        };
        let name = self.take(length)?;
        match tag {
            SMALL_ATOM_LATIN1 | ATOM_LATIN1 => Ok(name.iter().copied().map(char::from).collect()),
            _ => String::from_utf8(name.to_vec()).map_err(|_| BadTerm::BadAtomName),
        }
    }

    /// Copies what a tag of plain external term format owns itself; returns how many terms follow that belong to it.
    fn copy(&mut self, tag: u8, out: &mut Vec<u8>) -> Result<u64, BadTerm> {
        out.push(tag);
        let (own, children) = match tag {
            SMALL_INTEGER => (1, 0),
            INTEGER => (4, 0),
            NEW_FLOAT => (8, 0),
            NIL => (0, 0),
            SMALL_TUPLE => (1, u64::from(self.peek::<1>()?[0])),
            LARGE_TUPLE => (4, u64::from(u32::from_be_bytes(self.peek()?))),
            LIST => (4, u64::from(u32::from_be_bytes(self.peek()?)) + 1),
            MAP => (4, 2 * u64::from(u32::from_be_bytes(self.peek()?))),
            STRING => (2 + usize::from(u16::from_be_bytes(self.peek()?)), 0),
            BINARY => (4 + u32::from_be_bytes(self.peek()?) as usize, 0),
            SMALL_BIG => (2 + usize::from(self.peek::<1>()?[0]), 0),
            SMALL_ATOM_UTF8 => (1 + usize::from(self.peek::<1>()?[0]), 0),
            ATOM_UTF8 => (2 + usize::from(u16::from_be_bytes(self.peek()?)), 0),
            tag => return Err(BadTerm::UnknownTag(tag)),
        };
        out.extend_from_slice(self.take(own)?);
        Ok(children)
    }

    fn peek<const N: usize>(&self) -> Result<[u8; N], BadTerm> {
        self.0.first_chunk::<N>().copied().ok_or(BadTerm::Truncated)
    }
}
