//! The part of `redis-test` that the examples in the documentation use. The server of `redis-test`
//! may not listen yet when `new` returns; that of this crate replies.

/// As in `redis-test`.
pub mod server {
    use std::ops::Deref;
    use std::time::{Duration, Instant};

    use redis::InfoDict;

    /// A server on a free port. Dropping it ends the server.
    #[allow(missing_debug_implementations, reason = "it contains one without")]
    pub struct RedisServer(redis_test::server::RedisServer);

    impl RedisServer {
        /// Starts a server, which replies when this returns.
        ///
        /// # Panics
        ///
        /// Panics if there is no server after a minute.
        #[allow(clippy::new_without_default, reason = "as in `redis-test`")]
        #[must_use]
        pub fn new() -> Self {
            let started = Instant::now();
            let mut server = redis_test::server::RedisServer::new();
            while process_at(&server) != Some(server.process.id()) {
                if matches!(server.process.try_wait(), Ok(Some(_))) {
                    // Another process took its port.
                    server = redis_test::server::RedisServer::new();
                }
                assert!(started.elapsed() < Duration::from_secs(60), "no server");
                std::thread::sleep(Duration::from_millis(2));
            }
            Self(server)
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    /// The process id of the server that replies at this address.
    fn process_at(server: &redis_test::server::RedisServer) -> Option<u32> {
        let client = redis::Client::open(server.connection_info()).ok()?;
        let info = redis::cmd("INFO").arg("server").to_owned();
        let connection = client.get_connection_with_timeout(SECOND);
        let mut connection = connection.ok()?;
        connection.set_read_timeout(Some(SECOND)).ok()?;
        let info: InfoDict = info.query(&mut connection).ok()?;
        info.get("process_id")
    }

    impl Deref for RedisServer {
        type Target = redis_test::server::RedisServer;

        fn deref(&self) -> &Self::Target {
            &self.0
        }
    }
}
