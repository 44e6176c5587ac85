//! A process of clients with a thread each, which want one lock, as its parent asks.

use std::{
    env, fmt,
    io::{self, BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use leasehold::{Lease, Lock, LockClient, Result};

use super::{
    Server,
    clock::{now, sleep, sleep_until},
    start_again,
};

/// The environment variable that starts such a process: the kind, the URL of the server, how long
/// a lock is held in nanoseconds, and the name for each client, with commas between them.
const CROWD: &str = "LEASEHOLD_BENCH_CROWD";

/// A thread needs little.
const STACK_BYTES: usize = 256 * 1024;

/// After a call that failed.
const PAUSE: Duration = Duration::from_millis(10);

/// Between the names of a lock on several names.
pub const AND: char = '+';

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Plain,
    Fenced,
    Fair,
    Write,
    /// Half of the holds only read.
    ReadWrite,
    /// A semaphore with this many permits, of which each client takes one.
    Semaphore(u32),
    Leased(u32),
    /// A lock on several names.
    Names,
}

/// All kinds of one name.
pub const KINDS: [Kind; 9] = [
    Kind::Plain,
    Kind::Fenced,
    Kind::Fair,
    Kind::Write,
    Kind::ReadWrite,
    Kind::Semaphore(1),
    Kind::Semaphore(8),
    Kind::Leased(1),
    Kind::Leased(8),
];

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain => f.write_str("plain"),
            Self::Fenced => f.write_str("fenced"),
            Self::Fair => f.write_str("fair"),
            Self::Write => f.write_str("write"),
            Self::ReadWrite => f.write_str("read-write"),
            Self::Semaphore(permits) => write!(f, "semaphore-{permits}"),
            Self::Leased(permits) => write!(f, "leased-{permits}"),
            Self::Names => f.write_str("names"),
        }
    }
}

impl Kind {
    pub fn parse(text: &str) -> Option<Self> {
        let mut all = KINDS.into_iter().chain([Self::Names]);
        all.find(|kind| kind.to_string() == text)
    }

    /// Gives a semaphore its permits.
    pub fn prepare(self, client: &LockClient, name: &str) {
        let set = match self {
            Self::Semaphore(permits) => client.semaphore(name).try_set_permits(permits),
            Self::Leased(permits) => client.leased_semaphore(name).try_set_permits(permits),
            _ => return,
        };
        assert!(set.expect("a reply"), "the semaphore is new");
    }

    /// Takes the lock or all permits. The result releases them.
    pub fn take(self, client: &LockClient, name: &str) -> Box<dyn FnOnce()> {
        match self {
            Self::Semaphore(permits) => {
                let semaphore = client.semaphore(name);
                semaphore.acquire(permits).expect("free");
                Box::new(move || semaphore.release(permits).expect("held"))
            }
            Self::Leased(permits) => {
                let semaphore = client.leased_semaphore(name);
                let permit = |_| semaphore.acquire().expect("free");
                let permits: Vec<_> = (0..permits).map(permit).collect();
                let release = |permit: leasehold::PermitGuard| permit.release().expect("held");
                Box::new(move || permits.into_iter().for_each(release))
            }
            _ => {
                let lock = self.lock(client, name);
                lock.lock().expect("free");
                Box::new(move || lock.unlock().expect("held"))
            }
        }
    }

    fn lock(self, client: &LockClient, name: &str) -> Box<dyn Lock> {
        match self {
            Self::Fenced => Box::new(client.fenced_lock(name)),
            Self::Fair => Box::new(client.fair_lock(name)),
            Self::Write | Self::ReadWrite => Box::new(client.read_write_lock(name).write()),
            Self::Names => Box::new(client.multi_lock(name.split(AND))),
            _ => Box::new(client.reentrant_lock(name)),
        }
    }

