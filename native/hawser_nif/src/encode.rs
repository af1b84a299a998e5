//! Walks a term of the calling process and writes hawser's form of it.
//!
//! What is too long, too deep, or of a type whose size cannot be known beforehand is refused before it costs a
//! scheduler anything; the caller then lets the VM's own encoder, which yields, make a plain term of it.

use crate::atoms::AtomCache;
use crate::pids::{Belongs, NodeIdentity, PidTables};
use crate::vm::{Immediate, Kind, Vm, Word};
use hawser_core::dictionary::{AtomId, UsedBits};
use hawser_core::{etf, wire};

/// Longest term in hawser's own form. A longer one goes plain, so that no push holds a scheduler for long.
pub const NATIVE_LIMIT: usize = 64 * 1024;
/// Deepest nesting in hawser's own form.
pub const MAX_DEPTH: usize = 64;
const STRING_MAX: usize = u16::MAX as usize;

/// Atoms that one term may be the first to use; each costs a look into the dictionary that all threads share.
const FRESH_ATOMS: usize = 1024;

/// The term has to go plain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain;

/// One walk: where it writes to, and whom it asks.
pub struct Encoder<'l, 'a> {
    pub vm: Vm<'a>,
    pub out: &'l mut Vec<u8>,
    pub atoms: &'l mut AtomCache,
    pub pids: &'l mut PidTables,
    pub peer: &'l NodeIdentity,
    pub used: &'l UsedBits,
    /// Atoms of this walk that the shard has not used before; may hold an id twice.
    pub fresh: &'l mut Vec<AtomId>,
    /// `out` may grow to this length.
    pub limit: usize,
}

