//! Asks the servers for what the checks need, and collects the findings.

use super::clock::{self, Reading};
use super::finding::{Finding, Line, Verdict};
use super::server::{self, Info};
use super::trial::Trial;
use crate::kinds::decoded;
use crate::outcome::{Failure, advised};
use crate::probe::ask;
use leasehold::Hint;
use leasehold::admin::{self, Connection, Server, ServerError};

/// The check of the login, which each server has.
pub(super) const REACHABLE: &str = "reachable";
const EVICTION: &str = "eviction";

/// The findings about all servers.
pub(super) struct Checks {
    /// `--cluster` is given.
    in_cluster: bool,
    lines: Vec<Line>,
    /// The servers whose clocks are read again at the end.
    clocks: Vec<(Server, Connection, Reading)>,
}

impl Checks {
    pub(super) fn new(in_cluster: bool) -> Self {
        Self {
            in_cluster,
            lines: Vec::new(),
            clocks: Vec::new(),
        }
    }

    fn add(&mut self, server: &str, check: &'static str, finding: Finding) {
        self.lines.push(Line {
            server: server.into(),
            check,
            finding,
        });
    }

    /// Checks the servers of one client. Then tries each kind of lock, if no server prevents that.
    pub(super) fn check(&mut self, trial: Trial<'_>) {
        let before = self.lines.len();
        match admin::servers(trial.holder) {
            Ok(servers) => {
                for server in servers {
                    if let Err(error) = self.check_server(&server) {
                        let finding = server::out_of_reach(advised(&error));
                        self.add(server.name(), REACHABLE, finding);
                    }
                }
            }
            Err(error) => {
                let finding = server::out_of_reach(Failure::from(error).to_string());
                self.add(&admin::deployment(trial.holder), REACHABLE, finding);
            }
        }
        let hinders = |line: &Line| line.is_failure() && line.check != EVICTION;
        if !self.lines[before..].iter().any(hinders) {
            for (server, check, finding) in trial.run() {
                self.add(&server, check, finding);
            }
        }
    }

    /// Fails if the server executes no commands.
    fn check_server(&mut self, server: &Server) -> Result<(), ServerError> {
        let mut connection = server.connect()?;
        if let Err(error) = connection.run(&redis::cmd("PING"))
            && !serves_others(&error)
        {
            return Err(error);
        }
        let info = ask(&mut connection, &redis::cmd("INFO"))?.ok();
        let reading = Reading::quickest(&mut connection)?;
        self.add(
            server.name(),
            REACHABLE,
            server::reached(reading.as_ref().ok()),
        );
        let info = Info::of(info.and_then(decoded));
        self.add(server.name(), "role", info.role(self.in_cluster));
        if info.is_sentinel() {
            return Ok(());
        }
        self.add(server.name(), EVICTION, info.eviction());
        match reading {
            Ok(reading) => {
                self.add(server.name(), "clock", clock::offset(&reading));
                self.clocks.push((server.clone(), connection, reading));
            }
            Err(why) => self.add(server.name(), "clock", Verdict::Unknown.of(why)),
        }
        Ok(())
    }

    /// Compares the speed of the clocks, over the same time since the first readings.
    pub(super) fn finish(mut self) -> Vec<Line> {
        for (server, mut connection, first) in std::mem::take(&mut self.clocks) {
            let finding = clock::compare(&mut connection, &first);
            let unknown = |why: String| Verdict::Unknown.of(why);
            self.add(server.name(), "clock-rate", finding.unwrap_or_else(unknown));
        }
        self.lines
    }
}

/// True if a server with this error for PING executes other commands.
fn serves_others(error: &ServerError) -> bool {
    let is_refused = matches!(
        error.hint.as_deref(),
        Some(Hint::Grant(_) | Hint::UnknownCommand)
    );
    // After a failed save, Redis refuses PING and all writes.
    is_refused || error.cause.code() == Some("MISCONF")
}
