//! The door to the control plane: terms of the BEAM become calls of `hawser_control`, its events become terms. Called
//! by the owner of the control plane and by the owners of sessions. Decides nothing, waits for no network, and holds
//! nothing but the one control plane that runs.

use hawser_control::{
    Config, Control, DialRefused, DialRequest, Event, Family, Incarnation, InvitationId,
    InviteError, Level, Owner, Party, Secret, Side,
};
use parking_lot::{Mutex, const_mutex};
use rustler::{
    Atom, Binary, Encoder, Env, Error, LocalPid, NewBinary, NifResult, OwnedEnv, ResourceArc, Term,
};
use std::net::{IpAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// Events that one call turns into terms; if there are more the owner is woken again.
const EVENTS_PER_CALL: usize = 512;

static CONTROL: Mutex<Option<Arc<Control>>> = const_mutex(None);

mod atoms {
    rustler::atoms! {
        ok, error, hawser_events, already_started, not_listening, not_running, busy, inet, inet6,
        established, failed, dialer, acceptor, log, warning, info, debug,
    }
}

/// An authenticated socket on its way from the control plane into a session. Closed if nobody takes it.
pub struct SocketHandle(Mutex<Option<TcpStream>>);

#[rustler::resource_impl]
impl rustler::Resource for SocketHandle {}

impl SocketHandle {
    fn new(socket: TcpStream) -> ResourceArc<SocketHandle> {
        ResourceArc::new(SocketHandle(Mutex::new(Some(socket))))
    }

    /// The socket, once.
    pub fn take(&self) -> Option<TcpStream> {
        self.0.lock().take()
    }
}

/// The process that drains the events.
struct OwnerProcess(LocalPid);

impl Owner for OwnerProcess {
    fn wake(&self) {
        // A dead owner takes the application with it; its runtime is stopped by the next one.
        let _ = OwnedEnv::new().send_and_clear(&self.0, |_| atoms::hawser_events());
    }
}

/// `ok | {error, already_started | Sentence}`. The owner gets `hawser_events` whenever events wait.
#[rustler::nif(schedule = "DirtyIo")]
fn runtime_start<'a>(env: Env<'a>, owner: LocalPid, max_half_open: usize) -> Term<'a> {
    let mut running = CONTROL.lock();
    if running.is_some() {
        return (atoms::error(), atoms::already_started()).encode(env);
    }
    let config = Config {
        max_half_open,
        ..Config::default()
    };
    match Control::start(config, Arc::new(OwnerProcess(owner))) {
        Ok(control) => {
            *running = Some(Arc::new(control));
            atoms::ok().encode(env)
        }
        Err(error) => (atoms::error(), error.to_string()).encode(env),
    }
}

/// Ends the listener, the dials, the handshakes and the threads.
#[rustler::nif(schedule = "DirtyIo")]
fn runtime_stop() -> Atom {
    let stopping = CONTROL.lock().take();
    if let Some(control) = stopping {
        control.stop();
    }
    atoms::ok()
}

/// `{ok, Port} | {error, Reason}`.
#[rustler::nif(schedule = "DirtyIo")]
fn listen<'a>(env: Env<'a>, ip: &str, port: u16) -> Term<'a> {
    let listened = match (running(), ip.parse::<IpAddr>()) {
        (None, _) => Err("the control plane is not running".to_string()),
        (_, Err(_)) => Err("this is not an IP address".to_string()),
        (Some(control), Ok(ip)) => control.listen(ip, port).map_err(|error| error.to_string()),
    };
    match listened {
        Ok(port) => (atoms::ok(), port).encode(env),
        Err(reason) => (atoms::error(), reason).encode(env),
    }
}

/// `{Id, Secret} | {error, not_listening | busy | Sentence}`.
#[rustler::nif]
fn invite<'a>(
    env: Env<'a>,
    local: PartyTerm<'a>,
    remote: PartyTerm<'a>,
    shards: u16,
    valid_ms: u64,
) -> NifResult<Term<'a>> {
    let (local, remote) = (party(local)?, party(remote)?);
    let valid = Duration::from_millis(valid_ms);
    let invited = match running() {
        Some(control) => control.invite(local, remote, shards, valid),
        None => Err(InviteError::NotListening),
    };
    Ok(match invited {
        Ok((id, secret)) => (binary(env, &id.0), binary(env, &secret.0)).encode(env),
        Err(InviteError::Shards(_)) => return Err(Error::BadArg),
        Err(InviteError::NotListening) => (atoms::error(), atoms::not_listening()).encode(env),
        Err(InviteError::Busy) => (atoms::error(), atoms::busy()).encode(env),
        Err(error) => (atoms::error(), error.to_string()).encode(env),
    })
}

