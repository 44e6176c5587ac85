//! The primaries of the cluster that a bench uses.

use std::{cell::RefCell, collections::HashSet, net::SocketAddr};

use redis::Connection;

use super::{
    deployments::ClusterDeployment,
    support::{
        raw_client::RawClient,
        renewal_cost::ServerCounts,
        server::{CommandCounts, address_of},
    },
};

/// The first slot of each primary of the deployment.
const FIRST_SLOTS: [u16; 3] = [0, 5461, 10923];

/// The three primaries, in the order of their slots.
pub struct Primaries {
    urls: Vec<String>,
    connections: RefCell<Vec<Connection>>,
}

impl Primaries {
    pub fn of(cluster: &ClusterDeployment) -> Self {
        let primaries = cluster.primaries();
        let connections = primaries.iter().map(|one| one.connection()).collect();
        Self {
            urls: primaries.iter().map(|one| one.url()).collect(),
            connections: RefCell::new(connections),
        }
    }

    pub fn raw(&self, shard: usize) -> RawClient {
        let client = redis::Client::open(self.urls[shard].as_str());
        let connection = client.expect("a valid URL").get_connection();
        RawClient::in_cluster(connection.expect("the server is up"))
    }

    /// `count` names in different slots, by primary.
    pub fn names(&self, prefix: &str, count: usize) -> Vec<Vec<String>> {
        let connection = &mut self.connections.borrow_mut()[0];
        let (mut names, mut slots) = (vec![Vec::new(); 3], HashSet::new());
        for name in (0_u32..).map(|number| format!("{prefix}:{number}")) {
            if slots.len() == count {
                break;
            }
            let mut which = redis::cmd("CLUSTER");
            let slot: u16 = which
                .arg("KEYSLOT")
                .arg(&name)
                .query(connection)
                .expect("a slot");
            if slots.insert(slot) {
                let shard = FIRST_SLOTS.partition_point(|first| *first <= slot) - 1;
                names[shard].push(name);
            }
        }
        names
    }

    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.urls.iter().map(|url| address_of(url)).collect()
    }

    pub fn counted(&self) -> ServerCounts {
        let mut all = ServerCounts {
            calls: 0,
            reads: 0,
            locks: 0,
        };
        for primary in self.connections.borrow_mut().iter_mut() {
            let counts = CommandCounts::ask(primary);
            all.calls += counts.of("evalsha") + counts.of("eval");
            // Does not count the commands of replicas and of this bench, each of which is one read.
            let others = ["replconf", "info", "dbsize"].map(|name| counts.of(name));
            all.reads += reads(primary) - others.iter().sum::<u64>();
            let size: u64 = redis::cmd("DBSIZE").query(primary).expect("a number");
            all.locks += size;
        }
        all
    }
}

fn reads(primary: &mut Connection) -> u64 {
    let info: String = redis::cmd("INFO")
        .arg("stats")
        .query(primary)
        .expect("INFO works");
    let mut lines = info.lines();
    let reads = lines.find_map(|line| line.strip_prefix("total_reads_processed:"));
    reads
        .expect("Redis reports it")
        .trim()
        .parse()
        .expect("a number")
}
