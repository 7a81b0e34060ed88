//! One suite for every store. An implementation calls [`conformance_suite!`](crate::conformance_suite) in its tests:
//!
//! ```ignore
//! gapless_store::conformance_suite!(MyHarness::fresh().await);
//! ```
//!
//! Every case gets a fresh database. The list of cases is [`for_each_case!`](crate::for_each_case), in this file and
//! nowhere else: no store can leave one out, and a case that is not in it is dead code, which the compiler tells.
//!
//! Real databases have real clocks and slow days. No case relies on being quick: what depends on time is compared with the
//! database's own time ([`fixtures::database_now`]), and leases are taken anew right before they are used.

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
mod control;
mod events;
mod fencing;
pub mod fixtures;
mod harness;
mod heads;
mod lease;
mod notices;
mod queue;
mod reads;
mod refusals;
mod regression;
mod reservations;
mod retention;
mod slots;
mod status;
mod sweep;
mod trace;
mod upkeep;

use std::time::Duration;

pub use harness::Harness;

/// A case that hangs has failed: a deadlock, or a lock that nobody gives back.
const CASE_TIMEOUT: Duration = Duration::from_secs(120);

/// All cases, by theme. Calls back `$callback! { $args lease { case … } … }`.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_case {
    ($callback:ident ($($args:tt)*)) => {
        $crate::$callback! {
            ($($args)*)
            lease {
                a_lane_that_nobody_held_is_taken_with_token_one
                the_holder_keeps_its_token_when_it_acquires_or_renews
                another_node_waits_for_expiry_and_skew_and_raises_the_token
                a_node_that_let_its_lease_expire_gets_a_new_token
                no_two_nodes_hold_a_lane_at_one_database_time
                a_released_lease_is_free_at_once_and_tokens_never_restart
                releasing_a_lost_lease_takes_nothing_from_its_new_owner
                a_restarted_process_shares_nothing_with_its_zombie
                one_address_in_two_letter_cases_is_one_lane
                a_renewal_names_exactly_what_is_still_held
                a_commit_extends_its_lease
                acquire_answers_each_lane_in_order
            }
            fencing {
                a_stale_token_changes_nothing_at_all
                an_expired_lease_writes_nothing_before_anybody_takes_it_over
                a_released_lease_writes_and_loads_nothing
                one_fenced_lane_does_not_fail_the_others
                an_old_token_of_the_same_process_is_fenced
            }
            accept {
                intents_read_back_as_they_were_given
                new_intents_stand_in_line_in_the_order_given
                a_known_request_gets_the_first_answer_and_another_payload_a_conflict
                duplicates_inside_one_batch_are_answered_by_the_first
                a_hundred_concurrent_accepts_of_one_request_make_one_row
                one_request_id_of_two_submitters_is_two_intents
                unknown_submitters_are_told_and_the_others_are_queued
                a_protected_lane_takes_nothing_new_but_knows_old_requests
                a_bad_row_is_refused_alone
                a_refused_row_leaves_its_request_id_free
                an_intent_is_canceled_only_while_it_is_queued
                accepting_wakes_the_other_nodes
            }
            commit {
                a_bind_writes_nonce_intent_attempt_and_event_together
                several_binds_in_one_commit_take_contiguous_nonces
                reports_and_claims_are_kept_with_their_rows
                an_intent_travels_to_its_end_and_stays_there
                a_lane_twice_in_one_call_is_written_once
                a_final_count_alone_leaves_nothing_behind
                closed_slots_are_left_behind
                changes_of_one_intent_follow_each_other_in_a_commit
                a_commit_of_nothing_is_done
                fills_and_foreign_slots_take_a_nonce_without_an_intent
            }
            refusals {
                a_stale_cursor_leaves_no_trace
                an_intent_that_changed_meanwhile_leaves_no_trace
                changes_that_do_not_follow_each_other_leave_no_trace
                another_lanes_intent_leaves_no_trace
                a_nonce_is_bound_once_only
                an_attempt_without_a_slot_leaves_no_trace
                an_attempt_that_exists_leaves_no_trace
                a_report_of_an_unknown_hash_leaves_no_trace
                a_claim_without_a_slot_leaves_no_trace
                a_refused_reservation_leaves_no_trace
                a_cancel_between_peek_and_bind_wins
                one_conflict_in_a_batch_does_not_fail_the_others
                closing_over_an_open_intent_leaves_no_trace
            }
            reservations {
                a_lent_nonce_is_used_by_its_owner_only
                a_late_use_or_release_fails
                a_reservation_expires_only_when_its_time_is_over
                released_nonces_are_lent_again_smallest_first
                steps_of_one_commit_see_each_other
                what_was_used_is_not_lent_again
                who_used_a_lent_nonce_is_known_for_ever
                a_transaction_for_a_lent_nonce_needs_its_use
                what_was_filled_is_not_lent_again
                only_a_recyclable_nonce_is_filled
                a_closed_nonce_does_not_stand_in_the_way_of_lending
            }
            commands {
                commands_wait_for_their_lane_oldest_first
                a_command_that_is_done_is_gone
                what_became_of_a_command_can_be_read
                open_commands_are_handed_out_oldest_first_up_to_the_limit
                putting_a_command_wakes_the_other_nodes
            }
            queue {
                peek_gives_the_first_in_line_up_to_the_limit
                an_intent_that_lost_its_nonce_returns_to_its_place
                failing_in_the_queue_takes_no_nonce
            }
            sweep {
                lanes_with_queued_work_are_found_until_somebody_holds_them
                open_work_and_commands_are_found_too
                a_nonce_that_no_intent_holds_is_found_too
                lanes_without_work_are_not_found
                the_sweep_pages_in_the_order_of_submitters
                releasing_a_lane_with_work_wakes_the_other_nodes
                releasing_an_idle_lane_wakes_nobody
            }
            events {
                every_change_has_its_event_and_they_fold_to_the_state
                lane_events_are_numbered_without_a_hole
                one_intents_events_are_read_oldest_first_up_to_the_limit
                readers_page_through_everything_in_one_order
                a_reader_sees_each_event_once_while_many_write
                one_process_at_a_time_consumes
                a_lost_claim_loses_no_event
                consumers_are_independent
            }
            changes {
                every_node_is_told_of_every_change
                a_commit_calls_nobody_to_work
                what_changes_nothing_is_told_to_nobody
            }
            retention {
                archived_intents_still_answer_but_are_not_listed
                archived_intents_keep_their_events
                only_old_and_terminal_intents_are_moved
                retention_waits_for_every_consumer
                archive_moves_up_to_its_limit_oldest_first
            }
            upkeep {
                open_nonce_keeps_attempts_of_moved_out_intent
                attempts_and_events_go_oldest_intent_first
                first_batch_of_events_takes_oldest_intent
                lane_events_wait_for_every_consumer
                finished_commands_are_deleted_open_ones_stay
                only_rows_of_dead_processes_are_deleted
                audit_entries_are_deleted_oldest_first
                retention_claim_is_held_by_one_process
            }
            reads {
                unknown_ids_are_none_in_their_place
                list_pages_newest_first
                list_filters_by_submitter_and_state
                attempts_of_all_nonces_are_kept_oldest_first
                submitters_are_registered_once_and_can_be_renamed
                an_alias_stands_for_one_submitter
            }
            heads {
                a_head_comes_back_as_it_was_saved
                the_final_block_only_moves_forward
                a_head_that_contradicts_the_final_block_changes_nothing
                a_genesis_stays_once_it_is_known
                a_forgotten_chain_may_begin_anew
                heads_of_two_chains_are_apart
                nodes_that_save_at_once_agree_on_the_first_head
                nodes_that_save_at_once_never_take_the_final_block_back
            }
            notices {
                confirmations_are_told_in_every_way_of_reading
                what_was_told_last_is_kept_with_the_intent
                changes_of_one_commit_each_tell_their_own
                archived_events_keep_their_notices
            }
            status {
                status_tells_of_each_lane_in_its_place
                status_counts_what_holds_a_nonce
                status_shows_a_lease_until_it_is_over_and_after
                status_shows_a_regressed_lane
                status_stops_counting_at_its_limit
            }
            slots {
                open_slots_show_what_hangs_on_each
                a_nonce_that_was_let_go_is_shown_with_nobody
                an_ended_intent_is_shown_until_its_slot_is_closed
                open_slots_page_lowest_first
                an_intent_that_lost_its_nonce_has_two_slots
                an_intent_may_fail_with_the_nonce_that_it_lost
                a_used_nonce_is_adopted_in_protect_and_while_paused
                a_low_balance_is_kept_with_the_cursor
            }
            control {
                a_replacement_in_the_queue_keeps_the_place_in_line
                a_replacement_of_what_is_bound_keeps_the_nonce
                replacements_of_one_commit_leave_the_last
                a_request_stands_for_its_first_payload
                sends_are_kept_in_order_for_people_only
                the_newest_sends_are_kept
                claims_keep_tries_and_signal
            }
            census {
                the_census_counts_leases_that_hold
                the_census_counts_processes_that_are_heard_of
            }
            audit {
                a_commit_of_audits_alone_is_a_commit
                what_operators_ask_for_is_audited_with_its_result
                what_was_not_written_is_not_audited
                what_an_operator_says_of_a_chain_or_the_store_is_audited
                the_audit_log_pages_newest_first
            }
            batching {
                batched_and_single_accepts_give_the_same_state
                batched_and_single_commits_give_the_same_state
            }
            concurrency {
                nodes_that_start_together_register_the_same_submitters
                batches_in_any_order_neither_deadlock_nor_fail
                commits_and_renewals_do_not_disturb_each_other
                concurrent_takeovers_have_one_winner
                cancel_and_bind_at_once_have_one_winner
                lanes_of_several_nodes_commit_side_by_side
            }
            regression {
                a_regressed_lane_writes_nothing_until_it_takes_notice
                a_lane_without_a_cursor_takes_notice_too
                a_submitter_registered_after_the_loss_takes_notice_until_all_is_reconciled
                a_regressed_lane_takes_nothing_new
                what_an_operator_decided_before_a_loss_is_refused
                every_declared_regression_is_noticed_anew
                nothing_ends_before_the_lane_is_reconciled
                a_second_loss_is_noticed_in_protect_too
            }
        }
    };
}

