//! Which scenario runs for which lock in which environment.
//!
//! A combination in which the meaning of a lock differs runs every scenario: each kind of lock on
//! one server, and `RedLock` on five. In the other combinations only the connection differs. They
//! run the scenarios in brackets, which depend on the connection. The other scenarios are ignored
//! there; `scripts/soak` runs them.

/// The scenarios of a group, each as a test. The groups are the modules of this directory.
macro_rules! group {
    (exclusion $stage:tt) => { tests! { $stage exclusion:
        [another_thread_is_kept_out] [another_client_is_kept_out]
        two_handles_of_one_client_are_one_lock a_try_lock_without_a_wait_is_one_attempt
        a_wait_that_ends_first_returns_false_in_time only_the_holder_unlocks
        [is_locked_and_remaining_lease_report_the_state_in_redis]
    } };
    (reentrancy $stage:tt) => { tests! { $stage reentrancy:
        [counts_agree_at_every_level] every_acquiring_method_adds_a_level
        only_the_last_unlock_releases_the_lock
    } };
    (waiting $stage:tt) => { tests! { $stage waiting:
        a_local_thread_gets_the_lock_on_release [another_client_gets_the_lock_on_release]
        a_local_thread_gets_the_lock_within_its_wait another_client_gets_the_lock_within_its_wait
        an_unlimited_wait_is_possible [every_thread_gets_the_lock]
    } };
    (wake_up_cost $stage:tt) => { tests! { $stage wake_up_cost:
        [a_wake_up_is_fast_and_needs_few_commands]
    } };
    (expiry $stage:tt) => { tests! { $stage expiry:
        [the_time_to_live_is_the_lease] a_waiting_client_gets_the_lock_when_a_fixed_lease_ends
        a_waiting_local_thread_gets_the_lock_when_a_fixed_lease_ends a_fixed_lease_is_not_renewed
        a_hold_ends_in_the_client_before_it_ends_in_redis the_holder_detects_the_end_of_its_lease
        an_expired_holder_does_not_release_the_hold_of_another_client
        an_expired_holder_does_not_release_the_hold_of_another_thread
    } };
    (renewal $stage:tt) => { tests! { $stage renewal:
        [a_renewed_hold_lasts_longer_than_its_lease] a_renewal_comes_in_the_last_third
        a_released_lock_is_not_renewed the_end_of_the_last_renewal_is_reported_in_time
        without_renewals_the_end_of_the_lease_is_reported_in_time
        a_lease_of_its_own_length_is_renewed
    } };
    (nesting $stage:tt) => { tests! { $stage nesting:
        a_nested_lease_never_shortens the_longest_lease_counts
        an_inner_unlock_does_not_stop_the_renewal an_inner_renewal_lasts_as_long_as_its_level
        guards_can_be_dropped_in_any_order a_renewal_ends_with_its_guard
    } };
    (hand_over $stage:tt) => { tests! { $stage hand_over:
        [a_handed_over_lock_is_held] a_handed_over_lock_is_renewed
        the_loss_of_a_handed_over_lock_is_reported waits_that_end_during_hand_overs_leave_nothing
    } };
    (loss $stage:tt) => { tests! { $stage loss:
        [the_loss_of_a_deleted_lock_is_reported] the_loss_to_another_owner_is_reported
        the_loss_to_a_key_of_another_type_is_reported
        a_lost_lock_must_be_unlocked_before_it_is_acquired_again [an_unlock_detects_the_loss]
        every_level_of_a_lost_lock_is_lost the_next_local_thread_gets_a_lost_lock
        a_lost_hold_does_not_affect_the_next
    } };
    (guards $stage:tt) => { tests! { $stage guards:
        a_dropped_guard_unlocks an_unlocked_guard_does_not_unlock_again_on_drop
        an_unlock_does_not_release_the_levels_of_guards an_unlock_under_a_guard_is_refused
        an_unlock_under_a_guard_of_a_lost_lock_is_refused a_panic_unlocks
        a_guard_of_a_lost_lock_can_be_dropped a_guard_in_a_thread_local_unlocks_at_the_threads_end
        a_forgotten_guard_keeps_the_lock [a_lease_can_be_extended] a_lost_lock_cannot_be_extended
        an_unlock_disconnects_the_receiver_of_the_loss another_thread_can_watch_a_guard
    } };
    (interrupts $stage:tt) => { tests! { $stage interrupts:
        a_wait_for_a_local_thread_is_interrupted a_wait_for_another_client_is_interrupted
        an_interrupt_before_the_call_is_not_lost without_an_interrupt_lock_interruptibly_is_lock
        threads_behind_an_interrupted_thread_get_the_lock
    } };
    (operator $stage:tt) => { tests! { $stage operator:
        [inspect_reports_the_state_in_redis] [force_unlock_releases_the_lock_and_wakes_waiters]
        the_holder_is_notified_of_a_force_unlock stats_count_all_operations a_loss_is_an_event
        a_late_release_is_an_event
    } };
    // Readers do not exclude each other: see `EXCLUSIVE`.
    (read_exclusion $stage:tt) => { tests! { $stage exclusion:
        two_handles_of_one_client_are_one_lock only_the_holder_unlocks
        [is_locked_and_remaining_lease_report_the_state_in_redis]
    } };
    (read_reentrancy $stage:tt) => { tests! { $stage reentrancy:
        [counts_agree_at_every_level] every_acquiring_method_adds_a_level
    } };
    (read_expiry $stage:tt) => { tests! { $stage expiry:
        [the_time_to_live_is_the_lease] a_waiting_client_gets_the_lock_when_a_fixed_lease_ends
        a_fixed_lease_is_not_renewed a_hold_ends_in_the_client_before_it_ends_in_redis
        the_holder_detects_the_end_of_its_lease
    } };
    (read_loss $stage:tt) => { tests! { $stage loss:
        [the_loss_of_a_deleted_lock_is_reported] the_loss_to_another_owner_is_reported
        the_loss_to_a_key_of_another_type_is_reported
        a_lost_lock_must_be_unlocked_before_it_is_acquired_again [an_unlock_detects_the_loss]
        every_level_of_a_lost_lock_is_lost a_lost_hold_does_not_affect_the_next
    } };
    (read_guards $stage:tt) => { tests! { $stage guards:
        a_dropped_guard_unlocks an_unlocked_guard_does_not_unlock_again_on_drop
        an_unlock_does_not_release_the_levels_of_guards
        an_unlock_under_a_guard_of_a_lost_lock_is_refused a_panic_unlocks
        a_guard_of_a_lost_lock_can_be_dropped a_guard_in_a_thread_local_unlocks_at_the_threads_end
        a_forgotten_guard_keeps_the_lock [a_lease_can_be_extended] a_lost_lock_cannot_be_extended
        an_unlock_disconnects_the_receiver_of_the_loss another_thread_can_watch_a_guard
    } };
    (read_interrupts $stage:tt) => { tests! { $stage interrupts:
        an_interrupt_before_the_call_is_not_lost
    } };
    (read_operator $stage:tt) => { tests! { $stage operator:
        [inspect_reports_the_state_in_redis]
        the_holder_is_notified_of_a_force_unlock stats_count_all_operations a_loss_is_an_event
        a_late_release_is_an_event
    } };
    (refusal $stage:tt) => { tests! { $stage refusal:
        a_key_of_another_type_is_not_changed a_lease_outside_its_bounds_is_refused
        a_lease_at_its_bounds_is_accepted
    } };
}

