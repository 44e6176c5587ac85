//! The parts of a client. This module starts them, and dropping the client stops them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use uuid::Uuid;

use crate::base::lanes::RequestLanes;
use crate::base::{Active, CallBudget, Interrupt, LockKey, Moment, Process, client_name};
use crate::config::Config;
use crate::error::{Cause, Error, Result, TimeLimit};
use crate::local::{LocalQueue, LockId};
use crate::observe::{self, Observer, Reporter};
use crate::protocol::{KeyPositions, kinds};
use crate::request::RedisClient;
use crate::script;
use crate::subscriber::{Handlers, Subscriber};
use crate::topology::Topology;
use crate::transport::credentials::{CredentialSource, Provide, Provided};
use crate::transport::provider::ProviderThread;
use crate::watchdog::Watchdog;

static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

/// The state that clients, lock handles and guards share. The client's threads have no reference to
/// it, directly or indirectly, so that the last drop stops and joins them.
pub(crate) struct Core {
    pub(crate) id: Uuid,
    /// The id as text, with which its owner ids begin.
    pub(crate) owner_prefix: Box<str>,
    /// Identifies the client in this process.
    pub(crate) number: u64,
    process: Process,
    /// Raised when the client is shut down.
    pub(crate) shutdown: Interrupt,
    pub(crate) watchdog_lease: Duration,
    pub(crate) command_timeout: Duration,
    /// For how long a call that waits goes on without any reply.
    give_up_after: Duration,
    /// For how long a grant stays in Redis after its last hold.
    pub(crate) linger: Duration,
    pub(crate) namespace: Box<str>,
    pub(crate) watchdog: Watchdog,
    pub(crate) subscriber: Arc<Subscriber>,
    pub(crate) redis: Arc<RedisClient>,
    pub(crate) queue: Arc<LocalQueue>,
    /// The log says that Redis refuses the line of a lock. It is logged once, because every lock
    /// may have one.
    pub(crate) logged_no_line: AtomicBool,
    pub(crate) lanes: RequestLanes,
    /// Which words of the commands of queries are keys.
    pub(crate) key_positions: Mutex<HashMap<String, KeyPositions>>,
    pub(crate) observer: Arc<Observer>,
    _provider: Option<ProviderThread>,
    /// Dropped last, because the other threads report until they end.
    _reporter: Reporter,
}

impl Core {
    pub(crate) fn open(config: Config) -> Result<Self> {
        // Scripts recognize clients of this library by version 8: those of Redisson have version 4.
        let id = uuid::Builder::from_custom_bytes(Uuid::new_v4().into_bytes()).into_uuid();
        let name = config
            .name_connections
            .then(|| client_name::of_this_process(&id));
        let provider = config.provider.clone();
        let provider = provider.map(|provide| (provide, Arc::<Provided>::default()));
        let credentials = match &provider {
            Some((_, provided)) => CredentialSource::Provided(Arc::clone(provided)),
            None => CredentialSource::Fixed(config.credentials.clone()),
        };
        let topology = Arc::new(Topology::new(&config, credentials, name.as_deref()));
        let mut observer = Observer::default();
        observer.counters.label = config.metric_label.clone();
        let observer = Arc::new(observer);
        let redis = Arc::new(RedisClient::new(&config, topology, Arc::clone(&observer)));
        let reporter = Reporter::start(Arc::clone(&observer.queue)).map_err(no_thread)?;
        let provider = provider
            .map(|provider| start_provider(provider, &config, &observer, &redis.topology))
            .transpose()?;
        let watchdog = Watchdog::new(&redis.clock, config.confirm_every);
        let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
        let queue = LocalQueue::shared();
        // Named like the channel of a lock, so that one ACL pattern allows both.
        let control = LockKey::new(&config.namespace, &format!("leasehold:{id}"));
        let subscriber = Arc::new(Subscriber::new(
            Arc::clone(&redis),
            Arc::clone(&observer),
            Arc::clone(control.channel()),
            Handlers {
                freed: Box::new(watchdog.confirmer()),
                unanswered: Box::new({
                    let leave_line = watchdog.line_leaver();
                    let queue = Arc::clone(&queue);
                    move |key, place| {
                        if !is_wanted(key, number, &queue) {
                            leave_line(key, place);
                        }
                    }
                }),
            },
        ));
        let started = watchdog.start(
            Arc::clone(&redis),
            Arc::clone(&subscriber),
            Arc::clone(&observer),
            config.command_timeout,
        );
        started.map_err(no_thread)?;
        observe::register();
        Ok(Self {
            id,
            owner_prefix: id.to_string().into(),
            number,
            process: Process::current(),
            shutdown: Interrupt::new(),
            watchdog_lease: config.watchdog_lease,
            command_timeout: config.command_timeout,
            give_up_after: config.give_up_after(),
            linger: config.linger,
            namespace: config.namespace.as_str().into(),
            watchdog,
            subscriber,
            redis,
            queue,
            logged_no_line: AtomicBool::new(false),
            lanes: RequestLanes::default(),
            key_positions: Mutex::default(),
            observer,
            _provider: provider,
            _reporter: reporter,
        })
    }

