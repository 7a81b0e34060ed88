//! Reconciling the ledger with the chain: unprotect, resync, adopt.

use gapless_domain::{
    AccountFacts, AttemptKind, ChainFacts, CommandKind, CommandResult, Fact, LostRule, NewAudit, ProtectCode,
    Protection, SendOutcome, Sighting, SlotKind, StateName, Tail,
};

use crate::bench::{Bench, Hold, account, block, fork, nonce, stranger, text, window};
use crate::doubted::{adopting, final_count, missing, resync, sent};

const DRY: CommandKind = CommandKind::Resync { lost: LostRule::Requeue, dry_run: true };

fn told(bench: &Bench) -> &str {
    match bench.ledger.results.last() {
        Some(CommandResult::Done(report)) => report.as_str(),
        other => panic!("{other:?}"),
    }
}

fn refused(bench: &Bench) -> &str {
    match bench.ledger.results.last() {
        Some(CommandResult::Refused(report)) => report.as_str(),
        other => panic!("{other:?}"),
    }
}

fn command(bench: &mut Bench, kind: CommandKind) {
    let before = bench.ledger.results.len();
    bench.command(kind);
    bench.pass_secs(1);
    assert_eq!(bench.ledger.results.len(), before + 1, "the command is not done");
}

/// Two nonces beyond ours were used by somebody else with the key.
fn ahead_of_us() -> Bench {
    let mut bench = sent(window(2), 1);
    bench.finish(bench.hash(0, 0), block(1));
    bench.account = final_count(3);
    bench.blocks = Some((1, vec![stranger(1, 7, 20), stranger(2, 8, 21)]));
    bench.queue(1);
    bench.pass_secs(20);
    assert_eq!(bench.protect_code(), Some("external_nonce"));
    bench
}

/// proves N17
#[test]
fn unprotect_is_refused_while_the_cause_persists() {
    let mut bench = ahead_of_us();
    command(&mut bench, CommandKind::Unprotect);
    assert!(
        refused(&bench).starts_with("the cause persists: nonce 1 was used by somebody else"),
        "{}",
        refused(&bench)
    );
    assert_eq!(bench.protect_code(), Some("external_nonce"));
    assert_eq!(bench.nonces(), [Some(0), None]);
}

/// proves N17
#[test]
fn a_dry_run_lists_everything_and_changes_nothing() {
    let mut bench = ahead_of_us();
    let (cursor, slots) = (bench.ledger.cursor.clone().unwrap(), bench.ledger.slots.clone());
    command(&mut bench, DRY);
    let (one, two) = (stranger(1, 7, 20).tx.signed.hash, stranger(2, 8, 21).tx.signed.hash);
    for what in [&format!("adopt nonce 1: transaction {one} in block 20"), &format!("adopt nonce 2: transaction {two}")]
    {
        assert!(told(&bench).contains(what), "{}", told(&bench));
    }
    assert!(told(&bench).contains("PROTECT would end"));
    let after = bench.ledger.cursor.clone().unwrap();
    assert_eq!((after.next_nonce, &after.state, after.event_seq), (cursor.next_nonce, &cursor.state, cursor.event_seq));
    assert_eq!(bench.ledger.slots, slots);
}

/// proves N16, N17
#[test]
fn resync_adopts_what_is_final_with_its_evidence_and_goes_on_behind_it() {
    let mut bench = ahead_of_us();
    command(&mut bench, resync(LostRule::Requeue));
    assert_eq!(bench.protect_code(), None);
    for (at, hash) in [(1, stranger(1, 7, 20).tx.signed.hash), (2, stranger(2, 8, 21).tx.signed.hash)] {
        let slot = &bench.ledger.slots[&nonce(at)];
        assert_eq!(slot.kind, SlotKind::Foreign);
        assert!(slot.evidence.as_ref().unwrap().as_str().contains(&hash.to_string()));
    }
    assert_eq!(bench.nonces(), [Some(0), Some(3)]);
    let audit = bench.ledger.audits.last().unwrap();
    assert_eq!((audit.actor.as_str(), audit.action), ("test", "resync"));
}

