//! A master, two replicas, and three sentinels that replace the master when it is gone.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::LazyLock;

use redis::Cmd;

use super::replication::{Replication, is_complete};
use super::{Options, Port, REPLICATION, Server, Shared, eventually, eventually_some, millis};

const HOST: &str = "127.0.0.1";
const MASTER_NAME: &str = "mymaster";
const SERVERS: usize = 3;
const SENTINELS: usize = 3;
const QUORUM: usize = 2;

/// How long a master may be silent, in milliseconds before scaling.
const DOWN_AFTER: u64 = 1_000;

/// A failover that did not succeed is tried again after twice this time.
const FAILOVER_TIMEOUT: u64 = 3_000;

/// Periods of the sentinels' own, in milliseconds. With what they have by default, a failover is
/// known to all of them after two seconds, and an old master that comes back is demoted after
/// eight; a sentinel that was not scheduled for two seconds does nothing for thirty. A sentinel
/// connects no sooner again than after a ping period: at the default of a second, that is, when
/// the new master counts as silent already, and is replaced itself; the more so as it remembers
/// for five ask periods that the others could not reach the old one. But while the master is away it asks
/// replicas once a second whatever is set, and takes none that has not answered for five ping periods.
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
    /// All replicas are online, and all sentinels know each other, when this returns.
    pub fn start() -> Self {
        Self::start_with(Options::default, None)
    }

    /// The servers of data have this password; the sentinels have none.
    pub fn start_with_password(password: &str) -> Self {
        Self::start_with(Options::default, Some(password))
    }

    /// The one of this process, for tests that harm no server.
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
        // Who finds nobody to connect to looks again a second later: replicas after their master,
        // sentinels after all.
        let replicas = servers.split_off(1);
        let mut servers = Server::start_all(servers);
        servers.extend(Server::start_all(replicas));
        let sentinels = (0..SENTINELS)
            .map(|index| options().sentinel(configuration(data, sentinels, index, password)));
        let sentinels = sentinels.zip(ports).map(at).collect();
        let sentinels = Server::start_all(sentinels);
        let deployment = Self { servers, sentinels };
        for sentinel in &deployment.sentinels {
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

    /// The servers of data, whatever they are now.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// By which the sentinels know the master.
    pub fn master_name(&self) -> &'static str {
        MASTER_NAME
    }

    /// Who it is now, as the first sentinel says that is up.
    pub fn master(&self) -> &Server {
        let mut sentinels = self.sentinels.iter().filter(|sentinel| sentinel.is_up());
        let sentinel = sentinels.next().expect("a sentinel");
        self.named_by(sentinel).expect("it names one of ours")
    }

    /// As a crash. Gives the server that was the master.
    pub fn kill_master(&self) -> &Server {
        let master = self.master();
        master.kill();
        master
    }

    /// It hangs until [`Server::resume`]. Gives the server that was the master.
    pub fn pause_master(&self) -> &Server {
        let master = self.master();
        master.pause();
        master
    }

    /// Waits until every sentinel names another master than the old one, and that is one. Gives
    /// the new one.
    pub fn await_new_master(&self, old: &Server) -> &Server {
        eventually_some("a new master", || {
            let master = self.named_by_all()?;
            let is_new = master.port() != old.port();
            (is_new && Replication::of(master)?.is_master()).then_some(master)
        })
    }

    /// As an operator does it. Gives the new master; the old one follows it when this returns.
    pub fn fail_over(&self) -> &Server {
        let old = self.master();
        let fail_over = sentinel_command(&["FAILOVER", MASTER_NAME]);
        // Refused while the last one is not over, or a replica is not known well enough.
        eventually("a failover to begin", || {
            self.sentinels[0].try_ask::<()>(&fail_over).is_some()
        });
        let new = self.await_new_master(old);
        self.await_calm();
        new
    }

    /// Starts what was killed and resumes what was paused. All servers follow one master when this
    /// returns.
    pub fn start_killed_again(&self) {
        for server in self.servers.iter().chain(&self.sentinels) {
            server.bring_back();
        }
        self.await_calm();
    }

    /// Waits until all sentinels that are up name one master and agree that they could replace it,
    /// and all other servers that are up follow it.
    pub fn await_calm(&self) {
        eventually("sentinels that agree, and replicas that are online", || {
            let Some(master) = self.named_by_all() else {
                return false;
            };
            let mut sentinels = self.sentinels.iter().filter(|sentinel| sentinel.is_up());
            is_complete(master, &self.servers) && sentinels.all(|sentinel| self.is_ready(sentinel))
        });
    }

    /// Whether a sentinel hears the others, and knows all servers that are up to be in their place.
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

/// A server of data as it begins: the first is the master.
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

/// What a sentinel would write down itself after some seconds: it knows everybody at once.
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
