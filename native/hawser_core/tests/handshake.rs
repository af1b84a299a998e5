//! Two ends of a handshake against each other, against golden bytes, and against everything that is not a peer.

use hawser_core::handshake::{
    Acceptor, Agreed, Capabilities, Dialer, Incarnation, Invitation, InvitationId, Invitations,
    MAX_FRAME_BYTES, Machine, Nonce, Party, Place, Refusal, Secret, Step,
};
use proptest::prelude::*;
use std::cell::RefCell;
use std::sync::Arc;

const SHARDS: u16 = 4;

fn party(name: &str, creation: u32, incarnation: u8) -> Party {
    Party {
        name: name.into(),
        creation,
        incarnation: Incarnation([incarnation; 16]),
    }
}

fn invitation() -> Invitation {
    Invitation {
        id: InvitationId(*b"invitation id 16"),
        secret: Secret(*b"a secret of thirty-two bytes. ok"),
        dialer: party("ann@host.example", 3, 0xa1),
        acceptor: party("bob@host.example", 7, 0xb0),
        shards: SHARDS,
    }
}

/// The acceptor's table: one invitation, and the shards that were claimed.
struct Table {
    invitation: Arc<Invitation>,
    claimed: RefCell<Vec<u16>>,
}

impl Table {
    fn new(invitation: Invitation) -> Table {
        Table {
            invitation: Arc::new(invitation),
            claimed: RefCell::new(Vec::new()),
        }
    }
}

impl Invitations for &Table {
    fn find(&self, id: &InvitationId) -> Option<Arc<Invitation>> {
        (*id == self.invitation.id).then(|| self.invitation.clone())
    }

    fn claim(&self, _id: &InvitationId, place: Place) -> Result<(), Refusal> {
        let mut claimed = self.claimed.borrow_mut();
        if claimed.contains(&place.index()) {
            return Err(Refusal::Taken);
        }
        claimed.push(place.index());
        Ok(())
    }
}

fn place(index: u16) -> Place {
    Place::new(index, SHARDS).expect("a shard of this session")
}

fn dialer(invitation: Invitation, index: u16) -> (Dialer, Vec<u8>) {
    Dialer::new(
        Arc::new(invitation),
        place(index),
        Capabilities::NONE,
        Nonce([0x11; 32]),
        Vec::new(),
    )
}

fn acceptor(table: &Table) -> Acceptor<&Table> {
    Acceptor::new(table, Capabilities::NONE, Nonce([0x22; 32]), Vec::new())
}

/// Feeds all of `bytes`, at most `at_a_time`, and answers the last step.
fn feed(machine: &mut impl Machine, bytes: &[u8], at_a_time: usize) -> Step {
    let mut step = Step::Read;
    let mut rest = bytes;
    while !rest.is_empty() {
        assert!(
            step == Step::Read,
            "{step:?} with {} bytes left",
            rest.len()
        );
        let part = &rest[..at_a_time.min(rest.len())];
        let (consumed, next) = machine.feed(part);
        rest = &rest[consumed..];
        step = next;
    }
    step
}

fn written(step: Step) -> Vec<u8> {
    match step {
        Step::Write(bytes) => bytes,
        other => panic!("not Write: {other:?}"),
    }
}

fn established(step: Step) -> (Vec<u8>, Agreed) {
    match step {
        Step::Established { reply, agreed } => (reply, agreed),
        other => panic!("not Established: {other:?}"),
    }
}

fn refused(step: Step) -> (Vec<u8>, Refusal) {
    match step {
        Step::Refused { reply, refusal } => (reply, refusal),
        other => panic!("not Refused: {other:?}"),
    }
}

/// All frames of a good handshake: Hello, Challenge, Proof, Accept.
fn transcript(index: u16, at_a_time: usize) -> [Vec<u8>; 4] {
    let table = Table::new(invitation());
    let (mut dialer, hello) = dialer(invitation(), index);
    let mut acceptor = acceptor(&table);
    let challenge = written(feed(&mut acceptor, &hello, at_a_time));
    let proof = written(feed(&mut dialer, &challenge, at_a_time));
    let (accept, theirs) = established(feed(&mut acceptor, &proof, at_a_time));
    let (nothing, ours) = established(feed(&mut dialer, &accept, at_a_time));
    assert!(nothing.is_empty());
    assert_eq!(ours, theirs);
    assert_eq!(ours.place, place(index));
    assert_eq!((dialer.wanted(), acceptor.wanted()), (0, 0));
    [hello, challenge, proof, accept]
}

#[test]
fn both_ends_agree_whole_frames_or_byte_by_byte() {
    assert_eq!(transcript(2, MAX_FRAME_BYTES), transcript(2, 1));
}

#[test]
fn the_bytes_are_the_golden_ones() {
    let golden = include_str!("../../../test/golden/handshake.hex");
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
        let mut acceptor = self::acceptor(&table);
        feed(&mut acceptor, &hello, MAX_FRAME_BYTES);
        let (_, refusal) = refused(feed(&mut acceptor, &proof, MAX_FRAME_BYTES));
        assert_eq!(refusal, Refusal::Authentication);
        assert!(table.claimed.borrow().is_empty());
    }
}

/// A good handshake with the owner of `table`.
fn against(table: &Table, index: u16) -> [Vec<u8>; 4] {
    let (mut dialer, hello) = dialer((*table.invitation).clone(), index);
    let mut acceptor = acceptor(table);
    let challenge = written(feed(&mut acceptor, &hello, MAX_FRAME_BYTES));
    let proof = written(feed(&mut dialer, &challenge, MAX_FRAME_BYTES));
    let (accept, _) = established(feed(&mut acceptor, &proof, MAX_FRAME_BYTES));
    [hello, challenge, proof, accept]
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
    let mut acceptor = self::acceptor(&table);
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
