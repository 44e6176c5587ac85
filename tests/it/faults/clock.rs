pub fn stepped_clock(_: &[&str]) {}
