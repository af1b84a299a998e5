//! Builds a term from hawser's form of it, in the environment of the process that calls.
//!
//! Nothing here trusts the bytes: every count is checked against what is left before anything is reserved, nesting
//! is bounded, and whatever the VM refuses to build ends the session.

use crate::pids::{NodeIdentity, PidTables};
use crate::vm::{Immediate, Vm, Word};
use hawser_core::dictionary::{AtomId, Table};
use hawser_core::receive::atom_name;
use hawser_core::{etf, wire};

/// Deepest nesting accepted: what an encoder may write, and one more for an improper tail.
const MAX_DEPTH: usize = crate::encode::MAX_DEPTH + 1;
/// Elements of a tuple or map that are gathered on the stack.
const ON_STACK: usize = 32;
/// External term format: what follows is compressed. Never written by hawser, and a bomb if taken.
const COMPRESSED: u8 = 80;

/// Why bytes are not a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadTerm {
    Truncated,
    Trailing,
    TooDeep,
    UnknownTag(u8),
    UnknownAtom(AtomId),
    BadAtom,
    BadFloat,
    BadMap,
    BadPid,
    BadEmbedded,
}

impl std::fmt::Display for BadTerm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BadTerm::Truncated => write!(f, "a term that ends too early"),
            BadTerm::Trailing => write!(f, "bytes behind a term"),
            BadTerm::TooDeep => write!(f, "a term nested deeper than {MAX_DEPTH}"),
            BadTerm::UnknownTag(tag) => write!(f, "a term with the unknown tag {tag}"),
            BadTerm::UnknownAtom(id) => write!(f, "atom {id}, which was never announced"),
            BadTerm::BadAtom => write!(f, "an atom's name that is too long or not UTF-8"),
            BadTerm::BadFloat => write!(f, "a float that is not a number"),
            BadTerm::BadMap => write!(f, "a map with a key that comes twice"),
            BadTerm::BadPid => write!(f, "a pid that cannot be one"),
            BadTerm::BadEmbedded => write!(f, "an embedded term that the VM does not take"),
        }
    }
}

/// One term's reading.
pub struct Decoder<'l, 'a> {
    vm: Vm<'a>,
    bytes: &'l [u8],
    atoms: &'l Table<Immediate>,
    pids: &'l mut PidTables,
    own: &'l NodeIdentity,
    peer: &'l NodeIdentity,
}

impl<'l, 'a> Decoder<'l, 'a> {
    pub fn new(
        vm: Vm<'a>,
        bytes: &'l [u8],
        atoms: &'l Table<Immediate>,
        pids: &'l mut PidTables,
        own: &'l NodeIdentity,
        peer: &'l NodeIdentity,
    ) -> Self {
        Decoder {
            vm,
            bytes,
            atoms,
            pids,
            own,
            peer,
        }
    }

