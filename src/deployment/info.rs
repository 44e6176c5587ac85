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
                return fault(
                    "insecure TLS",
                    "the certificate of a server is always checked; build the settings without \
                     `insecure`",
                );
            }
            ConnectionAddr::TcpTls {
                tls_params: Some(_),
                ..
            } => {
                return fault(
                    "TLS with certificates",
                    "certificates cannot be read from it; build it without them, and set them by \
                     LockClientBuilder::ca_certificates and client_certificate",
                );
            }
            ConnectionAddr::TcpTls { host, port, .. } => {
                (ConnectionAddr::Tcp(host.clone(), *port), true)
            }
            address @ (ConnectionAddr::Tcp(..) | ConnectionAddr::Unix(_)) => {
                (address.clone(), false)
            }
            _ => {
                return fault(
                    "an address of an unknown type",
                    "must be a TCP or Unix socket address",
                );
            }
        };
        if tcp(info.tcp_settings().clone()) != tcp(TcpSettings::default()) {
            return fault(
                "TCP settings",
                "keepalive, linger and the user timeout of TCP cannot be set; the timeouts of \
                 LockClientBuilder limit every wait",
            );
        }
        if settings.lib_name().is_some() || settings.lib_ver().is_some() {
            return fault(
                "a library name or version",
                "this client sends no name and no version of a library; build it without them",
            );
        }
        let server = Self {
            address,
            credentials: Credentials::of(
                settings.username().map(Into::into),
                settings.password().map(Into::into),
            ),
            database: settings.db(),
            with_tls,
        };
        server.checked()
    }
}
