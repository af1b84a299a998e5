//! The handshake's frames as bytes, and the buffer that collects exactly one frame at a time. Writes and reads the
//! wire drawn in the parent module; knows nothing of secrets or of whose turn it is.

use super::refusal::{bounded, printable};
use super::{Capabilities, InvitationId, MAX_FRAME_BYTES, Nonce, Place, Refusal, VERSION};

const MAGIC: &[u8; 4] = b"HWSR";
const HELLO: u8 = 1;
const CHALLENGE: u8 = 2;
const PROOF: u8 = 3;
const ACCEPT: u8 = 4;
const REFUSE: u8 = 5;

/// Bytes of the length field.
const LENGTH_BYTES: usize = 2;
/// A Hello up to and with its invitation id: the part that is the same in every version.
const HELLO_PREFIX_BYTES: usize = 29;
/// A Hello of version 1 behind its length field.
const HELLO_BODY_BYTES: usize = 63;
/// The mac at the end of Challenge and Proof.
pub(super) const MAC_BYTES: usize = 32;

pub(super) type Mac = [u8; MAC_BYTES];

pub(super) struct Hello {
    pub version: u16,
    pub capabilities: Capabilities,
    pub invitation: InvitationId,
    pub place: Option<Place>,
}

pub(super) struct Challenge {
    pub version: u16,
    pub capabilities: Capabilities,
    pub mac: Mac,
}

/// What a dialer can be sent.
pub(super) enum FromAcceptor {
    Challenge(Challenge),
    Accept,
    Refuse { code: u8, text: String },
}

/// What an acceptor can be sent after Hello.
pub(super) enum FromDialer {
    Proof(Mac),
    Refuse { code: u8, text: String },
}

pub(super) fn hello(
    capabilities: Capabilities,
    invitation: InvitationId,
    place: Place,
    nonce: &Nonce,
) -> Vec<u8> {
    frame(
        HELLO,
        &[
            MAGIC,
            &VERSION.to_be_bytes(),
            &capabilities.0.to_be_bytes(),
            &invitation.0,
            &place.index().to_be_bytes(),
            &place.of().to_be_bytes(),
            &nonce.0,
        ],
    )
}

/// A Challenge without its mac, under the length of the whole: what the macs are computed over.
pub(super) fn challenge_head(version: u16, capabilities: Capabilities, nonce: &Nonce) -> Vec<u8> {
    let whole = frame(
        CHALLENGE,
        &[
            &version.to_be_bytes(),
            &capabilities.0.to_be_bytes(),
            &nonce.0,
            &[0; MAC_BYTES],
        ],
    );
    head(&whole).to_vec()
}

/// A received Challenge up to its mac.
pub(super) fn head(challenge: &[u8]) -> &[u8] {
    challenge
        .get(..challenge.len().saturating_sub(MAC_BYTES))
        .unwrap_or_default()
}

pub(super) fn proof(mac: &Mac) -> Vec<u8> {
    frame(PROOF, &[mac])
}

pub(super) fn accept() -> Vec<u8> {
    frame(ACCEPT, &[])
}

/// The Refuse frame for this refusal; empty where the peer is not answered.
pub(super) fn refuse(refusal: &Refusal) -> Vec<u8> {
    match refusal.code() {
        Some(code) => frame(REFUSE, &[&[code], bounded(&refusal.to_string()).as_bytes()]),
        None => Vec::new(),
    }
}

fn frame(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let body: usize = parts.iter().map(|part| part.len()).sum();
    let mut bytes = Vec::with_capacity(LENGTH_BYTES + 1 + body);
    bytes.extend_from_slice(&(1 + body as u16).to_be_bytes());
    bytes.push(kind);
    for part in parts {
        bytes.extend_from_slice(part);
    }
    bytes
}

/// Judges as much of a Hello as there is. `Ok(Some(id))` as soon as the invitation's id has come.
pub(super) fn hello_prefix(bytes: &[u8]) -> Result<Option<(u16, InvitationId)>, Refusal> {
    let mut rest = bytes;
    if let Some(length) = number(&mut rest)
        && ((length as usize) < HELLO_BODY_BYTES
            || length as usize > MAX_FRAME_BYTES - LENGTH_BYTES)
    {
        return Err(Refusal::NotHawser);
    }
    let expected = [HELLO].iter().chain(MAGIC);
    if !bytes
        .iter()
        .skip(LENGTH_BYTES)
        .zip(expected)
        .all(|(is, should)| is == should)
    {
        return Err(Refusal::NotHawser);
    }
    Ok(bytes.get(..HELLO_PREFIX_BYTES).and_then(|prefix| {
        let mut rest = prefix.get(LENGTH_BYTES + 1 + MAGIC.len()..)?;
        let version = number(&mut rest)?;
        let _flags: [u8; 4] = take(&mut rest)?;
        Some((version, InvitationId(take(&mut rest)?)))
    }))
}

