//! The codec by itself: for the tests that compare it with the VM's, and for the benchmark that times it.

use crate::decode::Decoder;
use crate::encoded::{encode, once_each};
use crate::scratch;
use crate::vm::{Immediate, Vm};
use crate::{atoms, session, wall};
use hawser_core::dictionary::Table;
use rustler::{Encoder as _, Env, Error, NifResult, Term};
use std::time::Instant;

type Ends = ((String, u32), (String, u32));

/// Encodes a term as a session between two nodes would: `{Bytes, Announcements}`, or `plain`.
#[rustler::nif]
fn codec_encode<'a>(env: Env<'a>, term: Term<'a>, ends: Ends) -> NifResult<Term<'a>> {
    let vm = Vm::of(env);
    let peer = session::identity(ends.1.0, ends.1.1);
    scratch::with(|scratch| {
        if !encode(vm, scratch, &peer, vm.word(term)) {
            return Ok(wall::plain().encode(env));
        }
        once_each(&mut scratch.fresh);
        let mut announcements = Vec::new();
        atoms::announce(&scratch.fresh, &mut announcements);
        let bytes = vm.term(env, vm.make_binary(&scratch.frame));
        let announcements = vm.term(env, vm.make_binary(&announcements));
        Ok((bytes, announcements).encode(env))
    })
}

/// Decodes what `codec_encode` gave, at the other end: `{ok, Term}` or `{error, Sentence}`.
#[rustler::nif]
fn codec_decode<'a>(
    env: Env<'a>,
    bytes: rustler::Binary<'a>,
    announcements: rustler::Binary<'a>,
    ends: Ends,
) -> NifResult<Term<'a>> {
    let vm = Vm::of(env);
    let table = table(vm, &announcements).ok_or(Error::BadArg)?;
    let sender = session::identity(ends.0.0, ends.0.1);
    let receiver = session::identity(ends.1.0, ends.1.1);
    scratch::with(|scratch| {
        let decoder = Decoder::new(vm, &bytes, &table, &mut scratch.pids, &receiver, &sender);
        Ok(match decoder.whole() {
            Ok(word) => (wall::ok(), vm.term(env, word)).encode(env),
            Err(bad) => (wall::error(), bad.to_string()).encode(env),
        })
    })
}

fn table(vm: Vm<'_>, mut announcements: &[u8]) -> Option<Table<Immediate>> {
    let mut table = Table::default();
    while let Some((head, tail)) = announcements.split_first_chunk::<4>() {
        let id = u16::from_be_bytes([head[0], head[1]]);
        let length = usize::from(u16::from_be_bytes([head[2], head[3]]));
        let (name, tail) = tail.split_at_checked(length)?;
        let name = hawser_core::receive::atom_name(name).ok()?;
        table.insert(id, vm.make_atom(name)?).ok()?;
        announcements = tail;
    }
    announcements.is_empty().then_some(table)
}

/// Encodes and decodes a term `times` over: `{EncodeNs, DecodeNs, Bytes}` each, or `plain`. Runs on a dirty scheduler.
#[rustler::nif(schedule = "DirtyCpu")]
fn codec_bench<'a>(env: Env<'a>, term: Term<'a>, times: u32) -> NifResult<Term<'a>> {
    let vm = Vm::of(env);
    let node = session::identity("bench@nowhere".to_owned(), 1);
    scratch::with(|scratch| {
        let started = Instant::now();
        for _ in 0..times.max(1) {
            if !encode(vm, scratch, &node, vm.word(term)) {
                return Ok(wall::plain().encode(env));
            }
        }
        let encoded = started.elapsed();
        let mut announcements = Vec::new();
        once_each(&mut scratch.fresh);
        atoms::announce(&scratch.fresh, &mut announcements);
        let table = table(vm, &announcements).ok_or(Error::BadArg)?;
        let bytes = scratch.frame.clone();
        let mut spent = std::time::Duration::ZERO;
        for _ in 0..times.div_ceil(ROUND) {
            spent += rustler::OwnedEnv::new().run(|round| {
                let vm = Vm::of(round);
                let started = Instant::now();
                for _ in 0..ROUND {
                    let pids = &mut scratch.pids;
                    if Decoder::new(vm, &bytes, &table, pids, &node, &node)
                        .whole()
                        .is_err()
                    {
                        return Err(Error::BadArg);
                    }
                }
                Ok(started.elapsed())
            })?;
        }
        let rounds = u128::from(times.div_ceil(ROUND) * ROUND);
        let each = |total: std::time::Duration, n: u128| (total.as_nanos() / n.max(1)) as u64;
        let figures = (
            each(encoded, u128::from(times.max(1))),
            each(spent, rounds),
            bytes.len(),
        );
        Ok(figures.encode(env))
    })
}

/// Terms decoded into one environment before it is thrown away, as a reader's slice would be.
const ROUND: u32 = 200;
