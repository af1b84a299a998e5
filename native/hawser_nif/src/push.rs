//! The caller's side: a message becomes a frame in its shard's queue, in the caller, on its scheduler.

use crate::encode::{Encoder, NATIVE_LIMIT, Plain};
use crate::encoded::Encoded;
use crate::flush::clock_ms;
use crate::pids::Belongs;
use crate::scratch::{self, Scratch};
use crate::session::{RouteCache, Session};
use crate::session_nifs::ShardRef;
use crate::shard::Shard;
use crate::vm::{Kind, Vm, Word};
use crate::wall;
use bytes::Bytes;
use hawser_core::queue::{Pushed, Share};
use hawser_core::{calls, etf, wire};
use rustler::{Atom, Encoder as _, Env, NifResult, ResourceArc, Term};
use std::sync::atomic::Ordering;

/// Why a frame was not written.
enum NoFrame {
    /// The term has to go plain.
    Plain,
    /// The destination is no process of the peer's present incarnation: nothing is to be sent.
    Nowhere,
    /// The destination is none.
    BadDestination,
    /// Longer than `max_message_bytes`.
    TooLarge,
    /// The shard has no room for one more waiting call.
    TooManyCalls,
}

impl From<Plain> for NoFrame {
    fn from(_: Plain) -> Self {
        NoFrame::Plain
    }
}

/// What stands behind a frame's destination.
#[derive(Clone, Copy)]
enum Content<'l, 'a> {
    Term(Word<'a>),
    /// A binary that holds external term format.
    Plain(Word<'a>, &'a [u8]),
    Encoded(&'l Encoded),
}

/// Queues a message for `node`.
///
/// `To`: a pid of the node, a name, an alias; `cast` in a tuple of its own, or `{call, Alias, TimeoutMs}`, for a request,
/// whose message is `{GroupLeader, Module, Function, Arguments}`. Answers `ok`, for a call its number; `noroute` (no
/// session); `plain` (make external term format of it and call `push_plain`); `{busy, Flusher}`; `system_limit` (over
/// `max_message_bytes`, or too many calls wait).
#[rustler::nif]
fn push<'a>(env: Env<'a>, node: Term<'a>, to: Term<'a>, message: Term<'a>) -> NifResult<Term<'a>> {
    let vm = Vm::of(env);
    to_node(
        env,
        vm.word(node),
        vm.word(to),
        Content::Term(vm.word(message)),
    )
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
    let bytes = vm.binary(word).ok_or(rustler::Error::BadArg)?;
    to_node(env, vm.word(node), vm.word(to), Content::Plain(word, bytes))
}

/// Queues a message that `encode_once` has encoded. Answers as `push`, never `plain`.
#[rustler::nif]
fn push_encoded<'a>(
    env: Env<'a>,
    node: Term<'a>,
    to: Term<'a>,
    message: ResourceArc<Encoded>,
) -> NifResult<Term<'a>> {
    let vm = Vm::of(env);
    to_node(env, vm.word(node), vm.word(to), Content::Encoded(&message))
}

/// Queues the answer to a call on the shard of the process `from`, behind all that it has sent. Answers as `push`.
#[rustler::nif]
fn answer<'a>(
    env: Env<'a>,
    shard: ResourceArc<ShardRef>,
    from: Term<'a>,
    call: u64,
    outcome: Term<'a>,
) -> NifResult<Term<'a>> {
    let vm = Vm::of(env);
    let word = vm.word(outcome);
    to_caller(env, &shard.0, vm.word(from), call, Content::Term(word))
}

/// Queues an answer that is external term format already. Answers as `push`.
#[rustler::nif]
fn answer_plain<'a>(
    env: Env<'a>,
    shard: ResourceArc<ShardRef>,
    from: Term<'a>,
    call: u64,
    outcome: Term<'a>,
) -> NifResult<Term<'a>> {
    let vm = Vm::of(env);
    let word = vm.word(outcome);
    let bytes = vm.binary(word).ok_or(rustler::Error::BadArg)?;
    to_caller(
        env,
        &shard.0,
        vm.word(from),
        call,
        Content::Plain(word, bytes),
    )
}

