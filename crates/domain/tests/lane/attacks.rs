//! Attacks on the lane. Each test fails on the code under review; the comment says what is wrong and how it could be mended.

use std::time::Duration;

use gapless_domain::{
    AccountFacts, Address, Amount, AttemptKind, CommandKind, CommandResult, Effect, EvmCall, ExternalNoncePolicy, Fact,
    Fees, LaneEventKind, LaneSetup, LostRule, NodeText, OnShortage, PrepareFailure, PrepareKey, Prepared, SendOutcome,
    Sighting, StateName,
};

use crate::bench::{Bench, GAS, Hold, account, block, kinds, mined, nonce, sign, stranger, window};

const COST: u64 = 21_000 * 100;

fn resync(lost: LostRule) -> CommandKind {
    CommandKind::Resync { lost, dry_run: false }
}

fn adopting(max_in_flight: u16) -> LaneSetup {
    let mut setup = window(max_in_flight);
    setup.policy.nonce.on_external_nonce = ExternalNoncePolicy::Adopt;
    setup
}

fn final_count(count: u64) -> AccountFacts {
    AccountFacts { final_block: Some(block(50)), ..account(count) }
}

fn sent(setup: LaneSetup, intents: u64) -> Bench {
    let mut bench = Bench::busy(setup, intents);
    while !bench.broadcasts.is_empty() {
        bench.answer(SendOutcome::Accepted);
    }
    bench
}

fn answer_all(bench: &mut Bench, outcome: SendOutcome) {
    while !bench.broadcasts.is_empty() {
        bench.answer(outcome);
    }
}

/// Its first slot is used up by something, and nobody knows its hash.
fn missing(bench: &mut Bench, account: AccountFacts) {
    bench.account = account;
    bench.pass_secs(20);
    for _ in 0..6 {
        bench.see(Sighting::NotFound { hash: bench.hash(0, 0) });
        bench.pass_secs(1);
        if !bench.broadcasts.is_empty() {
            bench.answer(SendOutcome::NonceTooLow);
        }
    }
}

fn events(bench: &Bench) -> Vec<LaneEventKind> {
    bench.commits.iter().flat_map(|commit| commit.lane_events().map(|(_, kind, _)| kind)).collect()
}

fn refusals(bench: &Bench) -> Vec<&str> {
    let refused = |result: &CommandResult| matches!(result, CommandResult::Refused(_));
    bench.ledger.results.iter().filter(|result| refused(result)).map(|result| result.report().as_str()).collect()
}

// ---------------------------------------------------------------------------------------------------- critical

/// P1, P4. A slot that is adopted for an intent (`adopt_for`) gets the newest final block as its `above_block`, but what has used
/// its nonce stands *below* that block: it was adopted because it is final. The next survey of that slot (a second command before the
/// watcher has answered, or two NotFounds of an endpoint without old receipts on an adopting lane) reads only the blocks above, finds
/// nothing, calls that "used without a transaction", and the intent is queued again and sent at a second nonce.
/// Mend: `adopt_for`'s slot is bound above `sent.block.number - 1` (in the commit and in `take_recovered`), not above the final block.
#[test]
fn an_intent_that_was_found_on_chain_is_not_lost_by_looking_only_above_it() {
    let mut bench = Bench::new(window(4));
    bench.ledger.regressed = true;
    bench.queue(1);
    bench.account = final_count(1);
    bench.blocks = Some((0, vec![stranger(0, 1, 20)]));
    bench.crash();
    bench.run();
    bench.command(resync(LostRule::Requeue));
    bench.pass_secs(1);
    assert_eq!((bench.nonces(), bench.protect_code()), (vec![Some(0)], None));
    // The operator says it once more, before the watcher has found the receipt. The engine reads down to the block that it is told.
    let above = bench.ledger.slots[&nonce(0)].above_block.unwrap();
    let found = if above < 20 { vec![stranger(0, 1, 20)] } else { Vec::new() };
    bench.blocks = Some((above + 1, found));
    bench.command(resync(LostRule::Requeue));
    bench.pass_secs(1);
    assert_eq!(bench.nonces(), [Some(0)], "it took effect at nonce 0, and is sent again: {:?}", bench.result());
    assert!(bench.sending().is_empty());
}

