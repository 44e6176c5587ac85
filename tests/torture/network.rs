//! The network between one worker and the server: a proxy that breaks connections.

use std::sync::Arc;

use leasehold::testing::{Fault, FaultProxy, ProxiedRequest};

use crate::clock;
use crate::log::{Event, Log};

/// A proxy before the server.
pub struct Network {
    proxy: FaultProxy,
    slot: u32,
    log: Arc<Log>,
}

impl Network {
    pub fn before(server: &str, slot: u32, log: &Arc<Log>) -> Self {
        Self {
            proxy: FaultProxy::start(server).expect("a loopback port"),
            slot,
            log: Arc::clone(log),
        }
    }

    pub fn url(&self) -> String {
        self.proxy.url()
    }

    pub fn calm(&self) {
        self.proxy.clear_rules();
        self.proxy.refuse(false);
    }

    /// From now on, one request in N breaks its connection or gets no reply, with a random N.
    pub fn storm(&self, random: &mut fastrand::Rng) {
        let one_of = *random.choice(&[2, 3, 10, 30]).expect("not empty");
        self.note(&format!("storm: 1 of {one_of}"));
        let (mut random, slot, log) = (random.fork(), self.slot, Arc::clone(&self.log));
        self.proxy.on_request(move |request| {
            if random.u32(0..one_of) > 0 {
                return Fault::Pass;
            }
            let (name, fault) = draw(&mut random);
            note(&log, slot, &format!("{name} {}", describe(request)));
            fault
        });
        self.proxy.on_message(|_, _| true);
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
    log.write(clock::now(), slot, Event::Note { text });
}

fn draw(random: &mut fastrand::Rng) -> (&'static str, Fault) {
    match random.u8(0..6) {
        0 => ("reset before reply", Fault::ResetBeforeReply),
        1 => ("reset in reply", Fault::ResetInReply(random.usize(1..8))),
        2 => ("cut in reply", Fault::CutInReply(random.usize(0..8))),
        3 => ("half request", Fault::HalfRequest),
        4 => ("swallow request", Fault::SwallowRequest),
        _ => ("swallow reply", Fault::SwallowReply),
    }
}

fn describe(request: &ProxiedRequest) -> String {
    let command = request
        .script()
        .map_or_else(|| request.command(), str::to_owned);
    format!("{command} on {}", request.connection)
}
