//! Clocks of servers that are set: leases end earlier or later than their clients expect.

use std::time::Duration;

use leasehold_simulation_world::{random, time};

use crate::clock;
use crate::conductor::{Conductor, between};
use crate::faults::Undo;
use crate::kind::Kind;
use crate::log::Event;
use crate::replication::ServerId;
use crate::worker_thread::nanos;

impl Conductor {
    /// Sets the clock of a master forward or back, and to the right time later.
    pub fn set_clock(&mut self) {
        let group = random::index(self.deployment.groups.len());
        let id = self.deployment.groups[group].master;
        let is_failed = self.deployment.groups[group].failed.is_some();
        let is_set = self.deployment.server(id).ahead != 0;
        if is_failed || self.deployment.moving().is_some() || is_set {
            return;
        }
        let most = [50, 500, 3000][random::index(3)];
        let by = between(Duration::from_millis(1), Duration::from_millis(most));
        let by = match random::one_in(2) {
            true => nanos(by).cast_signed(),
            false => -nanos(by).min(self.most_back()).cast_signed(),
        };
        self.show_time(id, by);
        let time = between(Duration::from_millis(10), self.args().lease() * 4);
        self.later(time, Undo::SetClock(id));
    }

    /// Lets the clock of a server be this many nanoseconds ahead.
    pub fn show_time(&mut self, id: ServerId, ahead: i64) {
        self.note(&format!("the clock of server {id} is {ahead} ns ahead"));
        let from = clock::now();
        let before = std::mem::replace(&mut self.deployment.server(id).ahead, ahead);
        let Ok(back) = u64::try_from(before - ahead) else {
            for lock in self.locks_at(id) {
                self.write(Event::ClockSet { lock, from });
                self.write(Event::LineLost { lock });
            }
            return;
        };
        self.late = self.late.max(from + back);
    }

    /// How far a clock may be set back, in nanoseconds. When Redis has lost the last token, the next
    /// one begins with the time, so it is promised to rise only if the clock does not show a time
    /// again from before the loss.
    fn most_back(&self) -> u64 {
        match self.args().kind {
            None | Some(Kind::Fenced) => {
                let since = clock::now() - self.token_lost;
                // The clock may also be slow.
                since.saturating_sub(time::MS)
            }
            Some(_) => u64::MAX,
        }
    }

    /// True if the clock of a server is wrong, or shows a time again that it has shown before. What
    /// then happens to tokens is not promised: those of a lock that Redis has lost begin with the
    /// time.
    pub fn are_clocks_wrong(&self) -> bool {
        let mut servers = self.deployment.servers();
        clock::now() < self.late || servers.any(|server| server.ahead != 0)
    }

    fn locks_at(&self, master: ServerId) -> Vec<u32> {
        let groups = self.deployment.groups.iter();
        let of_master = groups.enumerate().filter(|(_, one)| one.master == master);
        of_master
            .flat_map(|(group, _)| self.locks_of(group))
            .collect()
    }
}
