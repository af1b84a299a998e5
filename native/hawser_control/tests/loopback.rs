//! Listener and dialer against each other on the loopback interface: sessions come up, and every way of not coming up
//! ends in one sentence.

mod ends;

use ends::{End, LOCALHOST, PATIENCE, assert_paired, session, until_closed};
use hawser_control::{DialRefused, Family, InviteError, Level, ListenError, Secret, Side};
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

#[test]
fn all_sockets_of_a_session_connect_in_shard_order() {
    let (mut host, mut guest) = (End::start("host@h"), End::start("guest@h"));
    let port = host.listen();
    for shards in [1, 4, 64] {
        let (ours, theirs) = session(&mut host, port, &mut guest, shards);
        assert_eq!(ours.len(), usize::from(shards));
        assert_paired(ours, theirs);
    }
    host.assert_silent();
    guest.assert_silent();
}

#[test]
fn many_sessions_connect_at_once() {
    let (mut host, mut guest) = (End::start("host@h"), End::start("guest@h"));
    let port = host.listen();
    for _ in 0..20 {
        guest
            .control
            .dial(guest.request(&host, port, 4, host.invite(&guest, 4)))
            .unwrap();
    }
    for _ in 0..20 {
        assert!(
            matches!(guest.outcome(), hawser_control::Event::Established { sockets, .. } if sockets.len() == 4)
        );
        assert!(
            matches!(host.outcome(), hawser_control::Event::Established { sockets, .. } if sockets.len() == 4)
        );
    }
}

#[test]
fn names_are_resolved_and_filtered_by_family() {
    let (host, mut guest) = (End::start("host@h"), End::start("guest@h"));
    let port = host.listen();
    let invitation = host.invite(&guest, 1);
    let id = invitation.0;
    let by_name = hawser_control::DialRequest {
        host: "localhost".into(),
        ..guest.request(&host, port, 1, invitation)
    };
    guest.control.dial(by_name.clone()).unwrap();
    guest.established(id, Side::Dialer);
    for (name, family, version) in [("127.0.0.1", Family::Inet6, 6), ("::1", Family::Inet, 4)] {
        let request = hawser_control::DialRequest {
            host: name.into(),
            family,
            ..by_name.clone()
        };
        guest.control.dial(request).unwrap();
        assert_eq!(
            guest.failed(id),
            format!("the host \"{name}\" has no IPv{version} address")
        );
    }
}

#[test]
fn an_unresolvable_host_is_named() {
    let (host, mut guest) = (End::start("host@h"), End::start("guest@h"));
    let port = host.listen();
    let invitation = host.invite(&guest, 1);
    let request = hawser_control::DialRequest {
        host: "no-such-host.invalid".into(),
        timeout: Duration::from_secs(2),
        ..guest.request(&host, port, 1, invitation.clone())
    };
    guest.control.dial(request).unwrap();
    let reason = guest.failed(invitation.0);
    assert!(
        reason.starts_with("cannot resolve the host \"no-such-host.invalid\": "),
        "{reason}"
    );
}

#[test]
fn a_closed_port_is_named() {
    let (host, mut guest) = (End::start("host@h"), End::start("guest@h"));
    host.listen();
    let closed = TcpListener::bind((LOCALHOST, 0))
        .unwrap()
        .local_addr()
        .unwrap();
    let invitation = host.invite(&guest, 2);
    guest
        .control
        .dial(guest.request(&host, closed.port(), 2, invitation.clone()))
        .unwrap();
    let reason = guest.failed(invitation.0);
    assert!(
        reason.starts_with(&format!("cannot connect to {closed}: ")),
        "{reason}"
    );
}

#[test]
fn a_taken_port_or_a_strange_address_is_a_sentence() {
    let (host, other) = (End::start("host@h"), End::start("other@h"));
    let port = host.listen();
    let refused = other
        .control
        .listen(LOCALHOST, port)
        .unwrap_err()
        .to_string();
    assert!(
        refused.starts_with("another program has this port ("),
        "{refused}"
    );
    let strange = "192.0.2.1".parse().unwrap();
    let refused = other.control.listen(strange, 0).unwrap_err().to_string();
    assert!(
        refused.starts_with("this machine does not have this address ("),
        "{refused}"
    );
    // Neither attempt stands in the way of a good one; and nobody listens twice.
    other.listen();
    assert!(matches!(
        other.control.listen(LOCALHOST, 0),
        Err(ListenError::Already(_))
    ));
}

