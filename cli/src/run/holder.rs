//! Which client holds the lock that this process waits for, as text.

use crate::name::shown;
use leasehold::{Error, Holder, LockClient};

/// Looks up the holder of one lock.
#[derive(Debug)]
pub(super) struct Holders {
    key: String,
    clients: Vec<LockClient>,
    /// The id of the last client that was seen.
    seen: String,
    /// Its process, if it is known.
    holder: Option<Holder>,
}

/// What the servers reply.
#[derive(Debug)]
pub(super) enum HolderReply {
    /// Its process, or else its owner id; or the number of its readers.
    Holder(String),
    Free,
    NoReply,
}

impl Holders {
    pub(super) fn new(key: &str, clients: &[LockClient]) -> Self {
        Self {
            key: key.into(),
            clients: clients.to_vec(),
            seen: String::new(),
            holder: None,
        }
    }

    /// Asks one server after the other, until one knows a holder or `is_over`.
    pub(super) fn find(&mut self, is_over: impl Fn() -> bool) -> HolderReply {
        let mut reply = HolderReply::NoReply;
        for client in self.clients.clone() {
            if is_over() {
                return HolderReply::Free;
            }
            let Ok(status) = client.inspect(&self.key) else {
                continue;
            };
            if let Some(owner) = status.owner {
                return HolderReply::Holder(match status.readers {
                    ..=1 => self.process(&client, &owner),
                    readers => format!("{readers} readers"),
                });
            }
            reply = HolderReply::Free;
        }
        reply
    }

    /// The process of this owner, or else the owner.
    fn process(&mut self, client: &LockClient, owner: &str) -> String {
        let id = owner.split(':').next().unwrap_or_default();
        // The list of connections is long, so it is requested once for each client.
        if self.seen != id {
            let holder = client.holder(&self.key);
            // A refusal is final.
            if !holder.as_ref().is_err_and(Error::is_transient) {
                self.seen = id.into();
            }
            let holder = holder.ok().flatten();
            self.holder = holder.filter(|holder| holder.owner.starts_with(id));
        }
        let holder = self.holder.as_ref().map(Holder::to_string);
        holder.unwrap_or_else(|| shown(owner))
    }
}
