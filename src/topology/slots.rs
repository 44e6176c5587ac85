//! The reply to CLUSTER SLOTS. Pure: no clock, no I/O, no lock.

use redis::{RedisResult, Value};

use crate::base::key::SLOTS;
use crate::protocol::{decoded, unexpected};

/// The longest name of a host.
const LONGEST_HOST: usize = 255;

/// A range of slots, and the host and port of their primary. Without a host it is the host of the
/// server that sent the reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SlotRange {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) host: Option<String>,
    pub(super) port: u16,
}

impl SlotRange {
    /// All slots. The host and the port are the reply of a sentinel.
    pub(super) fn of_master(reply: &Value) -> RedisResult<Option<Self>> {
        let master: Option<(String, u16)> = decoded(reply)?;
        let range = master.map(|(host, port)| Self {
            first: 0,
            last: SLOTS - 1,
            host: Some(host),
            port,
        });
        range.map(|range| range.checked(reply)).transpose()
    }

    /// Fails if no server can have this host.
    fn checked(self, reply: &Value) -> RedisResult<Self> {
        let length = self.host.as_ref().map_or(0, String::len);
        match length > LONGEST_HOST {
            true => Err(unexpected(reply)),
            false => Ok(self),
        }
    }
}

/// Parses the reply to CLUSTER SLOTS: `[first, last, [host, port, ..], replica..]` for each range.
pub(super) fn ranges(reply: &Value) -> RedisResult<Vec<SlotRange>> {
    let rows: Vec<Vec<Value>> = decoded(reply)?;
    if rows.len() > usize::from(SLOTS) {
        return Err(unexpected(reply));
    }
    let mut ranges = Vec::with_capacity(rows.len());
    for row in rows {
        let mut parts = row.into_iter();
        let (Some(first), Some(last), Some(Value::Array(primary))) =
            (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let mut primary = primary.into_iter();
        let (Some(host), Some(port)) = (primary.next(), primary.next()) else {
            continue;
        };
        let host: Option<String> = decoded(&host)?;
        // A server whose name the cluster does not know yet.
        if host.as_deref() == Some("?") {
            continue;
        }
        let range = SlotRange {
            first: decoded(&first)?,
            last: decoded::<u16>(&last)?.min(SLOTS - 1),
            host: host.filter(|host| !host.is_empty()),
            port: decoded(&port)?,
        };
        ranges.push(range.checked(reply)?);
    }
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_primary_of_each_range_is_read() {
        let reply = b"*3\r\n\
            *4\r\n:0\r\n:100\r\n*3\r\n$9\r\n127.0.0.1\r\n:7000\r\n$2\r\nid\r\n\
            *3\r\n$1\r\nx\r\n:1\r\n$2\r\nid\r\n\
            *3\r\n:101\r\n:16383\r\n*2\r\n$-1\r\n:7001\r\n\
            *3\r\n:5\r\n:6\r\n*2\r\n$1\r\n?\r\n:7002\r\n";
        let found = ranges(&redis::parse_redis_value(reply).unwrap()).unwrap();
        let range = |first, last, host: Option<&str>, port| SlotRange {
            first,
            last,
            host: host.map(Into::into),
            port,
        };
        assert_eq!(
            found,
            [
                range(0, 100, Some("127.0.0.1"), 7000),
                range(101, 16_383, None, 7001)
            ]
        );
    }

    #[test]
    fn what_is_no_map_is_an_error() {
        assert!(ranges(&Value::Okay).is_err());
        assert_eq!(ranges(&Value::Array(vec![])).unwrap(), []);
        let many = vec![Value::Array(vec![]); usize::from(SLOTS) + 1];
        assert!(ranges(&Value::Array(many)).is_err());
        let host = |length| Value::BulkString(vec![b'h'; length]);
        let master = |length| Value::Array(vec![host(length), Value::Int(6379)]);
        assert!(
            SlotRange::of_master(&master(LONGEST_HOST))
                .unwrap()
                .is_some()
        );
        let error = SlotRange::of_master(&master(1 << 20)).unwrap_err();
        assert!(error.to_string().len() < 1_000);
    }
}
