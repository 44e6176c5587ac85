pub fn fork_a_holder(_: &[&str]) {}
pub fn fork_a_busy_client(_: &[&str]) {}
