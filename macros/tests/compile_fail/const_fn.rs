use leasehold::locked;

#[locked(key = "order")]
const fn settle() -> leasehold::Result<()> {
    Ok(())
}

fn main() {}
