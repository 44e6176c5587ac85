//! WAIT: a reply that comes when enough replicas have what a connection has written.

use std::rc::Weak;

use leasehold_simulation_world::network::SocketId;
use leasehold_simulation_world::time;

use crate::redis_server::RedisServer;
use crate::server::SessionId;

/// How often the server looks at what the replicas have.
const LOOKS: u64 = time::MS / 5;

/// A WAIT without a reply.
#[derive(Clone, Copy)]
struct Wait {
    socket: SocketId,
    session: SessionId,
    /// The command of the server that the replicas must have.
    written: u64,
    replicas: usize,
    deadline: u64,
}

impl RedisServer {
    /// Executes `WAIT replicas milliseconds`. The connection executes nothing until its reply.
    pub fn wait(&mut self, socket: SocketId, session: SessionId, command: &[Vec<u8>]) {
        let number = |at: usize| {
            let text = command.get(at).map(|word| String::from_utf8_lossy(word));
            text.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0)
        };
        self.waiting.insert(socket);
        self.look(Wait {
            socket,
            session,
            written: self.written.get(&session).copied().unwrap_or(0),
            replicas: usize::try_from(number(1)).unwrap_or(usize::MAX),
            deadline: time::now() + number(2) * time::MS,
        });
    }

    /// Replies if the wait is over, or else looks again later.
    fn look(&mut self, wait: Wait) {
        if self.session_of(wait.socket) != Some(wait.session) {
            return;
        }
        let confirmed = self.replication.confirmed(wait.written);
        let is_over = confirmed >= wait.replicas || time::now() >= wait.deadline;
        if is_over && !self.is_paused() {
            self.waiting.remove(&wait.socket);
            self.send_reply(wait.socket, format!(":{confirmed}\r\n").as_bytes());
            return;
        }
        let own = Weak::clone(&self.own);
        time::at(time::now() + LOOKS, move || {
            let Some(server) = own.upgrade() else {
                return;
            };
            let mut server = server.borrow_mut();
            server.look(wait);
            if !server.is_paused() {
                server.serve(wait.socket, wait.session);
            }
        });
    }
}
