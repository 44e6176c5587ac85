//! One thread looks for the servers, and the others wait for what it finds.

use std::fmt;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use redis::RedisResult;

use super::RouteError;
use crate::base::clock::Moment;
use crate::transport::hint::Role;
use crate::transport::node::Node;
use crate::transport::retry_action::RetryAction;
use crate::transport::server_error::ServerError;

/// No server told where the locks are. A later look-up can succeed.
///
/// It is the cause of an [`Error::Unavailable`](crate::Error::Unavailable) if the call spent its time
/// on such look-ups.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LookUpFailed {
    /// What is missing.
    pub reason: &'static str,
    /// Why the servers that were asked did not tell.
    pub errors: Vec<ServerError>,
}

impl LookUpFailed {
    pub(super) fn new(reason: &'static str) -> Self {
        let errors = Vec::new();
        Self { reason, errors }
    }
}

impl fmt::Display for LookUpFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason)?;
        for ServerError { node, cause, hint } in &self.errors {
            write!(f, "; {node}: {cause}")?;
            hint.iter().try_for_each(|hint| write!(f, "; {hint}"))?;
        }
        Ok(())
    }
}

/// Without a source: the text contains those of all failures.
impl std::error::Error for LookUpFailed {}

#[derive(Debug, Default)]
pub(super) struct SingleFlight {
    /// Protects: at most one thread looks at a time.
    looking: Mutex<bool>,
    done: Condvar,
}

/// What was found by asking several.
pub(super) enum Found<T> {
    Reply(T),
    /// Everybody was asked and answered, and knows of nothing.
    Unknown,
}

/// Asks one after the other, taken for `role`, until somebody answers what is asked. Each has an equal
/// share of the time, and no more than `budget`, so that one that is silent leaves time for the next. What
/// some of them do not know, or refuse to tell, another may tell the next time.
pub(super) fn ask_in_turn<T>(
    candidates: &[&Node],
    role: Role,
    budget: Duration,
    deadline: Moment,
    mut ask: impl FnMut(&Node, Duration) -> RedisResult<Option<T>>,
) -> Result<Found<T>, RouteError> {
    let mut failures = Vec::new();
    let mut unknown = 0;
    for (place, &node) in candidates.iter().enumerate() {
        let left = deadline.left();
        if left.is_zero() {
            break;
        }
        let untried = u32::try_from(candidates.len() - place).unwrap_or(u32::MAX);
        match ask(node, (left / untried).min(budget)) {
            Ok(Some(answer)) => return Ok(Found::Reply(answer)),
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
        .filter(|failure| RetryAction::on(&failure.cause).is_final());
    if refusals.count() == candidates.len() {
        return Err(RouteError::Refused(failures.swap_remove(0)));
    }
    Err(RouteError::Unavailable(LookUpFailed {
        reason: "no server told where the locks are",
        errors: failures,
    }))
}

/// The thread that has it looks.
pub(super) struct Turn<'a>(&'a SingleFlight);

impl SingleFlight {
    /// The turn to look; `None` if another thread has looked meanwhile, or has not come back by
    /// `deadline`.
    pub(super) fn turn(&self, deadline: Moment) -> Option<Turn<'_>> {
        let mut looking = self.looking.lock();
        if *looking {
            while *looking && !deadline.is_past() {
                self.done.wait_for(&mut looking, deadline.left());
            }
            return None;
        }
        *looking = true;
        Some(Turn(self))
    }
}

impl Drop for Turn<'_> {
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
    fn those_who_come_while_one_looks_use_what_it_found() {
        let (single_flight, looks) = (SingleFlight::default(), AtomicU32::new(0));
        let start = std::sync::Barrier::new(8);
        let deadline = Moment::now().after(Duration::from_secs(10));
        std::thread::scope(|scope| {
            let first = single_flight.turn(deadline).expect("nobody looks");
            for _ in 0..7 {
                scope.spawn(|| {
                    start.wait();
                    if single_flight.turn(deadline).is_some() {
                        looks.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            start.wait();
            drop(first);
        });
        assert!(looks.load(Ordering::Relaxed) < 8);
        assert!(
            single_flight.turn(deadline).is_some(),
            "the next look is possible"
        );
    }

    #[test]
    fn nobody_waits_beyond_the_deadline() {
        let single_flight = SingleFlight::default();
        let _turn = single_flight.turn(Moment::NEVER).expect("nobody looks");
        let deadline = Moment::now().after(Duration::from_millis(20));
        assert!(single_flight.turn(deadline).is_none());
        assert!(deadline.is_past());
    }
}
