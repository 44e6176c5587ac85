//! The replication state of a server.

use super::Server;

/// `INFO replication`.
pub struct Replication(String);

impl Replication {
    /// `None` if the server is not up or does not reply.
    pub fn of(server: &Server) -> Option<Self> {
        let info = redis::cmd("INFO").arg("replication").clone();
        let info = server.is_up().then(|| server.try_ask(&info))?;
        info.map(Self)
    }

    pub fn is_master(&self) -> bool {
        self.field("role") == Some("master")
    }

    /// For a master: the number of replicas that get every write from now on.
    pub fn online(&self) -> usize {
        self.0.matches("state=online").count()
    }

    /// For a replica: whether it gets every write of the server at this port from now on.
    pub fn follows(&self, port: u16) -> bool {
        !self.is_master()
            && self.field("master_port") == Some(port.to_string().as_str())
            && self.field("master_link_status") == Some("up")
    }

    fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.0.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
    }
}

/// Whether `master` is a master, and all other servers that are up get its writes.
pub fn is_complete(master: &Server, servers: &[Server]) -> bool {
    let replicas = servers
        .iter()
        .filter(|server| server.port() != master.port());
    let mut up = replicas.filter(|server| server.is_up());
    let count = up.clone().count();
    Replication::of(master).is_some_and(|said| said.is_master() && said.online() == count)
        && up
            .all(|replica| Replication::of(replica).is_some_and(|said| said.follows(master.port())))
}
