//! Reconciling the ledger with the chain: unprotect, resync and adoption.

use gapless_domain::{
    AccountFacts, AttemptKind, ChainFacts, CommandKind, CommandResult, Fact, LostRule, NewAudit, ProtectCode,
    Protection, SendOutcome, Sighting, SlotKind, StateName, Tail,
};

use crate::harness::{Hold, LaneHarness, account, block, foreign_tx, fork, nonce, text, window};
use crate::reconcile_fixtures::{adopting, final_count, missing, resync, sent};

const DRY: CommandKind = CommandKind::Resync { lost: LostRule::Requeue, dry_run: true };

fn done_text(harness: &LaneHarness) -> &str {
    match harness.ledger.results.last() {
        Some(CommandResult::Done(report)) => report.as_str(),
        other => panic!("{other:?}"),
    }
}

fn refused(harness: &LaneHarness) -> &str {
    match harness.ledger.results.last() {
        Some(CommandResult::Refused(report)) => report.as_str(),
        other => panic!("{other:?}"),
    }
}

fn command(harness: &mut LaneHarness, kind: CommandKind) {
    let before = harness.ledger.results.len();
    harness.command(kind);
    harness.advance_secs(1);
    assert_eq!(harness.ledger.results.len(), before + 1, "the command has no result");
}

/// The two nonces after ours were consumed by foreign transactions.
fn ahead_of_us() -> LaneHarness {
    let mut harness = sent(window(2), 1);
    harness.finish(harness.hash(0, 0), block(1));
    harness.account = final_count(3);
    harness.blocks = Some((1, vec![foreign_tx(1, 7, 20), foreign_tx(2, 8, 21)]));
    harness.queue(1);
    harness.advance_secs(20);
    assert_eq!(harness.protect_code(), Some("external_nonce"));
    harness
}

/// proves N17
#[test]
fn unprotect_is_refused_while_the_cause_persists() {
    let mut harness = ahead_of_us();
    command(&mut harness, CommandKind::Unprotect);
    assert!(
        refused(&harness).starts_with("the cause of PROTECT persists: nonce 1 was consumed outside of Gapless"),
        "{}",
        refused(&harness)
    );
    assert_eq!(harness.protect_code(), Some("external_nonce"));
    assert_eq!(harness.nonces(), [Some(0), None]);
}

/// proves N17
#[test]
fn resync_dry_run_lists_all_changes_and_makes_none() {
    let mut harness = ahead_of_us();
    let (cursor, slots) = (harness.ledger.cursor.clone().unwrap(), harness.ledger.slots.clone());
    command(&mut harness, DRY);
    let (one, two) = (foreign_tx(1, 7, 20).tx.signed.hash, foreign_tx(2, 8, 21).tx.signed.hash);
    for line in [&format!("adopt nonce 1: transaction {one} in block 20"), &format!("adopt nonce 2: transaction {two}")]
    {
        assert!(done_text(&harness).contains(line), "{}", done_text(&harness));
    }
    assert!(done_text(&harness).contains("PROTECT would end"));
    let after = harness.ledger.cursor.clone().unwrap();
    assert_eq!((after.next_nonce, &after.state, after.event_seq), (cursor.next_nonce, &cursor.state, cursor.event_seq));
    assert_eq!(harness.ledger.slots, slots);
}

/// proves N16, N17
#[test]
fn resync_adopts_final_nonces_and_continues_behind_them() {
    let mut harness = ahead_of_us();
    command(&mut harness, resync(LostRule::Requeue));
    assert_eq!(harness.protect_code(), None);
    for (at, hash) in [(1, foreign_tx(1, 7, 20).tx.signed.hash), (2, foreign_tx(2, 8, 21).tx.signed.hash)] {
        let slot = &harness.ledger.slots[&nonce(at)];
        assert_eq!(slot.kind, SlotKind::Foreign);
        assert!(slot.evidence.as_ref().unwrap().as_str().contains(&hash.to_string()));
    }
    assert_eq!(harness.nonces(), [Some(0), Some(3)]);
    let audit = harness.ledger.audits.last().unwrap();
    assert_eq!((audit.actor.as_str(), audit.action), ("test", "resync"));
}

