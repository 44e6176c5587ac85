use crossbeam_channel::{RecvTimeoutError, Sender, unbounded};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::*;

const SOON: Duration = Duration::from_secs(10);

fn start() -> (Arc<Queue>, Reporter) {
    let queue = Arc::<Queue>::default();
    let reporter = Reporter::start(Arc::clone(&queue)).unwrap();
    (queue, reporter)
}

/// Runs `body` on a thread of the client.
fn on_its_thread(queue: &Arc<Queue>, body: impl FnOnce() + Send + 'static) {
    queue.spawn("leasehold-test", body).unwrap().join().unwrap();
}

/// A reporter that executes a call until the sender is dropped.
fn blocked() -> (Arc<Queue>, Reporter, Sender<()>) {
    let (queue, reporter) = start();
    let (release, released) = unbounded::<()>();
    let (began, begun) = unbounded();
    on_its_thread(&queue, move || {
        tell(move || {
            began.send(()).unwrap();
            let _ = released.recv();
        });
    });
    begun.recv_timeout(SOON).unwrap();
    (queue, reporter, release)
}

#[test]
fn a_panic_ends_with_its_call() {
    let (sender, told) = unbounded();
    let again = sender.clone();
    tell(|| panic!("on purpose"));
    tell(move || sender.send(1).unwrap());
    let (queue, _reporter) = start();
    on_its_thread(&queue, move || {
        tell(|| panic!("on purpose"));
        tell(move || again.send(2).unwrap());
    });
    assert_eq!(told.recv_timeout(SOON), Ok(1));
    assert_eq!(told.recv_timeout(SOON), Ok(2));
}

#[test]
fn a_thread_of_the_application_calls_directly_and_a_thread_of_the_client_queues() {
    let (queue, reporter) = start();
    let (sender, told) = unbounded();
    let note = move |number: u32| {
        let sender = sender.clone();
        tell(move || {
            let thread = std::thread::current().name().map(str::to_owned);
            sender.send((thread, number)).unwrap();
        });
    };
    note(0);
    let own = std::thread::current().name().map(str::to_owned);
    assert_eq!(told.try_recv(), Ok((own, 0)));
    on_its_thread(&queue, move || (1..100).for_each(note));
    for number in 1..100 {
        let expected = (Some("leasehold-reporter".to_owned()), number);
        assert_eq!(told.recv_timeout(SOON), Ok(expected));
    }
    drop(reporter);
}

#[test]
fn a_call_that_blocks_stops_no_thread_and_calls_without_room_are_counted() {
    let (queue, _reporter, release) = blocked();
    let (sender, told) = unbounded();
    on_its_thread(&queue, move || {
        for number in 0..CAPACITY + 3 {
            let sender = sender.clone();
            tell(move || sender.send(number).unwrap());
        }
    });
    assert_eq!(queue.queued.lock().dropped, 3);
    drop(release);
    for number in 0..CAPACITY {
        assert_eq!(told.recv_timeout(SOON), Ok(number));
    }
    let more = told.recv_timeout(SOON);
    assert_eq!(more, Err(RecvTimeoutError::Disconnected));
}

#[test]
fn the_end_delivers_what_is_queued_but_waits_for_no_call_that_blocks() {
    let (queue, reporter) = start();
    let (sender, told) = unbounded();
    on_its_thread(&queue, move || {
        (0..100).for_each(|number| {
            let sender = sender.clone();
            tell(move || sender.send(number).unwrap());
        });
    });
    let done = reporter.thread.done.clone();
    drop(reporter);
    let end = done.recv_timeout(SOON);
    assert_eq!(end, Err(RecvTimeoutError::Disconnected), "its thread ends");
    assert_eq!(told.len(), 100);

    let (_, reporter, release) = blocked();
    drop(reporter);
    drop(release);
}

/// Keeps the numbers of what is logged.
struct Numbers(Sender<u64>);

impl Subscriber for Numbers {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn event(&self, event: &Event<'_>) {
        event.record(&mut Number(self.0.clone()));
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Number(Sender<u64>);

impl Visit for Number {
    fn record_u64(&mut self, _: &Field, value: u64) {
        self.0.send(value).unwrap();
    }
    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

#[test]
fn how_many_calls_were_dropped_is_logged_after_the_others() {
    let (sender, logged) = unbounded();
    let queued = Queued {
        calls: vec![Box::new(|| tracing::info!(first = 1_u64, "a call"))],
        dropped: 7,
        ..Queued::default()
    };
    tracing::subscriber::with_default(Numbers(sender), || queued.run());
    assert_eq!(logged.try_iter().collect::<Vec<_>>(), [1, 7]);
}
