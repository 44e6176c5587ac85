//! No server and no file of a deployment is left, however the process ends that started it.

use std::net::TcpStream;
use std::path::{Path, PathBuf};

use crate::support::child::{Process, read_line, send_line};
use crate::support::deployment::{ClusterDeployment, SentinelDeployment};
use crate::support::server::Server;
use crate::support::timing::eventually;

/// In a child: starts servers that a destructor ends, and servers in a static, which has none.
pub fn leave_servers(_: &[&str]) {
    let private = SentinelDeployment::start();
    let shared = ClusterDeployment::shared();
    let sentinels = private.servers().iter().chain(private.sentinels());
    let all: Vec<&Server> = sentinels.chain(shared.nodes()).collect();
    send_line(all.len());
    for server in all {
        send_line(format!(
            "{} {}",
            server.address(),
            server.directory().display()
        ));
    }
    read_line();
}

struct Left(Vec<(String, PathBuf)>);

impl Left {
    fn by(child: &Process) -> Self {
        let count = child.read_line().parse().expect("a number");
        let one = |_| {
            let line = child.read_line();
            let (address, directory) = line.split_once(' ').expect("both");
            (address.to_owned(), directory.into())
        };
        Self((0..count).map(one).collect())
    }

    #[track_caller]
    fn is_there(&self) {
        assert_eq!(self.0.len(), 12);
        assert!(self.0.iter().all(is_there));
    }

    #[track_caller]
    fn goes_away(&self) {
        eventually("all servers to be gone, and their files", || {
            let gone = |(address, directory): &(String, PathBuf)| {
                TcpStream::connect(address).is_err() && !directory.exists()
            };
            self.0.iter().all(gone)
        });
    }
}

fn is_there((address, directory): &(String, PathBuf)) -> bool {
    TcpStream::connect(address).is_ok() && Path::new(directory).exists()
}

#[test]
fn servers_are_gone_when_their_process_was_killed_or_has_ended() {
    for is_killed in [true, false] {
        let mut child = Process::start("leave_servers", &[]);
        let left = Left::by(&child);
        left.is_there();
        if is_killed {
            child.kill();
        } else {
            child.send_line("end");
            child.finish();
        }
        left.goes_away();
    }
}
