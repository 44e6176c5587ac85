//! Workers that compete for one lock.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use leasehold_peers_compare::Result;
use leasehold_peers_compare::results::{CROWDS, Contended};
use tempfile::NamedTempFile;

use super::{Scale, Side, alternate, progress};
use crate::commands::commands;
use crate::machine::{nanos, now};
use crate::server::Server;

/// The time in which the workers of a window start.
const LEAD: Duration = Duration::from_millis(50);

/// Workers on one lock.
struct Workload {
    name: &'static str,
    processes: usize,
    /// Workers and clients of each process. Workers that are more than the clients share them.
    workers: usize,
    clients: usize,
    hold: Duration,
    pause: Duration,
}

const WORKLOADS: &[Workload] = &[
    Workload {
        name: "empty",
        processes: 1,
        workers: 8,
        clients: 1,
        hold: Duration::ZERO,
        pause: Duration::ZERO,
    },
    Workload {
        name: "busy",
        processes: 1,
        workers: 8,
        clients: 1,
        hold: Duration::from_millis(2),
        pause: Duration::from_millis(20),
    },
    Workload {
        name: "processes",
        processes: 2,
        workers: 4,
        clients: 1,
        hold: Duration::ZERO,
        pause: Duration::ZERO,
    },
];

/// Workers with a client each, in two processes.
fn crowd((name, clients): (&'static str, usize)) -> Workload {
    Workload {
        name,
        processes: 2,
        workers: clients / 2,
        clients: clients / 2,
        hold: Duration::from_millis(1),
        pause: Duration::ZERO,
    }
}

pub fn measure(sides: &mut [Side], server: &Server, scale: &Scale) -> Result<()> {
    let mut workloads = WORKLOADS.iter();
    workloads.try_for_each(|workload| run(sides, server, workload, scale))
}

/// Their clients keep connections, so this is the last workload of these processes.
pub fn measure_crowds(sides: &mut [Side], server: &Server, scale: &Scale) -> Result<()> {
    let mut workloads = CROWDS.into_iter().map(crowd);
    workloads.try_for_each(|workload| run(sides, server, &workload, scale))
}

fn run(sides: &mut [Side], server: &Server, workload: &Workload, scale: &Scale) -> Result<()> {
    progress(&format!(
        "{}: {} x {} workers",
        workload.name, workload.processes, workload.workers
    ));
    for driver in sides.iter_mut().flat_map(|side| &mut side.drivers) {
        driver.call(&format!("clients {}", workload.clients))?;
    }
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
