//! One end of a session for the loopback tests: a control plane, and the owner who waits for its events.
#![allow(dead_code, reason = "each test binary uses its part")]

use crossbeam_channel::{Receiver, Sender, unbounded};
use hawser_control::{
    Config, Control, DialRequest, Event, Family, InvitationId, Level, Owner, Party, Secret, Side,
};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Long enough for a loaded machine; no test waits for it unless it fails.
pub const PATIENCE: Duration = Duration::from_secs(20);

struct Bell(Sender<()>);

impl Owner for Bell {
    fn wake(&self) {
        let _ = self.0.send(());
    }
}

pub struct End {
    pub control: Control,
    name: &'static str,
    woken: Receiver<()>,
    outcomes: VecDeque<Event>,
    logs: VecDeque<(Level, String)>,
}

impl End {
    pub fn start(name: &'static str) -> End {
        End::start_with(name, Config::default())
    }

    pub fn start_with(name: &'static str, config: Config) -> End {
        let (bell, woken) = unbounded();
        End {
            control: Control::start(config, Arc::new(Bell(bell))).unwrap(),
            name,
            woken,
            outcomes: VecDeque::new(),
            logs: VecDeque::new(),
        }
    }

    pub fn listen(&self) -> u16 {
        self.control.listen(LOCALHOST, 0).unwrap()
    }

    pub fn party(&self) -> Party {
        Party {
            name: self.name.into(),
            creation: 1,
            incarnation: self.control.incarnation(),
        }
    }

    pub fn invite(&self, guest: &End, shards: u16) -> (InvitationId, Secret) {
        self.control
            .invite(self.party(), guest.party(), shards, PATIENCE)
            .unwrap()
    }

    /// The request that fits an invitation by `host`.
    pub fn request(
        &self,
        host: &End,
        port: u16,
        shards: u16,
        (id, secret): (InvitationId, Secret),
    ) -> DialRequest {
        DialRequest {
            id,
            secret,
            local: self.party(),
            remote: host.party(),
            host: "127.0.0.1".into(),
            family: Family::Inet,
            port,
            shards,
            timeout: PATIENCE,
        }
    }

    /// The next event that is no log line.
    pub fn outcome(&mut self) -> Event {
        self.wait_for(|end| end.outcomes.pop_front())
    }

    /// The next log line.
    pub fn log(&mut self) -> (Level, String) {
        self.wait_for(|end| end.logs.pop_front())
    }

    /// Waits to be woken, as the owner in the BEAM does, until `next` finds something.
    fn wait_for<T>(&mut self, next: impl Fn(&mut End) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = next(self) {
                return found;
            }
            self.woken
                .recv_deadline(deadline)
                .expect("an event within the test's patience");
            self.drain();
        }
    }

    fn drain(&mut self) {
        for event in self.control.events(512) {
            match event {
                Event::Log { level, text } => self.logs.push_back((level, text)),
                outcome => self.outcomes.push_back(outcome),
            }
        }
    }

    pub fn established(&mut self, id: InvitationId, side: Side) -> Vec<TcpStream> {
        match self.outcome() {
            Event::Established {
                id: of,
                side: as_,
                sockets,
            } if of == id && as_ == side => sockets,
            other => panic!("not established: {other:?}"),
        }
    }

    pub fn failed(&mut self, id: InvitationId) -> String {
        match self.outcome() {
            Event::Failed { id: of, reason } if of == id => reason,
            other => panic!("not failed: {other:?}"),
        }
    }

    /// Nothing is waiting that was not asked for.
    pub fn assert_silent(&mut self) {
        self.drain();
        assert!(
            self.outcomes.is_empty() && self.logs.is_empty(),
            "{:?} {:?}",
            self.outcomes,
            self.logs
        );
    }
}

/// A whole session between two ends, each with its sockets: dialer's, acceptor's.
pub fn session(
    host: &mut End,
    port: u16,
    guest: &mut End,
    shards: u16,
) -> (Vec<TcpStream>, Vec<TcpStream>) {
    let invitation = host.invite(guest, shards);
    let id = invitation.0;
    guest
        .control
        .dial(guest.request(host, port, shards, invitation))
        .unwrap();
    (
        guest.established(id, Side::Dialer),
        host.established(id, Side::Acceptor),
    )
}

/// Every socket leads to its own counterpart, both ways, and nothing was swallowed or left over.
pub fn assert_paired(ours: Vec<TcpStream>, theirs: Vec<TcpStream>) {
    assert_eq!(ours.len(), theirs.len());
    let pairs: Vec<_> = ours.into_iter().zip(theirs).collect();
    for (index, (a, b)) in pairs.iter().enumerate() {
        assert!(a.nodelay().unwrap() && b.nodelay().unwrap());
        for mut socket in [a, b] {
            socket.set_nonblocking(false).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket.write_all(&[index as u8; 3]).unwrap();
        }
    }
    for (index, (a, b)) in pairs.iter().enumerate() {
        for mut socket in [a, b] {
            let mut bytes = [0; 3];
            socket.read_exact(&mut bytes).unwrap();
            assert_eq!(bytes, [index as u8; 3]);
            socket.set_nonblocking(true).unwrap();
            assert_eq!(
                socket.read(&mut bytes).unwrap_err().kind(),
                std::io::ErrorKind::WouldBlock
            );
        }
    }
}

/// Waits until the other side has closed; answers what it said before.
pub fn until_closed(mut socket: &TcpStream) -> Vec<u8> {
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut said = Vec::new();
    match socket.read_to_end(&mut said) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}"),
    }
    said
}