/// `ok | {error, not_running | busy}`. The outcome comes as one event of this id.
#[rustler::nif]
#[allow(clippy::too_many_arguments, reason = "the stub has the same")]
fn dial<'a>(
    env: Env<'a>,
    id: Binary<'a>,
    secret: Binary<'a>,
    local: PartyTerm<'a>,
    remote: PartyTerm<'a>,
    host: String,
    family: Atom,
    port: u16,
    shards: u16,
    timeout_ms: u64,
) -> NifResult<Term<'a>> {
    let request = DialRequest {
        id: InvitationId(bytes(id)?),
        secret: Secret(bytes(secret)?),
        local: party(local)?,
        remote: party(remote)?,
        host,
        family: match family {
            family if family == atoms::inet() => Family::Inet,
            family if family == atoms::inet6() => Family::Inet6,
            _ => return Err(Error::BadArg),
        },
        port,
        shards,
        timeout: Duration::from_millis(timeout_ms),
    };
    let refused = match running() {
        Some(control) => control.dial(request),
        None => Err(DialRefused::NotRunning),
    };
    Ok(match refused {
        Ok(()) => atoms::ok().encode(env),
        Err(DialRefused::Busy) => (atoms::error(), atoms::busy()).encode(env),
        Err(_) => (atoms::error(), atoms::not_running()).encode(env),
    })
}

/// An invitation or a dial that is not wanted any more: its sockets are closed, no event of it is made from here on.
#[rustler::nif]
fn forget(id: Binary<'_>) -> NifResult<Atom> {
    let id = InvitationId(bytes(id)?);
    if let Some(control) = running() {
        control.forget(&id);
    }
    Ok(atoms::ok())
}

/// The events that wait, oldest first.
#[rustler::nif]
fn events(env: Env<'_>) -> Vec<Term<'_>> {
    let events = running()
        .map(|control| control.events(EVENTS_PER_CALL))
        .unwrap_or_default();
    events
        .into_iter()
        .map(|event| event_term(env, event))
        .collect()
}

/// The random name of this start of the control plane; badarg while none runs.
#[rustler::nif]
fn incarnation(env: Env<'_>) -> NifResult<Term<'_>> {
    let control = running().ok_or(Error::BadArg)?;
    Ok(binary(env, &control.incarnation().0))
}

fn running() -> Option<Arc<Control>> {
    CONTROL.lock().clone()
}

fn event_term(env: Env<'_>, event: Event) -> Term<'_> {
    match event {
        Event::Established { id, side, sockets } => {
            let side = match side {
                Side::Dialer => atoms::dialer(),
                Side::Acceptor => atoms::acceptor(),
            };
            let sockets: Vec<_> = sockets.into_iter().map(SocketHandle::new).collect();
            (atoms::established(), binary(env, &id.0), side, sockets).encode(env)
        }
        Event::Failed { id, reason } => (atoms::failed(), binary(env, &id.0), reason).encode(env),
        Event::Log { level, text } => {
            let level = match level {
                Level::Error => atoms::error(),
                Level::Warning => atoms::warning(),
                Level::Info => atoms::info(),
                Level::Debug => atoms::debug(),
            };
            (atoms::log(), level, text).encode(env)
        }
    }
}

/// `{NodeName, Creation, Incarnation}`.
type PartyTerm<'a> = (&'a str, u32, Binary<'a>);

fn party((name, creation, incarnation): PartyTerm<'_>) -> NifResult<Party> {
    Ok(Party {
        name: name.into(),
        creation,
        incarnation: Incarnation(bytes(incarnation)?),
    })
}

fn bytes<const N: usize>(binary: Binary<'_>) -> NifResult<[u8; N]> {
    binary.as_slice().try_into().map_err(|_| Error::BadArg)
}

fn binary<'a>(env: Env<'a>, bytes: &[u8]) -> Term<'a> {
    NewBinary::from_slice(env, bytes).into()
}
