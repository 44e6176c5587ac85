use leasehold::locked;

#[locked(key = "order")]
fn nothing() {}

#[locked(key = "order")]
fn unit() -> () {}

fn main() {
    // The rejected functions stay defined, so these calls cause no further errors.
    nothing();
    unit();
}