/// P1 after a loss of commits; ADR 8 ("if a limit ended the survey before, nothing is concluded") and docs/nonces.md. Nonces above the
/// cursor are adopted by the count alone, also when the blocks that have their transactions were not read (`survey_blocks`). In a
/// store that lost commits these are our own: the queued intent is bound again, and sent a second time.
/// Mend: `plan_adoptions` hinders when a nonce has no transaction and `oldest` is above what the request asked for (keep
/// `above_block` in `Found`); at least while the lane is `store_regressed`.
#[test]
fn what_was_not_read_is_not_adopted_by_its_count_after_a_loss_of_commits() {
    let mut bench = Bench::new(window(4));
    bench.ledger.regressed = true;
    bench.queue(1);
    bench.account = final_count(1);
    // Our transaction stands in block 20; a limit ended the survey at 30.
    bench.blocks = Some((30, Vec::new()));
    bench.crash();
    bench.run();
    bench.command(resync(LostRule::Requeue));
    bench.pass_secs(1);
    assert_eq!((bench.nonces(), bench.sending()), (vec![None], vec![]), "{:?}", bench.result());
}

/// A jam, for ever, by default settings of a lane that adopts. A survey of which nothing follows is given back when the commit is
/// empty (`plan_commit`: `commit.is_empty()` → `give_back` → `give_back_recovered` → `surveys.give_back`). It then stands for the
/// newest one: `plan_survey` begins no other while `has_found()`. With no slot open nothing else is written either, so the lane looks
/// at this one old answer until somebody gives a command or the node dies.
/// Mend: in `plan_commit`, an empty commit drops `recovered.found` (conclusions were drawn: none); only NotWritten gives it back.
#[test]
fn a_survey_that_came_too_early_is_followed_by_another() {
    let mut bench = sent(adopting(2), 1);
    bench.finish(bench.hash(0, 0), block(1));
    bench.blocks = Some((1, vec![stranger(1, 7, 20), stranger(2, 8, 21)]));
    // One of the strangers' is final, the next one not yet.
    bench.account = AccountFacts { finalized: Some(nonce(2)), ..final_count(3) };
    bench.queue(1);
    bench.pass_secs(20);
    assert_eq!(bench.surveys.len(), 1);
    bench.account = final_count(3);
    (0..600).for_each(|_| bench.pass_secs(1));
    assert_eq!(bench.nonces(), [Some(0), Some(3)], "after ten minutes, with {} surveys", bench.surveys.len());
}

/// The same, for a bound intent, without resubmits: its nonce is gone, and when that is final nobody looks any more.
#[test]
fn a_lost_intent_is_found_lost_when_that_is_final() {
    let mut setup = adopting(1);
    setup.policy.resubmit.enabled = false;
    let mut bench = sent(setup, 1);
    bench.blocks = Some((1, vec![stranger(0, 7, 20)]));
    bench.account = AccountFacts { finalized: Some(nonce(0)), ..final_count(1) };
    for _ in 0..60 {
        bench.see(Sighting::NotFound { hash: bench.hash(0, 0) });
        bench.pass_secs(1);
    }
    bench.account = final_count(1);
    for _ in 0..600 {
        bench.see(Sighting::NotFound { hash: bench.hash(0, 0) });
        bench.pass_secs(1);
    }
    assert_eq!(bench.nonces(), [Some(1)], "after ten minutes, with {} surveys", bench.surveys.len());
}

/// The same: a lane that has nothing left to do never rests.
#[test]
fn a_lane_rests_after_a_survey_that_nobody_needs_any_more() {
    let mut bench = sent(window(1), 1);
    bench.blocks = Some((1, Vec::new()));
    bench.account = AccountFacts { finalized: Some(nonce(0)), ..final_count(1) };
    bench.hold.insert(Hold::Survey);
    bench.pass_secs(20);
    for _ in 0..3 {
        bench.see(Sighting::NotFound { hash: bench.hash(0, 0) });
        bench.pass_secs(1);
    }
    assert!(bench.held.iter().any(|effect| matches!(effect, Effect::Survey(_))));
    bench.account = final_count(1);
    bench.finish(bench.hash(0, 0), block(20));
    assert_eq!(bench.state(1), StateName::Confirmed);
    bench.tell(Fact::Surveyed(Some(gapless_domain::Survey {
        account: bench.account,
        head: block(100),
        oldest: 2,
        sent: Vec::new(),
    })));
    bench.held.clear();
    (0..600).for_each(|_| bench.pass_secs(1));
    assert!(bench.held.is_empty(), "nothing is under way");
    assert!(bench.released, "ten minutes without work");
}

