//! What the conductor does with semaphores: it sets their permits, and takes all of them from their
//! holders.

use leasehold::LockClient;
use redis::{Cmd, cmd};

use crate::Result;
use crate::args::Args;
use crate::kind::Kind;
use crate::server::Server;

/// Makes the semaphores, if the locks are of such a kind.
pub fn set(server: &Server, locks: u32, kind: Kind) -> Result<()> {
    let client = LockClient::connect(&server.url())?;
    for key in (0..locks).map(Args::key) {
        match kind {
            Kind::Permits(permits) => client.leased_semaphore(&key).set_permits(permits)?,
            Kind::Semaphore(permits) => {
                client.semaphore(&key).try_set_permits(permits)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Makes all permits available, as if their holders had released them. The number of permits that
/// were held, and no token.
pub fn take_all(lock: u32, permits: u32) -> Cmd {
    let script = "redis.call('set', KEYS[1], ARGV[1])
        return { redis.call('del', KEYS[2]), false }";
    let key = Args::key(lock);
    let mut take = cmd("EVAL");
    take.arg(script).arg(2);
    take.arg(&key)
        .arg(format!("{{{key}}}:timeout"))
        .arg(permits);
    take
}
