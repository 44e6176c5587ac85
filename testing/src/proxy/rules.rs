//! What a rule gets, and what it can decide.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, select};
use parking_lot::Mutex;

use crate::known_scripts::{KnownScripts, hash_of};

/// A request that a client sends through a [`FaultProxy`](super::FaultProxy).
///
/// `Debug` writes the name of its script and its words as text, so that a test can show which
/// requests its rule gets.
#[derive(Clone)]
#[non_exhaustive]
pub struct ProxiedRequest {
    /// The number of its connection, from 1 on.
    pub connection: u64,
    /// The command and its arguments.
    pub words: Vec<Vec<u8>>,
    script: Option<Arc<str>>,
    scripts: ScriptNames,
}

impl ProxiedRequest {
    pub(super) fn new(connection: u64, words: Vec<Vec<u8>>, scripts: &ScriptNames) -> Self {
        Self {
            connection,
            script: scripts.name(&words),
            words,
            scripts: scripts.clone(),
        }
    }

    /// The command in upper case, such as `"EVALSHA"`.
    #[must_use]
    pub fn command(&self) -> String {
        let command = self.words.first().map_or(&[][..], Vec::as_slice);
        String::from_utf8_lossy(command).to_uppercase()
    }

    /// Whether it calls this script, by its source or by its hash. The server may or may not know
    /// the hash. See [`script`](Self::script) for the names.
    ///
    /// # Panics
    ///
    /// If no script has this name, so that a misspelt one is noticed: the message has all names.
    /// The panic of a rule closes the connection.
    #[must_use]
    pub fn runs(&self, script: &str) -> bool {
        self.script() == Some(script) || {
            self.scripts.check(script);
            false
        }
    }

    /// The name of the script that it calls, if it has one. The scripts of leasehold have the names
    /// of their files: `"acquire"`, `"release"` and `"renew"` are those of most locks.
    /// [`FaultProxy::name_script`](super::FaultProxy::name_script) names others.
    #[must_use]
    pub fn script(&self) -> Option<&str> {
        self.script.as_deref()
    }

    /// Its words as text. The source of a script is left out.
    fn texts(&self) -> Vec<String> {
        let command = self.command();
        let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
        let mut texts: Vec<_> = self.words.iter().map(|word| text(word)).collect();
        if let (true, Some(source)) = (command == "EVAL", texts.get_mut(1)) {
            *source = "..".into();
        }
        texts
    }

    pub(super) fn subscribes(&self) -> bool {
        matches!(
            self.command().as_str(),
            "SUBSCRIBE" | "PSUBSCRIBE" | "SSUBSCRIBE"
        )
    }

    /// Whether it describes the connection. Clients send this together with their first request, so
    /// that a rule about any request is not about it.
    pub(super) fn describes_connection(&self) -> bool {
        let what = self.words.get(1).map(|word| word.to_ascii_uppercase());
        self.command() == "CLIENT" && matches!(what.as_deref(), Some(b"SETNAME" | b"SETINFO"))
    }

    /// The number of replies to it.
    pub(super) fn replies(&self) -> usize {
        match self.command().as_str() {
            "SUBSCRIBE" | "PSUBSCRIBE" | "SSUBSCRIBE" | "UNSUBSCRIBE" | "PUNSUBSCRIBE"
            | "SUNSUBSCRIBE" => self.words.len().saturating_sub(1).max(1),
            _ => 1,
        }
    }
}

impl fmt::Debug for ProxiedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxiedRequest")
            .field("connection", &self.connection)
            .field("script", &self.script())
            .field("words", &self.texts())
            .finish()
    }
}

/// What happens to one request and its reply.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// Nothing: request and reply pass.
    Pass,
    /// It is sent to the server this much later. Later requests wait, too.
    Delay(Duration),
    /// It is sent to the server this long after it came. Requests that came together are sent
    /// together.
    Latency(Duration),
    /// The server executes it, and the reply is dropped. The connection stays open, and the server
    /// executes later requests, but no later reply passes either: TCP loses no part of a stream.
    SwallowReply,
    /// The server executes it, then the client's connection is reset.
    ResetBeforeReply,
    /// This number of bytes of the reply, then RST.
    ResetInReply(usize),
    /// This number of bytes of the reply, then FIN.
    CutInReply(usize),
    /// The reply comes in pieces of this size with a pause after each.
    SplitReply {
        /// The number of bytes of each piece; 0 counts as 1.
        every: usize,
        /// The time after each piece.
        pause: Duration,
    },
    /// The server executes it, and the client gets these bytes instead of the reply. They must be a
    /// reply of the Redis protocol, such as `b"-ERR failed\r\n".into()`.
    ReplaceReply(Vec<u8>),
    /// Half of it is sent to the server, then both sides are closed.
    HalfRequest,
    /// It is not sent to the server. The connection stays open, but no later reply passes, as after
    /// [`SwallowReply`](Self::SwallowReply).
    SwallowRequest,
    /// It is sent to the server when the gate is opened, even if the client is gone by then. Later
    /// requests on its connection wait, too.
    HoldBack(Gate),
}

