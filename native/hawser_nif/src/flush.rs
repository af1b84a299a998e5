//! The flusher's side: what is queued becomes numbered batches in the socket, as many bytes as it takes at once.

use crate::atoms;
use crate::session_nifs::ShardRef;
use crate::shard::{Outgoing, Shard};
use crate::vm::{Immediate, Vm};
use crate::wall;
use bytes::Bytes;
use hawser_core::wire::{self, BatchHead, CloseReason};
use rustler::{Atom, Encoder, Env, NifResult, ResourceArc, Term};
use std::io::{ErrorKind, IoSlice, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Instant;

/// Bytes written in one call of the NIF, then other processes have their turn.
const WRITE_AT_MOST: usize = 256 * 1024;
/// Pieces given to one system call.
const PIECES: usize = 64;

/// A caller writes by itself what it queues on a shard that has written nothing for so many microseconds. On one that is
/// busier the flusher does, and what other callers add meanwhile goes out with it.
const QUIET_US: u64 = 20;
/// The same on a crowded node, where the flusher would come late: enough to tell callers from a flood of messages.
const QUIET_WHEN_CROWDED_US: u64 = 2;

static CROWDED: AtomicBool = AtomicBool::new(false);

/// Tells whether processes of this node wait long for their turn.
#[rustler::nif]
fn crowded(yes: bool) -> Atom {
    CROWDED.store(yes, Ordering::Relaxed);
    wall::ok()
}

static START: once_cell::sync::Lazy<Instant> = once_cell::sync::Lazy::new(Instant::now);

/// Monotonic milliseconds since the library was loaded.
fn now_ms() -> u64 {
    START.elapsed().as_millis() as u64
}

/// The same, as batches and deadlines tell it.
pub fn clock_ms() -> wire::ClockMs {
    now_ms() as wire::ClockMs
}

/// What the flusher process does next.
enum Next {
    /// Wait for the next kick.
    Idle,
    /// Call again.
    More,
    /// Wait until the socket takes bytes; the VM sends `flush` then.
    Wait,
    /// The close record is written.
    Finished,
    Lost(std::io::Error),
}

/// Writes what is queued.
///
/// `idle`, `more` (call again), `wait` (a `flush` comes when the socket takes bytes), `finished` (after
/// `shard_finish/1`), `{lost, Reason}`.
#[rustler::nif]
fn flush(env: Env<'_>, shard: ResourceArc<ShardRef>) -> NifResult<Term<'_>> {
    let vm = Vm::of(env);
    let shard = &shard.0;
    let Some(stream) = shard.stream() else {
        return Ok((wall::lost(), wall::closed()).encode(env));
    };
    let (next, written) = write(shard, &mut shard.outgoing.lock(), &stream);
    if written > 0 {
        vm.consume((written / 8192) as i32);
    }
    Ok(match next {
        Next::Idle => wall::idle().encode(env),
        Next::More => wall::more().encode(env),
        Next::Finished => wall::finished().encode(env),
        Next::Lost(error) => (wall::lost(), error.to_string()).encode(env),
        Next::Wait => {
            let flush = Immediate::of_atom(wall::flush());
            if shard
                .watched()
                .is_some_and(|watched| watched.arm_write(vm, flush))
            {
                wall::wait().encode(env)
            } else {
                (wall::lost(), wall::closed()).encode(env)
            }
        }
    })
}

/// Writes in the caller what it has just queued: one process less to wake, where there is nothing to gain from waiting
/// for others. False when the flusher has to be woken after all; whatever was not written it finds where it looks.
pub fn in_caller(vm: Vm<'_>, shard: &Shard) -> bool {
    let quiet = if CROWDED.load(Ordering::Relaxed) {
        QUIET_WHEN_CROWDED_US
    } else {
        QUIET_US
    };
    if now_us().saturating_sub(shard.written_us.load(Ordering::Relaxed)) < quiet {
        return false;
    }
    let Some(stream) = shard.stream() else {
        return false;
    };
    let Some(mut outgoing) = shard.outgoing.try_lock() else {
        return false;
    };
    if !outgoing.pending.is_empty() {
        return false;
    }
    let (next, written) = write(shard, &mut outgoing, &stream);
    if written > 8192 {
        vm.consume((written / 8192) as i32);
    }
    // Callers that wait for room are woken by the flusher. One that sets the flag after this look sees the room.
    fence(Ordering::SeqCst);
    matches!(next, Next::Idle) && !shard.awaited.swap(false, Ordering::SeqCst)
}

fn now_us() -> u64 {
    START.elapsed().as_micros() as u64
}

fn write(shard: &Shard, outgoing: &mut Outgoing, mut stream: &TcpStream) -> (Next, usize) {
    let mut written = 0;
    loop {
        if outgoing.pending.is_empty() && !next_record(shard, outgoing) {
            let next = if outgoing.finished {
                Next::Finished
            } else {
                Next::Idle
            };
            return (next, written);
        }
        if written >= WRITE_AT_MOST {
            return (Next::More, written);
        }
        let mut slices = [IoSlice::new(&[]); PIECES];
        let mut count = 0;
        let mut bytes = 0;
        for (slice, piece) in slices.iter_mut().zip(&outgoing.pending) {
            if bytes >= WRITE_AT_MOST {
                break;
            }
            let piece = piece.get(..WRITE_AT_MOST.min(piece.len())).unwrap_or(piece);
            *slice = IoSlice::new(piece);
            bytes += piece.len();
            count += 1;
        }
        shard.counters.writes.fetch_add(1, Ordering::Relaxed);
        match stream.write_vectored(slices.get(..count).unwrap_or(&[])) {
            Ok(0) => return (Next::Lost(ErrorKind::WriteZero.into()), written),
            Ok(bytes) => {
                written += bytes;
                shard.written_us.store(now_us(), Ordering::Relaxed);
                shard
                    .counters
                    .sent_bytes
                    .fetch_add(bytes as u64, Ordering::Relaxed);
                advance(outgoing, bytes);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return (Next::Wait, written),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return (Next::Lost(error), written),
        }
    }
}

fn advance(outgoing: &mut Outgoing, mut bytes: usize) {
    while bytes > 0 {
        let Some(piece) = outgoing.pending.front_mut() else {
            return;
        };
        if piece.len() > bytes {
            bytes::Buf::advance(piece, bytes);
            return;
        }
        bytes -= piece.len();
        outgoing.pending.pop_front();
    }
}

/// Makes the next record pending. False when there is nothing to send.
fn next_record(shard: &Shard, outgoing: &mut Outgoing) -> bool {
    while !outgoing.finished {
        let acked = shard.acked.load(Ordering::SeqCst);
        release_acknowledged(shard, outgoing, acked);
        if outgoing.outbox.unacked_bytes() < shard.limits.max_unacked_bytes {
            let idle = || {
                !shard.owes_tick.load(Ordering::SeqCst) && !shard.finishing.load(Ordering::SeqCst)
            };
            if let Some(taken) = shard.queue.take(idle) {
                batch(shard, outgoing, taken);
                return true;
            }
            if idle() {
                return false;
            }
        } else {
            // An acknowledgement that comes after this look finds the shard stalled, and kicks.
            let nothing_new = || {
                shard.acked.load(Ordering::SeqCst) == acked
                    && !shard.owes_tick.load(Ordering::SeqCst)
            };
            if shard.queue.stall(nothing_new) {
                return false;
            }
        }
        if let Some(record) = control_record(shard, outgoing) {
            outgoing.pending.push_back(Bytes::from(record));
            return true;
        }
    }
    false
}

/// The tick that is owed, or the close record when it is asked for and nothing is queued any more.
fn control_record(shard: &Shard, outgoing: &mut Outgoing) -> Option<Vec<u8>> {
    let mut record = Vec::new();
    // First the debt is cleared, then what it was owed for is read: what comes in between is owed anew.
    if shard.owes_tick.swap(false, Ordering::SeqCst) {
        wire::write_tick(shard.taken.load(Ordering::SeqCst), &mut record);
    } else if shard.finishing.load(Ordering::SeqCst)
        && outgoing.outbox.unacked_bytes() < shard.limits.max_unacked_bytes
        && shard.queue.finish()
    {
        let ack = shard.taken.load(Ordering::SeqCst);
        wire::write_close(ack, CloseReason::Finished, "", &mut record);
        outgoing.finished = true;
    } else {
        return None;
    }
    Some(record)
}

fn release_acknowledged(shard: &Shard, outgoing: &mut Outgoing, acked: wire::BatchNumber) {
    // The reader has checked that the peer does not acknowledge what was never sent.
    let acked = acked.min(outgoing.outbox.newest());
    let _ = outgoing.outbox.acknowledge(acked, drop);
    let unacked = outgoing.outbox.unacked_bytes() as u64;
    shard
        .counters
        .unacked_bytes
        .store(unacked, Ordering::Relaxed);
}

fn batch(shard: &Shard, outgoing: &mut Outgoing, taken: hawser_core::queue::Taken) {
    let now_ms = now_ms();
    let upto = taken.announce_upto;
    let fresh = shard.queue.used_range(outgoing.announced, upto);
    let mut announcements = Vec::new();
    let announcement_count = atoms::announce(&fresh, &mut announcements);
    outgoing.announced = outgoing.announced.max(upto);
    // The batch carries the acknowledgement and is a sign of life. Cleared first, then read: see `control_record`.
    shard.owes_tick.store(false, Ordering::SeqCst);
    let body = outgoing.outbox.number(taken.pieces, upto, now_ms);
    let head = BatchHead {
        ack: shard.taken.load(Ordering::SeqCst),
        number: body.number,
        clock_ms: now_ms as wire::ClockMs,
        announcement_count,
    };
    let mut record = Vec::with_capacity(wire::BATCH_HEAD + announcements.len());
    wire::write_batch_head(&head, &announcements, body.bytes, &mut record);
    let pieces: Vec<Bytes> = body.pieces.clone();
    outgoing.pending.push_back(Bytes::from(record));
    outgoing.pending.extend(pieces);
    shard.newest.store(head.number, Ordering::SeqCst);
    shard.counters.sent_batches.fetch_add(1, Ordering::Relaxed);
}