/// proves N17
#[test]
fn resync_never_lowers_the_cursor() {
    let mut bench = sent(window(4), 3);
    bench.blocks = Some((1, Vec::new()));
    command(&mut bench, resync(LostRule::Requeue));
    assert!(told(&bench).contains("nothing to reconcile"));
    assert_eq!(bench.ledger.cursor.as_ref().unwrap().next_nonce, nonce(3));
    assert_eq!(bench.nonces(), [Some(0), Some(1), Some(2)]);
}

#[test]
fn what_is_ahead_and_not_final_is_waited_for() {
    let mut bench = ahead_of_us();
    for beyond in
        [AccountFacts { pending: nonce(4), ..final_count(3) }, AccountFacts { latest: nonce(4), ..final_count(3) }]
    {
        bench.account = beyond;
        command(&mut bench, resync(LostRule::Requeue));
        assert!(refused(&bench).contains("wait until they are final"));
    }
    assert_eq!(bench.protect_code(), Some("external_nonce"));
}

/// proves N17
#[test]
fn a_lost_nonce_brings_its_intent_back_to_its_place_in_line() {
    let mut bench = sent(window(1), 3);
    bench.blocks = Some((1, vec![stranger(0, 7, 20)]));
    missing(&mut bench, final_count(1));
    assert_eq!(bench.protect_code(), Some("foreign_transaction"));
    assert_eq!((bench.state(1), bench.nonces()), (StateName::Tracking, vec![Some(0), None, None]), "nothing by itself");
    command(&mut bench, resync(LostRule::Requeue));
    assert_eq!(bench.protect_code(), None);
    assert_eq!(bench.nonces(), [Some(1), None, None], "it is first in line again");
    assert_eq!(
        bench.ledger.slots[&nonce(0)].kind,
        SlotKind::Intent(bench.ledger.txs[&1].id),
        "a slot never changes hands"
    );
    bench.answer(SendOutcome::Accepted);
    bench.account = final_count(2);
    bench.finish(bench.hash(1, 0), block(60));
    assert_eq!(bench.state(1), StateName::Confirmed);
    bench.run();
    assert_eq!(bench.nonces(), [Some(1), Some(2), None]);
}

#[test]
fn a_lost_nonce_fails_its_intent_if_the_operator_says_so() {
    let mut bench = sent(window(1), 2);
    bench.blocks = Some((1, vec![stranger(0, 7, 20)]));
    missing(&mut bench, final_count(1));
    command(&mut bench, resync(LostRule::Fail));
    assert_eq!(bench.state(1), StateName::FailedFinal);
    assert_eq!(bench.nonces(), [None, Some(1)]);
}

/// proves N25
#[test]
fn a_nonce_used_without_a_transaction_is_lost_only_after_all_blocks_since_the_bind_were_read() {
    let mut bench = sent(window(1), 1);
    assert_eq!(bench.ledger.slots[&nonce(0)].above, Some(block(1)));
    bench.blocks = Some((30, Vec::new()));
    missing(&mut bench, final_count(1));
    assert_eq!(bench.protect_code(), Some("foreign_transaction"));
    command(&mut bench, resync(LostRule::Requeue));
    assert!(refused(&bench).contains("blocks below 30 were not read"), "{}", refused(&bench));
    assert_eq!(bench.nonces(), [Some(0)]);
    bench.blocks = Some((2, Vec::new()));
    command(&mut bench, DRY);
    assert!(told(&bench).contains("used without a transaction of the account"), "{}", told(&bench));
    command(&mut bench, resync(LostRule::Requeue));
    assert_eq!((bench.protect_code(), bench.nonces()), (None, vec![Some(1)]));
    assert_eq!(bench.surveys.last().unwrap().above, Some(block(1)));
}

/// Used up at the newest block, and not at a final one.
#[test]
fn nothing_is_lost_before_it_is_final() {
    let mut bench = sent(window(1), 1);
    bench.blocks = Some((1, Vec::new()));
    missing(&mut bench, AccountFacts { finalized: Some(nonce(0)), ..final_count(1) });
    command(&mut bench, resync(LostRule::Requeue));
    assert!(refused(&bench).contains("not final yet"));
    bench.blocks = Some((1, vec![stranger(0, 7, 80)]));
    command(&mut bench, resync(LostRule::Requeue));
    assert!(refused(&bench).contains("not final yet"));
    assert_eq!((bench.state(1), bench.nonces()), (StateName::Tracking, vec![Some(0)]));
}

