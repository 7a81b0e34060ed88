//! A lane goes on after a transaction that cannot be paid for, and after a second finality violation.
#![allow(clippy::disallowed_methods, reason = "a test owns its own time and tasks")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "the helpers of a test panic too")]

#[allow(dead_code, reason = "not every test file uses all of it")]
mod support;

use std::sync::Arc;
use std::time::Duration;

use gapless_domain::{
    CommandKind, CommandResult, CommandStatus, EvmCall, EvmRules, Fees, Intent, IntentDraft, LaneState, Limits,
    LockOwner, LostRule, NewCommand, Nonce, Payload, ProtectCode, ReservationRequest, Speed, StateName, SubmitterId,
    TxId, TxPlan, Work,
};
use gapless_store::Store;
use gapless_store::conformance::fixtures::text;
use support::{Node, World, get, until_all};

const A_WHILE: Duration = Duration::from_secs(60);

async fn protect_code(store: &Arc<dyn Store>, lane: &SubmitterId) -> Option<ProtectCode> {
    let status = store.lane_status(std::slice::from_ref(lane)).await.unwrap().remove(0).unwrap();
    match status.cursor?.state {
        LaneState::Protect(protection) => Some(protection.code),
        _ => None,
    }
}

async fn order(node: &Node, lane: &SubmitterId, kind: CommandKind) -> CommandResult {
    let command = NewCommand { submitter: lane.clone(), kind, issued_by: text("operator") };
    let id = node.store.put_commands(&[command]).await.unwrap()[0];
    for _ in 0..600 {
        if let Some(CommandStatus::Over(result)) = node.store.commands(&[id]).await.unwrap().remove(0) {
            return result;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the command was not executed");
}

async fn reserve(node: &Node, lane: &SubmitterId, owner: &str) -> TxId {
    let external = ReservationRequest { lock_owner: LockOwner::new(owner).unwrap(), hold_ms: 60_000 };
    let draft = IntentDraft {
        submitter: lane.clone(),
        request_id: owner.to_owned(),
        payload: Payload::Reservation(external),
        speed: Speed::Standard,
        valid_until: None,
        metadata: None,
    };
    let id = node.accept(vec![Intent::new(draft, &Limits::default()).unwrap()]).await[0];
    until_all(&node.store, &[id], StateName::Allocated, A_WHILE).await;
    id
}

/// A caller submits a transaction at its reserved nonce whose price is wrong by orders of magnitude. No endpoint
/// takes it, and the account cannot pay for a replacement at a higher price.
///
/// proves N14 N18
#[tokio::test(start_paused = true)]
async fn unpayable_price_at_reserved_nonce_is_canceled() {
    for fees in [Fees::Eip1559 { max_fee: 3, max_priority_fee: u128::MAX }, Fees::Legacy { gas_price: 1 << 90 }] {
        let world = World::new(1).await;
        let (node, lane) = (world.node("a"), world.lanes[0].clone());
        let reserved = reserve(&node, &lane, "me").await;
        let plan = TxPlan {
            submitter: lane.clone(),
            nonce: Nonce::ZERO,
            action: EvmCall::default().into(),
            work: Work::new(21_000),
            fees,
        };
        let (cost, signed) = (plan.worst_cost(&EvmRules), gapless_sim::testing::sign(&plan));
        let lock_owner = LockOwner::new("me").unwrap();
        let kind = CommandKind::UseReserved { nonce: Nonce::ZERO, lock_owner, signed, fees, cost };
        assert!(matches!(order(&node, &lane, kind).await, CommandResult::Done(_)));
        let behind = node.submit(&lane, 0..1).await;
        tokio::time::sleep(A_WHILE).await;
        let canceled = order(&node, &lane, CommandKind::Cancel { tx_id: reserved }).await;
        // The lane itself canceled the transaction that the endpoint rejects.
        let is_over = matches!(fees, Fees::Eip1559 { .. });
        assert_eq!(matches!(canceled, CommandResult::Done(_)), !is_over, "{canceled:?}");
        tokio::time::sleep(Duration::from_secs(180)).await;
        let state = get(&node.store, reserved).await.state;
        assert_eq!(state.name(), StateName::Canceled, "{fees:?}, later: {state:?}");
        until_all(&node.store, &behind, StateName::Confirmed, A_WHILE).await;
    }
}

/// proves R09
#[tokio::test(start_paused = true)]
async fn idle_lane_notices_a_second_finality_violation() {
    let world = World::new(1).await;
    let (node, lane) = (world.node("a"), world.lanes[0].clone());
    let ids = node.submit(&lane, 0..2).await;
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    for time in ["first", "second"] {
        world.chain.reorg(8, false);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(protect_code(&node.store, &lane).await, Some(ProtectCode::DeepReorg), "the {time} time");
        node.store.forget_head(lane.chain(), &text("operator"), "test").await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        let done = order(&node, &lane, CommandKind::Resync { lost: LostRule::Requeue, dry_run: false }).await;
        assert!(matches!(done, CommandResult::Done(_)), "{done:?}");
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(protect_code(&node.store, &lane).await, None);
    }
}
