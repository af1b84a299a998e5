//! The listening socket against those who were not invited: they are refused and logged once, and delay nobody.

mod ends;

use ends::{End, LOCALHOST, PATIENCE, assert_paired, session, until_closed};
use hawser_control::{Config, Level, Side};
use hawser_core::handshake::{Capabilities, Dialer, Invitation, Machine, Nonce, Place, Step};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn connect(port: u16) -> TcpStream {
    TcpStream::connect((LOCALHOST, port)).unwrap()
}

#[test]
fn three_hundred_silent_clients_do_not_delay_a_peer() {
    let config = Config {
        max_half_open: 64,
        handshake_timeout: Duration::from_secs(600),
    };
    let (mut host, mut guest) = (End::start_with("host@h", config), End::start("guest@h"));
    let port = host.listen();
    let silent: Vec<TcpStream> = (0..300).map(|_| connect(port)).collect();
    let before = Instant::now();
    let (ours, theirs) = session(&mut host, port, &mut guest, 4);
    assert!(
        before.elapsed() < Duration::from_secs(1),
        "{:?}",
        before.elapsed()
    );
    assert_paired(ours, theirs);
    // The oldest had to go; the newest are still there.
    for closed in &silent[..300 - 64] {
        assert!(until_closed(closed).is_empty());
    }
    for mut open in &silent[300 - 60..] {
        open.set_nonblocking(true).unwrap();
        let error = open.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    }
}

#[test]
fn a_silent_client_is_closed_at_the_deadline() {
    let config = Config {
        handshake_timeout: Duration::from_millis(50),
        ..Config::default()
    };
    let mut host = End::start_with("host@h", config);
    let silent = connect(host.listen());
    assert!(until_closed(&silent).is_empty());
    let (level, line) = host.log();
    assert_eq!(level, Level::Warning);
    assert_eq!(
        line,
        "refused a connection from 127.0.0.1: the peer did not finish the handshake in time"
    );
}

#[test]
fn random_bytes_are_refused_and_logged_once() {
    let (mut host, mut guest) = (End::start("host@h"), End::start("guest@h"));
    let port = host.listen();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let strangers = 100;
    for _ in 0..strangers {
        // xorshift: the same bytes in every run.
        let bytes: Vec<u8> = (0..200)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state as u8
            })
            .collect();
        let mut stranger = connect(port);
        let _ = stranger.write_all(&bytes);
        assert!(until_closed(&stranger).is_empty());
    }
    let (ours, theirs) = session(&mut host, port, &mut guest, 2);
    assert_paired(ours, theirs);
    // One line at once, then one a second with the others' count.
    let (mut lines, mut refused) = (0, 0);
    while refused < strangers {
        let (_, line) = host.log();
        lines += 1;
        refused += match line
            .strip_prefix("refused ")
            .and_then(|rest| rest.split_once(' '))
        {
            Some(("a", _)) => 1,
            Some((count, _)) => count.parse().unwrap(),
            None => panic!("{line}"),
        };
    }
    assert_eq!(refused, strangers);
    assert!(lines <= 4, "{lines} lines");
}

#[test]
fn one_who_speaks_hawser_without_an_invitation_is_told() {
    let mut host = End::start("host@h");
    let mut stranger = connect(host.listen());
    let mut hello = vec![0, 63, 1];
    hello.extend_from_slice(b"HWSR\x00\x01\x00\x00\x00\x00 no such invit. ");
    hello.resize(65, 0);
    stranger.write_all(&hello).unwrap();
    let said = until_closed(&stranger);
    assert_eq!(said.get(2..4), Some([5, 4].as_slice()));
    let (_, line) = host.log();
    assert!(
        line.ends_with("the invitation is unknown, expired or used up"),
        "{line}"
    );
}

/// A dialer of our own making on a plain socket: what it says goes out byte by byte. Answers all that it said.
fn dial_by_hand(port: u16, invitation: &Arc<Invitation>) -> (TcpStream, Vec<u8>) {
    let place = Place::new(0, invitation.shards).unwrap();
    let (mut machine, hello) = Dialer::new(
        invitation.clone(),
        place,
        Capabilities::NONE,
        Nonce([1; 32]),
        Vec::new(),
    );
    let mut socket = connect(port);
    socket.set_nodelay(true).unwrap();
    let mut said = Vec::new();
    let mut say = |mut socket: &TcpStream, bytes: Vec<u8>| {
        bytes
            .iter()
            .for_each(|byte| socket.write_all(&[*byte]).unwrap());
        said.extend(bytes);
    };
    say(&socket, hello);
    loop {
        let mut heard = vec![0; machine.wanted()];
        socket.read_exact(&mut heard).unwrap();
        match machine.feed(&heard).1 {
            Step::Read => {}
            Step::Write(bytes) => say(&socket, bytes),
            Step::Established { .. } => return (socket, said),
            Step::Refused { refusal, .. } => panic!("{refusal}"),
        }
    }
}

#[test]
fn a_recorded_handshake_opens_nothing() {
    let (mut host, guest) = (End::start("host@h"), End::start("guest@h"));
    let port = host.listen();
    let (id, secret) = host.invite(&guest, 1);
    let invitation = Arc::new(Invitation {
        id,
        secret,
        dialer: guest.party(),
        acceptor: host.party(),
        shards: 1,
    });
    let (ours, said) = dial_by_hand(port, &invitation);
    assert_paired(vec![ours], host.established(id, Side::Acceptor));
    let mut replay = connect(port);
    let _ = replay.write_all(&said);
    until_closed(&replay);
    let (_, line) = host.log();
    assert!(line.contains("the invitation is unknown"), "{line}");
    host.assert_silent();
}

#[test]
fn a_replay_into_an_invitation_that_is_still_open_fails_too() {
    let (mut host, guest) = (End::start("host@h"), End::start("guest@h"));
    let port = host.listen();
    let (id, secret) = host.invite(&guest, 2);
    let invitation = Arc::new(Invitation {
        id,
        secret,
        dialer: guest.party(),
        acceptor: host.party(),
        shards: 2,
    });
    let (_first_of_two, said) = dial_by_hand(port, &invitation);
    let mut replay = connect(port);
    replay.write_all(&said).unwrap();
    until_closed(&replay);
    let (_, line) = host.log();
    assert!(line.contains("authentication failed"), "{line}");
    host.assert_silent();
}

#[test]
fn half_a_session_is_closed_when_its_invitation_ends() {
    let (mut host, guest) = (End::start("host@h"), End::start("guest@h"));
    let port = host.listen();
    let half = |valid| {
        let (id, secret) = host
            .control
            .invite(host.party(), guest.party(), 2, valid)
            .unwrap();
        let invitation = Arc::new(Invitation {
            id,
            secret,
            dialer: guest.party(),
            acceptor: host.party(),
            shards: 2,
        });
        (id, dial_by_hand(port, &invitation).0)
    };
    let (forgotten, socket) = half(PATIENCE);
    host.control.forget(&forgotten);
    assert!(until_closed(&socket).is_empty());
    let (expired, socket) = half(Duration::from_millis(500));
    assert!(until_closed(&socket).is_empty());
    assert_eq!(
        host.failed(expired),
        "the invitation ran out with 1 of 2 sockets connected"
    );
    host.assert_silent();
}
