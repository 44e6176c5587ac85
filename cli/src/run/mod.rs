//! `leasehold run`: runs a command while a lock is held. `leasehold hold`: only holds it.
//!
//! The command ends before its lease can end on the server, whatever happens to Redis: [`schedule`]
//! decides when. The main thread acquires the lock, starts the command ([`job`]) and watches it
//! ([`supervisor`]). Signals and the requests to Redis have their own threads.

mod held;
mod hold;
mod holder;
mod job;
mod outer_keys;
mod parent;
mod program;
mod schedule;
mod signals;
mod supervisor;
mod waiting_message;

use std::time::Duration;

pub(super) use hold::hold;
pub(super) use parent::become_job;

use super::args::{Kind, RedisArgs, RunArgs};
use super::outcome::{Failure, Result};
use held::Held;
use job::Job;
use leasehold::__Moment as Moment;
use program::Program;
use schedule::{Schedule, Why};
use signals::{Signals, ignore_stops};
use supervisor::Supervisor;

/// Acquires the lock, runs the command and releases the lock. The status is that of the command,
/// unless the lock was not acquired or was lost.
pub(super) fn run(args: &RunArgs, redis: &RedisArgs) -> Result<u8> {
    let lock = &args.lock;
    held::check(lock, redis)?;
    if matches!(lock.kind, Kind::Permits(_)) && args.at_least.is_some() {
        return Err(Failure::usage(
            "--at-least does not work with --kind permits=N: a permit cannot be kept",
        ));
    }
    let command = args.command();
    let program = Program::find(&command)?;
    // First of all, so that no signal is missed from here on.
    let signals = Signals::catch()?;
    let held = Held::acquire(lock, redis, &signals)?;
    let acquired_at = Moment::now();
    // The lock may have been lost since it was acquired.
    held.check()?;
    let job = Job::start(&program, args, held.token())?;
    if job.has_group {
        // Ctrl-Z would stop this process alone, and the command would lose its lock.
        ignore_stops()?;
    }
    let time_is_up = args.max_hold.map(|time| acquired_at.after(time));
    let time_is_up = time_is_up.unwrap_or(Moment::NEVER);
    let schedule = Schedule::new(lock.lease, args.kill_after, time_is_up);
    let end = Supervisor::new(&held, job, schedule).run(&signals, lock.lease);

    let left = args
        .at_least
        .map_or(Duration::ZERO, |time| acquired_at.after(time).left());
    let keep = Some(left).filter(|left| *left >= Duration::from_millis(1));
    let is_unconfirmed = end.why == Some(Why::Unconfirmed);
    // Redis may reply again, and then keeps the lock. Otherwise nothing waits for it.
    let may_stand = is_unconfirmed && keep.is_some() && held.check().is_ok();
    // After a loss, dropping the guard releases what is left in Redis.
    if may_stand || matches!(end.why, None | Some(Why::TimeIsUp)) {
        held.release(keep, is_unconfirmed).map_err(|loss| {
            let message = format!("{loss}; the command ended with status {}", end.of_job);
            Failure::new(loss.status, message)
        })?;
    }
    Ok(end.status)
}
