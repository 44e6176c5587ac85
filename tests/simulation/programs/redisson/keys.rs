//! The requests of one thread of Redisson about one lock: the names of keys and channels, and the
//! arguments of the scripts.

use leasehold_simulation_world::processes;

use super::scripts::{
    ACQUIRE, EVICT, FAIR_ACQUIRE, FAIR_LEAVE, FAIR_RELEASE, PERMITS_ACQUIRE, PERMITS_RELEASE,
    READ_ACQUIRE, READ_RELEASE, RELEASE, RENEW, WRITE_ACQUIRE, WRITE_RELEASE,
};
use crate::args::Args;
use crate::kind::{Access, Kind};
use crate::worker_thread::Target;

/// The milliseconds of a lease, which is renewed.
const LEASE: &str = "500";

/// How long a place in a fair queue lasts, in milliseconds.
const PLACE: &str = "300000";

/// What the clock of a process shows at its zero, in milliseconds since 1970.
const BEGIN: u64 = 1_700_000_000_000 - 3_600_000;

pub struct Names {
    kind: Kind,
    access: Access,
    lock: String,
    holder: String,
    /// On which the thread listens.
    pub channel: String,
}

impl Names {
    pub fn new(kind: Kind, at: Target, (client, thread): (u128, u64)) -> Self {
        let lock = Args::key(at.lock);
        let hex = format!("{client:032x}");
        let parts = [
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..],
        ];
        let holder = format!("{}:{thread}", parts.join("-"));
        let channel = match kind {
            Kind::Fair => format!("redisson_lock__channel:{{{lock}}}:{holder}"),
            Kind::ReadWrite => format!("redisson_rwlock:{{{lock}}}"),
            Kind::Semaphore(_) => format!("redisson_sc:{{{lock}}}"),
            _ => format!("redisson_lock__channel:{{{lock}}}"),
        };
        Self {
            kind,
            access: at.access,
            lock,
            holder,
            channel,
        }
    }

    /// Nil if the lock is acquired, else a number.
    pub fn acquire(&self) -> Vec<String> {
        let (lock, holder, writer) = (&*self.lock, &*self.holder, &*self.writer());
        let (list, ends, now) = (&*self.list(), &*self.ends(), &*now());
        match (self.kind, self.access) {
            (Kind::Fair, _) => {
                let script = [EVICT, FAIR_ACQUIRE].concat();
                eval(&script, &[lock, list, ends], &[LEASE, holder, PLACE, now])
            }
            (Kind::ReadWrite, Access::Shared) => {
                let leases = &*self.leases();
                eval(READ_ACQUIRE, &[lock, leases], &[LEASE, holder, writer])
            }
            (Kind::ReadWrite, _) => eval(WRITE_ACQUIRE, &[lock], &[LEASE, writer]),
            (Kind::Semaphore(_), access) => {
                eval(PERMITS_ACQUIRE, &[lock], &[&access.permits().to_string()])
            }
            _ => eval(ACQUIRE, &[lock], &[LEASE, holder]),
        }
    }

    pub fn release(&self) -> Vec<String> {
        let (lock, holder, channel) = (&*self.lock, &*self.holder, &*self.channel);
        match (self.kind, self.access) {
            (Kind::Fair, _) => {
                let script = [EVICT, FAIR_RELEASE].concat();
                let channel = format!("redisson_lock__channel:{{{lock}}}");
                let keys = [lock, &self.list(), &self.ends(), &channel];
                eval(&script, &keys, &[LEASE, holder, &now()])
            }
            (Kind::ReadWrite, Access::Shared) => {
                let keys = [lock, channel, &self.leases(), &format!("{{{lock}}}")];
                eval(READ_RELEASE, &keys, &[holder])
            }
            (Kind::ReadWrite, _) => eval(WRITE_RELEASE, &[lock, channel], &[LEASE, &self.writer()]),
            (Kind::Semaphore(_), access) => {
                let permits = access.permits().to_string();
                eval(PERMITS_RELEASE, &[lock, channel], &[&permits])
            }
            _ => eval(RELEASE, &[lock, channel], &[LEASE, holder]),
        }
    }

    /// Gives up a place.
    pub fn leave(&self) -> Option<Vec<String>> {
        let script = [EVICT, FAIR_LEAVE].concat();
        let keys = [&*self.list(), &*self.ends()];
        (self.kind == Kind::Fair).then(|| eval(&script, &keys, &[&self.holder, PLACE]))
    }

    /// The reply is 1 if the thread has the lock. `None`: permits have no lease.
    pub fn holds(&self) -> Option<Vec<String>> {
        let words = ["HEXISTS", &self.lock, &self.field()?];
        Some(words.map(str::to_owned).to_vec())
    }

    /// Renews the lease. `None`: it is not renewed.
    pub fn renew(&self) -> Option<Vec<String>> {
        let field = self.field().filter(|_| self.access == Access::Exclusive)?;
        Some(eval(RENEW, &[&self.lock], &[LEASE, &field]))
    }

    fn field(&self) -> Option<String> {
        match (self.kind, self.access) {
            (Kind::Semaphore(_), _) => None,
            (Kind::ReadWrite, Access::Exclusive) => Some(self.writer()),
            _ => Some(self.holder.clone()),
        }
    }

    fn writer(&self) -> String {
        format!("{}:write", self.holder)
    }

    fn leases(&self) -> String {
        format!("{{{}}}:{}:rwlock_timeout", self.lock, self.holder)
    }

    fn list(&self) -> String {
        format!("redisson_lock_queue:{{{}}}", self.lock)
    }

    fn ends(&self) -> String {
        format!("redisson_lock_timeout:{{{}}}", self.lock)
    }
}

fn eval(script: &str, keys: &[&str], arguments: &[&str]) -> Vec<String> {
    let count = keys.len().to_string();
    let words = ["EVAL", script, &count].into_iter();
    let words = words
        .chain(keys.iter().copied())
        .chain(arguments.iter().copied());
    words.map(str::to_owned).collect()
}

/// By the clock of the client.
fn now() -> String {
    (BEGIN + processes::clock() / 1_000_000).to_string()
}
