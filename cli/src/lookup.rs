//! One lock or semaphore: its owners, and how many connections listen for its release.

use redis::{Cmd, ErrorKind, ServerErrorKind, Value};

use super::args::RedisArgs;
use super::kinds::Kind;
use super::name::Name;
use super::outcome::{Failure, NOT_HELD, Result, UNAVAILABLE, settle};
use super::probe::{Found, Probe, Share, command};
use super::reporter::Reporter;
use super::row::Row;
use leasehold::admin::{self, LockKeys, Server, ServerError};
use leasehold::{Error, LockClient, LockStatus};

/// How often a lock is read again that is released between two commands.
const LOOKS: usize = 10;

/// How many servers of a cluster are asked about one lock: redirects lead from one to the next.
const SERVERS: usize = 5;

/// A lock that is held, or a semaphore.
#[derive(Debug)]
pub(super) struct FoundLock {
    /// The index of the client that found it.
    pub(super) place: usize,
    /// The server that has its key.
    server: Server,
    /// Its key is moving to this server.
    asking: bool,
    pub(super) row: Row,
    pub(super) shares: Vec<Share>,
    /// How many connections listen for its release; `None` if the user may not read that.
    pub(super) listeners: Option<u64>,
}

/// The lock of this name at each server of a Redlock that has it, or at the only one.
pub(super) fn find_locks(
    redis: &RedisArgs,
    clients: &[LockClient],
    name: &Name,
    reporter: Reporter,
) -> Result<Vec<FoundLock>> {
    let mut found = Vec::new();
    let mut failures = Vec::new();
    for (place, client) in clients.iter().enumerate() {
        match find_lock(place, client, redis, name) {
            Ok(lock) => found.extend(lock),
            Err(failure) => failures.push(failure),
        }
    }
    settle(failures, clients.len(), redis.redlock, reporter)?;
    Ok(found)
}

/// The failure if no server has the lock.
pub(super) fn not_held(name: &Name, clients: &[LockClient]) -> Failure {
    let servers = deployments(clients);
    Failure::new(
        NOT_HELD,
        format!(
            "no client holds {name} at {servers}; leasehold list lists the locks that are held"
        ),
    )
}

/// The addresses of the servers, for messages.
pub(super) fn deployments(clients: &[LockClient]) -> String {
    let all: Vec<String> = clients.iter().map(admin::deployment).collect();
    all.join(", ")
}

/// The lock at the server of `client` that has it; `None` if no client holds it.
fn find_lock(
    place: usize,
    client: &LockClient,
    redis: &RedisArgs,
    name: &Name,
) -> Result<Option<FoundLock>> {
    let found = |server, asking, (row, shares)| FoundLock {
        place,
        server,
        asking,
        row,
        shares,
        listeners: None,
    };
    let Some(text) = name.text() else {
        // The library computes neither slot nor channels of such a name, so this asks all servers.
        for server in admin::servers(client)? {
            match look_at(client, &server, name, false) {
                Ok(None) => {}
                Ok(Some(lock)) => return Ok(Some(found(server, false, lock))),
                Err(Look::Refused(error)) if is(&error, ServerErrorKind::Moved) => {}
                Err(error) => return Err(error.into()),
            }
        }
        return Ok(None);
    };
    let mut home = admin::server_of(client, text)?;
    let (mut server, mut asking) = (home.clone(), false);
    for _ in 0..SERVERS {
        let error = match look_at(client, &server, name, asking) {
            Ok(None) => return Ok(None),
            Ok(Some(lock)) => {
                let mut lock = found(server, asking, lock);
                lock.listeners = lock.count_listeners(client, &home, text, redis.cluster);
                return Ok(Some(lock));
            }
            Err(Look::Refused(error)) => error,
            Err(error) => return Err(error.into()),
        };
        let Some(next) = server.redirect(client, text, &error) else {
            return Err(error.into());
        };
        server = next;
        asking = is(&error, ServerErrorKind::Ask);
        if !asking {
            home = server.clone();
        }
    }
    Err(Failure::new(UNAVAILABLE, "too many MOVED or ASK redirects"))
}

fn is(error: &ServerError, kind: ServerErrorKind) -> bool {
    error.cause.kind() == ErrorKind::Server(kind)
}

/// Why a look at a server found no lock.
enum Look {
    /// The server refused a command. Another one may have the lock.
    Refused(ServerError),
    Failed(Failure),
}

impl From<ServerError> for Look {
    fn from(error: ServerError) -> Self {
        Self::Refused(error)
    }
}

impl From<Look> for Failure {
    fn from(look: Look) -> Self {
        match look {
            Look::Refused(error) => error.into(),
            Look::Failed(failure) => failure,
        }
    }
}