impl<'a> Encoder<'_, 'a> {
    /// Writes one term.
    pub fn term(&mut self, word: Word<'a>) -> Result<(), Plain> {
        self.nested(word, MAX_DEPTH)
    }

    fn nested(&mut self, word: Word<'a>, depth: usize) -> Result<(), Plain> {
        if self.out.len() > self.limit {
            return Err(Plain);
        }
        match self.vm.kind(word) {
            Kind::Atom(atom) => return self.atom(atom),
            Kind::Small(value) => self.integer(value),
            Kind::Integer => match (self.vm.int64(word), self.vm.uint64(word)) {
                (Some(value), _) => self.integer(value),
                (None, Some(value)) => self.big(value, false),
                // Its size is not known beforehand.
                (None, None) => return Err(Plain),
            },
            Kind::Nil => self.out.push(etf::NIL),
            Kind::LocalPid => {
                let (id, serial) = self
                    .vm
                    .immediate(word)
                    .and_then(|pid| self.pids.own_numbers(self.vm, pid))
                    .ok_or(Plain)?;
                self.numbers(wire::TERM_SENDER_PID, id, serial);
            }
            Kind::ForeignPid => match self.pids.belongs(self.vm, word, self.peer).ok_or(Plain)? {
                Belongs::Peer { id, serial } => {
                    self.numbers(wire::TERM_RECEIVER_PID, id, serial);
                }
                Belongs::Elsewhere => return self.embed(word),
            },
            Kind::Float => {
                let value = self.vm.float(word).ok_or(Plain)?;
                self.out.push(etf::NEW_FLOAT);
                self.out.extend_from_slice(&value.to_be_bytes());
            }
            Kind::Bits => return self.binary(word),
            Kind::Tuple => return self.tuple(word, depth),
            Kind::List => return self.list(word, depth),
            Kind::Map => return self.map(word, depth),
            Kind::Port | Kind::Reference => return self.embed(word),
            Kind::Fun | Kind::Unknown => return Err(Plain),
        }
        Ok(())
    }

    /// Writes an atom: by id, or as text when the dictionary is full.
    #[inline(always)]
    pub fn atom(&mut self, atom: Immediate) -> Result<(), Plain> {
        match self.atoms.id(self.vm, atom) {
            Some(id) => {
                if !self.used.get(id) {
                    if self.fresh.len() >= 2 * FRESH_ATOMS {
                        // The same ones may stand there many times.
                        self.fresh.sort_unstable();
                        self.fresh.dedup();
                        if self.fresh.len() > FRESH_ATOMS {
                            return Err(Plain);
                        }
                    }
                    self.fresh.push(id);
                }
                let [high, low] = id.to_be_bytes();
                self.out.extend_from_slice(&[wire::TERM_ATOM, high, low]);
            }
            None => self.atom_text(atom),
        }
        Ok(())
    }

    #[cold]
    fn atom_text(&mut self, atom: Immediate) {
        if let Some(name) = self.vm.atom_name(atom) {
            etf::write_atom(name.as_bytes(), self.out);
        }
    }

    #[inline(always)]
    fn integer(&mut self, value: i64) {
        if let Ok(byte) = u8::try_from(value) {
            self.out.extend_from_slice(&[etf::SMALL_INTEGER, byte]);
        } else if let Ok(word) = i32::try_from(value) {
            let [a, b, c, d] = word.to_be_bytes();
            self.out.extend_from_slice(&[etf::INTEGER, a, b, c, d]);
        } else {
            self.big(value.unsigned_abs(), value < 0);
        }
    }

    fn big(&mut self, magnitude: u64, negative: bool) {
        let digits = magnitude.to_le_bytes();
        let length = 8 - (magnitude.leading_zeros() / 8) as usize;
        self.out
            .extend_from_slice(&[etf::SMALL_BIG, length as u8, u8::from(negative)]);
        self.out
            .extend_from_slice(digits.get(..length).unwrap_or(&digits));
    }

    fn numbers(&mut self, tag: u8, id: u32, serial: u32) {
        self.out.push(tag);
        self.out.extend_from_slice(&id.to_be_bytes());
        self.out.extend_from_slice(&serial.to_be_bytes());
    }

    /// A term whose external term format is short and known to be so, by the VM's encoder.
    fn embed(&mut self, word: Word<'a>) -> Result<(), Plain> {
        let binary = self.vm.encode(word).ok_or(Plain)?;
        let bytes = binary.bytes();
        if self.out.len() + bytes.len() > self.limit {
            return Err(Plain);
        }
        self.out.push(wire::TERM_EMBEDDED);
        self.out
            .extend_from_slice(&(bytes.len() as u32).to_be_bytes());
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    #[inline]
    fn binary(&mut self, word: Word<'a>) -> Result<(), Plain> {
        // A bitstring has no size that the API tells; the VM's encoder takes it.
        let bytes = self.vm.binary(word).ok_or(Plain)?;
        if self.out.len() + bytes.len() > self.limit {
            return Err(Plain);
        }
        self.out.push(etf::BINARY);
        self.out
            .extend_from_slice(&(bytes.len() as u32).to_be_bytes());
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    #[inline]
    fn tuple(&mut self, word: Word<'a>, depth: usize) -> Result<(), Plain> {
        let depth = depth.checked_sub(1).ok_or(Plain)?;
        let elements = self.vm.tuple(word).ok_or(Plain)?;
        match u8::try_from(elements.len()) {
            Ok(arity) => self.out.extend_from_slice(&[etf::SMALL_TUPLE, arity]),
            Err(_) => {
                self.out.push(etf::LARGE_TUPLE);
                self.out
                    .extend_from_slice(&(elements.len() as u32).to_be_bytes());
            }
        }
        for element in elements {
            self.nested(*element, depth)?;
        }
        Ok(())
    }

    #[inline]
    fn map(&mut self, word: Word<'a>, depth: usize) -> Result<(), Plain> {
        let depth = depth.checked_sub(1).ok_or(Plain)?;
        let (size, pairs) = self.vm.map(word).ok_or(Plain)?;
        if self.out.len() + size > self.limit {
            return Err(Plain);
        }
        self.out.push(etf::MAP);
        self.out.extend_from_slice(&(size as u32).to_be_bytes());
        for (key, value) in pairs {
            self.nested(key, depth)?;
            self.nested(value, depth)?;
        }
        Ok(())
    }

    fn list(&mut self, word: Word<'a>, depth: usize) -> Result<(), Plain> {
        let start = self.out.len();
        if self.string(word) {
            return Ok(());
        }
        self.out.truncate(start);
        let depth = depth.checked_sub(1).ok_or(Plain)?;
        self.out.push(etf::LIST);
        self.out.extend_from_slice(&[0; 4]);
        let mut count: u32 = 0;
        let mut rest = word;
        while let Some((head, tail)) = self.vm.cell(rest) {
            self.nested(head, depth)?;
            count += 1;
            rest = tail;
        }
        if let Some(place) = self.out.get_mut(start + 1..start + 5) {
            place.copy_from_slice(&count.to_be_bytes());
        }
        self.nested(rest, depth)
    }

    /// Writes a proper list of bytes as a string. False when it is none; `out` then has to be cut back.
    fn string(&mut self, word: Word<'a>) -> bool {
        let start = self.out.len();
        self.out.extend_from_slice(&[etf::STRING, 0, 0]);
        let mut rest = word;
        while let Some((head, tail)) = self.vm.cell(rest) {
            match self.vm.kind(head) {
                Kind::Small(value @ 0..=255) if self.out.len() < start + 3 + STRING_MAX => {
                    self.out.push(value as u8);
                }
                _ => return false,
            }
            rest = tail;
        }
        let length = (self.out.len() - start - 3) as u16;
        if let Some(place) = self.out.get_mut(start + 1..start + 3) {
            place.copy_from_slice(&length.to_be_bytes());
        }
        self.vm.kind(rest) == Kind::Nil
    }
}
