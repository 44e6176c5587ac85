use leasehold::locked;

#[locked(key = "order", ttl = "30s")]
fn unknown() -> leasehold::Result<()> {
    Ok(())
}

#[locked(key = "order", key = "customer")]
fn twice() -> leasehold::Result<()> {
    Ok(())
}

fn main() {}
