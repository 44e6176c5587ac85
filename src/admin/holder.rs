//! In which process the holder of a lock is, by the names of connections.

use std::collections::HashMap;
use std::fmt;

use super::{Connection, Server, ServerError, key};
use crate::base::{LockKey, client_name};
use crate::client::LockClient;
use crate::core::Core;
use crate::engine;
use crate::error::{Cause, Result};

/// The process of a client that holds a lock, as [`LockClient::holder`] returns it.
///
/// `Display` writes host and process id: `web-3, process 4711`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The owner id of the lock in Redis.
    pub owner: String,
    /// The name of the host, as its system reports it. In a container it is that of the container.
    pub host: String,
    /// The process id, in the PID namespace of the process. In a container it is often 1.
    pub process_id: u32,
    /// The address of one of the client's connections, as Redis sees it: `host:port`, or the path
    /// of a socket and `:0`.
    pub address: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, process {}", self.host, self.process_id)
    }
}

/// The clients of this crate that are connected to one server, as [`Connection::clients`] reads
/// them.
#[derive(Clone, Debug, Default)]
pub struct ConnectedClients {
    /// By the UUID of the client: host, process id and address.
    processes: HashMap<String, (String, u32, String)>,
}

impl ConnectedClients {
    /// From the reply to CLIENT LIST: a line of `name=value` fields for each connection.
    fn parse(list: &str) -> Self {
        let process = |line: &str| {
            let field = |name| line.split(' ').find_map(|field| field.strip_prefix(name));
            let (client, host, process_id) = client_name::parse(field("name=")?)?;
            let address = field("addr=").unwrap_or_default().to_owned();
            Some((client.to_owned(), (host.to_owned(), process_id, address)))
        };
        Self {
            processes: list.lines().filter_map(process).collect(),
        }
    }

    /// Returns the process of the client with this owner id; `None` if no connection to the server
    /// has its name. No I/O.
    ///
    /// `owner` is an owner id as [`LockStatus::owner`](crate::LockStatus::owner) has it, or the
    /// place of a client in the queue of a fair lock.
    #[must_use]
    pub fn holder(&self, owner: &str) -> Option<Holder> {
        let client = owner.split(':').next()?;
        let (host, process_id, address) = self.processes.get(client)?;
        Some(Holder {
            owner: owner.into(),
            host: host.clone(),
            process_id: *process_id,
            address: address.clone(),
        })
    }
}

impl Connection {
    /// Asks the server which clients of this crate are connected to it (`CLIENT LIST`). Needs the
    /// permission `+client|list`.
    ///
    /// The server lists all its connections at once, and serves no other client meanwhile: for
    /// 1,000 connections about a millisecond, and a reply of 340 KB.
    ///
    /// A client that holds a lock has a connection to the server of the lock, on which it acquired
    /// or renewed it. After a failover, and after the slot of the lock has moved, that takes until
    /// its next request.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = redis_test::server::RedisServer::new();
    /// # let url = &format!("redis://{}", server.addr);
    /// use leasehold::{LockClient, admin};
    ///
    /// let client = LockClient::connect(url)?;
    /// let guard = client.reentrant_lock("order:pay").acquire()?;
    /// let owner = client.inspect("order:pay")?.owner.expect("it is held");
    /// let clients = admin::server_of(&client, "order:pay")?.connect()?.clients()?;
    /// let holder = clients.holder(&owner).expect("it is this process");
    /// assert_eq!(holder.process_id, std::process::id());
    /// # guard.unlock()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`run`](Self::run). No panics.
    pub fn clients(&mut self) -> Result<ConnectedClients, ServerError> {
        let reply = self.run(redis::cmd("CLIENT").arg("LIST").arg("TYPE").arg("normal"))?;
        let list: String = redis::from_redis_value(reply).unwrap_or_default();
        Ok(ConnectedClients::parse(&list))
    }
}

