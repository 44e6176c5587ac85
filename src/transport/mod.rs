//! One server: the connections to it, what is sent and received on them, and what a failure means.

mod connection_name;
pub(crate) mod exclusive;
pub(crate) mod health;
pub(crate) mod hint;
pub(crate) mod limits;
pub(crate) mod link;
pub(crate) mod links;
pub(crate) mod node;
pub(crate) mod permission;
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
        let decoded = super::resp::decode(format!("-{line}\r\n").as_bytes());
        let (value, _) = decoded.unwrap().unwrap();
        value.extract_error().unwrap_err()
    }
}
