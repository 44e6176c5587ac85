//! What `Debug` shows of a builder: no secret.

use std::fmt;

use super::LockClientBuilder;

impl fmt::Debug for LockClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockClientBuilder")
            .field("watchdog_lease", &self.watchdog_lease)
            .field("linger", &self.linger)
            .field("confirm_every", &self.confirm_every)
            .field("connections", &self.connections)
            .field("pool_size", &self.pool_size)
            .field("pool_timeout", &self.pool_timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("command_timeout", &self.command_timeout)
            .field("namespace", &self.namespace)
            .field("min_replicas", &self.min_replicas)
            .field("name_connections", &self.name_connections)
            .finish_non_exhaustive()
    }
}
