use leasehold::locked;

struct Order {
    id: u64,
}

#[locked(key = "order:{order.number}")]
fn no_field(order: Order) -> leasehold::Result<()> {
    let _ = order.id;
    Ok(())
}

#[locked(key = "order:{missing}")]
fn no_parameter() -> leasehold::Result<()> {
    Ok(())
}

#[locked(key = order)]
fn no_display(order: Order) -> leasehold::Result<()> {
    let _ = order.id;
    Ok(())
}

fn main() {}
