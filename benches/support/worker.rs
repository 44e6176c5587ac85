//! A worker: a process that locks and unlocks in a loop, in windows that its parent sets.

use std::{
    env,
    io::{self, Read, Write},
    time::Duration,
};

use leasehold::LockClient;

use super::{
    clock::nanos,
    contention::{Enter, Load, enter, run},
    raw_waiter::enter_raw,
};

/// The environment variable that starts a worker: a `Spec` as text.
pub const WORKER: &str = "LEASEHOLD_BENCH_WORKER";

/// How a worker locks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A reentrant lock of the library.
    Lock,
    /// Scripts without a library.
    Raw,
    /// A lock of the library on many names, in this order or in the opposite one.
    Names,
    NamesReversed,
}

const KINDS: [Kind; 4] = [Kind::Lock, Kind::Raw, Kind::Names, Kind::NamesReversed];

/// What a worker does.
#[derive(Clone, Debug)]
pub struct Spec {
    pub kind: Kind,
    pub url: String,
    pub name: String,
    pub load: Load,
}

impl Spec {
    pub fn to_text(&self) -> String {
        let Self {
            kind,
            url,
            name,
            load,
        } = self;
        let [hold, pause] = [load.hold, load.pause].map(nanos);
        format!("{kind:?} {url} {name} {} {hold} {pause}", load.threads)
    }

    fn parse(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split(' ').collect();
        let &[kind, url, name, threads, hold, pause] = words.as_slice() else {
            return None;
        };
        Some(Self {
            kind: KINDS
                .into_iter()
                .find(|known| format!("{known:?}") == kind)?,
            url: url.into(),
            name: name.into(),
            load: Load {
                threads: threads.parse().ok()?,
                hold: Duration::from_nanos(hold.parse().ok()?),
                pause: Duration::from_nanos(pause.parse().ok()?),
            },
        })
    }

    fn enter(&self) -> Box<Enter<'static>> {
        let client = || LockClient::connect(&self.url).expect("a valid URL");
        match self.kind {
            Kind::Raw => enter_raw(&self.url, &self.name, self.load.threads),
            Kind::Lock => {
                let lock = client().reentrant_lock(&self.name);
                Box::new(move |work| enter(&lock)(work))
            }
            Kind::Names | Kind::NamesReversed => {
                let mut names = twenty_names(&self.name);
                if self.kind == Kind::NamesReversed {
                    names.reverse();
                }
                let lock = client().multi_lock(&names);
                Box::new(move |work| enter(&lock)(work))
            }
        }
    }
}

/// The names of a lock on many names.
pub fn twenty_names(prefix: &str) -> Vec<String> {
    (0..20)
        .map(|number| format!("{prefix}:{number:02}"))
        .collect()
}

/// Runs a worker until its parent closes the pipe, if this process is one.
pub fn serve() -> bool {
    let Ok(text) = env::var(WORKER) else {
        return false;
    };
    let spec = Spec::parse(&text).expect("written by the parent");
    let _ = serve_windows(&spec);
    true
}

/// Reads the start and the end of a window. Writes what each thread did in it.
fn serve_windows(spec: &Spec) -> io::Result<()> {
    let enter = spec.enter();
    let (mut requests, mut replies) = (io::stdin().lock(), io::stdout().lock());
    loop {
        let [start, end] = [read(&mut requests)?, read(&mut requests)?];
        for thread in run(&*enter, spec.load, start, end) {
            let mut reply = vec![thread.acquired, thread.waits.len() as u64];
            reply.extend(thread.waits);
            let bytes: Vec<u8> = reply.into_iter().flat_map(u64::to_le_bytes).collect();
            replies.write_all(&bytes)?;
        }
        replies.flush()?;
    }
}

/// Reads one number.
pub fn read(pipe: &mut impl Read) -> io::Result<u64> {
    let mut number = [0; 8];
    pipe.read_exact(&mut number)?;
    Ok(u64::from_le_bytes(number))
}
