use std::thread;

use super::*;

const SECRET: &str = "hunter2";

/// The first pause between two calls.
const FIRST: Duration = Duration::from_secs(1);

fn provided_after(calls: &[Result<Credentials, String>]) -> Provided {
    let provided = Provided::default();
    for result in calls {
        provided.state.lock().due = Moment::ZERO;
        assert!(provided.begin_call());
        provided.end_call(result.clone());
    }
    provided
}

fn pause_of(provided: &Provided) -> Duration {
    provided.state.lock().pause
}

#[test]
fn no_text_shows_the_user_or_the_password() {
    let credentials = Credentials::user("ann", SECRET);
    let source = CredentialSource::Provided(Arc::new(provided_after(&[Ok(credentials.clone())])));
    for text in [format!("{credentials:?}"), format!("{source:#?}")] {
        assert!(!text.contains(SECRET) && !text.contains("ann"), "{text}");
    }
}

#[test]
fn new_credentials_are_asked_for_at_nine_tenths_and_five_seconds_before_the_end() {
    let now = Moment::now();
    let end_in = |secs| {
        let mut credentials = Credentials::password(SECRET);
        credentials.until = now.after(Duration::from_secs(secs));
        credentials.renewal(now).since(now).as_secs()
    };
    assert_eq!([end_in(1_000), end_in(20), end_in(3)], [900, 15, 0]);
    let endless = Credentials::password(SECRET);
    assert_eq!(endless.renewal(now), Moment::NEVER);
}

#[test]
fn calls_begin_a_second_apart_and_more_rarely_while_they_bring_nothing_new() {
    let [old, new] = ["old", "new"].map(|password| Ok(Credentials::password(password)));
    let failure = Err("no token".to_owned());
    for (calls, pause) in [
        (&[old.clone()][..], 1),
        (&[old.clone(), old.clone()], 2),
        (&[old.clone(), failure.clone(), failure.clone()], 4),
        (&[old.clone(), failure.clone(), new], 1),
    ] {
        let pause = Duration::from_secs(pause);
        assert_eq!(pause_of(&provided_after(calls)), pause, "{calls:?}");
    }
    let provided = provided_after(std::slice::from_ref(&old));
    provided.refused(1);
    assert!(provided.state.lock().due.left() > FIRST / 2);
    let rest = provided_after(&[old, failure]);
    assert!(rest.state.lock().due.left() > FIRST);
}

#[test]
fn unchanged_credentials_are_new_only_once_and_are_used_again_after_a_refusal() {
    let until = |secs| {
        let end = Instant::now() + Duration::from_secs(secs);
        Credentials::password(SECRET).until(end)
    };
    let provided = Provided::default();
    let next = |credentials| {
        provided.state.lock().due = Moment::ZERO;
        assert!(provided.begin_call());
        let usable = provided.end_call(Ok(credentials));
        usable.map(|usable| usable.is_new)
    };
    assert_eq!(next(until(60)), Some(true));
    assert_eq!(next(until(90)), None);
    assert_eq!(pause_of(&provided), FIRST * 2);
    provided.refused(2);
    assert_eq!(next(until(120)), Some(false));
    assert_eq!(next(until(150)), None);
    assert_eq!(next(Credentials::user("ann", SECRET)), Some(true));
}

#[test]
fn a_failure_keeps_the_last_credentials() {
    let old = Credentials::password("old");
    let provided = provided_after(&[Ok(old.clone()), Err("no token".into())]);
    let (last, calls) = provided.last();
    assert!(last.unwrap().is(&old) && calls == 2);
}

#[test]
fn a_refusal_of_older_credentials_asks_for_no_others() {
    let old = Ok(Credentials::password("old"));
    let provided = provided_after(&[old.clone(), old]);
    provided.refused(1);
    assert_eq!(provided.state.lock().due, Moment::NEVER);
    provided.refused(2);
    assert_ne!(provided.state.lock().due, Moment::NEVER);
}

#[test]
fn a_refused_login_waits_for_the_next_call_but_not_for_one_that_blocks() {
    let new = Credentials::password("new");
    let provided = provided_after(&[Ok(Credentials::password("old"))]);
    let soon = || Moment::now().after(Duration::from_secs(60));
    provided.state.lock().began = Moment::ZERO;
    provided.refused(1);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| provided.await_call(1, soon()));
        assert!(provided.begin_call());
        provided.end_call(Ok(new));
        assert!(waiter.join().unwrap());
    });
    provided.state.lock().due = Moment::ZERO;
    assert!(provided.begin_call());
    let long = PATIENCE + Duration::from_secs(1);
    provided.state.lock().began = Moment::now().before(long);
    assert!(!provided.await_call(2, Moment::NEVER));
    assert!(provided.stop(), "it is called");
    assert!(provided.end_call(Err("too late".into())).is_none());
    assert!(!provided.begin_call(), "the client has ended");
}

#[test]
fn the_first_credentials_are_awaited_and_a_failure_says_why_there_are_none() {
    let short = Duration::from_millis(10);
    let failure = Provided::default().await_first(short).unwrap_err();
    assert!(failure.contains("has not returned"), "{failure}");
    let failed = provided_after(&[Err("no token".into())]);
    assert_eq!(failed.await_first(short), Err("no token".into()));
    let good = provided_after(&[Ok(Credentials::password(SECRET))]);
    assert_eq!(good.await_first(Duration::ZERO), Ok(()));
}
