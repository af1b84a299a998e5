//! hawser's form of terms against external term format, with the crate erlang-term as the judge.

use erlang_term::RawTerm;
use hawser_core::etf::{self, BadTerm, Ends};
use hawser_core::wire;
use proptest::prelude::*;

const ATOMS: [&str; 4] = ["ok", "error", "temperature", "\u{4e16}\u{754c}"];
const ENDS: Ends<'static> = Ends {
    sender: ("a@host", 7),
    receiver: ("b@host", 9),
};

fn expand(bytes: &[u8]) -> Result<Vec<u8>, BadTerm> {
    etf::expand(bytes, &ENDS, |id| ATOMS.get(usize::from(id)).copied())
}

/// A term twice: in hawser's form, and as erlang-term's value.
#[derive(Clone, Debug)]
struct Both(Vec<u8>, RawTerm);

fn leaf() -> impl Strategy<Value = Both> {
    prop_oneof![
        (0..ATOMS.len()).prop_map(|i| {
            let id = (i as u16).to_be_bytes();
            Both(
                vec![wire::TERM_ATOM, id[0], id[1]],
                RawTerm::SmallAtom(ATOMS[i].to_owned()),
            )
        }),
        any::<u8>().prop_map(|n| Both(vec![etf::SMALL_INTEGER, n], RawTerm::SmallInt(n))),
        any::<i32>().prop_map(|n| {
            let mut bytes = vec![etf::INTEGER];
            bytes.extend_from_slice(&n.to_be_bytes());
            Both(bytes, RawTerm::Int(n))
        }),
        prop::collection::vec(any::<u8>(), 0..30).prop_map(|data| {
            let mut bytes = vec![etf::BINARY];
            bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
            bytes.extend_from_slice(&data);
            Both(bytes, RawTerm::Binary(data))
        }),
        // Something that the VM's encoder wrote, embedded.
        any::<u8>().prop_map(|n| {
            Both(
                vec![wire::TERM_EMBEDDED, 0, 0, 0, 3, 131, 97, n],
                RawTerm::SmallInt(n),
            )
        }),
        Just(Both(vec![etf::NIL], RawTerm::Nil)),
    ]
}

fn term() -> impl Strategy<Value = Both> {
    leaf().prop_recursive(6, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(|elements| {
                let mut bytes = vec![etf::SMALL_TUPLE, elements.len() as u8];
                elements.iter().for_each(|e| bytes.extend_from_slice(&e.0));
                Both(
                    bytes,
                    RawTerm::SmallTuple(elements.into_iter().map(|e| e.1).collect()),
                )
            }),
            prop::collection::vec(inner.clone(), 1..6).prop_map(|elements| {
                let mut bytes = vec![etf::LIST];
                bytes.extend_from_slice(&(elements.len() as u32).to_be_bytes());
                elements.iter().for_each(|e| bytes.extend_from_slice(&e.0));
                bytes.push(etf::NIL);
                Both(
                    bytes,
                    RawTerm::List(elements.into_iter().map(|e| e.1).collect()),
                )
            }),
            prop::collection::vec((inner.clone(), inner), 0..4).prop_map(|pairs| {
                let mut bytes = vec![etf::MAP];
                bytes.extend_from_slice(&(pairs.len() as u32).to_be_bytes());
                pairs.iter().for_each(|(k, v)| {
                    bytes.extend_from_slice(&k.0);
                    bytes.extend_from_slice(&v.0);
                });
                let pairs = pairs.into_iter().map(|(k, v)| (k.1, v.1)).collect();
                Both(bytes, RawTerm::Map(pairs))
            }),
        ]
    })
}

proptest! {
    #[test]
    fn an_independent_decoder_reads_what_we_mean(both in term()) {
        let plain = expand(&both.0).map_err(|e| TestCaseError::fail(format!("{e:?}")))?;
        prop_assert_eq!(RawTerm::from_bytes(&plain).ok(), Some(both.1));
    }

    #[test]
    fn hostile_bytes_are_an_error(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        if let Ok(plain) = expand(&bytes) {
            prop_assert!(plain.len() > 1);
        }
    }

    #[test]
    fn a_cut_term_is_an_error(both in term(), at in any::<prop::sample::Index>()) {
        let cut = at.index(both.0.len());
        prop_assert!(expand(&both.0[..cut]).is_err());
    }
}

#[test]
fn a_pid_gets_the_name_of_its_end() {
    let sender = expand(&[wire::TERM_SENDER_PID, 0, 0, 0, 5, 0, 0, 0, 2]);
    let receiver = expand(&[wire::TERM_RECEIVER_PID, 0, 0, 0, 5, 0, 0, 0, 2]);
    for (plain, (node, creation)) in [(sender, ENDS.sender), (receiver, ENDS.receiver)] {
        let pid = plain
            .ok()
            .and_then(|plain| etf::parse_pid(&plain[1..]).ok());
        let expected = etf::Pid {
            node: node.to_owned(),
            id: 5,
            serial: 2,
            creation,
        };
        assert_eq!(pid, Some(expected));
    }
}

#[test]
fn nesting_costs_memory_and_no_stack() {
    let mut bytes = [etf::SMALL_TUPLE, 1].repeat(1_000_000);
    bytes.push(etf::NIL);
    assert_eq!(expand(&bytes).map(|plain| plain.len()), Ok(2_000_002));
}

#[test]
fn a_count_that_lies_costs_nothing() {
    for tag in [etf::LIST, etf::MAP, etf::LARGE_TUPLE, etf::BINARY] {
        assert_eq!(expand(&[tag, 255, 255, 255, 255]), Err(BadTerm::Truncated));
    }
}

#[test]
fn a_reference_shows_its_node_and_creation() {
    let mut bytes = vec![etf::NEWER_REFERENCE, 0, 3];
    etf::write_atom(b"a@host", &mut bytes);
    bytes.extend_from_slice(&[0, 0, 0, 7]);
    bytes.extend_from_slice(&[1; 12]);
    assert_eq!(etf::parse_reference(&bytes), Ok(("a@host".to_owned(), 7)));
    bytes.push(0);
    assert_eq!(etf::parse_reference(&bytes), Err(BadTerm::TrailingBytes(1)));
    bytes.truncate(bytes.len() - 2);
    assert_eq!(etf::parse_reference(&bytes), Err(BadTerm::Truncated));
}

#[test]
fn atoms_in_latin1_become_utf8() {
    assert_eq!(etf::parse_atom(&[100, 0, 1, 0xe9]), Ok("é".to_owned()));
    assert_eq!(etf::parse_atom(&[115, 1, 0xe9]), Ok("é".to_owned()));
    assert_eq!(etf::parse_atom(&[119, 1, 0xe9]), Err(BadTerm::BadAtomName));
}
