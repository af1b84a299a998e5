//! The control plane as its callers see it: one value that owns the runtime and all that runs on it. Calls come from
//! scheduler threads and never wait for the network; only `start`, `listen` and `stop` may take a moment.

use crate::affinity;
use crate::command::{Busy, Command, Commands};
use crate::desk;
use crate::dialer::DialRequest;
use crate::events::{Event, Events, Owner};
use crate::invitations::Table;
use crate::journal;
use crate::listener;
use crate::random;
use hawser_core::handshake::{Incarnation, Invitation, InvitationId, MAX_SHARDS, Party, Secret};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::time::Instant;

const THREADS: usize = 2;
const THREAD_NAME: &str = "hawser-ctl";
/// Threads that wait for the system's resolver, and how long an idle one stays.
const MAX_RESOLVERS: usize = 4;
const RESOLVER_STAYS: Duration = Duration::from_secs(1);
/// How long `stop` waits for a resolver that hangs; everything else ends at once.
const STOP_WAITS: Duration = Duration::from_secs(2);
/// The longest time that an invitation is valid or a dial may take; longer ones are cut to it.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// Dials at once. Far above the number of nodes that one node can meet.
const MAX_DIALS: usize = 4096;

#[derive(Debug, Clone)]
pub struct Config {
    /// Connections that may be waiting to authenticate; one more and the oldest is closed.
    pub max_half_open: usize,
    /// How long an accepted connection may take to authenticate.
    pub handshake_timeout: Duration,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            max_half_open: 128,
            handshake_timeout: Duration::from_secs(5),
        }
    }
}

/// What the callers, the desk and its tasks share.
pub(crate) struct Shared {
    pub config: Config,
    pub bell: Arc<Notify>,
    pub commands: Commands,
    pub events: Arc<Events>,
    pub invitations: Table,
    /// The dials that are wanted, each with what ends it.
    pub dials: Mutex<HashMap<InvitationId, Arc<Notify>>>,
}

pub struct Control {
    incarnation: Incarnation,
    shared: Arc<Shared>,
    listening: Mutex<Option<SocketAddr>>,
    runtime: Mutex<Option<Runtime>>,
}

impl Control {
    /// Starts the runtime's threads. `owner` is woken whenever events wait.
    pub fn start(config: Config, owner: Arc<dyn Owner>) -> io::Result<Control> {
        let incarnation = Incarnation(random::bytes()?);
        let bell = Arc::new(Notify::new());
        let events = Arc::new(Events::new(bell.clone()));
        journal::direct_to(&events);
        let queue = Arc::downgrade(&events);
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name(THREAD_NAME)
            .max_blocking_threads(MAX_RESOLVERS)
            .thread_keep_alive(RESOLVER_STAYS)
            .on_thread_start(move || {
                affinity::reset();
                journal::adopt_thread(&queue);
            })
            .enable_io()
            .enable_time()
            .build()?;
        let shared = Arc::new(Shared {
            config,
            commands: Commands::new(bell.clone()),
            events,
            bell,
            invitations: Table::default(),
            dials: Mutex::default(),
        });
        runtime.spawn(desk::run(shared.clone(), owner));
        Ok(Control {
            incarnation,
            shared,
            listening: Mutex::default(),
            runtime: Mutex::new(Some(runtime)),
        })
    }

    /// Ends the listener, the dials, the handshakes and the threads. Events that nobody drained are dropped. Idempotent.
    /// Not to be called from a thread of the runtime.
    pub fn stop(&self) {
        let runtime = self.runtime.lock().take();
        if let Some(runtime) = runtime {
            runtime.shutdown_timeout(STOP_WAITS);
        }
        *self.listening.lock() = None;
        self.shared.invitations.clear();
        self.shared.events.drain(usize::MAX);
    }

    /// The random name of this life of the node.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Listens on `ip`, on any port if `port` is 0, and answers the port.
    pub fn listen(&self, ip: IpAddr, port: u16) -> Result<u16, ListenError> {
        let mut listening = self.listening.lock();
        if let Some(already) = *listening {
            return Err(ListenError::Already(already));
        }
        let runtime = self.runtime.lock();
        let runtime = runtime.as_ref().ok_or(ListenError::NotRunning)?;
        let listener = listener::bind(SocketAddr::new(ip, port)).map_err(ListenError::Bind)?;
        let bound = listener.local_addr().map_err(ListenError::Bind)?;
        let _reactor = runtime.enter();
        let listener = tokio::net::TcpListener::from_std(listener).map_err(ListenError::Bind)?;
        self.shared
            .commands
            .send(Command::Listen(listener))
            .map_err(|Busy| ListenError::Busy)?;
        *listening = Some(bound);
        Ok(bound.port())
    }

