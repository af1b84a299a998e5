//! The reader's side: bytes of the socket become messages for processes, in the environment of the reader process.
//!
//! One call reads once or a few times, decodes up to its budget and returns. What a call returned counts as
//! delivered when the reader calls again; only then may its batches be acknowledged. A destination that is no process
//! of this incarnation of this node is counted and dropped here and never reaches `erlang:send`.

use crate::decode::{self, Decoder};
use crate::scratch::{self, READ_BYTES, Scratch};
use crate::session::Session;
use crate::session_nifs::ShardRef;
use crate::shard::{End, Incoming, Shard};
use crate::vm::term::LargeBinary;
use crate::vm::{Immediate, Kind, Vm, Word};
use crate::wall;
use hawser_core::receive::{Destination, Frame, Item, Name, Step};
use hawser_core::{calls, etf, wire};
use rustler::{Encoder, Env, NifResult, ResourceArc, Term};
use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::sync::atomic::Ordering;

/// Bytes of frames decoded in one call: all that one read gives. It takes about 0.2 ms for messages of atoms.
const DECODE_AT_MOST: usize = 72 * 1024;
/// What an announced atom counts for in that budget: the VM has to enter its name in the atom table.
const ATOM_COST: usize = 256;
/// Reads in one call that bring no message (ticks, parts of something long) before others have their turn.
const READS_AT_MOST: usize = 4;

