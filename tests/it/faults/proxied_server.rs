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
}

/// Loads all scripts, so that the first call by hash is executed even if its reply is lost.
pub fn load_scripts(server: &Server) {
    for (_, text) in library_scripts(repository()) {
        server.ask::<()>(redis::cmd("SCRIPT").arg("LOAD").arg(text));
    }
}

/// The server executes the request, and the client gets an error of the proxy, here of twemproxy.
pub fn proxy_error() -> Fault {
    Fault::ReplaceReply(b"-ERR Connection timed out\r\n".into())
}

/// What a client sees as no reply. The server has not executed the request in one of the cases.
pub fn unanswered() -> [Fault; 4] {
    [
        Fault::SwallowReply,
        Fault::SwallowRequest,
        Fault::ResetBeforeReply,
        proxy_error(),
    ]
}

pub fn is_unavailable<T>(result: &leasehold::Result<T>) -> bool {
    matches!(result, Err(Error::Unavailable { .. }))
}

/// The work was done, so the call must not be repeated together with it.
pub fn is_not_released<T>(result: &leasehold::Result<T>) -> bool {
    let Err(error @ Error::NotReleased { is_change, .. }) = result else {
        return false;
    };
    !is_change && !error.is_transient() && error.to_string().contains("the work was done")
}

/// The call changes a number and may have been executed. It has no work that could be repeated.
pub fn is_change_without_reply<T>(result: &leasehold::Result<T>) -> bool {
    let Err(error @ Error::NotReleased { is_change, .. }) = result else {
        return false;
    };
    let text = error.to_string();
    let advice = "do not repeat this call: the watchdog does";
    *is_change && !error.is_transient() && text.contains(advice) && !text.contains("the work")
}