/// A jam, for ever: a commit that the store must refuse, at each reload. While a lane is `store_regressed` nothing may end, so a loan
/// that is over is not taken back. Its borrower has sent its transaction by itself. The survey attaches it, and `settle_loans` writes
/// `Use` (for one that is gone: `Release`), which the store refuses for a loan whose time is over. Conflict, reload, survey, conflict: the
/// resync that would end PROTECT can never be written.
/// Mend: for a loan past its time `settle_loans` writes `Expire` + `Fill` (and the intent ends later), or the store gets a step that
/// explains a nonce whatever its time; in any case not `Use` by the old owner after `until`.
#[test]
fn a_resync_can_be_written_although_a_loan_is_past_its_time() {
    let mut bench = Bench::new(window(2));
    bench.queue_external("a", Duration::from_secs(30));
    bench.run();
    bench.ledger.regressed = true;
    bench.crash();
    bench.run();
    assert_eq!(bench.protect_code(), Some("store_regressed"));
    bench.pass_secs(60);
    bench.account = final_count(1);
    bench.blocks = Some((1, vec![stranger(0, 7, 20)]));
    bench.command(resync(LostRule::Requeue));
    bench.pass_secs(1);
    assert_eq!(bench.protect_code(), None);
}

/// The same commit without a loss of commits, in the tenth of a second between the end of a loan and its grace: one conflict and
/// one reload, not for ever.
#[test]
fn a_loan_in_its_grace_is_not_used_any_more() {
    let mut bench = Bench::new(window(2));
    bench.queue_external("a", Duration::from_secs(30));
    bench.run();
    bench.account = final_count(1);
    bench.blocks = Some((1, vec![stranger(0, 7, 20)]));
    bench.hold.insert(Hold::Survey);
    (0..29).for_each(|_| bench.pass_secs(1));
    bench.pass(Duration::from_millis(1050));
    assert!(bench.held.iter().any(|effect| matches!(effect, Effect::Survey(_))));
    bench.tell(Fact::Surveyed(Some(gapless_domain::Survey {
        account: bench.account,
        head: block(100),
        oldest: 2,
        sent: vec![stranger(0, 7, 20)],
    })));
}

// -------------------------------------------------------------------------------------------------------- high

/// A jam of the whole lane. `write_recovery` comes before `write_changes`. A slot whose block was orphaned (`seen` is Nowhere) while
/// the ledger still says Mined cannot `LoseNonce`: an illegal transition, "cannot write", and *nothing* of the lane is written, now and
/// after each minute, since the recovery is tried first each time (and the slot was taken out of `dirty`, so that its Unmine is never
/// written). Only a reload helps, if it is lucky.
/// Mend: `plan_slot` skips slots whose intent is Mined in the ledger until Unmine is durable (and an error leaves `dirty` as it was).
#[test]
fn a_lost_nonce_whose_orphaned_block_is_not_written_yet_does_not_stop_all_writing() {
    let mut bench = sent(window(2), 1);
    bench.see(mined(bench.hash(0, 0), block(40)));
    bench.blocks = Some((1, vec![stranger(0, 7, 41)]));
    bench.account = final_count(1);
    // A commit is under way: the bind of another intent.
    bench.hold.insert(Hold::Commit);
    bench.queue(1);
    bench.pass_secs(3);
    assert!(!bench.held_commit().slots().is_empty());
    // Meanwhile block 40 is orphaned, and somebody wants the lane reconciled.
    bench.see(Sighting::Unmined { hash: bench.hash(0, 0), block: block(40) });
    bench.command(resync(LostRule::Requeue));
    bench.hold.remove(&Hold::Commit);
    bench.commit_done(true);
    for _ in 0..10 {
        bench.pass_secs(61);
        answer_all(&mut bench, SendOutcome::NonceTooLow);
    }
    assert_eq!(bench.ledger.results.len(), 1, "notices: {:?}", bench.notices);
}

