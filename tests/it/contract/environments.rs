//! The environments of the contract: servers, and clients for them.

use std::sync::LazyLock;

use leasehold::testing::InMemoryRedis;

use super::Site;
use crate::support::certificates::TRUSTED;
use crate::support::deployment::Shared;
use crate::support::prelude::*;

fn shared_server() -> Shared<Server> {
    static SHARED: LazyLock<Server> = LazyLock::new(|| Server::options().everlasting().start());
    Shared::of(&SHARED)
}

/// One server over TCP, shared by all tests.
pub fn one_server() -> Site {
    let shared = shared_server();
    Site::new(builder(&shared.url()), move |_| vec![shared.url()])
}

/// The server of `leasehold::testing`, which no other test uses.
pub fn in_memory() -> Site {
    let redis = InMemoryRedis::start().expect("loopback");
    let builder = redis.builder().watchdog_lease(LEASE.get());
    Site::new(builder, move |_| vec![redis.url()])
}

/// One server over TCP that no other test uses.
pub fn own_server() -> Site {
    let server = Server::start();
    Site::new(builder(&server.url()), move |_| vec![server.url()])
}

/// One server over TCP with a namespace, shared by all tests.
pub fn namespaced() -> Site {
    one_server().in_namespace("shop:")
}

/// One server over its Unix socket, shared by all tests.
pub fn unix_socket() -> Site {
    let shared = shared_server();
    Site::new(builder(&shared.unix_url()), move |_| vec![shared.url()])
}

/// One server over TLS, shared by all tests.
pub fn tls() -> Site {
    static SHARED: LazyLock<Server> = LazyLock::new(|| {
        let identity = TRUSTED.issue("127.0.0.1");
        Server::options().everlasting().tls(&identity).start()
    });
    let shared = Shared::of(&SHARED);
    let builder = builder(&format!("rediss://{}", shared.tls_address()));
    let builder = builder.ca_certificates(&*TRUSTED.pem);
    Site::new(builder, move |_| vec![shared.url()])
}

/// The master that three sentinels name, shared by all tests.
pub fn sentinel() -> Site {
    let shared = SentinelDeployment::shared();
    let builder = LockClient::builder_sentinel(shared.sentinel_urls(), shared.master_name());
    let builder = builder.watchdog_lease(LEASE.get());
    Site::new(builder, move |_| vec![shared.master().url()])
}

/// A cluster of three primaries, shared by all tests.
pub fn cluster() -> Site {
    let shared = ClusterDeployment::shared();
    let builder = LockClient::builder_cluster(shared.urls());
    let builder = builder.watchdog_lease(LEASE.get());
    Site::new(builder, move |key| {
        vec![shared.primary_of(shared.slot_of(key)).url()]
    })
}

/// A master with one replica, which must confirm every lock. Shared by all tests.
pub fn replicated() -> Site {
    let shared = Replicated::shared();
    let builder = builder(&shared.url()).min_replicas(1, SOON.get());
    Site::new(builder, move |_| vec![shared.url()])
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
    Site::of_many(builders, move |_| {
        let up = shared.servers().iter().filter(|server| server.is_up());
        up.map(Server::url).collect()
    })
}