    fn enter(self, client: &LockClient, name: &str) -> Enter {
        match self {
            Self::Semaphore(_) => {
                let semaphore = client.semaphore(name);
                Box::new(move |wait, work| {
                    let is_granted = semaphore.try_acquire(1, wait)?;
                    if is_granted {
                        work();
                        semaphore.release(1)?;
                    }
                    Ok(())
                })
            }
            Self::Leased(_) => {
                let semaphore = client.leased_semaphore(name);
                Box::new(move |wait, work| {
                    if let Some(permit) = semaphore.try_acquire(wait, Lease::RENEWED)? {
                        work();
                        permit.release()?;
                    }
                    Ok(())
                })
            }
            _ => {
                let lock = self.lock(client, name);
                let read = client.read_write_lock(name).read();
                Box::new(move |wait, work| {
                    let reads = self == Self::ReadWrite && fastrand::bool();
                    let lock: &dyn Lock = if reads { &read } else { &*lock };
                    if lock.try_lock(wait, Lease::RENEWED)? {
                        work();
                        lock.unlock()?;
                    }
                    Ok(())
                })
            }
        }
    }
}

/// Waits for at most this time, runs the work if the lock was granted, and releases it.
type Enter = Box<dyn FnMut(Duration, &mut dyn FnMut()) -> Result<()> + Send>;

/// What a client did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Run {
    /// Those in the measured time.
    pub grants: u64,
    /// The part of a wait that was in the measured time, in nanoseconds.
    pub longest: u64,
    pub errors: u64,
    /// When the last grant was.
    pub last: u64,
}

/// The times of a run, and how many grants end it.
#[derive(Clone, Copy)]
pub struct Span {
    pub start: u64,
    /// What ends from here on is measured.
    pub from: u64,
    pub end: u64,
    pub grants: u64,
}

/// Serves its parent until it closes the pipe, if this process is such a process.
pub fn serve() -> bool {
    let Ok(text) = env::var(CROWD) else {
        return false;
    };
    let words: Vec<_> = text.split(' ').collect();
    let &[kind, url, hold, names] = words.as_slice() else {
        panic!("not a crowd: {text}");
    };
    let connect = |name: &str| {
        let client = LockClient::connect(url).expect("a valid URL");
        client.ping().expect("the server is up");
        (client, name.to_owned())
    };
    let crowd = Crowd {
        kind: Kind::parse(kind).expect("a kind"),
        hold: Duration::from_nanos(hold.parse().expect("a number")),
        clients: names.split(',').map(connect).collect(),
    };
    let _ = crowd.serve();
    true
}

struct Crowd {
    kind: Kind,
    hold: Duration,
    /// Each with the name of its lock.
    clients: Vec<(LockClient, String)>,
}

impl Crowd {
    fn serve(&self) -> io::Result<()> {
        say("ready")?;
        for line in io::stdin().lock().lines() {
            let line = line?;
            let numbers = line.split(' ').skip(1);
            let numbers: Vec<u64> = numbers
                .map(|word| word.parse().expect("a number"))
                .collect();
            let runs = match *numbers.as_slice() {
                [start, from, end, grants] => {
                    let span = Span {
                        start,
                        from,
                        end,
                        grants,
                    };
                    self.all(|client, name| self.run(client, name, span))
                }
                [] => {
                    let entered = AtomicUsize::new(0);
                    self.all(|client, name| self.be_notified(client, name, &entered))
                }
                _ => panic!("not a command: {line}"),
            };
            let runs = runs.iter().map(|run| {
                let Run {
                    grants,
                    longest,
                    errors,
                    last,
                } = run;
                format!("{grants} {longest} {errors} {last}")
            });
            say(&runs.collect::<Vec<_>>().join(","))?;
        }
        Ok(())
    }

    /// Starts a thread for each client.
    fn all(&self, work: impl Fn(&LockClient, &str) -> Run + Sync) -> Vec<Run> {
        let work = &work;
        thread::scope(|scope| {
            let mut threads = Vec::new();
            for (client, name) in &self.clients {
                let thread = thread::Builder::new().stack_size(STACK_BYTES);
                let started = thread.spawn_scoped(scope, move || work(client, name));
                threads.push(started.expect("enough threads"));
            }
            let runs = threads.into_iter().map(|one| one.join().expect("no panic"));
            runs.collect()
        })
    }

