//! The workloads, and how they are measured: the same rules for all peers.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tempfile::NamedTempFile;

use crate::commands::commands;
use crate::driver::Driver;
use crate::machine::{self, nanos, now};
use crate::peers::Peer;
use crate::server::Server;
use leasehold_peers_compare::Result;
use leasehold_peers_compare::results::{
    Contended, Figures, HandOver, Held, Pair, Results, Run, quantile,
};

/// How much is measured.
pub struct Scale {
    pub window: Duration,
    pub rounds: usize,
    pub hand_overs: usize,
    pub locks: usize,
    pub hold: Duration,
}

/// The time in which the workers of a window start.
const LEAD: Duration = Duration::from_millis(50);

/// Pairs in a block, and blocks of each peer.
const PAIRS: usize = 100;
const BLOCKS: usize = 50;
/// Pairs before the blocks, which are not counted. Java and Node.js compile code while it runs.
const WARM_UP: usize = 2_000;

/// The unlocking process holds the lock for this long, and up to this much longer, at random, so
/// that the attempts of a library which polls have no fixed relation to the unlock.
const HELD_FOR: Duration = Duration::from_millis(5);
const HELD_LONGER: Duration = Duration::from_millis(200);
/// A call that came less than this before the unlock was perhaps not waiting yet.
const SETTLED: Duration = Duration::from_millis(1);

/// Workers on one lock.
struct Workload {
    name: &'static str,
    processes: usize,
    workers: usize,
    hold: Duration,
    pause: Duration,
}

const WORKLOADS: &[Workload] = &[
    Workload {
        name: "empty",
        processes: 1,
        workers: 8,
        hold: Duration::ZERO,
        pause: Duration::ZERO,
    },
    Workload {
        name: "busy",
        processes: 1,
        workers: 8,
        hold: Duration::from_millis(2),
        pause: Duration::from_millis(20),
    },
    Workload {
        name: "processes",
        processes: 2,
        workers: 4,
        hold: Duration::ZERO,
        pause: Duration::ZERO,
    },
];

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
            figures: no_figures(peer),
        })
    }

    fn name(&self, of: &str) -> String {
        format!("{}:{of}", self.peer.name)
    }
}

fn no_figures(peer: &Peer) -> Figures {
    Figures {
        name: peer.name.to_owned(),
        language: peer.language.to_owned(),
        workers: peer.workers.to_owned(),
        settings: peer.settings.to_owned(),
        pair: Pair::default(),
        contended: Default::default(),
        hand_over: None,
        held: Held::default(),
    }
}

