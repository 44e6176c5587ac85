//! The watchdog of a client. It renews its grant, and releases orphans.

use crate::client::{Client, Renewal};
use crate::promises::TOLD;
use crate::protocol::{Planted, Protocol};
use crate::redis::{Command, OwnerIds, Reply, Script};
use crate::state::{Late, State};

impl Client {
    /// The owner id to renew.
    fn renewable(&self, protocol: &Protocol) -> Option<OwnerIds> {
        let orphans = Some(self.orphans)
            .filter(|ids| protocol.has(Planted::RenewedAfterRelease) && !ids.is_empty());
        self.grant.map(|grant| OwnerIds::of(grant.id)).or(orphans)
    }

    pub fn may_renew(&self, protocol: &Protocol) -> bool {
        self.renewal.is_none() && self.renewable(protocol).is_some()
    }

    /// True if the client no longer has the grant that the renewal names.
    pub fn renewal_is_stale(&self) -> bool {
        self.renewal
            .is_some_and(|renewal| !self.grant_has(renewal.command.ids))
    }
}

impl State {
    pub fn renew(&mut self, client: usize, protocol: &Protocol) {
        let this = &mut self.clients[client];
        let ids = this.renewable(protocol).expect("there is a grant");
        this.renewal = Some(Renewal {
            command: Command {
                count: this.grant.map_or(1, |grant| grant.levels),
                ..Command::new(Script::Renew, client, ids)
            },
            age: 0,
            failed: false,
            handed_over: false,
        });
    }

    /// Redis runs the renewal. Success is received at once or not at all: its time makes no
    /// difference, because the lease is measured from before the request was sent.
    pub fn run_renewal(&mut self, client: usize, protocol: &Protocol) {
        let Some(renewal) = self.clients[client].renewal else {
            return;
        };
        let reply = self.run(&renewal.command, protocol);
        let this = &mut self.clients[client];
        if reply == Reply::NotHeld {
            this.renewal = Some(Renewal {
                failed: true,
                ..renewal
            });
            return;
        }
        this.renewal = None;
        if let Some(grant) = &mut this.grant
            && renewal.command.ids.has(grant.id)
        {
            let from_reply = protocol.has(Planted::LeaseFromReply);
            let age = if from_reply { 0 } else { renewal.age };
            grant.left = grant.left.max(protocol.lease - age);
        }
    }

    /// The watchdog receives the reply that Redis does not have the grant.
    pub fn receive_loss(&mut self, client: usize, protocol: &Protocol) {
        let Some(renewal) = self.clients[client].renewal.take() else {
            return;
        };
        let ids = renewal.command.ids;
        let concerned =
            self.clients[client].grant_has(ids) || protocol.has(Planted::StaleReplyBelieved);
        if concerned && !renewal.handed_over {
            self.lose(client, protocol);
        }
        let this = &self.clients[client];
        if this.grant_has(ids) && this.uses_grant() {
            self.broken = Some(TOLD);
        }
    }

    /// The renewal gets no reply in time. The grant stays as it is.
    pub fn time_out_renewal(&mut self, client: usize) {
        self.unanswered -= 1;
        if let Some(renewal) = self.clients[client].renewal.take() {
            let copy = Some(renewal.command).filter(|_| !renewal.failed);
            self.late.push(Late::new(client, copy, false));
        }
    }

    /// The watchdog releases all orphans. It repeats that until it gets a reply, which is as if
    /// this step were taken later.
    pub fn release_orphans(&mut self, client: usize, protocol: &Protocol) {
        let ids = std::mem::take(&mut self.clients[client].orphans);
        self.run(&Command::new(Script::Release, client, ids), protocol);
    }
}
