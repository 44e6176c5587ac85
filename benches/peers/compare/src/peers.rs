//! The locks that are compared.

use std::fs;
use std::path::Path;
use std::process::Command;

use leasehold_peers_compare::Result;

/// A library, how it is used, and the program that drives it.
pub struct Peer {
    /// Its name in figures and on the command line.
    pub name: &'static str,
    pub language: &'static str,
    /// What 8 workers are: threads, or what the language has instead.
    pub workers: &'static str,
    /// How it waits, and its settings.
    pub settings: &'static str,
    program: Program,
    /// What its version follows in the file that fixes it.
    version: &'static str,
}

enum Program {
    Rust,
    Go,
    Node,
    Java,
}

const BUILD: &str = "target/peers";

const PEERS: &[Peer] = &[
    Peer {
        name: "leasehold",
        language: "Rust",
        workers: "threads",
        settings: "defaults; waits for a message; lease 30 s, renewed",
        program: Program::Rust,
        version: "name = \"leasehold\"\nversion = \"",
    },
    Peer {
        name: "rslock",
        language: "Rust, tokio",
        workers: "tasks",
        settings: "defaults; 3 attempts in a call, up to 200 ms between them, at random; calls are \
                   repeated, as in its README; lease 10 s, not renewed",
        program: Program::Rust,
        version: "name = \"rslock\"\nversion = \"",
    },
    Peer {
        name: "distributed-lock-redis",
        language: "Rust, tokio",
        workers: "tasks",
        settings: "defaults; `acquire` with one server fails at once if the lock is held, so the \
                   driver repeats it after 10 ms; lease 30 s, renewed",
        program: Program::Rust,
        version: "name = \"distributed-lock-redis\"\nversion = \"",
    },
    Peer {
        name: "redisson-rs",
        language: "Rust",
        workers: "threads",
        settings: "the crate `redisson`, blocking, defaults; an attempt every 100 ms; lease 30 s, \
                   not renewed",
        program: Program::Rust,
        version: "name = \"redisson\"\nversion = \"",
    },
    Peer {
        name: "redsync",
        language: "Go",
        workers: "goroutines",
        settings: "defaults with go-redis; up to 32 attempts, 50 to 250 ms between them, at random; \
                   lease 8 s, not renewed",
        program: Program::Go,
        version: "github.com/go-redsync/redsync/v4 v",
    },
    Peer {
        name: "node-redlock",
        language: "Node.js",
        workers: "promises",
        settings: "defaults with ioredis; 11 attempts, 0 to 400 ms between them, at random; lease \
                   5 s, renewed by `using`",
        program: Program::Node,
        version: "\"node_modules/redlock\": {\n      \"version\": \"",
    },
    Peer {
        name: "Redisson",
        language: "Java",
        workers: "threads",
        settings: "defaults; waits for a message; lease 30 s, renewed",
        program: Program::Java,
        version: "<redisson.version>",
    },
];

impl Peer {
    /// The file without which it is not built.
    fn built(&self) -> String {
        match self.program {
            Program::Rust => format!("{BUILD}/release/leasehold-peers-rust"),
            Program::Go => format!("{BUILD}/redsync"),
            Program::Node => "benches/peers/node/node_modules/redlock/package.json".into(),
            Program::Java => format!("{BUILD}/java/classes/peers/Main.class"),
        }
    }

    /// The version that is measured.
    pub fn version(&self) -> Result<String> {
        let file = match self.program {
            Program::Rust => "Cargo.lock",
            Program::Go => "go/go.mod",
            Program::Node => "node/package-lock.json",
            Program::Java => "java/pom.xml",
        };
        let text = fs::read_to_string(format!("benches/peers/{file}"))?;
        let version = text
            .split_once(self.version)
            .and_then(|(_, rest)| rest.split(['"', '<', '\n']).next());
        let missing = || format!("{file}: no version of {}", self.name);
        Ok(version.ok_or_else(missing)?.to_owned())
    }

    pub fn driver(&self, url: &str) -> Command {
        let mut command = match self.program {
            Program::Rust => {
                let mut command = Command::new(self.built());
                command.arg(self.name);
                command
            }
            Program::Go => Command::new(self.built()),
            Program::Node => {
                let mut command = Command::new("node");
                command.arg("benches/peers/node/driver.mjs");
                command
            }
            Program::Java => {
                let mut command = Command::new("java");
                let classes = format!("{BUILD}/java/classes:{BUILD}/java/dependency/*");
                command.arg("-Dslf4j.internal.verbosity=ERROR").args([
                    "-cp",
                    &classes,
                    "peers.Main",
                ]);
                command
            }
        };
        command.arg(url);
        command
    }
}

/// Those of the requested peers that are built, in their order here. Without a request: all.
pub fn built(requested: &[String]) -> Result<Vec<&'static Peer>> {
    if let Some(unknown) = requested
        .iter()
        .find(|name| PEERS.iter().all(|peer| peer.name != *name))
    {
        return Err(format!("{unknown} is not known").into());
    }
    let is_requested =
        |peer: &&Peer| requested.is_empty() || requested.iter().any(|name| name == peer.name);
    let mut built = Vec::new();
    for peer in PEERS.iter().filter(is_requested) {
        if Path::new(&peer.built()).exists() {
            built.push(peer);
        } else {
            eprintln!("SKIPPED: {} is not built", peer.name);
        }
    }
    if built.is_empty() {
        return Err("no driver is built: run scripts/compare".into());
    }
    Ok(built)
}
