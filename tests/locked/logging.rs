//! Errors of the lock that are only logged, because the function returns something else.

use std::error::Error;

use leasehold::locked;

use crate::logs;
use crate::servers::unique;
use crate::shop::Shop;

type Boxed<T> = Result<T, Box<dyn Error>>;

#[locked(client = shop.locks, key = name)]
fn fails(shop: &Shop, name: &str) -> Boxed<u32> {
    shop.delete(name);
    Err("an error of its own".into())
}

#[locked(client = shop.locks, key = name, on_loss = "ignore")]
fn ignores(shop: &Shop, name: &str) -> Boxed<u32> {
    shop.delete(name);
    Ok(7)
}

/// The warnings about the function. Warnings about the loss itself are left out.
fn warnings_of(function: impl FnOnce(&str)) -> Vec<String> {
    logs::keep();
    let name = unique("order");
    function(&name);
    let mut warnings = logs::warnings_about(&name);
    warnings.retain(|warning| warning.contains("a locked function ran"));
    warnings
}

#[test]
fn the_error_of_the_lock_is_logged_if_the_function_returns_another_result() {
    let shop = Shop::open();
    let failed = warnings_of(|name| {
        let own = fails(&shop, name).unwrap_err();
        assert_eq!(own.to_string(), "an error of its own");
    });
    let ignored = warnings_of(|name| assert_eq!(ignores(&shop, name).unwrap(), 7));
    for warnings in [failed, ignored] {
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(
            warnings[0].contains("was lost (its key was deleted)"),
            "{warnings:?}"
        );
    }
}
