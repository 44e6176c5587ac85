//! A worker process: one client and its threads, until the conductor asks it to stop.

use std::fs;
use std::io::{self, BufRead};
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use leasehold::{Credentials, Error, LockClient};

use crate::Result;
use crate::args::Args;
use crate::clock;
use crate::log::{Event, Log};
use crate::server::SILENT_USER;
use crate::worker_thread::WorkerThread;
use crate::{client_id, stall_monitor};

pub fn work(args: &Args, number: u32) -> Result<ExitCode> {
    let url = args.url.as_deref().ok_or("a worker needs a server")?;
    let user = args.user.clone().ok_or("a worker needs a user")?;
    let password_file = args.password_file.clone().ok_or("it needs a password")?;
    let directory = args.log.as_deref().ok_or("a worker needs a log")?;
    let log = Arc::new(Log::open(directory, number)?);
    let monitored = Arc::downgrade(&log);
    thread::spawn(move || stall_monitor::run(&monitored));
    if user == SILENT_USER {
        log.write(clock::now(), 0, Event::MayNotSubscribe);
    }
    let builder = LockClient::builder(url).credentials_provider(move || {
        let password = fs::read_to_string(&password_file)?;
        Ok(Credentials::user(&user, password))
    });
    let builder = args.set(builder);
    let client = loop {
        match builder.clone().build() {
            // This process was paused, so the password came late.
            Err(Error::Unavailable { .. }) => {}
            built => break built?,
        }
    };
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    thread::spawn(move || stop_when_asked(&stopped));
    thread::scope(|scope| {
        scope.spawn(|| client_id::log(&client, number, &log, &stop));
        for thread in 1..=args.threads {
            let (client, log, stop) = (&client, &log, &stop);
            scope.spawn(move || WorkerThread::new(args, client, log, number, thread, stop).run());
        }
    });
    Ok(ExitCode::SUCCESS)
}

/// A line on standard input asks the threads to stop. The end of the input means that the conductor
/// has died, so the process exits at once.
fn stop_when_asked(stop: &AtomicBool) {
    let mut input = io::stdin().lock();
    while input
        .read_line(&mut String::new())
        .is_ok_and(|read| read > 0)
    {
        stop.store(true, Ordering::Relaxed);
    }
    process::exit(1);
}
