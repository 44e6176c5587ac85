//! What happens between one worker and the server.

use std::sync::Arc;
use std::time::Duration;

use crate::clock;
use crate::log::{Event, Log};
use crate::proxy::{Fault, Gate, Proxy, Request};

const SCRIPTS: [&str; 4] = ["acquire", "release", "recount", "renew"];

/// The longest delay, and the pause between pieces of a reply.
const DELAY: Duration = Duration::from_millis(200);
const PAUSE: Duration = Duration::from_millis(5);

/// A proxy, and what is held back there.
pub struct Network {
    proxy: Proxy,
    slot: u32,
    log: Arc<Log>,
    gate: Gate,
}

/// What a network does in one storm.
struct FaultPlan {
    random: fastrand::Rng,
    /// Of so many requests one is disturbed.
    one_of: u32,
    /// Only these.
    script: Option<&'static str>,
    /// Only in this way.
    kind: Option<u8>,
    gate: Gate,
    slot: u32,
    log: Arc<Log>,
}

impl Network {
    pub fn before(server: &str, slot: u32, log: &Arc<Log>) -> Self {
        Self {
            proxy: Proxy::before(server),
            slot,
            log: Arc::clone(log),
            gate: Gate::new(),
        }
    }

    pub fn url(&self) -> String {
        self.proxy.url()
    }

    pub fn calm(&mut self) {
        self.proxy.calm();
        self.proxy.refuse(false);
        self.deliver();
    }

    /// Lets go what was held back.
    pub fn deliver(&mut self) {
        std::mem::take(&mut self.gate).open();
    }

    /// Draws what is to become of requests and messages from here on.
    pub fn storm(&self, random: &mut fastrand::Rng) {
        let one_of = *random.choice(&[1, 2, 3, 10, 30]).expect("there are some");
        let script = random
            .bool()
            .then(|| *random.choice(&SCRIPTS).expect("some"));
        let kind = random.bool().then(|| random.u8(0..KINDS));
        let lost_messages = *random.choice(&[0, 0, 50, 100]).expect("there are some");
        self.note(&format!(
            "storm: 1 of {one_of}, {script:?}, {kind:?}, {lost_messages} % of messages lost"
        ));
        let mut plan = FaultPlan {
            random: random.fork(),
            // Nothing would ever get through.
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

    /// Nothing arrives any more, and nobody is told.
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
        self.note(if refuse { "refuses" } else { "refuses no more" });
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
    fn fault_for(&mut self, request: &Request) -> Fault {
        let script = SCRIPTS.into_iter().find(|script| request.runs(script));
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
