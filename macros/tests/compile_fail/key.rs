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

#[locked(key = "order:{}")]
fn nameless(_id: u64) -> leasehold::Result<()> {
    Ok(())
}

#[locked(key = "order:{0}")]
fn positional(_id: u64) -> leasehold::Result<()> {
    Ok(())
}

#[locked(key = "order:{id")]
fn open(_id: u64) -> leasehold::Result<()> {
    Ok(())
}

#[locked(key = "order:id}")]
fn not_open(_id: u64) -> leasehold::Result<()> {
    Ok(())
}

#[locked(key = "order:{a b}")]
fn no_expression(_id: u64) -> leasehold::Result<()> {
    Ok(())
}

#[locked(key = 7)]
fn number() -> leasehold::Result<()> {
    Ok(())
}

fn main() {}
