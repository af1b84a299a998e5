//! Runs one handshake over one connection, whatever carries it: TCP today, TLS later. Reads exactly what the machine
//! asks for, so that the first byte of the session stays in the connection; bounded by the caller's deadline.

use hawser_core::handshake::{Agreed, MAX_FRAME_BYTES, Machine, Refusal, Step};
use std::{fmt, io};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};

/// Why a handshake ended without a session.
#[derive(Debug)]
pub(crate) enum Failure {
    Refused(Refusal),
    /// The peer closed before the handshake was over.
    Closed,
    Timeout,
    /// More connections were waiting to authenticate than are allowed, and this was the oldest.
    Evicted,
    Io(io::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Refused(refusal) => refusal.fmt(f),
            Failure::Closed => {
                f.write_str("the peer closed the connection before the handshake was over")
            }
            Failure::Timeout => f.write_str("the peer did not finish the handshake in time"),
            Failure::Evicted => f.write_str(
                "too many connections were waiting to authenticate, the oldest was closed",
            ),
            Failure::Io(error) => write!(f, "the connection broke during the handshake: {error}"),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Io(error)
    }
}

/// Writes `first` (the dialer's Hello; an acceptor has none) and drives `machine` to its end.
pub(crate) async fn run<S, M>(
    stream: &mut S,
    machine: &mut M,
    first: &[u8],
    deadline: Instant,
) -> Result<Agreed, Failure>
where
    S: AsyncRead + AsyncWrite + Unpin,
    M: Machine,
{
    timeout_at(deadline, drive(stream, machine, first))
        .await
        .unwrap_or(Err(Failure::Timeout))
}

async fn drive<S, M>(stream: &mut S, machine: &mut M, first: &[u8]) -> Result<Agreed, Failure>
where
    S: AsyncRead + AsyncWrite + Unpin,
    M: Machine,
{
    write(stream, first).await?;
    let mut buffer = [0; MAX_FRAME_BYTES];
    loop {
        let room = buffer.get_mut(..machine.wanted()).unwrap_or_default();
        let read = stream.read(room).await?;
        if read == 0 {
            return Err(Failure::Closed);
        }
        // The machine consumes all of it: no more was read than it wanted.
        let (_, step) = machine.feed(room.get(..read).unwrap_or_default());
        match step {
            Step::Read => {}
            Step::Write(bytes) => write(stream, &bytes).await?,
            Step::Established { reply, agreed } => {
                write(stream, &reply).await?;
                return Ok(agreed);
            }
            Step::Refused { reply, refusal } => {
                // The peer may be gone or deaf; it is refused all the same.
                if write(stream, &reply).await.is_ok() {
                    let _ = stream.shutdown().await;
                }
                return Err(Failure::Refused(refusal));
            }
        }
    }
}

async fn write<S: AsyncWrite + Unpin>(stream: &mut S, bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    stream.write_all(bytes).await?;
    stream.flush().await
}
