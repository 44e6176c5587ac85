//! Finds violations of the locks' promises in the event logs. A pure function of the records.

mod calls;
mod deletion;
mod exclusion;
mod history;
mod left_over;
mod lock;
mod log_ins;
mod machine;
mod order;
mod places;
mod progress;
mod queries;
mod results;
mod span;
mod tokens;
mod violation;
mod waits;

use std::time::Duration;

pub use calls::HoldId;
pub use history::History;
pub use violation::Violation;

use crate::record::{Event, Record};

/// How long after the loss of a line all clients in it have noticed that, as documented.
pub const NOTICED_BY_ALL: Duration = Duration::from_secs(30);

/// The durations that the checker allows.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The number of permits of a semaphore; `None` for a lock.
    pub permits: Option<u32>,
    /// The longest lease that a worker requests.
    pub longest_lease: Duration,
    /// How long a lock may stay free in a calm while a thread waits for it.
    pub idle: Duration,
    /// How long a lock may stay free while a thread waits for it after a calm has lasted for
    /// `idle`: messages arrive again, and all leases of dead holders have ended.
    pub settled: Duration,
    /// How much longer permits may stay free while a thread waits that needs several.
    pub keeps_out: Duration,
    /// How long after the loss of its line a lock may stay free while a thread waits for it.
    pub line_noticed: Duration,
    /// For how long the log-ins of a process may be refused, from the first refusal since a change
    /// of the password.
    pub log_in: Duration,
    /// How long the threads of a process may begin holds on one grant: a slice, and the time to
    /// linger.
    pub reuse: Duration,
    /// How long after the begin of a calm a request from before may still be executed, and a client
    /// may not listen again.
    pub delivered: Duration,
    /// How long a call of a holder may take after a calm has lasted for `idle`.
    pub answered: Duration,
    /// How late a call may return because the machine is busy.
    pub slip: Duration,
}

/// What the checker finds in a log.
#[derive(Debug)]
pub struct Findings {
    /// In the order of their times.
    pub violations: Vec<Violation>,
    /// How many double holds a failover or a clock explains. Not those of permits.
    #[allow(dead_code, reason = "only the simulation has failovers")]
    pub predicted: u64,
}

/// Checks `records`, which are in the order of their times.
pub fn check(records: &[Record], bounds: &Bounds) -> Findings {
    let history = History::of(records, bounds);
    let (mut violations, predicted) = exclusion::check(&history, bounds);
    violations.extend(tokens::check(&history));
    violations.extend(order::check(&history, bounds));
    violations.extend(progress::check(&history, bounds));
    violations.extend(results::check(&history, bounds));
    violations.extend(waits::check(&history, bounds));
    violations.extend(log_ins::check(records, &history.machine, bounds));
    violations.extend(records.iter().filter_map(single_record));
    violations.extend(queries::check(records));
    violations.extend(left_over::check(records, &history, bounds));
    violations.sort_by_key(|violation| violation.at);
    Findings {
        violations,
        predicted,
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The violation that one record shows by itself.
fn single_record(record: &Record) -> Option<Violation> {
    let (kind, what) = match &record.event {
        Event::Wrong { call, answer } => {
            let call = HoldId::of(record, *call);
            return Some(Violation::wrong_result(call, answer, record.at));
        }
        Event::Died { process } => (
            "worker died",
            format!("process {process} ended unexpectedly"),
        ),
        Event::Lingers { process } => (
            "worker lingers",
            format!("process {process} does not end when asked to"),
        ),
        Event::Kept { nanos } => {
            let (process, time) = (record.process, Duration::from_nanos(*nanos));
            let what = format!("process {process} handed locks over for {time:?}, past the slice");
            ("kept by hand-overs", what)
        }
        _ => return None,
    };
    Some(Violation::new(kind, record.at, what))
}
