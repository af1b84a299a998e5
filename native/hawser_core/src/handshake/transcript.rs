//! The macs: what each end proves that it knows. One running HMAC per role over the same transcript; used by both
//! machines, which differ in what they compute and what they verify.

use super::Invitation;
use super::frame::Mac as MacBytes;
use super::terms::Party;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Whose proof it is. Each role has a label of its own, so that a mac can never be sent back to its maker.
#[derive(Clone, Copy)]
pub(super) enum Role {
    Dialer,
    Acceptor,
}

impl Role {
    fn label(self) -> &'static [u8] {
        match self {
            Role::Dialer => b"hawser handshake: dialer\0",
            Role::Acceptor => b"hawser handshake: acceptor\0",
        }
    }
}

/// Everything that a proof is about, hashed under the invitation's secret.
pub(super) struct Proof(Hmac<Sha256>);

impl Proof {
    /// `hello` is the whole Hello, `challenge_head` the Challenge up to its mac.
    pub(super) fn new(
        role: Role,
        invitation: &Invitation,
        hello: &[u8],
        challenge_head: &[u8],
        binding: &[u8],
    ) -> Proof {
        // HMAC pads a short key with zeros up to the hash's block.
        let mut key = [0; 64];
        key.iter_mut()
            .zip(invitation.secret.0)
            .for_each(|(to, from)| *to = from);
        let mut hash = Hmac::<Sha256>::new(&key.into());
        hash.update(role.label());
        string(&mut hash, hello);
        string(&mut hash, challenge_head);
        party(&mut hash, &invitation.dialer);
        party(&mut hash, &invitation.acceptor);
        string(&mut hash, binding);
        Proof(hash)
    }

    pub(super) fn mac(self) -> MacBytes {
        self.0.finalize().into_bytes().into()
    }

    /// Compares in constant time.
    pub(super) fn is(self, mac: &MacBytes) -> bool {
        self.0.verify_slice(mac).is_ok()
    }
}

fn party(hash: &mut Hmac<Sha256>, party: &Party) {
    string(hash, party.name.as_bytes());
    hash.update(&party.creation.to_be_bytes());
    hash.update(&party.incarnation.0);
}

fn string(hash: &mut Hmac<Sha256>, bytes: &[u8]) {
    hash.update(&(bytes.len() as u64).to_be_bytes());
    hash.update(bytes);
}
