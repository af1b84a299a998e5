//! One dial: a peer's name becomes addresses, these become a session's sockets, all of them or none. Every step is
//! bounded by the dial's one deadline; what fails says in one sentence where.

use crate::exchange::{self, Failure};
use crate::random;
use crate::socket;
use hawser_core::handshake::{
    Capabilities, Dialer, Invitation, InvitationId, Nonce, Party, Place, Secret,
};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    Inet,
    Inet6,
}

/// What a peer's invitation says, and where the peer listens.
#[derive(Debug, Clone)]
pub struct DialRequest {
    pub id: InvitationId,
    pub secret: Secret,
    pub local: Party,
    pub remote: Party,
    /// A name or an address.
    pub host: String,
    pub family: Family,
    pub port: u16,
    pub shards: u16,
    /// For everything together: resolving, connecting, authenticating.
    pub timeout: Duration,
}

/// Why a dial came to nothing.
#[derive(Debug)]
pub(crate) enum DialError {
    Resolve {
        host: String,
        error: io::Error,
    },
    NoAddress {
        host: String,
        family: Family,
    },
    Connect {
        to: SocketAddr,
        error: io::Error,
    },
    Handshake {
        with: SocketAddr,
        shard: u16,
        failure: Failure,
    },
    Shards(u16),
    Randomness(io::Error),
    Lost,
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DialError::Resolve { host, error } => {
                write!(f, "cannot resolve the host {host:?}: {error}")
            }
            DialError::NoAddress { host, family } => {
                let version = if *family == Family::Inet { 4 } else { 6 };
                write!(f, "the host {host:?} has no IPv{version} address")
            }
            DialError::Connect { to, error } => write!(f, "cannot connect to {to}: {error}"),
            DialError::Handshake {
                with,
                shard,
                failure,
            } => {
                write!(f, "no session with {with} (shard {shard}): {failure}")
            }
            DialError::Shards(shards) => write!(f, "a session cannot have {shards} shards"),
            DialError::Randomness(error) => write!(f, "the system gives no random bytes: {error}"),
            DialError::Lost => f.write_str("a part of the dial ended unexpectedly"),
        }
    }
}

/// Connects and authenticates all shards; the sockets are in shard order. Dropping it closes what is open.
pub(crate) async fn dial(request: DialRequest) -> Result<Vec<std::net::TcpStream>, DialError> {
    let deadline = Instant::now() + request.timeout;
    let addresses = resolve(&request, deadline).await?;
    let (first, address) = connect_any(&addresses, &request, deadline).await?;
    let shards = request.shards;
    let invitation = Arc::new(Invitation {
        id: request.id,
        secret: request.secret,
        dialer: request.local,
        acceptor: request.remote,
        shards,
    });
    let mut first = Some(first);
    let mut underway = JoinSet::new();
    for index in 0..shards {
        let place = Place::new(index, shards).ok_or(DialError::Shards(shards))?;
        underway.spawn(shard(
            invitation.clone(),
            place,
            address,
            first.take(),
            deadline,
        ));
    }
    let mut sockets = Vec::new();
    while let Some(ended) = underway.join_next().await {
        sockets.push(ended.unwrap_or(Err(DialError::Lost))?);
    }
    sockets.sort_by_key(|(index, _)| *index);
    Ok(sockets.into_iter().map(|(_, socket)| socket).collect())
}

async fn resolve(request: &DialRequest, deadline: Instant) -> Result<Vec<SocketAddr>, DialError> {
    let host = &request.host;
    // An address needs no resolver, and none of the threads that wait for one.
    let found: Vec<SocketAddr> = match host.parse::<IpAddr>() {
        Ok(ip) => vec![SocketAddr::new(ip, request.port)],
        Err(_) => timeout_at(deadline, lookup_host((host.as_str(), request.port)))
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .map_err(|error| DialError::Resolve {
                host: host.clone(),
                error,
            })?
            .collect(),
    };
    let wanted = |address: &SocketAddr| address.is_ipv4() == (request.family == Family::Inet);
    let addresses: Vec<SocketAddr> = found.into_iter().filter(wanted).collect();
    if addresses.is_empty() {
        return Err(DialError::NoAddress {
            host: host.clone(),
            family: request.family,
        });
    }
    Ok(addresses)
}

/// The first address that answers. Each may use its share of what is left, so that a deaf one does not eat all of it.
async fn connect_any(
    addresses: &[SocketAddr],
    request: &DialRequest,
    deadline: Instant,
) -> Result<(TcpStream, SocketAddr), DialError> {
    let mut last = DialError::NoAddress {
        host: request.host.clone(),
        family: request.family,
    };
    for (tried, address) in addresses.iter().enumerate() {
        let left = deadline.saturating_duration_since(Instant::now());
        let waiting = (addresses.len() - tried) as u32;
        match connect(*address, Instant::now() + left / waiting).await {
            Ok(stream) => return Ok((stream, *address)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn connect(to: SocketAddr, deadline: Instant) -> Result<TcpStream, DialError> {
    let connected = timeout_at(deadline, TcpStream::connect(to))
        .await
        .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time")));
    let prepared = connected.and_then(|stream| socket::prepare(&stream).map(|()| stream));
    prepared.map_err(|error| DialError::Connect { to, error })
}

/// One shard, on a connection that is there already or on a new one.
async fn shard(
    invitation: Arc<Invitation>,
    place: Place,
    address: SocketAddr,
    connected: Option<TcpStream>,
    deadline: Instant,
) -> Result<(u16, std::net::TcpStream), DialError> {
    let mut stream = match connected {
        Some(stream) => stream,
        None => connect(address, deadline).await?,
    };
    let nonce = Nonce(random::bytes().map_err(DialError::Randomness)?);
    let (mut dialer, hello) = Dialer::new(invitation, place, Capabilities::NONE, nonce, Vec::new());
    exchange::run(&mut stream, &mut dialer, &hello, deadline)
        .await
        .and_then(|_| Ok(socket::finish(stream)?))
        .map(|socket| (place.index(), socket))
        .map_err(|failure| DialError::Handshake {
            with: address,
            shard: place.index(),
            failure,
        })
}