/// N14: a nonce that nobody sends any more. What a survey attaches rests (`take_recovered`: `sending = Rest`), on the word that it is in
/// a block; but attaching does not wait for final blocks. If that block is orphaned before the watcher has looked, there is no Unmined
/// (nobody saw it mined), and nothing of this slot is ever sent again, neither the stranger's bytes nor our own original. The count is
/// back where it was, so no survey either.
/// Mend: leave `sending` as it was (or Due after the resubmit interval, with a claim): a sighting puts it to rest.
#[test]
fn what_was_attached_and_is_orphaned_goes_out_again() {
    let mut bench = sent(window(1), 1);
    bench.blocks = Some((1, vec![stranger(0, 1, 80)]));
    missing(&mut bench, AccountFacts { finalized: Some(nonce(0)), ..final_count(1) });
    bench.command(resync(LostRule::Requeue));
    bench.pass_secs(1);
    assert_eq!(kinds(&bench, 0).len(), 2, "the stranger does what the intent wants: {:?}", bench.result());
    answer_all(&mut bench, SendOutcome::NonceTooLow);
    // A reorg: the block is gone before anybody has looked it up.
    bench.account = AccountFacts { final_block: Some(block(50)), ..account(0) };
    bench.blocks = Some((1, Vec::new()));
    bench.see(Sighting::NotFound { hash: stranger(0, 1, 80).tx.signed.hash });
    let mut sends = 0;
    for _ in 0..600 {
        bench.pass_secs(1);
        if !bench.broadcasts.is_empty() {
            sends += 1;
            bench.answer(SendOutcome::Accepted);
        }
    }
    assert!(sends > 0, "nothing was sent for ten minutes, with nonce 0 open");
}

/// The same for a lent nonce, by policy alone: nobody gave a command.
#[test]
fn what_a_borrower_sent_by_itself_and_is_orphaned_goes_out_again() {
    let mut bench = Bench::new(window(2));
    bench.queue_external("a", Duration::from_secs(600));
    bench.run();
    bench.account = AccountFacts { finalized: Some(nonce(0)), ..final_count(1) };
    bench.blocks = Some((1, vec![stranger(0, 7, 80)]));
    (0..60).for_each(|_| bench.pass_secs(1));
    assert_eq!(kinds(&bench, 0), [AttemptKind::Original]);
    bench.account = AccountFacts { final_block: Some(block(50)), ..account(0) };
    bench.blocks = Some((1, Vec::new()));
    bench.see(Sighting::NotFound { hash: stranger(0, 7, 80).tx.signed.hash });
    let mut sends = 0;
    for _ in 0..3600 {
        bench.pass_secs(1);
        if !bench.broadcasts.is_empty() {
            sends += 1;
            bench.answer(SendOutcome::Accepted);
        }
    }
    assert!(sends > 0, "nothing was sent for an hour, with nonce 0 open");
}

/// N15, N17: `rejected` is what nodes said of the original, and sticks until something is taken; it is not cleared when the cancel is
/// made. `obstacle` reads it as "the filler is rejected". So when a stranger has used that nonce, finally, reconciling is refused with
/// CannotFill for ever (until a reload), although nothing has to be filled; and a lane that adopts does not go on.
/// Mend: clear `rejected` when another attempt becomes durable, and let `obstacle` name only slots that trace as Unused.
#[test]
fn a_rejected_intent_whose_nonce_is_gone_can_be_reconciled() {
    let mut bench = Bench::busy(adopting(1), 1);
    bench.answer(SendOutcome::Rejected);
    assert_eq!(kinds(&bench, 0), [AttemptKind::Original, AttemptKind::Cancel]);
    bench.account = final_count(1);
    bench.blocks = Some((1, vec![stranger(0, 7, 20)]));
    for _ in 0..300 {
        for at in 0..2 {
            bench.see(Sighting::NotFound { hash: bench.hash(0, at) });
        }
        bench.pass_secs(1);
        answer_all(&mut bench, SendOutcome::NonceTooLow);
    }
    bench.command(resync(LostRule::Requeue));
    bench.pass_secs(1);
    assert_eq!(refusals(&bench), Vec::<&str>::new());
    assert_eq!(bench.state(1), StateName::Canceled, "nodes refuse it for good, so it is not sent once more");
}

