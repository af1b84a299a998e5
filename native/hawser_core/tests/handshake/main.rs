//! Two ends of a handshake against each other, against golden bytes, and against everything that is not a peer.

mod agreement;
mod ends;
mod frames;
mod proof;
