//! Which client holds the lock that this process waits for, as text.

use crate::name::shown;
use leasehold::LockClient;

/// Asks one server after the other, until one knows a holder: its process, or else its owner id; or
/// the number of its readers. `None` if the lock is free, or no server replies.
pub(super) fn find_holder(key: &str, clients: &[LockClient]) -> Option<String> {
    clients.iter().find_map(|client| {
        let status = client.inspect(key).ok()?;
        let owner = status.owner?;
        Some(match status.readers {
            ..=1 => process(client, key, &owner),
            readers => format!("{readers} readers"),
        })
    })
}

/// The process of this owner, or else the owner.
fn process(client: &LockClient, key: &str, owner: &str) -> String {
    let id = owner.split(':').next().unwrap_or_default();
    let holder = client.holder(key).ok().flatten();
    let holder = holder.filter(|holder| holder.owner.starts_with(id));
    holder.map_or_else(|| shown(owner), |holder| holder.to_string())
}
