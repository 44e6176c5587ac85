use leasehold::{LockClient, locked};

#[derive(Debug)]
struct SettleError;

#[locked(client = client, key = "order")]
fn settle(client: &LockClient) -> Result<u32, SettleError> {
    Ok(1)
}

#[locked(client = client, key = "order")]
fn read(client: &LockClient) -> std::io::Result<u32> {
    Ok(1)
}

fn main() {}
