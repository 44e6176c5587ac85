//! Asks the servers for what the checks need, and collects the findings.

use super::clock::{self, Reading};
use super::finding::{Finding, Line};
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
#[derive(Default)]
pub(super) struct Checks {
    lines: Vec<Line>,
    /// The servers whose clocks are read again at the end.
    clocks: Vec<(Server, Connection, Reading)>,
}

impl Checks {
    fn add(&mut self, server: &str, check: &'static str, finding: Finding) {
        self.lines.push(Line::new(server, check, finding));
    }

    /// Checks the servers of one client. Then tries each kind of lock, if no server prevents that.
    pub(super) fn check(&mut self, trial: Trial<'_>) {
        let before = self.lines.len();
        let servers = admin::servers(trial.holder).unwrap_or_else(|error| {
            let finding = server::out_of_reach(Failure::from(error).to_string());
            self.add(&admin::deployment(trial.holder), REACHABLE, finding);
            Vec::new()
        });
        for server in servers {
            if let Err(error) = self.check_server(&server, trial.in_cluster) {
                let finding = server::out_of_reach(advised(&error));
                self.add(server.name(), REACHABLE, finding);
            }
        }
        let hinders = |line: &Line| line.is_failure() && line.check != EVICTION;
        if !self.lines[before..].iter().any(hinders) {
            self.lines.extend(trial.run());
        }
    }

    /// Fails if the server executes no commands. `in_cluster`: `--cluster` is given.
    fn check_server(&mut self, server: &Server, in_cluster: bool) -> Result<(), ServerError> {
        let mut connection = server.connect()?;
        if let Err(error) = connection.run(&redis::cmd("PING"))
            && !serves_others(&error)
        {
            return Err(error);
        }
        let info = ask(&mut connection, &redis::cmd("INFO"))?.ok();
        let reading = Reading::quickest(&mut connection)?;
        self.add(server.name(), REACHABLE, server::reached(reading.as_ref()));
        let info = Info::of(info.and_then(decoded));
        self.add(server.name(), "role", info.role(in_cluster));
        if info.is_sentinel() {
            return Ok(());
        }
        self.add(server.name(), EVICTION, info.eviction());
        if let Some(reading) = reading {
            self.clocks.push((server.clone(), connection, reading));
        }
        Ok(())
    }

    /// Compares the speed of the clocks, over the same time since the first readings.
    pub(super) fn finish(mut self) -> Vec<Line> {
        for (server, mut connection, first) in std::mem::take(&mut self.clocks) {
            let finding = clock::compare(&mut connection, &first);
            self.add(server.name(), "clock", finding);
        }
        self.lines
    }
}

/// True if a server with this error for PING executes other commands.
fn serves_others(error: &ServerError) -> bool {
    match error.hint.as_deref() {
        Some(Hint::Grant(_) | Hint::UnknownCommand) => true,
        // After a failed save, Redis refuses PING and all writes.
        _ => error.cause.code() == Some("MISCONF"),
    }
}
