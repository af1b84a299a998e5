//! The bytes on the wire are the ones in test/golden, which the Erlang suites read as well: changing one of them changes
//! the drawing in wire.rs and the files in the same commit.

use hawser_core::batch::Inbox;
use hawser_core::etf::{self, Ends};
use hawser_core::receive::{Destination, Frame, Item, Name, Receiver, Step};
use hawser_core::wire::{self, BatchHead, CloseReason};
use std::collections::HashMap;

const TERMS: &str = include_str!("../../../test/golden/terms.hex");
const RECORDS: &str = include_str!("../../../test/golden/records.hex");
const ENDS: Ends<'static> = Ends {
    sender: ("a@golden", 7),
    receiver: ("b@golden", 9),
};
const CREATION: u32 = 9;
const PID: [u32; 2] = [300, 2];
const LONG_ATOM: &str = "\u{1f600}";

type Failure = Box<dyn std::error::Error>;

/// The lines that are no comments, as words.
fn lines(file: &str) -> impl Iterator<Item = Vec<&str>> {
    file.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split(' ').collect())
}

fn bytes(hex: &str) -> Result<Vec<u8>, Failure> {
    if hex == "-" {
        return Ok(Vec::new());
    }
    hex.as_bytes()
        .chunks(2)
        .map(|pair| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?))
        .collect()
}

fn record(name: &str) -> Result<Vec<u8>, Failure> {
    let line = lines(RECORDS).find(|words| words[0] == name);
    bytes(line.ok_or(name)?[1])
}

fn announced(mut bytes: &[u8]) -> Result<HashMap<u16, String>, Failure> {
    let mut names = HashMap::new();
    while let Some(([a, b, c, d], rest)) = bytes.split_first_chunk::<4>() {
        let (name, rest) = rest
            .split_at_checked(usize::from(u16::from_be_bytes([*c, *d])))
            .ok_or("short")?;
        names.insert(
            u16::from_be_bytes([*a, *b]),
            String::from_utf8(name.to_vec())?,
        );
        bytes = rest;
    }
    assert!(bytes.is_empty());
    Ok(names)
}

#[test]
fn terms_mean_their_external_form() -> Result<(), Failure> {
    let mut count = 0;
    for words in lines(TERMS) {
        let [name, announcements, term, plain] = words.try_into().map_err(|w| format!("{w:?}"))?;
        let names = announced(&bytes(announcements)?)?;
        let expanded = etf::expand(&bytes(term)?, &ENDS, |id| {
            names.get(&id).map(String::as_str)
        });
        assert_eq!(expanded, Ok(bytes(plain)?), "{name}");
        count += 1;
    }
    assert!(count > 40);
    Ok(())
}

/// Content of a frame to the process that the golden messages go to.
fn to_pid(term: &[u8]) -> Vec<u8> {
    let numbers = [CREATION, PID[0], PID[1]];
    let mut content: Vec<u8> = numbers.iter().flat_map(|n| n.to_be_bytes()).collect();
    content.extend_from_slice(term);
    content
}

fn reference() -> Vec<u8> {
    let mut bytes = vec![etf::NEWER_REFERENCE, 0, 3];
    etf::write_atom(b"b@golden", &mut bytes);
    for number in [CREATION, 1, 2, 3] {
        bytes.extend_from_slice(&number.to_be_bytes());
    }
    bytes
}

/// The sender's clock when it sends the golden requests.
const CLOCK_MS: u32 = 0xFFFF_FFF0;
/// Number of a call at the sender, and of one at the receiver: slot 1 of shard 63, used by call 2.
const NUMBER: u64 = 0x0102_0304_0506_0708;
const OWN_NUMBER: u64 = 0x3F00_0001_0000_0002;
const RETURN: &[u8] = b"h\x02w\x06returnR\0\0";
const PLAIN_SYSTEM: &[u8] = b"\x83h\x02w\x06systemw\x0cnoconnection";

/// {a pid of the sender, logger, ok, []}
fn request() -> Vec<u8> {
    b"h\x04S\0\0\0\x01\0\0\0\0R\0\x01R\0\0j".to_vec()
}

fn plain_request() -> Result<Vec<u8>, Failure> {
    let names = |id| ["ok", "logger"].get(usize::from(id)).copied();
    etf::expand(&request(), &ENDS, names).map_err(|bad| format!("{bad:?}").into())
}