    /// The term that fills all the bytes.
    pub fn whole(mut self) -> Result<Word<'a>, BadTerm> {
        let word = self.term(MAX_DEPTH)?;
        if self.bytes.is_empty() {
            Ok(word)
        } else {
            Err(BadTerm::Trailing)
        }
    }

    #[inline(always)]
    fn take(&mut self, n: usize) -> Result<&'l [u8], BadTerm> {
        let (head, tail) = self.bytes.split_at_checked(n).ok_or(BadTerm::Truncated)?;
        self.bytes = tail;
        Ok(head)
    }

    #[inline(always)]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], BadTerm> {
        let (head, tail) = self
            .bytes
            .split_first_chunk::<N>()
            .ok_or(BadTerm::Truncated)?;
        self.bytes = tail;
        Ok(*head)
    }

    #[inline(always)]
    fn u8(&mut self) -> Result<u8, BadTerm> {
        let (head, tail) = self.bytes.split_first().ok_or(BadTerm::Truncated)?;
        self.bytes = tail;
        Ok(*head)
    }

    fn u16(&mut self) -> Result<u16, BadTerm> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32, BadTerm> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// A count of things that take at least one byte each.
    fn count(&self, n: u32, bytes_each: usize) -> Result<usize, BadTerm> {
        let n = n as usize;
        match n.checked_mul(bytes_each) {
            Some(least) if least <= self.bytes.len() => Ok(n),
            _ => Err(BadTerm::Truncated),
        }
    }

    fn term(&mut self, depth: usize) -> Result<Word<'a>, BadTerm> {
        let tag = self.u8()?;
        match tag {
            wire::TERM_ATOM => {
                let id = self.u16()?;
                Ok(self.atoms.get(id).ok_or(BadTerm::UnknownAtom(id))?.word())
            }
            etf::SMALL_INTEGER => Ok(self.vm.make_integer(i64::from(self.u8()?))),
            etf::INTEGER => Ok(self.vm.make_integer(i64::from(self.u32()? as i32))),
            etf::BINARY => {
                let length = self.u32()? as usize;
                Ok(self.vm.make_binary(self.take(length)?))
            }
            etf::SMALL_TUPLE => {
                let arity = u32::from(self.u8()?);
                self.tuple(arity, depth)
            }
            etf::MAP => self.map(depth),
            etf::LIST => self.list(depth),
            etf::NIL => Ok(self.vm.make_list(&[])),
            etf::STRING => self.string(),
            etf::NEW_FLOAT => self
                .vm
                .make_float(f64::from_be_bytes(self.array()?))
                .ok_or(BadTerm::BadFloat),
            etf::SMALL_BIG => self.big(),
            etf::LARGE_TUPLE => {
                let arity = self.u32()?;
                self.tuple(arity, depth)
            }
            wire::TERM_SENDER_PID => {
                let (id, serial) = (self.u32()?, self.u32()?);
                self.pids
                    .peer_pid(self.vm, self.peer, id, serial)
                    .ok_or(BadTerm::BadPid)
            }
            wire::TERM_RECEIVER_PID => {
                let (id, serial) = (self.u32()?, self.u32()?);
                self.pids
                    .own_pid(self.vm, self.own, id, serial)
                    .ok_or(BadTerm::BadPid)
            }
            wire::TERM_EMBEDDED => self.embedded(),
            etf::SMALL_ATOM_UTF8 => {
                let length = usize::from(self.u8()?);
                self.atom(length)
            }
            etf::ATOM_UTF8 => {
                let length = usize::from(self.u16()?);
                self.atom(length)
            }
            tag => Err(BadTerm::UnknownTag(tag)),
        }
    }

    fn atom(&mut self, length: usize) -> Result<Word<'a>, BadTerm> {
        let name = atom_name(self.take(length)?).map_err(|_| BadTerm::BadAtom)?;
        Ok(self.vm.make_atom(name).ok_or(BadTerm::BadAtom)?.word())
    }

    #[inline]
    fn tuple(&mut self, arity: u32, depth: usize) -> Result<Word<'a>, BadTerm> {
        let depth = depth.checked_sub(1).ok_or(BadTerm::TooDeep)?;
        let arity = self.count(arity, 1)?;
        let mut stack = [self.nothing(); ON_STACK];
        if let Some(elements) = stack.get_mut(..arity) {
            for element in elements.iter_mut() {
                *element = self.term(depth)?;
            }
            return Ok(self.vm.make_tuple(elements));
        }
        Ok(self.vm.make_tuple(&self.terms(arity, depth)?))
    }

    #[inline]
    fn map(&mut self, depth: usize) -> Result<Word<'a>, BadTerm> {
        let depth = depth.checked_sub(1).ok_or(BadTerm::TooDeep)?;
        let declared = self.u32()?;
        let size = self.count(declared, 2)?;
        let (mut key_stack, mut value_stack) =
            ([self.nothing(); ON_STACK], [self.nothing(); ON_STACK]);
        if let (Some(keys), Some(values)) = (key_stack.get_mut(..size), value_stack.get_mut(..size))
        {
            for (key, value) in keys.iter_mut().zip(values.iter_mut()) {
                *key = self.term(depth)?;
                *value = self.term(depth)?;
            }
            return self.vm.make_map(keys, values).ok_or(BadTerm::BadMap);
        }
        let (mut keys, mut values) = (Vec::with_capacity(size), Vec::with_capacity(size));
        for _ in 0..size {
            keys.push(self.term(depth)?);
            values.push(self.term(depth)?);
        }
        self.vm.make_map(&keys, &values).ok_or(BadTerm::BadMap)
    }

    fn list(&mut self, depth: usize) -> Result<Word<'a>, BadTerm> {
        let depth = depth.checked_sub(1).ok_or(BadTerm::TooDeep)?;
        let declared = self.u32()?;
        let count = self.count(declared, 1)?;
        let elements = self.terms(count, depth)?;
        if self.bytes.first() == Some(&etf::NIL) {
            self.u8()?;
            return Ok(self.vm.make_list(&elements));
        }
        let tail = self.term(depth)?;
        Ok(elements
            .iter()
            .rev()
            .fold(tail, |tail, head| self.vm.make_cell(*head, tail)))
    }

    fn terms(&mut self, count: usize, depth: usize) -> Result<Vec<Word<'a>>, BadTerm> {
        let mut terms = Vec::with_capacity(count);
        for _ in 0..count {
            terms.push(self.term(depth)?);
        }
        Ok(terms)
    }

    fn string(&mut self) -> Result<Word<'a>, BadTerm> {
        let length = usize::from(self.u16()?);
        let bytes = self.take(length)?;
        let elements: Vec<_> = bytes
            .iter()
            .map(|byte| self.vm.make_integer(i64::from(*byte)))
            .collect();
        Ok(self.vm.make_list(&elements))
    }

    /// Integers of up to eight bytes; terms with longer ones go plain.
    fn big(&mut self) -> Result<Word<'a>, BadTerm> {
        let [length, sign] = self.array()?;
        let digits = self.take(usize::from(length))?;
        let mut magnitude = [0; 8];
        magnitude
            .get_mut(..digits.len())
            .ok_or(BadTerm::UnknownTag(etf::SMALL_BIG))?
            .copy_from_slice(digits);
        let magnitude = u64::from_le_bytes(magnitude);
        if sign == 0 {
            return Ok(self.vm.make_u64(magnitude));
        }
        let value = i64::try_from(-i128::from(magnitude))
            .map_err(|_| BadTerm::UnknownTag(etf::SMALL_BIG))?;
        Ok(self.vm.make_integer(value))
    }

    fn embedded(&mut self) -> Result<Word<'a>, BadTerm> {
        let length = self.u32()? as usize;
        let bytes = self.take(length)?;
        if !is_plain(bytes) {
            return Err(BadTerm::BadEmbedded);
        }
        self.vm.decode(bytes).ok_or(BadTerm::BadEmbedded)
    }

    /// A term to fill an array with before its elements are known.
    fn nothing(&self) -> Word<'a> {
        self.vm.make_integer(0)
    }
}

/// Does `bytes` start as uncompressed external term format?
pub fn is_plain(bytes: &[u8]) -> bool {
    matches!(bytes, [etf::VERSION, tag, ..] if *tag != COMPRESSED)
}
