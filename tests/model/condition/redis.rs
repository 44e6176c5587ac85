//! The scripts of a condition.

use super::state::Planted;

/// One wait of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Waiter {
    pub thread: usize,
    pub wait: u8,
}

/// A grant. Threads of its client hand it over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    pub client: usize,
    pub grant: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    pub waiter: Waiter,
    /// The call whose notification the waiter has. Without one, it is in the queue.
    pub call: Option<u8>,
    /// It has not been renewed in time.
    pub is_over: bool,
    /// The wait is over, and has reported the notification. Only the promises read this field.
    pub is_reported: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    Wait(Owner, Waiter),
    Notify {
        owner: Owner,
        call: u8,
        all: bool,
    },
    /// The waiter takes its notification, or passes it to the next one.
    End {
        waiter: Waiter,
        passes: bool,
    },
    /// Of any place: every script removes the places that are over.
    Renew,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    Done,
    /// `End`: the waiter was not notified.
    NotNotified,
    /// `End`: it had no place.
    Gone,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Redis {
    pub lock: Option<Owner>,
    /// In the order of waiting.
    pub places: Vec<Place>,
    last_call: Option<(Owner, u8)>,
    /// How many waiters each call has notified. Only the promises read this field.
    pub notified_by: [u8; 4],
    /// The notifications that no waiter has taken yet. Only the promises read this field.
    pub owed: u8,
    /// The waiters that took a notification. Only the promises read this field.
    pub taken: Vec<Waiter>,
}

impl Redis {
    /// Whether this waiter is in the queue, and not notified.
    pub fn waits(&self, waiter: Waiter) -> bool {
        let is_it = |place: &Place| place.waiter == waiter && place.call.is_none();
        self.places.iter().any(is_it)
    }

    /// Runs a script. `lives` tells which waiters wait for a notification.
    pub fn run(
        &mut self,
        command: Command,
        planted: Option<Planted>,
        lives: impl Fn(Waiter) -> bool,
    ) -> Reply {
        let is_owner = |owner| self.lock == Some(owner);
        match command {
            Command::Wait(owner, _) if !is_owner(owner) => Reply::Gone,
            Command::Wait(_, waiter) => {
                self.sweep(planted, lives);
                if self.places.iter().all(|place| place.waiter != waiter) {
                    self.places.push(Place {
                        waiter,
                        call: None,
                        is_over: false,
                        is_reported: false,
                    });
                }
                Reply::Done
            }
            Command::Notify { owner, .. } if !is_owner(owner) => Reply::Gone,
            Command::Notify { owner, call, all } => {
                let earlier = self.last_call.filter(|(last, _)| *last == owner);
                let is_copy = earlier.is_some_and(|(_, last)| call <= last);
                if is_copy && planted != Some(Planted::CopiesCount) {
                    return Reply::Done;
                }
                self.sweep(planted, lives);
                if all {
                    let before = self.places.len();
                    self.places.retain(|place| place.call.is_some());
                    if self.places.len() < before {
                        self.last_call = Some((owner, call));
                    }
                } else if self.mark(call) {
                    self.notified_by[call as usize] += 1;
                    self.owed += 1;
                    self.last_call = Some((owner, call));
                }
                Reply::Done
            }
            Command::End { waiter, passes } => {
                let at = self.places.iter().position(|place| place.waiter == waiter);
                let ended = at.map(|at| self.places.remove(at));
                let mut reply = Reply::Gone;
                match ended {
                    None => {}
                    Some(Place { call: None, .. }) => reply = Reply::NotNotified,
                    Some(place) => {
                        reply = Reply::Done;
                        if passes {
                            self.pass(place.call, planted, &lives);
                        } else if place.is_reported || lives(waiter) {
                            self.owed -= 1;
                            self.taken.push(waiter);
                        } else {
                            self.drop_one(&lives);
                        }
                    }
                }
                self.sweep(planted, lives);
                reply
            }
            Command::Renew => {
                self.sweep(planted, lives);
                Reply::Done
            }
        }
    }

    /// Removes the places that are over, and passes their notifications on.
    fn sweep(&mut self, planted: Option<Planted>, lives: impl Fn(Waiter) -> bool) {
        let over = self.places.extract_if(.., |place| place.is_over);
        let calls: Vec<Option<u8>> = over.map(|place| place.call).collect();
        for call in calls {
            self.pass(call, planted, &lives);
        }
    }

    /// Passes the notification of a place that has ended, if it had one.
    fn pass(
        &mut self,
        call: Option<u8>,
        planted: Option<Planted>,
        lives: &impl Fn(Waiter) -> bool,
    ) {
        let Some(call) = call else { return };
        if planted == Some(Planted::NotPassedOn) || !self.mark(call) {
            self.drop_one(lives);
        }
    }

    /// A notification is gone that no thread has taken. It stays owed if a thread waits for one.
    fn drop_one(&mut self, lives: &impl Fn(Waiter) -> bool) {
        let waits = |place: &Place| place.call.is_none() && lives(place.waiter);
        if !self.places.iter().any(waits) {
            self.owed -= 1;
        }
    }

    /// Notifies the first waiter.
    fn mark(&mut self, call: u8) -> bool {
        let mut queue = self.places.iter_mut().filter(|place| place.call.is_none());
        let first = queue.next();
        first.map(|first| first.call = Some(call)).is_some()
    }

    /// The wait is over, and has reported its notification, if it had one.
    pub fn report(&mut self, waiter: Waiter) {
        let mut places = self.places.iter_mut();
        if let Some(place) = places.find(|place| place.waiter == waiter) {
            place.is_reported = place.call.is_some();
        }
    }
}
