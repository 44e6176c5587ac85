//! A deployment with a proxy before each server that can have locks.

use std::sync::Arc;
use std::time::Duration;

use leasehold::LockClientBuilder;
use parking_lot::Mutex;

use super::deployment::{Deployment, NEVER, builder_of};
use super::proxied_server::{RedisView, load_scripts};
use crate::support::deployment::{ClusterDeployment, SentinelDeployment};
use crate::support::proxy::{self, Fault, Proxy, Request};
use crate::support::server::Server;
use crate::support::timing::eventually;

/// Without replicas, which would follow a proxy.
pub struct ProxiedDeployment<'a> {
    deployment: &'a Deployment,
    servers: Vec<&'a Server>,
    proxies: Vec<Proxy>,
}

impl<'a> ProxiedDeployment<'a> {
    pub fn new(deployment: &'a Deployment) -> Self {
        let servers = deployment.servers();
        let proxies: Vec<_> = servers
            .iter()
            .map(|s| proxy::before(&s.address()))
            .collect();
        let is_replica = |server: &&Server| servers.iter().all(|s| s.port() != server.port());
        deployment
            .all_servers()
            .iter()
            .filter(is_replica)
            .for_each(Server::kill);
        servers.iter().for_each(|server| load_scripts(server));
        match deployment {
            Deployment::OneServer(_) => {}
            Deployment::Sentinel(deployment) => monitor(deployment, servers[0], &proxies[0]),
            Deployment::Cluster(cluster) => announce(cluster, &servers, &proxies),
        }
        Self {
            deployment,
            servers,
            proxies,
        }
    }

    /// A builder for a client for which a lost reply costs `timeout`.
    pub fn builder(&self, timeout: Duration) -> LockClientBuilder {
        let target = match self.deployment {
            Deployment::OneServer(_) => self.proxies[0].url(),
            Deployment::Sentinel(_) => self.deployment.target(),
            Deployment::Cluster(_) => {
                let urls: Vec<_> = self.proxies.iter().map(Proxy::url).collect();
                urls.join(",")
            }
        };
        builder_of(&target).command_timeout(timeout)
    }

    /// Calls [`Proxy::on_request`] on all proxies.
    pub fn on_request(&self, rule: impl FnMut(&Request) -> Fault + Send + 'static) {
        let rule = Arc::new(Mutex::new(rule));
        for proxy in &self.proxies {
            let rule = Arc::clone(&rule);
            proxy.on_request(move |request| (rule.lock())(request));
        }
    }

    pub fn clear_rules(&self) {
        self.proxies.iter().for_each(Proxy::clear_rules);
    }

    /// A view of the server that has this lock.
    pub fn view(&self, name: &str) -> RedisView {
        let shard = match self.deployment {
            Deployment::Cluster(cluster) => cluster.shards_of(&[name.to_owned()])[0],
            _ => 0,
        };
        RedisView(self.servers[shard].connection())
    }

    /// True if no lock is left.
    pub fn is_empty(&self) -> bool {
        let mut servers = self.servers.iter();
        servers.all(|server| server.ask::<u32>(&redis::cmd("DBSIZE")) == 0)
    }
}

fn port_of(proxy: &Proxy) -> u16 {
    let port = proxy.address().rsplit(':').next().map(str::parse);
    port.and_then(Result::ok).expect("host and port")
}

/// Makes the sentinels monitor the proxy as the master.
fn monitor(deployment: &SentinelDeployment, master: &Server, proxy: &Proxy) {
    eventually("the replicas to be gone", || {
        let info: String = master.ask(redis::cmd("INFO").arg("replication"));
        info.contains("connected_slaves:0")
    });
    let name = deployment.master_name();
    for sentinel in deployment.sentinels() {
        let ask = |words: &[&str]| sentinel.ask::<()>(redis::cmd("SENTINEL").arg(words));
        ask(&["REMOVE", name]);
        ask(&[
            "MONITOR",
            name,
            "127.0.0.1",
            &port_of(proxy).to_string(),
            "2",
        ]);
        ask(&["SET", name, "down-after-milliseconds", NEVER]);
    }
}

/// Makes the nodes announce the addresses of their proxies.
fn announce(cluster: &ClusterDeployment, primaries: &[&Server], proxies: &[Proxy]) {
    let set = |name: &str, value: &str| {
        let set = redis::cmd("CONFIG").arg("SET").arg(name).arg(value).clone();
        primaries.iter().for_each(|primary| primary.ask::<()>(&set));
    };
    // The announcement is sent with the next ping, of which there are two in this time.
    set("cluster-node-timeout", "1000");
    for (primary, proxy) in primaries.iter().zip(proxies) {
        let mut port = redis::cmd("CONFIG");
        port.arg("SET")
            .arg("cluster-announce-port")
            .arg(port_of(proxy));
        primary.ask::<()>(&port);
    }
    eventually("all nodes to announce the proxies", || {
        primaries.iter().all(|primary| {
            let nodes: String = primary.ask(redis::cmd("CLUSTER").arg("NODES"));
            let announced = |proxy| nodes.contains(&format!(":{}@", port_of(proxy)));
            proxies.iter().all(announced)
        })
    });
    set("cluster-node-timeout", NEVER);
    for slot in [0, 8_000, 16_000] {
        cluster.await_failover(slot);
    }
}
