//! Funds: the budget of the account, and the events about a low balance.

use gapless_domain::{
    Address, Amount, AttemptKind, Effect, EvmCall, Fact, Fees, LaneEventKind, NodeText, NoncePolicy, OnShortage,
    PrepareFailure, PrepareKey, Prepared, SendOutcome, StateName, SubStateName, Work,
};

use crate::harness::{GAS, Hold, LaneHarness, account, block, kinds, window};
use crate::reconcile_fixtures::sent;

/// Highest cost of one transfer in the harness.
const COST: u64 = 21_000 * 100;

fn events(harness: &LaneHarness) -> Vec<LaneEventKind> {
    harness.commits.iter().flat_map(|commit| commit.lane_events().map(|(_, kind, _)| kind)).collect()
}

fn sub_state(harness: &LaneHarness, seq: u64) -> Option<SubStateName> {
    harness.ledger.txs[&seq].state.sub_state()
}

/// proves S17
#[test]
fn unfunded_intent_is_resent_as_soon_as_account_is_funded() {
    let mut harness = LaneHarness::with_intents(window(4), 1);
    harness.account.balance = Amount::from(1_u64);
    for _ in 0..6 {
        harness.answer(SendOutcome::InsufficientFunds);
        harness.advance_secs(70);
    }
    assert_eq!(sub_state(&harness, 1), Some(SubStateName::AwaitingFunds));
    harness.answer(SendOutcome::InsufficientFunds);
    harness.queue(1);
    harness.advance_secs(5);
    assert_eq!(harness.nonces(), [Some(0), None], "nothing is bound meanwhile");
    assert!(harness.broadcasts.is_empty(), "nothing is sent before its time");
    harness.account.balance = Amount::from(COST * 10);
    harness.advance_secs(1);
    assert_eq!(harness.sending(), [0]);
    harness.answer(SendOutcome::Accepted);
    assert_eq!((harness.state(1), sub_state(&harness, 1)), (StateName::Tracking, Some(SubStateName::Pending)));
    harness.advance_secs(2);
    assert_eq!(harness.nonces(), [Some(0), Some(1)]);
}

/// proves S17
#[test]
fn low_balance_events_are_written_once() {
    let mut setup = window(4);
    setup.policy.funds.low_balance = Amount::from(COST * 5);
    let mut harness = LaneHarness::with_intents(setup, 1);
    harness.answer(SendOutcome::Accepted);
    assert_eq!(events(&harness), []);
    harness.account.balance = Amount::from(COST * 4);
    (0..5).for_each(|_| harness.advance_secs(20));
    assert_eq!(events(&harness), [LaneEventKind::LowBalance]);
    harness.crash();
    (0..5).for_each(|_| harness.advance_secs(20));
    assert_eq!(events(&harness), [LaneEventKind::LowBalance], "the next owner does not repeat the event");
    harness.account.balance = Amount::from(COST * 5);
    (0..5).for_each(|_| harness.advance_secs(20));
    assert_eq!(events(&harness), [LaneEventKind::LowBalance, LaneEventKind::BalanceRestored]);
}

/// proves S18
#[test]
fn unaffordable_intent_raises_low_balance_event() {
    let mut harness = LaneHarness::new(window(4));
    harness.account.balance = Amount::from(COST * 3);
    let dear = EvmCall { value: Amount::from(COST * 9), ..EvmCall::default() };
    harness.queue_call(EvmCall { to: Some(gapless_domain::Address::ZERO), ..dear }, None);
    harness.queue(1);
    (0..5).for_each(|_| harness.advance_secs(20));
    assert_eq!(harness.nonces(), [None, None]);
    assert_eq!(events(&harness), [LaneEventKind::LowBalance]);
    let cursor = harness.ledger.cursor.as_ref().unwrap();
    assert!(cursor.low_balance && !cursor.is_protected());
    harness.account.balance = Amount::from(COST * 30);
    (0..3).for_each(|_| harness.advance_secs(20));
    assert_eq!(harness.nonces(), [Some(0), Some(1)]);
    assert_eq!(events(&harness), [LaneEventKind::LowBalance, LaneEventKind::BalanceRestored]);
}