/// Takes out a call that nobody waits for any more.
#[rustler::nif]
fn forget_call<'a>(env: Env<'a>, node: Term<'a>, call: u64) -> Atom {
    let vm = Vm::of(env);
    if let Some(session) = vm.immediate(vm.word(node)).and_then(crate::session::routed)
        && let Some(shard) = session.shards.get(calls::shard_of(call))
    {
        forget(shard, call);
    }
    wall::ok()
}

/// False when somebody else has taken it out before.
fn forget(shard: &Shard, call: u64) -> bool {
    let mut waiting = shard.waiting.lock();
    let alias = waiting.take(call);
    let found = alias.is_some();
    waiting.give_back(alias.into_iter());
    found
}

fn to_node<'a>(
    env: Env<'a>,
    node: Word<'a>,
    to: Word<'a>,
    content: Content<'_, 'a>,
) -> NifResult<Term<'a>> {
    let vm = Vm::of(env);
    scratch::with_routes(|routes, scratch| {
        let Some((session, shard)) = route(vm, routes, node) else {
            return Ok(wall::noroute().encode(env));
        };
        if shard.queue.is_full(Share::Common) {
            return busy(env, shard);
        }
        let mut call = None;
        let kind = begin(vm, scratch, session, shard, |encoder| {
            destination(encoder, session, shard, to, &mut call)
        });
        let pushed = kind.and_then(|kind| finish(vm, scratch, session, shard, kind, content));
        if let (Some(call), false) = (call, matches!(pushed, Ok(Pushed::Queued | Pushed::Kick)))
            && !forget(shard, call)
        {
            // The session's end has: the caller is told so by its alias.
            return Ok(call.encode(env));
        }
        result(env, shard, pushed, call)
    })
}

fn to_caller<'a>(
    env: Env<'a>,
    arrived_on: &Shard,
    from: Word<'a>,
    call: u64,
    content: Content<'_, 'a>,
) -> NifResult<Term<'a>> {
    let vm = Vm::of(env);
    let from = vm.immediate(from).ok_or(rustler::Error::BadArg)?;
    let Some(session) = arrived_on.session() else {
        return Ok(wall::noroute().encode(env));
    };
    let Some(shard) = session.shard_of(from) else {
        return Ok(wall::noroute().encode(env));
    };
    if shard.queue.is_full(Share::Answers) {
        return busy(env, shard);
    }
    scratch::with(|scratch| {
        let kind = begin(vm, scratch, &session, shard, |encoder| {
            encoder.out.extend_from_slice(&call.to_be_bytes());
            Ok(wire::FRAME_ANSWER)
        });
        let pushed = kind.and_then(|kind| finish(vm, scratch, &session, shard, kind, content));
        result(env, shard, pushed, None)
    })
}

/// Starts the frame in `scratch.frame`: room for its head, then the destination.
#[inline(always)]
fn begin<'a>(
    vm: Vm<'a>,
    scratch: &mut Scratch,
    session: &Session,
    shard: &Shard,
    destination: impl FnOnce(&mut Encoder<'_, 'a>) -> Result<u8, NoFrame>,
) -> Result<u8, NoFrame> {
    scratch.frame.clear();
    scratch.fresh.clear();
    scratch.frame.extend_from_slice(&[0; wire::FRAME_HEAD]);
    destination(&mut encoder(vm, scratch, session, shard, usize::MAX))
}

fn encoder<'l, 'a>(
    vm: Vm<'a>,
    scratch: &'l mut Scratch,
    session: &'l Session,
    shard: &'l Shard,
    limit: usize,
) -> Encoder<'l, 'a> {
    Encoder {
        vm,
        out: &mut scratch.frame,
        atoms: &mut scratch.atoms,
        pids: &mut scratch.pids,
        peer: &session.peer,
        used: &shard.queue.used_bits,
        fresh: &mut scratch.fresh,
        limit,
    }
}

