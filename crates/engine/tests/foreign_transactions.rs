//! Another user of the key, or another chain: whole engines, and the commands of an operator.
#![allow(clippy::disallowed_methods, reason = "a test owns its own time and tasks")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "the helpers of a test panic too")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use gapless_domain::{
    Action, AuditEntry, CommandKind, CommandResult, CommandStatus, ExternalNoncePolicy, LaneState, LostRule, NewAudit,
    NewCommand, Payload, ProtectCode, StateName, SubmitterId, TxState,
};
use gapless_sim::testing::ScriptedSend;
use gapless_store::conformance::fixtures::{intent, text};
use gapless_store::{Accepted, AuditFilter, Store};
use support::{Node, World, get, nonces, until_all};

const A_WHILE: Duration = Duration::from_secs(60);

async fn protect_code(store: &Arc<dyn Store>, lane: &SubmitterId) -> Option<ProtectCode> {
    let status = store.lane_status(std::slice::from_ref(lane)).await.unwrap().remove(0).unwrap();
    match status.cursor?.state {
        LaneState::Protect(protection) => Some(protection.code),
        _ => None,
    }
}

async fn until_protected(store: &Arc<dyn Store>, lane: &SubmitterId) -> ProtectCode {
    for _ in 0..200 {
        if let Some(code) = protect_code(store, lane).await {
            return code;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!("the lane is not in PROTECT");
}

/// The result of an operator's command.
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

fn resync(dry_run: bool) -> CommandKind {
    CommandKind::Resync { lost: LostRule::Requeue, dry_run }
}

async fn audit(node: &Node) -> Vec<AuditEntry> {
    node.store.audit_log(&AuditFilter { limit: 100, ..AuditFilter::default() }).await.unwrap()
}

/// proves N16, N17
#[tokio::test(start_paused = true)]
async fn foreign_transaction_protects_until_resync() {
    let world = World::new(1).await;
    let (node, lane) = (world.node("a"), world.lanes[0].clone());
    let first = node.submit(&lane, 0..2).await;
    until_all(&node.store, &first, StateName::Confirmed, A_WHILE).await;
    let hash = world.chain.foreign(&lane, 2);
    tokio::time::sleep(Duration::from_secs(20)).await;
    // The lane notices it with its next work. Intents that were accepted meanwhile stay in the queue.
    let waiting = node.submit(&lane, 2..3).await;
    until_protected(&node.store, &lane).await;
    assert_eq!(get(&node.store, waiting[0]).await.state, TxState::Queued);
    let again = node.engine.intake().accept(vec![intent(&lane, "r2")]).await.unwrap();
    assert!(matches!(again[0].1, Accepted::Existing(_)), "a known request still gets its answer");
    let new = node.engine.intake().accept(vec![intent(&lane, "new")]).await.unwrap();
    assert!(matches!(new[0].1, Accepted::Protected(_)));

    let refused = order(&node, &lane, CommandKind::Unprotect).await;
    assert!(
        matches!(&refused, CommandResult::Refused(why) if why.as_str().contains("cause of PROTECT persists")),
        "{refused:?}"
    );
    let told = order(&node, &lane, resync(true)).await;
    assert!(told.report().as_str().contains(&format!("adopt nonce 2: transaction {hash}")), "{told:?}");
    assert!(protect_code(&node.store, &lane).await.is_some(), "a dry run changes nothing");
    assert!(matches!(order(&node, &lane, resync(false)).await, CommandResult::Done(_)));
    until_all(&node.store, &waiting, StateName::Confirmed, A_WHILE).await;
    assert_eq!(nonces(&node.store, &waiting).await, [3]);
    let actions: Vec<_> = audit(&node).await.into_iter().map(|entry| (entry.actor.to_string(), entry.action)).collect();
    let expected = ["resync", "resync", "unprotect"].map(|action| ("operator".to_owned(), action.to_owned()));
    assert_eq!(actions, expected, "newest first");
}

/// proves N16
#[tokio::test(start_paused = true)]
async fn adopting_lane_goes_on_above_foreign_nonces() {
    let mut world = World::new(1).await;
    world.setup.policy.nonce.on_external_nonce = ExternalNoncePolicy::Adopt;
    let (node, lane) = (world.node("a"), world.lanes[0].clone());
    let first = node.submit(&lane, 0..1).await;
    until_all(&node.store, &first, StateName::Confirmed, A_WHILE).await;
    for nonce in 1..4 {
        world.chain.foreign(&lane, nonce);
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let next = node.submit(&lane, 1..3).await;
    until_all(&node.store, &next, StateName::Confirmed, A_WHILE).await;
    assert_eq!(nonces(&node.store, &next).await, [4, 5]);
    assert_eq!(protect_code(&node.store, &lane).await, None);
    let entry = audit(&node).await.remove(0);
    assert_eq!((entry.actor.as_str(), entry.action.as_str()), (NewAudit::POLICY, "adopt"));
}

/// Two intents whose sends are lost, so that a foreign transaction can take their nonces.
async fn unsent(world: &World, node: &Node) -> Vec<gapless_domain::TxId> {
    world.chain.script(|script| script.sends.extend(vec![ScriptedSend::TimeOut; 500]));
    let ids = node.submit(&world.lanes[0], 0..2).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(get(&node.store, ids[0]).await.state.name(), StateName::Allocated);
    ids
}

/// proves N17, S06
#[tokio::test(start_paused = true)]
async fn intent_whose_nonce_was_taken_is_queued_again_by_resync() {
    let world = World::new(1).await;
    let (node, lane) = (world.node("a"), world.lanes[0].clone());
    let ids = unsent(&world, &node).await;
    world.chain.foreign(&lane, 0);
    assert_eq!(until_protected(&node.store, &lane).await, ProtectCode::ForeignTransaction);
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(nonces(&node.store, &ids[..1]).await, [0], "the nonce does not move without an operator");
    world.chain.script(|script| script.sends.clear());
    assert!(matches!(order(&node, &lane, resync(false)).await, CommandResult::Done(_)));
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
    assert_eq!(nonces(&node.store, &ids).await, [1, 2], "in the order of acceptance");
    assert_eq!(node.store.attempts(ids[0]).await.unwrap().len(), 2, "the attempt at the lost nonce is kept");
}

/// proves N25
#[tokio::test(start_paused = true)]
async fn nonce_used_by_an_authorization_is_found_by_the_scan() {
    let world = World::new(1).await;
    let (node, lane) = (world.node("a"), world.lanes[0].clone());
    let ids = unsent(&world, &node).await;
    world.chain.use_without_transaction(&lane);
    assert_eq!(until_protected(&node.store, &lane).await, ProtectCode::ForeignTransaction);
    world.chain.script(|script| script.sends.clear());
    let told = order(&node, &lane, resync(true)).await;
    assert!(told.report().as_str().contains("without a transaction of the account"), "{told:?}");
    assert_eq!(nonces(&node.store, &ids[..1]).await, [0]);
    order(&node, &lane, resync(false)).await;
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
    assert_eq!(nonces(&node.store, &ids).await, [1, 2]);
}

/// proves N25
#[tokio::test(start_paused = true)]
async fn nonce_beyond_the_scan_limit_is_not_taken_for_lost() {
    let mut world = World::new(1).await;
    world.watcher.survey_blocks = 5;
    let (node, lane) = (world.node("a"), world.lanes[0].clone());
    let ids = unsent(&world, &node).await;
    world.chain.use_without_transaction(&lane);
    until_protected(&node.store, &lane).await;
    let refused = order(&node, &lane, resync(false)).await;
    assert!(matches!(&refused, CommandResult::Refused(why) if why.as_str().contains("survey_blocks")), "{refused:?}");
    assert_eq!(nonces(&node.store, &ids[..1]).await, [0]);
}

/// A foreign transaction does what a queued intent asks for: another cluster with the same key sent it, or the ledger
/// was restored from a backup.
#[tokio::test(start_paused = true)]
async fn foreign_transaction_equal_to_a_queued_intent_is_adopted() {
    let world = World::new(1).await;
    let (node, lane) = (world.node("a"), world.lanes[0].clone());
    let wanted = intent(&lane, "r0");
    let Payload::Act(Action::Evm(call)) = wanted.payload().clone() else { panic!() };
    let hash = world.chain.foreign_call(&lane, 0, call);
    tokio::time::sleep(Duration::from_secs(20)).await;
    let ids = node.accept(vec![wanted]).await;
    assert_eq!(until_protected(&node.store, &lane).await, ProtectCode::HistoryWithoutStart);
    // The ledger has no part in the history before its start: the lane begins above it, and sends the intent.
    order(&node, &lane, resync(false)).await;
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
    assert_eq!(nonces(&node.store, &ids).await, [1]);
    // From here on the ledger knows every nonce.
    let wanted = intent(&lane, "r1");
    let Payload::Act(Action::Evm(call)) = wanted.payload().clone() else { panic!() };
    let second = world.chain.foreign_call(&lane, 2, call);
    tokio::time::sleep(Duration::from_secs(20)).await;
    let ids = node.accept(vec![wanted]).await;
    until_protected(&node.store, &lane).await;
    let sends = world.chain.sends().len();
    let report = order(&node, &lane, resync(false)).await;
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
    assert_eq!(node.store.attempts(ids[0]).await.unwrap()[0].hash, second);
    assert_ne!(second, hash);
    assert_eq!(world.chain.sends().len(), sends, "the intent is not sent");
    assert_eq!(nonces(&node.store, &ids).await, [2]);
    let adopted = format!("adopt nonce 2 for intent {}: transaction {second}", ids[0]);
    assert!(report.report().as_str().contains(&adopted), "{report:?}");
}

/// A dev chain that was started anew has its own PROTECT code.
#[tokio::test(start_paused = true)]
async fn restarted_chain_protects_as_other_chain() {
    let world = World::new(1).await;
    let (node, lane) = (world.node("a"), world.lanes[0].clone());
    let ids = node.submit(&lane, 0..3).await;
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
    world.chain.begin_anew(1);
    node.submit(&lane, 3..4).await;
    assert_eq!(until_protected(&node.store, &lane).await, ProtectCode::OtherChain);
    let refused = order(&node, &lane, CommandKind::Unprotect).await;
    assert!(matches!(&refused, CommandResult::Refused(why) if why.as_str().contains("chain accept")), "{refused:?}");
    // An operator accepts the chain. The nonces of this ledger still belong to the old chain.
    node.store.forget_head(lane.chain(), &text("operator"), "a new dev chain").await.unwrap();
    tokio::time::sleep(A_WHILE).await;
    let refused = order(&node, &lane, resync(false)).await;
    assert!(matches!(&refused, CommandResult::Refused(why) if why.as_str().contains("another history")), "{refused:?}");
    assert_eq!(audit(&node).await.last().unwrap().subject, lane.to_string());
}
