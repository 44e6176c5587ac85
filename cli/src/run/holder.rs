//! Which client holds the lock that this process waits for, as text.

use crate::name::shown;
use leasehold::LockClient;

/// What the servers reply.
#[derive(Debug)]
pub(super) enum HolderReply {
    /// Its process, or else its owner id; or the number of its readers.
    Holder(String),
    Free,
    NoReply,
}

/// Asks one server after the other, until one knows a holder.
pub(super) fn find_holder(key: &str, clients: &[LockClient]) -> HolderReply {
    let mut reply = HolderReply::NoReply;
    for client in clients {
        let Ok(status) = client.inspect(key) else {
            continue;
        };
        if let Some(owner) = status.owner {
            return HolderReply::Holder(match status.readers {
                ..=1 => process(client, key, &owner),
                readers => format!("{readers} readers"),
            });
        }
        reply = HolderReply::Free;
    }
    reply
}

/// The process of this owner, or else the owner.
fn process(client: &LockClient, key: &str, owner: &str) -> String {
    let id = owner.split(':').next().unwrap_or_default();
    let holder = client.holder(key).ok().flatten();
    let holder = holder.filter(|holder| holder.owner.starts_with(id));
    holder.map_or_else(|| shown(owner), |holder| holder.to_string())
}
