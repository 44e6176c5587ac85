//! One server: the connections to it, what is sent and received on them, and what a failure means.
//!
//! This is more code than a wrapper of `redis` would be. A connection of `redis` serves one thread
//! at a time, sets no deadline for a whole exchange or a TLS handshake, and does not read again
//! after a timeout. Here many threads share a [link](link), each with its own deadline, and a late
//! reply still says what became of its request. The rest tells apart what a failure means: for the
//! connection, for the server, for the route to it, and for the user.
//!
//! | modules | duty |
//! |---|---|
//! | `socket`, `tls` | bytes within a deadline |
//! | `link`, `links` | requests of many threads on one connection; which connection |
//! | `exclusive` | connections for requests that block theirs |
//! | `node` | log-in and name |
//! | `credentials`, `provider` | the user and the password; who gets new ones, and when |
//! | `resp`, `script_error` | decoding |
//! | `retry_action`, `permission` | what an error reply means |
//! | `server_error` | what the user is told |
//! | `health`, `server` | what is known of the server |

pub(crate) mod credentials;
pub(crate) mod exclusive;
pub(crate) mod health;
pub(crate) mod link;
pub(crate) mod links;
mod log_in_error;
pub(crate) mod node;
pub(crate) mod permission;
pub(crate) mod provider;
mod resp;
pub(crate) mod retry_action;
mod script_error;
pub(crate) mod server;
pub(crate) mod server_error;
mod socket;
pub(crate) mod tls;

#[cfg(test)]
pub(crate) mod tests {
    use redis::RedisError;

    /// The error of a refusal, from its line without the minus.
    pub(crate) fn refusal(line: &str) -> RedisError {
        let mut decoder = super::resp::Decoder::default();
        decoder.push(format!("-{line}\r\n").as_bytes());
        decoder.next_reply().unwrap().unwrap().unwrap_err()
    }
}
