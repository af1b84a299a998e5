//! The caller's side: a message becomes a frame in its shard's queue, in the caller, on its scheduler.

use crate::encode::{Encoder, NATIVE_LIMIT, Plain};
use crate::pids::Belongs;
use crate::scratch::{self, Scratch};
use crate::session::{RouteCache, Session};
use crate::shard::Shard;
use crate::vm::{Kind, Vm, Word};
use crate::wall;
use bytes::Bytes;
use hawser_core::queue::Pushed;
use hawser_core::{etf, wire};
use rustler::{Atom, Encoder as _, Env, NifResult, Term};
use std::sync::atomic::Ordering;

/// Why a frame was not written.
enum NoFrame {
    /// The term has to go plain.
    Plain,
    /// The destination is no process of the peer's present incarnation: nothing is to be sent.
    Nowhere,
    /// The destination is none.
    BadDestination,
}

impl From<Plain> for NoFrame {
    fn from(_: Plain) -> Self {
        NoFrame::Plain
    }
}

/// Queues a message for a process of `node`.
///
/// `ok`; `noroute` (no session); `plain` (make external term format of it and call `push_plain`); `{busy, Flusher}`;
/// `system_limit` (over `max_message_bytes`).
#[rustler::nif]
fn push<'a>(env: Env<'a>, node: Term<'a>, to: Term<'a>, message: Term<'a>) -> NifResult<Term<'a>> {
    let vm = Vm::of(env);
    scratch::with_routes(|routes, scratch| {
        let Some((session, shard)) = route(vm, routes, vm.word(node)) else {
            return Ok(wall::noroute().encode(env));
        };
        if shard.queue.room() == 0 {
            return busy(env, shard);
        }
        let limit = NATIVE_LIMIT.min(session.limits.max_message_bytes);
        match frame(
            vm,
            scratch,
            session,
            shard,
            vm.word(to),
            limit,
            Some(vm.word(message)),
        ) {
            Ok(()) => {}
            Err(NoFrame::Plain) => return Ok(wall::plain().encode(env)),
            Err(NoFrame::Nowhere) => return Ok(wall::ok().encode(env)),
            Err(NoFrame::BadDestination) => return Err(rustler::Error::BadArg),
        }
        let pushed = shard.push(vm, &scratch.frame, None, &scratch.fresh);
        let percent = scratch.worked(cost(shard, scratch.frame.len()));
        if percent > 0 {
            vm.consume(percent);
        }
        answer(env, pushed, shard)
    })
}

/// Queues a message that is external term format already; a long one is referred to, not copied. Answers as `push`.
#[rustler::nif]
fn push_plain<'a>(
    env: Env<'a>,
    node: Term<'a>,
    to: Term<'a>,
    message: Term<'a>,
) -> NifResult<Term<'a>> {
    let vm = Vm::of(env);
    let word = vm.word(message);
    let message = vm.binary(word).ok_or(rustler::Error::BadArg)?;
    scratch::with_routes(|routes, scratch| {
        let Some((session, shard)) = route(vm, routes, vm.word(node)) else {
            return Ok(wall::noroute().encode(env));
        };
        if message.len() > session.limits.max_message_bytes {
            return Ok(wall::system_limit().encode(env));
        }
        if shard.queue.room() == 0 {
            return busy(env, shard);
        }
        match frame(vm, scratch, session, shard, vm.word(to), NATIVE_LIMIT, None) {
            Ok(()) => {}
            Err(NoFrame::Nowhere) => return Ok(wall::ok().encode(env)),
            Err(NoFrame::Plain | NoFrame::BadDestination) => return Err(rustler::Error::BadArg),
        }
        let total = scratch.frame.len() - wire::FRAME_HEAD + message.len();
        set_head(&mut scratch.frame, wire::FRAME_PLAIN, total);
        let large = if message.len() < COPY_BELOW {
            scratch.frame.extend_from_slice(message);
            None
        } else {
            vm.keep_binary(word).map(Bytes::from_owner)
        };
        let pushed = shard.push(vm, &scratch.frame, large, &scratch.fresh);
        answer(env, pushed, shard)
    })
}

/// Plain terms shorter than this are copied into the segment; longer ones are referred to.
const COPY_BELOW: usize = 4096;

/// What a push counts for the scheduler, in bytes. With the queue half full it counts for more: the sender's time
/// slice ends early, others have their turn, and a receiver gets its messages in many small bursts instead of few
/// large ones, for which its heap would grow and stay grown.
fn cost(shard: &Shard, bytes: usize) -> usize {
    const CROWDED: usize = 8;
    if shard.queue.room() < shard.limits.max_queue_bytes / 2 {
        bytes * CROWDED
    } else {
        bytes
    }
}

