//! Boxed terms that outlive a call: a small set of them in an environment of its own, all thrown away together.

use super::{Vm, Word};
use rustler::sys::{self, ErlNifEnv, ErlNifHash, ErlNifTerm};
use std::marker::PhantomData;

/// A set of kept terms. Grows by [`Kept::keep`], is emptied only as a whole.
pub struct Kept {
    env: *mut ErlNifEnv,
    generation: u32,
}

/// A term of a [`Kept`], valid until that is emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptTerm {
    term: ErlNifTerm,
    generation: u32,
}

impl Kept {
    pub const fn new() -> Self {
        Kept {
            env: std::ptr::null_mut(),
            generation: 0,
        }
    }

    /// Copies a term into the set.
    pub fn keep(&mut self, word: Word<'_>) -> KeptTerm {
        // SAFETY: the environment is made here, used by one thread at a time (&mut), and never freed.
        let term = unsafe {
            if self.env.is_null() {
                self.env = sys::enif_alloc_env();
            }
            sys::enif_make_copy(self.env, word.0)
        };
        KeptTerm {
            term,
            generation: self.generation,
        }
    }

    /// Forgets every term of the set.
    pub fn clear(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        if !self.env.is_null() {
            // SAFETY: made by enif_alloc_env; terms of older generations are refused below.
            unsafe { sys::enif_clear_env(self.env) }
        }
    }

    /// Is the kept term the same as `word`?
    pub fn same(&self, kept: KeptTerm, word: Word<'_>) -> bool {
        // SAFETY: the generation shows that the kept term was not cleared.
        kept.generation == self.generation
            && unsafe { sys::enif_is_identical(kept.term, word.0) != 0 }
    }

    /// Copies a kept term into the running call's environment.
    pub fn copy<'a>(&self, kept: KeptTerm, vm: Vm<'a>) -> Option<Word<'a>> {
        // SAFETY: as above.
        (kept.generation == self.generation).then(|| {
            Word(
                unsafe { sys::enif_make_copy(vm.env, kept.term) },
                PhantomData,
            )
        })
    }
}

/// One kept term, in an environment of its own that is used again and again.
pub struct KeptOne {
    env: *mut ErlNifEnv,
    term: Option<ErlNifTerm>,
}

// SAFETY: the environment belongs to nobody but this value; it is used by whoever holds the value, one at a time.
unsafe impl Send for KeptOne {}

impl Default for KeptOne {
    fn default() -> Self {
        // SAFETY: a fresh environment, freed once in `drop`.
        KeptOne {
            env: unsafe { sys::enif_alloc_env() },
            term: None,
        }
    }
}

impl KeptOne {
    /// Keeps `word` instead of what was kept before.
    pub fn set(&mut self, word: Word<'_>) {
        // SAFETY: the environment is ours; the old term is forgotten with it.
        self.term = Some(unsafe {
            sys::enif_clear_env(self.env);
            sys::enif_make_copy(self.env, word.0)
        });
    }

    /// Copies the kept term into the running call's environment.
    pub fn copy<'a>(&self, vm: Vm<'a>) -> Option<Word<'a>> {
        // SAFETY: the term lives in our environment, which was not cleared since.
        self.term
            .map(|term| Word(unsafe { sys::enif_make_copy(vm.env, term) }, PhantomData))
    }
}

impl Drop for KeptOne {
    fn drop(&mut self) {
        // SAFETY: made by enif_alloc_env, freed once.
        unsafe { sys::enif_free_env(self.env) }
    }
}

/// A binary's bytes, held without copying them and outside of any process.
pub struct KeptBinary {
    env: *mut ErlNifEnv,
    data: *const u8,
    size: usize,
}

// SAFETY: the bytes of a binary term never change, and the environment that keeps them is only freed, by the owner.
unsafe impl Send for KeptBinary {}
// SAFETY: as above; sharing gives read access to the bytes alone.
unsafe impl Sync for KeptBinary {}

impl AsRef<[u8]> for KeptBinary {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the term in `env` holds `size` bytes at `data` until `drop`; `size` is not 0.
        unsafe { std::slice::from_raw_parts(self.data, self.size) }
    }
}

impl Drop for KeptBinary {
    fn drop(&mut self) {
        // SAFETY: made by enif_alloc_env, freed once.
        unsafe { sys::enif_free_env(self.env) }
    }
}

impl<'a> Vm<'a> {
    /// Holds on to a binary. `None` for an empty one, a bitstring, and anything else.
    pub fn keep_binary(self, word: Word<'a>) -> Option<KeptBinary> {
        let mut binary = std::mem::MaybeUninit::<sys::ErlNifBinary>::uninit();
        // SAFETY: a fresh environment of our own; the copy of a long binary refers to the same bytes, and that of a
        // short one lies in the environment.
        unsafe {
            let env = sys::enif_alloc_env();
            let copy = sys::enif_make_copy(env, word.0);
            if sys::enif_inspect_binary(env, copy, binary.as_mut_ptr()) == 0 {
                sys::enif_free_env(env);
                return None;
            }
            let binary = binary.assume_init();
            let kept = KeptBinary {
                env,
                data: binary.data,
                size: binary.size,
            };
            (binary.size > 0 && !binary.data.is_null()).then_some(kept)
        }
    }

    /// The VM's internal hash of a term; for tables of this process only.
    pub fn hash(self, word: Word<'a>) -> u64 {
        // SAFETY: word is a term of the running call.
        unsafe { sys::enif_hash(ErlNifHash::ERL_NIF_INTERNAL_HASH, word.0, 0) }
    }
}
