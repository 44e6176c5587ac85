//! Invalid URLs: the error of `build` names the part that is invalid and its value, alone and in a
//! list. `deployment::url` has unit tests for each part.

use leasehold::LockClient;

use super::{SECRET, assert_no_secret, setting};

/// The error shows neither user nor password, even if another part of the URL repeats them.
#[test]
fn parts_that_repeat_a_secret_are_not_shown() {
    for url in [
        format!("redis://user:{SECRET}@h:{SECRET}"),
        format!("redis://{SECRET}:x@h:1{SECRET}"),
        format!("redis://user:{SECRET}@{SECRET}^"),
        format!("redis+unix:///s?pass={SECRET}&db={SECRET}"),
        format!("redis://h?protocol={SECRET}&pass={SECRET}"),
        format!("redis://h?{SECRET}=a&user={SECRET}"),
    ] {
        let error = LockClient::connect(&url).expect_err("it is bad");
        assert_no_secret(&error);
        assert_eq!(setting::<()>(Err(error)), "url");
    }
}
