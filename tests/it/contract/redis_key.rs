//! One key, as the servers have it on which the lock lives.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::{Cmd, FromRedisValue};

use crate::support::connect;

/// What a key of a lock looks like.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A hash of owner to hold count.
    Owner,
    /// A hash with a mode, readers, and a writer.
    ReadWrite,
}

/// A key, the servers that have it, and the number of them that must agree. For most locks that is
/// one of one, for independent servers a majority.
pub struct KeyView {
    pub key: String,
    pub form: Form,
    /// The URLs of these servers.
    pub homes: Vec<String>,
    pub needed: usize,
}

impl KeyView {
    pub fn run_command(&self, command: &Cmd) {
        self.ask::<()>(command);
    }

    fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Vec<T> {
        let ask = |url: &String| command.query(&mut connect(url)).expect("a reply");
        self.homes.iter().map(ask).collect()
    }

    fn holders_by_server(&self) -> Vec<Vec<(String, u32)>> {
        let fields: Vec<Vec<(String, String)>> = self.ask(redis::cmd("HGETALL").arg(&self.key));
        let holder = |(field, count): (String, String)| {
            let owner = match self.form {
                Form::Owner => field,
                Form::ReadWrite if field == "mode" => return None,
                Form::ReadWrite => field.trim_end_matches(":write").to_owned(),
            };
            Some((owner, count.parse().expect("a hold count")))
        };
        let of_server = |fields: Vec<_>| fields.into_iter().filter_map(holder).collect();
        fields.into_iter().map(of_server).collect()
    }

    /// Returns the holders on at least `needed` servers. All clients of one process use one thread
    /// number, but each has its own client id, so for several clients only the number is compared.
    pub fn holders(&self) -> Vec<(String, u32)> {
        let mut found: BTreeMap<_, Vec<String>> = BTreeMap::new();
        for (owner, count) in self.holders_by_server().into_iter().flatten() {
            let number = owner.rsplit(':').next().unwrap_or_default().to_owned();
            found.entry((number, count)).or_default().push(owner);
        }
        found.retain(|_, owners| owners.len() >= self.needed);
        let named = found.into_iter().map(|((number, count), owners)| {
            let is_one = owners.windows(2).all(|pair| pair[0] == pair[1]);
            (if is_one { owners[0].clone() } else { number }, count)
        });
        named.collect()
    }

    /// The value that at least `needed` servers reach.
    fn reached_by_majority<T: Ord>(&self, mut answers: Vec<T>) -> T {
        answers.sort_unstable_by(|one, other| other.cmp(one));
        answers.swap_remove(self.needed - 1)
    }

    pub fn count(&self) -> u32 {
        let held = self.holders_by_server();
        let count = |holders: &Vec<(String, u32)>| holders.iter().map(|(_, count)| count).sum();
        self.reached_by_majority(held.iter().map(count).collect())
    }

    /// `None` without a key.
    pub fn time_to_live(&self) -> Option<Duration> {
        let millis: Vec<i64> = self.ask(redis::cmd("PTTL").arg(&self.key));
        assert!(!millis.contains(&-1), "a lock without a time to live");
        let left = |millis| u64::try_from(millis).ok().map(Duration::from_millis);
        self.reached_by_majority(millis.into_iter().map(left).collect())
    }

    pub fn delete(&self) {
        self.run_command(redis::cmd("DEL").arg(&self.key));
    }

    /// In one step, so that no client sees the key missing.
    pub fn take_over(&self, owner: &str, lease: Duration) {
        let lease = u64::try_from(lease.as_millis()).expect("a lease");
        let mut pipe = redis::pipe();
        pipe.atomic().cmd("DEL").arg(&self.key);
        pipe.cmd("HSET").arg(&self.key);
        match self.form {
            Form::Owner => pipe.arg(owner).arg(1),
            Form::ReadWrite => {
                let writer = format!("{owner}:write");
                pipe.arg("mode").arg("write").arg(writer).arg(1)
            }
        };
        pipe.cmd("PEXPIRE").arg(&self.key).arg(lease);
        for url in &self.homes {
            pipe.exec(&mut connect(url)).expect("the server replies");
        }
    }
}