    /// Fails in a process that was forked from the client's process. Called first, because in such
    /// a process a mutex may stay locked indefinitely.
    pub(crate) fn check_process(&self, lock: &str) -> Result<()> {
        if self.is_same_process() {
            return Ok(());
        }
        Err(Error::Forked { lock: lock.into() })
    }

    /// Fails as [`check_process`](Self::check_process), and after a shutdown.
    pub(crate) fn check_open(&self, lock: &str) -> Result<()> {
        self.check_process(lock)?;
        self.check_not_shut_down(lock)
    }

    /// Fails after a shutdown.
    pub(crate) fn check_not_shut_down(&self, lock: &str) -> Result<()> {
        if self.shutdown.is_interrupted() {
            return Err(Error::ShutDown { lock: lock.into() });
        }
        Ok(())
    }

    /// Ends every use of the client, and its threads that talk to Redis. Waits until `until` at the
    /// latest; what is left then goes on in the background.
    ///
    /// The order matters. From the first step on no call begins or continues to wait. From the
    /// second on the watchdog accepts no grant, so a thread that is granted a lock later releases
    /// it itself. The watchdog ends after these calls, because it repeats their releases.
    pub(crate) fn shut_down(&self, until: Moment) -> Result<(), String> {
        self.shutdown.interrupt();
        self.watchdog.release_all();
        self.subscriber.stop();
        if self.subscriber.join(until) & self.watchdog.join(until) {
            return Ok(());
        }
        Err(match self.watchdog.unreleased() {
            0 => "a call or a thread of the client still waits for Redis".into(),
            1 => "the release of 1 lock got no reply; it ends with its lease".into(),
            locks => {
                format!("the releases of {locks} locks got no reply; they end with their leases")
            }
        })
    }

    /// True in the process that made the client, false in one that was forked from it.
    pub(crate) fn is_same_process(&self) -> bool {
        self.process.is_current()
    }

    /// The server that has the key, if the client knows it, or else the deployment. No I/O.
    pub(crate) fn node(&self, key: &LockKey) -> Arc<str> {
        if self.is_same_process() {
            self.redis.topology.name(key)
        } else {
            // In a forked process, a mutex that another thread had locked stays locked.
            self.redis.topology.deployment()
        }
    }