/// proves N17
#[test]
fn resync_never_lowers_the_cursor() {
    let mut harness = sent(window(4), 3);
    harness.blocks = Some((1, Vec::new()));
    command(&mut harness, resync(LostRule::Requeue));
    assert!(done_text(&harness).contains("nothing to reconcile"));
    assert_eq!(harness.ledger.cursor.as_ref().unwrap().next_nonce, nonce(3));
    assert_eq!(harness.nonces(), [Some(0), Some(1), Some(2)]);
}

#[test]
fn resync_with_unfinal_transactions_is_refused() {
    let mut harness = ahead_of_us();
    for beyond in
        [AccountFacts { pending: nonce(4), ..final_count(3) }, AccountFacts { latest: nonce(4), ..final_count(3) }]
    {
        harness.account = beyond;
        command(&mut harness, resync(LostRule::Requeue));
        assert!(refused(&harness).contains("wait until all transactions are final"));
    }
    assert_eq!(harness.protect_code(), Some("external_nonce"));
}

/// proves N17
#[test]
fn lost_intent_returns_to_its_queue_position() {
    let mut harness = sent(window(1), 3);
    harness.blocks = Some((1, vec![foreign_tx(0, 7, 20)]));
    missing(&mut harness, final_count(1));
    assert_eq!(harness.protect_code(), Some("foreign_transaction"));
    let unchanged = (StateName::Tracking, vec![Some(0), None, None]);
    assert_eq!((harness.state(1), harness.nonces()), unchanged, "nothing changes without a command");
    command(&mut harness, resync(LostRule::Requeue));
    assert_eq!(harness.protect_code(), None);
    assert_eq!(harness.nonces(), [Some(1), None, None], "the intent is first in the queue again");
    assert_eq!(
        harness.ledger.slots[&nonce(0)].kind,
        SlotKind::Intent(harness.ledger.txs[&1].id),
        "a slot never changes its intent"
    );
    harness.answer(SendOutcome::Accepted);
    harness.account = final_count(2);
    harness.finish(harness.hash(1, 0), block(60));
    assert_eq!(harness.state(1), StateName::Confirmed);
    harness.run();
    assert_eq!(harness.nonces(), [Some(1), Some(2), None]);
}

#[test]
fn lost_intent_fails_if_the_operator_chooses() {
    let mut harness = sent(window(1), 2);
    harness.blocks = Some((1, vec![foreign_tx(0, 7, 20)]));
    missing(&mut harness, final_count(1));
    command(&mut harness, resync(LostRule::Fail));
    assert_eq!(harness.state(1), StateName::FailedFinal);
    assert_eq!(harness.nonces(), [None, Some(1)]);
}

/// proves N25
#[test]
fn nonce_without_transaction_is_lost_only_after_a_whole_scan() {
    let mut harness = sent(window(1), 1);
    assert_eq!(harness.ledger.slots[&nonce(0)].above, Some(block(1)));
    harness.blocks = Some((30, Vec::new()));
    missing(&mut harness, final_count(1));
    assert_eq!(harness.protect_code(), Some("foreign_transaction"));
    command(&mut harness, resync(LostRule::Requeue));
    assert!(refused(&harness).contains("blocks below 30 were not read"), "{}", refused(&harness));
    assert_eq!(harness.nonces(), [Some(0)]);
    harness.blocks = Some((2, Vec::new()));
    command(&mut harness, DRY);
    assert!(done_text(&harness).contains("consumed without a transaction of the account"), "{}", done_text(&harness));
    command(&mut harness, resync(LostRule::Requeue));
    assert_eq!((harness.protect_code(), harness.nonces()), (None, vec![Some(1)]));
    assert_eq!(harness.scans.last().unwrap().above, Some(block(1)));
}

/// The nonce is consumed at the newest block, but not at a final one.
#[test]
fn nonce_is_not_lost_before_finality() {
    let mut harness = sent(window(1), 1);
    harness.blocks = Some((1, Vec::new()));
    missing(&mut harness, AccountFacts { finalized: Some(nonce(0)), ..final_count(1) });
    command(&mut harness, resync(LostRule::Requeue));
    assert!(refused(&harness).contains("not final yet"));
    harness.blocks = Some((1, vec![foreign_tx(0, 7, 80)]));
    command(&mut harness, resync(LostRule::Requeue));
    assert!(refused(&harness).contains("not final yet"));
    assert_eq!((harness.state(1), harness.nonces()), (StateName::Tracking, vec![Some(0)]));
}