fn call(id: u64, deadline: Option<u32>, term: &[u8]) -> Vec<u8> {
    let mut content = id.to_be_bytes().to_vec();
    content.push(u8::from(deadline.is_some()));
    content.extend_from_slice(&deadline.unwrap_or(0).to_be_bytes());
    content.extend_from_slice(term);
    content
}

fn answer(id: u64, term: &[u8]) -> Vec<u8> {
    let mut content = id.to_be_bytes().to_vec();
    content.extend_from_slice(term);
    content
}

fn frame(kind: u8, content: &[u8]) -> Vec<u8> {
    let mut frame = wire::frame_head(kind, content.len() as u32).to_vec();
    frame.extend_from_slice(content);
    frame
}

fn batch(ack: u64, number: u64, clock_ms: u32, atoms: &[(u16, &str)], frames: &[u8]) -> Vec<u8> {
    let mut announcements = Vec::new();
    for (id, name) in atoms {
        wire::write_announcement(*id, name.as_bytes(), &mut announcements);
    }
    let head = BatchHead {
        ack,
        number,
        clock_ms,
        announcement_count: atoms.len() as u16,
    };
    let mut out = Vec::new();
    wire::write_batch_head(&head, &announcements, frames.len(), &mut out);
    out.extend_from_slice(frames);
    out
}

#[test]
fn writers_write_the_golden_records() -> Result<(), Failure> {
    let mut text = Vec::new();
    etf::write_atom(b"text", &mut text);
    text.push(etf::NIL);
    let mut alias = (reference().len() as u16).to_be_bytes().to_vec();
    alias.extend_from_slice(&reference());
    alias.extend_from_slice(&[etf::STRING, 0, 2, b'h', b'i']);
    let frames = [
        frame(
            wire::FRAME_TO_PID,
            &to_pid(&[etf::SMALL_TUPLE, 2, wire::TERM_ATOM, 0, 0, 97, 7]),
        ),
        frame(wire::FRAME_TO_NAME, &[b'R', 0, 1, b'R', 0, 0]),
        frame(wire::FRAME_TO_NAME, &text),
        frame(wire::FRAME_TO_ALIAS, &alias),
        frame(
            wire::FRAME_TO_PID | wire::FRAME_PLAIN,
            &to_pid(&[etf::VERSION, etf::NIL]),
        ),
    ];
    let atoms = [(0, "ok"), (1, "logger")];
    assert_eq!(batch(0, 1, 0, &atoms, &frames.concat()), record("batch")?);

    let ok = frame(wire::FRAME_TO_PID, &to_pid(&[wire::TERM_ATOM, 0, 0]));
    assert_eq!(
        batch(0x0102030405060708, 2, 250, &[], &ok),
        record("batch_acknowledging")?
    );

    let long = LONG_ATOM.repeat(255);
    let to_long = frame(wire::FRAME_TO_NAME, &[b'R', 1, 44, etf::NIL]);
    assert_eq!(
        batch(5, 3, 1, &[(300, &long)], &to_long),
        record("batch_long_atom")?
    );

    let frames = [
        frame(wire::FRAME_CAST, &request()),
        frame(wire::FRAME_CAST | wire::FRAME_PLAIN, &plain_request()?),
        frame(wire::FRAME_CALL, &call(NUMBER, None, &request())),
        frame(wire::FRAME_CALL, &call(0, Some(4), &request())),
        frame(
            wire::FRAME_CALL | wire::FRAME_PLAIN,
            &call(u64::MAX, Some(u32::MAX), &plain_request()?),
        ),
        frame(wire::FRAME_ANSWER, &answer(OWN_NUMBER, RETURN)),
        frame(
            wire::FRAME_ANSWER | wire::FRAME_PLAIN,
            &answer(1, PLAIN_SYSTEM),
        ),
    ];
    assert_eq!(
        batch(5, 5, CLOCK_MS, &[], &frames.concat()),
        record("batch_requests")?
    );

    for (name, ack) in [("tick", 0), ("tick_acknowledging", 7)] {
        let mut out = Vec::new();
        wire::write_tick(ack, &mut out);
        assert_eq!(out, record(name)?);
    }
    let mut out = Vec::new();
    wire::write_close(7, CloseReason::Finished, "", &mut out);
    assert_eq!(out, record("close")?);
    out.clear();
    wire::write_close(8, CloseReason::Other(2), "na gut: \u{263a}", &mut out);
    assert_eq!(out, record("close_with_text")?);
    Ok(())
}

