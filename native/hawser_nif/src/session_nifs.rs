//! The NIFs through which a session's owner opens, binds, routes, watches and closes it.

use crate::control::SocketHandle;
use crate::session::{self, Limits, Session};
use crate::shard::{Copied, Shard};
use crate::vm::Vm;
use crate::{atoms, wall};
use hawser_core::liveness::Verdict;
use rustler::{Atom, Encoder, Env, Error, NifResult, ResourceArc, Term};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// A session as Erlang holds it.
pub struct SessionRef(pub Arc<Session>);
/// A shard as Erlang holds it. Keeps its session.
pub struct ShardRef(pub Arc<Shard>);

#[rustler::resource_impl]
impl rustler::Resource for SessionRef {}
#[rustler::resource_impl]
impl rustler::Resource for ShardRef {}

type Opened = (Atom, ResourceArc<SessionRef>, Vec<ResourceArc<ShardRef>>);

/// Makes a session of authenticated sockets: `{ok, Session, [Shard]}` or `{error, Sentence}`. It carries nothing yet.
#[rustler::nif]
fn session_open<'a>(
    env: Env<'a>,
    node: Term<'a>,
    own: (String, u32),
    peer: (String, u32),
    sockets: Vec<ResourceArc<SocketHandle>>,
    limits: Term<'a>,
) -> NifResult<Term<'a>> {
    let vm = Vm::of(env);
    let node = vm.immediate(vm.word(node)).ok_or(Error::BadArg)?;
    let limit = |key: Atom| -> NifResult<usize> { limits.map_get(key)?.decode() };
    let limits = Limits {
        max_message_bytes: limit(wall::max_message_bytes())?,
        max_queue_bytes: limit(wall::max_queue_bytes())?,
        reply_reserve_bytes: limit(wall::reply_reserve_bytes())?,
        max_unacked_bytes: limit(wall::max_unacked_bytes())?,
        ack_every_bytes: limit(wall::ack_every_bytes())?,
    };
    let mut shards = Vec::with_capacity(sockets.len());
    for (index, socket) in sockets.iter().enumerate() {
        let Some(stream) = socket.take() else {
            let sentence = format!("socket {index} of the session has been used already");
            return Ok((wall::error(), sentence).encode(env));
        };
        shards.push(Shard::new(index, stream, limits));
    }
    if shards.is_empty() {
        return Err(Error::BadArg);
    }
    let own = session::identity(own.0, own.1);
    let peer = session::identity(peer.0, peer.1);
    let session = Session::new(node, own, peer, limits, shards);
    let shards = session
        .shards
        .iter()
        .map(|s| ResourceArc::new(ShardRef(s.clone())))
        .collect();
    let opened: Opened = (wall::ok(), ResourceArc::new(SessionRef(session)), shards);
    Ok(opened.encode(env))
}

/// Binds a shard's flusher and reader: the session ends when one of them dies.
#[rustler::nif]
fn shard_bind<'a>(
    env: Env<'a>,
    shard: ResourceArc<ShardRef>,
    flusher: Term<'a>,
    reader: Term<'a>,
) -> NifResult<Atom> {
    let vm = Vm::of(env);
    let flusher = vm.local_pid(vm.word(flusher)).ok_or(Error::BadArg)?;
    let reader = vm.local_pid(vm.word(reader)).ok_or(Error::BadArg)?;
    if shard.0.bind_flusher(vm, flusher) && shard.0.bind_reader(vm, reader) {
        Ok(wall::ok())
    } else {
        Ok(wall::closed())
    }
}

/// Routes pushes for the node through the session.
#[rustler::nif]
fn session_up(session: ResourceArc<SessionRef>) -> Atom {
    if session.0.up() {
        wall::ok()
    } else {
        wall::closed()
    }
}

/// Withdraws the route; what is queued still goes out.
#[rustler::nif]
fn session_down(session: ResourceArc<SessionRef>) -> Atom {
    session.0.down();
    wall::ok()
}