/// One `#[tokio::test]` for every case, on a fresh database each. The argument is an expression that makes a
/// [`Harness`]; it may await.
#[macro_export]
macro_rules! conformance_suite {
    ($make_harness:expr) => {
        $crate::for_each_case!(conformance_tests($make_harness));
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    (($make_harness:expr) $($theme:ident { $($case:ident)+ })+) => {$(
        mod $theme {
            #[allow(unused_imports, reason = "the expression that makes a harness may name anything of its file")]
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let harness = $make_harness;
                    $crate::conformance::cases::$theme::$case(&harness).await;
                }
            )+
        }
    )+};
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_cases {
    (() $($theme:ident { $($case:ident)+ })+) => {
        /// The cases, for the macro; each fails by panicking.
        pub mod cases {$(
            pub mod $theme {
                $(
                    pub async fn $case(harness: &dyn $crate::conformance::Harness) {
                        $crate::conformance::in_time(Box::pin($crate::conformance::$theme::$case(harness))).await;
                    }
                )+
            }
        )+}
    };
}

crate::for_each_case!(conformance_cases());

#[expect(clippy::disallowed_methods, reason = "a hanging store must fail the suite and not stop it")]
async fn in_time(case: impl Future<Output = ()>) {
    tokio::time::timeout(CASE_TIMEOUT, case).await.expect("the case hangs");
}
