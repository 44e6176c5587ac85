//! Bytes and arguments go through as they are.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::run;
use crate::support::server::Server;

#[test]
fn every_byte_goes_through() {
    let server = Server::start();
    let all: Vec<u8> = (0..=255).collect();
    let input: Vec<u8> = all.iter().copied().cycle().take((4 << 20) + 77).collect();
    let output = run(&server)
        .args(["k", "--", "cat"])
        .input(input.clone())
        .output();
    let output = output.expect(0);
    assert!(
        output.out == input,
        "{} of {} bytes",
        output.out.len(),
        input.len()
    );
    assert_eq!(output.err, "");

    let output = run(&server)
        .input("to stderr\n\n")
        .locked("k", "cat >&2")
        .output();
    let output = output.expect(0);
    assert_eq!(
        (output.err.as_str(), output.text().as_str()),
        ("to stderr\n\n", "")
    );
}

#[test]
fn arguments_are_passed_on_as_they_are() {
    let server = Server::start();
    let arguments: [&[u8]; 7] = [
        b"a b",
        b"",
        b"\xff\xfe no text",
        b"--lease",
        b"$HOME `id` *",
        b"\n",
        b"--",
    ];
    let output = run(&server)
        .args(["k", "--", "printf", "%s|"])
        .args(arguments.map(OsStr::from_bytes))
        .output();
    let mut expected = arguments.join(&b'|');
    expected.push(b'|');
    assert_eq!(output.expect(0).out, expected);
}
