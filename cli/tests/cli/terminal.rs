//! The program on a terminal of its own.

use std::process::Command;

use rexpect::session::{Options, PtySession, spawn_with_options};

use crate::locks::LONG_TIMEOUT;
use crate::program::{PATH, forget_settings};
use crate::support::timing::SOON;

pub struct Terminal {
    session: PtySession,
    /// Its device, which other programs can set.
    device: String,
    /// The process of the program.
    pub pid: u32,
}

impl Terminal {
    /// Starts the program there, by a shell that tells at its end how it ended, and whether the
    /// terminal is set as it was.
    pub fn start(url: &str, args: &str) -> Self {
        Self::start_with(url, args, &[])
    }

    /// Also with these variables in its environment.
    pub fn start_with(url: &str, args: &str, variables: &[(&str, &str)]) -> Self {
        let mut shell = Command::new("sh");
        // The C library writes the input speed beside the output speed. Before, it is zero, which
        // means the same.
        let run = format!("echo pid-$$. ; exec {PATH} {args}");
        shell.args(["-c", &format!(
            "settings() {{ stty -g | sed 's/^\\([^:]*:[^:]*:\\)f00/\\1/'; }}; \
             stty rows 24 cols 120; echo on-$(tty). ; before=$(settings); sh -c '{run}'; status=$?; \
             if [ \"$before\" = \"$(settings)\" ]; then echo restored-$status.; else echo changed-$status.; fi"
        )]);
        forget_settings(&mut shell);
        shell.env("LEASEHOLD_URL", url).env("TERM", "xterm");
        shell.env("LEASEHOLD_TIMEOUT", LONG_TIMEOUT);
        for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
            shell.env_remove(name);
        }
        shell.envs(variables.iter().copied());
        let options = Options::new().timeout_ms(u64::try_from(SOON.get().as_millis()).ok());
        let session = spawn_with_options(shell, options).expect("a terminal");
        let mut terminal = Self {
            session,
            device: String::new(),
            pid: 0,
        };
        terminal.device = terminal.between("on-", ".");
        let pid = terminal.between("pid-", ".");
        terminal.pid = pid.parse().expect("a number");
        terminal
    }

    fn between(&mut self, before: &str, after: &str) -> String {
        self.shows(before);
        self.session.exp_string(after).expect("its end")
    }

    /// Waits until this is written; gives back what was written before.
    #[track_caller]
    pub fn shows(&mut self, text: &str) -> String {
        match self.session.exp_string(text) {
            // It is read byte by byte, each taken for a character.
            Ok(before) => {
                let bytes: Vec<u8> = before
                    .chars()
                    .map(|c| u8::try_from(c).unwrap_or(b'?'))
                    .collect();
                String::from_utf8_lossy(&bytes).into_owned()
            }
            Err(error) => panic!("no {text:?}: {error}"),
        }
    }

    /// Waits until all of these texts are written, in their order.
    #[track_caller]
    pub fn shows_all(&mut self, texts: &[&str]) {
        for text in texts {
            self.shows(text);
        }
    }

    /// These keys end the program; then it writes these texts, and ends with the status.
    #[track_caller]
    pub fn ended_by(mut self, keys: &str, texts: &[&str], status: i32) {
        self.types(keys);
        self.shows_all(texts);
        self.ends_with(status);
    }

    pub fn types(&mut self, keys: &str) {
        self.session.send(keys).expect("a terminal");
        self.session.flush().expect("a terminal");
    }

    /// Another size, as if the window was resized.
    pub fn resize(&self, columns: u16, rows: u16) {
        let mut stty = Command::new("stty");
        let (columns, rows) = (columns.to_string(), rows.to_string());
        stty.args(["-F", &self.device, "cols", &columns, "rows", &rows]);
        assert!(stty.status().expect("stty is installed").success());
    }

    /// The program ends with this status, as a shell says it, and the terminal is as before; what
    /// was written since.
    #[track_caller]
    pub fn ends_with(mut self, status: i32) -> String {
        self.shows(&format!("restored-{status}."))
    }
}
