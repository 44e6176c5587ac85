//! What the conductor does in the last calm of a world: it pauses workers, lets some die, and pauses
//! the server.

use std::thread;
use std::time::Duration;

use leasehold_simulation_world::{random, time};

use crate::clock;
use crate::conductor::{Conductor, between};
use crate::log::{self, Event};

impl Conductor {
    /// Pauses some workers for some time, although there is no storm: then the others get the lock
    /// in a time that is documented.
    pub fn pause_many(&mut self) {
        for _ in 0..3 {
            let spared = [2, 4, 8][random::index(3)];
            for slot in 0..self.slots.len() {
                if !random::one_in(spared) {
                    self.pause_worker(slot);
                }
            }
            thread::sleep(between(Duration::from_secs(1), Duration::from_secs(6)));
            for slot in 0..self.slots.len() {
                self.resume_worker(slot);
            }
            thread::sleep(between(Duration::from_secs(1), Duration::from_secs(3)));
        }
    }

    /// Pauses the workers that are the first ones in a line, although there is no storm: then the
    /// others get the lock in a time that is documented.
    pub fn pause_first(&mut self) {
        let slots = self.slots.iter().enumerate();
        let clients = slots.flat_map(|(at, slot)| {
            let clients = log::clients_of(slot.process).into_iter();
            clients.map(move |client| (client, at))
        });
        let clients: Vec<(String, usize)> = clients.collect();
        for _ in 0..8 {
            let most = [1, 1, 1, 5][random::index(4)];
            let end = clock::now() + 2_000 * time::MS;
            let mut line = self.line();
            while line.len() <= most && clock::now() < end {
                thread::sleep(between(Duration::from_millis(1), Duration::from_millis(20)));
                line = self.line();
            }
            line.truncate(most);
            let slots = clients.iter().filter(|(client, _)| line.contains(client));
            let slots: Vec<usize> = slots.map(|(_, slot)| *slot).collect();
            slots.iter().for_each(|slot| self.pause_worker(*slot));
            thread::sleep(between(Duration::from_secs(1), Duration::from_secs(4)));
            slots.iter().for_each(|slot| self.resume_worker(*slot));
            thread::sleep(between(Duration::from_millis(300), Duration::from_secs(2)));
        }
    }

    /// Between long calms, the server stands still, or some workers die together.
    pub fn disturb_calms(&mut self) {
        let has_lease = self.args().kind_of(0).has_lease();
        for _ in 0..8 {
            self.write(Event::Storm);
            let mut dead = 1..1;
            if has_lease && (self.scenario.is_deaf || random::one_in(2)) {
                // Not the first worker, which may not subscribe: the others wait for its call.
                dead.end += 1 + random::index(self.slots.len() - 1);
                dead.clone().for_each(|slot| self.kill(slot));
            } else {
                self.deployment.server(0).pause();
                thread::sleep(between(
                    Duration::from_millis(300),
                    Duration::from_millis(2500),
                ));
                self.deployment.server(0).resume();
            }
            self.write(Event::Calm);
            let idle = self.scenario.bounds().idle;
            thread::sleep(idle + between(Duration::from_secs(1), Duration::from_secs(5)));
            // They subscribe in the calm.
            for slot in dead {
                self.slots[slot] = self.start_worker(slot);
            }
            thread::sleep(Duration::from_secs(5));
        }
    }
}
