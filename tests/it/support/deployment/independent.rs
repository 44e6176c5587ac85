//! Independent servers.

use std::sync::LazyLock;

use super::{Options, Server, Shared};

pub struct Independent {
    servers: Vec<Server>,
}

impl Independent {
    pub fn start(count: usize) -> Self {
        Self::start_with(Options::default, count)
    }

    /// The five shared servers of this process, for tests that harm none of them.
    pub fn shared() -> Shared<Self> {
        static SHARED: LazyLock<Independent> =
            LazyLock::new(|| Independent::start_with(|| Options::default().everlasting(), 5));
        Shared::of(&SHARED)
    }

    /// Five further shared servers, of which the last two were killed.
    pub fn shared_with_two_dead() -> Shared<Self> {
        static SHARED: LazyLock<Independent> = LazyLock::new(|| {
            let five = Independent::start_with(|| Options::default().everlasting(), 5);
            (3..5).for_each(|index| five.kill(index));
            five
        });
        Shared::of(&SHARED)
    }

    fn start_with(options: fn() -> Options, count: usize) -> Self {
        let options = (0..count).map(|_| options()).collect();
        let servers = Server::start_all(options);
        Self { servers }
    }

    pub fn urls(&self) -> Vec<String> {
        self.servers.iter().map(Server::url).collect()
    }

    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    pub fn server(&self, index: usize) -> &Server {
        &self.servers[index]
    }

    /// Cuts its connections, and refuses new ones.
    pub fn kill(&self, index: usize) {
        self.servers[index].kill();
    }

    /// Starts it again without its data.
    pub fn start_again(&self, index: usize) {
        self.servers[index].start_again();
    }

    /// It accepts connections and bytes, and replies nothing.
    pub fn pause(&self, index: usize) {
        self.servers[index].pause();
    }

    pub fn resume(&self, index: usize) {
        self.servers[index].resume();
    }
}
