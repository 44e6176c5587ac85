//! Limits how many workers, in several processes, are at work at the same time. One process is
//! killed while it works, and its permit comes back within a lease.

#[path = "support/mod.rs"]
mod support;

use std::{
    env,
    io::{self, Read},
    process::{Child, Command, ExitCode, Stdio},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use clap::{Parser, ValueEnum};
use leasehold::{LeasedSemaphore, LockClient};
use redis::Connection;
use uuid::Uuid;

use crate::support::{Result, Server, Stop};

/// How much later than the end of its lease a permit may be in use again, on a busy machine.
const TOLERANCE: Duration = Duration::from_secs(1);

/// Runs workers in several processes, of which a few may work at the same time. Kills a process
/// that works. Exit status 1 if more than the permitted number worked at once, or if the permit of
/// the killed process did not come back within a lease.
///
/// Uses the server at REDIS_URL if that is set, else starts a private redis-server.
#[derive(Parser)]
struct Args {
    /// Number of workers that may work at the same time
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    permits: u32,
    /// Number of processes, without the one that is killed
    #[arg(long, default_value_t = 3)]
    processes: u32,
    /// Number of workers in each process
    #[arg(long, default_value_t = 4)]
    threads: u32,
    /// The lease of a permit, in milliseconds
    #[arg(long, default_value_t = 2000)]
    lease: u64,
    /// Run as this process of the semaphore with this name
    #[arg(long, hide = true, num_args = 2, value_names = ["ROLE", "NAME"])]
    child: Vec<String>,
}

/// What a child process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Role {
    /// Many short jobs, each with a permit.
    ManyJobs,
    /// One job that does not end.
    LongJob,
}

