//! The outstanding invitations and the sockets that have come for them. Shared by the callers (make, forget), the
//! handshakes (find, claim) and the desk (expiry). An invitation leaves the table once, by exactly one way:
//! completed, expired or forgotten; who takes it out reports it.

use hawser_core::handshake::{Invitation, InvitationId, Invitations, Place, Refusal};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::TcpStream;
use std::sync::Arc;
use tokio::time::Instant;

/// Outstanding invitations at once. Far above the number of nodes that one node can meet.
const MAX_OUTSTANDING: usize = 4096;

#[derive(Default)]
pub(crate) struct Table {
    entries: Mutex<HashMap<InvitationId, Entry>>,
}

struct Entry {
    invitation: Arc<Invitation>,
    expires: Instant,
    /// One per shard.
    slots: Vec<Slot>,
}

enum Slot {
    Open,
    /// A peer has proven itself; its socket is on its way.
    Claimed,
    Connected(TcpStream),
}

/// An invitation that ran out.
pub(crate) struct Expired {
    pub id: InvitationId,
    pub connected: usize,
    pub shards: usize,
}

impl Table {
    /// False when too many are outstanding.
    pub(crate) fn add(&self, invitation: Invitation, expires: Instant) -> bool {
        let mut entries = self.entries.lock();
        if entries.len() >= MAX_OUTSTANDING {
            return false;
        }
        let slots = (0..invitation.shards).map(|_| Slot::Open).collect();
        let entry = Entry {
            invitation: Arc::new(invitation),
            expires,
            slots,
        };
        entries.insert(entry.invitation.id, entry);
        true
    }

    /// Puts a claimed shard's socket in its place. The last one takes the invitation out of the table and answers
    /// all its sockets in shard order. The socket of an invitation that is gone is closed.
    pub(crate) fn deliver(
        &self,
        id: &InvitationId,
        place: Place,
        socket: TcpStream,
    ) -> Option<Vec<TcpStream>> {
        let mut entries = self.entries.lock();
        let entry = entries.get_mut(id)?;
        *entry.slots.get_mut(place.index() as usize)? = Slot::Connected(socket);
        if !entry
            .slots
            .iter()
            .all(|slot| matches!(slot, Slot::Connected(_)))
        {
            return None;
        }
        let entry = entries.remove(id)?;
        let sockets = entry.slots.into_iter().filter_map(|slot| match slot {
            Slot::Connected(socket) => Some(socket),
            Slot::Open | Slot::Claimed => None,
        });
        Some(sockets.collect())
    }

    /// Takes an invitation out and closes its sockets.
    pub(crate) fn forget(&self, id: &InvitationId) {
        let entry = self.entries.lock().remove(id);
        // Sockets are closed here, not under the lock.
        drop(entry);
    }

    /// Takes all out and closes their sockets.
    pub(crate) fn clear(&self) {
        let entries = std::mem::take(&mut *self.entries.lock());
        drop(entries);
    }

    /// Takes out what has run out by `now`.
    pub(crate) fn expire(&self, now: Instant) -> Vec<Expired> {
        let gone: Vec<Entry> = {
            let mut entries = self.entries.lock();
            entries
                .extract_if(|_, entry| entry.expires <= now)
                .map(|(_, entry)| entry)
                .collect()
        };
        gone.iter()
            .map(|entry| Expired {
                id: entry.invitation.id,
                connected: entry
                    .slots
                    .iter()
                    .filter(|slot| matches!(slot, Slot::Connected(_)))
                    .count(),
                shards: entry.slots.len(),
            })
            .collect()
    }

    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        self.entries
            .lock()
            .values()
            .map(|entry| entry.expires)
            .min()
    }
}

impl Invitations for &Table {
    fn find(&self, id: &InvitationId) -> Option<Arc<Invitation>> {
        let entries = self.entries.lock();
        let entry = entries.get(id)?;
        (entry.expires > Instant::now()).then(|| entry.invitation.clone())
    }

    fn claim(&self, id: &InvitationId, place: Place) -> Result<(), Refusal> {
        let mut entries = self.entries.lock();
        let entry = entries.get_mut(id).ok_or(Refusal::UnknownInvitation)?;
        match entry.slots.get_mut(place.index() as usize) {
            Some(slot @ Slot::Open) => {
                *slot = Slot::Claimed;
                Ok(())
            }
            Some(Slot::Claimed | Slot::Connected(_)) => Err(Refusal::Taken),
            None => Err(Refusal::Place),
        }
    }
}
