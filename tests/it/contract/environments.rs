//! Where the locks are.

use std::slice;

use leasehold::LockClient;

use super::{Environment, Site};
use crate::support::builder;
use crate::support::certificates::TRUSTED;
use crate::support::deployment::{self, ClusterDeployment, SentinelDeployment, Shared};
use crate::support::server::Server;
use crate::support::timing::{LEASE, SOON};

/// Servers, and which of them has a key.
pub trait Deployment: Sync {
    fn servers(&self) -> &[Server];

    /// The place of the server that has the key.
    fn home_of(&self, key: &str) -> usize;
}

impl Deployment for Server {
    fn servers(&self) -> &[Server] {
        slice::from_ref(self)
    }

    fn home_of(&self, _: &str) -> usize {
        0
    }
}

/// One server over TCP.
pub struct OneServer;

impl Environment for OneServer {
    fn start() -> Site {
        let server = Server::start();
        Site::new(builder(&server.url()), server)
    }
}

/// The same, in a namespace.
pub struct Namespaced;

impl Environment for Namespaced {
    fn start() -> Site {
        OneServer::start().in_namespace("shop:")
    }
}

/// One server over its socket in the file system.
pub struct UnixSocket;

impl Environment for UnixSocket {
    fn start() -> Site {
        let server = Server::start();
        Site::new(builder(&server.unix_url()), server)
    }
}

/// One server over TLS.
pub struct Tls;

impl Environment for Tls {
    fn start() -> Site {
        let server = Server::options().tls(&TRUSTED.issue("127.0.0.1")).start();
        let url = format!("rediss://{}", server.tls_address());
        Site::new(builder(&url).ca_certificates(&*TRUSTED.pem), server)
    }
}

/// The master that three sentinels name. All tests share it.
pub struct Sentinel;

impl Environment for Sentinel {
    fn start() -> Site {
        let shared = SentinelDeployment::shared();
        let builder = LockClient::builder_sentinel(shared.sentinel_urls(), shared.master_name());
        Site::new(builder.watchdog_lease(LEASE.get()), shared)
    }
}

impl Deployment for Shared<SentinelDeployment> {
    fn servers(&self) -> &[Server] {
        SentinelDeployment::servers(self)
    }

    fn home_of(&self, _: &str) -> usize {
        place(self.servers(), self.master())
    }
}

/// A cluster of three primaries. All tests share it.
pub struct Cluster;

impl Environment for Cluster {
    fn start() -> Site {
        let shared = ClusterDeployment::shared();
        let builder = LockClient::builder_cluster(shared.urls());
        Site::new(builder.watchdog_lease(LEASE.get()), shared)
    }
}

impl Deployment for Shared<ClusterDeployment> {
    fn servers(&self) -> &[Server] {
        self.nodes()
    }

    fn home_of(&self, key: &str) -> usize {
        place(self.nodes(), self.primary_of(self.slot_of(key)))
    }
}

/// A master whose replica has every lock before it counts as taken. All tests share it.
pub struct Replicated;

impl Environment for Replicated {
    fn start() -> Site {
        let shared = deployment::Replicated::shared();
        Site::new(builder(&shared.url()).min_replicas(1, SOON.get()), shared)
    }
}

impl Deployment for Shared<deployment::Replicated> {
    fn servers(&self) -> &[Server] {
        slice::from_ref(self.master())
    }

    fn home_of(&self, _: &str) -> usize {
        0
    }
}

fn place(servers: &[Server], server: &Server) -> usize {
    let place = servers.iter().position(|one| one.port() == server.port());
    place.expect("one of its servers")
}
