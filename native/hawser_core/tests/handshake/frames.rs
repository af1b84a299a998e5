//! Frames that are none, are cut, changed, too long or out of turn: refused, and nothing is established by them.

use crate::ends::{Table, acceptor, dialer, feed, invitation, place, refused, transcript};
use hawser_core::handshake::{
    Acceptor, Capabilities, Dialer, MAX_FRAME_BYTES, Machine, Nonce, Refusal, Step,
};
use proptest::prelude::*;
use std::sync::Arc;

#[test]
fn a_stranger_is_refused_by_its_first_bytes_and_not_answered() {
    let table = Table::new(invitation());
    let strangers: [&[u8]; 6] = [
        b"GE",
        &[0xff, 0xff],
        &[0, 0],
        &[2, 0],
        &[0, 63, 2],
        &[0, 63, 1, b'H', b'W', b'S', b'X'],
    ];
    for bytes in strangers {
        let (reply, refusal) = refused(feed(&mut acceptor(&table), bytes, bytes.len()));
        assert_eq!(refusal, Refusal::NotHawser, "{bytes:?}");
        assert!(reply.is_empty());
    }
    // One that speaks hawser is answered, by the time its invitation's id has come.
    let (_, mut hello) = dialer(invitation(), 0);
    hello[28] ^= 1;
    let (reply, refusal) = refused(feed(&mut acceptor(&table), &hello[..29], 1));
    assert_eq!(refusal, Refusal::UnknownInvitation);
    assert_eq!(reply[2..4], [5, 4]);
}

#[test]
fn truncated_and_oversized_frames_are_refused() {
    let [_, challenge, proof, _] = transcript(0, 1);
    let table = Table::new(invitation());
    for length in [0u16, 511, 0xffff] {
        let (mut dialer, hello) = dialer(invitation(), 0);
        let (_, refusal) = refused(feed(&mut dialer, &length.to_be_bytes(), 2));
        assert_eq!(refusal, Refusal::Malformed);
        let mut acceptor = acceptor(&table);
        feed(&mut acceptor, &hello, MAX_FRAME_BYTES);
        let (_, refusal) = refused(feed(&mut acceptor, &length.to_be_bytes(), 2));
        assert_eq!(refusal, Refusal::Malformed);
    }
    // Shorter than its kind needs, and longer.
    for change in [-1i32, 1] {
        let resized = |frame: &[u8]| {
            let mut bytes = frame.to_vec();
            bytes.resize((frame.len() as i32 + change) as usize, 0);
            let length = (bytes.len() - 2) as u16;
            bytes[..2].copy_from_slice(&length.to_be_bytes());
            bytes
        };
        let (mut dialer, hello) = dialer(invitation(), 0);
        let (_, refusal) = refused(feed(&mut dialer, &resized(&challenge), MAX_FRAME_BYTES));
        assert_eq!(refusal, Refusal::Malformed);
        let mut acceptor = acceptor(&table);
        feed(&mut acceptor, &hello, MAX_FRAME_BYTES);
        let (_, refusal) = refused(feed(&mut acceptor, &resized(&proof), MAX_FRAME_BYTES));
        assert_eq!(refusal, Refusal::Malformed);
    }
    assert!(table.claimed.borrow().is_empty());
}

#[test]
fn a_refusal_text_is_made_printable_and_bounded() {
    let mut frame = vec![0, 0, 5, 9];
    frame.extend_from_slice("two\nlines \u{1b}[31m \u{e9}".as_bytes());
    frame.push(0xff);
    frame.resize(MAX_FRAME_BYTES, b'x');
    let length = (frame.len() - 2) as u16;
    frame[..2].copy_from_slice(&length.to_be_bytes());
    let (mut dialer, _) = dialer(invitation(), 0);
    let (reply, refusal) = refused(feed(&mut dialer, &frame, MAX_FRAME_BYTES));
    assert!(reply.is_empty());
    match refusal {
        Refusal::ByPeer { code: 9, text } => {
            assert!(
                text.starts_with("two lines  [31m \u{e9}\u{fffd}xxx"),
                "{text}"
            );
            assert_eq!(text.chars().count(), 200);
        }
        other => panic!("{other:?}"),
    }
}

/// Feeds whatever comes, as a socket would, until the machine has had enough.
fn endure(machine: &mut impl Machine, bytes: &[u8], at_a_time: usize) -> Option<Step> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let part = &rest[..at_a_time.min(rest.len())];
        match machine.feed(part) {
            (consumed, Step::Read) => rest = &rest[consumed..],
            (_, step) => return Some(step),
        }
    }
    None
}

proptest! {
    #[test]
    fn random_bytes_establish_nothing(
        bytes in prop::collection::vec(any::<u8>(), 0..1200),
        at_a_time in 1usize..80,
        behind_hello in any::<bool>(),
    ) {
        let table = Table::new(invitation());
        let (mut dialer, hello) = dialer(invitation(), 0);
        let mut acceptor = acceptor(&table);
        if behind_hello {
            feed(&mut acceptor, &hello, MAX_FRAME_BYTES);
        }
        let established = |step| matches!(step, Some(Step::Established { .. }));
        prop_assert!(!established(endure(&mut acceptor, &bytes, at_a_time)));
        prop_assert!(!established(endure(&mut dialer, &bytes, at_a_time)));
    }

    #[test]
    fn no_changed_byte_goes_unnoticed(
        which in 0usize..4,
        at in any::<prop::sample::Index>(),
        change in 1u8..,
        at_a_time in 1usize..80,
    ) {
        let table = Table::new(invitation());
        let (mut dialer, hello) = dialer(invitation(), 0);
        let mut acceptor = acceptor(&table);
        let mut frame = hello;
        for turn in 0..4 {
            if turn == which {
                let at = at.index(frame.len());
                frame[at] ^= change;
            }
            let step = if turn % 2 == 0 {
                endure(&mut acceptor, &frame, at_a_time)
            } else {
                endure(&mut dialer, &frame, at_a_time)
            };
            match step {
                Some(Step::Write(bytes)) => frame = bytes,
                Some(Step::Established { reply, .. }) => {
                    // The acceptor's establishment stands before Accept travels; nothing else may be past the change.
                    prop_assert!(turn < which);
                    frame = reply;
                }
                _ => {
                    prop_assert!(turn >= which);
                    break;
                }
            }
        }
    }

    #[test]
    fn frames_out_of_order_establish_nothing(order in prop::collection::vec(0usize..4, 0..8)) {
        let frames = transcript(0, MAX_FRAME_BYTES);
        let table = Table::new(invitation());
        let mut other = Acceptor::new(&table, Capabilities::NONE, Nonce([0x44; 32]), Vec::new());
        let (mut dialer, _) = Dialer::new(
            Arc::new(invitation()), place(0), Capabilities::NONE, Nonce([0x55; 32]), Vec::new());
        for index in order {
            let to_acceptor = endure(&mut other, &frames[index], 7);
            prop_assert!(!matches!(to_acceptor, Some(Step::Established { .. })), "acceptor took frame {}", index);
            let to_dialer = endure(&mut dialer, &frames[index], 7);
            prop_assert!(!matches!(to_dialer, Some(Step::Established { .. })), "dialer took frame {}", index);
        }
    }
}
