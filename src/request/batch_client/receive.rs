//! The replies to what was sent to many servers at once.

use std::collections::VecDeque;
use std::time::Duration;

use super::{BatchClient, Open, ROUNDS, Replied, Sent};
use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::script::Call;
use crate::transport::connection::Connection;
use crate::transport::retry_action::RetryAction;

/// How long one server is listened to while others may have answered.
const FIRST_SLICE: Duration = Duration::from_millis(1);
const LONGEST_SLICE: Duration = Duration::from_millis(16);

impl BatchClient {
    /// Reads all replies, from each server in turn as long as one may come from another: none is waited
    /// for at the expense of what has arrived from the others. What comes back is to be sent again.
    pub(super) fn receive_all(
        &mut self,
        requests: &[(&LockKey, Call)],
        mut pending: VecDeque<Sent>,
        until: Moment,
        replies: &mut [Replied],
    ) -> Vec<Open> {
        let mut again = Vec::new();
        let mut slice = FIRST_SLICE;
        let mut turn = 0;
        while let Some(mut sent) = pending.pop_front() {
            let last = until.is_past();
            let time = if last {
                // What has arrived is read, however late.
                LONGEST_SLICE
            } else if pending.is_empty() {
                until.left()
            } else {
                slice.min(until.left())
            };
            let end = self.receive(requests, &mut sent, time, last, replies, &mut again);
            if end {
                self.keep(sent);
                if !last {
                    let more = self.send_again(requests, &mut again, &pending, until, replies);
                    pending.extend(more);
                }
            } else {
                pending.push_back(sent);
                turn += 1;
                if turn >= pending.len() {
                    turn = 0;
                    slice = (slice * 2).min(LONGEST_SLICE);
                }
            }
        }
        again
    }

    /// What comes back is sent at once where nothing is under way: whoever is silent would keep it from being
    /// sent in time, pass for pass.
    fn send_again(
        &mut self,
        requests: &[(&LockKey, Call)],
        again: &mut Vec<Open>,
        pending: &VecDeque<Sent>,
        until: Moment,
        replies: &mut [Replied],
    ) -> VecDeque<Sent> {
        let is_free = |open: &Open| {
            let home = self.home(requests, open);
            let mut pending = pending.iter();
            home.is_some_and(|to| !pending.any(|sent| sent.server.name() == to.name()))
        };
        let (now, later) = again
            .drain(..)
            .partition(|open| open.rounds < ROUNDS && is_free(open));
        *again = later;
        self.send_all(requests, now, until, replies)
    }

    /// Reads the replies of one server, as they come within `time`; true if that is all, or if it is the
    /// last chance.
    fn receive(
        &self,
        requests: &[(&LockKey, Call)],
        sent: &mut Sent,
        time: Duration,
        last: bool,
        replies: &mut [Replied],
        again: &mut Vec<Open>,
    ) -> bool {
        if let Ok(connection) = &mut sent.connection {
            connection.set_time_limit(time);
        }
        while let Some(open) = sent.requests.front() {
            let place = open.place;
            let (reply, in_step) = match &mut sent.connection {
                Ok(connection) if open.is_asking() && !sent.acknowledged => {
                    let acknowledged = connection.receive();
                    (acknowledged, false)
                }
                Ok(connection) => (connection.receive(), true),
                // The replies after a broken one cannot be told apart any more.
                Err(error) => (Err(error.clone()), true),
            };
            let error = match reply {
                Ok(_) if !in_step => {
                    sent.acknowledged = true;
                    continue;
                }
                Ok(reply) => {
                    replies[place] = (Ok(reply), sent.asked);
                    sent.answered();
                    continue;
                }
                Err(error) => error,
            };
            if error.is_timeout() && sent.connection.is_ok() && !last {
                return false;
            }
            let Some(mut open) = sent.answered() else {
                break;
            };
            open.rounds += 1;
            match RetryAction::on(&error) {
                _ if sent.connection.is_err() => {}
                RetryAction::SendSource if in_step => {
                    open.by_source = true;
                    again.push(open);
                }
                RetryAction::Redirect if in_step => {
                    if let Some(to) =
                        self.topology
                            .redirect(requests[place].0, &sent.server, &error)
                    {
                        open.redirect = Some(to);
                        again.push(open);
                    }
                }
                action if !action.keeps_connection() || !in_step => {
                    sent.established |= sent
                        .connection
                        .as_ref()
                        .is_ok_and(Connection::is_established);
                    sent.connection = Err(error.clone());
                }
                _ => {}
            }
            replies[place] = (Err(error), sent.asked);
        }
        true
    }
}

impl Sent {
    /// Takes out the request that has its reply.
    fn answered(&mut self) -> Option<Open> {
        self.acknowledged = false;
        self.requests.pop_front()
    }
}
