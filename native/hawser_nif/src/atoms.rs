//! The process-wide dictionary: an id for every atom that has been sent, until the limit is reached.
//!
//! Encoding asks with [`AtomCache`], one per scheduler thread, which answers from a slot by the atom's bits and asks
//! the shared dictionary only the first time. Atoms are never collected by the VM, so neither are ids.

use crate::vm::{Immediate, Vm};
use hawser_core::dictionary::{AtomId, MAX_ATOMS};
use once_cell::sync::Lazy;
use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const SLOTS: usize = 2048;
const EMPTY: u32 = u32::MAX;
/// The dictionary is full: this atom goes as text.
const AS_TEXT: u32 = u32::MAX - 1;

#[derive(Default)]
struct Dictionary {
    ids: HashMap<Immediate, AtomId>,
    names: Vec<Arc<str>>,
}

static DICTIONARY: Lazy<RwLock<Dictionary>> = Lazy::new(Default::default);
static LIMIT: AtomicUsize = AtomicUsize::new(MAX_ATOMS);
static SENT_AS_TEXT: AtomicU64 = AtomicU64::new(0);

/// Sets how many atoms may get an id. Ids that were handed out stay.
pub fn set_limit(limit: usize) {
    LIMIT.store(limit.min(MAX_ATOMS), Ordering::Relaxed);
}

/// Atoms that have an id, and how often an atom went as text because the dictionary was full.
pub fn counts() -> (usize, u64) {
    (
        DICTIONARY.read().names.len(),
        SENT_AS_TEXT.load(Ordering::Relaxed),
    )
}

/// Writes announcements of `ids`; returns how many.
pub fn announce(ids: &[AtomId], out: &mut Vec<u8>) -> u16 {
    if ids.is_empty() {
        return 0;
    }
    let dictionary = DICTIONARY.read();
    let name_of = |id: AtomId| {
        dictionary
            .names
            .get(usize::from(id))
            .map(|name| name.as_bytes())
    };
    hawser_core::dictionary::announce(ids, name_of, out)
}

fn look_up(vm: Vm<'_>, atom: Immediate) -> u32 {
    {
        let dictionary = DICTIONARY.read();
        if let Some(id) = dictionary.ids.get(&atom) {
            return u32::from(*id);
        }
        if dictionary.names.len() >= LIMIT.load(Ordering::Relaxed) {
            return AS_TEXT;
        }
    }
    let Some(name) = vm.atom_name(atom) else {
        return AS_TEXT;
    };
    let mut dictionary = DICTIONARY.write();
    if let Some(id) = dictionary.ids.get(&atom) {
        return u32::from(*id);
    }
    if dictionary.names.len() >= LIMIT.load(Ordering::Relaxed) {
        return AS_TEXT;
    }
    let Ok(id) = AtomId::try_from(dictionary.names.len()) else {
        return AS_TEXT;
    };
    dictionary.names.push(Arc::from(name));
    dictionary.ids.insert(atom, id);
    u32::from(id)
}

/// One thread's short cut into the dictionary.
pub struct AtomCache {
    slots: Box<[(usize, u32); SLOTS]>,
}

impl AtomCache {
    pub fn new() -> Self {
        AtomCache {
            slots: Box::new([(0, EMPTY); SLOTS]),
        }
    }

    /// The id of an atom; `None` when it has to go as text.
    #[inline(always)]
    pub fn id(&mut self, vm: Vm<'_>, atom: Immediate) -> Option<AtomId> {
        let bits = atom.bits();
        let slot = self.slots.get_mut((bits >> 6) & (SLOTS - 1))?;
        if slot.0 != bits || slot.1 == EMPTY {
            *slot = (bits, look_up(vm, atom));
        }
        let found = AtomId::try_from(slot.1).ok();
        if found.is_none() {
            SENT_AS_TEXT.fetch_add(1, Ordering::Relaxed);
        }
        found
    }
}