/// The node answers "nonce too low", and a foreign transaction is found at the nonce (DESIGN §7).
#[test]
fn unfinal_foreign_transaction_puts_lane_into_protect() {
    let mut harness = sent(window(2), 1);
    harness.blocks = Some((1, vec![foreign_tx(0, 7, 80)]));
    missing(&mut harness, AccountFacts { finalized: Some(nonce(0)), ..final_count(1) });
    assert_eq!(harness.protect_code(), Some("foreign_transaction"));
    // A reorg removes the foreign transaction.
    harness.account = AccountFacts { final_block: Some(block(50)), ..account(0) };
    harness.blocks = Some((1, Vec::new()));
    harness.advance_secs(20);
    command(&mut harness, CommandKind::Unprotect);
    assert_eq!(harness.protect_code(), None);
    harness.finish(harness.hash(0, 0), block(81));
    assert_eq!(harness.state(1), StateName::Confirmed);
}

#[test]
fn foreign_transaction_with_same_effect_is_attached() {
    let mut harness = sent(window(1), 2);
    let same = foreign_tx(0, 1, 20);
    harness.blocks = Some((1, vec![same.clone()]));
    missing(&mut harness, final_count(1));
    command(&mut harness, resync(LostRule::Requeue));
    let attached = format!("attach transaction {} in block 20", same.tx.signed.hash);
    assert!(done_text(&harness).contains(&attached), "{}", done_text(&harness));
    assert_eq!(harness.nonces(), [Some(0), None], "the intent is not queued again");
    assert!(harness.looked_up().contains(&same.tx.signed.hash));
    harness.finish(same.tx.signed.hash, block(20));
    assert_eq!(harness.state(1), StateName::Confirmed);
    assert_eq!(harness.ledger.attempts[&(nonce(0), 1)].kind, AttemptKind::Original);
}

/// The database lost the binds of two intents that the chain has.
#[test]
fn lost_commits_found_on_chain_are_not_sent_again() {
    let mut harness = LaneHarness::new(window(4));
    harness.ledger.regressed = true;
    harness.queue(3);
    harness.account = final_count(2);
    harness.blocks = Some((0, vec![foreign_tx(0, 1, 20), foreign_tx(1, 1, 21)]));
    harness.crash();
    harness.run();
    assert_eq!(harness.protect_code(), Some("store_regressed"));
    command(&mut harness, CommandKind::Unprotect);
    assert!(refused(&harness).contains("resync"));
    command(&mut harness, resync(LostRule::Requeue));
    assert_eq!(harness.protect_code(), None);
    assert_eq!(harness.nonces(), [Some(0), Some(1), Some(2)]);
    assert_eq!(harness.sending(), [2], "only the intent that the chain does not have");
    for (at, number) in [(0, 20), (1, 21)] {
        harness.finish(foreign_tx(at, 1, number).tx.signed.hash, block(number));
    }
    assert_eq!(harness.states()[..2], [StateName::Confirmed, StateName::Confirmed]);
}

/// proves S21
#[test]
fn one_transaction_is_assigned_to_one_intent_only() {
    let mut harness = LaneHarness::new(window(4));
    harness.ledger.regressed = true;
    harness.queue(2);
    harness.account = final_count(1);
    harness.blocks = Some((0, vec![foreign_tx(0, 1, 20)]));
    harness.crash();
    harness.run();
    command(&mut harness, resync(LostRule::Requeue));
    assert_eq!(harness.nonces(), [Some(0), Some(1)]);
    assert_eq!(harness.sending(), [1]);
}

#[test]
fn resync_after_lost_commits_ends_no_intent() {
    let mut harness = sent(window(1), 1);
    harness.ledger.regressed = true;
    harness.crash();
    harness.blocks = Some((1, vec![foreign_tx(0, 7, 20)]));
    harness.run();
    harness.account = final_count(1);
    command(&mut harness, resync(LostRule::Fail));
    assert!(refused(&harness).contains("no intent may end"), "{}", refused(&harness));
    command(&mut harness, resync(LostRule::Requeue));
    // The transaction may be a lost replacement of the intent. Nothing is sent before an operator has checked.
    assert!(done_text(&harness).contains("the lane is paused"), "{}", done_text(&harness));
    assert_eq!((harness.protect_code(), harness.nonces()), (None, vec![None]));
    command(&mut harness, CommandKind::Resume);
    assert_eq!(harness.nonces(), [Some(1)]);
}

