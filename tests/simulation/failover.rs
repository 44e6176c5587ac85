//! Failovers: a master fails, one of its replicas takes its place, and it comes back as a replica.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use leasehold_simulation_world::{network, random, time};

use crate::args::Args;
use crate::clock;
use crate::conductor::{Conductor, between};
use crate::deployment::{Failed, Layout};
use crate::faults::Undo;
use crate::log::Event;
use crate::programs::ends;
use crate::replication::Replication;
use crate::server::{Keyspace, Value};
use crate::slots::Slots;
use crate::worker_thread::nanos;

/// How a master fails.
#[derive(Clone, Copy, Debug)]
enum Failure {
    /// Its connections are reset.
    Crash,
    /// It does not reply.
    Hang,
    /// It is cut off from its replicas and the sentinels, and not from its clients.
    CutOff,
}

/// What a failover did to the keys of a lock.
enum Loss {
    Nothing,
    /// The last renewal: the lock can be free this many milliseconds after the failure.
    Renewal(u64),
    /// The deletion of a key.
    Deletion,
    /// A grant.
    Grant,
}

impl Conductor {
    /// The master of a group fails, and a replica takes its place later.
    pub fn fail_over(&mut self) {
        let lock = random::index(self.args().locks as usize) as u32;
        let group = self.deployment.group_of(lock);
        let of_group = &self.deployment.groups[group];
        let is_moving = |slots: &Rc<RefCell<Slots>>| slots.borrow().is_moving(group);
        let is_moving = self.deployment.slots.as_ref().is_some_and(is_moving);
        if of_group.failed.is_some() || of_group.members.len() < 2 || is_moving {
            return;
        }
        if self.are_clocks_wrong() {
            return;
        }
        let server = of_group.master;
        let failures = [Failure::Crash, Failure::Hang, Failure::CutOff];
        let failure = failures[random::index(3)];
        self.note(&format!("server {server}: {failure:?}"));
        self.undo
            .retain(|(_, undo)| *undo != Undo::ResumeServer(server));
        let address = self.deployment.address(server);
        let keys = {
            let mut server = self.deployment.server(server);
            if !self.args().kind_of(0).has_lease() {
                // What is not replicated would be lost.
                server.replication.flush();
            }
            server.replication.cut();
            if let Some(member) = &mut server.member {
                // It does not hear any more who has the slots.
                let slots = member.slots.borrow().clone();
                member.slots = Rc::new(RefCell::new(slots));
            }
            server.keys()
        };
        // Permits without a lease that are lost do not come back.
        let failure = match self.args().kind_of(0).has_lease() {
            true => failure,
            false => Failure::Crash,
        };
        match failure {
            Failure::Crash => network::stop_serving(address),
            Failure::Hang => self.deployment.server(server).pause(),
            Failure::CutOff => {}
        }
        for lock in self.locks_of(group) {
            ends::begin_breaking(lock);
        }
        let now = clock::now();
        self.deployment.groups[group].failed = Some(Failed {
            server,
            is_reachable: matches!(failure, Failure::CutOff),
            apart: now,
            since: now,
            keys,
        });
        let most = [50, 500, 2000][random::index(3)];
        let time = between(Duration::from_millis(10), Duration::from_millis(most));
        self.later(time, Undo::Promote(group));
    }

    /// A replica takes the place of the master that has failed.
    pub fn promote(&mut self, group: usize) {
        let of_group = &self.deployment.groups[group];
        let Some(mut failed) = of_group.failed.clone() else {
            return;
        };
        let members = of_group.members.iter().copied();
        let others: Vec<_> = members.filter(|id| *id != failed.server).collect();
        let new = others[random::index(others.len())];
        self.note(&format!("server {new} is the master now"));
        let replicated = self
            .deployment
            .server(failed.server)
            .replication
            .keys_of(new);
        let mut replicated = replicated.map_or_else(Keyspace::default, |keys| (*keys).clone());
        self.deployment
            .server(new)
            .with_keys(|keys| keys.clone_from(&replicated));
        self.deployment.lead(group, new);
        self.announce(group);
        if failed.is_reachable {
            failed.since = clock::now();
            if self.are_confirmed() {
                // It still renews the locks that it has granted before.
                self.log_all(group, &failed);
            }
            self.deployment.groups[group].failed = Some(failed);
        } else {
            self.log_losses(group, &mut failed, &mut replicated);
        }
        self.log_lines(group);
        self.token_lost = clock::now();
        let time = between(Duration::from_millis(10), Duration::from_secs(2));
        self.later(time, Undo::Return(group));
    }