fn message<'a>(to: Destination<'a>, plain: bool, term: &'a [u8]) -> Item<'a> {
    Item::Frame(Frame { to, plain, term })
}

#[test]
fn the_receiver_reads_the_golden_records() -> Result<(), Failure> {
    let stream: Vec<u8> = lines(RECORDS)
        .map(|words| bytes(words[1]))
        .collect::<Result<Vec<_>, _>>()?
        .concat();
    let (pid, alias, long) = (
        || Destination::Pid {
            creation: CREATION,
            id: PID[0],
            serial: PID[1],
        },
        reference(),
        LONG_ATOM.repeat(255),
    );
    let (request, plain) = (request(), plain_request()?);
    let to_call = |id, deadline| Destination::Call { id, deadline };
    let name = |id| Destination::Name(Name::Id(id));
    let text = Destination::Name(Name::Text("text"));
    let begin = |ack, number, clock_ms| Item::Batch {
        ack,
        number,
        clock_ms,
    };
    let end = |number, bytes| Item::BatchEnd { number, bytes };
    let expected = [
        Item::Tick { ack: 0 },
        begin(0, 1, 0),
        Item::Announce { id: 0, name: "ok" },
        Item::Announce {
            id: 1,
            name: "logger",
        },
        message(pid(), false, &[104, 2, b'R', 0, 0, 97, 7]),
        message(name(1), false, &[b'R', 0, 0]),
        message(text, false, &[106]),
        message(Destination::Alias(&alias), false, b"k\0\x02hi"),
        message(pid(), true, &[131, 106]),
        end(1, 24 + 11 + 12 + 41 + 19),
        begin(0x0102030405060708, 2, 250),
        message(pid(), false, &[b'R', 0, 0]),
        end(2, 20),
        begin(5, 3, 1),
        Item::Announce {
            id: 300,
            name: &long,
        },
        message(name(300), false, &[106]),
        end(3, 9),
        begin(5, 4, 0),
        message(name(1), false, &[106]),
        end(4, 10 + 9),
        begin(5, 5, CLOCK_MS),
        message(Destination::Cast, false, &request),
        message(Destination::Cast, true, &plain),
        message(to_call(NUMBER, None), false, &request),
        message(to_call(0, Some(4)), false, &request),
        message(to_call(u64::MAX, Some(u32::MAX)), true, &plain),
        message(Destination::Caller(OWN_NUMBER), false, RETURN),
        message(Destination::Caller(1), true, PLAIN_SYSTEM),
        end(5, 23 + 44 + 36 + 36 + 57 + 26 + 38),
        Item::Tick { ack: 6 },
        Item::Tick { ack: 7 },
        Item::Close {
            ack: 7,
            reason: CloseReason::Finished,
            text: "",
        },
        Item::Close {
            ack: 8,
            reason: CloseReason::Other(2),
            text: "na gut: \u{263a}",
        },
    ];
    let (mut receiver, mut inbox) = (Receiver::new(10_000), Inbox::default());
    let mut rest = stream.as_slice();
    let mut next = || -> Result<Item<'_>, Failure> {
        loop {
            match receiver
                .next(rest, &mut inbox)
                .map_err(|bad| bad.to_string())?
            {
                // What is skipped may be given out in parts.
                Step::Item(Item::Skipped, taken) => rest = &rest[taken..],
                Step::Item(item, taken) => {
                    rest = &rest[taken..];
                    return Ok(item);
                }
                Step::Need(bytes) => panic!("needs {bytes} bytes"),
            }
        }
    };
    for item in expected {
        assert_eq!(next()?, item);
    }
    assert!(rest.is_empty());
    Ok(())
}

/// What the golden deadlines leave of the time of the call, by the clock that came with them.
#[test]
fn a_golden_deadline_is_read_across_the_wrap() {
    assert_eq!(wire::left_ms(4, CLOCK_MS), 20);
    assert_eq!(wire::left_ms(u32::MAX, CLOCK_MS), 15);
}