/// The natural way out of `cannot_fill`: the operator fills the nonce with another wallet. Then `resync` is refused.
#[test]
fn a_nonce_that_an_operator_has_filled_by_hand_can_be_reconciled() {
    let mut bench = Bench::busy(window(1), 1);
    bench.answer(SendOutcome::Rejected);
    bench.answer(SendOutcome::Rejected);
    assert_eq!(bench.protect_code(), Some("cannot_fill"));
    bench.account = final_count(1);
    bench.blocks = Some((1, vec![stranger(0, 7, 20)]));
    bench.pass_secs(20);
    answer_all(&mut bench, SendOutcome::NonceTooLow);
    bench.command(resync(LostRule::Fail));
    bench.pass_secs(1);
    assert_eq!(refusals(&bench), Vec::<&str>::new());
}

/// N11: acceptance order, after a takeover. `restore` gives a slot whose intent has lost it (`SlotKind::Intent(id)`, no intent bound to
/// it) a place in `Slots::ids`. While a lower slot is open, `holds(id)` says that the intent is ours, and every look at the queue leaves
/// it out: whoever came later is bound before it.
/// Mend: `Slots::insert`/`id_of` name an intent only by `slot.tx` (a slot of kind Intent without one is over).
#[test]
fn a_lost_intent_keeps_its_place_in_line_over_a_takeover() {
    let mut bench = sent(window(4), 2);
    bench.see(mined(bench.hash(0, 0), block(40)));
    bench.blocks = Some((1, vec![stranger(1, 7, 41)]));
    bench.account = final_count(2);
    bench.hold.insert(Hold::Commit);
    bench.command(resync(LostRule::Requeue));
    bench.commit_done(true);
    assert_eq!(bench.nonces(), [Some(0), None], "{:?}", bench.result());
    // The node dies. Who takes over has slot 0 not final yet, and slot 1 lost.
    bench.queue(1);
    bench.crash();
    bench.run();
    bench.pass_secs(3);
    answer_all(&mut bench, SendOutcome::Accepted);
    bench.pass_secs(3);
    assert_eq!(bench.nonces(), [Some(0), Some(2), Some(3)]);
}

/// S13: a cancel is answered wrongly. The same list: closing the slot that was lost takes the intent's id out (`close_below`: `lost` is
/// not restored), although it is bound at another nonce by now; then it is "not open in this lane".
#[test]
fn an_intent_that_was_moved_can_be_canceled_after_a_takeover() {
    let mut bench = sent(window(4), 2);
    bench.see(mined(bench.hash(0, 0), block(40)));
    bench.blocks = Some((1, vec![stranger(1, 7, 41)]));
    bench.account = final_count(2);
    bench.command(resync(LostRule::Requeue));
    bench.pass_secs(3);
    answer_all(&mut bench, SendOutcome::Accepted);
    assert_eq!(bench.nonces(), [Some(0), Some(2)], "{:?}", bench.result());
    // Another node takes over; then slot 0 is final, and is closed together with slot 1, which is lost.
    bench.crash();
    bench.run();
    bench.finish(bench.hash(0, 0), block(40));
    assert_eq!((bench.state(1), bench.state(2)), (StateName::Confirmed, StateName::Tracking));
    bench.cancel(2);
    bench.pass_secs(1);
    assert_eq!(refusals(&bench), Vec::<&str>::new());
}

/// S13: the caller was told that it is being canceled. Its nonce is lost to a stranger, the intent goes back to the queue, and the wish to
/// cancel is forgotten (`LoseNonce` leads to a plain QUEUED): it is sent again as if nobody had asked. In the queue a cancel is
/// immediate and certain.
/// Mend: `lose_nonce` of an intent with `Wish::Cancel(User | Expired)` is followed by `CancelInQueue(reason)` in the same commit (in a
/// lane that may not end anything: kept, and not bound).
#[test]
fn a_cancel_outlives_the_loss_of_the_nonce() {
    let mut bench = sent(window(1), 1);
    bench.cancel(1);
    answer_all(&mut bench, SendOutcome::Accepted);
    assert!(bench.result().0);
    bench.account = final_count(1);
    bench.blocks = Some((1, vec![stranger(0, 7, 20)]));
    bench.pass_secs(20);
    bench.command(resync(LostRule::Requeue));
    bench.pass_secs(1);
    assert_eq!(bench.state(1), StateName::Canceled, "it has nonce {:?} now", bench.nonces());
}

