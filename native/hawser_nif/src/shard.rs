//! One of a session's sockets with everything that belongs to it: the queue, the numbers, the connection.
//!
//! Three parties meet here, each with its own part: callers push into the queue, the flusher process owns `Outgoing` and
//! a caller borrows it while the flusher does not need it, the reader process owns `Incoming`. What one has to tell
//! another goes through the atomics. No lock is held across the end of a call; across a write to the socket that of
//! `Outgoing` is held and no other. Only a close takes the parts away, after the socket is shut.

use crate::session::{Limits, Session};
use crate::vm::kept::KeptOne;
use crate::vm::select::Watched;
use crate::vm::term::LargeBinary;
use crate::vm::{Immediate, LocalPid, Vm};
use crate::waiting::Waiting;
use bytes::Bytes;
use hawser_core::batch::{Inbox, Outbox};
use hawser_core::dictionary::Table;
use hawser_core::liveness::{Liveness, Verdict};
use hawser_core::queue::{Pushed, Queue, Share};
use hawser_core::receive::Receiver;
use hawser_core::wire;
use parking_lot::{Mutex, RwLock};
use std::collections::VecDeque;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The flusher's part.
#[derive(Default)]
pub struct Outgoing {
    pub outbox: Outbox,
    /// What is being written: pieces of the current record.
    pub pending: VecDeque<Bytes>,
    /// Atoms announced on this connection, as a position in the order of first use.
    pub announced: usize,
    pub finished: bool,
}

/// The reader's part.
pub struct Incoming {
    pub receiver: Receiver,
    pub inbox: Inbox,
    pub atoms: Table<Immediate>,
    /// Bytes that have arrived and are not decoded.
    pub rest: Vec<u8>,
    /// How long `rest` has to be at least before its first item can be decoded; 0 when that is not known.
    pub needed: usize,
    /// A frame too long to be decoded from `rest`, as far as it has arrived.
    pub large: Option<LargeBinary>,
    /// The sender's clock when it sent the batch that is being decoded.
    pub clock: wire::ClockMs,
    /// The callers that the reader process is delivering answers to.
    pub answering: Vec<KeptOne>,
    /// The batch that the reader process is delivering: taken over when it comes back for more.
    pub delivering: Option<(wire::BatchNumber, usize)>,
    /// Why nothing comes any more, once everything before it has been given out.
    pub end: Option<End>,
}

/// How a connection's incoming side ends.
#[derive(Clone, Debug)]
pub enum End {
    /// The peer sent its close record.
    Closed,
    /// The socket ended or broke.
    Lost(String),
    /// The peer broke the protocol.
    Malformed(String),
}

/// Gauges and counters of a shard; read by whoever asks.
#[derive(Default)]
pub struct Counters {
    pub sent_bytes: AtomicU64,
    pub sent_batches: AtomicU64,
    pub writes: AtomicU64,
    pub received_messages: AtomicU64,
    pub received_bytes: AtomicU64,
    pub received_batches: AtomicU64,
    pub reads: AtomicU64,
    pub busy: AtomicU64,
    pub kicks: AtomicU64,
    pub unacked_bytes: AtomicU64,
}

/// A shard of a session.
pub struct Shard {
    pub index: usize,
    pub limits: Limits,
    pub queue: Queue,
    pub outgoing: Mutex<Outgoing>,
    pub incoming: Mutex<Incoming>,
    pub counters: Counters,
    /// The callers whose requests went out on this shard.
    pub waiting: Mutex<Waiting>,
    /// Number of the newest batch taken over; written by the reader, sent by the flusher.
    pub taken: AtomicU64,
    /// Number of the newest batch that the peer has acknowledged; written by the reader, used by the flusher.
    pub acked: AtomicU64,
    /// Number of the newest batch that was given to the socket.
    pub newest: AtomicU64,
    /// When the socket last took bytes, in microseconds of the library's clock.
    pub written_us: AtomicU64,
    /// The flusher knows of callers that wait for room: it has to hear when there is some.
    pub awaited: AtomicBool,
    /// The flusher owes a record of its own for `taken`, or as a sign of life.
    pub owes_tick: AtomicBool,
    /// A close record is to follow what is queued.
    pub finishing: AtomicBool,
    stream: RwLock<Option<Arc<TcpStream>>>,
    /// The descriptor that the VM's driver reads; see [`Copied`].
    copied: Mutex<Option<Copied>>,
    watched: RwLock<Option<Arc<Watched>>>,
    flusher: RwLock<Option<LocalPid>>,
    reader: RwLock<Option<LocalPid>>,
    session: RwLock<Weak<Session>>,
    heart: Mutex<Heart>,
}