    fn run(&self, client: &LockClient, name: &str, span: Span) -> Run {
        let mut enter = self.kind.enter(client, name);
        let mut run = Run::default();
        sleep_until(span.start);
        while now() < span.end && run.grants < span.grants {
            let called = now();
            let wait = Duration::from_nanos(span.end.saturating_sub(called));
            let mut granted = None;
            let result = enter(wait, &mut || {
                granted = Some(now());
                sleep(self.hold);
            });
            let until = granted.unwrap_or_else(now).min(span.end);
            let waited = until.saturating_sub(called.max(span.from));
            run.longest = run.longest.max(waited);
            if let Some(granted) = granted {
                run.last = granted;
                run.grants += u64::from((span.from..span.end).contains(&granted));
            }
            run.check(&result);
        }
        run
    }

    /// Waits for one notification of a condition. Tells the parent when all clients wait.
    fn be_notified(&self, client: &LockClient, name: &str, entered: &AtomicUsize) -> Run {
        let lock = client.reentrant_lock(name);
        let condition = lock.condition(CONDITION);
        let mut run = Run::default();
        while let Err(error) = lock.lock() {
            run.check(&Err(error));
        }
        // The wait releases the lock when it has begun.
        if entered.fetch_add(1, Ordering::Relaxed) + 1 == self.clients.len() {
            let _ = say("ready");
        }
        let notified = condition.wait_for(LONGEST_WAIT);
        run.grants = u64::from(matches!(notified, Ok(true)));
        run.last = now();
        run.check(&notified.map(|_| ()));
        sleep(self.hold);
        // Also after a failed wait, which may not have released the lock.
        run.check(&lock.unlock());
        run
    }
}

/// The condition of the lock in such a process.
pub const CONDITION: &str = "notified";
const LONGEST_WAIT: Duration = Duration::from_secs(60);

impl Run {
    /// Counts an error, and writes the first one of the process.
    fn check(&mut self, result: &Result<()>) {
        static WRITTEN: AtomicBool = AtomicBool::new(false);
        if let Err(error) = result {
            self.errors += 1;
            if !WRITTEN.swap(true, Ordering::Relaxed) {
                eprintln!("the first error of a process: {error}");
            }
            sleep(PAUSE);
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split(' ').map(str::parse);
        let mut number = || numbers.next()?.ok();
        Some(Self {
            grants: number()?,
            longest: number()?,
            errors: number()?,
            last: number()?,
        })
    }
}

fn say(line: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{line}")?;
    output.flush()
}

/// Such a process, as its parent sees it. Dropping this value kills it.
pub struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Process {
    /// Starts a client for each of the names. `ready` waits until they are connected.
    pub fn start(server: &Server, kind: Kind, hold: Duration, names: &[String]) -> Self {
        let (url, hold, names) = (server.url(), hold.as_nanos(), names.join(","));
        let mut child = start_again(CROWD, &format!("{kind} {url} {hold} {names}"));
        Self {
            input: child.stdin.take().expect("piped"),
            output: BufReader::new(child.stdout.take().expect("piped")),
            child,
        }
    }

    /// Waits until all clients are connected, or until all of them wait for a notification.
    pub fn ready(&mut self) {
        assert_eq!(self.line(), "ready");
    }

    pub fn begin(&mut self, span: Span) {
        let Span {
            start,
            from,
            end,
            grants,
        } = span;
        writeln!(self.input, "run {start} {from} {end} {grants}").expect("it reads");
    }

    pub fn begin_to_wait(&mut self) {
        writeln!(self.input, "wait").expect("it reads");
    }

    /// What each client did. Waits for the end of the run.
    pub fn end(&mut self) -> Vec<Run> {
        let line = self.line();
        let runs = line.split(',').map(Run::parse).collect::<Option<_>>();
        runs.unwrap_or_else(|| panic!("not a report: {line}"))
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it replies");
        line.trim_end().to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