fn route<'a, 'r>(
    vm: Vm<'a>,
    routes: &'r mut RouteCache,
    node: Word<'a>,
) -> Option<(&'r Session, &'r Shard)> {
    let session = routes.find(vm.immediate(node)?)?;
    let shard = session.shard_of(vm.self_pid()?.immediate())?;
    Some((session, shard))
}

/// Writes the frame into `scratch.frame`: head, destination and, if there is one, the message.
fn frame<'a>(
    vm: Vm<'a>,
    scratch: &mut Scratch,
    session: &Session,
    shard: &Shard,
    to: Word<'a>,
    limit: usize,
    message: Option<Word<'a>>,
) -> Result<(), NoFrame> {
    let Scratch {
        atoms,
        pids,
        frame,
        fresh,
        ..
    } = scratch;
    frame.clear();
    fresh.clear();
    frame.extend_from_slice(&[0; wire::FRAME_HEAD]);
    let mut encoder = Encoder {
        vm,
        out: frame,
        atoms,
        pids,
        peer: &session.peer,
        used: &shard.queue.used_bits,
        fresh,
        limit: usize::MAX,
    };
    let kind = destination(&mut encoder, session, to)?;
    encoder.limit = encoder.out.len() + limit;
    let most = encoder.limit;
    if let Some(message) = message {
        encoder.term(message)?;
    }
    if frame.len() > most {
        return Err(NoFrame::Plain);
    }
    let length = frame.len() - wire::FRAME_HEAD;
    set_head(frame, kind, length);
    Ok(())
}

/// Writes kind and length into the place that was left for them. Bits of an earlier kind stay.
fn set_head(frame: &mut [u8], kind: u8, length: usize) {
    if let Some(head) = frame.first_chunk_mut::<{ wire::FRAME_HEAD }>() {
        *head = wire::frame_head(head[0] | kind, length as u32);
    }
}

fn destination<'a>(
    encoder: &mut Encoder<'_, 'a>,
    session: &Session,
    to: Word<'a>,
) -> Result<u8, NoFrame> {
    let vm = encoder.vm;
    match vm.kind(to) {
        Kind::ForeignPid => {
            let belongs = encoder.pids.belongs(vm, to, &session.peer);
            let Some(Belongs::Peer { id, serial }) = belongs else {
                session.dropped.stale_pid.fetch_add(1, Ordering::Relaxed);
                return Err(NoFrame::Nowhere);
            };
            for number in [session.peer.creation, id, serial] {
                encoder.out.extend_from_slice(&number.to_be_bytes());
            }
            Ok(wire::FRAME_TO_PID)
        }
        Kind::Atom(name) => {
            encoder.atom(name)?;
            Ok(wire::FRAME_TO_NAME)
        }
        Kind::Reference => {
            let reference = vm.encode(to).ok_or(NoFrame::BadDestination)?;
            let bytes = reference.bytes().get(1..).ok_or(NoFrame::BadDestination)?;
            let (node, creation) =
                etf::parse_reference(bytes).map_err(|_| NoFrame::BadDestination)?;
            if node != session.peer.name || creation != session.peer.creation {
                session.dropped.stale_alias.fetch_add(1, Ordering::Relaxed);
                return Err(NoFrame::Nowhere);
            }
            encoder
                .out
                .extend_from_slice(&(bytes.len() as u16).to_be_bytes());
            encoder.out.extend_from_slice(bytes);
            Ok(wire::FRAME_TO_ALIAS)
        }
        _ => Err(NoFrame::BadDestination),
    }
}

fn answer<'a>(env: Env<'a>, pushed: Pushed, shard: &Shard) -> NifResult<Term<'a>> {
    match pushed {
        Pushed::Queued | Pushed::Kick => Ok(wall::ok().encode(env)),
        Pushed::Closed => Ok(wall::noroute().encode(env)),
        Pushed::Busy => busy(env, shard),
    }
}

/// `{busy, Flusher}`: the process that tells when there is room.
#[cold]
fn busy<'a>(env: Env<'a>, shard: &Shard) -> NifResult<Term<'a>> {
    let vm = Vm::of(env);
    shard.counters.busy.fetch_add(1, Ordering::Relaxed);
    Ok(match shard.flusher() {
        Some(pid) => {
            let pair: (Atom, Term) = (wall::busy(), vm.term(env, vm.local_pid_word(pid)));
            pair.encode(env)
        }
        None => wall::noroute().encode(env),
    })
}
