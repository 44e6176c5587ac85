//! The faults that the conductor injects into processes, connections and keys.

use std::net::SocketAddr;
use std::time::Duration;

use clap::ValueEnum;
use leasehold_simulation_world::network::{self, Path};
use leasehold_simulation_world::{random, time};

use crate::args::Args;
use crate::clock;
use crate::conductor::{Conductor, between};
use crate::kind::Kind;
use crate::log::{self, Event};
use crate::plan::{Plan, RequestFault};
use crate::replication::ServerId;
use crate::worker_thread::nanos;

/// A fault. A scenario has some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Fault {
    PauseForAWhile,
    PauseServer,
    KillWorker,
    VanishHost,
    Isolate,
    Delay,
    LoseOneDirection,
    Reset,
    DeliverSoon,
    Delete,
    LoseLine,
    FlushScripts,
    RestartServer,
    FillServer,
    KillClients,
    Plan,
    PauseBriefly,
    SetClock,
    /// Only in scenarios with replicas
    FailOver,
    /// Only in scenarios with a cluster
    MoveSlot,
}

impl Fault {
    /// The faults of programs with few faults: deaths, pauses, the loss of a line, lost messages.
    pub const MILD: [Self; 5] = [
        Self::KillWorker,
        Self::PauseForAWhile,
        Self::LoseLine,
        Self::Plan,
        Self::PauseBriefly,
    ];

    /// True if a server may forget locks that it has granted.
    pub fn loses_keys(self) -> bool {
        matches!(self, Self::Delete | Self::RestartServer | Self::SetClock)
    }
}

/// The action that ends a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undo {
    ResumeWorker(usize),
    ResumeServer(ServerId),
    Deliver,
    Path(usize),
    Admit(ServerId),
    SetClock(ServerId),
    /// A replica takes the place of the master of a group.
    Promote(usize),
    /// The old master comes back.
    Return(usize),
    /// Some keys of a slot move to another master.
    MoveKeys,
    /// The rest of the keys of a slot move, and the slot itself.
    MoveSlot,
}

impl Conductor {
    /// Injects one of the faults of the scenario.
    pub fn inject_fault(&mut self) {
        if self.scenario.faults.is_empty() {
            return;
        }
        let fault = self.scenario.faults[random::index(self.scenario.faults.len())];
        let slot = random::index(self.slots.len());
        match fault {
            Fault::PauseForAWhile => self.pause_for_a_while(slot),
            Fault::PauseServer => self.pause_server(),
            Fault::KillWorker => self.kill_worker(slot),
            Fault::VanishHost => self.vanish_host(slot),
            Fault::Isolate => self.isolate(slot),
            Fault::Delay => self.delay(slot),
            Fault::LoseOneDirection => self.lose_one_direction(slot),
            Fault::Reset => self.reset(slot),
            Fault::DeliverSoon => self.deliver_soon(),
            Fault::Delete => self.delete(),
            Fault::LoseLine => self.lose_line(),
            Fault::FlushScripts => self.flush_scripts(),
            Fault::RestartServer => self.restart_server(),
            Fault::FillServer => self.fill_server(),
            Fault::KillClients => self.kill_clients(),
            Fault::Plan => self.plan(slot),
            Fault::PauseBriefly => self.pause_briefly(slot),
            Fault::SetClock => self.set_clock(),
            Fault::FailOver => self.fail_over(),
            Fault::MoveSlot => self.move_slot(),
        }
    }