macro_rules! tests {
    ($stage:tt $group:ident: $($scenario:tt)+) => {
        mod $group {
            $(test! { $stage $group $scenario })+
        }
    };
}

macro_rules! test {
    ((whole $($stage:tt)+) $group:ident [$scenario:ident]) => {
        test! { ($($stage)+) $group $scenario }
    };
    ((whole $($stage:tt)+) $group:ident $scenario:ident) => {
        test! { ($($stage)+) $group $scenario }
    };
    ((transport $($stage:tt)+) $group:ident [$scenario:ident]) => {
        test! { ($($stage)+) $group $scenario }
    };
    ((transport $($stage:tt)+) $group:ident $scenario:ident) => {
        test! { ($($stage)+ #[ignore = "soak"]) $group $scenario }
    };
    (($subject:ident $environment:ident $(#[$ignored:meta])?) $group:ident $scenario:ident) => {
        #[test]
        $(#[$ignored])?
        fn $scenario() {
            use crate::contract::*;
            let stage = Stage::of::<$subject, $environment>(stringify!($scenario));
            $group::$scenario(&stage);
        }
    };
}

/// One kind of lock in one environment, and the groups of scenarios that make sense for both.
macro_rules! combination {
    ($name:ident: $extent:ident $subject:ident in $environment:ident, $($group:ident)+) => {
        mod $name {
            $(group! { $group ($extent $subject $environment) })+
        }
    };
}

combination! { reentrant_in_one_server: whole Reentrant in OneServer,
exclusion reentrancy waiting expiry renewal nesting hand_over loss guards interrupts operator refusal }
combination! { fenced_in_one_server: whole Fenced in OneServer,
exclusion reentrancy waiting expiry renewal nesting hand_over loss guards interrupts operator refusal }
combination! { fair_in_one_server: whole Fair in OneServer,
exclusion reentrancy waiting expiry renewal nesting hand_over loss guards interrupts operator refusal }
combination! { write_in_one_server: whole Write in OneServer,
exclusion reentrancy waiting expiry renewal nesting hand_over loss guards interrupts operator refusal }
combination! { read_in_one_server: whole Read in OneServer,
read_exclusion read_reentrancy read_expiry renewal nesting read_loss read_guards
read_interrupts read_operator refusal }
combination! { write_in_cluster: transport Write in Cluster,
exclusion reentrancy waiting expiry renewal nesting hand_over loss guards interrupts operator refusal }
combination! { read_in_cluster: transport Read in Cluster,
read_exclusion read_reentrancy read_expiry renewal nesting read_loss read_guards
read_interrupts read_operator refusal }
combination! { multi_in_one_server: whole Multi in OneServer,
exclusion reentrancy waiting expiry renewal nesting hand_over loss guards interrupts operator refusal }
combination! { red_in_five_servers: whole Red in FiveServers,
exclusion reentrancy waiting expiry renewal nesting hand_over loss guards interrupts refusal }

combination! { reentrant_in_in_memory: whole Reentrant in InMemory,
exclusion reentrancy waiting expiry renewal nesting hand_over loss guards interrupts operator refusal }
combination! { fenced_in_in_memory: transport Fenced in InMemory,
exclusion reentrancy waiting expiry renewal nesting hand_over loss guards interrupts operator refusal }
combination! { fair_in_in_memory: transport Fair in InMemory,
exclusion reentrancy waiting expiry renewal nesting hand_over loss guards interrupts operator refusal }
combination! { write_in_in_memory: whole Write in InMemory,
exclusion reentrancy waiting expiry renewal nesting hand_over loss guards interrupts operator refusal }
combination! { read_in_in_memory: whole Read in InMemory,
read_exclusion read_reentrancy read_expiry renewal nesting read_loss read_guards
read_interrupts read_operator refusal }
combination! { multi_in_in_memory: transport Multi in InMemory,
exclusion reentrancy waiting expiry renewal nesting hand_over loss guards interrupts operator refusal }
combination! { wrapped_in_in_memory: transport Wrapped in InMemory,
exclusion reentrancy waiting expiry renewal nesting hand_over loss guards interrupts operator refusal }

combination! { reentrant_in_namespaced: transport Reentrant in Namespaced,
exclusion reentrancy waiting expiry renewal nesting hand_over loss guards interrupts operator refusal }
combination! { reentrant_in_unix_socket: transport Reentrant in UnixSocket,
exclusion reentrancy waiting expiry renewal nesting hand_over loss guards interrupts operator refusal }
combination! { reentrant_in_tls: transport Reentrant in Tls,
exclusion reentrancy waiting expiry renewal nesting hand_over loss guards interrupts operator refusal }
combination! { fenced_in_namespaced: transport Fenced in Namespaced,
exclusion reentrancy waiting expiry renewal nesting hand_over loss guards interrupts operator refusal }
combination! { fenced_in_unix_socket: transport Fenced in UnixSocket,
exclusion reentrancy waiting expiry renewal nesting hand_over loss guards interrupts operator refusal }
combination! { wrapped_in_one_server: transport Wrapped in OneServer,
exclusion reentrancy waiting expiry renewal nesting hand_over loss guards interrupts operator refusal }
combination! { wrapped_in_namespaced: transport Wrapped in Namespaced,
exclusion reentrancy waiting expiry renewal nesting hand_over loss guards interrupts operator refusal }
combination! { wrapped_in_unix_socket: transport Wrapped in UnixSocket,
exclusion reentrancy waiting expiry renewal nesting hand_over loss guards interrupts operator refusal }
combination! { reentrant_in_sentinel: transport Reentrant in Sentinel,
exclusion reentrancy waiting expiry renewal nesting hand_over loss guards interrupts operator refusal }
combination! { reentrant_in_cluster: transport Reentrant in Cluster,
exclusion reentrancy waiting expiry renewal nesting hand_over loss guards interrupts operator refusal }
combination! { fenced_in_cluster: transport Fenced in Cluster,
exclusion reentrancy waiting expiry renewal nesting hand_over loss guards interrupts operator refusal }
combination! { fair_in_cluster: transport Fair in Cluster,
exclusion reentrancy waiting expiry renewal nesting hand_over loss guards interrupts operator refusal }
combination! { fair_in_sentinel: transport Fair in Sentinel,
exclusion reentrancy waiting expiry renewal nesting hand_over loss guards interrupts operator refusal }
combination! { fair_in_replicated: transport Fair in Replicated,
exclusion reentrancy waiting expiry renewal nesting hand_over loss guards interrupts operator refusal }
combination! { write_in_sentinel: transport Write in Sentinel,
exclusion reentrancy waiting expiry renewal nesting hand_over loss guards interrupts operator refusal }
combination! { read_in_sentinel: transport Read in Sentinel,
read_exclusion read_reentrancy read_expiry renewal nesting read_loss read_guards
read_interrupts read_operator refusal }
combination! { write_in_replicated: transport Write in Replicated,
exclusion reentrancy waiting expiry renewal nesting hand_over loss guards interrupts operator refusal }
combination! { read_in_replicated: transport Read in Replicated,
read_exclusion read_reentrancy read_expiry renewal nesting read_loss read_guards
read_interrupts read_operator refusal }
combination! { multi_in_cluster: transport Multi in Cluster,
exclusion reentrancy waiting expiry renewal nesting hand_over loss guards interrupts operator refusal }
combination! { reentrant_in_replicated: transport Reentrant in Replicated,
exclusion reentrancy waiting expiry renewal nesting hand_over loss guards interrupts operator refusal }
combination! { red_in_five_servers_two_dead: transport Red in FiveServersTwoDead,
exclusion reentrancy waiting expiry renewal nesting hand_over loss guards interrupts refusal }
combination! { red_in_five_servers_two_paused: transport Red in FiveServersTwoPaused,
exclusion reentrancy waiting renewal loss }

// These scenarios count commands, so each runs on its own server.
combination! { reentrant_in_own_server: whole Reentrant in OwnServer,
wake_up_cost }
combination! { fenced_in_own_server: whole Fenced in OwnServer,
wake_up_cost }
combination! { write_in_own_server: whole Write in OwnServer,
wake_up_cost }
combination! { wrapped_in_own_server: whole Wrapped in OwnServer,
wake_up_cost }
combination! { fair_in_own_server: whole Fair in OwnServer,
wake_up_cost }
combination! { multi_in_own_server: whole Multi in OwnServer,
wake_up_cost }

/// Compares the tests with the sources, where a scenario, a lock or an environment can be
/// forgotten.
mod completeness {
    use crate::support::proxy::repository;
    use std::collections::BTreeSet;
    use std::process::Command;

    /// The kinds of locks for each environment. An environment that is not listed has all kinds
    /// except `red`.
    const KINDS: &[(&str, &[&str])] = &[
        ("namespaced", &["reentrant", "fenced", "wrapped"]),
        ("unix_socket", &["reentrant", "fenced", "wrapped"]),
        ("tls", &["reentrant"]),
        ("sentinel", &["reentrant", "fair", "read", "write"]),
        (
            "cluster",
            &["reentrant", "fenced", "fair", "multi", "read", "write"],
        ),
        ("replicated", &["reentrant", "fair", "read", "write"]),
        ("five_servers", &["red"]),
        ("five_servers_two_dead", &["red"]),
        ("five_servers_two_paused", &["red"]),
    ];

    /// In these scenarios one holder keeps another from the lock, or hands it over. Readers do not
    /// exclude each other; `read_write` tests what they exclude, and what they share.
    const EXCLUSIVE: &[&str] = &[
        "exclusion::another_thread_is_kept_out",
        "exclusion::another_client_is_kept_out",
        "exclusion::a_try_lock_without_a_wait_is_one_attempt",
        "exclusion::a_wait_that_ends_first_returns_false_in_time",
        "reentrancy::only_the_last_unlock_releases_the_lock",
        "waiting::a_local_thread_gets_the_lock_on_release",
        "waiting::another_client_gets_the_lock_on_release",
        "waiting::a_local_thread_gets_the_lock_within_its_wait",
        "waiting::another_client_gets_the_lock_within_its_wait",
        "waiting::an_unlimited_wait_is_possible",
        "waiting::every_thread_gets_the_lock",
        "wake_up_cost::a_wake_up_is_fast_and_needs_few_commands",
        "expiry::a_waiting_local_thread_gets_the_lock_when_a_fixed_lease_ends",
        "expiry::an_expired_holder_does_not_release_the_hold_of_another_client",
        "expiry::an_expired_holder_does_not_release_the_hold_of_another_thread",
        "hand_over::a_handed_over_lock_is_held",
        "hand_over::a_handed_over_lock_is_renewed",
        "hand_over::the_loss_of_a_handed_over_lock_is_reported",
        "hand_over::waits_that_end_during_hand_overs_leave_nothing",
        "loss::the_next_local_thread_gets_a_lost_lock",
        "guards::an_unlock_under_a_guard_is_refused",
        "interrupts::a_wait_for_a_local_thread_is_interrupted",
        "interrupts::a_wait_for_another_client_is_interrupted",
        "interrupts::without_an_interrupt_lock_interruptibly_is_lock",
        "interrupts::threads_behind_an_interrupted_thread_get_the_lock",
        "operator::force_unlock_releases_the_lock_and_wakes_waiters",
    ];

    fn is_wanted(lock: &str, place: &str, scenario: &str) -> bool {
        let (group, _) = scenario.split_once("::").expect("group::scenario");
        let kinds = KINDS.iter().find(|(name, _)| *name == place);
        let has_kind = kinds.map_or(lock != "red", |(_, kinds)| kinds.contains(&lock));
        // It counts commands, so it needs a server that no other test uses.
        let has_group = (group == "wake_up_cost") == (place == "own_server")
            && match place {
                // Each call waits for timeouts there, and two dead servers show the same.
                "five_servers_two_paused" => {
                    ["exclusion", "reentrancy", "waiting", "renewal", "loss"].contains(&group)
                }
                // Its scenarios use one client, which knows only one of the servers.
                _ => lock != "red" || group != "operator",
            };
        has_kind && has_group && !(lock == "read" && EXCLUSIVE.contains(&scenario))
    }

    fn source(module: &str) -> String {
        let directory = repository().join("tests/it/contract");
        std::fs::read_to_string(directory.join(module).with_extension("rs")).unwrap()
    }

    /// `OneServer` of `impl Environment for OneServer`, as a part of a module's name.
    fn implementors(module: &str, of: &str) -> Vec<String> {
        let source = source(module);
        let before = format!("impl {of} for ");
        let names = source.lines().filter_map(|line| line.strip_prefix(&before));
        names
            .map(|name| snake_case(name.trim_end_matches(" {")))
            .collect()
    }

    fn snake_case(name: &str) -> String {
        let mut snake = String::new();
        for (at, letter) in name.chars().enumerate() {
            if letter.is_uppercase() && at > 0 {
                snake.push('_');
            }
            snake.extend(letter.to_lowercase());
        }
        snake
    }

    /// `group::scenario` for every `pub fn scenario(stage: &Stage)`.
    fn scenarios() -> Vec<String> {
        let root = source("mod");
        let modules = root
            .lines()
            .filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
        let mut found = Vec::new();
        for module in modules.filter(|module| *module != "matrix") {
            let source = source(module);
            let names = source.lines().filter_map(|line| {
                line.strip_prefix("pub fn ")?
                    .strip_suffix("(stage: &Stage) {")
            });
            found.extend(names.map(|name| format!("{module}::{name}")));
        }
        found
    }

    #[test]
    fn every_scenario_runs_for_every_lock_in_every_environment() {
        let listed = Command::new(std::env::current_exe().unwrap())
            .args(["contract::matrix::", "--list"])
            .output()
            .unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        let tests: BTreeSet<&str> = listed
            .lines()
            .filter_map(|line| line.strip_suffix(": test"))
            .collect();
        let mut missing = Vec::new();
        let (locks, places) = (
            implementors("kinds", "LockKind"),
            implementors("environments", "Environment"),
        );
        assert!(locks.len() >= 2 && places.len() >= 3 && scenarios().len() >= 60);
        for lock in &locks {
            for place in &places {
                let wanted = |scenario: &String| is_wanted(lock, place, scenario);
                for scenario in scenarios().into_iter().filter(wanted) {
                    let name = format!("contract::matrix::{lock}_in_{place}::{scenario}");
                    if !tests.contains(name.as_str()) {
                        missing.push(name);
                    }
                }
            }
        }
        assert!(missing.is_empty(), "not in matrix.rs: {missing:#?}");
    }
}