#[test]
fn an_invitation_needs_a_listener_and_a_number_of_shards() {
    let (host, guest) = (End::start("host@h"), End::start("guest@h"));
    let invite = |shards| {
        host.control
            .invite(host.party(), guest.party(), shards, PATIENCE)
    };
    assert!(matches!(invite(1), Err(InviteError::NotListening)));
    host.listen();
    assert!(matches!(invite(0), Err(InviteError::Shards(0))));
    assert!(matches!(invite(65), Err(InviteError::Shards(65))));
    assert!(invite(64).is_ok());
}

#[test]
fn a_wrong_secret_fails_the_dial_and_leaves_the_invitation() {
    let (mut host, mut guest) = (End::start("host@h"), End::start("guest@h"));
    let port = host.listen();
    let (id, secret) = host.invite(&guest, 2);
    guest
        .control
        .dial(guest.request(&host, port, 2, (id, Secret([0; 32]))))
        .unwrap();
    let reason = guest.failed(id);
    assert!(reason.contains("authentication failed"), "{reason}");
    // The dialer's other socket may have gone without a word.
    while !host
        .log()
        .1
        .starts_with("refused a connection from 127.0.0.1: refused by the peer (7)")
    {}
    guest
        .control
        .dial(guest.request(&host, port, 2, (id, secret)))
        .unwrap();
    assert_paired(
        guest.established(id, Side::Dialer),
        host.established(id, Side::Acceptor),
    );
}

#[test]
fn another_incarnation_of_the_invited_node_is_refused() {
    let (host, guest, mut reborn) = (
        End::start("host@h"),
        End::start("guest@h"),
        End::start("guest@h"),
    );
    let port = host.listen();
    let invitation = host.invite(&guest, 1);
    reborn
        .control
        .dial(reborn.request(&host, port, 1, invitation.clone()))
        .unwrap();
    let reason = reborn.failed(invitation.0);
    assert!(reason.contains("authentication failed"), "{reason}");
}

#[test]
fn an_invitation_that_ran_out_is_reported_and_opens_nothing() {
    let (mut host, mut guest) = (End::start("host@h"), End::start("guest@h"));
    let port = host.listen();
    let invitation = host
        .control
        .invite(host.party(), guest.party(), 4, Duration::from_millis(1))
        .unwrap();
    assert_eq!(
        host.failed(invitation.0),
        "the invitation ran out with 0 of 4 sockets connected"
    );
    guest
        .control
        .dial(guest.request(&host, port, 4, invitation.clone()))
        .unwrap();
    let reason = guest.failed(invitation.0);
    assert!(
        reason.contains("the invitation is unknown, expired or used up"),
        "{reason}"
    );
}

#[test]
fn an_invitation_is_used_once() {
    let (mut host, mut guest) = (End::start("host@h"), End::start("guest@h"));
    let port = host.listen();
    let invitation = host.invite(&guest, 2);
    let request = guest.request(&host, port, 2, invitation.clone());
    guest.control.dial(request.clone()).unwrap();
    let kept = (
        guest.established(invitation.0, Side::Dialer),
        host.established(invitation.0, Side::Acceptor),
    );
    guest.control.dial(request).unwrap();
    let reason = guest.failed(invitation.0);
    assert!(
        reason.contains("the invitation is unknown, expired or used up"),
        "{reason}"
    );
    assert_paired(kept.0, kept.1);
}

#[test]
fn two_dials_of_one_invitation_share_nothing() {
    let (host, mut guest, mut twin) = (
        End::start("host@h"),
        End::start("guest@h"),
        End::start("guest@h"),
    );
    let port = host.listen();
    // The twin has learnt everything that the guest knows.
    let invitation = host
        .control
        .invite(host.party(), guest.party(), 8, Duration::from_secs(2))
        .unwrap();
    let request = guest.request(&host, port, 8, invitation);
    guest.control.dial(request.clone()).unwrap();
    twin.control.dial(request).unwrap();
    let outcomes = [guest.outcome(), twin.outcome()];
    let established = outcomes
        .iter()
        .filter(|outcome| matches!(outcome, hawser_control::Event::Established { .. }));
    assert!(established.count() <= 1, "{outcomes:?}");
}

