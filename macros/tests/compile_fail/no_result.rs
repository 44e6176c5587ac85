use leasehold::locked;

#[locked(key = "order")]
fn nothing() {}

#[locked(key = "order")]
fn unit() -> () {}

#[locked(key = "order")]
fn tuple() -> (u8, u8) {
    (1, 2)
}

#[locked(key = "order")]
fn number() -> u32 {
    1
}

#[locked(key = "order")]
fn reference() -> &'static str {
    "it"
}

#[locked(key = "order")]
fn option() -> Option<u8> {
    None
}

#[locked(key = "order")]
fn opaque() -> impl Iterator<Item = u8> {
    std::iter::empty()
}

#[locked(key = "order")]
fn never() -> ! {
    std::process::exit(0)
}

fn main() {
    // The rejected functions stay defined, so these calls cause no further errors.
    nothing();
    unit();
    (tuple(), number(), reference(), option(), opaque());
    never();
}
