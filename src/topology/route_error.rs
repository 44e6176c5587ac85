//! Why the client does not know which server has a lock.

use std::fmt;

use crate::base::excerpt::one_of;
use crate::error::Error;
use crate::transport::server_error::ServerError;

/// The client does not know which server has a lock.
#[derive(Debug)]
#[non_exhaustive]
pub enum RouteError {
    /// No server replied with the location of the lock. A later look-up can succeed.
    Unavailable(LookUpFailed),
    /// All servers refused the request; a retry fails, too. This is the error of one of them.
    Refused(ServerError),
    /// [`Error::InvalidArgument`]: no server can have a lock of this name. [`Error::Config`]: the
    /// sentinels do not know the master. [`Error::Forked`] in a process that was forked from the
    /// client's.
    Invalid(Error),
}

/// No server replied with the location of the locks. A later look-up can succeed.
///
/// It is the cause of an [`Error::Unavailable`](crate::Error::Unavailable) if the call spent its
/// time on such look-ups.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LookUpFailed {
    /// What is missing.
    pub reason: &'static str,
    /// The errors of the servers that were asked.
    pub errors: Vec<ServerError>,
}

impl LookUpFailed {
    pub(super) fn new(reason: &'static str) -> Self {
        let errors = Vec::new();
        Self { reason, errors }
    }
}

impl fmt::Display for LookUpFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason)?;
        for ServerError { node, cause, hint } in &self.errors {
            let cause = one_of(self.errors.len(), format_args!("{cause}"));
            write!(f, "; {node}: {cause}")?;
            hint.iter().try_for_each(|hint| write!(f, "; {hint}"))?;
        }
        Ok(())
    }
}

/// Without a source: the text contains those of all failures.
impl std::error::Error for LookUpFailed {}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(failed) => failed.fmt(f),
            Self::Refused(error) => error.fmt(f),
            Self::Invalid(error) => error.fmt(f),
        }
    }
}

/// Without a source: the text contains that of the cause.
impl std::error::Error for RouteError {}
