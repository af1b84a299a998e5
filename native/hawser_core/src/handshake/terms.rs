//! The nouns of the handshake: who meets whom, by which invitation, for which shard. Made by the control plane from
//! what came over distribution; never from bytes of the socket, except [`Place`], which checks itself.

use super::MAX_SHARDS;
use core::fmt;
use std::sync::Arc;

/// The random id that a node draws each time the application starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Incarnation(pub [u8; 16]);

/// The public name of an invitation. Travels in the clear; knowing it proves nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InvitationId(pub [u8; 16]);

impl fmt::Debug for InvitationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// An end's contribution of fresh randomness to one handshake. Never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nonce(pub [u8; 32]);

/// What both ends of an invitation know and nobody else. Not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub [u8; 32]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// One end of a session: a node, in one of its lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Party {
    /// The node's name, UTF-8.
    pub name: Arc<str>,
    pub creation: u32,
    pub incarnation: Incarnation,
}

/// What one node offered another over distribution: `shards` sockets between these two parties.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invitation {
    pub id: InvitationId,
    pub secret: Secret,
    pub dialer: Party,
    pub acceptor: Party,
    /// 1..=[`MAX_SHARDS`].
    pub shards: u16,
}

/// A shard's place among its session's shards. Always `index < of`, and `of` in 1..=[`MAX_SHARDS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    index: u16,
    of: u16,
}

impl Place {
    pub fn new(index: u16, of: u16) -> Option<Place> {
        (index < of && of <= MAX_SHARDS).then_some(Place { index, of })
    }

    /// Which shard, from 0.
    pub fn index(self) -> u16 {
        self.index
    }

    /// How many shards the session has.
    pub fn of(self) -> u16 {
        self.of
    }
}

/// What an end can do beyond the version's plain protocol. Bits 16..32 name things that both ends must know; a bit of
/// 0..16 that one end does not know is simply not agreed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities(pub u32);

impl Capabilities {
    /// Version 1 defines no capability.
    pub const NONE: Capabilities = Capabilities(0);
    const REQUIRED: u32 = 0xffff_0000;

    /// What both know; `None` when one end requires what the other does not know.
    pub fn agree(self, peer: Capabilities) -> Option<Capabilities> {
        ((self.0 ^ peer.0) & Self::REQUIRED == 0).then_some(Capabilities(self.0 & peer.0))
    }
}

/// What a finished handshake has established.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agreed {
    pub invitation: InvitationId,
    pub place: Place,
    pub version: u16,
    pub capabilities: Capabilities,
}
