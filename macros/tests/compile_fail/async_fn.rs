use leasehold::locked;

#[locked(key = "order")]
async fn settle() -> leasehold::Result<()> {
    Ok(())
}

fn main() {}
