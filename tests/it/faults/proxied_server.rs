//! A server behind a proxy, and a view of the server without the proxy.

use crate::support::prelude::*;
use crate::support::proxy::{Proxy, library_scripts, repository};

pub struct ProxiedServer {
    pub server: Server,
    pub proxy: Proxy,
}

impl ProxiedServer {
    pub fn new() -> Self {
        let server = Server::start();
        load_scripts(&server);
        let proxy = proxy::before(&server.address());
        Self { server, proxy }
    }

    /// A builder for a client behind the proxy, for which a lost reply costs `timeout`.
    pub fn builder(&self, timeout: Duration) -> LockClientBuilder {
        builder(&self.proxy.url()).command_timeout(timeout)
    }

    /// A client without the proxy.
    pub fn rival(&self) -> LockClient {
        client(&self.server.url())
    }

    /// The next request that runs `script` gets this fault, and all others pass. The result becomes
    /// true when the request came.
    pub fn fault_once(&self, script: &'static str, fault: &Fault) -> Arc<AtomicBool> {
        let done = Arc::new(AtomicBool::new(false));
        let (mark, fault) = (Arc::clone(&done), fault.clone());
        self.proxy.on_request(move |request| {
            match request.runs(script) && !mark.swap(true, Ordering::SeqCst) {
                true => fault.clone(),
                false => Fault::Pass,
            }
        });
        done
    }

    /// Every request that runs `script` gets this fault, and all others pass.
    pub fn fault_always(&self, script: &'static str, fault: &Fault) {
        let fault = fault.clone();
        self.proxy
            .on_request(move |request| match request.runs(script) {
                true => fault.clone(),
                false => Fault::Pass,
            });
    }

    /// The next request that runs `script` waits at the gate, and all others pass.
    pub fn hold_back_once(&self, script: &'static str) -> Gate {
        let gate = Gate::new();
        self.fault_once(script, &Fault::HoldBack(gate.clone()));
        gate
    }

    pub fn view(&self) -> RedisView {
        RedisView(self.server.connection())
    }
}

/// Loads all scripts, so that the first call by hash is executed even if its reply is lost.
pub fn load_scripts(server: &Server) {
    for (_, text) in library_scripts(repository()) {
        server.ask::<()>(redis::cmd("SCRIPT").arg("LOAD").arg(text));
    }
}

/// What Redis has, read without the proxy.
pub struct RedisView(pub Connection);

impl RedisView {
    /// The holder of a lock, and its count.
    pub fn holder(&mut self, name: &str) -> Option<(String, u32)> {
        let hgetall = redis::cmd("HGETALL").arg(name).clone();
        let counts: HashMap<String, u32> = hgetall.query(&mut self.0).expect("a lock, or none");
        assert!(counts.len() <= 1, "two holders of {name}: {counts:?}");
        counts.into_iter().next()
    }

    pub fn count(&mut self, name: &str) -> u32 {
        self.holder(name).map_or(0, |(_, count)| count)
    }

    /// Zero if there is no lock.
    pub fn time_to_live(&mut self, name: &str) -> Duration {
        let pttl: i64 = redis::cmd("PTTL")
            .arg(name)
            .query(&mut self.0)
            .expect("a number");
        assert_ne!(pttl, -1, "{name} never expires");
        Duration::from_millis(pttl.max(0).unsigned_abs())
    }

    /// Waits until Redis has the holder's count, for at most `bound`.
    #[track_caller]
    pub fn await_count(&mut self, count: u32, name: &str, bound: Duration, what: &str) {
        let start = Instant::now();
        loop {
            let found = self.count(name);
            if found == count {
                return;
            }
            assert!(
                start.elapsed() < bound,
                "{what}: the holder of {name} has {count}, Redis still has {found}",
            );
            thread::sleep(millis(1));
        }
    }
}

pub fn is_unavailable<T>(result: &leasehold::Result<T>) -> bool {
    matches!(result, Err(Error::Unavailable { .. }))
}

/// The work was done, so the call must not be repeated together with it.
pub fn is_not_released<T>(result: &leasehold::Result<T>) -> bool {
    let Err(error @ Error::NotReleased { .. }) = result else {
        return false;
    };
    !error.is_transient() && error.to_string().contains("the work was done")
}