    pub fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::ResumeWorker(slot) => self.resume_worker(slot),
            Undo::ResumeServer(id) => {
                self.note(&format!("server {id} is resumed"));
                self.deployment.server(id).resume();
            }
            Undo::Deliver => self.deployment.deliver(),
            Undo::Path(slot) => self.heal(slot),
            Undo::Admit(id) => self.deployment.server(id).most_connections = usize::MAX,
            Undo::SetClock(id) => self.show_time(id, 0),
            Undo::Promote(group) => self.promote(group),
            Undo::Return(group) => self.take_back(group),
            Undo::MoveKeys => self.deployment.move_keys(false),
            Undo::MoveSlot => self.end_move(),
        }
    }

    /// Pauses a worker for less or for more than a lease.
    fn pause_for_a_while(&mut self, slot: usize) {
        let time = between(Duration::from_millis(10), self.args().lease() * 5 / 2);
        self.pause_worker(slot);
        self.later(time, Undo::ResumeWorker(slot));
    }

    /// Pauses a worker briefly, as if it got no processor.
    fn pause_briefly(&mut self, slot: usize) {
        let time = between(Duration::from_micros(10), Duration::from_millis(20));
        self.pause_worker(slot);
        self.later(time, Undo::ResumeWorker(slot));
    }

    fn pause_server(&mut self) {
        let id = self.any_server();
        if self.deployment.server(id).is_paused() {
            return;
        }
        self.note(&format!("server {id} is paused"));
        self.deployment.server(id).pause();
        let [least, most] = [[1, 10], [10, 300], [300, 3000]][random::index(3)];
        let time = between(Duration::from_millis(least), Duration::from_millis(most));
        self.later(time, Undo::ResumeServer(id));
    }

    fn kill_worker(&mut self, slot: usize) {
        if let Some(slot) = self.victim(slot, Duration::ZERO) {
            // Its connections end.
            self.heal(slot);
            self.replace(slot);
            self.plan(slot);
        }
    }

    /// Kills a worker whose connections never end for the servers. Each such worker can delay the
    /// others in a line, so there are few of them.
    fn vanish_host(&mut self, slot: usize) {
        if let Some(slot) = self.victim(slot, Duration::from_secs(1)) {
            let process = self.slots[slot].process;
            self.note(&format!("the host of process {process} vanishes"));
            self.vanished.borrow_mut().extend(log::clients_of(process));
            for address in self.deployment.addresses() {
                self.set_path(slot, address, |path| path.is_cut = [true, true]);
            }
            self.replace(slot);
            self.plan(slot);
        }
    }

    /// The worker in this slot, unless another one was killed within `apart`, or so shortly before
    /// that both can have places in the queue of a fair lock. The places would end one after the
    /// other.
    ///
    /// A process that is killed loses its permits without a lease. So of the workers that use such
    /// permits, only the one that wants too many is killed.
    fn victim(&mut self, slot: usize, apart: Duration) -> Option<usize> {
        let slot = match self.args().kind_of(0).has_lease() {
            true => slot,
            false if !self.has_too_many() => return None,
            false => self.slots.len() - 1,
        };
        let apart = nanos(apart.max(self.args().kind_of(0).place() * 2));
        let now = clock::now();
        if self.scenario.is_deaf && slot == 0 {
            // A call waits for an answer, because no script can know that the client is dead.
            return None;
        }
        if self.killed.is_some_and(|killed| now - killed < apart) {
            return None;
        }
        self.killed = Some(now);
        Some(slot)
    }

    fn isolate(&mut self, slot: usize) {
        self.cut(slot, [true, true]);
    }

    fn lose_one_direction(&mut self, slot: usize) {
        let to_server = random::one_in(2);
        self.cut(slot, [to_server, !to_server]);
    }

    fn cut(&mut self, slot: usize, is_cut: [bool; 2]) {
        let process = self.slots[slot].process;
        self.note(&format!("process {process} is cut off: {is_cut:?}"));
        for address in self.some_addresses() {
            self.set_path(slot, address, |path| path.is_cut = is_cut);
        }
        let time = between(Duration::from_millis(1), self.args().lease() * 2);
        self.later(time, Undo::Path(slot));
    }

    fn delay(&mut self, slot: usize) {
        let process = self.slots[slot].process;
        let most = [1, 30, 300][random::index(3)] * time::MS;
        self.note(&format!("messages of process {process} are late"));
        let late = (1 + random::between(0..=30), most);
        for address in self.some_addresses() {
            self.set_path(slot, address, |path| path.late = late);
        }
        let time = between(Duration::from_millis(10), self.args().lease() * 3);
        self.later(time, Undo::Path(slot));
    }

    fn reset(&mut self, slot: usize) {
        let process = self.slots[slot].process;
        self.note(&format!("the connections of process {process} are reset"));
        for address in self.some_addresses() {
            network::reset(process, address);
        }
    }

    /// The addresses of all servers, or of one.
    fn some_addresses(&self) -> Vec<SocketAddr> {
        if let Some(faulty) = self.faulty {
            return vec![self.deployment.address(faulty)];
        }
        let mut addresses = self.deployment.addresses();
        if addresses.len() > 1 && random::one_in(2) {
            let one = random::index(addresses.len());
            addresses.swap(0, one);
            addresses.truncate(1);
        }
        addresses
    }

    fn set_path(&self, slot: usize, address: SocketAddr, change: impl FnOnce(&mut Path)) {
        network::set_path(self.slots[slot].process, address, change);
    }

    /// A server that has locks.
    fn any_server(&self) -> ServerId {
        if let Some(faulty) = self.faulty {
            return faulty;
        }
        let groups = &self.deployment.groups;
        match groups.len() {
            1 => groups[0].master,
            several => groups[random::index(several)].master,
        }
    }

    fn deliver_soon(&mut self) {
        let time = between(Duration::ZERO, self.args().lease() * 2);
        self.later(time, Undo::Deliver);
    }

    /// Deletes the key of a lock, as an operator might who believes that the lock is stuck.
    fn delete(&mut self) {
        if !self.args().kind_of(0).has_lease() {
            // A later release of permits without a lease would add some.
            return;
        }
        let lock = random::index(self.args().locks as usize) as u32;
        if !self.deployment.has_all_of(lock) {
            return;
        }
        let (key, from) = (Args::key(lock), clock::now());
        let mut server = self.deployment.server_of(lock);
        let (is_deleted, token) = if let Some(Kind::Permits(permits)) = self.args().kind {
            server.query(&["SET", &key, &permits.to_string()]);
            let timeout = format!("{{{key}}}:timeout");
            (server.query(&["DEL", &timeout]) == ":1\r\n", None)
        } else {
            let is_deleted = server.query(&["DEL", &key]) == ":1\r\n";
            let token = server.query(&["GET", &Args::token_key(lock)]);
            let token = token.lines().nth(1).and_then(|token| token.parse().ok());
            (is_deleted, token)
        };
        drop(server);
        if is_deleted {
            self.write(Event::Deleted { lock, from, token });
        }
    }

    fn lose_line(&mut self) {
        let lock = random::index(self.args().locks as usize) as u32;
        if !self.deployment.has_all_of(lock) || self.are_clocks_wrong() {
            return;
        }
        let keys = [Args::token_key(lock), Args::line_key(lock)];
        self.note(&format!("DEL of the token and of the line of lock {lock}"));
        let mut server = self.deployment.server_of(lock);
        server.query(&["DEL", &keys[0], &keys[1]]);
        drop(server);
        self.token_lost = clock::now();
        self.write(Event::LineLost { lock });
    }

    fn flush_scripts(&mut self) {
        self.note("SCRIPT FLUSH");
        for mut server in self.deployment.servers() {
            server.query(&["SCRIPT", "FLUSH"]);
        }
    }

    /// Restarts a server without its data, as after a crash without persistence.
    fn restart_server(&mut self) {
        let group = random::index(self.deployment.groups.len());
        let server = self.deployment.groups[group].master;
        let is_failed = self.deployment.groups[group].failed.is_some();
        let is_moving = self.deployment.moving().is_some();
        let is_down = is_failed || is_moving || self.deployment.server(server).is_paused();
        let is_ready = !is_down && !self.are_clocks_wrong();
        if !self.args().kind_of(0).has_lease() || !is_ready {
            return;
        }
        self.note(&format!("server {server} is restarted without its data"));
        let from = clock::now();
        self.kill_connections(server);
        self.deployment.server(server).restart();
        self.token_lost = clock::now();
        for lock in self.locks_of(group) {
            self.set_permits(lock);
            let token = None;
            self.write(Event::Deleted { lock, from, token });
        }
    }

    /// Lets no further client connect to the server for some time.
    fn fill_server(&mut self) {
        let id = self.any_server();
        self.note(&format!("server {id} has its most connections"));
        self.deployment.server(id).most_connections = random::index(30);
        let time = between(Duration::from_millis(10), self.args().lease() * 2);
        self.later(time, Undo::Admit(id));
    }

    fn kill_clients(&mut self) {
        let id = self.any_server();
        self.note(&format!("all connections of server {id} are reset"));
        self.kill_connections(id);
    }

    fn kill_connections(&self, server: ServerId) {
        let address = self.deployment.address(server);
        for slot in &self.slots {
            network::reset(slot.process, address);
        }
    }

    /// Draws what happens to the requests of a worker.
    pub fn plan(&mut self, slot: usize) {
        let plan = Plan {
            one_of: match self.scenario.is_mild() {
                true => 0,
                false => [0, 3, 10, 30, 200][random::index(5)],
            },
            fault: random::one_in(2).then(RequestFault::any),
            lost_messages: [0, 0, 50, 100][random::index(4)],
        };
        let process = self.slots[slot].process;
        self.note(&format!("process {process}: {plan:?}"));
        for (id, mut server) in self.deployment.servers().enumerate() {
            if self.faulty.is_none_or(|faulty| faulty == id) {
                server.set_plan(process, plan);
            }
        }
    }

    pub fn later(&mut self, time: Duration, undo: Undo) {
        self.undo.push((clock::now() + nanos(time), undo));
    }
}
