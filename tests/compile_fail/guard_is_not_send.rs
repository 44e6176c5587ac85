use leasehold::{Lock, LockClient};

fn main() {
    let client = LockClient::connect("redis://127.0.0.1:1").unwrap();
    let guard = client.reentrant_lock("lock").acquire().unwrap();
    std::thread::spawn(move || drop(guard));
}