    /// Makes an invitation: within `valid`, `remote` may connect `shards` sockets to `local`. Ends as one event of its id.
    pub fn invite(
        &self,
        local: Party,
        remote: Party,
        shards: u16,
        valid: Duration,
    ) -> Result<(InvitationId, Secret), InviteError> {
        if self.listening.lock().is_none() {
            return Err(InviteError::NotListening);
        }
        if shards == 0 || shards > MAX_SHARDS {
            return Err(InviteError::Shards(shards));
        }
        let id = InvitationId(random::bytes().map_err(InviteError::Randomness)?);
        let secret = Secret(random::bytes().map_err(InviteError::Randomness)?);
        let invitation = Invitation {
            id,
            secret: secret.clone(),
            dialer: remote,
            acceptor: local,
            shards,
        };
        if !self
            .shared
            .invitations
            .add(invitation, Instant::now() + valid.min(LONGEST))
        {
            return Err(InviteError::Busy);
        }
        // The desk has a new time to look at.
        self.shared.bell.notify_one();
        Ok((id, secret))
    }

    /// Starts a dial. Ends as one event of its id, unless it is forgotten before.
    pub fn dial(&self, mut request: DialRequest) -> Result<(), DialRefused> {
        if self.runtime.lock().is_none() {
            return Err(DialRefused::NotRunning);
        }
        let id = request.id;
        request.timeout = request.timeout.min(LONGEST);
        let unwanted = Arc::new(Notify::new());
        {
            let mut dials = self.shared.dials.lock();
            if dials.len() >= MAX_DIALS || dials.contains_key(&id) {
                return Err(DialRefused::Busy);
            }
            dials.insert(id, unwanted.clone());
        }
        let sent = self
            .shared
            .commands
            .send(Command::Dial(Box::new(request), unwanted));
        sent.map_err(|Busy| {
            self.shared.dials.lock().remove(&id);
            DialRefused::Busy
        })
    }

    /// Ends an invitation or a dial that is not wanted any more and closes its sockets; no event of it is made from
    /// here on. One that was made before is still in the queue: its sockets are closed by dropping them.
    pub fn forget(&self, id: &InvitationId) {
        self.shared.invitations.forget(id);
        if let Some(unwanted) = self.shared.dials.lock().remove(id) {
            unwanted.notify_one();
        }
    }

    /// At most `max` events, oldest first. If there are more the owner is woken again.
    pub fn events(&self, max: usize) -> Vec<Event> {
        self.shared.events.drain(max)
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Why a dial was not started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DialRefused {
    NotRunning,
    /// More dials are under way than are taken at once, or this very one is.
    Busy,
}

/// Why the node does not listen: the fault alone, the caller knows the address.
#[derive(Debug)]
#[non_exhaustive]
pub enum ListenError {
    NotRunning,
    Busy,
    Already(SocketAddr),
    Bind(io::Error),
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenError::NotRunning => f.write_str("the control plane is not running"),
            ListenError::Busy => f.write_str("the control plane is overloaded"),
            ListenError::Already(address) => write!(f, "already listening on {address}"),
            ListenError::Bind(error) => match error.kind() {
                io::ErrorKind::AddrInUse => write!(f, "another program has this port ({error})"),
                io::ErrorKind::AddrNotAvailable => {
                    write!(f, "this machine does not have this address ({error})")
                }
                io::ErrorKind::PermissionDenied => {
                    write!(f, "this port is not for this user ({error})")
                }
                _ => error.fmt(f),
            },
        }
    }
}

/// Why no invitation was made.
#[derive(Debug)]
#[non_exhaustive]
pub enum InviteError {
    NotListening,
    Busy,
    Shards(u16),
    Randomness(io::Error),
}

impl fmt::Display for InviteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InviteError::NotListening => f.write_str("the control plane is not listening"),
            InviteError::Busy => f.write_str("too many invitations are outstanding"),
            InviteError::Shards(shards) => write!(f, "a session cannot have {shards} shards"),
            InviteError::Randomness(error) => {
                write!(f, "the system gives no random bytes: {error}")
            }
        }
    }
}
