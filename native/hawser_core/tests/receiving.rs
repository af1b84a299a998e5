//! The receiver against the writers: whatever was written comes out, however the bytes are cut, and nothing that a
//! peer may send makes it panic, go back or ask for more than it may.

use hawser_core::batch::{Inbox, OutOfOrder};
use hawser_core::receive::{Destination, Frame, Item, Malformed, Name, Receiver, Step};
use hawser_core::wire::{self, BatchHead, CloseReason};
use proptest::prelude::*;

const MAX_FRAME: usize = 10_000;

#[derive(Clone, Debug)]
enum Sent {
    Pid {
        creation: u32,
        id: u32,
        serial: u32,
        term: Vec<u8>,
        plain: bool,
    },
    NameId {
        id: u16,
        term: Vec<u8>,
    },
    NameText {
        name: String,
        term: Vec<u8>,
    },
    Alias {
        reference: Vec<u8>,
        term: Vec<u8>,
    },
    Cast {
        term: Vec<u8>,
        plain: bool,
    },
    Call {
        id: u64,
        deadline: Option<u32>,
        term: Vec<u8>,
        plain: bool,
    },
    Answer {
        id: u64,
        term: Vec<u8>,
        plain: bool,
    },
}

fn of(kind: u8, plain: bool) -> u8 {
    kind | if plain { wire::FRAME_PLAIN } else { 0 }
}

impl Sent {
    fn write(&self, out: &mut Vec<u8>) {
        let (kind, content) = match self {
            Sent::Pid {
                creation,
                id,
                serial,
                term,
                plain,
            } => {
                let mut c = Vec::new();
                for n in [creation, id, serial] {
                    c.extend_from_slice(&n.to_be_bytes());
                }
                c.extend_from_slice(term);
                (of(wire::FRAME_TO_PID, *plain), c)
            }
            Sent::NameId { id, term } => {
                let mut c = vec![wire::TERM_ATOM];
                c.extend_from_slice(&id.to_be_bytes());
                c.extend_from_slice(term);
                (wire::FRAME_TO_NAME, c)
            }
            Sent::NameText { name, term } => {
                let mut c = Vec::new();
                hawser_core::etf::write_atom(name.as_bytes(), &mut c);
                c.extend_from_slice(term);
                (wire::FRAME_TO_NAME, c)
            }
            Sent::Alias { reference, term } => {
                let mut c = (reference.len() as u16).to_be_bytes().to_vec();
                c.extend_from_slice(reference);
                c.extend_from_slice(term);
                (wire::FRAME_TO_ALIAS, c)
            }
            Sent::Cast { term, plain } => (of(wire::FRAME_CAST, *plain), term.clone()),
            Sent::Call {
                id,
                deadline,
                term,
                plain,
            } => {
                let mut c = id.to_be_bytes().to_vec();
                c.push(u8::from(deadline.is_some()));
                c.extend_from_slice(&deadline.unwrap_or(0).to_be_bytes());
                c.extend_from_slice(term);
                (of(wire::FRAME_CALL, *plain), c)
            }
            Sent::Answer { id, term, plain } => {
                let mut c = id.to_be_bytes().to_vec();
                c.extend_from_slice(term);
                (of(wire::FRAME_ANSWER, *plain), c)
            }
        };
        out.extend_from_slice(&wire::frame_head(kind, content.len() as u32));
        out.extend_from_slice(&content);
    }

    fn frame(&self) -> Frame<'_> {
        match self {
            Sent::Pid {
                creation,
                id,
                serial,
                term,
                plain,
            } => Frame {
                to: Destination::Pid {
                    creation: *creation,
                    id: *id,
                    serial: *serial,
                },
                plain: *plain,
                term,
            },
            Sent::NameId { id, term } => Frame {
                to: Destination::Name(Name::Id(*id)),
                plain: false,
                term,
            },
            Sent::NameText { name, term } => Frame {
                to: Destination::Name(Name::Text(name)),
                plain: false,
                term,
            },
            Sent::Alias { reference, term } => Frame {
                to: Destination::Alias(reference),
                plain: false,
                term,
            },
            Sent::Cast { term, plain } => Frame {
                to: Destination::Cast,
                plain: *plain,
                term,
            },
            Sent::Call {
                id,
                deadline,
                term,
                plain,
            } => Frame {
                to: Destination::Call {
                    id: *id,
                    deadline: *deadline,
                },
                plain: *plain,
                term,
            },
            Sent::Answer { id, term, plain } => Frame {
                to: Destination::Caller(*id),
                plain: *plain,
                term,
            },
        }
    }
}

