//! The move of a slot from one primary to another, step by step.

use redis::Cmd;

use super::{ClusterDeployment, HOST, SOON, Server, eventually};

/// The number of keys of one request.
const BATCH: usize = 100;

/// A move that has begun. The old primary serves the keys that it still has, and redirects requests
/// for other keys with `ASK`. The new one serves requests after `ASKING`.
#[must_use = "the slot moves only by further calls"]
pub struct Migration<'c> {
    cluster: &'c ClusterDeployment,
    slot: u16,
    from: &'c Server,
    to: &'c Server,
}

impl<'c> Migration<'c> {
    pub(super) fn begin(cluster: &'c ClusterDeployment, slot: u16, to: &'c Server) -> Self {
        let from = cluster.primary_of(slot);
        let migration = Self {
            cluster,
            slot,
            from,
            to,
        };
        to.ask::<()>(&migration.set_slot("IMPORTING", from));
        from.ask::<()>(&migration.set_slot("MIGRATING", to));
        migration
    }

    /// Moves all present keys, each atomically.
    pub fn move_keys(&self) {
        let mut keys = redis::cmd("CLUSTER");
        keys.arg("GETKEYSINSLOT").arg(self.slot).arg(BATCH);
        loop {
            let keys: Vec<Vec<u8>> = self.from.ask(&keys);
            if keys.is_empty() {
                return;
            }
            self.move_these(&keys);
        }
    }

    /// Moves these keys together.
    pub fn move_these(&self, keys: &[impl redis::ToRedisArgs]) {
        let mut migrate = redis::cmd("MIGRATE");
        migrate.arg(HOST).arg(self.to.port()).arg("").arg(0);
        migrate.arg(u64::try_from(SOON.get().as_millis()).expect("a short timeout"));
        migrate.arg("KEYS").arg(keys);
        self.from.ask::<()>(&migrate);
    }

    /// The new primary owns the slot, and every node knows it when this returns. Keys that were not
    /// moved are lost.
    pub fn end(self) {
        let has_it = self.set_slot("NODE", self.to);
        // The new primary first, so that the slot always has an owner. Replicas are informed by it.
        self.to.ask::<()>(&has_it);
        for primary in self.cluster.primaries() {
            primary.ask::<()>(&has_it);
        }
        eventually("every node to know the owner of the slot", || {
            let primary = self.cluster.agreed_primary(self.slot);
            primary.is_some_and(|primary| primary.port() == self.to.port())
        });
    }

    fn set_slot(&self, how: &str, node: &Server) -> Cmd {
        let id = self.cluster.id(node);
        let mut set_slot = redis::cmd("CLUSTER");
        set_slot.arg("SETSLOT").arg(self.slot).arg(how);
        set_slot.arg(id).clone()
    }
}
