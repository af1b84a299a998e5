//! The runtime's one standing task: carries out commands, lets invitations run out, and wakes the owner. It owns every
//! other task and never waits for any of them; when the runtime stops, all end with it.

use crate::command::Command;
use crate::control::Shared;
use crate::dialer::{DialRequest, dial};
use crate::events::{Event, Owner, Side};
use crate::listener::{self, due};
use std::sync::Arc;
use tokio::sync::Notify;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tracing::error;

pub(crate) async fn run(shared: Arc<Shared>, owner: Arc<dyn Owner>) {
    let mut tasks = JoinSet::new();
    loop {
        while let Some(command) = shared.commands.next() {
            match command {
                Command::Listen(listener) => tasks.spawn(listener::run(shared.clone(), listener)),
                Command::Dial(request, unwanted) => {
                    tasks.spawn(conduct(shared.clone(), *request, unwanted))
                }
            };
        }
        expire(&shared);
        if shared.events.take_owed() {
            owner.wake();
        }
        tokio::select! {
            () = shared.bell.notified() => {}
            () = due(shared.invitations.next_expiry()) => {}
            Some(ended) = tasks.join_next() => report(ended),
        }
    }
}

/// A dial from start to outcome. One that is not wanted any more ends without a word.
async fn conduct(shared: Arc<Shared>, request: DialRequest, unwanted: Arc<Notify>) {
    let id = request.id;
    let outcome = tokio::select! {
        outcome = dial(request) => outcome,
        () = unwanted.notified() => return,
    };
    if shared.dials.lock().remove(&id).is_none() {
        return;
    }
    shared.events.push(match outcome {
        Ok(sockets) => Event::Established {
            id,
            side: Side::Dialer,
            sockets,
        },
        Err(error) => Event::Failed {
            id,
            reason: error.to_string(),
        },
    });
}

fn expire(shared: &Shared) {
    for expired in shared.invitations.expire(Instant::now()) {
        shared.events.push(Event::Failed {
            id: expired.id,
            reason: format!(
                "the invitation ran out with {} of {} sockets connected",
                expired.connected, expired.shards
            ),
        });
    }
}

fn report(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        error!("a task of the control plane failed: {error}");
    }
}
