//! The network between one worker and the server: a fault proxy.

use std::sync::Arc;
use std::time::Duration;

use leasehold::testing::{Fault, FaultProxy, Gate, ProxiedRequest};

use crate::clock;
use crate::log::{Event, Log};

/// The longest delay, and the pause between pieces of a reply.
const DELAY: Duration = Duration::from_millis(200);
const PAUSE: Duration = Duration::from_millis(5);

/// A proxy and the gate that holds requests back.
pub struct Network {
    proxy: FaultProxy,
    slot: u32,
    log: Arc<Log>,
    gate: Gate,
    /// The scripts of the locks under test.
    scripts: &'static [&'static str],
}

/// The faults of a network in one storm.
struct FaultPlan {
    random: fastrand::Rng,
    /// One request in this many meets a fault.
    one_of: u32,
    /// If set, only calls of this script.
    script: Option<&'static str>,
    /// If set, only this kind of fault.
    kind: Option<u8>,
    gate: Gate,
    slot: u32,
    log: Arc<Log>,
}

impl Network {
    pub fn before(
        server: &str,
        slot: u32,
        log: &Arc<Log>,
        scripts: &'static [&'static str],
    ) -> Self {
        Self {
            proxy: FaultProxy::start(server).expect("a loopback port"),
            slot,
            log: Arc::clone(log),
            gate: Gate::new(),
            scripts,
        }
    }

    pub fn url(&self) -> String {
        self.proxy.url()
    }

    pub fn calm(&mut self) {
        self.proxy.clear_rules();
        self.proxy.refuse(false);
        self.deliver();
    }

    /// Delivers the requests that were held back.
    pub fn deliver(&mut self) {
        std::mem::take(&mut self.gate).open();
    }

    /// Draws a new fault plan for requests and messages.
    pub fn storm(&self, random: &mut fastrand::Rng) {
        let one_of = *random.choice(&[1, 2, 3, 10, 30]).expect("not empty");
        let script = random
            .bool()
            .then(|| *random.choice(self.scripts).expect("not empty"));
        let kind = random.bool().then(|| random.u8(0..KINDS));
        let lost_messages = *random.choice(&[0, 0, 50, 100]).expect("not empty");
        self.note(&format!(
            "storm: 1 of {one_of}, {script:?}, {kind:?}, {lost_messages} % of messages lost"
        ));
        let mut plan = FaultPlan {
            random: random.fork(),
            // Faults in all requests of all scripts would let nothing pass.
            one_of: if script.is_none() {
                one_of.max(2)
            } else {
                one_of
            },
            script,
            kind,
            gate: self.gate.clone(),
            slot: self.slot,
            log: Arc::clone(&self.log),
        };
        self.proxy
            .on_request(move |request| plan.fault_for(request));
        let mut messages = random.fork();
        self.proxy
            .on_message(move |_, _| messages.u32(0..100) >= lost_messages);
    }

    /// Drops all requests and messages; connections stay open.
    pub fn isolate(&self) {
        self.note("isolated");
        self.proxy.on_request(|_| Fault::SwallowRequest);
        self.proxy.on_message(|_, _| false);
    }

    pub fn cut(&self) {
        self.note("cut");
        self.proxy.cut_all();
    }

    pub fn reset(&self) {
        self.note("reset");
        self.proxy.reset_all();
    }

    pub fn refuse(&self, refuse: bool) {
        self.note(if refuse {
            "refuses connections"
        } else {
            "accepts connections"
        });
        self.proxy.refuse(refuse);
    }

    fn note(&self, text: &str) {
        note(&self.log, self.slot, text);
    }
}

fn note(log: &Log, slot: u32, text: &str) {
    let text = format!("network {slot}: {text}");
    log.write(clock::now(), slot, Event::Note(text));
}

const KINDS: u8 = 10;

impl FaultPlan {
    fn fault_for(&mut self, request: &ProxiedRequest) -> Fault {
        let script = request.script();
        if self.script.is_some() && script != self.script || self.random.u32(0..self.one_of) > 0 {
            return Fault::Pass;
        }
        let (name, fault) = self.draw();
        let command = script.map_or_else(|| request.command(), str::to_owned);
        let connection = request.connection;
        note(
            &self.log,
            self.slot,
            &format!("{name} {command} on {connection}"),
        );
        fault
    }

    fn draw(&mut self) -> (&'static str, Fault) {
        let random = &mut self.random;
        let kind = self.kind.unwrap_or_else(|| random.u8(0..KINDS));
        match kind {
            0 => ("delay", Fault::Delay(DELAY.mul_f64(random.f64()))),
            1 => ("reset before reply", Fault::ResetBeforeReply),
            2 => ("reset in reply", Fault::ResetInReply(random.usize(1..8))),
            3 => ("cut in reply", Fault::CutInReply(random.usize(0..8))),
            4 => {
                let (every, pause) = (random.usize(1..4), PAUSE.mul_f64(random.f64()));
                ("split reply", Fault::SplitReply { every, pause })
            }
            5 => ("half request", Fault::HalfRequest),
            6 => ("swallow request", Fault::SwallowRequest),
            7 => ("hold back", Fault::HoldBack(self.gate.clone())),
            _ => ("swallow reply", Fault::SwallowReply),
        }
    }
}
