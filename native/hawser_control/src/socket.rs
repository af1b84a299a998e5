//! What a socket of hawser is set to, from its first moment, and how it leaves tokio. Used for dialled and accepted
//! sockets alike.

use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::time::Duration;
use tokio::net::TcpStream;

/// What the kernel may hold unsent: control frames go ahead of hawser's queue, not of the kernel's.
#[cfg(any(target_os = "android", target_os = "linux"))]
const NOTSENT_LOWAT_BYTES: u32 = 256 * 1024;
/// The session's heartbeats find a dead peer much earlier; keepalive is for a socket that nobody's heartbeat watches yet.
const KEEPALIVE_TIME: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);

pub(crate) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(
        &TcpKeepalive::new()
            .with_time(KEEPALIVE_TIME)
            .with_interval(KEEPALIVE_INTERVAL),
    )?;
    #[cfg(any(target_os = "android", target_os = "linux"))]
    socket.set_tcp_notsent_lowat(NOTSENT_LOWAT_BYTES)?;
    Ok(())
}

/// Takes the socket out of tokio's reactor; it is non-blocking afterwards.
pub(crate) fn finish(stream: TcpStream) -> io::Result<std::net::TcpStream> {
    let stream = stream.into_std()?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}
