//! The workloads, and how they are measured: the same rules for all peers.

mod apart;
mod contended;
mod hand_over;
mod held;
mod pairs;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold_peers_compare::Result;
use leasehold_peers_compare::results::{Figures, Held, Pair, Results, Run};

use crate::driver::Driver;
use crate::machine;
use crate::peers::Peer;
use crate::server::Server;

/// How much is measured.
pub struct Scale {
    pub window: Duration,
    pub rounds: usize,
    pub hand_overs: usize,
    pub locks: usize,
    pub hold: Duration,
}

/// A peer, two processes that use it, and its figures so far.
struct Side {
    peer: &'static Peer,
    drivers: [Driver; 2],
    figures: Figures,
}

impl Side {
    fn start(peer: &'static Peer, url: &str) -> Result<Self> {
        Ok(Self {
            peer,
            drivers: [Driver::start(peer, url)?, Driver::start(peer, url)?],
            figures: no_figures(peer)?,
        })
    }

    fn name(&self, of: &str) -> String {
        format!("{}:{of}", self.peer.name)
    }
}

fn no_figures(peer: &Peer) -> Result<Figures> {
    Ok(Figures {
        name: peer.name.to_owned(),
        version: peer.version()?,
        language: peer.language.to_owned(),
        workers: peer.workers.to_owned(),
        settings: peer.settings.to_owned(),
        pair: Pair::default(),
        contended: Default::default(),
        apart: None,
        hand_over: None,
        held: Held::default(),
    })
}

pub fn run(peers: &[&'static Peer], scale: &Scale) -> Result<Results> {
    let server = Server::start()?;
    let cores = machine::cores();
    let pinned = machine::pin_clients();
    let load_before = machine::load();
    let sides = peers.iter().map(|peer| Side::start(peer, &server.url()));
    let mut sides = sides.collect::<Result<Vec<_>>>()?;

    pairs::measure(&mut sides, &server)?;
    contended::measure(&mut sides, &server, scale)?;
    apart::measure(&mut sides, &server, scale)?;
    hand_over::measure(&mut sides, scale)?;
    contended::measure_crowds(&mut sides, &server, scale)?;
    // Each of them needs its own processes.
    let mut peers: Vec<_> = sides
        .into_iter()
        .map(|side| (side.peer, side.figures))
        .collect();
    for (peer, figures) in &mut peers {
        figures.held = held::measure(peer, scale)?;
    }

    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH)?;
    Ok(Results {
        run: Run {
            seconds_since_1970: since_1970.as_secs(),
            processor: machine::processor(),
            cores,
            kernel: machine::kernel(),
            redis: server.version()?,
            commit: machine::commit(),
            pinned,
            load_before,
            load_after: machine::load(),
            window_seconds: scale.window.as_secs_f64(),
            rounds: scale.rounds,
            locks: scale.locks,
            hold_seconds: scale.hold.as_secs_f64(),
        },
        peers: peers.into_iter().map(|(_, figures)| figures).collect(),
    })
}

/// Calls `turn` with each side in turn, `rounds` times, the second time in the opposite order, and
/// so on. A change of the machine's load then affects all sides.
fn alternate(
    sides: &mut [Side],
    rounds: usize,
    mut turn: impl FnMut(&mut Side) -> Result<()>,
) -> Result<()> {
    for round in 0..rounds {
        let last = sides.len() - 1;
        for place in 0..=last {
            let place = if round % 2 == 0 { place } else { last - place };
            turn(&mut sides[place])?;
        }
    }
    Ok(())
}

fn progress(what: &str) {
    eprintln!("measuring: {what}");
}