/// A whole Hello. Only a later version's may be longer than ours.
pub(super) fn read_hello(bytes: &[u8]) -> Option<Hello> {
    let mut rest = bytes.get(LENGTH_BYTES + 1 + MAGIC.len()..)?;
    let version = number(&mut rest)?;
    let capabilities = Capabilities(u32::from_be_bytes(take(&mut rest)?));
    let invitation = InvitationId(take(&mut rest)?);
    let place = Place::new(number(&mut rest)?, number(&mut rest)?);
    let _nonce: [u8; 32] = take(&mut rest)?;
    (rest.is_empty() || version > VERSION).then_some(Hello {
        version,
        capabilities,
        invitation,
        place,
    })
}

pub(super) fn read_from_acceptor(bytes: &[u8]) -> Option<FromAcceptor> {
    let (kind, mut rest) = kind(bytes)?;
    let frame = match kind {
        CHALLENGE => {
            let version = number(&mut rest)?;
            let capabilities = Capabilities(u32::from_be_bytes(take(&mut rest)?));
            let _nonce: [u8; 32] = take(&mut rest)?;
            FromAcceptor::Challenge(Challenge {
                version,
                capabilities,
                mac: take(&mut rest)?,
            })
        }
        ACCEPT => FromAcceptor::Accept,
        REFUSE => {
            let (code, text) = read_refuse(&mut rest)?;
            FromAcceptor::Refuse { code, text }
        }
        _ => return None,
    };
    rest.is_empty().then_some(frame)
}

pub(super) fn read_from_dialer(bytes: &[u8]) -> Option<FromDialer> {
    let (kind, mut rest) = kind(bytes)?;
    let frame = match kind {
        PROOF => FromDialer::Proof(take(&mut rest)?),
        REFUSE => {
            let (code, text) = read_refuse(&mut rest)?;
            FromDialer::Refuse { code, text }
        }
        _ => return None,
    };
    rest.is_empty().then_some(frame)
}

fn read_refuse(rest: &mut &[u8]) -> Option<(u8, String)> {
    let [code] = take(rest)?;
    Some((code, printable(core::mem::take(rest))))
}

fn kind(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let (kind, rest) = bytes.get(LENGTH_BYTES..)?.split_first()?;
    Some((*kind, rest))
}

fn number(rest: &mut &[u8]) -> Option<u16> {
    take(rest).map(u16::from_be_bytes)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, behind) = rest.split_first_chunk::<N>()?;
    *rest = behind;
    Some(*taken)
}

/// Collects one frame, and not one byte more.
#[derive(Default)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
}

impl Inbox {
    /// Bytes still missing: of the length field, then of the frame. 0 when a frame is complete.
    pub(super) fn wanted(&self) -> usize {
        match self.bytes.first_chunk() {
            None => LENGTH_BYTES - self.bytes.len(),
            Some(length) => (LENGTH_BYTES + u16::from_be_bytes(*length) as usize)
                .saturating_sub(self.bytes.len()),
        }
    }

    /// Takes what belongs to the current frame and answers how much that was. A length out of bounds is refused as
    /// soon as it is known, before anything of the frame is stored.
    pub(super) fn fill(&mut self, input: &[u8]) -> (usize, Result<(), Refusal>) {
        let mut consumed = 0;
        loop {
            let rest = input.get(consumed..).unwrap_or_default();
            let part = rest
                .get(..self.wanted().min(rest.len()))
                .unwrap_or_default();
            if part.is_empty() {
                return (consumed, Ok(()));
            }
            self.bytes.extend_from_slice(part);
            consumed += part.len();
            if let Some(length) = self.bytes.first_chunk() {
                let length = u16::from_be_bytes(*length) as usize;
                if length == 0 || length > MAX_FRAME_BYTES - LENGTH_BYTES {
                    return (consumed, Err(Refusal::Malformed));
                }
            }
        }
    }

    pub(super) fn seen(&self) -> &[u8] {
        &self.bytes
    }

    /// The frame, once complete; the buffer is then empty again.
    pub(super) fn take(&mut self) -> Option<Vec<u8>> {
        (self.wanted() == 0).then(|| core::mem::take(&mut self.bytes))
    }
}
