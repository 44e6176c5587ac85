use leasehold::locked;

#[locked(key = "order", lease = "30")]
fn no_unit() -> leasehold::Result<()> {
    Ok(())
}

#[locked(key = "order", lease = 30)]
fn number() -> leasehold::Result<()> {
    Ok(())
}

#[locked(key = "order", lease = "9ms")]
fn too_short() -> leasehold::Result<()> {
    Ok(())
}

#[locked(key = "order", lease = "0s", fixed)]
fn none_at_all() -> leasehold::Result<()> {
    Ok(())
}

#[locked(key = "order", lease = "104249992days")]
fn too_long() -> leasehold::Result<()> {
    Ok(())
}

#[locked(key = "order", fixed)]
fn no_lease() -> leasehold::Result<()> {
    Ok(())
}

#[locked(key = "order", lease = "30s", fixed, max_renewals = 3)]
fn contradiction() -> leasehold::Result<()> {
    Ok(())
}

#[locked(key = "order", max_renewals = "3")]
fn renewals() -> leasehold::Result<()> {
    Ok(())
}

#[locked(key = "order", wait = "always")]
fn wait() -> leasehold::Result<()> {
    Ok(())
}

#[locked(key = "order", wait = 10)]
fn wait_of_a_number() -> leasehold::Result<()> {
    Ok(())
}

fn main() {}