/// Writes the content and the head, and queues the frame.
#[inline(always)]
fn finish<'a>(
    vm: Vm<'a>,
    scratch: &mut Scratch,
    session: &Session,
    shard: &Shard,
    kind: u8,
    content: Content<'_, 'a>,
) -> Result<Pushed, NoFrame> {
    let most = session.limits.max_message_bytes;
    let share = if kind == wire::FRAME_ANSWER {
        Share::Answers
    } else {
        Share::Common
    };
    match content {
        Content::Term(word) => {
            let limit = scratch.frame.len() + NATIVE_LIMIT.min(most);
            encoder(vm, scratch, session, shard, limit).term(word)?;
            if scratch.frame.len() > limit {
                return Err(NoFrame::Plain);
            }
            let length = scratch.frame.len() - wire::FRAME_HEAD;
            set_head(&mut scratch.frame, kind, length);
            let pushed = shard.push(vm, share, &scratch.frame, None, &scratch.fresh);
            let percent = scratch.worked(cost(shard, scratch.frame.len()));
            if percent > 0 {
                vm.consume(percent);
            }
            Ok(pushed)
        }
        Content::Encoded(encoded) if encoded.bytes.len() > most => Err(NoFrame::TooLarge),
        Content::Encoded(encoded) => {
            let used = &shard.queue.used_bits;
            let fresh = encoded.atoms.iter().filter(|id| !used.get(**id));
            scratch.fresh.extend(fresh);
            scratch.frame.extend_from_slice(&encoded.bytes);
            let length = scratch.frame.len() - wire::FRAME_HEAD;
            set_head(&mut scratch.frame, kind, length);
            Ok(shard.push(vm, share, &scratch.frame, None, &scratch.fresh))
        }
        Content::Plain(_, bytes) if bytes.len() > most => Err(NoFrame::TooLarge),
        Content::Plain(word, bytes) => {
            let total = scratch.frame.len() - wire::FRAME_HEAD + bytes.len();
            set_head(&mut scratch.frame, kind | wire::FRAME_PLAIN, total);
            let large = if bytes.len() < COPY_BELOW {
                scratch.frame.extend_from_slice(bytes);
                None
            } else {
                vm.keep_binary(word).map(Bytes::from_owner)
            };
            Ok(shard.push(vm, share, &scratch.frame, large, &scratch.fresh))
        }
    }
}

fn result<'a>(
    env: Env<'a>,
    shard: &Shard,
    pushed: Result<Pushed, NoFrame>,
    call: Option<u64>,
) -> NifResult<Term<'a>> {
    Ok(match pushed {
        Ok(Pushed::Queued | Pushed::Kick) => match call {
            Some(call) => call.encode(env),
            None => wall::ok().encode(env),
        },
        Ok(Pushed::Closed) => wall::noroute().encode(env),
        Ok(Pushed::Busy) => return busy(env, shard),
        Err(NoFrame::Plain) => wall::plain().encode(env),
        Err(NoFrame::Nowhere) => wall::ok().encode(env),
        Err(NoFrame::TooLarge | NoFrame::TooManyCalls) => wall::system_limit().encode(env),
        Err(NoFrame::BadDestination) => return Err(rustler::Error::BadArg),
    })
}

/// A longer timeout than this travels as none: the clock that deadlines are told by wraps.
const LONGEST_DEADLINE_MS: i64 = i32::MAX as i64;

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

/// Writes kind and length into the place that was left for them.
fn set_head(frame: &mut [u8], kind: u8, length: usize) {
    if let Some(head) = frame.first_chunk_mut::<{ wire::FRAME_HEAD }>() {
        *head = wire::frame_head(kind, length as u32);
    }
}

fn destination<'a>(
    encoder: &mut Encoder<'_, 'a>,
    session: &Session,
    shard: &Shard,
    to: Word<'a>,
    call: &mut Option<u64>,
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
        Kind::Tuple => match vm.tuple(to) {
            Some([_cast]) => Ok(wire::FRAME_CAST),
            Some([_call, alias, timeout]) => {
                if vm.kind(*alias) != Kind::Reference {
                    return Err(NoFrame::BadDestination);
                }
                let id = shard
                    .waiting
                    .lock()
                    .enter(vm, *alias)
                    .ok_or(NoFrame::TooManyCalls)?;
                *call = Some(id);
                encoder.out.extend_from_slice(&id.to_be_bytes());
                let (flag, deadline) = match vm.kind(*timeout) {
                    Kind::Small(ms @ 0..=LONGEST_DEADLINE_MS) => {
                        (1, clock_ms().wrapping_add(ms as u32))
                    }
                    _ => (0, 0),
                };
                encoder.out.push(flag);
                encoder.out.extend_from_slice(&deadline.to_be_bytes());
                Ok(wire::FRAME_CALL)
            }
            _ => Err(NoFrame::BadDestination),
        },
        _ => Err(NoFrame::BadDestination),
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