impl Args {
    fn lease(&self) -> Duration {
        Duration::from_millis(self.lease)
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    support::exit_code(match &args.child[..] {
        [role, name] => work(&args, role, name).map(|()| ExitCode::SUCCESS),
        _ => supervise(&args),
    })
}

fn supervise(args: &Args) -> Result<ExitCode> {
    let (sender, interrupts) = mpsc::channel();
    ctrlc::set_handler(move || {
        let _ = sender.send(());
    })?;
    let server = Server::find_or_start()?;
    let name = format!("leasehold:rate_limit:{}", Uuid::new_v4());
    let client = LockClient::connect(server.url())?;
    let semaphore = client.leased_semaphore(&name);
    semaphore.try_set_permits(args.permits)?;
    println!(
        "{} workers in {} processes, of which {} may work at once",
        args.processes * args.threads,
        args.processes,
        args.permits
    );
    let mut office = Office::of(server.url(), &name)?;
    let mut long_job = Worker::spawn(args, server.url(), Role::LongJob, &name)?;
    while office.at_work()? < 1 {
        pause(&interrupts, Duration::from_millis(1))?;
    }
    let workers = (0..args.processes)
        .map(|_| Worker::spawn(args, server.url(), Role::ManyJobs, &name))
        .collect::<Result<Vec<_>>>()?;
    println!("another process works for two leases: its permit is renewed");
    pause(&interrupts, args.lease() * 2)?;
    if !office.is_long_job_at_work()? {
        return Err("the long job has lost its permit".into());
    }
    long_job.kill()?;
    let killed = Instant::now();
    office.remove_long_job()?;
    // The other workers use all permits but one. They use that one when it comes back.
    while office.at_work()? < args.permits {
        if killed.elapsed() > args.lease() + TOLERANCE {
            return Err("the permit of the killed process did not come back".into());
        }
        pause(&interrupts, Duration::from_millis(1))?;
    }
    let after = killed.elapsed();
    println!("it is killed; its permit is used again after {after:.1?}");
    pause(&interrupts, Duration::from_millis(500))?;
    let mut most = 0;
    for mut worker in workers {
        most = most.max(worker.finish()?);
    }
    report(args, &semaphore, &mut office, most)
}

fn report(
    args: &Args,
    semaphore: &LeasedSemaphore,
    office: &mut Office,
    most: u32,
) -> Result<ExitCode> {
    let (available, jobs) = (semaphore.available()?, office.jobs()?);
    println!("{jobs} jobs, at most {most} workers at work at once, {available} permits available");
    let is_right = most == args.permits && available == i64::from(args.permits);
    Ok(if is_right {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Waits, unless the program is interrupted.
fn pause(interrupts: &Receiver<()>, time: Duration) -> Result<()> {
    match interrupts.recv_timeout(time) {
        Err(RecvTimeoutError::Timeout) => Ok(()),
        _ => Err(Stop::Interrupted.into()),
    }
}

/// A child process. Killed when dropped.
struct Worker(Child);

impl Worker {
    fn spawn(args: &Args, url: &str, role: Role, name: &str) -> Result<Self> {
        let mut command = Command::new(env::current_exe()?);
        let role = role.to_possible_value().expect("every role has a name");
        command
            .args(["--permits", &args.permits.to_string()])
            .args(["--threads", &args.threads.to_string()])
            .args(["--lease", &args.lease.to_string()])
            .args(["--child", role.get_name(), name])
            .env("REDIS_URL", url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        Ok(Self(support::shield_from_terminal(&mut command).spawn()?))
    }

    fn kill(&mut self) -> Result<()> {
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }

    /// Ends the work, and returns the largest number of workers that were at work at once.
    fn finish(&mut self) -> Result<u32> {
        drop(self.0.stdin.take());
        let mut output = String::new();
        if let Some(stdout) = &mut self.0.stdout {
            stdout.read_to_string(&mut output)?;
        }
        if !self.0.wait()?.success() {
            return Err("a process failed".into());
        }
        Ok(output.trim().parse()?)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// Which workers are at work: a set in Redis, apart from the semaphore.
struct Office {
    redis: Connection,
    at_work: String,
    jobs: String,
}

/// The member of the set for the job that does not end.
const LONG_JOB: &str = "long job";

impl Office {
    fn of(url: &str, name: &str) -> Result<Self> {
        Ok(Self {
            redis: support::connect(url)?,
            at_work: format!("{name}:at work"),
            jobs: format!("{name}:jobs"),
        })
    }

    /// Returns the number of workers at work, including this one.
    fn enter(&mut self, worker: &str) -> Result<u32> {
        let mut enter = redis::pipe();
        enter.atomic().cmd("SADD").arg(&self.at_work).arg(worker);
        let (_, at_work): (u32, u32) = enter
            .cmd("SCARD")
            .arg(&self.at_work)
            .query(&mut self.redis)?;
        Ok(at_work)
    }

    fn leave(&mut self, worker: &str) -> Result<()> {
        let mut leave = redis::pipe();
        leave.atomic().cmd("SREM").arg(&self.at_work).arg(worker);
        leave.cmd("INCR").arg(&self.jobs);
        Ok(leave.exec(&mut self.redis)?)
    }

    fn at_work(&mut self) -> Result<u32> {
        let mut scard = redis::cmd("SCARD");
        Ok(scard.arg(&self.at_work).query(&mut self.redis)?)
    }

    fn is_long_job_at_work(&mut self) -> Result<bool> {
        let mut is_member = redis::cmd("SISMEMBER");
        is_member.arg(&self.at_work).arg(LONG_JOB);
        Ok(is_member.query(&mut self.redis)?)
    }

    fn remove_long_job(&mut self) -> Result<()> {
        let mut remove = redis::cmd("SREM");
        remove.arg(&self.at_work).arg(LONG_JOB);
        Ok(remove.exec(&mut self.redis)?)
    }

    fn jobs(&mut self) -> Result<u64> {
        let jobs: Option<u64> = redis::cmd("GET").arg(&self.jobs).query(&mut self.redis)?;
        Ok(jobs.unwrap_or(0))
    }
}

/// The work of a child process.
fn work(args: &Args, role: &str, name: &str) -> Result<()> {
    let url = env::var("REDIS_URL")?;
    let client = LockClient::builder(&url)
        .watchdog_lease(args.lease())
        .build()?;
    let semaphore = client.leased_semaphore(name);
    if Role::from_str(role, false)? == Role::LongJob {
        let guard = semaphore.acquire()?;
        Office::of(&url, name)?.enter(LONG_JOB)?;
        // Until it is killed, or until its permit is lost.
        let reason = guard.lost().recv()?;
        Office::of(&url, name)?.leave(LONG_JOB)?;
        return Err(format!("the permit is lost: {reason}").into());
    }
    let ends = AtomicBool::new(false);
    let most = thread::scope(|scope| {
        let jobs: Vec<_> = (0..args.threads)
            .map(|_| scope.spawn(|| do_jobs(&semaphore, &url, name, &ends)))
            .collect();
        // Ends when the parent closes it, or dies.
        let _ = io::stdin().read_to_end(&mut Vec::new());
        ends.store(true, Ordering::Relaxed);
        let results = jobs.into_iter().map(|job| job.join().expect("no panic"));
        results.max_by_key(|most| most.as_ref().map_or(u32::MAX, |most| *most))
    });
    println!("{}", most.unwrap_or(Ok(0))?);
    Ok(())
}

/// Does short jobs, each with a permit. Returns the largest number of workers at work at once.
fn do_jobs(semaphore: &LeasedSemaphore, url: &str, name: &str, ends: &AtomicBool) -> Result<u32> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let worker = format!("{}:{number}", std::process::id());
    let mut office = Office::of(url, name)?;
    let mut most = 0;
    while !ends.load(Ordering::Relaxed) {
        let guard = semaphore.acquire()?;
        most = most.max(office.enter(&worker)?);
        thread::sleep(Duration::from_millis(5));
        office.leave(&worker)?;
        guard.release()?;
    }
    Ok(most)
}