/// The window is also limited by bytes; one transaction is always allowed.
#[test]
fn window_is_limited_by_bytes() {
    let mut setup = window(64);
    setup.limits.window_bytes = 1000;
    let mut harness = LaneHarness::new(setup);
    let to = Some(gapless_domain::Address::ZERO);
    for size in [2000, 400, 400, 400] {
        harness.queue_call(EvmCall { to, data: vec![0; size].into(), ..EvmCall::default() }, None);
    }
    harness.run();
    assert_eq!(harness.nonces(), [Some(0), None, None, None]);
    harness.answer(SendOutcome::Accepted);
    harness.finish(harness.hash(0, 0), block(1));
    harness.run();
    assert_eq!(harness.nonces().iter().flatten().count(), 3, "signed attempts and attempts at the signer count");
}

/// Nodes accept few pending transactions of an account with delegated code (DESIGN §6).
#[test]
fn delegated_account_has_its_own_window() {
    let mut harness = LaneHarness::new(window(64));
    harness.account = gapless_domain::AccountFacts { narrow: true, ..account(0) };
    harness.queue(4);
    harness.run();
    assert_eq!(harness.nonces().iter().flatten().count(), 1);
    let mut setup = window(64);
    setup.policy.nonce = NoncePolicy { narrow_max_in_flight: 3, ..setup.policy.nonce };
    let mut harness = LaneHarness::new(setup);
    harness.account = gapless_domain::AccountFacts { narrow: true, ..account(0) };
    harness.queue(4);
    harness.run();
    assert_eq!(harness.nonces().iter().flatten().count(), 3);
}

/// proves S18
#[test]
fn bump_reduces_the_budget() {
    let mut harness = LaneHarness::new(window(2));
    harness.account.balance = Amount::from(COST * 2);
    harness.queue(1);
    harness.run();
    harness.hold.insert(Hold::Prepare);
    harness.answer(SendOutcome::Underpriced);
    harness.advance_secs(1);
    let requests = harness.take_prepare();
    let fees = Fees::Eip1559 { max_fee: 190, max_priority_fee: 20 };
    let dearer = Ok(Prepared::new(Work::new(GAS), fees));
    harness.prepared(requests.iter().map(|request| (request.key, dearer.clone())).collect());
    assert_eq!(kinds(&harness, 0), [AttemptKind::Original, AttemptKind::Bump]);
    harness.hold.clear();
    harness.queue(1);
    harness.give(Fact::Woken);
    assert_eq!(harness.nonces(), [Some(0), None], "190 % and 100 % of {COST} are needed, and the account has 200 %");
}

/// The cost of the next candidate is unknown until it is prepared again.
#[test]
fn takeover_does_not_report_restored_balance() {
    let mut harness = LaneHarness::new(window(4));
    harness.account.balance = Amount::from(COST / 2);
    harness.queue(1);
    (0..3).for_each(|_| harness.advance_secs(20));
    assert_eq!(events(&harness), [LaneEventKind::LowBalance]);
    harness.crash();
    (0..3).for_each(|_| harness.advance_secs(20));
    assert_eq!(events(&harness), [LaneEventKind::LowBalance]);
}

fn answer_no_funds(harness: &mut LaneHarness) {
    let no = || Err(PrepareFailure::InsufficientFunds(NodeText::new("insufficient funds for transfer")));
    while harness.unanswered.iter().any(|effect| matches!(effect, Effect::Prepare(_))) {
        let keys: Vec<PrepareKey> = harness.take_prepare().iter().map(|request| request.key).collect();
        harness.prepared(keys.into_iter().map(|key| (key, no())).collect());
    }
}

#[test]
fn estimate_without_funds_raises_low_balance_event() {
    let mut harness = LaneHarness::new(window(4));
    harness.hold.insert(Hold::Prepare);
    harness.account.balance = Amount::from(1_u64);
    harness.queue_call(EvmCall { to: Some(Address::ZERO), value: Amount::from(COST), ..EvmCall::default() }, None);
    for _ in 0..10 {
        harness.advance_secs(5);
        answer_no_funds(&mut harness);
    }
    assert_eq!(events(&harness), [LaneEventKind::LowBalance]);
}

/// proves S17
#[test]
fn shortage_fails_no_intent_behind_one_in_flight() {
    let mut setup = window(4);
    setup.policy.funds.on_shortage = OnShortage::Fail;
    let mut harness = sent(setup, 1);
    harness.hold.insert(Hold::Prepare);
    harness.queue(1);
    harness.advance_secs(3);
    answer_no_funds(&mut harness);
    assert_eq!(harness.state(2), StateName::Queued);
}
