//! Where the locks are.

use super::{Environment, Site};
use crate::support::certificates::TRUSTED;
use crate::support::server::Server;

/// One server over TCP.
pub struct OneServer;

impl Environment for OneServer {
    fn start() -> Site {
        let server = Server::start();
        Site {
            url: server.url(),
            server,
            namespace: "",
            authority: None,
        }
    }
}

/// The same, in a namespace.
pub struct Namespaced;

impl Environment for Namespaced {
    fn start() -> Site {
        let server = Server::start();
        Site {
            url: server.url(),
            server,
            namespace: "shop:",
            authority: None,
        }
    }
}

/// One server over its socket in the file system.
pub struct UnixSocket;

impl Environment for UnixSocket {
    fn start() -> Site {
        let server = Server::start();
        Site {
            url: server.unix_url(),
            server,
            namespace: "",
            authority: None,
        }
    }
}

/// One server over TLS.
pub struct Tls;

impl Environment for Tls {
    fn start() -> Site {
        let server = Server::options().tls(&TRUSTED.issue("127.0.0.1")).start();
        Site {
            url: format!("rediss://{}", server.tls_address()),
            server,
            namespace: "",
            authority: Some(&TRUSTED.pem),
        }
    }
}
