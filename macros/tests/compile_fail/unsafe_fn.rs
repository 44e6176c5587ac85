use leasehold::locked;

/// The function stays `unsafe`.
///
/// # Safety
///
/// `at` is below the length of `of`.
#[locked(key = "order")]
unsafe fn unchecked(of: &[u8], at: usize) -> leasehold::Result<u8> {
    Ok(unsafe { *of.get_unchecked(at) })
}

fn main() {
    let _ = unchecked(&[1, 2], 1);
}