/// Reads and decodes.
///
/// A list of `[To | Message]` and `{To, Plain}` (`Plain` for `binary_to_term/1`); `again` (nothing there, `Arm` false);
/// `wait` (nothing there; `recv` comes when there is); `closed`, `{lost, Reason}`, `{malformed, Reason}`.
#[rustler::nif]
fn recv(env: Env<'_>, shard: ResourceArc<ShardRef>, arm: bool) -> NifResult<Term<'_>> {
    let vm = Vm::of(env);
    let shard = &shard.0;
    let (Some(stream), Some(session)) = (shard.stream(), shard.session()) else {
        return Ok((wall::lost(), wall::closed()).encode(env));
    };
    let mut incoming = shard.incoming.lock();
    take_over(vm, shard, &mut incoming);
    let mut slice = Slice {
        vm,
        shard,
        session: &session,
        messages: Vec::new(),
        bytes: 0,
    };
    let drained = scratch::with(|scratch| slice.fill(&mut incoming, scratch, &stream));
    let end = incoming.end.clone();
    drop(incoming);
    if slice.bytes > 0 {
        vm.consume((slice.bytes / 4096) as i32);
    }
    if !slice.messages.is_empty() || (!drained && end.is_none()) {
        return Ok(vm.term(env, vm.make_list(&slice.messages)));
    }
    Ok(match end {
        Some(End::Closed) => wall::closed().encode(env),
        Some(End::Lost(reason)) => (wall::lost(), reason).encode(env),
        Some(End::Malformed(reason)) => (wall::malformed(), reason).encode(env),
        None if !arm => wall::again().encode(env),
        None => {
            let recv = Immediate::of_atom(wall::recv());
            if shard
                .watched()
                .is_some_and(|watched| watched.arm_read(vm, recv))
            {
                wall::wait().encode(env)
            } else {
                (wall::lost(), wall::closed()).encode(env)
            }
        }
    })
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
    /// Decodes what is there and reads more until there is something to return. True when the socket is empty.
    fn fill(&mut self, incoming: &mut Incoming, scratch: &mut Scratch, stream: &TcpStream) -> bool {
        for _ in 0..READS_AT_MOST {
            if incoming.end.is_some() {
                return true;
            }
            let drained = if incoming.decodable {
                self.decode_rest(incoming, scratch);
                false
            } else if incoming.large.is_some() {
                self.read_large(incoming, scratch, stream)
            } else {
                self.read(incoming, scratch, stream)
            };
            if drained || !self.messages.is_empty() {
                return drained;
            }
        }
        false
    }

    fn decode_rest(&mut self, incoming: &mut Incoming, scratch: &mut Scratch) {
        let rest = std::mem::take(&mut incoming.rest);
        self.decode(incoming, scratch, &rest);
    }

    /// One read into the thread's buffer, behind what was left over. True when the socket is empty.
    fn read(&mut self, incoming: &mut Incoming, scratch: &mut Scratch, stream: &TcpStream) -> bool {
        let mut buffer = std::mem::take(&mut scratch.read);
        let before = incoming.rest.len();
        if buffer.len() < before + READ_BYTES {
            buffer.resize(before + READ_BYTES, 0);
        }
        let (front, back) = buffer.split_at_mut(before);
        front.copy_from_slice(&incoming.rest);
        let got = self.read_into(
            incoming,
            stream,
            back.get_mut(..READ_BYTES).unwrap_or(&mut []),
        );
        if let Some(bytes) = got {
            incoming.rest.clear();
            self.decode(
                incoming,
                scratch,
                buffer.get(..before + bytes).unwrap_or(&[]),
            );
        }
        buffer.truncate(2 * READ_BYTES);
        buffer.shrink_to(2 * READ_BYTES);
        scratch.read = buffer;
        got.is_none()
    }

    /// `None` when nothing came: the socket is empty or has ended.
    fn read_into(
        &self,
        incoming: &mut Incoming,
        mut stream: &TcpStream,
        buffer: &mut [u8],
    ) -> Option<usize> {
        self.shard.counters.reads.fetch_add(1, Ordering::Relaxed);
        match stream.read(buffer) {
            Ok(0) => {
                incoming.end = Some(End::Lost("the peer closed the connection".to_owned()));
                None
            }
            Ok(bytes) => {
                self.shard
                    .counters
                    .received_bytes
                    .fetch_add(bytes as u64, Ordering::Relaxed);
                Some(bytes)
            }
            Err(error) => {
                if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) {
                    incoming.end = Some(End::Lost(error.to_string()));
                }
                None
            }
        }
    }

    /// One read of a long frame, into its own binary.
    fn read_large(
        &mut self,
        incoming: &mut Incoming,
        scratch: &mut Scratch,
        stream: &TcpStream,
    ) -> bool {
        let Some(mut binary) = incoming.large.take() else {
            return false;
        };
        let got = self.read_into(incoming, stream, binary.room(4 * READ_BYTES));
        binary.advance(got.unwrap_or(0));
        self.bytes += got.unwrap_or(0) / 8;
        if !binary.is_full() {
            incoming.large = Some(binary);
            return got.is_none();
        }
        self.large_frame(incoming, scratch, binary);
        // The end of the batch takes no bytes: it is there already.
        incoming.decodable = true;
        false
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
        let plain = decode::is_plain(frame.term);
        let target = match self.target(&frame.to, incoming, scratch) {
            Ok(Some(target)) => target,
            Ok(None) => return,
            Err(reason) => {
                incoming.end = Some(End::Malformed(reason));
                return;
            }
        };
        if !plain {
            incoming.end = Some(End::Malformed("a plain term that is none".to_owned()));
        } else if let Some(part) = binary.into_part(self.vm, from, length) {
            self.deliver_plain(target, part, incoming);
        }
    }

    /// Decodes items until the bytes, or the budget, are used up; keeps the rest.
    fn decode(&mut self, incoming: &mut Incoming, scratch: &mut Scratch, bytes: &[u8]) {
        let mut at = 0;
        incoming.decodable = false;
        while self.bytes < DECODE_AT_MOST {
            let left = bytes.get(at..).unwrap_or(&[]);
            match incoming.receiver.next(left, &mut incoming.inbox) {
                Ok(Step::Item(item, taken)) => {
                    at += taken;
                    self.bytes += taken;
                    if let Err(end) = self.item(item, incoming, scratch) {
                        incoming.end = Some(end);
                        return;
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
                    return;
                }
                Ok(Step::Need(_)) => {
                    incoming.rest.extend_from_slice(left);
                    if incoming.rest.is_empty() {
                        incoming.rest = Vec::new();
                    }
                    return;
                }
                Err(malformed) => {
                    incoming.end = Some(End::Malformed(malformed.to_string()));
                    return;
                }
            }
        }
        incoming
            .rest
            .extend_from_slice(bytes.get(at..).unwrap_or(&[]));
        incoming.decodable = true;
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
            if !decode::is_plain(frame.term) {
                return Err("a plain term that is none".to_owned());
            }
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
