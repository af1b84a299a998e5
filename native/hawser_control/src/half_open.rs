//! The connections that have not authenticated yet: a bounded set of tasks. When it is full the oldest goes, never the
//! newest, so that silent clients cannot keep a real peer out. Owned by the listener; dropping it closes them all.

use crate::exchange::Failure;
use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use tokio::task::{AbortHandle, JoinSet};

/// How one connection ended: with its socket handed over, or not.
pub(crate) type Outcome = Result<(), Failure>;

pub(crate) struct HalfOpen {
    max: usize,
    tasks: JoinSet<(u64, SocketAddr, Outcome)>,
    by_age: BTreeMap<u64, (SocketAddr, AbortHandle)>,
    admitted: u64,
}

impl HalfOpen {
    pub(crate) fn new(max: usize) -> HalfOpen {
        HalfOpen {
            max: max.max(1),
            tasks: JoinSet::new(),
            by_age: BTreeMap::new(),
            admitted: 0,
        }
    }

    /// Starts a connection's handshake. Answers who had to go for it.
    pub(crate) fn admit(
        &mut self,
        from: SocketAddr,
        handshake: impl Future<Output = Outcome> + Send + 'static,
    ) -> Option<SocketAddr> {
        let evicted = if self.by_age.len() >= self.max {
            self.evict()
        } else {
            None
        };
        let age = self.admitted;
        self.admitted += 1;
        let task = self
            .tasks
            .spawn(async move { (age, from, handshake.await) });
        self.by_age.insert(age, (from, task));
        evicted
    }

    /// Closes the oldest.
    pub(crate) fn evict(&mut self) -> Option<SocketAddr> {
        let (_, (from, task)) = self.by_age.pop_first()?;
        task.abort();
        Some(from)
    }

    /// The next one that ended by itself. Waits for ever while there is none. Cancel-safe.
    pub(crate) async fn ended(&mut self) -> (SocketAddr, Outcome) {
        loop {
            match self.tasks.join_next().await {
                Some(Ok((age, from, outcome))) => {
                    self.by_age.remove(&age);
                    return (from, outcome);
                }
                // Evicted, or panicked: a panic must not leave its place taken.
                Some(Err(_)) => self.by_age.retain(|_, (_, task)| !task.is_finished()),
                None => std::future::pending().await,
            }
        }
    }
}