/// DESIGN §7: nonce too low, and a stranger's transaction is seen there.
#[test]
fn a_stranger_at_one_of_our_nonces_stops_the_lane_before_it_is_final() {
    let mut bench = sent(window(2), 1);
    bench.blocks = Some((1, vec![stranger(0, 7, 80)]));
    missing(&mut bench, AccountFacts { finalized: Some(nonce(0)), ..final_count(1) });
    assert_eq!(bench.protect_code(), Some("foreign_transaction"));
    // A reorg takes it away again.
    bench.account = AccountFacts { final_block: Some(block(50)), ..account(0) };
    bench.blocks = Some((1, Vec::new()));
    bench.pass_secs(20);
    command(&mut bench, CommandKind::Unprotect);
    assert_eq!(bench.protect_code(), None);
    bench.finish(bench.hash(0, 0), block(81));
    assert_eq!(bench.state(1), StateName::Confirmed);
}

#[test]
fn a_stranger_that_does_what_the_intent_wants_is_taken_for_its_own() {
    let mut bench = sent(window(1), 2);
    let same = stranger(0, 1, 20);
    bench.blocks = Some((1, vec![same.clone()]));
    missing(&mut bench, final_count(1));
    command(&mut bench, resync(LostRule::Requeue));
    assert!(told(&bench).contains("which it explains"), "{}", told(&bench));
    assert_eq!(bench.nonces(), [Some(0), None], "it is not queued again");
    assert!(bench.looked_up().contains(&same.tx.signed.hash));
    bench.finish(same.tx.signed.hash, block(20));
    assert_eq!(bench.state(1), StateName::Confirmed);
    assert_eq!(bench.ledger.attempts[&(nonce(0), 1)].kind, AttemptKind::Original);
}

/// The database lost the binds of two intents; the chain has them.
#[test]
fn after_a_loss_of_commits_what_the_chain_has_is_found_and_not_sent_again() {
    let mut bench = Bench::new(window(4));
    bench.ledger.regressed = true;
    bench.queue(3);
    bench.account = final_count(2);
    bench.blocks = Some((0, vec![stranger(0, 1, 20), stranger(1, 1, 21)]));
    bench.crash();
    bench.run();
    assert_eq!(bench.protect_code(), Some("store_regressed"));
    command(&mut bench, CommandKind::Unprotect);
    assert!(refused(&bench).contains("resync"));
    command(&mut bench, resync(LostRule::Requeue));
    assert_eq!(bench.protect_code(), None);
    assert_eq!(bench.nonces(), [Some(0), Some(1), Some(2)]);
    assert_eq!(bench.sending(), [2], "only the one that the chain does not have");
    for (at, number) in [(0, 20), (1, 21)] {
        bench.finish(stranger(at, 1, number).tx.signed.hash, block(number));
    }
    assert_eq!(bench.states()[..2], [StateName::Confirmed, StateName::Confirmed]);
}

/// proves S21
#[test]
fn one_transaction_explains_one_intent_only() {
    let mut bench = Bench::new(window(4));
    bench.ledger.regressed = true;
    bench.queue(2);
    bench.account = final_count(1);
    bench.blocks = Some((0, vec![stranger(0, 1, 20)]));
    bench.crash();
    bench.run();
    command(&mut bench, resync(LostRule::Requeue));
    assert_eq!(bench.nonces(), [Some(0), Some(1)]);
    assert_eq!(bench.sending(), [1]);
}

#[test]
fn after_a_loss_of_commits_nothing_ends_by_a_resync() {
    let mut bench = sent(window(1), 1);
    bench.ledger.regressed = true;
    bench.crash();
    bench.blocks = Some((1, vec![stranger(0, 7, 20)]));
    bench.run();
    bench.account = final_count(1);
    command(&mut bench, resync(LostRule::Fail));
    assert!(refused(&bench).contains("nothing may end"), "{}", refused(&bench));
    command(&mut bench, resync(LostRule::Requeue));
    // What has used its nonce may be a replacement of it that the database has lost: nothing is sent before people have looked.
    assert!(told(&bench).contains("the lane is paused"), "{}", told(&bench));
    assert_eq!((bench.protect_code(), bench.nonces()), (None, vec![None]));
    command(&mut bench, CommandKind::Resume);
    assert_eq!(bench.nonces(), [Some(1)]);
}

