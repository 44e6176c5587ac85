//! Reuses the settings that a program has made for the `redis` crate. What cannot be reused is an
//! error.

use redis::io::tcp::TcpSettings;
use redis::{ConnectionAddr, ConnectionInfo};

use super::{Fault, NamedServer, fault};
use crate::transport::credentials::Credentials;

impl NamedServer {
    /// The server that these settings describe.
    pub(crate) fn of_info(info: &ConnectionInfo) -> Result<Self, Fault> {
        // Of the settings of TCP, all but one can be read only in this form.
        let tcp = |settings: TcpSettings| format!("{:?}", settings.set_nodelay(true));
        let settings = info.redis_settings();
        let (address, with_tls) = match info.addr() {
            ConnectionAddr::TcpTls { insecure: true, .. } => {
                let rule = "the certificate of a server is always checked; build the settings \
                            without `insecure`";
                return fault("insecure TLS", rule);
            }
            ConnectionAddr::TcpTls {
                tls_params: Some(_),
                ..
            } => {
                let rule = "certificates cannot be read from it; build it without them, and set \
                            them by LockClientBuilder::ca_certificates and client_certificate";
                return fault("TLS with certificates", rule);
            }
            ConnectionAddr::TcpTls { host, port, .. } => {
                (ConnectionAddr::Tcp(host.clone(), *port), true)
            }
            address @ (ConnectionAddr::Tcp(..) | ConnectionAddr::Unix(_)) => {
                (address.clone(), false)
            }
            _ => {
                let rule = "must be a TCP or Unix socket address";
                return fault("an address of an unknown type", rule);
            }
        };
        if tcp(info.tcp_settings().clone()) != tcp(TcpSettings::default()) {
            let rule = "keepalive, linger and the user timeout of TCP cannot be set; the timeouts \
                        of LockClientBuilder limit every wait";
            return fault("TCP settings", rule);
        }
        if settings.lib_name().is_some() || settings.lib_ver().is_some() {
            let rule =
                "this client sends no name and no version of a library; build it without them";
            return fault("a library name or version", rule);
        }
        let (user, password) = (settings.username(), settings.password());
        let server = Self {
            address,
            credentials: Credentials::of(user.map(Into::into), password.map(Into::into)),
            database: settings.db(),
            with_tls,
        };
        server.checked()
    }
}