impl LockClient {
    /// Asks Redis which process holds the lock with this name. `None` if the lock is free, or if
    /// its owner is unknown: it belongs to another program, such as Redisson, or to a client whose
    /// connections have [no name](crate::LockClientBuilder::name_connections).
    ///
    /// Sends the request of [`inspect`](Self::inspect), and then `CLIENT LIST` on a new connection
    /// to the server of the lock. The server serves no other client while it lists its connections:
    /// for 1,000 connections about a millisecond. So call this when a person wants to know it, and
    /// not for each lock. Needs the permission `+client|list`.
    ///
    /// The answer is a hint for people: any client may choose any name. Of the readers of a
    /// read-write lock, it is the one of [`LockStatus::owner`](crate::LockStatus::owner). Of a lock
    /// that a client keeps after its [unlock](crate::LockGuard::unlock_after), or has [given
    /// away](crate::OwnedGuard::into_token), it is that client, until another one adopts the lock.
    ///
    /// ```
    /// # fn main() -> leasehold::Result<()> {
    /// # let server = redis_test::server::RedisServer::new();
    /// # let url = &format!("redis://{}", server.addr);
    /// use leasehold::LockClient;
    ///
    /// let client = LockClient::connect(url)?;
    /// let guard = client.reentrant_lock("order:pay").acquire()?;
    /// if let Some(holder) = client.holder("order:pay")? {
    ///     println!("held by {holder}"); // held by web-3, process 4711
    ///     assert_eq!(holder.process_id, std::process::id());
    /// }
    /// # guard.unlock()?;
    /// # assert!(client.holder("order:pay")?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`inspect`](Self::inspect), and the same for `CLIENT LIST`:
    /// [`Error::Redis`](crate::Error::Redis) with a hint if the user may not use it, and
    /// [`Error::Unavailable`](crate::Error::Unavailable) after one connect timeout and one command
    /// timeout. No panics.
    pub fn holder(&self, name: &str) -> Result<Option<Holder>> {
        holder(&self.core, &key(self, name))
    }
}

/// The process that holds the lock with this key.
pub(super) fn holder(core: &Core, key: &LockKey) -> Result<Option<Holder>> {
    let Some(owner) = engine::inspect(core, key)?.owner else {
        return Ok(None);
    };
    let redis = &core.redis;
    // It has just replied.
    let Some(server) = redis.topology.last_known(key) else {
        return Ok(None);
    };
    let budget = core.budget_for_a_reply();
    let server = Server::new(redis, server);
    let clients = server.connect().and_then(|mut server| server.clients());
    let clients = clients.map_err(|error| {
        if error.is_reply() && !error.is_temporary() {
            redis.refusal(key, error.cause)
        } else {
            redis.unavailable(key, &budget, Cause::from(error.cause))
        }
    })?;
    Ok(clients.holder(&owner))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";

    #[test]
    fn the_process_of_an_owner_is_that_of_its_connection() {
        let list = format!(
            "id=3 addr=10.0.0.7:50312 laddr=10.0.0.1:6379 fd=8 name= age=1 flags=N cmd=ping\n\
             id=4 addr=10.0.0.8:50313 fd=9 name=leasehold:{ID}:web-3:4711 age=1 user=locks\n\
             id=5 addr=10.0.0.9:50314 fd=10 name=redisson age=1\n"
        );
        let clients = ConnectedClients::parse(&list);
        for owner in [format!("{ID}:17"), format!("{ID}:17:write"), ID.to_owned()] {
            let holder = clients.holder(&owner).unwrap();
            assert_eq!(holder.to_string(), "web-3, process 4711");
            assert_eq!((holder.owner, &*holder.address), (owner, "10.0.0.8:50313"));
        }
        for unknown in ["", "redisson", "552b71c4-9dad-11d1-80b4-00c04fd430c8:17"] {
            assert_eq!(clients.holder(unknown), None);
        }
    }
}
