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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invitations::Table;
    use hawser_core::handshake::{
        Acceptor, Capabilities, Dialer, Incarnation, Invitation, InvitationId, Nonce, Party, Place,
        Secret,
    };
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::io::duplex;

    fn party(name: &str) -> Party {
        Party {
            name: name.into(),
            creation: 1,
            incarnation: Incarnation([1; 16]),
        }
    }

    /// Anything that reads and writes can carry a handshake, however little at a time, and keeps what follows it.
    #[tokio::test]
    async fn a_handshake_runs_over_any_stream_and_leaves_what_follows() {
        let invitation = Invitation {
            id: InvitationId([2; 16]),
            secret: Secret([3; 32]),
            dialer: party("dialer@h"),
            acceptor: party("acceptor@h"),
            shards: 1,
        };
        let table = Table::default();
        let deadline = Instant::now() + Duration::from_secs(20);
        assert!(table.add(invitation.clone(), deadline));
        let binding = b"a channel".to_vec();
        let (mut near, mut far) = duplex(1);
        let mut acceptor =
            Acceptor::new(&table, Capabilities::NONE, Nonce([4; 32]), binding.clone());
        let place = Place::new(0, 1).unwrap();
        let (mut dialer, hello) = Dialer::new(
            Arc::new(invitation),
            place,
            Capabilities::NONE,
            Nonce([5; 32]),
            binding,
        );
        let dial = async {
            let agreed = run(&mut near, &mut dialer, &hello, deadline).await.unwrap();
            near.write_all(b"first").await.unwrap();
            agreed
        };
        let accept = async {
            let agreed = run(&mut far, &mut acceptor, &[], deadline).await.unwrap();
            let mut first = [0; 5];
            far.read_exact(&mut first).await.unwrap();
            assert_eq!(&first, b"first");
            agreed
        };
        let (ours, theirs) = tokio::join!(dial, accept);
        assert_eq!(ours, theirs);
    }
}
