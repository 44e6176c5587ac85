//! The environments of the contract: servers, and clients for them.

use std::slice;
use std::sync::LazyLock;

use leasehold::testing::InMemoryRedis;

use super::Site;
use crate::support::certificates::TRUSTED;
use crate::support::deployment::Shared;
use crate::support::prelude::*;

/// The servers of an environment, and which of them have a key.
pub trait Deployment: Sync {
    fn servers(&self) -> &[Server];

    /// The test's own connection to the server with this index.
    fn connection(&self, index: usize) -> Connection {
        self.servers()[index].connection()
    }

    /// The indexes of the servers that have the key.
    fn indexes_of(&self, _key: &str) -> Vec<usize> {
        vec![0]
    }

    /// The number of these servers that must have a lock for a client to hold it.
    fn needed(&self) -> usize {
        1
    }
}

/// Servers that only one test uses.
impl Deployment for Server {
    fn servers(&self) -> &[Server] {
        slice::from_ref(self)
    }
}

fn shared_server() -> Shared<Server> {
    static SHARED: LazyLock<Server> = LazyLock::new(|| Server::options().everlasting().start());
    Shared::of(&SHARED)
}

/// One server over TCP, shared by all tests.
pub fn one_server() -> Site {
    let shared = shared_server();
    Site::new(builder(&shared.url()), shared)
}

/// The server of `leasehold::testing`, which no other test uses.
pub fn in_memory() -> Site {
    let redis = InMemoryRedis::start().expect("loopback");
    Site::new(redis.builder().watchdog_lease(LEASE.get()), redis)
}

impl Deployment for InMemoryRedis {
    fn servers(&self) -> &[Server] {
        &[]
    }

    fn connection(&self, _: usize) -> Connection {
        let client = redis::Client::open(self.url()).expect("the address is valid");
        client.get_connection().expect("the server replies")
    }
}

/// One server over TCP that no other test uses.
pub fn own_server() -> Site {
    let server = Server::start();
    Site::new(builder(&server.url()), server)
}

/// One server over TCP with a namespace, shared by all tests.
pub fn namespaced() -> Site {
    one_server().in_namespace("shop:")
}

/// One server over its Unix socket, shared by all tests.
pub fn unix_socket() -> Site {
    let shared = shared_server();
    Site::new(builder(&shared.unix_url()), shared)
}

/// One server over TLS, shared by all tests.
pub fn tls() -> Site {
    static SHARED: LazyLock<Server> = LazyLock::new(|| {
        let identity = TRUSTED.issue("127.0.0.1");
        Server::options().everlasting().tls(&identity).start()
    });
    let shared = Shared::of(&SHARED);
    let url = format!("rediss://{}", shared.tls_address());
    Site::new(builder(&url).ca_certificates(&*TRUSTED.pem), shared)
}

impl Deployment for Shared<Server> {
    fn servers(&self) -> &[Server] {
        slice::from_ref(self)
    }
}

/// The master that three sentinels name, shared by all tests.
pub fn sentinel() -> Site {
    let shared = SentinelDeployment::shared();
    let builder = LockClient::builder_sentinel(shared.sentinel_urls(), shared.master_name());
    Site::new(builder.watchdog_lease(LEASE.get()), shared)
}

impl Deployment for Shared<SentinelDeployment> {
    fn servers(&self) -> &[Server] {
        SentinelDeployment::servers(self)
    }

    fn indexes_of(&self, _: &str) -> Vec<usize> {
        vec![place(self.servers(), self.master())]
    }
}

/// A cluster of three primaries, shared by all tests.
pub fn cluster() -> Site {
    let shared = ClusterDeployment::shared();
    let builder = LockClient::builder_cluster(shared.urls());
    Site::new(builder.watchdog_lease(LEASE.get()), shared)
}

impl Deployment for Shared<ClusterDeployment> {
    fn servers(&self) -> &[Server] {
        self.nodes()
    }

    fn indexes_of(&self, key: &str) -> Vec<usize> {
        vec![place(self.nodes(), self.primary_of(self.slot_of(key)))]
    }
}

/// A master with one replica, which must confirm every lock. Shared by all tests.
pub fn replicated() -> Site {
    let shared = Replicated::shared();
    Site::new(builder(&shared.url()).min_replicas(1, SOON.get()), shared)
}

impl Deployment for Shared<Replicated> {
    fn servers(&self) -> &[Server] {
        slice::from_ref(self.master())
    }
}

/// Five independent servers, shared by all tests.
pub fn five_servers() -> Site {
    on_all_of(Independent::shared())
}

/// Five independent servers, of which two are dead. Shared by all tests.
pub fn five_servers_two_dead() -> Site {
    on_all_of(Independent::shared_with_two_dead())
}

fn on_all_of(shared: Shared<Independent>) -> Site {
    let builders = shared.urls().iter().map(|url| builder(url)).collect();
    Site::of_many(builders, shared)
}

impl Deployment for Shared<Independent> {
    fn servers(&self) -> &[Server] {
        Independent::servers(self)
    }

    /// All servers that are up.
    fn indexes_of(&self, _: &str) -> Vec<usize> {
        let servers = self.servers().iter().enumerate();
        servers
            .filter_map(|(place, server)| server.is_up().then_some(place))
            .collect()
    }

    fn needed(&self) -> usize {
        self.servers().len() / 2 + 1
    }
}

fn place(servers: &[Server], server: &Server) -> usize {
    let place = servers.iter().position(|one| one.port() == server.port());
    place.expect("one of its servers")
}
