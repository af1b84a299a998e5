//! The two ends of one handshake, an invitation between them, and what they say to each other when all is well.

use hawser_core::handshake::{
    Acceptor, Agreed, Capabilities, Dialer, Incarnation, Invitation, InvitationId, Invitations,
    MAX_FRAME_BYTES, Machine, Nonce, Party, Place, Refusal, Secret, Step,
};
use std::cell::RefCell;
use std::sync::Arc;

const SHARDS: u16 = 4;

pub fn party(name: &str, creation: u32, incarnation: u8) -> Party {
    Party {
        name: name.into(),
        creation,
        incarnation: Incarnation([incarnation; 16]),
    }
}

pub fn invitation() -> Invitation {
    Invitation {
        id: InvitationId(*b"invitation id 16"),
        secret: Secret(*b"a secret of thirty-two bytes. ok"),
        dialer: party("ann@host.example", 3, 0xa1),
        acceptor: party("bob@host.example", 7, 0xb0),
        shards: SHARDS,
    }
}

/// The acceptor's table: one invitation, and the shards that were claimed.
pub struct Table {
    pub invitation: Arc<Invitation>,
    pub claimed: RefCell<Vec<u16>>,
}

impl Table {
    pub fn new(invitation: Invitation) -> Table {
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

pub fn place(index: u16) -> Place {
    Place::new(index, SHARDS).expect("a shard of this session")
}

pub fn dialer(invitation: Invitation, index: u16) -> (Dialer, Vec<u8>) {
    Dialer::new(
        Arc::new(invitation),
        place(index),
        Capabilities::NONE,
        Nonce([0x11; 32]),
        Vec::new(),
    )
}

pub fn acceptor(table: &Table) -> Acceptor<&Table> {
    Acceptor::new(table, Capabilities::NONE, Nonce([0x22; 32]), Vec::new())
}

/// Feeds all of `bytes`, at most `at_a_time`, and answers the last step.
pub fn feed(machine: &mut impl Machine, bytes: &[u8], at_a_time: usize) -> Step {
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

pub fn written(step: Step) -> Vec<u8> {
    match step {
        Step::Write(bytes) => bytes,
        other => panic!("not Write: {other:?}"),
    }
}

pub fn established(step: Step) -> (Vec<u8>, Agreed) {
    match step {
        Step::Established { reply, agreed } => (reply, agreed),
        other => panic!("not Established: {other:?}"),
    }
}

pub fn refused(step: Step) -> (Vec<u8>, Refusal) {
    match step {
        Step::Refused { reply, refusal } => (reply, refusal),
        other => panic!("not Refused: {other:?}"),
    }
}

/// All frames of a good handshake: Hello, Challenge, Proof, Accept.
pub fn transcript(index: u16, at_a_time: usize) -> [Vec<u8>; 4] {
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

/// A good handshake with the owner of `table`.
pub fn against(table: &Table, index: u16) -> [Vec<u8>; 4] {
    let (mut dialer, hello) = dialer((*table.invitation).clone(), index);
    let mut acceptor = acceptor(table);
    let challenge = written(feed(&mut acceptor, &hello, MAX_FRAME_BYTES));
    let proof = written(feed(&mut dialer, &challenge, MAX_FRAME_BYTES));
    let (accept, _) = established(feed(&mut acceptor, &proof, MAX_FRAME_BYTES));
    [hello, challenge, proof, accept]
}