/// After a loss of commits, what looks like a stranger's may be ours (seed 1957 of the simulator).
#[test]
fn after_a_loss_of_commits_nothing_is_adopted_without_an_operator() {
    let mut bench = sent(adopting(1), 1);
    bench.ledger.regressed = true;
    bench.crash();
    bench.blocks = Some((1, vec![stranger(0, 7, 20)]));
    bench.account = final_count(1);
    bench.run();
    bench.pass_secs(120);
    assert_eq!((bench.protect_code(), bench.nonces()), (Some("store_regressed"), vec![Some(0)]));
}

/// A lost intent whose transaction stands at another nonce.
#[test]
fn a_lost_intent_that_was_sent_at_another_nonce_is_moved_there() {
    let mut bench = sent(window(1), 1);
    bench.blocks = Some((1, vec![stranger(0, 7, 20), stranger(1, 1, 21)]));
    missing(&mut bench, final_count(2));
    command(&mut bench, resync(LostRule::Requeue));
    assert!(told(&bench).contains("move intent"), "{}", told(&bench));
    assert_eq!(bench.nonces(), [Some(1)]);
    bench.finish(stranger(1, 1, 21).tx.signed.hash, block(21));
    assert_eq!(bench.state(1), StateName::Confirmed);
}

#[test]
fn our_own_hash_in_a_block_is_looked_up_and_nothing_is_lost() {
    let mut bench = sent(window(1), 1);
    let mut ours = stranger(0, 1, 20);
    ours.tx.signed.hash = bench.hash(0, 0);
    bench.blocks = Some((1, vec![ours]));
    bench.account = final_count(1);
    bench.pass_secs(20);
    for _ in 0..2 {
        bench.see(Sighting::NotFound { hash: bench.hash(0, 0) });
        bench.pass_secs(1);
    }
    assert!(!bench.surveys.is_empty());
    assert_eq!((bench.protect_code(), bench.nonces()), (None, vec![Some(0)]));
    bench.finish(bench.hash(0, 0), block(20));
    assert_eq!(bench.state(1), StateName::Confirmed);
}

/// proves N16
#[test]
fn a_lane_that_adopts_goes_on_by_itself_and_leaves_an_audit_entry() {
    let mut bench = sent(adopting(2), 1);
    bench.finish(bench.hash(0, 0), block(1));
    bench.account = AccountFacts { finalized: Some(nonce(1)), ..final_count(3) };
    bench.blocks = Some((1, vec![stranger(1, 7, 20), stranger(2, 8, 21)]));
    bench.queue(1);
    bench.pass_secs(20);
    bench.pass_secs(5);
    assert_eq!((bench.protect_code(), bench.nonces()), (None, vec![Some(0), None]), "not before it is final");
    bench.account = final_count(3);
    bench.pass_secs(2);
    bench.pass_secs(20);
    assert_eq!((bench.protect_code(), bench.nonces()), (None, vec![Some(0), Some(3)]));
    let audit = &bench.ledger.audits[0];
    assert_eq!((audit.actor.as_str(), audit.action), (NewAudit::POLICY, "adopt"));
    assert!(audit.detail.as_str().contains("adopt nonce 2"));
}

/// proves N25
#[test]
fn a_lane_that_adopts_queues_a_lost_intent_again_only_when_the_scan_is_whole() {
    let mut bench = sent(adopting(1), 1);
    bench.blocks = Some((30, Vec::new()));
    missing(&mut bench, final_count(1));
    assert_eq!((bench.protect_code(), bench.nonces()), (None, vec![Some(0)]));
    bench.blocks = Some((2, Vec::new()));
    bench.pass_secs(60);
    assert_eq!(bench.nonces(), [Some(1)]);
}

/// proves N19
#[test]
fn a_submitter_with_a_history_begins_where_the_operator_accepts_it() {
    let mut bench = Bench::new(window(1));
    bench.account = final_count(5);
    bench.blocks = Some((0, Vec::new()));
    bench.queue(1);
    bench.run();
    assert_eq!(bench.protect_code(), Some("history_without_start"));
    command(&mut bench, CommandKind::Unprotect);
    assert!(refused(&bench).contains("has sent 5 transactions already"));
    command(&mut bench, resync(LostRule::Requeue));
    assert_eq!((bench.protect_code(), bench.nonces()), (None, vec![Some(5)]));
    assert!(bench.ledger.slots.keys().all(|at| *at == nonce(5)), "what was before is none of ours");
}

