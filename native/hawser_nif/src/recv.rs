//! The reader's side: bytes of the socket become messages for processes, in the environment of the reader process.
//!
//! The VM's own socket driver reads, and wakes the reader with what it read; one call decodes that, up to its budget,
//! and returns. What a call returned counts as delivered when the reader calls again; only then may its batches be
//! acknowledged. A destination that is no process of this incarnation of this node is counted and dropped here and never
//! reaches `erlang:send`.

use crate::decode::{self, Decoder};
use crate::scratch::{self, Scratch};
use crate::session::Session;
use crate::session_nifs::ShardRef;
use crate::shard::{End, Incoming, Shard};
use crate::vm::term::LargeBinary;
use crate::vm::{Immediate, Kind, Vm, Word};
use crate::{outcome, wall};
use hawser_core::receive::{Destination, Frame, Item, Name, Step};
use hawser_core::{calls, etf, wire};
use rustler::{Atom, Encoder, Env, NifResult, ResourceArc, Term};
use std::sync::atomic::Ordering;

/// Bytes of frames decoded in one call: all that one read gives. It takes about 0.2 ms for messages of atoms.
const DECODE_AT_MOST: usize = 72 * 1024;
/// What an announced atom counts for in that budget: the VM has to enter its name in the atom table.
const ATOM_COST: usize = 256;
/// A partial frame's buffer of more bytes than this is given back when it is used up.
const KEEP_AT_MOST: usize = 4 * 1024;

