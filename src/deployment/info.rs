//! Reuses the settings that a program has made for the `redis` crate. What cannot be reused is an
//! error. No text of an error contains the user or the password.

use redis::io::tcp::TcpSettings;
use redis::{ConnectionAddr, ConnectionInfo};

use crate::error::{Error, Result};

/// The name of the setting in errors.
pub(super) const FIELD: &str = "connection info";

/// Returns the settings with an address without TLS, and whether they ask for TLS.
pub(super) fn reuse(info: &ConnectionInfo) -> Result<(ConnectionInfo, bool)> {
    check(info)?;
    match info.addr() {
        ConnectionAddr::Tcp(..) | ConnectionAddr::Unix(_) => Ok((info.clone(), false)),
        ConnectionAddr::TcpTls {
            host,
            port,
            insecure,
            tls_params,
        } => {
            if *insecure {
                let rule = "the certificate of a server is always checked; build the settings \
                            without `insecure`";
                return Err(refused("insecure TLS", rule));
            }
            if tls_params.is_some() {
                let rule = "certificates cannot be read from it; build it without them, and set \
                            them by LockClientBuilder::ca_certificates and client_certificate";
                return Err(refused("TLS with certificates", rule));
            }
            let plain = ConnectionAddr::Tcp(host.clone(), *port);
            Ok((info.clone().set_addr(plain), true))
        }
        _ => Err(refused(
            "an address of an unknown type",
            "must be a TCP or Unix socket address",
        )),
    }
}

fn check(info: &ConnectionInfo) -> Result<()> {
    // Of the settings of TCP, all but one can be read only in this form.
    let tcp = |settings: TcpSettings| format!("{:?}", settings.set_nodelay(true));
    if tcp(info.tcp_settings().clone()) != tcp(TcpSettings::default()) {
        let rule = "keepalive, linger and the user timeout of TCP cannot be set; the timeouts of \
                    LockClientBuilder limit every wait";
        return Err(refused("TCP settings", rule));
    }
    let settings = info.redis_settings();
    if settings.lib_name().is_some() || settings.lib_ver().is_some() {
        let rule = "this client sends no name and no version of a library; build it without them";
        return Err(refused("a library name or version", rule));
    }
    if settings.db() < 0 {
        let rule = "a database must be a whole number";
        return Err(refused("a negative database", rule));
    }
    Ok(())
}

fn refused(value: &str, rule: &str) -> Error {
    Error::Config {
        field: FIELD,
        value: value.into(),
        rule: rule.into(),
    }
}