/// A commit that the store must refuse (and, if the first one is not written, an intent twice in line). `ids_leaving` does not name those
/// that are adopted in the commit under way (`recovered.taken`), and a look that begins meanwhile replaces `taken`: the queue that it
/// brings still has them. So the intent is bound to the stranger's nonce, and is in line.
/// Mend: `Writing::ids` names `recovered.taken` too.
#[test]
fn an_intent_that_is_being_adopted_is_not_in_line() {
    let mut bench = Bench::new(window(4));
    bench.ledger.regressed = true;
    bench.queue(1);
    bench.account = final_count(1);
    bench.blocks = Some((0, vec![stranger(0, 1, 20)]));
    bench.crash();
    bench.run();
    bench.hold.insert(Hold::Commit);
    bench.command(resync(LostRule::Requeue));
    assert!(!bench.held_commit().slots().is_empty());
    bench.tell(Fact::Woken);
    bench.hold.remove(&Hold::Commit);
    bench.commit_done(true);
    // The bench refuses what a store refuses: another version of the intent.
    bench.pass_secs(1);
    assert_eq!(bench.nonces(), [Some(0)]);
}

/// DESIGN §6, docs/nonces.md: a stranger's transaction that does what a queued intent asks for is attached to it. Those at the signer, or
/// signed and not written, are queued (they have no nonce), but are not compared; they fall back into the line behind the adopted
/// nonces, and are sent.
/// Mend: a recovery that adopts waits until nothing is at the signer, and puts `self.signed` back in line first.
#[test]
fn an_intent_at_the_signer_is_compared_with_what_strangers_sent() {
    let mut bench = Bench::new(adopting(1));
    bench.queue(1);
    bench.queue_call(EvmCall { to: Some(Address::repeat_byte(9)), ..EvmCall::default() }, None);
    bench.hold.insert(Hold::Sign);
    bench.run();
    bench.account = final_count(1);
    bench.blocks = Some((0, vec![stranger(0, 1, 20)]));
    (0..30).for_each(|_| bench.pass_secs(1));
    bench.hold.clear();
    let signing = bench.held.iter().position(|effect| matches!(effect, Effect::Sign(_)));
    if let Some(at) = signing
        && let Effect::Sign(requests) = bench.held.remove(at)
    {
        bench.tell(Fact::Signed(requests.iter().map(|request| Ok(sign(request))).collect()));
    }
    (0..30).for_each(|_| bench.pass_secs(1));
    assert!(!bench.surveys.is_empty());
    assert_eq!(bench.nonces()[0], Some(0), "it was done at nonce 0");
}

// ------------------------------------------------------------------------------------------------------ medium

/// S18, DESIGN §8: "every new attempt is checked against the worst case of all open slots". A dearer attempt is neither checked nor taken
/// out of the budget: until the next look at the account, binds go on as if the slot cost what it did.
/// Mend: `remedies_to_sign` owes the difference between the new cost and the slot's (and a bump that cannot be paid waits).
#[test]
fn a_dearer_attempt_is_taken_out_of_the_budget() {
    let mut bench = Bench::new(window(2));
    bench.account.balance = Amount::from(COST * 2);
    bench.queue(1);
    bench.run();
    bench.hold.insert(Hold::Prepare);
    bench.answer(SendOutcome::Underpriced);
    bench.pass_secs(1);
    let requests = bench.take_prepare();
    let fees = Fees::Eip1559 { max_fee: 190, max_priority_fee: 20 };
    let dearer = Ok(Prepared { gas_limit: GAS, fees });
    bench.prepared(requests.iter().map(|request| (request.key, dearer.clone())).collect());
    assert_eq!(kinds(&bench, 0), [AttemptKind::Original, AttemptKind::Bump]);
    bench.hold.clear();
    bench.queue(1);
    bench.tell(Fact::Woken);
    assert_eq!(bench.nonces(), [Some(0), None], "190 % and 100 % of {COST} are bound, and the account has 200 %");
}

