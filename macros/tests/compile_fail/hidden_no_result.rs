use leasehold::{LockClient, locked};

type Outcome = Vec<u8>;

struct Receipt;

#[locked(client = client, key = "order")]
fn alias(client: &LockClient) -> Outcome {
    Vec::new()
}

#[locked(client = client, key = "order")]
fn receipt(client: &LockClient) -> Receipt {
    Receipt
}

fn main() {}
