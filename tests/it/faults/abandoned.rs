pub fn abandon(_: &[&str]) {}
