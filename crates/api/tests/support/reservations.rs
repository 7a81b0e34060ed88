//! A lane that reserves nonces, played by the test.

use std::sync::Arc;
use std::time::Duration;

use gapless_domain::{
    Command, CommandKind, CommandReport, CommandResult, LaneCommit, NewAttempt, Payload, ReservationStep, SubmitterId,
    TxId,
};
use gapless_store::Store;
use gapless_store::conformance::fixtures::{self, soon};
use serde_json::{Value, json};

use super::{Answer, House, treasury};

pub(crate) const NONCES: &str = "/api/v1/submitters/treasury/nonces";

/// Reserves the next nonce for the first intent of the queue.
pub(crate) async fn lend(store: &Arc<dyn Store>, lane: &SubmitterId) -> TxId {
    let view = fixtures::view(store, lane).await;
    let tx = &view.queue[0];
    let Payload::Reservation(external) = tx.intent.payload() else { panic!("{tx:?} wants no nonce") };
    let step = ReservationStep::Reserve {
        nonce: view.cursor.next_nonce,
        tx_id: tx.id,
        lock_owner: external.lock_owner.clone(),
        hold: Duration::from_millis(external.hold_ms.into()),
    };
    fixtures::commit_done(store, lane, |commit: &mut LaneCommit| {
        commit.bind_reserved(&view.cursor, tx, step.clone()).unwrap();
    })
    .await;
    tx.id
}

/// Executes the open commands about reservations, as the store allows.
pub(crate) async fn execute(store: &Arc<dyn Store>, lane: &SubmitterId) {
    for command in fixtures::view(store, lane).await.lane.commands {
        let verdict = fixtures::commit(store, lane, |commit| step(commit, &command)).await;
        if verdict != gapless_store::CommitVerdict::Done {
            fixtures::commit_done(store, lane, |commit| {
                commit.command_done(&command, CommandResult::Refused(CommandReport::new("its time is over")));
            })
            .await;
        }
    }
}

fn step(commit: &mut LaneCommit, command: &Command) {
    match &command.kind {
        CommandKind::UseReserved { nonce, lock_owner, signed, fees, .. } => {
            let (hash, raw) = (signed.hash, signed.raw.clone());
            let kind = gapless_domain::AttemptKind::Original;
            commit.reservation(ReservationStep::Use { nonce: *nonce, lock_owner: lock_owner.clone() });
            commit.attempt(NewAttempt { nonce: *nonce, ordinal: 0, kind, hash, raw, fees: *fees });
        }
        CommandKind::ReleaseReserved { nonce, lock_owner } => {
            commit.reservation(ReservationStep::Release { nonce: *nonce, lock_owner: lock_owner.clone() });
        }
        other => panic!("{other:?} is not about a nonce"),
    }
    commit.command_done(command, CommandResult::Done(CommandReport::new("done")));
}

pub(crate) async fn ask(house: &House, target: &str, body: Value) -> Answer {
    let body = body.to_string();
    let mut waiting = Box::pin(house.post(target, &body));
    let answer = async {
        loop {
            tokio::select! {
                answer = &mut waiting => return answer,
                () = house.bell.listened.notified() => work(house).await,
            }
        }
    };
    soon("the answer", answer).await
}

/// The lane's work after a wake-up.
pub(crate) async fn work(house: &House) {
    let lane = treasury();
    if !fixtures::view(&house.store, &lane).await.queue.is_empty() {
        lend(&house.store, &lane).await;
    }
    execute(&house.store, &lane).await;
    house.bell.ring(&lane);
}

pub(crate) async fn lent(house: &House, request_id: &str) -> Value {
    let answer = ask(house, NONCES, json!({"requestId": request_id, "lockOwner": "me", "hold": "30s"})).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    answer.json()
}
