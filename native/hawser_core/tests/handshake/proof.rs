//! What a proof is about: whoever lacks any of it, or has it from another handshake, is found out.

use crate::ends::{Table, acceptor, against, dialer, feed, invitation, place, refused, written};
use hawser_core::handshake::{
    Acceptor, Capabilities, Dialer, Incarnation, Invitation, MAX_FRAME_BYTES, Nonce, Refusal,
    Secret,
};
use std::sync::Arc;

#[test]
fn a_wrong_secret_name_creation_or_incarnation_is_found_out_by_both() {
    let changes: [fn(&mut Invitation); 6] = [
        |i| i.secret = Secret([7; 32]),
        |i| i.dialer.name = "eve@host.example".into(),
        |i| i.dialer.creation += 1,
        |i| i.acceptor.name = "eve@host.example".into(),
        |i| i.acceptor.creation += 1,
        |i| i.acceptor.incarnation = Incarnation([0; 16]),
    ];
    for change in changes {
        let mut other = invitation();
        change(&mut other);
        let table = Table::new(invitation());
        let mut acceptor = acceptor(&table);
        let (mut dialer, hello) = dialer(other.clone(), 1);
        let challenge = written(feed(&mut acceptor, &hello, MAX_FRAME_BYTES));
        let (reply, refusal) = refused(feed(&mut dialer, &challenge, MAX_FRAME_BYTES));
        assert_eq!(refusal, Refusal::Authentication);
        let (_, told) = refused(feed(&mut acceptor, &reply, MAX_FRAME_BYTES));
        assert!(matches!(told, Refusal::ByPeer { code: 7, .. }));
        // A dialer that does not care about the acceptor's proof gets no further with its own.
        let theirs = Table::new(other);
        let [_, _, proof, _] = against(&theirs, 1);
        let mut acceptor = crate::ends::acceptor(&table);
        feed(&mut acceptor, &hello, MAX_FRAME_BYTES);
        let (_, refusal) = refused(feed(&mut acceptor, &proof, MAX_FRAME_BYTES));
        assert_eq!(refusal, Refusal::Authentication);
        assert!(table.claimed.borrow().is_empty());
    }
}

#[test]
fn another_channel_binding_is_found_out() {
    let table = Table::new(invitation());
    let mut acceptor = Acceptor::new(
        &table,
        Capabilities::NONE,
        Nonce([2; 32]),
        b"the acceptor's TLS session".to_vec(),
    );
    let (mut dialer, hello) = Dialer::new(
        Arc::new(invitation()),
        place(0),
        Capabilities::NONE,
        Nonce([1; 32]),
        b"the dialer's TLS session".to_vec(),
    );
    let challenge = written(feed(&mut acceptor, &hello, MAX_FRAME_BYTES));
    let (_, refusal) = refused(feed(&mut dialer, &challenge, MAX_FRAME_BYTES));
    assert_eq!(refusal, Refusal::Authentication);
}

#[test]
fn a_recorded_handshake_cannot_be_replayed() {
    let table = Table::new(invitation());
    let [hello, _, proof, _] = against(&table, 1);
    // The acceptor's nonce is another each time.
    let mut acceptor = Acceptor::new(&table, Capabilities::NONE, Nonce([0x33; 32]), Vec::new());
    feed(&mut acceptor, &hello, MAX_FRAME_BYTES);
    let (_, refusal) = refused(feed(&mut acceptor, &proof, MAX_FRAME_BYTES));
    assert_eq!(refusal, Refusal::Authentication);
    // And were it the same, the shard would be gone.
    let mut acceptor = crate::ends::acceptor(&table);
    feed(&mut acceptor, &hello, MAX_FRAME_BYTES);
    let (_, refusal) = refused(feed(&mut acceptor, &proof, MAX_FRAME_BYTES));
    assert_eq!(refusal, Refusal::Taken);
}

#[test]
fn a_proof_for_one_shard_opens_no_other() {
    let table = Table::new(invitation());
    let [_, _, proof, _] = against(&table, 1);
    let (_, hello) = dialer(invitation(), 2);
    let mut acceptor = acceptor(&table);
    feed(&mut acceptor, &hello, MAX_FRAME_BYTES);
    let (_, refusal) = refused(feed(&mut acceptor, &proof, MAX_FRAME_BYTES));
    assert_eq!(refusal, Refusal::Authentication);
}

#[test]
fn what_an_end_said_cannot_be_reflected_to_it() {
    let table = Table::new(invitation());
    let (mut dialer, hello) = dialer(invitation(), 0);
    let mut acceptor = acceptor(&table);
    let challenge = written(feed(&mut acceptor, &hello, MAX_FRAME_BYTES));
    // The acceptor's own mac as the dialer's proof.
    let reflected = [&[0, 33, 3], &challenge[41..]].concat();
    let (_, refusal) = refused(feed(&mut acceptor, &reflected, MAX_FRAME_BYTES));
    assert_eq!(refusal, Refusal::Authentication);
    // The dialer's own Hello as the answer to it.
    let (_, refusal) = refused(feed(&mut dialer, &hello, MAX_FRAME_BYTES));
    assert_eq!(refusal, Refusal::Malformed);
}

#[test]
fn swapped_roles_are_found_out() {
    let mut swapped = invitation();
    core::mem::swap(&mut swapped.dialer, &mut swapped.acceptor);
    let table = Table::new(invitation());
    let (mut dialer, hello) = dialer(swapped, 0);
    let challenge = written(feed(&mut acceptor(&table), &hello, MAX_FRAME_BYTES));
    let (_, refusal) = refused(feed(&mut dialer, &challenge, MAX_FRAME_BYTES));
    assert_eq!(refusal, Refusal::Authentication);
}
