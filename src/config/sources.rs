//! What a builder of one server can be made from: a URL, or settings of the `redis` crate.

use std::borrow::Cow;
use std::sync::Arc;

use redis::ConnectionInfo;

use super::LockClientBuilder;
use crate::deployment::{Deployment, NamedServer};

/// All types that a parameter `&str` would accept, too. Not `String`: with it, `clippy` would
/// report each `&String`.
macro_rules! from_urls {
    ($($url:ty),*) => {
        $(
            /// From a URL, which [`LockClient::connect`](crate::LockClient::connect) describes.
            impl From<$url> for LockClientBuilder {
                fn from(url: $url) -> Self {
                    let url: &str = &url;
                    Self::of_urls(Deployment::Single, [url])
                }
            }
        )*
    };
}

from_urls!(
    &str,
    &&str,
    &String,
    &&String,
    &Box<str>,
    &Arc<str>,
    &Cow<'_, str>
);

/// From the address, user, password and database that a program has for the `redis` crate. See
/// [`LockClient::builder`](crate::LockClient::builder).
impl From<ConnectionInfo> for LockClientBuilder {
    fn from(info: ConnectionInfo) -> Self {
        (&info).into()
    }
}

/// From the address, user, password and database that a program has for the `redis` crate. See
/// [`LockClient::builder`](crate::LockClient::builder).
impl From<&ConnectionInfo> for LockClientBuilder {
    fn from(info: &ConnectionInfo) -> Self {
        Self::new(Deployment::Single, vec![NamedServer::of_info(info)])
    }
}

/// From the settings of a client of the `redis` crate. See
/// [`LockClient::builder`](crate::LockClient::builder). No connection is shared.
impl From<&redis::Client> for LockClientBuilder {
    fn from(client: &redis::Client) -> Self {
        client.get_connection_info().into()
    }
}

/// From the settings of a client of the `redis` crate. See
/// [`LockClient::builder`](crate::LockClient::builder). No connection is shared.
impl From<redis::Client> for LockClientBuilder {
    fn from(client: redis::Client) -> Self {
        (&client).into()
    }
}
