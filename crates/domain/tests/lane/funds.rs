//! What the account can pay for, and who is told when it cannot.

use gapless_domain::{
    Address, Amount, AttemptKind, Effect, EvmCall, Fact, Fees, LaneEventKind, NodeText, NoncePolicy, OnShortage,
    PrepareFailure, PrepareKey, Prepared, SendOutcome, StateName, SubStateName,
};

use crate::bench::{Bench, GAS, Hold, account, block, kinds, window};
use crate::doubted::sent;

/// What one transfer can cost on the bench.
const COST: u64 = 21_000 * 100;

fn events(bench: &Bench) -> Vec<LaneEventKind> {
    bench.commits.iter().flat_map(|commit| commit.lane_events().map(|(_, kind, _)| kind)).collect()
}

fn sub_state(bench: &Bench, seq: u64) -> Option<SubStateName> {
    bench.ledger.txs[&seq].state.sub_state()
}

/// proves S17
#[test]
fn a_bound_intent_that_cannot_be_paid_goes_on_when_the_account_is_funded_not_at_its_next_resend() {
    let mut bench = Bench::busy(window(4), 1);
    bench.account.balance = Amount::from(1_u64);
    for _ in 0..6 {
        bench.answer(SendOutcome::InsufficientFunds);
        bench.pass_secs(70);
    }
    assert_eq!(sub_state(&bench, 1), Some(SubStateName::AwaitingFunds));
    bench.answer(SendOutcome::InsufficientFunds);
    bench.queue(1);
    bench.pass_secs(5);
    assert_eq!(bench.nonces(), [Some(0), None], "nothing is bound meanwhile");
    assert!(bench.broadcasts.is_empty(), "and nothing is sent before its time");
    bench.account.balance = Amount::from(COST * 10);
    bench.pass_secs(1);
    assert_eq!(bench.sending(), [0]);
    bench.answer(SendOutcome::Accepted);
    assert_eq!((bench.state(1), sub_state(&bench, 1)), (StateName::Tracking, Some(SubStateName::Pending)));
    bench.pass_secs(2);
    assert_eq!(bench.nonces(), [Some(0), Some(1)]);
}

/// proves S17
#[test]
fn consumers_are_told_once_that_the_balance_is_low_and_once_that_it_is_not() {
    let mut setup = window(4);
    setup.policy.funds.low_balance = Amount::from(COST * 5);
    let mut bench = Bench::busy(setup, 1);
    bench.answer(SendOutcome::Accepted);
    assert_eq!(events(&bench), []);
    bench.account.balance = Amount::from(COST * 4);
    (0..5).for_each(|_| bench.pass_secs(20));
    assert_eq!(events(&bench), [LaneEventKind::LowBalance]);
    bench.crash();
    (0..5).for_each(|_| bench.pass_secs(20));
    assert_eq!(events(&bench), [LaneEventKind::LowBalance], "the next owner does not say it again");
    bench.account.balance = Amount::from(COST * 5);
    (0..5).for_each(|_| bench.pass_secs(20));
    assert_eq!(events(&bench), [LaneEventKind::LowBalance, LaneEventKind::BalanceRestored]);
}

/// proves S18
#[test]
fn an_intent_that_can_never_be_paid_says_so() {
    let mut bench = Bench::new(window(4));
    bench.account.balance = Amount::from(COST * 3);
    let dear = EvmCall { value: Amount::from(COST * 9), ..EvmCall::default() };
    bench.queue_call(EvmCall { to: Some(gapless_domain::Address::ZERO), ..dear }, None);
    bench.queue(1);
    (0..5).for_each(|_| bench.pass_secs(20));
    assert_eq!(bench.nonces(), [None, None]);
    assert_eq!(events(&bench), [LaneEventKind::LowBalance]);
    let cursor = bench.ledger.cursor.as_ref().unwrap();
    assert!(cursor.low_balance && !cursor.is_protected());
    bench.account.balance = Amount::from(COST * 30);
    (0..3).for_each(|_| bench.pass_secs(20));
    assert_eq!(bench.nonces(), [Some(0), Some(1)]);
    assert_eq!(events(&bench), [LaneEventKind::LowBalance, LaneEventKind::BalanceRestored]);
}

/// The window is bounded by bytes too; one always goes.
#[test]
fn the_window_is_bounded_by_bytes() {
    let mut setup = window(64);
    setup.limits.window_bytes = 1000;
    let mut bench = Bench::new(setup);
    let to = Some(gapless_domain::Address::ZERO);
    for size in [2000, 400, 400, 400] {
        bench.queue_call(EvmCall { to, data: vec![0; size].into(), ..EvmCall::default() }, None);
    }
    bench.run();
    assert_eq!(bench.nonces(), [Some(0), None, None, None]);
    bench.answer(SendOutcome::Accepted);
    bench.finish(bench.hash(0, 0), block(1));
    bench.run();
    assert_eq!(bench.nonces().iter().flatten().count(), 3, "what is signed counts, and what is to be signed");
}

/// DESIGN §6: an account with delegated code has few pending transactions.
#[test]
fn a_delegated_account_has_a_window_of_its_own() {
    let mut bench = Bench::new(window(64));
    bench.account = gapless_domain::AccountFacts { delegated: true, ..account(0) };
    bench.queue(4);
    bench.run();
    assert_eq!(bench.nonces().iter().flatten().count(), 1);
    let mut setup = window(64);
    setup.policy.nonce = NoncePolicy { delegated_max_in_flight: 3, ..setup.policy.nonce };
    let mut bench = Bench::new(setup);
    bench.account = gapless_domain::AccountFacts { delegated: true, ..account(0) };
    bench.queue(4);
    bench.run();
    assert_eq!(bench.nonces().iter().flatten().count(), 3);
}

/// proves S18
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
    let dearer = Ok(Prepared::new(GAS, fees));
    bench.prepared(requests.iter().map(|request| (request.key, dearer.clone())).collect());
    assert_eq!(kinds(&bench, 0), [AttemptKind::Original, AttemptKind::Bump]);
    bench.hold.clear();
    bench.queue(1);
    bench.tell(Fact::Woken);
    assert_eq!(bench.nonces(), [Some(0), None], "190 % and 100 % of {COST} are bound, and the account has 200 %");
}

/// What the first in line may cost is not known before it is prepared again.
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

/// proves S17
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
