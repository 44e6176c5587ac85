//! How a server is started.

use std::cell::Cell;
use std::ffi::OsString;
use std::sync::LazyLock;

use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::fuse::Fuse;
use super::life::{Environment, Life};
use super::port::Port;
use super::secured::Secured;
use super::{Server, url};
use crate::support::certificates::Identity;
use crate::support::timing::SOON;

/// A test that measures the machine's speed runs while no other test has a server.
static MACHINE: LazyLock<RwLock<()>> = LazyLock::new(RwLock::default);

thread_local! {
    /// Its test has a server, or had one.
    static IS_IN: Cell<bool> = const { Cell::new(false) };
}

#[derive(Debug)]
#[expect(dead_code, reason = "held for its drop")]
pub(super) enum Machine {
    Shared(RwLockReadGuard<'static, ()>),
    Alone(RwLockWriteGuard<'static, ()>),
}

impl Machine {
    fn enter(alone: bool) -> Self {
        if alone {
            return Self::Alone(MACHINE.write());
        }
        // A test that begins lets one go before it that waits for the machine, which would wait for the
        // end of all tests otherwise. A test that has a server goes on, and so does one that
        // starts its servers on several threads, in the end.
        let guard = if IS_IN.replace(true) {
            None
        } else {
            MACHINE.try_read_for(SOON.get())
        };
        Self::Shared(guard.unwrap_or_else(|| MACHINE.read_recursive()))
    }
}

#[derive(Default)]
pub struct Options {
    password: Option<String>,
    alone: bool,
    keeps_data: bool,
    environment: Environment,
    secured: Option<Secured>,
}

impl Options {
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.into());
        self
    }

    /// No other test's server runs beside this one, so that times can be measured.
    pub fn alone(mut self) -> Self {
        self.alone = true;
        self
    }

    /// Whatever it has confirmed is there again after a restart.
    pub fn keeps_data(mut self) -> Self {
        self.keeps_data = true;
        self
    }

    /// With these variables in its environment.
    pub fn environment(mut self, variables: Environment) -> Self {
        self.environment = variables;
        self
    }

    /// With one more port, on which it speaks TLS and shows this.
    pub fn tls(mut self, identity: &Identity) -> Self {
        self.secured = Some(Secured::new(identity, false));
        self
    }

    /// The same, and its clients must show a certificate of the trusted authority.
    pub fn tls_for_known_clients(mut self, identity: &Identity) -> Self {
        self.secured = Some(Secured::new(identity, true));
        self
    }

    pub fn start(self) -> Server {
        let machine = Machine::enter(self.alone);
        let directory = tempfile::tempdir().expect("a directory");
        let mut arguments: Vec<OsString> = vec![
            "--dir".into(),
            directory.path().into(),
            "--unixsocket".into(),
            directory.path().join("socket").into(),
        ];
        if let Some(password) = &self.password {
            arguments.extend(["--requirepass".into(), password.into()]);
        }
        if self.keeps_data {
            let written = ["--appendonly", "yes", "--appendfsync", "always"];
            arguments.extend(written.map(OsString::from));
        }
        if let Some(secured) = &self.secured {
            arguments.extend(secured.arguments());
        }
        let (port, life) = loop {
            let port = Port::reserve();
            let url = url(self.password.as_deref(), &port);
            if let Some(life) = Life::start(port.number(), &url, &arguments, &self.environment) {
                break (port, life);
            }
        };
        Server {
            fuse: Fuse::of(life.pid()),
            life: Mutex::new(life),
            logged: Mutex::default(),
            arguments,
            environment: self.environment,
            port,
            secured: self.secured,
            password: self.password,
            directory,
            _machine: machine,
        }
    }
}
