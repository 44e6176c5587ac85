//! A master, two replicas, and three sentinels that replace the master when it fails.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::LazyLock;

use redis::Cmd;

use super::replication::{Replication, is_complete};
use super::{Options, Port, REPLICATION, Server, Shared};
use super::{eventually, eventually_some, is_redis_7, millis};

const HOST: &str = "127.0.0.1";
const MASTER_NAME: &str = "mymaster";
const SERVERS: usize = 3;
const SENTINELS: usize = 3;
const QUORUM: usize = 2;

/// The time without a reply after which a master counts as down, in milliseconds before scaling.
const DOWN_AFTER: u64 = 1_000;

/// Sentinels retry a failed failover after twice this time.
const FAILOVER_TIMEOUT: u64 = 3_000;

/// Internal periods of the sentinels, in milliseconds. With the defaults, all sentinels know of a
/// failover after two seconds, and demote a returning old master after eight; a sentinel that was
/// not scheduled for two seconds does nothing for thirty. A sentinel reconnects at the earliest
/// after one ping period. With the default of a second the new master would already count as down,
/// and would itself be replaced, in particular because the sentinel remembers for five ask periods
/// that the others could not reach the old one. While the master is down it queries replicas only
/// once a second, and ignores replicas that have not replied for five ping periods. Before Redis 7
/// the defaults cannot be changed.
const PERIODS: [(&str, u64); 5] = [
    ("ask-period", 200),
    ("publish-period", 200),
    ("info-period", 500),
    ("ping-period", 400),
    ("tilt-period", 1_000),
];

pub struct SentinelDeployment {
    servers: Vec<Server>,
    sentinels: Vec<Server>,
}

impl SentinelDeployment {
    /// Starts a deployment. All replicas are online, and all sentinels know each other, when this
    /// returns.
    pub fn start() -> Self {
        Self::start_with(Options::default, None)
    }

    /// The servers with data have this password; the sentinels have none.
    pub fn start_with_password(password: &str) -> Self {
        Self::start_with(Options::default, Some(password))
    }

    /// The shared deployment of this process, for tests that harm no server.
    pub fn shared() -> Shared<Self> {
        static SHARED: LazyLock<SentinelDeployment> = LazyLock::new(|| {
            SentinelDeployment::start_with(|| Options::default().everlasting(), None)
        });
        Shared::of(&SHARED)
    }

    fn start_with(options: fn() -> Options, password: Option<&str>) -> Self {
        let ports: Vec<Port> = (0..SERVERS + SENTINELS).map(|_| Port::reserve()).collect();
        let numbers: Vec<u16> = ports.iter().map(Port::number).collect();
        let (data, sentinels) = numbers.split_at(SERVERS);
        let mut ports = ports.into_iter();
        let servers = (0..SERVERS).map(|index| server(options(), data, index, password));
        let mut servers: Vec<_> = servers.zip(&mut ports).map(at).collect();
        // A process that cannot connect retries a second later. So replicas start after their
        // master, and the sentinels last.
        let replicas = servers.split_off(1);
        let mut servers = Server::start_all(servers);
        servers.extend(Server::start_all(replicas));
        let sentinels = (0..SENTINELS)
            .map(|index| options().sentinel(configuration(data, sentinels, index, password)));
        let sentinels = sentinels.zip(ports).map(at).collect();
        let sentinels = Server::start_all(sentinels);
        let deployment = Self { servers, sentinels };
        for sentinel in deployment.sentinels.iter().filter(|_| is_redis_7()) {
            for (name, period) in PERIODS {
                let set = sentinel_command(&["DEBUG", name, &period.to_string()]);
                sentinel.ask::<()>(&set);
            }
        }
        deployment.await_calm();
        deployment
    }

    pub fn sentinel_urls(&self) -> Vec<String> {
        self.sentinels.iter().map(Server::url).collect()
    }

    pub fn sentinels(&self) -> &[Server] {
        &self.sentinels
    }

