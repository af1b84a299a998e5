//! A term encoded by itself, belonging to no shard yet: for requests that go to several nodes, and for tests.
//!
//! Ids of atoms hold for the whole process, so the bytes suit every peer; which of the atoms a shard has still to
//! announce is found out at each push. Pids of a peer travel in the VM's own form, since the bytes do not know their peer.

use crate::encode::{Encoder, NATIVE_LIMIT};
use crate::pids::NodeIdentity;
use crate::scratch::{self, Scratch};
use crate::vm::{Vm, Word};
use crate::wall;
use hawser_core::dictionary::{AtomId, UsedBits};
use once_cell::sync::Lazy;
use rustler::{Encoder as _, Env, NifResult, ResourceArc, Term};

/// A term's bytes and the atoms they refer to, each once.
pub struct Encoded {
    pub bytes: Vec<u8>,
    pub atoms: Vec<AtomId>,
}

#[rustler::resource_impl]
impl rustler::Resource for Encoded {}

/// Nothing has been used before: every atom of a term is told.
static NO_SHARD: Lazy<UsedBits> = Lazy::new(UsedBits::default);

/// No peer has this name; epochs of real ones begin at 1.
static NO_PEER: Lazy<NodeIdentity> = Lazy::new(|| NodeIdentity {
    name: String::new(),
    creation: 0,
    epoch: 0,
});

/// Encodes a term for any number of pushes: a reference for `push_encoded`, or `plain`.
#[rustler::nif]
fn encode_once<'a>(env: Env<'a>, term: Term<'a>) -> NifResult<Term<'a>> {
    let vm = Vm::of(env);
    scratch::with(|scratch| {
        if !encode(vm, scratch, &NO_PEER, vm.word(term)) {
            return Ok(wall::plain().encode(env));
        }
        once_each(&mut scratch.fresh);
        let encoded = Encoded {
            bytes: scratch.frame.clone(),
            atoms: scratch.fresh.clone(),
        };
        let percent = scratch.worked(encoded.bytes.len());
        if percent > 0 {
            vm.consume(percent);
        }
        Ok(ResourceArc::new(encoded).encode(env))
    })
}

/// Leaves the term's bytes in `scratch.frame` and its atoms in `scratch.fresh`. False when it has to go plain.
pub fn encode<'a>(vm: Vm<'a>, scratch: &mut Scratch, peer: &NodeIdentity, word: Word<'a>) -> bool {
    let Scratch {
        atoms,
        pids,
        frame,
        fresh,
        ..
    } = scratch;
    frame.clear();
    fresh.clear();
    let native = Encoder {
        vm,
        out: frame,
        atoms,
        pids,
        peer,
        used: &NO_SHARD,
        fresh,
        limit: NATIVE_LIMIT,
    }
    .term(word)
    .is_ok();
    native && frame.len() <= NATIVE_LIMIT
}

/// Leaves each atom once.
pub fn once_each(atoms: &mut Vec<AtomId>) {
    atoms.sort_unstable();
    atoms.dedup();
}
