//! The listening socket: accepts, runs each connection's handshake as a task of its own, and hands authenticated
//! sockets to their invitation. A silent or hostile client costs one task for a bounded time and delays nobody.

use crate::control::Shared;
use crate::events::{Event, Side};
use crate::exchange::{self, Failure};
use crate::half_open::{HalfOpen, Outcome};
use crate::random;
use crate::refusals::Refusals;
use crate::socket;
use hawser_core::handshake::{Acceptor, Capabilities, Nonce};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep_until};
use tracing::error;

const BACKLOG: i32 = 1024;
/// How long accepting pauses when it fails for want of something, at first and at most.
const PAUSE: Duration = Duration::from_millis(20);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Binds and listens. IPv6 sockets take IPv6 only, whatever the system's default.
pub(crate) fn bind(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    use socket2::{Domain, Protocol, Socket, Type};
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // A restarted node takes its port again while old connections linger.
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Runs until it is dropped.
pub(crate) async fn run(shared: Arc<Shared>, listener: TcpListener) {
    let mut half_open = HalfOpen::new(shared.config.max_half_open);
    let mut refusals = Refusals::default();
    let mut pause = PAUSE;
    let mut accept_from = Instant::now();
    loop {
        tokio::select! {
            accepted = accept(&listener, accept_from) => match accepted {
                Ok((stream, from)) => {
                    pause = PAUSE;
                    if let Some(oldest) = half_open.admit(from, welcome(shared.clone(), stream)) {
                        refusals.note(oldest, &Failure::Evicted, Instant::now());
                    }
                }
                Err(error) if concerns_one_connection(&error) => {}
                Err(error) => {
                    // Out of descriptors or memory: give back what strangers hold, and wait a little.
                    error!("cannot accept connections: {error}; trying again in {} ms", pause.as_millis());
                    if let Some(oldest) = half_open.evict() {
                        refusals.note(oldest, &Failure::Evicted, Instant::now());
                    }
                    accept_from = Instant::now() + pause;
                    pause = (pause * 2).min(MAX_PAUSE);
                }
            },
            (from, outcome) = half_open.ended() => {
                if let Err(failure) = outcome {
                    refusals.note(from, &failure, Instant::now());
                }
            }
            () = due(refusals.next_report()) => refusals.report(Instant::now()),
        }
    }
}

async fn accept(listener: &TcpListener, from: Instant) -> io::Result<(TcpStream, SocketAddr)> {
    if from > Instant::now() {
        sleep_until(from).await;
    }
    listener.accept().await
}

/// Sleeps until there is something to do; for ever if there is nothing.
pub(crate) async fn due(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn concerns_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted
    )
}

/// One accepted connection, from its first byte to its invitation.
async fn welcome(shared: Arc<Shared>, mut stream: TcpStream) -> Outcome {
    let deadline = Instant::now() + shared.config.handshake_timeout;
    socket::prepare(&stream)?;
    let nonce = Nonce(random::bytes()?);
    let mut acceptor = Acceptor::new(&shared.invitations, Capabilities::NONE, nonce, Vec::new());
    let agreed = exchange::run(&mut stream, &mut acceptor, &[], deadline).await?;
    let socket = socket::finish(stream)?;
    if let Some(sockets) = shared
        .invitations
        .deliver(&agreed.invitation, agreed.place, socket)
    {
        shared.events.push(Event::Established {
            id: agreed.invitation,
            side: Side::Acceptor,
            sockets,
        });
    }
    Ok(())
}
