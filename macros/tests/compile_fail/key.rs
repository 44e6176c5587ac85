use leasehold::locked;

struct Order;

#[locked]
fn missing() -> leasehold::Result<()> {
    Ok(())
}

#[locked(lease = "30s")]
fn without() -> leasehold::Result<()> {
    Ok(())
}

#[locked(key = "")]
fn empty() -> leasehold::Result<()> {
    Ok(())
}

#[locked(key = "order:#id")]
fn spring(id: u64) -> leasehold::Result<u64> {
    Ok(id)
}

fn main() {}
