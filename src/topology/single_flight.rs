//! One thread looks for the servers, and the others wait for what it finds.

use std::fmt::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use redis::{RedisError, RedisResult};

use super::RouteError;
use crate::base::clock::Moment;
use crate::error::Hint;
use crate::transport::hint::Role;
use crate::transport::node::Node;
use crate::transport::retry_action::RetryAction;

/// No server that was asked told where the locks are. Each failure has what to change, if the reply
/// says so.
#[derive(Debug)]
pub(crate) struct LookUpFailed(pub(crate) Vec<(Arc<str>, RedisError, Option<Box<Hint>>)>);

impl LookUpFailed {
    /// The text, with the hints in the words of `say`.
    pub(crate) fn text(&self, say: impl Fn(&Hint) -> String) -> String {
        let mut text = "no server told where the locks are".to_owned();
        for (node, error, hint) in &self.0 {
            let _ = write!(text, "; {node}: {error}");
            if let Some(hint) = hint {
                let _ = write!(text, "; {}", say(hint));
            }
        }
        text
    }
}

impl fmt::Display for LookUpFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(ToString::to_string))
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
                let hint = role.hint(&error);
                failures.push((Arc::clone(node.name()), error, hint));
            }
        }
    }
    if unknown == candidates.len() {
        return Ok(Found::Unknown);
    }
    let refusals = failures
        .iter()
        .filter(|(_, error, _)| RetryAction::on(error).is_final());
    if refusals.count() == candidates.len() {
        let (node, error, hint) = failures.swap_remove(0);
        return Err(RouteError::Refused {
            node,
            cause: error.into(),
            hint,
        });
    }
    Err(RouteError::Yet(LookUpFailed(failures).into()))
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