pub fn run(peers: &[&'static Peer], scale: &Scale) -> Result<Results> {
    let server = Server::start()?;
    let pinned = machine::pin_clients();
    let load_before = machine::load();
    let sides = peers.iter().map(|peer| Side::start(peer, &server.url()));
    let mut sides = sides.collect::<Result<Vec<_>>>()?;

    pairs(&mut sides, &server)?;
    for workload in WORKLOADS {
        contended(&mut sides, &server, workload, scale)?;
    }
    hand_overs(&mut sides, scale)?;
    // Each of them needs processes of its own.
    let mut peers: Vec<_> = sides
        .into_iter()
        .map(|side| (side.peer, side.figures))
        .collect();
    for (peer, figures) in &mut peers {
        figures.held = held(peer, scale)?;
    }

    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH)?;
    Ok(Results {
        run: Run {
            seconds_since_1970: since_1970.as_secs(),
            processor: machine::processor(),
            redis: server.version()?,
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

fn pairs(sides: &mut [Side], server: &Server) -> Result<()> {
    progress("a lock and an unlock of a free lock");
    let mut times = vec![Vec::new(); sides.len()];
    let call = |side: &mut Side, pairs: usize| {
        let command = format!("pairs {} {pairs}", side.name("pair"));
        side.drivers[0].begin(&command)?;
        side.drivers[0].numbers()
    };
    alternate(sides, 1, |side| call(side, WARM_UP).map(drop))?;
    let names: Vec<_> = sides.iter().map(|side| side.peer.name).collect();
    alternate(sides, BLOCKS, |side| {
        let place = names.iter().position(|name| *name == side.peer.name);
        times[place.ok_or("a side")?].extend(call(side, PAIRS)?);
        Ok(())
    })?;
    for (side, times) in sides.iter_mut().zip(times) {
        let mut result = Ok(Vec::new());
        let sent = commands(&[server.address()], || result = call(side, PAIRS));
        result?;
        side.figures.pair = Pair {
            median_ns: quantile(&times, 0.5),
            p999_ns: quantile(&times, 0.999),
            longest_ns: quantile(&times, 1.0),
            commands: sent as f64 / PAIRS as f64,
        };
    }
    Ok(())
}

fn contended(
    sides: &mut [Side],
    server: &Server,
    workload: &Workload,
    scale: &Scale,
) -> Result<()> {
    progress(&format!(
        "{}: {} x {} workers",
        workload.name, workload.processes, workload.workers
    ));
    // The first windows open connections and load scripts. They are not counted.
    alternate(sides, 1, |side| {
        window(side, workload, scale.window, &mut Contended::default()).map(drop)
    })?;
    alternate(sides, scale.rounds, |side| {
        let mut all = side
            .figures
            .contended
            .remove(workload.name)
            .unwrap_or_default();
        window(side, workload, scale.window, &mut all)?;
        side.figures.contended.insert(workload.name.to_owned(), all);
        Ok(())
    })?;
    for side in sides {
        let mut holds = Ok(0);
        let sent = commands(&[server.address()], || {
            holds = window(side, workload, scale.window, &mut Contended::default());
        });
        let holds = holds?;
        if let Some(all) = side.figures.contended.get_mut(workload.name) {
            all.commands_per_acquisition = sent as f64 / holds.max(1) as f64;
        }
    }
    Ok(())
}

/// Runs one window, adds its figures, and returns the number of all holds.
fn window(
    side: &mut Side,
    workload: &Workload,
    length: Duration,
    all: &mut Contended,
) -> Result<u64> {
    let counter = counter()?;
    let start = now() + nanos(LEAD);
    let command = format!(
        "contend {} {} {} {} {} {start} {}",
        side.name(workload.name),
        counter.path().display(),
        workload.workers,
        workload.hold.as_micros(),
        workload.pause.as_micros(),
        start + nanos(length)
    );
    let drivers = &mut side.drivers[..workload.processes];
    for driver in &mut *drivers {
        driver.begin(&command)?;
    }
    let (mut holds, mut inside) = (0, Vec::new());
    for driver in drivers {
        let words = driver.reply()?;
        let (numbers, waits) = words.split_at_checked(4).ok_or("too few words")?;
        let number = |place: usize| numbers[place].parse::<u64>();
        holds += number(0)?;
        inside.push(number(1)?);
        all.gave_up += number(2)?;
        all.longest_ns = all.longest_ns.max(number(3)?);
        all.waits.add_words(waits)?;
    }
    let in_window: u64 = inside.iter().sum();
    all.rates.push(in_window as f64 / length.as_secs_f64());
    all.holds += holds;
    all.lost_additions += holds.abs_diff(read(counter.path())?);
    let smallest = inside.iter().min().copied().unwrap_or(0);
    all.shares.push(smallest as f64 / in_window.max(1) as f64);
    Ok(holds)
}

/// A file with the number 0, in memory where the system has such files.
fn counter() -> Result<NamedTempFile> {
    let memory = Path::new("/dev/shm");
    let file = if memory.exists() {
        NamedTempFile::new_in(memory)?
    } else {
        NamedTempFile::new()?
    };
    file.as_file().write_all_at(&[0; 8], 0)?;
    Ok(file)
}

fn read(counter: &Path) -> Result<u64> {
    let mut bytes = [0; 8];
    File::open(counter)?.read_exact_at(&mut bytes, 0)?;
    Ok(u64::from_le_bytes(bytes))
}

fn hand_overs(sides: &mut [Side], scale: &Scale) -> Result<()> {
    progress("an unlock in one process, to the return of a lock in another");
    alternate(sides, scale.hand_overs + 1, |side| {
        let sample = hand_over(side)?;
        // The first one opens connections.
        match &mut side.figures.hand_over {
            None => side.figures.hand_over = Some(HandOver::default()),
            Some(all) => all.samples_ns.push(sample),
        }
        Ok(())
    })
}

fn hand_over(side: &mut Side) -> Result<u64> {
    let name = side.name("hand-over");
    let [here, there] = &mut side.drivers;
    loop {
        here.call(&format!("take {name}"))?;
        there.begin(&format!("enter {name}"))?;
        let longer = fastrand::u64(..nanos(HELD_LONGER));
        let micros = (nanos(HELD_FOR) + longer) / 1_000;
        here.begin(&format!("give {micros}"))?;
        let [unlocking] = here.numbers()?[..] else {
            return Err("give has one number".into());
        };
        let [called, granted] = there.numbers()?[..] else {
            return Err("enter has two numbers".into());
        };
        if granted < unlocking && called < unlocking {
            return Err(format!("{}: two holders in a hand-over", side.peer.name).into());
        }
        if called + nanos(SETTLED) < unlocking {
            return Ok(granted - unlocking);
        }
    }
}

fn held(peer: &'static Peer, scale: &Scale) -> Result<Held> {
    progress(&format!("{}: {} held locks", peer.name, scale.locks));
    // Its own server: no other process has connections to it.
    let server = Server::start()?;
    let mut driver = Driver::start(peer, &server.url())?;
    driver.call(&format!("pairs warm-up {PAIRS}"))?;
    server.clear()?;
    let start = now();
    driver.call(&format!("hold held {}", scale.locks))?;
    let acquired = now();
    let (client, server_cpu) = (driver.cpu_time()?, server.cpu_time()?);
    let sent = commands(&[server.address()], || thread::sleep(scale.hold));
    Ok(Held {
        acquire_seconds: (acquired - start) as f64 / 1e9,
        client_cpu_seconds: (driver.cpu_time()? - client).as_secs_f64(),
        server_cpu_seconds: (server.cpu_time()? - server_cpu).as_secs_f64(),
        commands: sent,
        seconds: (now() - acquired) as f64 / 1e9,
        lost: (scale.locks as u64).saturating_sub(server.keys()?),
    })
}

fn progress(what: &str) {
    eprintln!("measuring: {what}");
}
