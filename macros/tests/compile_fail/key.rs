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

fn main() {}
