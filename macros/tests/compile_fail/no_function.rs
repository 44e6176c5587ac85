use leasehold::locked;

#[locked(key = "order")]
struct Order;

#[locked(key = "order")]
impl Order {
    fn settle(&self) {}
}

fn main() {
    Order.settle();
}