    /// The master that has failed comes back, as a replica.
    pub fn take_back(&mut self, group: usize) {
        let Some(failed) = self.deployment.groups[group].failed.take() else {
            return;
        };
        self.note(&format!("server {} is a replica now", failed.server));
        // With it, the tokens that it has granted since then.
        self.token_lost = clock::now();
        // Its replicas do not confirm the locks that it has granted since then.
        if failed.is_reachable && !self.are_confirmed() {
            self.log_all(group, &failed);
        }
        for lock in self.locks_of(group) {
            ends::end_breaking(lock);
        }
        let address = self.deployment.address(failed.server);
        network::stop_serving(address);
        let master = self.deployment.groups[group].master;
        let keys = self.deployment.server(master).keys();
        {
            let mut server = self.deployment.server(failed.server);
            server.replication = Replication::default();
            if let (Some(member), Some(slots)) = (&mut server.member, &self.deployment.slots) {
                member.slots = Rc::clone(slots);
            }
            server.restart();
            server.master = Some(self.deployment.address(master));
        }
        let mut server = self.deployment.server(master);
        server.replication.add(failed.server, &keys);
        drop(server);
        network::serve(address, self.deployment.handle(failed.server) as _);
    }

    /// The sentinels learn one after the other which server is the master, or the servers of the
    /// cluster do.
    fn announce(&mut self, group: usize) {
        let master = self.deployment.groups[group].master;
        let master = self.deployment.address(master);
        let announced = &mut self.deployment.groups[group].announced;
        // After all that they learned before.
        let earliest = (*announced).max(time::now());
        let later = |announced: &mut u64| {
            let at = earliest.max(time::now() + random::between(0..=200 * time::MS));
            *announced = (*announced).max(at);
            at
        };
        for sentinel in &self.deployment.sentinels {
            let sentinel = Rc::clone(sentinel);
            time::at(later(announced), move || {
                sentinel.borrow_mut().master = master;
            });
        }
        if let Some(slots) = &self.deployment.slots {
            let slots = Rc::clone(slots);
            time::at(later(announced), move || {
                slots.borrow_mut().masters[group] = master;
            });
        }
    }

    /// The replicas confirm each lock.
    fn are_confirmed(&self) -> bool {
        matches!(self.deployment.layout, Layout::MinReplicas(_))
    }

    fn log_all(&self, group: usize, failed: &Failed) {
        let (from, apart) = (failed.since, failed.apart);
        for lock in self.locks_of(group) {
            self.write(Event::FailedOver { lock, from, apart });
        }
    }

    /// Logs which locks the new master does not know as the old one did.
    fn log_losses(&self, group: usize, failed: &mut Failed, new: &mut Keyspace) {
        let from = failed.since;
        let lag = nanos(self.deployment.layout.longest_lag());
        let apart = failed.apart.saturating_sub(lag);
        for lock in self.locks_of(group) {
            let ends = match loss(&mut failed.keys, new, lock) {
                Loss::Grant if !self.are_confirmed() => from,
                Loss::Deletion => from,
                // Replicas do not confirm renewals. The server rounds the time up.
                Loss::Renewal(left) => from + left.saturating_sub(2) * time::MS,
                _ => continue,
            };
            let lost = Event::FailedOver {
                lock,
                from: ends,
                apart,
            };
            self.log.write(clock::now().max(ends), 0, lost);
        }
    }

    /// A replica may not know the newest line.
    fn log_lines(&self, group: usize) {
        for lock in self.locks_of(group) {
            self.write(Event::LineLost { lock });
        }
    }

    /// The locks that the servers of the group have.
    pub fn locks_of(&self, group: usize) -> Vec<u32> {
        let locks = 0..self.args().locks;
        locks
            .filter(|lock| self.deployment.group_of(*lock) == group)
            .collect()
    }
}

/// Compares the keys of a lock at two servers.
fn loss(old: &mut Keyspace, new: &mut Keyspace, lock: u32) -> Loss {
    let now = old.now_micros().max(new.now_micros());
    old.set_time(now);
    new.set_time(now);
    let is_back = |key: &Vec<u8>| has_owners(key, lock) && old.get(key).is_none();
    let mut loss = match new.keys().iter().any(is_back) {
        true => Loss::Deletion,
        false => Loss::Nothing,
    };
    for key in old.keys() {
        if !has_owners(&key, lock) {
            continue;
        }
        let left = (old.time_to_live(&key), new.time_to_live(&key));
        match (old.get(&key), new.get(&key)) {
            (Some(Value::SortedSet(old)), Some(Value::SortedSet(new))) if old != new => {
                let is_kept =
                    |(_, member): &(f64, Vec<u8>)| new.iter().any(|(_, one)| one == member);
                if !old.iter().all(is_kept) {
                    return Loss::Grant;
                }
                loss = Loss::Renewal(0);
            }
            _ if matches!(loss, Loss::Deletion) => {}
            (old, new) if old != new => return Loss::Grant,
            _ if left.0 != left.1 => {
                let before = match loss {
                    Loss::Renewal(before) => before,
                    _ => u64::MAX,
                };
                loss = Loss::Renewal(before.min(left.1.try_into().unwrap_or(0)));
            }
            _ => {}
        }
    }
    loss
}

/// True if the key says who holds the lock. Not its line, its queue or its last token.
fn has_owners(key: &[u8], lock: u32) -> bool {
    let key = String::from_utf8_lossy(key);
    let others = ["leasehold_line", "redisson_lock_"];
    key.contains(&Args::key(lock)) && !others.iter().any(|other| key.starts_with(other))
}
