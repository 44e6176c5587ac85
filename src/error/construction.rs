//! How this crate makes errors of settings, arguments, holds and releases.

use std::fmt;

use super::Error;

impl Error {
    /// The error of a setting with this value, which breaks this rule.
    pub(crate) fn config(
        field: &'static str,
        value: impl fmt::Display,
        rule: impl Into<Box<str>>,
    ) -> Self {
        Self::Config {
            lock: String::new(),
            field,
            value: value.to_string().into(),
            rule: rule.into(),
        }
    }

    /// The error of an argument with this value, which breaks this rule.
    pub(crate) fn argument(
        argument: &'static str,
        value: impl fmt::Display,
        rule: impl Into<Box<str>>,
    ) -> Self {
        Self::InvalidArgument {
            lock: String::new(),
            argument,
            value: value.to_string().into(),
            rule: rule.into(),
        }
    }

    /// The error of a lock whose name is used as this rule forbids.
    pub(crate) fn misused(name: &str, rule: impl Into<Box<str>>) -> Self {
        Self::argument("name", format_args!("{name:?}"), rule).concerning(name)
    }

    /// The error of a call that the lock of this name does not have: the rule says which locks do.
    pub(crate) fn unsuited(name: &str, rule: &'static str) -> Self {
        Self::config("lock", format_args!("{name:?}"), rule).concerning(name)
    }

    /// The error of a thread that does not hold the lock of this name, or holds it only by a guard.
    pub(crate) fn not_held(name: &str, by_guard: bool) -> Self {
        let lock = name.into();
        Self::NotHeld { lock, by_guard }
    }

    /// This error of a setting or an argument, which concerns the lock of this name.
    pub(crate) fn concerning(mut self, name: &str) -> Self {
        if let Self::Config { lock, .. } | Self::InvalidArgument { lock, .. } = &mut self {
            *lock = name.into();
        }
        self
    }

    /// This error of a release: without a clear reply it is [`NotReleased`](Self::NotReleased).
    pub(crate) fn of_release(self, retried: bool, is_change: bool) -> Self {
        match self {
            Self::Unavailable {
                lock,
                node,
                limit,
                cause,
                ..
            } => Self::NotReleased {
                lock,
                node,
                limit,
                cause,
                retried,
                is_change,
            },
            error => error,
        }
    }
}
