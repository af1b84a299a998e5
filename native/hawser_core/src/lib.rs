//! hawser's protocol, and nothing but the protocol: bytes and the time go in, bytes and decisions come out.
//!
//! The crate owns the wire ([`wire`]), what callers have queued ([`queue`]), the numbers of a shard's batches ([`batch`]), the atoms that a connection
//! has announced ([`dictionary`]), the parsing of what arrives ([`receive`]), the verdict on a silent peer
//! ([`liveness`]), the handshake ([`handshake`]) and the pure part of the term format ([`etf`]). It opens no
//! socket, reads no clock, starts no thread and holds no unsafe code; the NIF and the control plane drive it.
#![forbid(unsafe_code)]

pub mod batch;
pub mod calls;
pub mod dictionary;
pub mod etf;
pub mod handshake;
pub mod liveness;
pub mod queue;
pub mod receive;
pub mod wire;
