//! A program with locks whose spans go to OpenTelemetry: here to standard output. One request waits
//! for another one, and one loses its lock. docs/monitoring.md explains it.

#[path = "../support/mod.rs"]
mod support;

use std::{process::ExitCode, thread, time::Duration};

use leasehold::{LockClient, LostReason};
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use tracing_subscriber::{EnvFilter, Layer, layer::SubscriberExt, util::SubscriberInitExt};

use crate::support::{Result, Server};

fn export_spans() -> Result<SdkTracerProvider> {
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(opentelemetry_stdout::SpanExporter::default())
        .with_resource(Resource::builder().with_service_name("shop").build())
        .build();
    let spans = tracing_opentelemetry::layer().with_tracer(provider.tracer("shop"));
    // The spans of locks are at level debug.
    let spans = spans.with_filter(EnvFilter::new("info,leasehold=debug"));
    let log = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_filter(EnvFilter::new("info"));
    tracing_subscriber::registry()
        .with(spans)
        .with(log)
        .try_init()?;
    Ok(provider)
}

fn main() -> ExitCode {
    support::exit_code(run().map(|()| ExitCode::SUCCESS))
}

fn run() -> Result<()> {
    let redis = Server::find_or_start()?;
    let provider = export_spans()?;
    let client = LockClient::builder(redis.url())
        .watchdog_lease(Duration::from_secs(1))
        .build()?;
    let first = client.reentrant_lock("order:pay").acquire()?;
    thread::scope(|scope| {
        let second = scope.spawn(|| pay(&client));
        thread::sleep(Duration::from_millis(100));
        first.unlock()?;
        second.join().map_err(|_| "a request panicked")?
    })?;
    lose(&client)?;
    drop(client);
    provider.shutdown()?;
    Ok(())
}

/// A request that waits for the lock.
fn pay(client: &LockClient) -> Result<()> {
    let _request = tracing::info_span!("pay").entered();
    let guard = client.reentrant_lock("order:pay").acquire()?;
    thread::sleep(Duration::from_millis(20));
    Ok(guard.unlock()?)
}

/// A request that loses its lock.
fn lose(client: &LockClient) -> Result<()> {
    let _request = tracing::info_span!("lose").entered();
    let guard = client.fenced_lock("order:ship").acquire()?;
    client.force_unlock("order:ship")?;
    match guard.lost().recv_timeout(Duration::from_secs(5))? {
        LostReason::Deleted => Ok(()),
        other => Err(format!("unexpected: {other}").into()),
    }
}
