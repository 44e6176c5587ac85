//! A process whose threads lock and unlock names of their own, as its parent asks. It reads and
//! writes lines as the drivers of `benches/peers` do.

use std::{
    collections::BTreeMap,
    env,
    fmt::Write as _,
    io::{self, BufRead, Write},
    thread,
    time::Duration,
};

use leasehold::LockClient;

use super::{
    clock::{nanos, now, sleep_until},
    raw_pairs::{Call, RawPair, Scripts},
};

/// The environment variable that starts such a process: a `Kind` and the URL of the server.
pub const APART: &str = "LEASEHOLD_BENCH_APART";

/// The threads stay for this long after a window, so that the parent can read what they have used.
const STAY: Duration = Duration::from_millis(100);

/// A thread needs little.
const STACK_BYTES: usize = 256 * 1024;

/// What the threads use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// The library, with one client for all threads.
    Locks,
    /// Scripts, with a connection for each thread.
    RawLocks,
    /// Scripts on one connection: one thread sends the requests of all in one write.
    Pipeline,
    /// One semaphore of the library, with a permit for each thread.
    Permits,
    /// The scripts of a semaphore, with a connection for each thread.
    RawPermits,
}

const KINDS: [Kind; 5] = [
    Kind::Locks,
    Kind::RawLocks,
    Kind::Pipeline,
    Kind::Permits,
    Kind::RawPermits,
];

/// A lock and an unlock. Returns whether both succeeded.
type Pair<'a> = Box<dyn FnMut() -> bool + 'a>;

/// Serves its parent until it closes the pipe, if this process is such a process.
pub fn serve() -> bool {
    let Ok(text) = env::var(APART) else {
        return false;
    };
    let (kind, url) = text.split_once(' ').expect("written by the parent");
    let kind = KINDS.into_iter().find(|known| format!("{known:?}") == kind);
    let library = Library {
        kind: kind.expect("written by the parent"),
        client: LockClient::connect(url).expect("a valid URL"),
        scripts: Scripts::load(url),
        url: url.into(),
    };
    let _ = library.serve();
    true
}

struct Library {
    kind: Kind,
    client: LockClient,
    scripts: Scripts,
    url: String,
}

impl Library {
    fn serve(&self) -> io::Result<()> {
        let mut output = io::stdout().lock();
        for line in io::stdin().lock().lines() {
            let line = line?;
            let words: Vec<_> = line.split(' ').collect();
            let number = |word: &str| word.parse::<u64>().expect("a number");
            match words.as_slice() {
                ["apart", prefix, workers, start, end] => {
                    let window = (number(start), number(end));
                    let report = self.window(prefix, number(workers) as usize, window);
                    writeln!(output, "ok {}", report.words())?;
                }
                ["pairs", name, pairs] => {
                    let mut pair = self.pair(name, 0, 1);
                    (0..number(pairs)).for_each(|_| assert!(pair(), "a pair failed"));
                    writeln!(output, "ok")?;
                }
                _ => panic!("not a command: {line}"),
            }
            output.flush()?;
        }
        Ok(())
    }

