//! The conformance suite of the store contract. An implementation calls
//! [`conformance_suite!`](crate::conformance_suite) in its tests:
//!
//! ```ignore
//! gapless_store::conformance_suite!(MyHarness::fresh().await);
//! ```
//!
//! Every case gets a fresh database. The list of cases is [`for_each_case!`](crate::for_each_case) in this file, and
//! only there. So no store can leave a case out, and the compiler reports a case that is not in the list as dead code.
//!
//! Real databases have real clocks and may be slow. No case depends on speed: a case compares times with the database's
//! clock ([`fixtures::database_now`]), and acquires a lease right before it uses the lease.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "the suite is test code that lives in a library, so that every store can run it"
)]

mod accept;
mod audit;
mod batching;
mod census;
mod changes;
mod commands;
mod commit;
mod concurrency;
mod confirmations;
mod conflicts;
mod events;
mod fencing;
pub mod fixtures;
mod harness;
mod heads;
mod lease;
mod queue;
mod reads;
mod regression;
mod replacements;
mod reservations;
mod retention;
mod sends;
mod slots;
mod status;
mod sweep;
mod trace;
mod upkeep;

use std::time::Duration;

#[doc(hidden)]
pub use gapless_domain::{conformance_cases, conformance_tests};
pub use harness::Harness;

/// The time limit of a case. A case that hangs has a deadlock or a lock that is never released.
const CASE_TIMEOUT: Duration = Duration::from_secs(120);

