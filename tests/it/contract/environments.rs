//! Where the locks are.

use super::{Environment, Site};
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
        }
    }
}
