//! Which scenario runs for which lock in which environment.
//!
//! | extent | scenarios |
//! |---|---|
//! | `whole` | all: the holds of this kind of lock differ from those of a plain lock |
//! | `protocol` | those of the groups that depend on the scripts of the kind |
//! | `transport` | those in brackets, which depend on how a server is reached, once for each script |
//!
//! Readers do not exclude each other, so a read lock does not run the scenarios in parentheses:
//! `read_write` tests what they exclude, and what they share.
//!
//! A plain lock, a read lock, a lock of several names and a `RedLock` run all scenarios. A fair and
//! a write lock have the holds of a plain lock, and a fenced lock has its scripts, too. A scenario,
//! a kind or an environment that is forgotten is a warning of the compiler: it is never used.

/// The scenarios of a group, each as a test. The groups are the modules of this directory.
macro_rules! group {
    (exclusion $stage:tt) => { tests! { $stage exclusion:
        ([another_thread_is_kept_out]) ([another_client_is_kept_out])
        two_handles_of_one_client_are_one_lock (a_wait_that_ends_first_returns_false_in_time)
        only_the_holder_unlocks
        [is_locked_and_remaining_lease_report_the_state_in_redis]
    } };
    (reentrancy $stage:tt) => { tests! { $stage reentrancy:
        [counts_agree_at_every_level] every_acquiring_method_adds_a_level
    } };
    (waiting $stage:tt) => { tests! { $stage waiting:
        a_local_thread_gets_the_lock_on_release [another_client_gets_the_lock_on_release]
        [every_thread_gets_the_lock]
    } };
    (wake_up_cost $stage:tt) => { tests! { $stage wake_up_cost:
        an_uncontended_pair_is_two_commands [a_wake_up_is_fast_and_needs_few_commands]
    } };
    (pair_cost $stage:tt) => { tests! { $stage wake_up_cost: an_uncontended_pair_is_two_commands } };
    (expiry $stage:tt) => { tests! { $stage expiry:
        [the_time_to_live_is_the_lease] a_waiting_client_gets_the_lock_when_a_fixed_lease_ends
        a_hold_ends_in_the_client_before_it_ends_in_redis the_holder_detects_the_end_of_its_lease
        (an_expired_holder_does_not_release_the_hold_of_another_client)
        (an_expired_holder_does_not_release_the_hold_of_another_thread)
    } };
    (renewal $stage:tt) => { tests! { $stage renewal:
        [a_renewed_hold_lasts_longer_than_its_lease] a_renewal_comes_in_the_last_third
        a_released_lock_is_not_renewed the_end_of_the_last_renewal_is_reported_in_time
        a_lease_of_its_own_length_is_renewed
    } };
    (nesting $stage:tt) => { tests! { $stage nesting:
        a_nested_lease_never_shortens an_inner_renewal_lasts_as_long_as_its_level
    } };
    (hand_over $stage:tt) => { tests! { $stage hand_over:
        [a_handed_over_lock_is_held] a_handed_over_lock_is_renewed
        the_loss_of_a_handed_over_lock_is_reported
    } };
    (loss $stage:tt) => { tests! { $stage loss:
        [the_loss_of_a_deleted_lock_is_reported] every_receiver_tells_the_end_of_a_hold_from_its_loss
        the_loss_to_another_owner_is_reported
        the_loss_to_a_key_of_another_type_is_reported
        a_lost_lock_must_be_unlocked_before_it_is_acquired_again [an_unlock_detects_the_loss]
        (the_next_local_thread_gets_a_lost_lock) a_lost_hold_does_not_affect_the_next
    } };
    (guards $stage:tt) => { tests! { $stage guards:
        an_unlock_does_not_release_the_levels_of_guards (an_unlock_under_a_guard_is_refused)
        a_panic_unlocks a_guard_of_a_lost_lock_can_be_dropped
        a_guard_in_a_thread_local_unlocks_at_the_threads_end
        a_forgotten_guard_keeps_the_lock [a_lease_can_be_extended]
        [a_confirmation_detects_the_loss] ([a_lock_can_be_kept_in_redis_after_its_unlock])
        a_lock_that_cannot_be_kept_is_unlocked_at_once
    } };
    (interrupts $stage:tt) => { tests! { $stage interrupts:
        (a_wait_for_a_local_thread_is_interrupted) (a_wait_for_another_client_is_interrupted)
        an_interrupt_before_the_call_is_not_lost
        (threads_behind_an_interrupted_thread_get_the_lock)
    } };
    (operator $stage:tt) => { tests! { $stage operator:
        [inspect_reports_the_state_in_redis]
        ([force_unlock_releases_the_lock_and_wakes_waiters])
        the_holder_is_notified_of_a_force_unlock stats_count_all_operations a_loss_is_an_event
        a_late_release_is_an_event
    } };
    (refusal $stage:tt) => { tests! { $stage refusal:
        a_key_of_another_type_is_not_changed a_lease_outside_its_bounds_is_refused
    } };
    (owned $stage:tt) => { tests! { $stage owned:
        every_thread_can_use_an_owned_guard (a_guard_and_a_thread_exclude_each_other)
        [a_dropped_guard_is_released_in_the_background]
        ([a_waiter_gets_the_lock_of_a_dropped_guard]) the_loss_of_an_owned_hold_is_reported
        (an_owned_lock_can_be_kept_in_redis_after_its_unlock)
        [a_token_gives_an_owned_hold_to_another_client]
    } };
    (query $stage:tt) => { tests! { $stage query:
        it_is_executed_while_the_lock_is_held a_command_that_fails_does_not_end_the_others
        nothing_is_executed_after_the_loss
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
    (($extent:ident READ $environment:ident) $group:ident ($scenario:tt)) => {};
    ($stage:tt $group:ident ($scenario:tt)) => {
        test! { $stage $group $scenario }
    };
    (($extent:ident $subject:ident $environment:ident) $group:ident [$scenario:ident]) => {
        test! { (whole $subject $environment) $group $scenario }
    };
    ((transport $subject:ident $environment:ident) $group:ident $scenario:ident) => {};
    ((whole $subject:ident $environment:ident) $group:ident $scenario:ident) => {
        #[test]
        fn $scenario() {
            use crate::contract::*;
            let stage = Stage::of(&$subject, $environment, stringify!($scenario));
            $group::$scenario(&stage);
        }
    };
}

/// One kind of lock in one environment, and the groups of scenarios that make sense for both.
macro_rules! combination {
    ($name:ident: protocol $subject:ident in $environment:ident) => {
        combination! { $name: whole $subject in $environment, exclusion reentrancy waiting expiry
            renewal hand_over loss interrupts operator refusal owned }
    };
    ($name:ident: $extent:ident READ in $environment:ident) => {
        combination! { $name: $extent READ in $environment, exclusion reentrancy expiry renewal
            nesting loss guards interrupts operator refusal owned }
    };
    // The scenarios of `operator` use one client, which knows only one of the servers.
    ($name:ident: $extent:ident RED in $environment:ident) => {
        combination! { $name: $extent RED in $environment, exclusion reentrancy waiting expiry
            renewal nesting hand_over loss guards interrupts refusal owned }
    };
    ($name:ident: $extent:ident $subject:ident in $environment:ident) => {
        combination! { $name: $extent $subject in $environment, exclusion reentrancy waiting expiry
            renewal nesting hand_over loss guards interrupts operator refusal owned }
    };
    ($name:ident: $extent:ident $subject:ident in $environment:ident, $($group:ident)+) => {
        mod $name {
            $(group! { $group ($extent $subject $environment) })+
        }
    };
}

combination! { reentrant_in_one_server: whole REENTRANT in one_server }
combination! { read_in_one_server: whole READ in one_server }
combination! { multi_in_one_server: whole MULTI in one_server }
combination! { red_in_five_servers: whole RED in five_servers }
combination! { fair_in_one_server: protocol FAIR in one_server }
combination! { write_in_one_server: protocol WRITE in one_server }
combination! { fenced_in_one_server: transport FENCED in one_server }

combination! { reentrant_in_namespaced: transport REENTRANT in namespaced }
combination! { reentrant_in_unix_socket: transport REENTRANT in unix_socket }
combination! { reentrant_in_tls: transport REENTRANT in tls }
combination! { reentrant_in_sentinel: transport REENTRANT in sentinel }
combination! { red_in_five_servers_two_dead: transport RED in five_servers_two_dead }

// In a cluster, the keys of a lock are in one slot. Each kind that confirms locks at replicas tells
// by its own replies whether something was acquired.
combination! { reentrant_in_cluster: transport REENTRANT in cluster }
combination! { fenced_in_cluster: transport FENCED in cluster }
combination! { fair_in_cluster: transport FAIR in cluster }
combination! { write_in_cluster: transport WRITE in cluster }
combination! { read_in_cluster: transport READ in cluster }
combination! { multi_in_cluster: transport MULTI in cluster }
combination! { fair_in_replicated: transport FAIR in replicated }
combination! { write_in_replicated: transport WRITE in replicated }
combination! { read_in_replicated: transport READ in replicated }
combination! { reentrant_in_replicated: transport REENTRANT in replicated }

// The server executes the same scripts with its own commands.
combination! { reentrant_in_in_memory: transport REENTRANT in in_memory }
combination! { fenced_in_in_memory: transport FENCED in in_memory }
combination! { fair_in_in_memory: transport FAIR in in_memory }
combination! { write_in_in_memory: transport WRITE in in_memory }
combination! { read_in_in_memory: transport READ in in_memory }
combination! { multi_in_in_memory: transport MULTI in in_memory }

// These scenarios count commands, so each runs on its own server.
combination! { reentrant_in_own_server: whole REENTRANT in own_server, wake_up_cost }
combination! { write_in_own_server: whole WRITE in own_server, wake_up_cost }
combination! { fair_in_own_server: whole FAIR in own_server, wake_up_cost }
combination! { multi_in_own_server: whole MULTI in own_server, wake_up_cost }
combination! { read_in_own_server: whole READ in own_server, pair_cost }
combination! { fenced_in_own_server: whole FENCED in own_server, pair_cost }

// A query needs one server, and in a cluster one slot.
combination! { reentrant_query_in_one_server: whole REENTRANT in one_server, query }
combination! { reentrant_query_in_cluster: whole REENTRANT in cluster, query }
combination! { reentrant_query_in_in_memory: whole REENTRANT in in_memory, query }
combination! { read_query_in_one_server: whole READ in one_server, query }
combination! { read_query_in_cluster: whole READ in cluster, query }
combination! { read_query_in_in_memory: whole READ in in_memory, query }
combination! { multi_query_in_one_server: whole MULTI in one_server, query }
combination! { multi_query_in_in_memory: whole MULTI in in_memory, query }
combination! { fair_query_in_one_server: whole FAIR in one_server, query }
combination! { fair_query_in_in_memory: whole FAIR in in_memory, query }
combination! { write_query_in_one_server: whole WRITE in one_server, query }
combination! { write_query_in_cluster: whole WRITE in cluster, query }
combination! { write_query_in_in_memory: whole WRITE in in_memory, query }
combination! { fenced_query_in_one_server: whole FENCED in one_server, query }
combination! { fenced_query_in_in_memory: whole FENCED in in_memory, query }