/// The heartbeat's memory.
#[derive(Default)]
struct Heart {
    liveness: Liveness,
    /// Messages sent and received at the last look.
    messages: u64,
    /// The processes have been told that nothing goes on.
    hushed: bool,
}

impl Shard {
    pub fn new(index: usize, stream: TcpStream, limits: Limits) -> Arc<Self> {
        let max_frame = limits
            .max_message_bytes
            .saturating_add(wire::MAX_ATOM_BYTES + 64);
        Arc::new(Shard {
            index,
            limits,
            queue: Queue::new(limits.max_queue_bytes, limits.reply_reserve_bytes),
            outgoing: Mutex::default(),
            incoming: Mutex::new(Incoming {
                receiver: Receiver::new(max_frame),
                inbox: Inbox::default(),
                atoms: Table::default(),
                rest: Vec::new(),
                needed: 0,
                large: None,
                clock: 0,
                answering: Vec::new(),
                delivering: None,
                end: None,
            }),
            counters: Counters::default(),
            waiting: Mutex::new(Waiting::new(index)),
            taken: AtomicU64::new(0),
            acked: AtomicU64::new(0),
            newest: AtomicU64::new(0),
            written_us: AtomicU64::new(0),
            awaited: AtomicBool::new(false),
            owes_tick: AtomicBool::new(false),
            finishing: AtomicBool::new(false),
            stream: RwLock::new(Some(Arc::new(stream))),
            copied: Mutex::default(),
            watched: RwLock::new(None),
            flusher: RwLock::new(None),
            reader: RwLock::new(None),
            session: RwLock::new(Weak::new()),
            heart: Mutex::default(),
        })
    }

    pub fn belong_to(&self, session: &Arc<Session>) {
        *self.session.write() = Arc::downgrade(session);
        let weak = Arc::downgrade(session);
        let Some(stream) = self.stream() else { return };
        let watched = Watched::new(stream, move |vm| {
            if let Some(session) = weak.upgrade() {
                session.close(vm);
            }
        });
        *self.watched.write() = watched.map(Arc::new);
    }

    pub fn session(&self) -> Option<Arc<Session>> {
        self.session.read().upgrade()
    }

    /// The socket, for the length of a call.
    pub fn stream(&self) -> Option<Arc<TcpStream>> {
        self.stream.read().clone()
    }

    /// Copies the socket's descriptor for the VM's driver.
    pub fn copy_descriptor(&self) -> std::io::Result<i32> {
        Copied::close_old();
        let stream = self
            .stream()
            .ok_or_else(|| std::io::Error::other("the session has ended"))?;
        let copy = stream.try_clone()?;
        let descriptor = copy.as_raw_fd();
        *self.copied.lock() = Some(Copied(Some(copy)));
        Ok(descriptor)
    }

    /// Closes the copy: the driver has let go of it.
    pub fn release_descriptor(&self) {
        if let Some(mut copied) = self.copied.lock().take() {
            copied.0 = None;
        }
    }

    pub fn watched(&self) -> Option<Arc<Watched>> {
        self.watched.read().clone()
    }

    pub fn flusher(&self) -> Option<LocalPid> {
        *self.flusher.read()
    }

    /// Binds the flusher process. False when it is dead or the shard is closed.
    pub fn bind_flusher(&self, vm: Vm<'_>, pid: LocalPid) -> bool {
        *self.flusher.write() = Some(pid);
        self.needs(vm, pid)
    }

    /// Binds the reader process. False when it is dead or the shard is closed.
    pub fn bind_reader(&self, vm: Vm<'_>, pid: LocalPid) -> bool {
        *self.reader.write() = Some(pid);
        self.needs(vm, pid)
    }

    /// The session ends when the process dies.
    fn needs(&self, vm: Vm<'_>, pid: LocalPid) -> bool {
        self.watched().is_some_and(|watched| watched.owner(vm, pid))
    }

    /// Sends the flusher its one word.
    pub fn kick(&self, vm: Vm<'_>) {
        self.counters.kicks.fetch_add(1, Ordering::Relaxed);
        if let Some(flusher) = self.flusher() {
            vm.send(flusher, Immediate::of_atom(crate::wall::flush()));
        }
    }

    /// Makes the flusher look at something else than frames.
    pub fn poke(&self, vm: Vm<'_>) {
        if self.queue.poke() {
            self.kick(vm);
        }
    }

    /// Queues a frame and sees to it that it is written: at once, or by the flusher.
    #[inline]
    pub fn push(
        &self,
        vm: Vm<'_>,
        share: Share,
        frame: &[u8],
        large: Option<Bytes>,
        fresh: &[u16],
    ) -> Pushed {
        let pushed = self.queue.push(share, frame, large, fresh);
        if pushed == Pushed::Kick && !crate::flush::in_caller(vm, self) {
            self.kick(vm);
        }
        pushed
    }

