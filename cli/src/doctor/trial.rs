//! Acquires and releases each kind of lock, as programs do. What Redis refuses shows which
//! permissions the user lacks.

use std::time::Duration;

use super::LEASE;
use super::finding::{Finding, Line, Verdict};
use crate::outcome::{Failure, Result, advised};
use crate::probe::{ask, command};
use leasehold::__Moment as Moment;
use leasehold::admin::{self, LockKeys, lock_kinds, lock_of_kind};
use leasehold::{Error, Hint, Lease, LockClient, LockGuard, Permission};

/// What is tried besides the kinds of locks. A program may not use it.
const OTHERS: [&str; 4] = ["condition", "semaphore", "permits", "latch"];

/// How long an acquire may take: replicas may not confirm it.
const LONGEST: Duration = Duration::from_secs(2);

/// How long a client waits for what another one holds.
const WAIT: Duration = Duration::from_millis(20);

/// Two clients of one deployment.
pub(super) struct Trial<'a> {
    pub(super) holder: &'a LockClient,
    pub(super) waiter: &'a LockClient,
    pub(super) in_cluster: bool,
    /// The beginning of the names that are tried.
    pub(super) names: &'a str,
}

impl Trial<'_> {
    /// Tries each kind; without a plain lock, nothing else.
    pub(super) fn run(&self) -> Vec<Line> {
        let mut kinds = lock_kinds().chain(OTHERS);
        // The plain lock is the first one. It needs the permissions that all kinds need.
        let plain = kinds.next().unwrap_or_default();
        let mut checks = vec![self.check_kind(plain, Verdict::Failure)];
        if checks[0].finding.verdict == Verdict::Ok {
            checks.extend(kinds.map(|kind| self.check_kind(kind, Verdict::Warning)));
            let rights = self.check_rights();
            let rights = rights.unwrap_or_else(|error| Verdict::Unknown.of(error.to_string()));
            checks.push(self.line(self.names, "rights", rights));
        }
        checks
    }

    /// A finding about the server that has this name, or else about the deployment.
    fn line(&self, name: &str, check: &'static str, finding: Finding) -> Line {
        match admin::server_of(self.holder, name) {
            Ok(server) => Line::new(server.name(), check, finding),
            Err(_) => Line::new(&admin::deployment(self.holder), check, finding),
        }
    }

    /// `failed`: the verdict if the kind cannot be used.
    fn check_kind(&self, kind: &'static str, failed: Verdict) -> Line {
        let name = format!("{}:{kind}", self.names);
        let start = Moment::now();
        let finding = match self.try_kind(kind, &name) {
            Ok(()) => {
                let took = Moment::now().since(start);
                Verdict::Ok.of(format!("acquired, waited for, and released in {took:.1?}"))
            }
            Err(error) => refusal(error, failed),
        };
        self.line(&name, kind, finding)
    }

    /// Uses what has this name, and deletes what would stay in Redis.
    fn try_kind(&self, kind: &str, name: &str) -> leasehold::Result<()> {
        let used = match kind {
            "condition" => self.try_condition(name),
            "semaphore" => self.try_semaphore(name),
            "permits" => self.try_permits(name),
            "latch" => self.try_latch(name),
            kind => self.try_lock(kind, name),
        };
        // The number of a semaphore, and the last fencing token.
        let keys = LockKeys::new(self.holder, name);
        let server = admin::server_of(self.holder, name);
        if let Ok(Ok(mut connection)) = server.map(|server| server.connect()) {
            let _ = connection.run(&command(("DEL", keys.key, keys.last_token)));
        }
        used
    }

    fn try_lock(&self, kind: &str, name: &str) -> leasehold::Result<()> {
        let lock = lock_of_kind(self.holder, kind, name)?;
        // Without a limit, it would wait for replicas that do not confirm it.
        let outer = lock.try_acquire(LONGEST, Lease::RENEWED)?;
        let inner = lock.acquire()?;
        inner.extend(LEASE)?;
        // Readers share the lock.
        let waiter = lock_of_kind(self.waiter, kind, name)?;
        drop(waiter.try_acquire(WAIT, Lease::RENEWED)?);
        inner.unlock()?;
        outer.map_or(Ok(()), LockGuard::unlock)
    }

    fn try_condition(&self, name: &str) -> leasehold::Result<()> {
        let lock = self.holder.reentrant_lock(name);
        let guard = lock.acquire()?;
        let condition = lock.condition("doctor");
        let _is_notified = condition.wait_for(WAIT)?;
        condition.notify_all()?;
        guard.unlock()
    }

    fn try_semaphore(&self, name: &str) -> leasehold::Result<()> {
        let semaphore = self.holder.semaphore(name);
        semaphore.try_set_permits(1)?;
        semaphore.acquire(1)?;
        let _is_free = self.waiter.semaphore(name).try_acquire(1, WAIT)?;
        semaphore.release(1)
    }

    fn try_permits(&self, name: &str) -> leasehold::Result<()> {
        let semaphore = self.holder.leased_semaphore(name);
        semaphore.try_set_permits(1)?;
        let permit = semaphore.acquire()?;
        let waiter = self.waiter.leased_semaphore(name);
        drop(waiter.try_acquire(WAIT, Lease::RENEWED)?);
        permit.release()
    }

    fn try_latch(&self, name: &str) -> leasehold::Result<()> {
        let latch = self.holder.count_down_latch(name);
        latch.try_set_count(1)?;
        let _is_open = self.waiter.count_down_latch(name).wait_for(WAIT)?;
        latch.count_down().map(drop)
    }

    /// Sends the commands that a lock can do without at first: scripts are loaded, nothing is left
    /// of dead clients, and clients that may not listen ask often. None of them changes anything.
    fn check_rights(&self) -> Result<Finding> {
        let keys = LockKeys::new(self.holder, self.names);
        let (key, line, channel) = (&keys.key, &keys.line, &keys.channel);
        let (publish, count, subscribe, unsubscribe) = match self.in_cluster {
            true => ("SPUBLISH", "SHARDNUMSUB", "SSUBSCRIBE", "SUNSUBSCRIBE"),
            false => ("PUBLISH", "NUMSUB", "SUBSCRIBE", "UNSUBSCRIBE"),
        };
        let mut connection = admin::server_of(self.holder, self.names)?.connect()?;
        let mut rules: Vec<String> = Vec::new();
        for command in [
            command(("PING",)),
            command(("EVAL", "return 1", 1, key)),
            command(("ZADD", line, "XX", 0, "")),
            command(("ZRANGE", line, 0, 0)),
            command(("ZRANK", line, "")),
            command(("ZREM", line, "")),
            command(("ZSCORE", line, "")),
            command(("ZCOUNT", line, 0, 0)),
            command(("LPOP", key)),
            command(("LREM", key, 0, "")),
            command(("HSCAN", key, 0)),
            command(("PUBSUB", count)),
            command((publish, channel, 0)),
            command((unsubscribe, channel)),
            // The last one, because messages can follow it.
            command((subscribe, channel)),
        ] {
            let refused = ask(&mut connection, &command)?.err();
            rules.extend(match refused.and_then(|error| error.hint).as_deref() {
                Some(Hint::Grant(Permission::Key)) => Some("~leasehold_line:*".into()),
                Some(Hint::Grant(Permission::Channel)) => Some("&redisson_lock__channel:*".into()),
                Some(Hint::Grant(permission)) => permission.rule(),
                // A cluster before Redis 7 has no shard channels.
                _ => None,
            });
        }
        rules.dedup();
        if rules.is_empty() {
            return Ok(Verdict::Ok.of("all that waiting clients need"));
        }
        // Without EVAL, nothing loads the scripts after a restart.
        let verdict = match rules.iter().any(|rule| rule == "+eval") {
            true => Verdict::Failure,
            false => Verdict::Warning,
        };
        let found = "the user may not use all that clients need later, or while they wait";
        Ok(verdict.advise(found, format!("ACL SETUSER <user> {}", rules.join(" "))))
    }
}

/// The finding about a kind that cannot be used.
fn refusal(error: Error, failed: Verdict) -> Finding {
    let Error::Redis {
        cause,
        hint: Some(hint),
        ..
    } = &error
    else {
        let advice = "look at the other checks, and at the log of the server";
        return failed.advise(Failure::from(error).to_string(), advice);
    };
    let mut advice = advised(hint);
    if **hint == Hint::Grant(Permission::Command(None)) {
        advice += "; Redis 7.0 and older do not say which command of a script they refuse";
    }
    failed.advise(cause.to_string(), advice)
}
