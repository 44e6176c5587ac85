//! A limit for each tenant.

use std::time::Duration;

use leasehold::{Lease, LockClient, Result};

/// How long a request waits before its tenant gets "too many requests".
const WAIT: Duration = Duration::from_millis(50);

/// Runs `work`, but at most `limit` at the same time for this tenant, on all machines together.
/// `None` if the limit is reached.
pub fn for_tenant<T>(
    client: &LockClient,
    tenant: &str,
    limit: u32,
    work: impl FnOnce() -> T,
) -> Result<Option<T>> {
    let permits = client.leased_semaphore(&format!("tenant:{tenant}"));
    let Some(permit) = permits
        .with_permits(limit)?
        .try_acquire(WAIT, Lease::RENEWED)?
    else {
        return Ok(None);
    };
    let value = work();
    drop(permit); // a release that fails is repeated, and is no error of the work
    Ok(Some(value))
}

#[test]
fn a_tenant_has_its_limit_which_can_be_raised() -> Result<()> {
    use leasehold::testing::InMemoryRedis;

    let redis = InMemoryRedis::start()?;
    let [one, other] = [redis.client()?, redis.client()?];
    let inside = for_tenant(&one, "a", 1, || {
        assert!(for_tenant(&other, "a", 1, || ()).unwrap().is_none());
        assert!(for_tenant(&other, "b", 1, || ()).unwrap().is_some());
        for_tenant(&other, "a", 2, || ()).unwrap().is_some()
    })?;
    assert_eq!(inside, Some(true));
    // Nothing stays in Redis for a tenant that sends no requests any more.
    assert_eq!(one.leased_semaphore("tenant:a").permits()?, 2);
    redis.advance(Duration::from_secs(2 * 3600));
    assert_eq!(one.leased_semaphore("tenant:a").permits()?, 0);
    Ok(())
}