#[test]
fn a_forgotten_invitation_opens_nothing() {
    let (mut host, mut guest) = (End::start("host@h"), End::start("guest@h"));
    let port = host.listen();
    let invitation = host.invite(&guest, 2);
    host.control.forget(&invitation.0);
    guest
        .control
        .dial(guest.request(&host, port, 2, invitation.clone()))
        .unwrap();
    let reason = guest.failed(invitation.0);
    assert!(
        reason.contains("the invitation is unknown, expired or used up"),
        "{reason}"
    );
    let (_, line) = host.log();
    assert!(line.contains("the invitation is unknown"), "{line}");
}

/// A listener that lets connect and never says a word.
fn deaf() -> (TcpListener, u16) {
    let listener = TcpListener::bind((LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

#[test]
fn a_dial_ends_at_its_deadline() {
    let (host, mut guest) = (End::start("host@h"), End::start("guest@h"));
    host.listen();
    let (_deaf, port) = deaf();
    let invitation = host.invite(&guest, 2);
    let request = hawser_control::DialRequest {
        timeout: Duration::from_millis(100),
        ..guest.request(&host, port, 2, invitation.clone())
    };
    guest.control.dial(request).unwrap();
    let reason = guest.failed(invitation.0);
    assert!(
        reason.ends_with("the peer did not finish the handshake in time"),
        "{reason}"
    );
}

#[test]
fn a_forgotten_dial_closes_its_sockets_without_a_word() {
    let (host, mut guest) = (End::start("host@h"), End::start("guest@h"));
    host.listen();
    let (deaf, port) = deaf();
    let invitation = host.invite(&guest, 1);
    let request = guest.request(&host, port, 1, invitation.clone());
    guest.control.dial(request.clone()).unwrap();
    let (mut socket, _) = deaf.accept().unwrap();
    let mut hello = [0; 65];
    socket.read_exact(&mut hello).unwrap();
    assert_eq!(hello[2..7], *b"\x01HWSR");
    assert_eq!(guest.control.dial(request.clone()), Err(DialRefused::Busy));
    guest.control.forget(&invitation.0);
    assert!(until_closed(&socket).is_empty());
    guest.assert_silent();
    // The same dial may be tried again.
    guest.control.dial(request).unwrap();
    deaf.accept().unwrap();
}

#[test]
fn stop_ends_dials_handshakes_and_the_listener_at_once() {
    let (host, mut guest) = (End::start("host@h"), End::start("guest@h"));
    let own_port = guest.listen();
    let silent = TcpStream::connect((LOCALHOST, own_port)).unwrap();
    host.listen();
    let (deaf, port) = deaf();
    let invitation = host.invite(&guest, 1);
    let request = guest.request(&host, port, 1, invitation);
    guest.control.dial(request.clone()).unwrap();
    let (dialled, _) = deaf.accept().unwrap();
    let before = Instant::now();
    guest.control.stop();
    assert!(before.elapsed() < Duration::from_secs(1));
    until_closed(&silent);
    until_closed(&dialled);
    assert!(TcpStream::connect((LOCALHOST, own_port)).is_err());
    guest.assert_silent();
    assert_eq!(guest.control.dial(request), Err(DialRefused::NotRunning));
    assert!(matches!(
        guest.control.listen(LOCALHOST, 0),
        Err(ListenError::NotRunning)
    ));
    guest.control.stop();
}

#[test]
fn log_lines_of_hawsers_crates_reach_the_owner() {
    let mut end = End::start("host@h");
    tracing::debug!(target: "hawser_nif", "off by default");
    tracing::error!(target: "another_library", "not hawser's");
    tracing::warn!(target: "hawser_nif", shard = 3, "slow");
    tracing::info!(target: "hawser_nif", "{}", "\u{e9}".repeat(400));
    assert_eq!(end.log(), (Level::Warning, "slow shard=3".to_string()));
    let (level, line) = end.log();
    assert_eq!((level, line), (Level::Info, "\u{e9}".repeat(250)));
    end.assert_silent();
}
