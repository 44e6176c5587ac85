//! Signals to processes.

use std::process::Command;

use crate::Result;

/// Sends a signal, such as `STOP`, to a child process.
pub fn signal(process: u32, name: &str) -> Result<()> {
    let status = Command::new("kill")
        .args([format!("-{name}"), process.to_string()])
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("kill -{name} {process}: {status}").into())
    }
}