/// Where requests wait until the test lets them pass. Clones are the same gate.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::thread;
/// use leasehold::LockClient;
/// use leasehold::testing::{Fault, FaultProxy, Gate, InMemoryRedis};
///
/// let redis = InMemoryRedis::start()?;
/// let proxy = FaultProxy::start(redis.address())?;
/// let gate = Gate::new();
/// let held_back = gate.clone();
/// proxy.on_request(move |request| match request.runs("acquire") {
///     true => Fault::HoldBack(held_back.clone()),
///     false => Fault::Pass,
/// });
///
/// let client = LockClient::connect(&proxy.url())?;
/// let call = thread::spawn(move || client.reentrant_lock("job").lock());
/// while gate.held() == 0 {
///     thread::yield_now();
/// }
/// gate.open();
/// call.join().unwrap()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Gate(Arc<GateState>);

#[derive(Debug)]
struct GateState {
    /// Dropped when the gate is opened, which ends every wait for `opened`.
    closed: Mutex<Option<Sender<Infallible>>>,
    opened: Receiver<Infallible>,
    held: AtomicUsize,
    passed: AtomicUsize,
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Gate {
    /// A closed gate.
    #[must_use]
    pub fn new() -> Self {
        let (closed, opened) = bounded(0);
        Self(Arc::new(GateState {
            closed: Mutex::new(Some(closed)),
            opened,
            held: AtomicUsize::new(0),
            passed: AtomicUsize::new(0),
        }))
    }

    /// Lets all waiting and later requests pass.
    pub fn open(&self) {
        self.0.closed.lock().take();
    }

    /// The number of waiting requests.
    #[must_use]
    pub fn held(&self) -> usize {
        self.0.held.load(Ordering::SeqCst)
    }

    /// The number of requests that passed the open gate and to which the server has replied.
    #[must_use]
    pub fn passed(&self) -> usize {
        self.0.passed.load(Ordering::SeqCst)
    }

    /// Counts a request as waiting until the result is dropped.
    pub(super) fn arrive(&self) -> Held {
        self.0.held.fetch_add(1, Ordering::SeqCst);
        Held(self.clone())
    }

    /// Waits until the gate is open; false if the proxy ends before.
    pub(super) fn wait(&self, stop: &Receiver<Infallible>) -> bool {
        select! {
            recv(self.0.opened) -> _ => true,
            recv(stop) -> _ => false,
        }
    }

    pub(super) fn answered(&self) {
        self.0.passed.fetch_add(1, Ordering::SeqCst);
    }
}

/// A request that waits at a gate.
#[derive(Debug)]
pub(super) struct Held(Gate);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.0.held.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The names of scripts, by the hash under which a server knows them. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct ScriptNames(Arc<Mutex<HashMap<String, Arc<str>>>>);

impl ScriptNames {
    pub(super) fn new(known: &KnownScripts) -> Self {
        Self(Arc::new(Mutex::new(known.names().collect())))
    }

    /// Panics if no script has this name.
    fn check(&self, name: &str) {
        let names = self.0.lock();
        if names.values().all(|known| **known != *name) {
            let mut known: Vec<_> = names.values().cloned().collect();
            drop(names);
            known.sort();
            panic!("no script has the name {name:?}; the names are {known:?}");
        }
    }

    pub(super) fn add(&self, name: &str, text: &[u8]) {
        self.0.lock().insert(hash_of(text), name.into());
    }

    fn name(&self, words: &[Vec<u8>]) -> Option<Arc<str>> {
        let [command, script, ..] = words else {
            return None;
        };
        let hash = if command.eq_ignore_ascii_case(b"EVAL") {
            hash_of(script)
        } else if command.eq_ignore_ascii_case(b"EVALSHA") {
            String::from_utf8_lossy(script).to_lowercase()
        } else {
            return None;
        };
        self.0.lock().get(&hash).cloned()
    }
}