    /// The pair of a thread, of which there are `workers`.
    fn pair(&self, prefix: &str, number: usize, workers: usize) -> Pair<'_> {
        let name = |number| format!("{prefix}:{number}");
        let raw = |calls| -> Pair<'_> {
            let mut raw = RawPair::new(&self.url, calls);
            Box::new(move || {
                raw.run();
                true
            })
        };
        match self.kind {
            Kind::Locks => {
                let lock = self.client.reentrant_lock(&name(number));
                Box::new(move || lock.lock().and_then(|()| lock.unlock()).is_ok())
            }
            Kind::RawLocks => raw(self.scripts.lock(&name(number))),
            Kind::Pipeline => {
                let mut all = [Call::default(), Call::default()];
                for number in 0..workers {
                    let calls = self.scripts.lock(&name(number));
                    all.iter_mut()
                        .zip(&calls)
                        .for_each(|(all, one)| all.append(one));
                }
                raw(all)
            }
            Kind::Permits => {
                let semaphore = self.client.semaphore(prefix);
                Box::new(move || {
                    semaphore
                        .acquire(1)
                        .and_then(|()| semaphore.release(1))
                        .is_ok()
                })
            }
            Kind::RawPermits => raw(self.scripts.permit(prefix, &format!("{prefix}:records"))),
        }
    }

    /// Gives the semaphore a permit for each thread.
    fn set_permits(&self, prefix: &str, workers: usize) {
        let client = redis::Client::open(&*self.url).expect("a valid URL");
        let mut connection = client.get_connection().expect("the server is up");
        let set = redis::cmd("SET")
            .arg(prefix)
            .arg(workers)
            .exec(&mut connection);
        set.expect("a reply");
    }

    /// Runs the threads from the start of a window until its end.
    fn window(&self, prefix: &str, workers: usize, (start, end): (u64, u64)) -> Report {
        let (threads, pairs) = match self.kind {
            Kind::Pipeline => (1, workers as u64),
            _ => (workers, 1),
        };
        if matches!(self.kind, Kind::Permits | Kind::RawPermits) {
            self.set_permits(prefix, workers);
        }
        let work = |number: usize| {
            let mut pair = self.pair(prefix, number, workers);
            // The first pair opens connections.
            let mut report = Report::default();
            report.count(pair(), pairs);
            sleep_until(start);
            while now() < end {
                let called = now();
                if report.count(pair(), pairs) {
                    report.add_time(called, end, pairs);
                }
            }
            report.slowest = report.inside;
            report.fastest = report.inside;
            sleep_until(end + nanos(STAY));
            report
        };
        thread::scope(|scope| {
            let work = &work;
            let threads: Vec<_> = (0..threads)
                .map(|number| {
                    let thread = thread::Builder::new().stack_size(STACK_BYTES);
                    let started = thread.spawn_scoped(scope, move || work(number));
                    started.expect("enough threads")
                })
                .collect();
            let reports = threads.into_iter().map(|one| one.join().expect("no panic"));
            reports.reduce(Report::with).unwrap_or_default()
        })
    }
}

/// What one thread did, or all of them.
#[derive(Default)]
struct Report {
    /// All pairs, those that ended before the window did, and those of which a call failed.
    pairs: u64,
    inside: u64,
    failed: u64,
    longest: u64,
    /// The pairs of the slowest and of the fastest thread that ended before the window did.
    slowest: u64,
    fastest: u64,
    times: BTreeMap<u32, u64>,
}

impl Report {
    /// Counts pairs, and returns whether they succeeded.
    fn count(&mut self, succeeded: bool, pairs: u64) -> bool {
        let count = if succeeded {
            &mut self.pairs
        } else {
            &mut self.failed
        };
        *count += pairs;
        succeeded
    }

    /// Adds the time of pairs that end now.
    fn add_time(&mut self, called: u64, end: u64, pairs: u64) {
        let ended = now();
        let took = ended - called;
        self.inside += if ended < end { pairs } else { 0 };
        self.longest = self.longest.max(took);
        *self.times.entry(bucket(took)).or_default() += pairs;
    }

    fn with(mut self, other: Self) -> Self {
        self.pairs += other.pairs;
        self.inside += other.inside;
        self.failed += other.failed;
        self.longest = self.longest.max(other.longest);
        self.slowest = self.slowest.min(other.slowest);
        self.fastest = self.fastest.max(other.fastest);
        for (bucket, count) in other.times {
            *self.times.entry(bucket).or_default() += count;
        }
        self
    }

    /// PAIRS INSIDE GAVE_UP LONGEST SLOWEST FASTEST BUCKET:COUNT...
    fn words(&self) -> String {
        let mut words = format!(
            "{} {} {} {} {} {}",
            self.pairs, self.inside, self.failed, self.longest, self.slowest, self.fastest
        );
        for (bucket, count) in &self.times {
            let _ = write!(words, " {bucket}:{count}");
        }
        words
    }
}

/// 32 buckets for each doubling: a bucket is 2.2 % wide.
fn bucket(nanos: u64) -> u32 {
    ((nanos.max(1) as f64).log2() * 32.0) as u32
}
