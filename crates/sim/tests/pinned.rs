//! Worlds that have found something. Each is named after what it found; that is mended, and has a plain test of its own as well. A change of the
//! engine or of the worlds makes another run of the same seed, so these are worth most while they are young.

use std::time::Duration;

use gapless_sim::{Fault, StoreKind, WorldSpec, command, run};

fn assert_clean(plan: &WorldSpec) {
    let outcome = run(plan);
    assert_eq!(outcome.violation, None, "\n{}\nreplay: {}", outcome.tail.join("\n"), command(plan));
}

/// Found first by seed 2178 of an earlier kind of worlds: a transaction that reverted while nobody looked, longer ago than headers are kept, was
/// looked up and asked about again and again, and its intent never ended.
#[test]
fn old_reverts_end() {
    [17, 988].map(WorldSpec::of).iter().for_each(assert_clean);
}

/// Found first by seed 2454: after a reorg below what was final, which an operator accepted, a transaction of ours stood below the height at which
/// the search for it ended; its intent was taken for lost, and sent again.
#[test]
fn what_is_mined_below_its_floor_is_not_lost() {
    assert_clean(&WorldSpec::of(1454));
}

/// Found first by seed 14222: the commit that put a lane into PROTECT was lost by a second failover; its owner had nothing to write, and
/// never noticed.
#[test]
fn a_second_loss_is_noticed() {
    for seed in [103, 119, 138, 204, 281] {
        let mut plan = WorldSpec::of(seed);
        (plan.nodes, plan.lanes, plan.intents) = (1, 1, 8);
        (plan.people, plan.store, plan.storm) = (false, StoreKind::Model, Duration::from_secs(40));
        plan.odds = [(Fault::Failover, 300)].into();
        assert_clean(&plan);
    }
}

/// A second loss also forgot that an operator's `resync` was done; the lane executed it again, after a loss that it was never meant for, and went on
/// before what was sent had shown itself: one intent was FAILED_FINAL while its transaction was on chain.
#[test]
fn a_decision_from_before_a_loss_is_not_executed() {
    assert_clean(&WorldSpec::of(6806));
}

/// What had used a nonce was our own replacement, and the database had lost that there was one: the intent was taken for lost, and sent again.
#[test]
fn a_replacement_that_the_database_has_lost_is_not_sent_again() {
    [1957, 2630].map(WorldSpec::of).iter().for_each(assert_clean);
}

/// Somebody decided to cancel a cancel that was stuck; no such change can be written, and the lane wrote nothing ever after.
#[test]
fn a_stuck_cancel_that_is_canceled_ends() {
    assert_clean(&WorldSpec::of(2730));
}

/// A raise was told that it is outbid when the spike was over; more could not be offered, and it was never sent again.
#[test]
fn what_is_said_to_be_outbid_is_sent_again() {
    assert_clean(&WorldSpec::of(7952));
}

/// Found again in an old block while the chain contradicted what was final: it was forgotten as if it had been told that it is final.
#[test]
fn what_is_found_while_the_chain_contradicts_itself_ends_when_it_no_longer_does() {
    assert_clean(&WorldSpec::of(2989));
}

/// Reconciled by what nodes that were behind showed: a replacement that was lost with the database had used the nonce long before, and its
/// intent was sent once more.
#[test]
fn a_loss_is_not_reconciled_while_a_replacement_that_was_lost_may_take_a_nonce() {
    assert_clean(&WorldSpec::of(8436));
}

/// And it is reconciled while a nonce is lent that comes back only then: nothing behind it can be mined.
#[test]
fn a_loss_is_reconciled_though_a_lent_nonce_holds_up_those_behind_it() {
    assert_clean(&WorldSpec::of(216));
}
