//! The options of a server.

use std::ffi::OsString;

use parking_lot::Mutex;

use super::port::Port;
use super::server_process::{Environment, ServerProcess, StartOptions};
use super::time_limit::TimeLimit;
use super::tls_port::TlsPort;
use super::{Identity, Server, State, url};

/// The name of a sentinel's file, which the sentinel rewrites when its knowledge changes.
const CONFIGURATION: &str = "sentinel.conf";

#[derive(Default)]
pub struct Options {
    password: Option<String>,
    everlasting: bool,
    keeps_data: bool,
    environment: Environment,
    tls_port: Option<TlsPort>,
    arguments: Vec<OsString>,
    files: Vec<(&'static str, String)>,
    sentinel: bool,
    port: Option<Port>,
}

impl Options {
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.into());
        self
    }

    /// All confirmed writes are there after a restart.
    pub fn keeps_data(mut self) -> Self {
        self.keeps_data = true;
        self
    }

    /// With these environment variables.
    pub fn environment(mut self, variables: Environment) -> Self {
        self.environment = variables;
        self
    }

    /// With an additional TLS port and this certificate.
    pub fn tls(mut self, identity: &Identity) -> Self {
        self.tls_port = Some(TlsPort::new(identity, false));
        self
    }

    /// With an additional TLS port and this certificate. Clients must show a certificate of the
    /// trusted authority.
    pub fn tls_for_known_clients(mut self, identity: &Identity) -> Self {
        self.tls_port = Some(TlsPort::new(identity, true));
        self
    }

    /// It serves many tests, so it has no time limit and does not print its log.
    pub fn everlasting(mut self) -> Self {
        self.everlasting = true;
        self
    }

    /// Further arguments of `redis-server`.
    pub fn arguments(mut self, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(OsString::from);
        self.arguments.extend(arguments);
        self
    }

    /// A file that is in its directory when it starts.
    pub fn file(mut self, name: &'static str, text: String) -> Self {
        self.files.push((name, text));
        self
    }

    /// A sentinel with this configuration instead of a server with data.
    pub fn sentinel(mut self, configuration: String) -> Self {
        self.sentinel = true;
        self.file(CONFIGURATION, configuration)
    }

    /// At a port that other servers already know.
    pub fn port(mut self, port: Port) -> Self {
        self.port = Some(port);
        self
    }

    pub fn start(self) -> Server {
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
        if let Some(tls_port) = &self.tls_port {
            arguments.extend(tls_port.arguments());
        }
        for (name, text) in self.files {
            std::fs::write(directory.path().join(name), text).expect("our own directory");
        }
        arguments.extend(self.arguments);
        let configuration = self.sentinel.then(|| directory.path().join(CONFIGURATION));
        if self.sentinel {
            arguments.push("--sentinel".into());
        }
        let known = self.port.is_some();
        let mut port = self.port.unwrap_or_else(Port::reserve);
        let (options, process) = loop {
            let options = StartOptions {
                port: port.number(),
                url: url(self.password.as_deref(), &port),
                configuration: configuration.clone(),
                arguments: arguments.clone(),
                environment: self.environment.clone(),
                directory: directory.path().to_owned(),
            };
            if let Some(process) = ServerProcess::start(&options) {
                break (options, process);
            }
            assert!(!known, "another process is at {}", options.port);
            port = Port::reserve();
        };
        Server {
            _time_limit: (!self.everlasting).then(TimeLimit::start),
            options,
            state: Mutex::new(State::Up),
            process: Mutex::new(process),
            logged: Mutex::default(),
            port,
            tls_port: self.tls_port,
            password: self.password,
            directory,
        }
    }
}
