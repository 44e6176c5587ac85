//! The reply to CLUSTER SLOTS. Pure: no clock, no I/O, no lock.

use redis::{RedisResult, Value};

use crate::base::key::SLOTS;

/// A range of slots, and the host and port of their primary. Without a host it is the host of the
/// server that sent the reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) host: Option<String>,
    pub(super) port: u16,
}

/// Parses the reply to CLUSTER SLOTS: `[first, last, [host, port, ..], replica..]` for each range.
pub(super) fn ranges(reply: Value) -> RedisResult<Vec<Range>> {
    let rows: Vec<Vec<Value>> = redis::from_redis_value(reply)?;
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
        let host: Option<String> = redis::from_redis_value(host)?;
        // A server whose name the cluster does not know yet.
        if host.as_deref() == Some("?") {
            continue;
        }
        ranges.push(Range {
            first: redis::from_redis_value(first)?,
            last: redis::from_redis_value::<u16>(last)?.min(SLOTS - 1),
            host: host.filter(|host| !host.is_empty()),
            port: redis::from_redis_value(port)?,
        });
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
        let found = ranges(redis::parse_redis_value(reply).unwrap()).unwrap();
        let range = |first, last, host: Option<&str>, port| Range {
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
        assert!(ranges(Value::Okay).is_err());
        assert_eq!(ranges(Value::Array(vec![])).unwrap(), []);
    }
}