/// The lock and its shares at this server.
fn look_at(
    client: &LockClient,
    server: &Server,
    name: &Name,
    asking: bool,
) -> Result<Option<(Row, Vec<Share>)>, Look> {
    let mut probe = Probe::connect(client, server)?;
    for _ in 0..LOOKS {
        match probe.find(name.bytes(), asking)? {
            Found::Gone => {}
            Found::Nothing => return Ok(None),
            Found::Other => not_a_lock(client, server, name).map_err(Look::Failed)?,
            Found::Held(mut row) => {
                let mut shares = probe.shares(&row, asking)?;
                if matches!(row.kind, Kind::Lock { .. } | Kind::ReadWrite { .. }) {
                    let clients = probe.clients();
                    row.find_holder(&clients);
                    for share in &mut shares {
                        share.holder = clients.holder(&share.who);
                    }
                }
                return Ok(Some((row, shares)));
            }
        }
    }
    let message = format!("the owner of {name} changes too quickly; try again");
    Err(Look::Failed(Failure::new(UNAVAILABLE, message)))
}

/// Fails with what the key is, unless it became a lock meanwhile, or was deleted.
fn not_a_lock(client: &LockClient, server: &Server, name: &Name) -> Result<()> {
    let what = match name.text().map(|name| client.inspect(name)) {
        Some(Err(error @ Error::WrongType { .. })) => return Err(error.into()),
        // This program does not show those with very many readers.
        Some(Ok(status)) if is_read_write(&status) => "a read-write lock",
        Some(Ok(_)) => return Ok(()),
        // There are no details, for example because the user may not run scripts.
        Some(Err(_)) | None => "a value that is not a lock",
    };
    Err(Failure::from(Error::WrongType {
        lock: name.lossy().into(),
        node: server.name().into(),
        found: format!("{what} in the key {:?}", name.lossy()),
    }))
}

fn is_read_write(status: &LockStatus) -> bool {
    let owner = status.owner.as_deref().unwrap_or_default();
    status.readers > 0 || owner.ends_with(":write")
}

impl FoundLock {
    /// Sends a command to the server of the lock.
    pub(super) fn run(&self, client: &LockClient, command: Cmd) -> Result<Value, ServerError> {
        Probe::connect(client, &self.server)?.run_one(command, self.asking)
    }

    /// How many connections listen for releases of the lock, and how many clients are in its line
    /// and do not listen. They listen at its server, `home`, also while its slot moves to another
    /// one. In a cluster with shard channels they use those.
    fn count_listeners(
        &self,
        client: &LockClient,
        home: &Server,
        name: &str,
        in_cluster: bool,
    ) -> Option<u64> {
        let keys = LockKeys::new(client, name);
        let channels = self.channels(&keys);
        let mut probe = Probe::connect(client, home).ok()?;
        let mut count = |command| probe.run(redis::cmd("PUBSUB").arg(command).arg(&channels));
        let sharded = in_cluster.then(|| count("SHARDNUMSUB").ok()).flatten();
        let reply = sharded.or_else(|| count("NUMSUB").ok())?;
        let counts: Vec<(Value, u64)> = probe.decode(reply).ok()?;
        let listening: u64 = counts.iter().map(|(_, listeners)| listeners).sum();
        Some(listening + self.count_line(client, &keys).unwrap_or(0))
    }

    /// How many clients are in the line of the lock and do not listen to its channel; `None` if the
    /// user may not ask, and while its slot moves to another server.
    fn count_line(&self, client: &LockClient, keys: &LockKeys) -> Option<u64> {
        let mut probe = Probe::connect(client, &self.server).ok()?;
        let mut count = |least: &str, most: &str| {
            let reply = probe
                .run(command("ZCOUNT", &keys.line).arg(least).arg(most))
                .ok()?;
            probe.decode::<u64>(reply).ok()
        };
        // Places have times as scores. That of the client which also listens to a semaphore is 1, in
        // a second entry.
        Some(count("1000000000", "+inf")?.saturating_sub(count("1", "1")?))
    }

    /// The channels on which clients listen for a release. Of a fair lock, each place has its own.
    fn channels(&self, keys: &LockKeys) -> Vec<String> {
        match self.row.kind {
            Kind::Lock { .. } => {
                let places = self.shares.iter();
                let places = places.map(|place| format!("{}:{}", keys.channel, place.who));
                places.chain([keys.channel.clone()]).collect()
            }
            Kind::ReadWrite { .. } => vec![keys.read_write_channel.clone()],
            Kind::Permits { .. } => vec![keys.semaphore_channel.clone()],
            Kind::Number(_) => vec![keys.semaphore_channel.clone(), keys.latch_channel.clone()],
        }
    }
}