/// Ten attempts in no time. "Underpriced" leads to a new price, a signature, a commit and a send, at once, each time; for what wants nothing
/// it does not even matter that the market did not move (`is_enough` is asked only for what carries a payload). After `max_attempts`
/// the filler is never priced again: one bad minute of a node's pool uses up all tries, and a price that rises later finds the nonce, and all
/// behind it, stuck for ever without PROTECT (N14, N15).
/// Mend: a pace for remedies (`min_interval`, or `after_failures`), and no end for fillers while they are at the market price.
#[test]
fn all_tries_are_not_used_up_in_one_moment() {
    let mut bench = sent(window(1), 1);
    bench.cancel(1);
    for _ in 0..40 {
        if bench.broadcasts.is_empty() {
            break;
        }
        bench.answer(SendOutcome::Underpriced);
    }
    assert!(kinds(&bench, 0).len() <= 4, "{} attempts without a second passing", kinds(&bench, 0).len());
}

/// A late answer. The filler's send is under way when the original is mined; the node's "rejected" then stops the lane (`sent` does not ask
/// whether the slot is mined, lost or over), and stays in the slot (`rejected`), to be used after a reorg.
/// Mend: in `sent`, verdicts count only while `seen` is Nowhere and the slot is not over.
#[test]
fn a_late_rejection_of_what_is_mined_already_does_not_stop_the_lane() {
    let mut bench = sent(window(1), 1);
    bench.cancel(1);
    assert_eq!(bench.sending(), [0]);
    bench.see(mined(bench.hash(0, 0), block(3)));
    bench.answer(SendOutcome::Rejected);
    assert_eq!(bench.protect_code(), None);
}

/// The same for the original: what the chain had taken once is canceled as rejected when a reorg brings it back.
#[test]
fn a_late_rejection_of_what_is_mined_already_cancels_nothing_after_a_reorg() {
    let mut bench = Bench::busy(window(1), 1);
    bench.see(mined(bench.hash(0, 0), block(3)));
    bench.answer(SendOutcome::Rejected);
    bench.see(Sighting::Unmined { hash: bench.hash(0, 0), block: block(3) });
    bench.pass_secs(1);
    assert_eq!(kinds(&bench, 0), [AttemptKind::Original]);
}

/// A false alarm (P7). `lost_looks` is "None while its nonce is not used up", but a count that goes back (a reorg) does not reset it. When
/// our own transaction is mined and final later, the first look at the account stops the lane, before anybody has looked for a hash.
/// Mend: `look_for_lost_slots` sets `lost_looks = None` for unmined slots at or above the count.
#[test]
fn looks_before_a_reorg_do_not_count_after_it() {
    let mut bench = sent(window(1), 1);
    bench.blocks = Some((1, Vec::new()));
    bench.account = AccountFacts { finalized: Some(nonce(0)), ..final_count(1) };
    bench.pass_secs(20);
    for _ in 0..8 {
        bench.see(Sighting::NotFound { hash: bench.hash(0, 0) });
        bench.pass_secs(1);
        answer_all(&mut bench, SendOutcome::Accepted);
    }
    assert_eq!(bench.protect_code(), None);
    bench.account = AccountFacts { final_block: Some(block(50)), ..account(0) };
    for _ in 0..60 {
        bench.pass_secs(1);
        answer_all(&mut bench, SendOutcome::Accepted);
    }
    bench.account = final_count(1);
    (0..20).for_each(|_| bench.pass_secs(1));
    assert_eq!(bench.protect_code(), None, "nobody has looked for its hash since the count went back");
}

/// Flapping. After each takeover consumers are told that the balance is restored, and a moment later that it is low: what the first in line
/// may cost is not known before it was prepared again, and "not known" is taken for "no trouble".
/// Mend: `balance_news` says "restored" only if the first in line was found payable (or the line is known to be empty).
#[test]
fn a_takeover_does_not_say_that_the_balance_is_restored() {
    let mut bench = Bench::new(window(4));
    bench.account.balance = Amount::from(COST / 2);
    bench.queue(1);
    (0..3).for_each(|_| bench.pass_secs(20));
    assert_eq!(events(&bench), [LaneEventKind::LowBalance]);
    bench.crash();
    (0..3).for_each(|_| bench.pass_secs(20));
    assert_eq!(events(&bench), [LaneEventKind::LowBalance]);
}

