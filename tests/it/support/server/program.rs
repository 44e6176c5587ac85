//! The server program: the first `redis-server` on the path. `scripts/compat` puts other servers
//! there under this name.

use std::process::Command;
use std::sync::LazyLock;

/// True if the program has the settings and commands that Redis 7 added. Every Valkey has them.
pub fn is_redis_7() -> bool {
    static MAJOR: LazyLock<u32> = LazyLock::new(|| {
        let output = Command::new("redis-server").arg("--version").output();
        let output = output.expect("redis-server is installed").stdout;
        let text = String::from_utf8_lossy(&output);
        let major = || text.split_once(" v=")?.1.split('.').next()?.parse().ok();
        major().unwrap_or_else(|| panic!("redis-server has an unknown version: {text}"))
    });
    *MAJOR >= 7
}
