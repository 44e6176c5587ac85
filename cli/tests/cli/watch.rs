//! `leasehold watch`.

use std::io::Read;

use crate::locks::{OTHER_OWNER, ask, plant, send, with_long_timeout};
use crate::proxy::{self, Fault};
use crate::support::process::signal;
use crate::support::server::Server;
use crate::support::timing::SOON;
use crate::terminal::Terminal;

const ENTERED: &str = "\x1b[?1049h";
const LEFT: &str = "\x1b[?1049l";
const CURSOR_HIDDEN: &str = "\x1b[?25l";
const CURSOR_SHOWN: &str = "\x1b[?25h";

#[test]
fn a_lock_appears_and_goes_until_q() {
    let server = Server::start();
    let mut terminal = Terminal::start(&server.url(), "watch order:* --every 100ms");
    let title = "0 locks matching \"order:*\", every 100ms; q quits";
    terminal.shows_all(&[ENTERED, CURSOR_HIDDEN, title]);
    plant(&server, "order:pay");
    plant(&server, "shop");
    terminal.shows_all(&["1 lock matching", "order:pay", OTHER_OWNER]);
    send(&server, "DEL order:pay");
    terminal.shows("0 locks matching");
    terminal.ended_by("xyzq", &[CURSOR_SHOWN, LEFT], 0);
}

#[test]
fn a_signal_ends_it_as_any_program_and_the_terminal_is_restored() {
    let server = Server::start();
    for (name, status) in [("INT", 130), ("TERM", 143), ("HUP", 129), ("QUIT", 131)] {
        let mut terminal = Terminal::start(&server.url(), "watch --every 1h");
        terminal.shows("0 locks");
        signal(terminal.pid, name);
        terminal.ended_by("", &[CURSOR_SHOWN, LEFT], status);
    }
    let mut terminal = Terminal::start(&server.url(), "watch");
    terminal.shows("0 locks");
    // Ctrl-C.
    terminal.ended_by("\x03", &[LEFT], 0);
}

#[test]
fn it_fits_into_the_terminal_and_follows_its_size() {
    let server = Server::start();
    for number in 0..30 {
        plant(&server, format!("order:{number:02}"));
    }
    let mut terminal = Terminal::start(&server.url(), "watch --every 1h");
    let has = |picture: &str, last: &str, missing: &str| {
        let is_cut = picture.contains(last) && !picture.contains(missing);
        assert!(is_cut, "{picture:?}");
    };
    // 24 lines: the title, four around the table, 18 locks, and the last one.
    let picture = last(&terminal.shows("and 12 more"));
    has(&picture, "order:17", "order:18");
    terminal.resize(100, 10);
    let picture = last(&terminal.shows("and 26 more"));
    has(&picture, "order:03", "order:04");
    // No line feed, and no more lines than there are: so nothing scrolls.
    let scrolls = picture.contains('\n') || picture.contains("\x1b[11;1H");
    assert!(!scrolls, "{picture:?}");
    terminal.resize(120, 40);
    has(&last(&terminal.shows("order:29")), "order:28", "more");
    terminal.ended_by("q", &[LEFT], 0);
}

/// Of several pictures.
fn last(pictures: &str) -> String {
    let (_, picture) = pictures.rsplit_once("30 locks").expect("a picture");
    picture.into()
}

#[test]
fn a_redis_that_is_away_for_a_while_ends_nothing() {
    let server = Server::options().keeps_data().start();
    plant(&server, "order:pay");
    let mut terminal = Terminal::start(&server.url(), "watch --every 100ms --timeout 2s");
    terminal.shows("1 lock matching");
    server.kill();
    terminal.shows("at least 0 locks matching");
    terminal.shows(&format!("Redis at {}", server.address()));
    server.start_again();
    terminal.shows("1 lock matching");
    server.pause();
    terminal.shows("no reply in time");
    // A key is heard meanwhile.
    terminal.ended_by("q", &[LEFT], 0);
}

#[test]
fn one_that_is_not_there_from_the_beginning_is_an_error() {
    let terminal = Terminal::start("redis://127.0.0.1:1", "watch");
    let said = terminal.ends_with(69);
    for word in ["leasehold: ", "127.0.0.1:1"] {
        assert!(said.contains(word), "{said:?}");
    }
    assert!(!said.contains(ENTERED), "{said:?}");
    let too_often = ask(&Server::start(), "watch --every 99ms");
    too_often.expect_failure(64, &["--every", "100ms"]);
}

/// Neither the terminal nor the program waits for the reply, which may take long.
#[test]
fn a_server_that_hangs_does_not_hold_the_terminal() {
    let server = Server::start();
    let proxy = proxy::before(&server.address());
    let mut terminal = Terminal::start(&proxy.url(), "watch --every 100ms --timeout 1m");
    terminal.shows("0 locks matching");
    let (sender, asked) = crossbeam_channel::unbounded();
    proxy.on_request(move |request| {
        if request.command() != "SCAN" {
            return Fault::Pass;
        }
        let _ = sender.send(());
        Fault::SwallowRequest
    });
    asked.recv_timeout(SOON.get()).unwrap();
    terminal.ended_by("q", &[LEFT], 0);
}

/// Reads until this is there.
#[track_caller]
fn prints(program: &crate::program::Running, read: &mut String, text: &str) {
    while !read.contains(text) {
        let more = program.next_output();
        assert!(!more.is_empty(), "no {text:?} in {read:?}");
        read.push_str(&more);
    }
}

#[test]
fn without_a_terminal_it_prints_the_list_again_and_again() {
    let server = Server::options().keeps_data().start();
    plant(&server, "order:pay");
    let program = with_long_timeout(&server).args(["watch", "--every", "100ms"]);
    let program = program.start();
    let mut read = String::new();
    prints(&program, &mut read, "\n\norder:pay");
    assert!(read.starts_with("order:pay  reentrant  "), "{read:?}");
    plant(&server, "order:ship");
    prints(&program, &mut read, "order:ship");
    server.restart();
    plant(&server, "order:take");
    prints(&program, &mut read, "order:take");
    program.signal("TERM");
    let ended = program.end();
    assert_eq!(ended.signal(), Some(15), "{ended:?}");
    // While Redis was away.
    let is_warning = |line: &str| line.starts_with("leasehold: Redis at ");
    assert!(ended.err.lines().all(is_warning), "{ended:?}");
    assert!(!read.contains('\x1b'), "{read:?}");
}

#[test]
fn it_ends_when_its_reader_is_gone() {
    let server = Server::start();
    plant(&server, "order:pay");
    let (mut reader, writer) = std::io::pipe().unwrap();
    let program = with_long_timeout(&server).args(["watch", "--every", "100ms"]);
    let running = program.writing_to(writer).start();
    let mut first = [0; 9];
    reader.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"order:pay");
    drop(reader);
    running.end().expect(0);
}
