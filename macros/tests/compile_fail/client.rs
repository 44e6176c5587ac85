use leasehold::locked;

#[locked(client = url, key = "order")]
fn settle(url: &str) -> leasehold::Result<()> {
    let _ = url;
    Ok(())
}

fn main() {}
