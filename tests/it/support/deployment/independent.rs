//! Servers that know nothing of each other.

use super::{Options, Server};

pub struct Independent {
    servers: Vec<Server>,
}

impl Independent {
    pub fn start(count: usize) -> Self {
        let options = (0..count).map(|_| Options::default()).collect();
        let servers = Server::start_all(options);
        Self { servers }
    }

    pub fn urls(&self) -> Vec<String> {
        self.servers.iter().map(Server::url).collect()
    }

    pub fn server(&self, index: usize) -> &Server {
        &self.servers[index]
    }

    /// Its connections are cut, and new ones refused.
    pub fn kill(&self, index: usize) {
        self.servers[index].kill();
    }

    /// Without its data.
    pub fn start_again(&self, index: usize) {
        self.servers[index].start_again();
    }

    /// It takes connections and bytes, and answers nothing.
    pub fn pause(&self, index: usize) {
        self.servers[index].pause();
    }

    pub fn resume(&self, index: usize) {
        self.servers[index].resume();
    }
}