    /// For calls that wait for other owners at most this long, and until the interrupt is raised.
    ///
    /// | time | interrupt | how long Redis has to reply |
    /// |---|---|---|
    /// | set | set or not | that time, at least one command timeout, at most `give_up_after` |
    /// | not set | not set | `give_up_after` |
    /// | not set | set | until the interrupt is raised |
    pub(crate) fn budget_to_wait<'c>(
        &self,
        wait: Option<Duration>,
        interrupt: Option<&'c Interrupt>,
    ) -> CallBudget<'c> {
        self.begin_budget(|| match (wait, interrupt) {
            (None, Some(interrupt)) => CallBudget::until_interrupted(interrupt),
            _ => {
                let wait = wait.unwrap_or(Duration::MAX);
                CallBudget::with_wait(wait, self.command_timeout, self.give_up_after)
                    .with_interrupt(interrupt)
            }
        })
    }

    /// For `unlock`: three command timeouts, enough for two lost replies.
    pub(crate) fn budget_to_unlock(&self) -> CallBudget<'static> {
        self.begin_budget(|| CallBudget::for_reply(self.command_timeout * 3))
    }

    /// For calls that send one request: one command timeout.
    pub(crate) fn budget_for_a_reply(&self) -> CallBudget<'static> {
        self.begin_budget(|| CallBudget::for_reply(self.command_timeout))
    }

    fn begin_budget<'c>(&self, budget: impl FnOnce() -> CallBudget<'c>) -> CallBudget<'c> {
        // Before the budget reads the time: a test may skip time until then.
        let _active = Active::by_call(&self.redis.clock);
        budget().with_clock(&self.redis.clock)
    }

    /// The place of this client in the line of a lock.
    pub(crate) fn place(&self, key: &LockKey) -> Arc<str> {
        self.subscriber.place(key, &self.owner_prefix)
    }

    /// Leaves the line of a lock in the background, if the client was called and has not answered,
    /// or listens to the channel of a semaphore: after a wait, a late copy of an earlier request
    /// may have entered the line again.
    pub(crate) fn leave_if_called(&self, key: &LockKey, place: &Arc<str>) {
        self.subscriber.expect_call(key, place);
        let call = script::leave_line(key, place, true);
        let until = Moment::now().after(self.command_timeout);
        self.watchdog.release_orphan(key.clone(), call, until);
    }

    /// How long this client waits after the end of another owner's lease, so that waiting clients
    /// do not all send a request in the same millisecond.
    pub(crate) fn wait_jitter(&self) -> Duration {
        Duration::from_millis(1 + u64::from(self.id.as_bytes()[0] % 16))
    }
}

/// True if a thread of the client with this number wants the lock. Such a thread asks as soon as it
/// listens for calls.
fn is_wanted(key: &str, number: u64, queue: &LocalQueue) -> bool {
    let with_lines = kinds().filter(|kind| kind.has_line);
    let ids = LockId::of_kinds(number, key, with_lines);
    ids.iter().any(|id| queue.is_requested(id))
}

fn no_thread(error: std::io::Error) -> Error {
    let cause = Arc::new(error);
    Error::NoThread { cause }
}

/// Starts the thread of the credentials provider, and waits for the first credentials. Without
/// credentials no request could be sent. A later build may get them, so that error is transient.
fn start_provider(
    (provide, provided): (Provide, Arc<Provided>),
    config: &Config,
    observer: &Observer,
    topology: &Arc<Topology>,
) -> Result<ProviderThread> {
    let began = Moment::now();
    // After the drop of the client, its connections do not wait for a provider that blocks.
    let weak = Arc::downgrade(topology);
    let servers = move || {
        let topology = weak.upgrade();
        topology.map_or_else(Vec::new, |topology| topology.last_known_servers())
    };
    let timeout = config.command_timeout;
    let thread = ProviderThread::start(provide, provided, observer, timeout, servers);
    let thread = thread.map_err(no_thread)?;
    match thread.await_first(config.connect_timeout) {
        Ok(()) => Ok(thread),
        Err(failure) => {
            let waited = Moment::now().since(began);
            Err(Error::Unavailable {
                lock: String::new(),
                node: topology.deployment().as_ref().into(),
                waited,
                limit: (waited >= config.connect_timeout).then_some(TimeLimit::Connect),
                cause: Cause::from(failure).into(),
            })
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if self.is_same_process() {
            // Releases what lingers, as long as the queue knows it.
            self.watchdog.end();
            for hold in self.queue.remove_client(self.number) {
                hold.count_end(&self.observer.counters);
            }
        }
    }
}
