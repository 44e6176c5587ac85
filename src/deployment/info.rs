//! Reuses the settings that a program has made for the `redis` crate. What cannot be reused is an
//! error. No text of an error contains the user or the password.

use redis::io::tcp::TcpSettings;
use redis::{ConnectionAddr, ConnectionInfo};

use super::Server;
use super::fault::{Fault, check_host};
use crate::error::{Error, Result};
use crate::transport::credentials::Account;

/// The name of the setting in errors.
pub(super) const FIELD: &str = "connection info";

/// Returns what the settings say about the server.
pub(super) fn reuse(info: &ConnectionInfo) -> Result<Server> {
    let (address, with_tls) = match info.addr() {
        ConnectionAddr::TcpTls { host, port, .. } => {
            (ConnectionAddr::Tcp(host.clone(), *port), true)
        }
        address => (address.clone(), false),
    };
    // An IPv6 address has colons, and maybe the name of a network interface.
    if let ConnectionAddr::Tcp(host, _) = &address
        && !host.contains(':')
    {
        check_host(host).map_err(|Fault { part, rule }| Error::config(FIELD, part, rule))?;
    }
    // Of the settings of TCP, all but one can be read only in this form.
    let tcp = |settings: TcpSettings| format!("{:?}", settings.set_nodelay(true));
    let settings = info.redis_settings();
    let (value, rule) = if matches!(info.addr(), ConnectionAddr::TcpTls { insecure: true, .. }) {
        let rule = "the certificate of a server is always checked; build the settings without \
                    `insecure`";
        ("insecure TLS", rule)
    } else if let ConnectionAddr::TcpTls {
        tls_params: Some(_),
        ..
    } = info.addr()
    {
        let rule = "certificates cannot be read from it; build it without them, and set them by \
                    LockClientBuilder::ca_certificates and client_certificate";
        ("TLS with certificates", rule)
    } else if !matches!(address, ConnectionAddr::Tcp(..) | ConnectionAddr::Unix(_)) {
        let rule = "must be a TCP or Unix socket address";
        ("an address of an unknown type", rule)
    } else if tcp(info.tcp_settings().clone()) != tcp(TcpSettings::default()) {
        let rule = "keepalive, linger and the user timeout of TCP cannot be set; the timeouts of \
                    LockClientBuilder limit every wait";
        ("TCP settings", rule)
    } else if settings.lib_name().is_some() || settings.lib_ver().is_some() {
        let rule = "this client sends no name and no version of a library; build it without them";
        ("a library name or version", rule)
    } else if settings.db() < 0 {
        ("a negative database", "a database must be a whole number")
    } else {
        return Ok(Server {
            address,
            account: Account::from(info),
            with_tls,
        });
    };
    Err(Error::config(FIELD, value, rule))
}
