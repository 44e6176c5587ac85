//! One thread looks up the servers, and the others wait for its result.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use redis::RedisResult;

use super::route_error::{LookUpFailed, RouteError};
use crate::base::clock::Moment;
use crate::base::wait::wait_until;
use crate::transport::hint::Role;
use crate::transport::node::Node;
use crate::transport::retry_action::RetryAction;
use crate::transport::server_error::ServerError;

#[derive(Debug, Default)]
pub(super) struct SingleFlight {
    /// Its mutex protects this invariant: at most one thread looks up the servers at a time.
    looking: Mutex<bool>,
    done: Condvar,
}

/// The result of asking several servers.
pub(super) enum Found<T> {
    Reply(T),
    /// All servers replied, and none knows what was asked.
    Unknown,
}

/// Asks the servers of this role one after the other until one of them knows what is asked. Each
/// has an equal share of the time, and at most `timeout`, so that a server that does not reply
/// leaves time for the next.
pub(super) fn ask_one_after_another<T>(
    candidates: &[&Node],
    role: Role,
    timeout: Duration,
    deadline: Moment,
    mut ask: impl FnMut(&Node, Duration) -> RedisResult<Option<T>>,
) -> Result<Found<T>, RouteError> {
    let mut failures = Vec::new();
    let mut unknown = 0;
    for (index, &node) in candidates.iter().enumerate() {
        let left = deadline.left();
        if left.is_zero() {
            break;
        }
        let untried = u32::try_from(candidates.len() - index).unwrap_or(u32::MAX);
        match ask(node, (left / untried).min(timeout)) {
            Ok(Some(reply)) => return Ok(Found::Reply(reply)),
            Ok(None) => unknown += 1,
            Err(error) => {
                failures.push(ServerError::new(node.name(), error, role));
            }
        }
    }
    if unknown == candidates.len() {
        return Ok(Found::Unknown);
    }
    let refusals = failures
        .iter()
        .filter(|failure| !RetryAction::on(&failure.cause).is_retryable());
    if refusals.count() == candidates.len() {
        return Err(RouteError::Refused(failures.swap_remove(0)));
    }
    Err(RouteError::Unavailable(LookUpFailed {
        reason: "no server reported where the locks are",
        errors: failures,
    }))
}

/// The right of one thread to look up the servers.
pub(super) struct Permit<'a>(&'a SingleFlight);

impl SingleFlight {
    /// The permit to look up the servers. `None` if another thread did so meanwhile, or is not done
    /// by `deadline`.
    pub(super) fn acquire(&self, deadline: Moment) -> Option<Permit<'_>> {
        let mut looking = self.looking.lock();
        if *looking {
            wait_until(&self.done, &mut looking, deadline, |looking| !looking);
            return None;
        }
        *looking = true;
        Some(Permit(self))
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self.0.looking.lock() = false;
        self.0.done.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    #[test]
    fn threads_that_come_during_a_look_up_use_its_result() {
        let (single_flight, look_ups) = (SingleFlight::default(), AtomicU32::new(0));
        let start = std::sync::Barrier::new(8);
        let deadline = Moment::now().after(Duration::from_secs(10));
        std::thread::scope(|scope| {
            let first = single_flight.acquire(deadline).expect("no other look-up");
            for _ in 0..7 {
                scope.spawn(|| {
                    start.wait();
                    if single_flight.acquire(deadline).is_some() {
                        look_ups.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            start.wait();
            drop(first);
        });
        assert!(look_ups.load(Ordering::Relaxed) < 8);
        assert!(
            single_flight.acquire(deadline).is_some(),
            "the next look-up is possible"
        );
    }

    #[test]
    fn no_thread_waits_beyond_the_deadline() {
        let single_flight = SingleFlight::default();
        let _permit = single_flight
            .acquire(Moment::NEVER)
            .expect("no other look-up");
        let deadline = Moment::now().after(Duration::from_millis(20));
        assert!(single_flight.acquire(deadline).is_none());
        assert!(deadline.is_past());
    }
}
