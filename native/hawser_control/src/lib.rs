//! hawser's control plane: everything on a socket's way that is not the hot path. Listening, dialling and the
//! authentication handshake run here, on a small tokio runtime; a finished socket leaves it and is never seen again.
//!
//! The NIF crate is the caller: it turns BEAM terms into the calls of [`Control`], and [`Event`]s into terms. This
//! crate knows no VM, so that all of it runs under plain cargo, and holds no unsafe code.
#![forbid(unsafe_code)]

mod affinity;
mod command;
mod control;
mod desk;
mod dialer;
mod events;
mod exchange;
mod half_open;
mod invitations;
mod journal;
mod listener;
mod random;
mod refusals;
mod socket;

pub use control::{Config, Control, DialRefused, InviteError, ListenError};
pub use dialer::{DialRequest, Family};
pub use events::{Event, Level, Owner, Side};
pub use hawser_core::handshake::{Incarnation, InvitationId, MAX_SHARDS, Party, Secret};
