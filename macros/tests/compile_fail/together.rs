use leasehold::locked;

#[locked(key = "a", keys = ["b"])]
fn key_and_keys() -> leasehold::Result<()> {
    Ok(())
}

#[locked(keys = "a")]
fn no_list() -> leasehold::Result<()> {
    Ok(())
}

#[locked(keys = ["a", "b"], kind = fair)]
fn kind_of_several() -> leasehold::Result<()> {
    Ok(())
}

#[locked(key = "a", kind = semaphore)]
fn kind_of_a_permit() -> leasehold::Result<()> {
    Ok(())
}

#[locked(key = "a", permits = 4, at_least = "1h")]
fn permits_kept() -> leasehold::Result<()> {
    Ok(())
}

#[locked(key = "a", at_least = "soon")]
fn no_duration() -> leasehold::Result<()> {
    Ok(())
}

#[locked(key = "a", permits = "4")]
fn no_number() -> leasehold::Result<()> {
    Ok(())
}

struct Account;

#[locked(keys = ["a", account])]
fn no_display(account: Account) -> leasehold::Result<()> {
    let _ = account;
    Ok(())
}

fn main() {}
