//! A build without TLS: types without values.

use std::io;

use super::TlsSettings;
use crate::error::{Error, Result};

#[derive(Clone, Debug)]
pub(crate) enum Tls {}

#[derive(Debug)]
pub(crate) enum Session {}

impl Tls {
    pub(crate) fn new(_: &TlsSettings) -> Result<Self> {
        let rule = "this build has no TLS; enable the feature `tls` of leasehold";
        Err(Error::config("url", "a URL with TLS", rule))
    }

    pub(super) fn check_host(&self, _: &'static str, _: &str) -> Result<()> {
        match *self {}
    }

    pub(crate) fn open(&self, _: &str) -> io::Result<Session> {
        match *self {}
    }
}

impl Session {
    pub(crate) fn is_handshaking(&self) -> bool {
        match *self {}
    }

    pub(crate) fn encrypt(&mut self, _: &[u8]) -> io::Result<Vec<u8>> {
        match *self {}
    }

    pub(crate) fn decrypt(&mut self, _: &[u8]) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn decrypted(&mut self, _: &mut [u8]) -> io::Result<usize> {
        match *self {}
    }
}
