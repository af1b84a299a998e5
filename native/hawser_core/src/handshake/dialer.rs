//! The end that dials: says Hello, checks the acceptor's proof, gives its own, and waits to be accepted.

use super::frame::{self, Challenge, FromAcceptor, Inbox};
use super::transcript::{Proof, Role};
use super::{
    Agreed, Capabilities, End, Invitation, Nonce, OLDEST_VERSION, Place, Refusal, Step, VERSION,
};
use std::sync::Arc;

pub struct Dialer {
    invitation: Arc<Invitation>,
    place: Place,
    capabilities: Capabilities,
    binding: Vec<u8>,
    hello: Vec<u8>,
    inbox: Inbox,
    state: State,
}

enum State {
    AwaitChallenge,
    AwaitAccept(Agreed),
    Over,
}

impl Dialer {
    /// Answers the machine and the Hello, which goes out at once. `binding` ties the proof to the channel under it;
    /// empty without TLS.
    pub fn new(
        invitation: Arc<Invitation>,
        place: Place,
        capabilities: Capabilities,
        nonce: Nonce,
        binding: Vec<u8>,
    ) -> (Dialer, Vec<u8>) {
        let hello = frame::hello(capabilities, invitation.id, place, &nonce);
        let dialer = Dialer {
            invitation,
            place,
            capabilities,
            binding,
            hello: hello.clone(),
            inbox: Inbox::default(),
            state: State::AwaitChallenge,
        };
        (dialer, hello)
    }

    fn on_challenge(&mut self, bytes: &[u8], challenge: &Challenge) -> Result<Step, Refusal> {
        if !(OLDEST_VERSION..=VERSION).contains(&challenge.version) {
            return Err(Refusal::Version(challenge.version));
        }
        let proof = |role| {
            Proof::new(
                role,
                &self.invitation,
                &self.hello,
                frame::head(bytes),
                &self.binding,
            )
        };
        if !proof(Role::Acceptor).is(&challenge.mac) {
            return Err(Refusal::Authentication);
        }
        // The acceptor answers what was agreed: nothing that we did not offer, all that we require.
        let agreed = self.capabilities.agree(challenge.capabilities);
        if agreed != Some(challenge.capabilities) {
            return Err(Refusal::Capability);
        }
        self.state = State::AwaitAccept(Agreed {
            invitation: self.invitation.id,
            place: self.place,
            version: challenge.version,
            capabilities: challenge.capabilities,
        });
        Ok(Step::Write(frame::proof(&proof(Role::Dialer).mac())))
    }
}

impl End for Dialer {
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

    fn on_frame(&mut self, bytes: &[u8]) -> Result<Step, Refusal> {
        let frame = frame::read_from_acceptor(bytes).ok_or(Refusal::Malformed)?;
        match (core::mem::replace(&mut self.state, State::Over), frame) {
            (State::AwaitChallenge, FromAcceptor::Challenge(challenge)) => {
                self.on_challenge(bytes, &challenge)
            }
            (State::AwaitAccept(agreed), FromAcceptor::Accept) => Ok(Step::Established {
                reply: Vec::new(),
                agreed,
            }),
            (_, FromAcceptor::Refuse { code, text }) => Err(Refusal::ByPeer { code, text }),
            (_, FromAcceptor::Challenge(_) | FromAcceptor::Accept) => Err(Refusal::Malformed),
        }
    }
}
