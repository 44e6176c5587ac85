use leasehold::locked;

#[locked(key = "order", ttl = "30s")]
fn unknown() -> leasehold::Result<()> {
    Ok(())
}

#[locked(key = "order", key = "customer")]
fn twice() -> leasehold::Result<()> {
    Ok(())
}

#[locked(key = "order", wait)]
fn no_value() -> leasehold::Result<()> {
    Ok(())
}

#[locked(key = "order", fixed = true)]
fn value() -> leasehold::Result<()> {
    Ok(())
}

#[locked("order")]
fn no_name() -> leasehold::Result<()> {
    Ok(())
}

#[locked(key = "order", kind = semaphore)]
fn not_yet() -> leasehold::Result<()> {
    Ok(())
}

#[locked(key = "order", kind = spin)]
fn no_kind() -> leasehold::Result<()> {
    Ok(())
}

#[locked(key = "order", kind = "fenced")]
fn no_word() -> leasehold::Result<()> {
    Ok(())
}

#[locked(key = "order", on_loss = "panic")]
fn on_loss() -> leasehold::Result<()> {
    Ok(())
}

fn main() {}
