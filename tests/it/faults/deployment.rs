//! The deployments in which a test runs: one server, and a cluster. Behind sentinels, a client uses
//! one server.

use redis::FromRedisValue;

use crate::support::prelude::*;

/// Makes a test of each row on one server and in a cluster. The rows before the semicolon run on one
/// server by default. All others are ignored; `scripts/soak` runs them.
macro_rules! everywhere {
    ($($quick:ident)*; $($slow:ident)*) => {
        rows! { one_server: [cfg(all())] $($quick)*; [ignore = "soak"] $($slow)* }
        rows! { cluster: [ignore = "soak"] $($quick)* $($slow)* }
    };
}

/// The tests of rows in one place, with an attribute.
macro_rules! rows {
    ($place:ident: $($attribute:tt $($row:ident)*);*) => {
        mod $place {
            $($(#[test] #$attribute fn $row() {
                super::$row(&$crate::faults::deployment::Deployment::$place());
            })*)*
        }
    };
}

/// Servers that only this test uses, and that do not fail over.
pub enum Deployment {
    OneServer(Box<Server>),
    Cluster(ClusterDeployment),
}

impl Deployment {
    pub fn one_server() -> Self {
        Self::OneServer(Box::new(Server::start()))
    }

    /// The cluster does not fail over here when a primary hangs.
    pub fn cluster() -> Self {
        let cluster = ClusterDeployment::start();
        for node in cluster.nodes() {
            let mut config = redis::cmd("CONFIG");
            node.ask::<()>(config.arg("SET").arg("cluster-node-timeout").arg("600000"));
        }
        Self::Cluster(cluster)
    }

    /// One word that another process passes to [`builder_of`].
    pub fn target(&self) -> String {
        match self {
            Self::OneServer(server) => server.url(),
            Self::Cluster(cluster) => cluster.urls().join(","),
        }
    }

    /// A builder with leases that are short enough for a test.
    pub fn builder(&self) -> LockClientBuilder {
        builder_of(&self.target())
    }

    pub fn client(&self) -> LockClient {
        self.builder().build().expect("the settings are valid")
    }

    /// All servers that can have locks.
    pub fn servers(&self) -> Vec<&Server> {
        match self {
            Self::OneServer(server) => vec![server],
            Self::Cluster(cluster) => cluster.primaries(),
        }
    }

    /// All servers, for a change of users or scripts.
    pub fn all_servers(&self) -> &[Server] {
        match self {
            Self::OneServer(server) => std::slice::from_ref(&**server),
            Self::Cluster(cluster) => cluster.nodes(),
        }
    }

    /// The server that has this lock.
    pub fn server_of(&self, name: &str) -> &Server {
        match self {
            Self::Cluster(cluster) => cluster.primary_of(cluster.slot_of(name)),
            _ => self.servers()[0],
        }
    }

    /// These names, grouped by the server that has them.
    pub fn by_server(&self, names: &[String]) -> Vec<(&Server, Vec<String>)> {
        let mut homes: Vec<_> = self.servers().into_iter().map(|s| (s, vec![])).collect();
        let shards = match self {
            Self::Cluster(cluster) => cluster.shards_of(names),
            _ => vec![0; names.len()],
        };
        for (name, shard) in names.iter().zip(shards) {
            homes[shard].1.push(name.clone());
        }
        homes.retain(|(_, names)| !names.is_empty());
        homes
    }

    /// The reply to one command about this lock, from the server that has it.
    #[track_caller]
    pub fn ask<T: FromRedisValue>(&self, command: &str, name: &str) -> T {
        self.server_of(name).ask(redis::cmd(command).arg(name))
    }

    /// All servers that can have locks hang from now on.
    pub fn pause(&self) {
        self.servers().into_iter().for_each(Server::pause);
    }

    pub fn resume(&self) {
        let hanging = self.all_servers().iter().filter(|server| !server.is_up());
        hanging.for_each(Server::resume);
    }
}

/// The builder for the deployment that wrote this word.
pub fn builder_of(target: &str) -> LockClientBuilder {
    if !target.contains(',') {
        return builder(target);
    }
    LockClient::builder_cluster(target.split(',')).watchdog_lease(LEASE.get())
}