#[test]
fn a_submitter_with_a_history_that_adopts_begins_there() {
    let mut bench = Bench::new(adopting(1));
    bench.account = final_count(5);
    bench.queue(1);
    bench.run();
    assert_eq!((bench.protect_code(), bench.nonces()), (None, vec![Some(5)]));
}

#[test]
fn another_history_than_the_ledgers_cannot_be_reconciled() {
    let mut bench = sent(window(2), 1);
    bench.account = final_count(1);
    bench.finish(bench.hash(0, 0), block(1));
    bench.queue(1);
    bench.pass_secs(20);
    bench.account = final_count(0);
    bench.pass_secs(20);
    (0..40).for_each(|_| bench.pass_secs(1));
    assert_eq!(bench.protect_code(), Some("chain_regressed"));
    bench.blocks = Some((0, Vec::new()));
    for kind in [CommandKind::Unprotect, resync(LostRule::Requeue)] {
        command(&mut bench, kind);
        assert!(refused(&bench).contains("another history"), "{}", refused(&bench));
    }
}

#[test]
fn while_the_chain_contradicts_itself_nothing_is_reconciled() {
    let mut bench = sent(window(1), 1);
    let tail = |broken| {
        let links = vec![gapless_domain::BlockLink { block: fork(9, "x"), parent_hash: gapless_domain::B256::ZERO }];
        Fact::Chain(std::sync::Arc::new(ChainFacts { tail: Tail::of(links).unwrap(), broken }))
    };
    bench.tell(tail(Some(Protection { code: ProtectCode::OtherChain, detail: text("it began anew") })));
    command(&mut bench, CommandKind::Unprotect);
    assert!(refused(&bench).contains("it began anew"));
    bench.tell(tail(None));
    bench.blocks = Some((0, Vec::new()));
    command(&mut bench, CommandKind::Unprotect);
    assert_eq!(bench.protect_code(), None);
}

#[test]
fn more_than_one_resync_may_adopt_is_adopted_by_the_next() {
    let mut setup = window(1);
    setup.limits.adopt = 2;
    let mut bench = Bench::busy(setup, 1);
    bench.answer(SendOutcome::Accepted);
    bench.finish(bench.hash(0, 0), block(1));
    bench.account = final_count(4);
    bench.blocks = Some((1, (1..4).map(|at| stranger(at, 7, 20)).collect()));
    bench.queue(1);
    bench.pass_secs(20);
    command(&mut bench, resync(LostRule::Requeue));
    assert_eq!(bench.protect_code(), Some("external_nonce"));
    assert_eq!(bench.ledger.cursor.as_ref().unwrap().next_nonce, nonce(3));
    command(&mut bench, resync(LostRule::Requeue));
    assert_eq!((bench.protect_code(), bench.nonces()), (None, vec![Some(0), Some(4)]));
}

/// The commit is refused once, and the node dies before the next.
#[test]
fn a_reconciliation_that_was_not_written_is_done_again() {
    let mut bench = sent(window(1), 2);
    bench.blocks = Some((1, vec![stranger(0, 7, 20)]));
    missing(&mut bench, final_count(1));
    bench.hold.insert(Hold::Commit);
    bench.command(resync(LostRule::Requeue));
    bench.commit_not_written();
    assert_eq!(bench.nonces(), [Some(0), None]);
    bench.pass_secs(5);
    assert!(!bench.held_commit().commands_done().is_empty());
    bench.crash();
    bench.pass_secs(1);
    bench.pass_secs(1);
    assert_eq!((bench.protect_code(), bench.nonces()), (None, vec![Some(1), None]));
}

/// Nobody can read the blocks: the command waits, and asks at a pace.
#[test]
fn a_command_waits_for_somebody_who_can_read_the_blocks() {
    let mut bench = ahead_of_us();
    bench.blocks = None;
    bench.command(CommandKind::Unprotect);
    let asked = bench.surveys.len();
    (0..10).for_each(|_| bench.run());
    assert_eq!(bench.surveys.len(), asked);
    bench.pass_secs(60);
    assert!(bench.surveys.len() > asked && bench.ledger.results.is_empty());
    bench.blocks = Some((1, Vec::new()));
    bench.account = account(1);
    bench.pass_secs(60);
    bench.pass_secs(60);
    assert_eq!(bench.protect_code(), None);
}