fn sent() -> impl Strategy<Value = Sent> {
    let term = || prop::collection::vec(any::<u8>(), 0..200);
    prop_oneof![
        (
            any::<u32>(),
            any::<u32>(),
            any::<u32>(),
            term(),
            any::<bool>()
        )
            .prop_map(|(creation, id, serial, term, plain)| Sent::Pid {
                creation,
                id,
                serial,
                term,
                plain
            }),
        (any::<u16>(), term()).prop_map(|(id, term)| Sent::NameId { id, term }),
        ("\\PC{0,255}", term()).prop_map(|(name, term)| Sent::NameText { name, term }),
        (prop::collection::vec(any::<u8>(), 0..90), term())
            .prop_map(|(reference, term)| Sent::Alias { reference, term }),
        (term(), any::<bool>()).prop_map(|(term, plain)| Sent::Cast { term, plain }),
        (any::<u64>(), any::<Option<u32>>(), term(), any::<bool>()).prop_map(
            |(id, deadline, term, plain)| Sent::Call {
                id,
                deadline,
                term,
                plain
            }
        ),
        (any::<u64>(), term(), any::<bool>()).prop_map(|(id, term, plain)| Sent::Answer {
            id,
            term,
            plain
        }),
    ]
}

fn batch(number: u64, ack: u64, atoms: &[(u16, String)], frames: &[Sent]) -> Vec<u8> {
    let mut announcements = Vec::new();
    for (id, name) in atoms {
        wire::write_announcement(*id, name.as_bytes(), &mut announcements);
    }
    let mut body = Vec::new();
    frames.iter().for_each(|frame| frame.write(&mut body));
    let head = BatchHead {
        ack,
        number,
        clock_ms: 7,
        announcement_count: atoms.len() as u16,
    };
    let mut out = Vec::new();
    wire::write_batch_head(&head, &announcements, body.len(), &mut out);
    out.extend_from_slice(&body);
    out
}