/// After a loss of commits, a transaction that looks foreign may be ours (seed 1957 of the simulator).
#[test]
fn lost_commits_forbid_adoption_by_policy() {
    let mut harness = sent(adopting(1), 1);
    harness.ledger.regressed = true;
    harness.crash();
    harness.blocks = Some((1, vec![foreign_tx(0, 7, 20)]));
    harness.account = final_count(1);
    harness.run();
    harness.advance_secs(120);
    assert_eq!((harness.protect_code(), harness.nonces()), (Some("store_regressed"), vec![Some(0)]));
}

/// The transaction of the lost intent is at another nonce.
#[test]
fn lost_intent_found_at_another_nonce_is_moved() {
    let mut harness = sent(window(1), 1);
    harness.blocks = Some((1, vec![foreign_tx(0, 7, 20), foreign_tx(1, 1, 21)]));
    missing(&mut harness, final_count(2));
    command(&mut harness, resync(LostRule::Requeue));
    assert!(done_text(&harness).contains("move intent"), "{}", done_text(&harness));
    assert_eq!(harness.nonces(), [Some(1)]);
    harness.finish(foreign_tx(1, 1, 21).tx.signed.hash, block(21));
    assert_eq!(harness.state(1), StateName::Confirmed);
}

#[test]
fn own_hash_in_scanned_block_is_looked_up() {
    let mut harness = sent(window(1), 1);
    let mut ours = foreign_tx(0, 1, 20);
    ours.tx.signed.hash = harness.hash(0, 0);
    harness.blocks = Some((1, vec![ours]));
    harness.account = final_count(1);
    harness.advance_secs(20);
    for _ in 0..2 {
        harness.sight(Sighting::NotFound { hash: harness.hash(0, 0) });
        harness.advance_secs(1);
    }
    assert!(!harness.scans.is_empty());
    assert_eq!((harness.protect_code(), harness.nonces()), (None, vec![Some(0)]));
    harness.finish(harness.hash(0, 0), block(20));
    assert_eq!(harness.state(1), StateName::Confirmed);
}

/// proves N16
#[test]
fn adopting_lane_continues_and_writes_audit_entry() {
    let mut harness = sent(adopting(2), 1);
    harness.finish(harness.hash(0, 0), block(1));
    harness.account = AccountFacts { finalized: Some(nonce(1)), ..final_count(3) };
    harness.blocks = Some((1, vec![foreign_tx(1, 7, 20), foreign_tx(2, 8, 21)]));
    harness.queue(1);
    harness.advance_secs(20);
    harness.advance_secs(5);
    assert_eq!((harness.protect_code(), harness.nonces()), (None, vec![Some(0), None]), "the nonces are not final yet");
    harness.account = final_count(3);
    harness.advance_secs(2);
    harness.advance_secs(20);
    assert_eq!((harness.protect_code(), harness.nonces()), (None, vec![Some(0), Some(3)]));
    let audit = &harness.ledger.audits[0];
    assert_eq!((audit.actor.as_str(), audit.action), (NewAudit::POLICY, "adopt"));
    assert!(audit.detail.as_str().contains("adopt nonce 2"));
}

/// proves N25
#[test]
fn adopting_lane_requeues_lost_intent_after_a_whole_scan() {
    let mut harness = sent(adopting(1), 1);
    harness.blocks = Some((30, Vec::new()));
    missing(&mut harness, final_count(1));
    assert_eq!((harness.protect_code(), harness.nonces()), (None, vec![Some(0)]));
    harness.blocks = Some((2, Vec::new()));
    harness.advance_secs(60);
    assert_eq!(harness.nonces(), [Some(1)]);
}

/// proves N19
#[test]
fn lane_with_history_starts_where_the_operator_accepts_it() {
    let mut harness = LaneHarness::new(window(1));
    harness.account = final_count(5);
    harness.blocks = Some((0, Vec::new()));
    harness.queue(1);
    harness.run();
    assert_eq!(harness.protect_code(), Some("history_without_start"));
    command(&mut harness, CommandKind::Unprotect);
    assert!(refused(&harness).contains("has already sent 5 transactions"));
    command(&mut harness, resync(LostRule::Requeue));
    assert_eq!((harness.protect_code(), harness.nonces()), (None, vec![Some(5)]));
    assert!(harness.ledger.slots.keys().all(|at| *at == nonce(5)), "earlier nonces get no slot");
}