/// All cases, by theme. Calls back `$callback! { $args lease { case … } … }`.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_case {
    ($callback:ident ($($args:tt)*)) => {
        $crate::conformance::$callback! {
            ($($args)*)
            lease {
                free_lane_is_acquired_with_token_one
                owner_keeps_its_token_when_it_acquires_or_renews
                takeover_waits_for_expiry_and_skew_and_raises_token
                expired_lease_is_acquired_again_with_new_token
                lane_has_one_owner_at_any_database_time
                released_lane_is_free_at_once_and_tokens_only_grow
                release_of_lost_lease_leaves_new_owner_alone
                restarted_node_is_another_owner_than_its_old_process
                address_in_two_letter_cases_is_one_lane
                renewal_lists_exactly_the_held_leases
                commit_extends_its_lease
                acquire_answers_each_lane_in_order
            }
            fencing {
                stale_token_changes_nothing
                expired_lease_rejects_commit_before_takeover
                released_lease_rejects_commit_and_load
                fenced_lane_does_not_fail_other_lanes
                old_token_of_same_node_is_fenced
            }
            accept {
                accepted_intent_reads_back_unchanged
                new_intents_queue_in_order_given
                repeated_request_gets_first_id_or_conflict
                duplicates_in_one_batch_get_first_id
                concurrent_accepts_of_one_request_make_one_row
                request_id_of_two_submitters_is_two_intents
                unknown_submitter_does_not_fail_other_intents
                protected_lane_rejects_new_and_answers_known_requests
                bad_intent_is_refused_alone
                refused_intent_leaves_request_id_free
                cancel_queued_cancels_only_queued_intents
                accept_wakes_all_nodes
            }
            commit {
                bind_writes_nonce_intent_attempt_and_event_together
                binds_in_one_commit_take_contiguous_nonces
                reports_and_claims_are_stored_with_their_rows
                terminal_intent_rejects_stale_change
                lane_twice_in_one_call_is_written_once
                final_count_alone_closes_no_slot
                closed_slots_are_not_loaded
                changes_of_one_intent_apply_in_order_in_one_commit
                empty_commit_is_done
                foreign_slots_take_nonce_without_intent
            }
            conflicts {
                stale_cursor_changes_nothing
                stale_intent_version_changes_nothing
                changes_out_of_order_change_nothing
                intent_of_other_lane_changes_nothing
                bound_nonce_is_not_bound_again
                attempt_without_slot_changes_nothing
                duplicate_attempt_changes_nothing
                report_of_unknown_hash_changes_nothing
                claim_without_slot_changes_nothing
                refused_reservation_step_changes_nothing
                cancel_between_peek_and_bind_wins
                conflict_does_not_fail_other_commits
                closing_slot_of_open_intent_changes_nothing
            }
            reservations {
                reserved_nonce_is_used_by_its_lock_owner_only
                late_use_or_release_is_refused
                reservation_expires_only_after_its_hold
                reservation_is_canceled_only_after_its_hold
                released_nonces_are_reserved_again_smallest_first
                steps_of_one_commit_apply_in_order
                used_nonce_is_not_reserved_again
                intent_of_used_nonce_is_found_after_retention
                attempt_for_reserved_nonce_needs_its_use
                filled_nonce_is_not_reserved_again
                only_recyclable_nonce_is_filled
                closed_recyclable_nonce_does_not_block_reservations
            }
            commands {
                commands_load_with_their_lane_oldest_first
                finished_command_is_not_loaded
                command_result_is_readable
                open_commands_are_oldest_first_up_to_limit
                put_command_wakes_other_nodes
            }
            queue {
                peek_returns_first_of_queue_up_to_limit
                intent_that_lost_nonce_keeps_queue_position
                failure_in_queue_takes_no_nonce
            }
            sweep {
                sweep_finds_queued_lane_without_valid_lease
                sweep_finds_open_intents_and_commands
                sweep_finds_open_nonce_without_intent
                sweep_skips_idle_lanes
                sweep_pages_in_order_of_submitters
                release_with_work_wakes_other_nodes
                release_of_idle_lane_wakes_no_node
            }
            events {
                each_change_has_one_event_and_last_event_is_state
                lane_events_are_numbered_without_holes
                events_of_intent_are_oldest_first_up_to_limit
                pages_of_events_have_one_order
                reader_gets_each_event_once_during_writes
                consumer_is_claimed_by_one_node_at_a_time
                lost_claim_loses_no_event
                consumers_are_independent
            }
            changes {
                change_wakes_waiters_on_every_node
                commit_sends_no_wakeup_for_work
                cancel_in_queue_tells_every_node
                call_without_change_wakes_no_waiter
            }
            retention {
                archived_intent_is_found_but_not_listed
                archived_intent_keeps_its_events
                only_old_terminal_intents_are_archived
                retention_waits_for_every_consumer
                intents_are_archived_oldest_first_up_to_limit
            }
            upkeep {
                open_nonce_keeps_attempts_of_moved_out_intent
                attempts_and_events_are_deleted_oldest_intent_first
                first_batch_of_events_takes_oldest_intent
                lane_events_wait_for_every_consumer
                later_lane_event_is_never_deleted_before_an_earlier_one
                finished_commands_are_deleted_open_ones_stay
                only_rows_of_dead_processes_are_deleted
                audit_entries_are_deleted_oldest_first
                retention_claim_is_held_by_one_process
            }
            reads {
                unknown_id_is_none_at_its_position
                list_pages_newest_first
                list_filters_by_submitter_and_state
                attempts_of_all_nonces_are_oldest_first
                submitter_is_registered_once_and_can_be_renamed
                alias_belongs_to_one_submitter
            }
            heads {
                saved_head_reads_back_unchanged
                final_block_only_moves_forward
                head_against_final_block_changes_nothing
                known_genesis_stays
                forgotten_chain_accepts_new_genesis
                heads_of_two_chains_are_separate
                concurrent_saves_agree_on_first_head
                concurrent_saves_never_move_final_block_back
            }
            confirmations {
                notices_are_in_events_of_every_read
                newest_notified_block_is_stored_with_intent
                each_change_of_one_commit_has_its_own_notice
                archived_events_keep_their_notices
            }
            status {
                status_answers_each_lane_in_order
                status_counts_intents_that_have_a_nonce
                status_shows_newest_lease_valid_or_over
                status_shows_regressed_lane
                status_counts_up_to_limit
            }
            slots {
                open_slots_show_intent_reservation_and_attempts
                released_nonce_is_shown_without_intent
                terminal_intent_is_shown_until_slot_is_closed
                open_slots_page_lowest_first
                intent_that_lost_nonce_has_two_slots
                intent_that_lost_nonce_may_fail_in_same_commit
                foreign_nonce_is_adopted_in_protect_and_pause
                low_balance_is_stored_with_cursor
            }
            replacements {
                replacement_in_queue_keeps_queue_position
                replacement_of_bound_intent_keeps_nonce
                last_replacement_of_one_commit_stays
                request_id_belongs_to_first_payload
            }
            sends {
                send_history_is_shown_in_order_and_not_loaded
                send_history_keeps_newest_sends
                claim_stores_tries_and_signal
            }
            census {
                census_counts_valid_leases
                census_counts_live_nodes
            }
            audit {
                commit_of_audit_entries_alone_is_written
                operator_command_is_audited_with_its_result
                rejected_commit_is_not_audited
                operator_statements_are_audited
                audit_log_pages_newest_first
            }
            batching {
                batched_and_single_accepts_are_equal
                batched_and_single_commits_are_equal
            }
            concurrency {
                concurrent_registrations_of_same_submitters_succeed
                concurrent_batches_in_any_order_do_not_deadlock
                concurrent_commits_and_renewals_keep_leases
                concurrent_takeovers_have_one_winner
                concurrent_cancel_and_bind_have_one_winner
                lanes_of_several_nodes_commit_concurrently
            }
            regression {
                regressed_lane_rejects_commits_until_acknowledged
                lane_without_cursor_must_acknowledge_loss
                submitter_registered_after_loss_must_acknowledge_it
                regressed_lane_accepts_no_new_intent
                operator_decision_from_before_loss_is_refused
                each_declared_loss_must_be_acknowledged
                no_intent_ends_before_lane_is_reconciled
                second_loss_in_protect_must_be_acknowledged
            }
        }
    };
}

/// One `#[tokio::test]` for every case, on a fresh database each. The argument is an expression that makes a
/// [`Harness`]; it may await.
#[macro_export]
macro_rules! conformance_suite {
    ($make_harness:expr) => {
        $crate::for_each_case!(conformance_tests(
            $crate,
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)],
            $make_harness
        ));
    };
}

crate::for_each_case!(conformance_cases(crate::conformance::Harness, crate::conformance::in_time));

#[expect(clippy::disallowed_methods, reason = "a hanging store must fail the suite and not stop it")]
async fn in_time(case: impl Future<Output = ()>) {
    tokio::time::timeout(CASE_TIMEOUT, case).await.expect("the case hangs");
}