fn estimate_says_no_funds(bench: &mut Bench) {
    let no = || Err(PrepareFailure::InsufficientFunds(NodeText::new("insufficient funds for transfer")));
    while bench.held.iter().any(|effect| matches!(effect, Effect::Prepare(_))) {
        let keys: Vec<PrepareKey> = bench.take_prepare().iter().map(|request| request.key).collect();
        bench.prepared(keys.into_iter().map(|key| (key, no())).collect());
    }
}

/// docs/nonces.md: consumers are told when the next intent cannot be paid for. Mostly it is the estimate that says so (value above the
/// balance), and nobody is told: `prepared` only puts it off.
/// Mend: `InsufficientFunds` of the first in line sets `purse.short_of` (with its value, at least).
#[test]
fn consumers_are_told_when_the_estimate_says_that_there_are_no_funds() {
    let mut bench = Bench::new(window(4));
    bench.hold.insert(Hold::Prepare);
    bench.account.balance = Amount::from(1_u64);
    bench.queue_call(EvmCall { to: Some(Address::ZERO), value: Amount::from(COST), ..EvmCall::default() }, None);
    for _ in 0..10 {
        bench.pass_secs(5);
        estimate_says_no_funds(&mut bench);
    }
    assert_eq!(events(&bench), [LaneEventKind::LowBalance]);
}

/// docs/nonces.md, S17: `on_shortage = "fail"` fails what an *otherwise idle* account cannot pay for. By way of the estimate it fails while
/// earlier ones are under way, which may bring the funds (a withdrawal, a swap), and which S19 waits for in the same place.
/// Mend: `prepared` asks for `alone` there too.
#[test]
fn a_shortage_fails_nothing_while_an_earlier_one_is_under_way() {
    let mut setup = window(4);
    setup.policy.funds.on_shortage = OnShortage::Fail;
    let mut bench = sent(setup, 1);
    bench.hold.insert(Hold::Prepare);
    bench.queue(1);
    bench.pass_secs(3);
    estimate_says_no_funds(&mut bench);
    assert_eq!(bench.state(2), StateName::Queued);
}

/// S15: a command that nobody can answer starves a healthy lane. `may_bind` is false while a `resync` is open, and it is open for as long
/// as no blocks can be read (an endpoint without them); it cannot be withdrawn.
/// Mend: refuse it after a number of failed surveys, with the reason (an operator can repeat it).
#[test]
fn a_resync_that_nobody_can_answer_does_not_hold_up_a_healthy_lane_for_ever() {
    let mut bench = sent(window(2), 1);
    bench.blocks = None;
    bench.command(resync(LostRule::Requeue));
    bench.queue(1);
    (0..600).for_each(|_| bench.pass_secs(1));
    assert_eq!(bench.nonces(), [Some(0), Some(1)]);
}

// --------------------------------------------------------------------------------------------------------- low

/// A filled nonce that came back from a borrower, and was then used without a transaction, is lost. A reload before it is closed does not
/// know that: `restore_loss` only knows those without attempts. The lane is in PROTECT again for what an operator has decided.
/// Mend: write the loss down (a slot state), or close what is lost in the commit that says so.
#[test]
fn a_filled_loan_that_is_lost_stays_lost() {
    let mut bench = Bench::new(window(2));
    bench.queue_external("a", Duration::from_secs(5));
    bench.run();
    bench.pass_secs(6);
    bench.pass_secs(1);
    answer_all(&mut bench, SendOutcome::Accepted);
    assert_eq!(kinds(&bench, 0), [AttemptKind::Fill]);
    bench.blocks = Some((1, Vec::new()));
    missing(&mut bench, final_count(1));
    assert_eq!(bench.protect_code(), Some("foreign_transaction"));
    bench.hold.insert(Hold::Commit);
    bench.command(resync(LostRule::Requeue));
    bench.commit_done(true);
    assert_eq!(bench.protect_code(), None, "{:?}", bench.result());
    bench.crash();
    missing(&mut bench, final_count(1));
    assert_eq!(bench.protect_code(), None);
}