#[test]
fn adopting_lane_with_history_starts_at_account_nonce() {
    let mut harness = LaneHarness::new(adopting(1));
    harness.account = final_count(5);
    harness.queue(1);
    harness.run();
    assert_eq!((harness.protect_code(), harness.nonces()), (None, vec![Some(5)]));
}

#[test]
fn chain_with_another_history_is_not_reconciled() {
    let mut harness = sent(window(2), 1);
    harness.account = final_count(1);
    harness.finish(harness.hash(0, 0), block(1));
    harness.queue(1);
    harness.advance_secs(20);
    harness.account = final_count(0);
    harness.advance_secs(20);
    (0..40).for_each(|_| harness.advance_secs(1));
    assert_eq!(harness.protect_code(), Some("chain_regressed"));
    harness.blocks = Some((0, Vec::new()));
    for kind in [CommandKind::Unprotect, resync(LostRule::Requeue)] {
        command(&mut harness, kind);
        assert!(refused(&harness).contains("another history"), "{}", refused(&harness));
    }
}

#[test]
fn finality_violation_forbids_reconciling() {
    let mut harness = sent(window(1), 1);
    let tail = |finality_violation| {
        let links = vec![gapless_domain::BlockLink { block: fork(9, "x"), parent_hash: gapless_domain::B256::ZERO }];
        Fact::Chain(std::sync::Arc::new(ChainFacts { tail: Tail::of(links).unwrap(), finality_violation }))
    };
    harness.give(tail(Some(Protection { code: ProtectCode::OtherChain, detail: text("another genesis") })));
    command(&mut harness, CommandKind::Unprotect);
    assert!(refused(&harness).contains("another genesis"));
    harness.give(tail(None));
    harness.blocks = Some((0, Vec::new()));
    command(&mut harness, CommandKind::Unprotect);
    assert_eq!(harness.protect_code(), None);
}

#[test]
fn adoption_above_the_limit_needs_another_resync() {
    let mut setup = window(1);
    setup.limits.adopt = 2;
    let mut harness = LaneHarness::with_intents(setup, 1);
    harness.answer(SendOutcome::Accepted);
    harness.finish(harness.hash(0, 0), block(1));
    harness.account = final_count(4);
    harness.blocks = Some((1, (1..4).map(|at| foreign_tx(at, 7, 20)).collect()));
    harness.queue(1);
    harness.advance_secs(20);
    command(&mut harness, resync(LostRule::Requeue));
    assert_eq!(harness.protect_code(), Some("external_nonce"));
    assert_eq!(harness.ledger.cursor.as_ref().unwrap().next_nonce, nonce(3));
    command(&mut harness, resync(LostRule::Requeue));
    assert_eq!((harness.protect_code(), harness.nonces()), (None, vec![Some(0), Some(4)]));
}

/// The commit fails once, and the owner crashes before the next one.
#[test]
fn resync_in_failed_commit_is_executed_again() {
    let mut harness = sent(window(1), 2);
    harness.blocks = Some((1, vec![foreign_tx(0, 7, 20)]));
    missing(&mut harness, final_count(1));
    harness.hold.insert(Hold::Commit);
    harness.command(resync(LostRule::Requeue));
    harness.commit_not_written();
    assert_eq!(harness.nonces(), [Some(0), None]);
    harness.advance_secs(5);
    assert!(!harness.pending_commit().commands_done().is_empty());
    harness.crash();
    harness.advance_secs(1);
    harness.advance_secs(1);
    assert_eq!((harness.protect_code(), harness.nonces()), (None, vec![Some(1), None]));
}

/// The blocks cannot be read. The command waits, and the scan is repeated at a limited pace.
#[test]
fn unprotect_waits_until_blocks_can_be_read() {
    let mut harness = ahead_of_us();
    harness.blocks = None;
    harness.command(CommandKind::Unprotect);
    let asked = harness.scans.len();
    (0..10).for_each(|_| harness.run());
    assert_eq!(harness.scans.len(), asked);
    harness.advance_secs(60);
    assert!(harness.scans.len() > asked && harness.ledger.results.is_empty());
    harness.blocks = Some((1, Vec::new()));
    harness.account = account(1);
    harness.advance_secs(60);
    harness.advance_secs(60);
    assert_eq!(harness.protect_code(), None);
}