    /// The servers with data, whatever their current roles.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The name of the master for the sentinels.
    pub fn master_name(&self) -> &'static str {
        MASTER_NAME
    }

    /// The current master according to the first sentinel that is up.
    pub fn master(&self) -> &Server {
        let mut sentinels = self.sentinels.iter().filter(|sentinel| sentinel.is_up());
        let sentinel = sentinels.next().expect("a sentinel");
        self.named_by(sentinel).expect("it names one of ours")
    }

    /// Kills the master and returns that server.
    pub fn kill_master(&self) -> &Server {
        let master = self.master();
        master.kill();
        master
    }

    /// Pauses the master until [`Server::resume`] and returns that server.
    pub fn pause_master(&self) -> &Server {
        let master = self.master();
        master.pause();
        master
    }

    /// Waits until every sentinel names another master than `old`, and that server is a master.
    /// Returns the new master.
    pub fn await_new_master(&self, old: &Server) -> &Server {
        eventually_some("a new master", || {
            let master = self.named_by_all()?;
            let is_new = master.port() != old.port();
            (is_new && Replication::of(master)?.is_master()).then_some(master)
        })
    }

    /// A manual failover. Returns the new master; the old one follows it when this returns.
    pub fn fail_over(&self) -> &Server {
        let old = self.master();
        let fail_over = sentinel_command(&["FAILOVER", MASTER_NAME]);
        // Refused while the last failover is not over, or no replica is known well enough.
        eventually("a failover to begin", || {
            self.sentinels[0].try_ask::<()>(&fail_over).is_some()
        });
        let new = self.await_new_master(old);
        self.await_calm();
        new
    }

    /// Starts killed servers and resumes paused ones. All servers follow one master when this
    /// returns.
    pub fn start_killed_again(&self) {
        for server in self.servers.iter().chain(&self.sentinels) {
            server.bring_back();
        }
        self.await_calm();
    }

    /// Waits until all sentinels that are up name one master and could replace it, and all other
    /// servers that are up follow it.
    pub fn await_calm(&self) {
        eventually("sentinels that agree, and replicas that are online", || {
            let Some(master) = self.named_by_all() else {
                return false;
            };
            let mut sentinels = self.sentinels.iter().filter(|sentinel| sentinel.is_up());
            is_complete(master, &self.servers) && sentinels.all(|sentinel| self.is_ready(sentinel))
        });
    }

    /// Whether a sentinel reaches the others, and knows the roles of all servers that are up.
    fn is_ready(&self, sentinel: &Server) -> bool {
        let mut others = 0;
        for command in ["REPLICAS", "SENTINELS"] {
            let command = sentinel_command(&[command, MASTER_NAME]);
            let known: Option<Vec<HashMap<String, String>>> = sentinel.try_ask(&command);
            let known = known.unwrap_or_default();
            let is_well = |one: &&HashMap<String, String>| {
                let flags = one.get("flags").map(String::as_str);
                let link = one.get("master-link-status");
                matches!(flags, Some("slave" | "sentinel")) && link.is_none_or(|link| link == "ok")
            };
            others += known.iter().filter(is_well).count();
        }
        let members = self.servers.iter().chain(&self.sentinels);
        others + 2 == members.filter(|member| member.is_up()).count()
    }

    fn named_by_all(&self) -> Option<&Server> {
        let sentinels = self.sentinels.iter().filter(|sentinel| sentinel.is_up());
        let mut named = sentinels.map(|sentinel| self.named_by(sentinel));
        let first = named.next()??;
        named
            .all(|other| other.is_some_and(|other| other.port() == first.port()))
            .then_some(first)
    }

    fn named_by(&self, sentinel: &Server) -> Option<&Server> {
        let which = sentinel_command(&["GET-MASTER-ADDR-BY-NAME", MASTER_NAME]);
        let (_, port): (String, u16) = sentinel.try_ask(&which)?;
        self.servers.iter().find(|server| server.port() == port)
    }
}

fn at((options, port): (Options, Port)) -> Options {
    options.port(port)
}

/// A server with data at the start: the first is the master.
fn server(options: Options, ports: &[u16], index: usize, password: Option<&str>) -> Options {
    let mut options = options.arguments(&REPLICATION);
    if let Some(password) = password {
        let to_the_master = ["--masterauth", password];
        options = options.password(password).arguments(&to_the_master);
    }
    if index > 0 {
        options = options.arguments(&["--replicaof", HOST, &ports[0].to_string()]);
    }
    options
}

/// The file that a sentinel would itself write after some seconds, so that it knows all others at
/// once.
fn configuration(
    servers: &[u16],
    sentinels: &[u16],
    index: usize,
    password: Option<&str>,
) -> String {
    let id = |port: u16| format!("{port:040x}");
    let mut lines = vec![
        format!("myid {}", id(sentinels[index])),
        format!("monitor {MASTER_NAME} {HOST} {} {QUORUM}", servers[0]),
    ];
    let down_after = millis(DOWN_AFTER).as_millis();
    lines.push(format!(
        "down-after-milliseconds {MASTER_NAME} {down_after}"
    ));
    let failover_timeout = millis(FAILOVER_TIMEOUT).as_millis();
    lines.push(format!("failover-timeout {MASTER_NAME} {failover_timeout}"));
    lines.extend(password.map(|password| format!("auth-pass {MASTER_NAME} {password}")));
    for port in &servers[1..] {
        lines.push(format!("known-replica {MASTER_NAME} {HOST} {port}"));
    }
    for port in sentinels.iter().filter(|port| **port != sentinels[index]) {
        let id = id(*port);
        lines.push(format!("known-sentinel {MASTER_NAME} {HOST} {port} {id}"));
    }
    lines.iter().fold(String::new(), |mut text, line| {
        writeln!(text, "sentinel {line}").expect("a string takes all");
        text
    })
}

fn sentinel_command(arguments: &[&str]) -> Cmd {
    redis::cmd("SENTINEL").arg(arguments).clone()
}