/// Ends the session; answers the aliases of those who wait for an answer, each of them once.
#[rustler::nif]
fn session_close(env: Env<'_>, session: ResourceArc<SessionRef>) -> Vec<Term<'_>> {
    let vm = Vm::of(env);
    session.0.close(vm);
    let mut aliases = Vec::new();
    for shard in &session.0.shards {
        aliases.append(&mut shard.waiting.lock().drain(vm));
        let answering = std::mem::take(&mut shard.incoming.lock().answering);
        aliases.extend(answering.iter().filter_map(|alias| alias.copy(vm)));
    }
    aliases
        .into_iter()
        .map(|alias| vm.term(env, alias))
        .collect()
}

/// The close record follows what is queued.
#[rustler::nif]
fn shard_finish(env: Env<'_>, shard: ResourceArc<ShardRef>) -> Atom {
    shard.0.finish(Vm::of(env));
    wall::ok()
}

/// Free bytes in the shard's queue, for a flusher that knows of callers who wait for them: a caller that makes more by
/// writing itself kicks the flusher.
#[rustler::nif]
fn shard_room(shard: ResourceArc<ShardRef>) -> usize {
    shard.0.awaited.store(true, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    shard.0.queue.room()
}

/// The heartbeat: takes the bytes that have arrived on each shard's socket so far; `ok`, or `{dead, Shard, SilentMs}` when a shard has been silent for too long.
#[rustler::nif]
fn session_tick(
    env: Env<'_>,
    session: ResourceArc<SessionRef>,
    now_ms: i64,
    interval_ms: u64,
    arrived: Vec<u64>,
) -> Term<'_> {
    let vm = Vm::of(env);
    // The VM's monotonic clock may be negative; only differences matter.
    let now_ms = now_ms.wrapping_sub(i64::MIN) as u64;
    let mut answer = wall::ok().encode(env);
    Copied::close_old();
    for (shard, arrived) in session.0.shards.iter().zip(arrived) {
        shard.waiting.lock().sweep(vm);
        if let Verdict::Dead { silent_ms } = shard.look(vm, now_ms, interval_ms, arrived) {
            answer = (wall::dead(), shard.index, silent_ms).encode(env);
        }
    }
    answer
}

/// How many atoms may get an id in the process-wide dictionary.
#[rustler::nif]
fn dictionary_limit(atoms: usize) -> Atom {
    atoms::set_limit(atoms);
    wall::ok()
}

/// Counters and gauges of the session.
#[rustler::nif]
fn session_info(env: Env<'_>, session: ResourceArc<SessionRef>) -> NifResult<Term<'_>> {
    let session = &session.0;
    let shards: NifResult<Vec<Term<'_>>> = session
        .shards
        .iter()
        .map(|shard| shard_info(env, shard))
        .collect();
    let dropped = &session.dropped;
    let (dictionary, as_text) = atoms::counts();
    let dropped = numbers(
        env,
        &[
            (wall::stale_pid(), read(&dropped.stale_pid)),
            (wall::unknown_name(), read(&dropped.unknown_name)),
            (wall::stale_alias(), read(&dropped.stale_alias)),
            (wall::late_answer(), read(&dropped.late_answer)),
            (wall::expired_call(), read(&dropped.expired_call)),
            (wall::refused_cast(), read(&dropped.refused_cast)),
            (
                wall::queued_at_close_bytes(),
                read(&dropped.queued_at_close_bytes),
            ),
            (
                wall::unacked_at_close_bytes(),
                read(&dropped.unacked_at_close_bytes),
            ),
        ],
    )?;
    numbers(
        env,
        &[
            (wall::dictionary_atoms(), dictionary as u64),
            (wall::atoms_sent_as_text(), as_text),
        ],
    )?
    .map_put(wall::shards(), shards?)?
    .map_put(wall::dropped(), dropped)
}

fn shard_info<'a>(env: Env<'a>, shard: &Shard) -> NifResult<Term<'a>> {
    let counters = &shard.counters;
    numbers(
        env,
        &[
            (wall::sent_messages(), shard.queue.pushed()),
            (wall::sent_bytes(), read(&counters.sent_bytes)),
            (wall::sent_batches(), read(&counters.sent_batches)),
            (wall::writes(), read(&counters.writes)),
            (wall::received_messages(), read(&counters.received_messages)),
            (wall::received_bytes(), read(&counters.received_bytes)),
            (wall::received_batches(), read(&counters.received_batches)),
            (wall::reads(), read(&counters.reads)),
            (wall::busy(), read(&counters.busy)),
            (wall::kicks(), read(&counters.kicks)),
            (wall::queued_bytes(), shard.queue.bytes() as u64),
            (wall::unacked_bytes(), read(&counters.unacked_bytes)),
            (wall::waiting_calls(), shard.waiting.lock().count() as u64),
        ],
    )
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn numbers<'a>(env: Env<'a>, pairs: &[(Atom, u64)]) -> NifResult<Term<'a>> {
    Term::map_from_pairs(env, pairs)
}
