//! What two ends agree on: their bytes, the version, the capabilities and the shard.

use crate::ends::{Table, acceptor, dialer, feed, invitation, place, refused, transcript, written};
use hawser_core::handshake::{
    Capabilities, Dialer, MAX_FRAME_BYTES, Machine, Nonce, Refusal, Step,
};
use std::sync::Arc;

#[test]
fn both_ends_agree_whole_frames_or_byte_by_byte() {
    assert_eq!(transcript(2, MAX_FRAME_BYTES), transcript(2, 1));
}

#[test]
fn the_bytes_are_the_golden_ones() {
    let golden = include_str!("../../../../test/golden/handshake.hex");
    let [hello, challenge, proof, accept] = transcript(2, MAX_FRAME_BYTES);
    let table = Table::new(invitation());
    let mut stranger = hello.clone();
    stranger[13] ^= 1;
    let (refuse, _) = refused(feed(&mut acceptor(&table), &stranger[..29], 29));
    let frames = [
        ("hello", hello),
        ("challenge", challenge),
        ("proof", proof),
        ("accept", accept),
        ("refuse", refuse),
    ];
    for (name, bytes) in frames {
        let line = format!("{name} {}", hex(&bytes));
        assert!(
            golden.lines().any(|golden| golden == line),
            "not in the golden file: {line}"
        );
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn not_a_byte_behind_the_handshake_is_taken() {
    let [hello, challenge, proof, accept] = transcript(0, 1);
    let table = Table::new(invitation());
    let (mut dialer, _) = dialer(invitation(), 0);
    let mut acceptor = acceptor(&table);
    for (machine, frames) in [
        (&mut acceptor as &mut dyn Machine, [&hello, &proof]),
        (&mut dialer as &mut dyn Machine, [&challenge, &accept]),
    ] {
        for frame in frames {
            let mut wire: &[u8] = &[frame.as_slice(), b"the session's first bytes"].concat();
            while machine.wanted() > 0 {
                let (before, ask) = (wire.len(), machine.wanted());
                let (consumed, step) = machine.feed(wire);
                assert!(consumed >= ask || step != Step::Read);
                wire = &wire[consumed..];
                assert!(wire.len() < before);
                if step != Step::Read {
                    break;
                }
            }
            assert_eq!(wire, b"the session's first bytes");
        }
        assert_eq!(machine.wanted(), 0);
        assert_eq!(machine.feed(b"more").0, 0);
    }
}

#[test]
fn version_zero_is_refused_and_a_later_one_answered_with_ours() {
    let table = Table::new(invitation());
    let (_, hello) = dialer(invitation(), 0);
    let mut old = hello.clone();
    old[7..9].copy_from_slice(&0u16.to_be_bytes());
    let (reply, refusal) = refused(feed(&mut acceptor(&table), &old[..29], 29));
    assert_eq!(refusal, Refusal::Version(0));
    assert_eq!(reply[2..4], [5, 2]);
    // A later version's Hello, longer than ours.
    let mut new = hello.clone();
    new[7..9].copy_from_slice(&9u16.to_be_bytes());
    new.extend_from_slice(b"more");
    new[..2].copy_from_slice(&67u16.to_be_bytes());
    let challenge = written(feed(&mut acceptor(&table), &new, MAX_FRAME_BYTES));
    assert_eq!(challenge[3..5], 1u16.to_be_bytes());
    // Our own version's may not be longer.
    new[7..9].copy_from_slice(&1u16.to_be_bytes());
    let (_, refusal) = refused(feed(&mut acceptor(&table), &new, MAX_FRAME_BYTES));
    assert_eq!(refusal, Refusal::Malformed);
    // An acceptor that answers a version that we do not speak.
    let [_, mut challenge, ..] = transcript(0, 1);
    challenge[3..5].copy_from_slice(&2u16.to_be_bytes());
    let (mut dialer, _) = dialer(invitation(), 0);
    let (_, refusal) = refused(feed(&mut dialer, &challenge, MAX_FRAME_BYTES));
    assert_eq!(refusal, Refusal::Version(2));
}

#[test]
fn optional_capabilities_are_agreed_and_required_ones_insisted_on() {
    let meet = |ours: u32, theirs: u32| Capabilities(ours).agree(Capabilities(theirs)).map(|c| c.0);
    assert_eq!(meet(0b0110, 0b1100), Some(0b0100));
    assert_eq!(meet(1 << 16, 1 << 16), Some(1 << 16));
    assert_eq!(meet(1 << 16, 0), None);
    assert_eq!(meet(0, 1 << 31), None);

    let table = Table::new(invitation());
    let demanding = Dialer::new(
        Arc::new(invitation()),
        place(0),
        Capabilities(1 << 16),
        Nonce([1; 32]),
        Vec::new(),
    );
    let (reply, refusal) = refused(feed(&mut acceptor(&table), &demanding.1, MAX_FRAME_BYTES));
    assert_eq!(refusal, Refusal::Capability);
    let (mut dialer, _) = demanding;
    let (_, told) = refused(feed(&mut dialer, &reply, MAX_FRAME_BYTES));
    assert!(matches!(told, Refusal::ByPeer { code: 3, .. }));
}

#[test]
fn a_place_outside_the_invitation_is_refused() {
    let table = Table::new(invitation());
    let (_, hello) = dialer(invitation(), 0);
    for (index, of) in [(0, 3), (4, 4), (0, 0), (0, 65), (0xffff, 0xffff)] {
        let mut hello = hello.clone();
        hello[29..31].copy_from_slice(&u16::to_be_bytes(index));
        hello[31..33].copy_from_slice(&u16::to_be_bytes(of));
        let (_, refusal) = refused(feed(&mut acceptor(&table), &hello, MAX_FRAME_BYTES));
        assert_eq!(refusal, Refusal::Place);
    }
}