    /// Takes an acknowledgement of the peer's. False when it is of a batch that was never sent.
    pub fn acknowledged(&self, vm: Vm<'_>, ack: wire::BatchNumber) -> bool {
        if ack > self.newest.load(Ordering::SeqCst) {
            return false;
        }
        if ack > self.acked.fetch_max(ack, Ordering::SeqCst) && self.queue.unstall() {
            self.kick(vm);
        }
        true
    }

    /// Asks for a sign of life or an acknowledgement of its own.
    pub fn owe_tick(&self, vm: Vm<'_>) {
        self.owes_tick.store(true, Ordering::SeqCst);
        self.poke(vm);
    }

    /// Asks for the close record behind all that is queued.
    pub fn finish(&self, vm: Vm<'_>) {
        self.finishing.store(true, Ordering::SeqCst);
        self.poke(vm);
    }

    /// The heartbeat's look at this shard. `arrived`: bytes that the VM's driver has read from the socket, decoded or not.
    pub fn look(&self, vm: Vm<'_>, now_ms: u64, interval_ms: u64, arrived: u64) -> Verdict {
        let unread = self
            .stream()
            .is_some_and(|stream| stream.peek(&mut [0]).is_ok_and(|bytes| bytes > 0));
        let mut heart = self.heart.lock();
        self.hush(vm, &mut heart);
        let verdict = heart.liveness.look(
            now_ms,
            interval_ms,
            arrived,
            self.counters.sent_batches.load(Ordering::Relaxed),
            unread,
        );
        drop(heart);
        if verdict == Verdict::Tick {
            self.queue.trim();
            self.owe_tick(vm);
        }
        verdict
    }

    /// Tells the shard's processes, once, when no message has passed since the last look.
    fn hush(&self, vm: Vm<'_>, heart: &mut Heart) {
        let messages =
            self.queue.pushed() + self.counters.received_messages.load(Ordering::Relaxed);
        let quiet = messages == heart.messages;
        heart.messages = messages;
        if quiet && !heart.hushed {
            let hush = Immediate::of_atom(crate::wall::hush());
            for pid in [self.flusher(), *self.reader.read()].into_iter().flatten() {
                vm.send(pid, hush);
            }
        }
        heart.hushed = quiet;
    }

    /// Closes the socket and drops everything that was on its way.
    pub fn close(&self, vm: Vm<'_>) -> Cut {
        let queued = self.queue.close();
        let stream = self.stream.write().take();
        if let Some(stream) = stream {
            // The peer hears of it at once; the descriptor closes when nobody is in a call on it.
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        let watched = self.watched.write().take();
        if let Some(watched) = watched {
            watched.stop(vm);
        }
        // A thread's route cache may hold the shard for long: its memory goes now.
        let ended = Outgoing {
            finished: true,
            ..Outgoing::default()
        };
        let mut outgoing = std::mem::replace(&mut *self.outgoing.lock(), ended);
        // What the peer has acknowledged since the flusher last looked is not lost.
        let acked = self
            .acked
            .load(Ordering::SeqCst)
            .min(outgoing.outbox.newest());
        let _ = outgoing.outbox.acknowledge(acked, drop);
        let mut incoming = self.incoming.lock();
        (incoming.rest, incoming.large, incoming.atoms) = (Vec::new(), None, Table::default());
        incoming
            .end
            .get_or_insert(End::Lost("the session has ended".to_owned()));
        Cut {
            queued,
            unacked: outgoing.outbox.unacked_bytes(),
        }
    }
}

/// A copy of a socket's descriptor that a port of the VM selects. Closed while the port still selects it, its number
/// could come to mean another socket. A session's owner closes the port and then releases the copy; when the owner was
/// killed, the port goes with the reader, and the copy is closed some time after the shard is gone.
pub struct Copied(Option<TcpStream>);

static LEFT_OPEN: Mutex<Vec<(Instant, TcpStream)>> = Mutex::new(Vec::new());
/// By then the VM has closed the port of a reader that is dead.
const OLD: Duration = Duration::from_secs(2);

impl Copied {
    /// Closes the copies of shards that went without a release.
    pub fn close_old() {
        LEFT_OPEN.lock().retain(|(since, _)| since.elapsed() < OLD);
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        if let Some(copy) = self.0.take() {
            LEFT_OPEN.lock().push((Instant::now(), copy));
        }
    }
}

/// Bytes that a close dropped: never sent, and sent without an acknowledgement.
pub struct Cut {
    pub queued: usize,
    pub unacked: usize,
}