/// A descriptor of the shard's socket for the VM's socket driver to read: `{ok, Descriptor}` or `{error, Sentence}`. The
/// shard keeps it open until `shard_release`; the driver never closes it.
#[rustler::nif]
fn shard_descriptor(env: Env<'_>, shard: ResourceArc<ShardRef>) -> Term<'_> {
    match shard.0.copy_descriptor() {
        Ok(descriptor) => (wall::ok(), descriptor).encode(env),
        Err(error) => (wall::error(), error.to_string()).encode(env),
    }
}

/// The driver's port is closed: so may be the descriptor that it read.
#[rustler::nif]
fn shard_release(shard: ResourceArc<ShardRef>) -> Atom {
    shard.0.release_descriptor();
    wall::ok()
}

/// Decodes what has arrived: a binary, behind everything given before; or `none`, to go on with what is left of that.
///
/// A list, after which to call again: `[To | Message]`, also of an answer; `{cast, Request}`, `{call, Id, Request}`; and the
/// same of what is still external term format: `{To, Plain}`, `{cast_plain, Plain}`, `{call_plain, Id, Plain}`,
/// `{answer_plain, Alias, Plain}`. Or `again`: everything is decoded, more bytes are needed; `closed`, `{lost, Reason}`,
/// `{malformed, Reason}`.
#[rustler::nif]
fn recv<'a>(env: Env<'a>, shard: ResourceArc<ShardRef>, given: Term<'a>) -> NifResult<Term<'a>> {
    let vm = Vm::of(env);
    let shard = &shard.0;
    let Some(session) = shard.session() else {
        return Ok((wall::lost(), wall::closed()).encode(env));
    };
    let given = vm.binary(vm.word(given)).unwrap_or(&[]);
    let mut incoming = shard.incoming.lock();
    take_over(vm, shard, &mut incoming);
    let mut slice = Slice {
        vm,
        shard,
        session: &session,
        messages: Vec::new(),
        bytes: 0,
    };
    scratch::with(|scratch| slice.feed(&mut incoming, scratch, given));
    if slice.messages.is_empty() {
        // Nothing to deliver: who sent only what is dropped here must not wait for the next bytes.
        take_over(vm, shard, &mut incoming);
    }
    let end = incoming.end.clone();
    drop(incoming);
    if slice.bytes > 0 {
        vm.consume((slice.bytes / 4096) as i32);
    }
    if !slice.messages.is_empty() || (slice.used_up() && end.is_none()) {
        return Ok(vm.term(env, vm.make_list(&slice.messages)));
    }
    Ok(match end {
        Some(End::Closed) => wall::closed().encode(env),
        Some(End::Lost(reason)) => (wall::lost(), reason).encode(env),
        Some(End::Malformed(reason)) => (wall::malformed(), reason).encode(env),
        None => wall::again().encode(env),
    })
}

/// Counts a cast for which the reader could start no process.
#[rustler::nif]
fn cast_refused(shard: ResourceArc<ShardRef>) -> Atom {
    if let Some(session) = shard.0.session() {
        session.dropped.refused_cast.fetch_add(1, Ordering::Relaxed);
    }
    wall::ok()
}

/// The reader is back: what it was given is in the mailboxes.
fn take_over(vm: Vm<'_>, shard: &Shard, incoming: &mut Incoming) {
    if !incoming.answering.is_empty() {
        shard.waiting.lock().give_back(incoming.answering.drain(..));
    }
    if let Some((number, bytes)) = incoming.delivering.take() {
        incoming.inbox.take_over(number, bytes);
        shard.taken.store(incoming.inbox.taken(), Ordering::SeqCst);
        if incoming.inbox.ack_due(shard.limits.ack_every_bytes) {
            shard.owe_tick(vm);
        }
    }
}

/// Where a message goes.
#[derive(Clone, Copy)]
enum Target<'a> {
    /// A process or an alias of this incarnation.
    Process(Word<'a>),
    /// A process to be started.
    Cast,
    /// A process to be started, whose answer goes back under this number.
    Call(wire::CallId),
    /// Whoever waits for the answer to this call.
    Caller(wire::CallId),
}

/// What one call gathers.
struct Slice<'l, 'a> {
    vm: Vm<'a>,
    shard: &'l Shard,
    session: &'l Session,
    messages: Vec<Word<'a>>,
    bytes: usize,
}

impl<'a> Slice<'_, 'a> {
    /// The call's budget is used up.
    fn used_up(&self) -> bool {
        self.bytes >= DECODE_AT_MOST
    }

    /// Decodes what was left over and what was given, as far as the budget goes; keeps the rest.
    fn feed(&mut self, incoming: &mut Incoming, scratch: &mut Scratch, mut given: &[u8]) {
        let counters = &self.shard.counters;
        if !given.is_empty() {
            counters.reads.fetch_add(1, Ordering::Relaxed);
            counters
                .received_bytes
                .fetch_add(given.len() as u64, Ordering::Relaxed);
        }
        while incoming.end.is_none() && !self.used_up() {
            if let Some(mut binary) = incoming.large.take() {
                let rest = binary.append(given);
                self.bytes += (given.len() - rest.len()) / 8;
                given = rest;
                if !binary.is_full() {
                    incoming.large = Some(binary);
                    return;
                }
                self.large_frame(incoming, scratch, binary);
            } else if incoming.rest.is_empty() {
                let used = self.decode(incoming, scratch, given);
                given = given.get(used..).unwrap_or(&[]);
                if incoming.large.is_none() {
                    // Ended, or out of budget, or a frame that goes on in what comes next.
                    break;
                }
            } else {
                // Only as many bytes as the frame that was cut still needs are copied behind its beginning.
                let missing = incoming.needed.saturating_sub(incoming.rest.len());
                let (front, back) = given.split_at(missing.min(given.len()));
                incoming.rest.extend_from_slice(front);
                given = back;
                if incoming.rest.len() < incoming.needed {
                    return;
                }
                let mut rest = std::mem::take(&mut incoming.rest);
                let used = self.decode(incoming, scratch, &rest);
                if used < rest.len() {
                    rest.drain(..used);
                    incoming.rest = rest;
                } else if rest.capacity() <= KEEP_AT_MOST {
                    rest.clear();
                    incoming.rest = rest;
                }
            }
        }
        incoming.rest.extend_from_slice(given);
    }

    fn large_frame(&mut self, incoming: &mut Incoming, scratch: &mut Scratch, binary: LargeBinary) {
        let total = binary.bytes().len();
        let step = incoming.receiver.next(binary.bytes(), &mut incoming.inbox);
        let Ok(Step::Item(Item::Frame(frame), _)) = step else {
            incoming.end = Some(End::Malformed("a long frame that is none".to_owned()));
            return;
        };
        let (from, length) = (total - frame.term.len(), frame.term.len());
        self.shard
            .counters
            .received_messages
            .fetch_add(1, Ordering::Relaxed);
        let target = match self.target(&frame.to, incoming, scratch) {
            Ok(Some(target)) => target,
            Ok(None) => return,
            Err(reason) => {
                incoming.end = Some(End::Malformed(reason));
                return;
            }
        };
        if let Err(reason) = plain_fits(target, frame.term) {
            incoming.end = Some(End::Malformed(reason));
        } else if let Some(part) = binary.into_part(self.vm, from, length) {
            self.deliver_plain(target, part, incoming);
        }
    }

    /// Decodes items until the bytes, or the budget, are used up; answers how many bytes it used. Notes how many bytes
    /// the next item needs from where it stopped, or begins a long one.
    fn decode(&mut self, incoming: &mut Incoming, scratch: &mut Scratch, bytes: &[u8]) -> usize {
        let mut at = 0;
        incoming.needed = 0;
        while !self.used_up() {
            let left = bytes.get(at..).unwrap_or(&[]);
            match incoming.receiver.next(left, &mut incoming.inbox) {
                Ok(Step::Item(item, taken)) => {
                    at += taken;
                    self.bytes += taken;
                    if let Err(end) = self.item(item, incoming, scratch) {
                        incoming.end = Some(end);
                        return bytes.len();
                    }
                }
                Ok(Step::Need(total)) if total > wire::MAX_NATIVE_FRAME => {
                    let kind = left.first().copied().unwrap_or(0);
                    match LargeBinary::new(total) {
                        Some(mut binary) if kind & wire::FRAME_PLAIN != 0 => {
                            binary.append(left);
                            incoming.large = Some(binary);
                        }
                        Some(_) => {
                            let reason = format!("a frame of {total} bytes in hawser's own form");
                            incoming.end = Some(End::Malformed(reason));
                        }
                        None => {
                            let reason = format!("no memory for a frame of {total} bytes");
                            incoming.end = Some(End::Lost(reason));
                        }
                    }
                    return bytes.len();
                }
                Ok(Step::Need(total)) => {
                    incoming.needed = total;
                    return at;
                }
                Err(malformed) => {
                    incoming.end = Some(End::Malformed(malformed.to_string()));
                    return bytes.len();
                }
            }
        }
        at
    }

    fn item(
        &mut self,
        item: Item<'_>,
        incoming: &mut Incoming,
        scratch: &mut Scratch,
    ) -> Result<(), End> {
        match item {
            Item::Frame(frame) => {
                self.shard
                    .counters
                    .received_messages
                    .fetch_add(1, Ordering::Relaxed);
                self.frame(&frame, incoming, scratch)
                    .map_err(End::Malformed)
            }
            Item::BatchEnd { number, bytes } => {
                let before = incoming.delivering.map_or(0, |(_, bytes)| bytes);
                incoming.delivering = Some((number, before + bytes));
                Ok(())
            }
            Item::Batch { ack, clock_ms, .. } => {
                incoming.clock = clock_ms;
                self.shard
                    .counters
                    .received_batches
                    .fetch_add(1, Ordering::Relaxed);
                self.acknowledged(ack)
            }
            Item::Tick { ack } => self.acknowledged(ack),
            Item::Close { ack, .. } => {
                self.acknowledged(ack)?;
                Err(End::Closed)
            }
            Item::Announce { id, name } => {
                self.bytes += ATOM_COST;
                let atom = self.vm.make_atom(name);
                match atom.map(|atom| incoming.atoms.insert(id, atom)) {
                    Some(Ok(())) => Ok(()),
                    _ => Err(End::Malformed(format!(
                        "atom {id} announced twice or badly"
                    ))),
                }
            }
            Item::Skipped => Ok(()),
        }
    }

    fn acknowledged(&self, ack: wire::BatchNumber) -> Result<(), End> {
        if self.shard.acknowledged(self.vm, ack) {
            return Ok(());
        }
        Err(End::Malformed(format!(
            "acknowledgement of batch {ack}, which was never sent"
        )))
    }

    #[inline]
    fn frame(
        &mut self,
        frame: &Frame<'_>,
        incoming: &mut Incoming,
        scratch: &mut Scratch,
    ) -> Result<(), String> {
        let Some(target) = self.target(&frame.to, incoming, scratch)? else {
            return Ok(());
        };
        if frame.plain {
            plain_fits(target, frame.term)?;
            let plain = self.vm.make_binary(frame.term);
            self.deliver_plain(target, plain, incoming);
            return Ok(());
        }
        let session = self.session;
        let (own, peer) = (&session.own, &session.peer);
        let decoder = Decoder::new(
            self.vm,
            frame.term,
            &incoming.atoms,
            &mut scratch.pids,
            own,
            peer,
        );
        let message = decoder.whole().map_err(|bad| bad.to_string())?;
        if matches!(target, Target::Caller(_)) {
            outcome::check(self.vm, message)?;
        }
        self.deliver(target, message, incoming);
        Ok(())
    }

    /// Adds a message to what the reader gets.
    #[inline]
    fn deliver(&mut self, target: Target<'a>, message: Word<'a>, incoming: &mut Incoming) {
        let vm = self.vm;
        let element = match target {
            Target::Process(to) => vm.make_cell(to, message),
            Target::Cast => vm.make_tuple(&[atom(wall::cast()), message]),
            Target::Call(id) => vm.make_tuple(&[atom(wall::call()), vm.make_u64(id), message]),
            Target::Caller(id) => {
                let Some(alias) = self.caller(id, incoming) else {
                    return;
                };
                vm.make_cell(alias, vm.make_tuple(&[alias, message]))
            }
        };
        self.messages.push(element);
    }

    /// Adds a message whose term the reader has to decode.
    fn deliver_plain(&mut self, target: Target<'a>, plain: Word<'a>, incoming: &mut Incoming) {
        let vm = self.vm;
        let element = match target {
            Target::Process(to) => vm.make_tuple(&[to, plain]),
            Target::Cast => vm.make_tuple(&[atom(wall::cast_plain()), plain]),
            Target::Call(id) => vm.make_tuple(&[atom(wall::call_plain()), vm.make_u64(id), plain]),
            Target::Caller(id) => {
                let Some(alias) = self.caller(id, incoming) else {
                    return;
                };
                vm.make_tuple(&[atom(wall::answer_plain()), alias, plain])
            }
        };
        self.messages.push(element);
    }

    /// The alias of who waits for an answer. It stays with the slice until the reader has delivered it.
    fn caller(&self, id: wire::CallId, incoming: &mut Incoming) -> Option<Word<'a>> {
        let kept = self
            .session
            .shards
            .get(calls::shard_of(id))
            .and_then(|shard| shard.waiting.lock().take(id));
        let Some(kept) = kept else {
            self.session
                .dropped
                .late_answer
                .fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let alias = kept.copy(self.vm);
        incoming.answering.push(kept);
        alias
    }

    /// What a destination means here and now; `None` is counted.
    #[inline]
    fn target(
        &self,
        to: &Destination<'_>,
        incoming: &Incoming,
        scratch: &mut Scratch,
    ) -> Result<Option<Target<'a>>, String> {
        let vm = self.vm;
        let own = &self.session.own;
        let dropped = &self.session.dropped;
        let (found, reason) = match to {
            Destination::Pid {
                creation,
                id,
                serial,
            } => {
                let pid = (*creation == own.creation)
                    .then(|| scratch.pids.own_pid(vm, own, *id, *serial))
                    .flatten();
                (pid, &dropped.stale_pid)
            }
            Destination::Name(name) => {
                let atom = match name {
                    Name::Id(id) => incoming.atoms.get(*id),
                    Name::Text(text) => vm.make_atom(text),
                };
                let atom = atom.ok_or("a name that is no atom")?;
                (
                    vm.whereis(atom.word()).map(|pid| vm.local_pid_word(pid)),
                    &dropped.unknown_name,
                )
            }
            Destination::Alias(bytes) => {
                let (node, creation) =
                    etf::parse_reference(bytes).map_err(|_| "an alias that is no reference")?;
                let here = node == own.name && creation == own.creation;
                let mut plain = Vec::with_capacity(bytes.len() + 1);
                plain.push(etf::VERSION);
                plain.extend_from_slice(bytes);
                let alias = here
                    .then(|| vm.decode(&plain))
                    .flatten()
                    .filter(|word| vm.kind(*word) == Kind::Reference);
                (alias, &dropped.stale_alias)
            }
            Destination::Cast => return Ok(Some(Target::Cast)),
            Destination::Caller(id) => return Ok(Some(Target::Caller(*id))),
            Destination::Call { id, deadline } => {
                let late =
                    deadline.is_some_and(|deadline| wire::left_ms(deadline, incoming.clock) == 0);
                if late {
                    dropped.expired_call.fetch_add(1, Ordering::Relaxed);
                }
                return Ok((!late).then_some(Target::Call(*id)));
            }
        };
        if found.is_none() {
            reason.fetch_add(1, Ordering::Relaxed);
        }
        Ok(found.map(Target::Process))
    }
}

fn atom<'a>(atom: rustler::Atom) -> Word<'a> {
    Immediate::of_atom(atom).word()
}

/// Looks at the start of a plain term, which is all that is seen of it here.
fn plain_fits(target: Target<'_>, plain: &[u8]) -> Result<(), String> {
    if !decode::is_plain(plain) {
        return Err("a plain term that is none".to_owned());
    }
    match target {
        Target::Caller(_) => outcome::check_plain(plain),
        _ => Ok(()),
    }
}
