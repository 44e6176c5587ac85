//! A thousand threads wait for a thousand locks of another process. Counts the commands that they
//! send, from one second after all of them listen for a release. A waiting thread tries again when
//! the lease that Redis reported ends; this bench ends before that.

#[path = "support/mod.rs"]
mod support;

use std::{
    env,
    io::{self, Read, Write},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use leasehold::{LockClient, ReentrantLock};
use support::{
    Server,
    commands::commands,
    is_list, is_test, length, pin_clients,
    raw_client::channel,
    table::{Bound, Table},
};

/// The environment variable that starts the holder of the locks: the URL of the server.
const HOLDER: &str = "LEASEHOLD_BENCH_HOLDER";

const HELD: u8 = b'h';

/// Well before the leases of the locks end.
const SUBSCRIBED_WITHIN: Duration = Duration::from_secs(15);

/// A thread that only waits needs little.
const STACK_BYTES: usize = 256 * 1024;

fn count() -> usize {
    if is_test() { 50 } else { 1_000 }
}

fn locks(client: &LockClient) -> Vec<ReentrantLock> {
    let names = (0..count()).map(|number| format!("waited:{number}"));
    names.map(|name| client.reentrant_lock(&name)).collect()
}

/// Holds all locks until the parent closes the pipe.
fn hold(url: &str) -> io::Result<()> {
    let client = LockClient::connect(url).expect("a valid URL");
    let locks = locks(&client);
    locks.iter().for_each(|lock| lock.lock().expect("free"));
    io::stdout().write_all(&[HELD])?;
    io::stdout().flush()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    locks.iter().for_each(|lock| lock.unlock().expect("held"));
    Ok(())
}

fn start_holder(server: &Server) -> Child {
    let mut holder = Command::new(env::current_exe().expect("this program"))
        .args(env::args().skip(1))
        .env(HOLDER, server.url())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program again");
    let mut held = [0];
    let replies = holder.stdout.as_mut().expect("piped");
    replies.read_exact(&mut held).expect("it holds the locks");
    holder
}

fn main() {
    if let Ok(url) = env::var(HOLDER) {
        let _ = hold(&url);
        return;
    }
    if is_list() {
        return;
    }
    pin_clients();
    let server = Server::start();
    let mut holder = start_holder(&server);
    let client = server.client();
    let locks = locks(&client);
    let acquired = AtomicUsize::new(0);
    let measured = length(Duration::from_secs(10), Duration::from_millis(300));
    let start = Instant::now();
    let (subscribed, sent) = thread::scope(|scope| {
        // Dropped after a panic, too. Otherwise the threads would wait indefinitely.
        let pipe = holder.stdin.take();
        for lock in &locks {
            let thread = thread::Builder::new().stack_size(STACK_BYTES);
            let wait = || {
                lock.lock().expect("the lock");
                acquired.fetch_add(1, Ordering::Relaxed);
                lock.unlock().expect("held");
            };
            thread.spawn_scoped(scope, wait).expect("enough threads");
        }
        let subscribed = until_subscribed(&server, locks.len(), start);
        thread::sleep(Duration::from_secs(1));
        let sent = commands(&[server.address()], || thread::sleep(measured));
        assert_eq!(acquired.load(Ordering::Relaxed), 0, "the locks are held");
        drop(pipe);
        (subscribed, sent)
    });
    let _ = holder.wait();

    let mut table = Table::new();
    let waiting = locks.len();
    let what = format!("{waiting} threads wait for {waiting} locks: commands per second");
    let figure = (sent as f64 / measured.as_secs_f64(), "");
    let sides = (
        format!("{sent} for {:.1} s", measured.as_secs_f64()),
        String::new(),
    );
    table.figure(&what, sides, figure, Bound::Below(1.0));
    let what = "the same: time until all of them listen";
    let seconds = (subscribed.as_secs_f64(), " s");
    table.figure(what, Default::default(), seconds, Bound::None);
    table.print();
}

/// Waits until the server has a subscription for each lock. Returns the time since `start`.
fn until_subscribed(server: &Server, locks: usize, start: Instant) -> Duration {
    let mut connection = server.connection();
    let mut ask = redis::cmd("PUBSUB");
    ask.arg("CHANNELS").arg(channel("waited:*"));
    loop {
        let channels: Vec<String> = ask.query(&mut connection).expect("a reply");
        if channels.len() >= locks {
            return start.elapsed();
        }
        assert!(start.elapsed() < SUBSCRIBED_WITHIN, "{}", channels.len());
        thread::sleep(Duration::from_millis(20));
    }
}
