//! The atoms that one shard's session has used, and the ones that one connection has heard of.
//!
//! Ids are handed out by the process that encodes (one id for an atom, for the life of the operating system's
//! process). A shard's [`UsedAtoms`] remembers in which order its frames came to use them; a connection announces a
//! prefix of that order, so a new connection starts from the first again and nothing is announced that this peer
//! never needs. The receiving side keeps a [`Table`]. Neither ever makes an atom or touches the VM.

use crate::wire;
use std::sync::atomic::{AtomicU64, Ordering};

/// Id of an atom in the process-wide dictionary.
pub type AtomId = u16;

/// Atoms that may have an id: ids are two bytes on the wire, and so is the count of a batch's announcements.
pub const MAX_ATOMS: usize = u16::MAX as usize;

/// The order in which a shard's frames first used each atom. Written under the shard's lock.
#[derive(Debug, Default)]
pub struct UsedAtoms {
    order: Vec<AtomId>,
}

impl UsedAtoms {
    /// Notes the first use of an atom. The caller sees to it that an id comes once.
    pub fn note(&mut self, id: AtomId) {
        self.order.push(id);
    }

    /// Number of atoms used so far: a body keeps it as "announce this many before me".
    pub fn len(&self) -> usize {
        self.order.len()
    }

    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The ids from position `from` up to `upto`, for a connection that has announced `from` of them.
    pub fn range(&self, from: usize, upto: usize) -> &[AtomId] {
        self.order
            .get(from..upto.min(self.order.len()))
            .unwrap_or(&[])
    }
}

/// A bit for every atom that a shard's frames have used. Set under the shard's lock, read anywhere.
#[derive(Debug)]
pub struct UsedBits(Box<[AtomicU64; WORDS]>);

/// A bit for every id there can be, so that no id is out of range.
const WORDS: usize = (AtomId::MAX as usize + 1) / 64;

impl Default for UsedBits {
    fn default() -> Self {
        UsedBits(Box::new([const { AtomicU64::new(0) }; WORDS]))
    }
}

impl UsedBits {
    /// Has the atom been used?
    #[inline(always)]
    pub fn get(&self, id: AtomId) -> bool {
        self.0[usize::from(id) / 64].load(Ordering::Relaxed) >> (id % 64) & 1 != 0
    }

    /// Sets the bit; true when it was not set before.
    pub fn set(&self, id: AtomId) -> bool {
        let bit = 1 << (id % 64);
        self.0[usize::from(id) / 64].fetch_or(bit, Ordering::Relaxed) & bit == 0
    }
}

/// Writes announcements of `ids` with the names that `name_of` gives. Returns how many were written.
pub fn announce<'a>(
    ids: &[AtomId],
    mut name_of: impl FnMut(AtomId) -> Option<&'a [u8]>,
    out: &mut Vec<u8>,
) -> u16 {
    let mut count = 0;
    for &id in ids {
        if let Some(name) = name_of(id).filter(|name| name.len() <= wire::MAX_ATOM_BYTES) {
            wire::write_announcement(id, name, out);
            count += 1;
        }
    }
    count
}

/// What a connection's announcements mean on the receiving side; `T` is the VM's word for an atom.
#[derive(Debug)]
pub struct Table<T> {
    entries: Vec<Option<T>>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Table {
            entries: Vec::new(),
        }
    }
}

impl<T: Copy + PartialEq> Table<T> {
    /// Takes an announcement. An id that means another atom already is refused: ids are for life.
    pub fn insert(&mut self, id: AtomId, atom: T) -> Result<(), Redefined> {
        let at = usize::from(id);
        if at >= self.entries.len() {
            self.entries.resize(at + 1, None);
        }
        match self.entries.get_mut(at) {
            Some(entry @ None) => {
                *entry = Some(atom);
                Ok(())
            }
            Some(Some(known)) if *known == atom => Ok(()),
            _ => Err(Redefined(id)),
        }
    }

    /// The atom of an id, if it was announced.
    #[inline]
    pub fn get(&self, id: AtomId) -> Option<T> {
        self.entries.get(usize::from(id)).copied().flatten()
    }
}

/// A peer announced an id a second time with another name.
#[derive(Debug, PartialEq, Eq)]
pub struct Redefined(pub AtomId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_announces_what_it_has_not_announced() {
        let mut used = UsedAtoms::default();
        for id in [7, 3, 9] {
            used.note(id);
        }
        assert_eq!(used.range(0, 2), [7, 3]);
        assert_eq!(used.range(2, used.len()), [9]);
        assert_eq!(used.range(3, 3), [0u16; 0]);
        assert_eq!(used.range(4, 9), [0u16; 0]);
    }

    #[test]
    fn an_id_keeps_its_meaning() {
        let mut table = Table::default();
        assert_eq!(table.get(5), None);
        assert_eq!(table.insert(5, 'a'), Ok(()));
        assert_eq!(table.insert(5, 'a'), Ok(()));
        assert_eq!(table.insert(5, 'b'), Err(Redefined(5)));
        assert_eq!(table.get(5), Some('a'));
        assert_eq!(table.get(4), None);
    }

    #[test]
    fn names_that_cannot_be_atoms_are_not_announced() {
        let long = vec![b'x'; wire::MAX_ATOM_BYTES + 1];
        let mut out = Vec::new();
        let count = announce(
            &[1, 2, 3],
            |id| match id {
                1 => Some(b"one".as_slice()),
                2 => Some(long.as_slice()),
                _ => None,
            },
            &mut out,
        );
        assert_eq!(count, 1);
        assert_eq!(out, [0, 1, 0, 3, b'o', b'n', b'e']);
    }
}
