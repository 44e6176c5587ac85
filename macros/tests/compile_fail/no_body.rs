use leasehold::locked;

trait Shop {
    #[locked(key = "order")]
    fn settle(&self) -> leasehold::Result<()>;
}

struct Corner;

impl Shop for Corner {
    fn settle(&self) -> leasehold::Result<()> {
        Ok(())
    }
}

fn main() {
    Corner.settle().unwrap();
}
