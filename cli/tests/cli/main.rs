//! The command `leasehold`, by the real program.

#[path = "../../../tests/it/support/servers.rs"]
#[allow(unused_imports, reason = "the other tests use the rest")]
mod support;

#[path = "../../../tests/it/support/proxy.rs"]
#[allow(unused_imports, reason = "the other tests use the rest")]
mod proxy;

#[allow(dead_code, reason = "each test uses a part")]
mod program;

mod break_lock;
mod colors;
mod credentials;
mod doctor;
mod hold;
mod holders;
mod kinds;
mod list;
mod locks;
mod manual;
mod permits;
mod readme;
mod run;
mod show;
#[allow(dead_code, reason = "each test uses a part")]
mod terminal;
mod usage;
mod watch;
