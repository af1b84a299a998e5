//! The end that was dialled: looks the invitation up by the first bytes, proves that it knows the secret, checks the
//! dialer's proof, and only then claims the shard. Before the proof it has stored one frame and nothing else.

use super::frame::{self, FromDialer, Inbox};
use super::transcript::{Proof, Role};
use super::{
    Agreed, Capabilities, End, Invitation, InvitationId, Nonce, OLDEST_VERSION, Place, Refusal,
    Step, VERSION,
};
use std::sync::Arc;

/// The outstanding invitations, as the acceptor sees them.
pub trait Invitations {
    /// The invitation of this id, while it is outstanding.
    fn find(&self, id: &InvitationId) -> Option<Arc<Invitation>>;

    /// Gives a proven peer its shard, once: `Err` with `Taken`, or with `UnknownInvitation` when it has gone meanwhile.
    fn claim(&self, id: &InvitationId, place: Place) -> Result<(), Refusal>;
}

pub struct Acceptor<I> {
    invitations: I,
    capabilities: Capabilities,
    nonce: Nonce,
    binding: Vec<u8>,
    inbox: Inbox,
    state: State,
}

enum State {
    /// The invitation, once its id has come.
    AwaitHello(Option<Arc<Invitation>>),
    AwaitProof {
        expected: Proof,
        agreed: Agreed,
    },
    Over,
}

impl<I: Invitations> Acceptor<I> {
    /// `binding` ties the proof to the channel under it; empty without TLS.
    pub fn new(
        invitations: I,
        capabilities: Capabilities,
        nonce: Nonce,
        binding: Vec<u8>,
    ) -> Acceptor<I> {
        Acceptor {
            invitations,
            capabilities,
            nonce,
            binding,
            inbox: Inbox::default(),
            state: State::AwaitHello(None),
        }
    }

    fn on_hello(&mut self, bytes: &[u8], invitation: &Invitation) -> Result<Step, Refusal> {
        let hello = frame::read_hello(bytes).ok_or(Refusal::Malformed)?;
        let capabilities = self
            .capabilities
            .agree(hello.capabilities)
            .ok_or(Refusal::Capability)?;
        let place = hello
            .place
            .filter(|place| place.of() == invitation.shards)
            .ok_or(Refusal::Place)?;
        let agreed = Agreed {
            invitation: hello.invitation,
            place,
            version: hello.version.min(VERSION),
            capabilities,
        };
        let mut challenge = frame::challenge_head(agreed.version, capabilities, &self.nonce);
        let proof = |role| Proof::new(role, invitation, bytes, &challenge, &self.binding);
        let mac = proof(Role::Acceptor).mac();
        self.state = State::AwaitProof {
            expected: proof(Role::Dialer),
            agreed,
        };
        challenge.extend_from_slice(&mac);
        Ok(Step::Write(challenge))
    }

    fn on_proof(&mut self, bytes: &[u8], expected: Proof, agreed: Agreed) -> Result<Step, Refusal> {
        match frame::read_from_dialer(bytes).ok_or(Refusal::Malformed)? {
            FromDialer::Refuse { code, text } => Err(Refusal::ByPeer { code, text }),
            FromDialer::Proof(mac) if !expected.is(&mac) => Err(Refusal::Authentication),
            FromDialer::Proof(_) => {
                self.invitations.claim(&agreed.invitation, agreed.place)?;
                Ok(Step::Established {
                    reply: frame::accept(),
                    agreed,
                })
            }
        }
    }
}

impl<I: Invitations> End for Acceptor<I> {
    fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    fn inbox_mut(&mut self) -> &mut Inbox {
        &mut self.inbox
    }

    fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    fn end(&mut self) {
        self.state = State::Over;
    }

    /// Judges what there is of a Hello, so that a stranger is refused by its first bytes.
    fn on_part(&mut self) -> Result<(), Refusal> {
        if let State::AwaitHello(invitation @ None) = &mut self.state
            && let Some((version, id)) = frame::hello_prefix(self.inbox.seen())?
        {
            if version < OLDEST_VERSION {
                return Err(Refusal::Version(version));
            }
            *invitation = Some(
                self.invitations
                    .find(&id)
                    .ok_or(Refusal::UnknownInvitation)?,
            );
        }
        Ok(())
    }

    fn on_frame(&mut self, bytes: &[u8]) -> Result<Step, Refusal> {
        match core::mem::replace(&mut self.state, State::Over) {
            State::AwaitHello(Some(invitation)) => self.on_hello(bytes, &invitation),
            State::AwaitProof { expected, agreed } => self.on_proof(bytes, expected, agreed),
            State::AwaitHello(None) | State::Over => Err(Refusal::Malformed),
        }
    }
}