/// Feeds bytes as a socket would, `step` at a time, and shows every item as text.
fn feed(bytes: &[u8], step: usize) -> Result<Vec<String>, Malformed> {
    let (mut receiver, mut inbox) = (Receiver::new(MAX_FRAME), Inbox::default());
    let (mut buffer, mut items) = (Vec::new(), Vec::new());
    let mut chunks = bytes.chunks(step.max(1));
    loop {
        match receiver.next(&buffer, &mut inbox)? {
            Step::Item(item, taken) => {
                if item != Item::Skipped {
                    items.push(format!("{item:?}"));
                }
                assert!(taken <= buffer.len());
                buffer.drain(..taken);
            }
            Step::Need(total) => {
                assert!(
                    total > buffer.len(),
                    "asked for {total}, has {}",
                    buffer.len()
                );
                assert!(total <= MAX_FRAME + wire::MAX_ATOM_BYTES + 64);
                match chunks.next() {
                    Some(chunk) => buffer.extend_from_slice(chunk),
                    None => return Ok(items),
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_was_written_comes_out_however_it_is_cut(
        batches in prop::collection::vec(
            (prop::collection::vec((any::<u16>(), "\\PC{0,20}"), 0..5), prop::collection::vec(sent(), 0..6)), 1..4),
        step in 1usize..300,
    ) {
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        for (i, (atoms, frames)) in batches.iter().enumerate() {
            let number = i as u64 + 1;
            bytes.extend(batch(number, 3, atoms, frames));
            expected.push(format!("{:?}", Item::Batch { ack: 3, number, clock_ms: 7 }));
            expected.extend(atoms.iter().map(|(id, name)| format!("{:?}", Item::Announce { id: *id, name })));
            expected.extend(frames.iter().map(|frame| format!("{:?}", Item::Frame(frame.frame()))));
            let mut body = Vec::new();
            frames.iter().for_each(|frame| frame.write(&mut body));
            expected.push(format!("{:?}", Item::BatchEnd { number, bytes: body.len() }));
        }
        wire::write_tick(9, &mut bytes);
        expected.push(format!("{:?}", Item::Tick { ack: 9 }));
        wire::write_close(9, CloseReason::Finished, "bye", &mut bytes);
        expected.push(format!("{:?}", Item::Close { ack: 9, reason: CloseReason::Finished, text: "bye" }));
        prop_assert_eq!(feed(&bytes, step), Ok(expected));
    }

    #[test]
    fn hostile_bytes_are_an_error_or_a_wait_and_never_a_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..600), step in 1usize..64
    ) {
        let _ = feed(&bytes, step);
    }

    #[test]
    fn a_mutated_batch_is_an_error_or_still_a_batch(
        frames in prop::collection::vec(sent(), 1..4),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        step in 1usize..300,
    ) {
        let mut bytes = batch(1, 0, &[(1, "a".to_owned())], &frames);
        for (at, value) in flips {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let _ = feed(&bytes, step);
    }
}

fn one_frame(kind: u8, declared: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let head = BatchHead {
        ack: 0,
        number: 1,
        clock_ms: 0,
        announcement_count: 0,
    };
    wire::write_batch_head(&head, &[], u32::MAX as usize - 100, &mut out);
    out.extend_from_slice(&wire::frame_head(kind, declared));
    out
}

#[test]
fn a_length_over_the_limit_is_refused_before_its_bytes_are_waited_for() {
    let bytes = one_frame(wire::FRAME_TO_PID, MAX_FRAME as u32 + 1);
    let refused = Malformed::FrameTooLarge {
        bytes: MAX_FRAME + 1,
        limit: MAX_FRAME,
    };
    assert_eq!(feed(&bytes, 1000), Err(refused));
    let bytes = one_frame(wire::FRAME_TO_PID, u32::MAX);
    assert!(matches!(
        feed(&bytes, 1000),
        Err(Malformed::FrameTooLarge { .. })
    ));
}

#[test]
fn batches_come_one_after_the_other() {
    let mut bytes = batch(1, 0, &[], &[]);
    bytes.extend(batch(3, 0, &[], &[]));
    let wrong = OutOfOrder {
        expected: 2,
        got: 3,
    };
    assert_eq!(feed(&bytes, 9), Err(Malformed::BatchOutOfOrder(wrong)));
}

#[test]
fn unknown_kinds_end_the_session_unless_they_may_be_skipped() {
    let mut record = Vec::new();
    wire::write_tick(1, &mut record);
    record[4] = 9;
    assert_eq!(feed(&record, 5), Err(Malformed::UnknownRecord(9)));
    record[4] = 9 | wire::SKIPPABLE;
    record[3] += 3;
    record.extend_from_slice(b"xyz");
    wire::write_tick(2, &mut record);
    let ticks: Vec<_> = [1, 2].map(|ack| format!("{:?}", Item::Tick { ack })).into();
    assert_eq!(feed(&record, 2), Ok(ticks));
}

#[test]
fn a_frame_that_may_be_skipped_is_not_waited_for() {
    for (kind, length) in [(0x84, 0), (0xc4, 5), (0x81, MAX_FRAME)] {
        let message = Sent::NameId {
            id: 1,
            term: vec![106],
        };
        let mut frames = wire::frame_head(kind, length as u32).to_vec();
        frames.extend(vec![0xff; length]);
        message.write(&mut frames);
        let mut bytes = Vec::new();
        let head = BatchHead {
            ack: 0,
            number: 1,
            clock_ms: 0,
            announcement_count: 0,
        };
        wire::write_batch_head(&head, &[], frames.len(), &mut bytes);
        bytes.extend_from_slice(&frames);
        let items = feed(&bytes, 7).unwrap();
        assert_eq!(items[1], format!("{:?}", Item::Frame(message.frame())));
        let end = Item::BatchEnd {
            number: 1,
            bytes: frames.len(),
        };
        assert_eq!(items[2..], [format!("{end:?}")]);

        let (mut receiver, mut inbox) = (Receiver::new(MAX_FRAME), Inbox::default());
        let mut at = 0;
        while at < wire::BATCH_HEAD + wire::FRAME_HEAD {
            match receiver.next(&bytes[at..wire::BATCH_HEAD + wire::FRAME_HEAD], &mut inbox) {
                Ok(Step::Item(_, taken)) => at += taken,
                other => panic!("{other:?} of frame kind {kind}"),
            }
        }
    }
    let unknown = one_frame(0x49, MAX_FRAME as u32);
    assert_eq!(feed(&unknown, 100), Err(Malformed::UnknownFrame(0x49)));
}

/// A batch with one frame of this kind and content.
fn of_content(kind: u8, content: &[u8]) -> Vec<u8> {
    let mut frame = wire::frame_head(kind, content.len() as u32).to_vec();
    frame.extend_from_slice(content);
    let head = BatchHead {
        ack: 0,
        number: 1,
        clock_ms: 0,
        announcement_count: 0,
    };
    let mut out = Vec::new();
    wire::write_batch_head(&head, &[], frame.len(), &mut out);
    out.extend_from_slice(&frame);
    out
}

#[test]
fn a_call_has_its_number_and_a_deadline_or_none() {
    for kind in [wire::FRAME_CALL, wire::FRAME_CALL | wire::FRAME_PLAIN] {
        for length in 0..13 {
            let cut = of_content(kind, &vec![0; length]);
            assert_eq!(feed(&cut, 100), Err(Malformed::BadLength), "{length}");
        }
        let call = |flag: u8, deadline: u32| {
            let mut content = vec![7; 8];
            content.push(flag);
            content.extend_from_slice(&deadline.to_be_bytes());
            feed(&of_content(kind, &content), 100)
        };
        for (flag, deadline) in [(0, 0), (1, 0), (1, u32::MAX)] {
            assert!(call(flag, deadline).is_ok(), "{flag} {deadline}");
        }
        for (flag, deadline) in [(0, 1), (0, u32::MAX), (2, 0), (255, 5)] {
            assert_eq!(call(flag, deadline), Err(Malformed::BadDeadline));
        }
    }
}

#[test]
fn an_answer_has_its_number() {
    for kind in [wire::FRAME_ANSWER, wire::FRAME_ANSWER | wire::FRAME_PLAIN] {
        for length in 0..8 {
            let cut = of_content(kind, &vec![0; length]);
            assert_eq!(feed(&cut, 100), Err(Malformed::BadLength), "{length}");
        }
        assert!(feed(&of_content(kind, &[0xff; 8]), 100).is_ok());
    }
}

#[test]
fn a_frame_may_not_reach_beyond_its_batch() {
    let mut bytes = batch(
        1,
        0,
        &[],
        &[Sent::NameId {
            id: 1,
            term: vec![106],
        }],
    );
    let at = bytes.len() - 5;
    bytes[at] += 1;
    assert_eq!(feed(&bytes, 100), Err(Malformed::BadLength));
}

#[test]
fn an_atom_is_utf8_and_at_most_255_characters() {
    let long: String = "\u{10000}".repeat(255);
    assert!(feed(&batch(1, 0, &[(1, long.clone())], &[]), 100).is_ok());
    let longer = "a".repeat(256);
    assert_eq!(
        feed(&batch(1, 0, &[(1, longer)], &[]), 100),
        Err(Malformed::BadAtom)
    );
    let mut not_utf8 = batch(1, 0, &[(1, "ab".to_owned())], &[]);
    let at = not_utf8.len() - 1;
    not_utf8[at] = 0xff;
    assert_eq!(feed(&not_utf8, 100), Err(Malformed::BadAtom));
}
