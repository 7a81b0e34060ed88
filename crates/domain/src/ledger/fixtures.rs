//! Records for the unit tests of the ledger.

use std::time::Duration;

use super::{LaneCommit, LaneLedger, LeaseFact, check};
use crate::action::{Fees, samples};
use crate::attempt::{AttemptKind, NewAttempt};
use crate::cursor::Cursor;
use crate::id::{RequestId, SubmitterId, TxId};
use crate::intent::{Intent, Speed};
use crate::intent_record::IntentRecord;
use crate::lease::{FencingToken, Lease, OwnerId};
use crate::nonce::Nonce;
use crate::payload::{Payload, ReservationRequest};
use crate::reservation::{LockOwner, ReservationStep};
use crate::state::TxState;
use crate::time::Timestamp;
use crate::{B256, Bytes};

pub(crate) const ACCOUNT: &str = "eip155:1:0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
pub(super) const OTHER: &str = "eip155:2:0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";

pub(super) fn lease() -> Lease {
    Lease::granted(ACCOUNT.parse().unwrap(), OwnerId::new("a", 1), FencingToken::new(1))
}

pub(crate) fn queued(submitter: &str, seq: u64) -> IntentRecord {
    let submitter: SubmitterId = submitter.parse().unwrap();
    let payload = Payload::from(samples::transfer(1_u64));
    let intent = Intent::restore(submitter, RequestId::restore("r"), payload, Speed::Standard, None, None);
    IntentRecord {
        id: TxId::from_uuid(uuid::Uuid::from_u128(u128::from(seq))),
        seq,
        intent,
        replacement: None,
        state: TxState::Queued,
        version: 1,
        created_at: Timestamp::EPOCH,
        updated_at: Timestamp::EPOCH,
    }
}

pub(super) fn attempt(nonce: u64) -> NewAttempt {
    NewAttempt {
        nonce: Nonce::new(nonce).unwrap(),
        ordinal: 0,
        kind: AttemptKind::Original,
        hash: B256::with_last_byte(nonce as u8),
        raw: Bytes::new(),
        fees: Fees::flat(1),
    }
}

pub(super) fn reservation_intent(submitter: &str, seq: u64) -> IntentRecord {
    let tx = queued(submitter, seq);
    let payload = Payload::Reservation(ReservationRequest { lock_owner: LockOwner::new("me").unwrap(), hold_ms: 1 });
    let intent = &tx.intent;
    let (lane, request) = (intent.submitter().clone(), intent.request_id().clone());
    IntentRecord { intent: Intent::restore(lane, request, payload, Speed::Standard, None, None), ..tx }
}

pub(super) fn nonce(value: u64) -> Nonce {
    Nonce::new(value).unwrap()
}

pub(super) fn owner(name: &str) -> LockOwner {
    LockOwner::new(name).unwrap()
}

pub(super) const AT: Timestamp = Timestamp::from_micros(1_000_000);

/// Applies a commit that the rules permit.
pub(super) fn write(ledger: &mut LaneLedger, build: impl FnOnce(&mut LaneCommit)) {
    let mut commit = LaneCommit::new(&lease());
    build(&mut commit);
    let facts = ledger.facts(&commit, LeaseFact::Held, AT);
    assert_eq!(check(&commit, &facts).err(), None);
    ledger.apply(&commit, AT);
}

/// A lane with a bound intent (1) at nonce 0 and a queued intent (2).
pub(super) fn busy_ledger() -> LaneLedger {
    let mut ledger = LaneLedger::default();
    let (first, second) = (queued(ACCOUNT, 1), queued(ACCOUNT, 2));
    ledger.put_intent(first.clone());
    ledger.put_intent(second);
    write(&mut ledger, |commit| {
        commit.bind(&Cursor::starting_at(Nonce::ZERO), &first, attempt(0)).unwrap();
    });
    ledger
}

/// Queues an intent that asks for a reservation.
pub(super) fn queue_reservation(ledger: &mut LaneLedger, seq: u64) -> IntentRecord {
    let tx = reservation_intent(ACCOUNT, seq);
    ledger.put_intent(tx.clone());
    tx
}

pub(super) fn reserve(at: u64, tx: &IntentRecord) -> ReservationStep {
    ReservationStep::Reserve { nonce: nonce(at), tx_id: tx.id, lock_owner: owner("me"), hold: Duration::from_secs(1) }
}

pub(super) fn use_by(at: u64, name: &str) -> ReservationStep {
    ReservationStep::Use { nonce: nonce(at), lock_owner: owner(name) }
}

pub(super) fn release_by(at: u64, name: &str) -> ReservationStep {
    ReservationStep::Release { nonce: nonce(at), lock_owner: owner(name) }
}

/// A lane with the reserved nonces 0 up to `count`, held for one second by "me".
pub(super) fn reserved_ledger(count: u64) -> LaneLedger {
    let mut ledger = LaneLedger::default();
    for at in 0..count {
        let tx = queue_reservation(&mut ledger, at + 1);
        let cursor = ledger.cursor.clone().unwrap_or(Cursor::starting_at(Nonce::ZERO));
        write(&mut ledger, |commit| {
            commit.bind_reserved(&cursor, &tx, reserve(at, &tx)).unwrap();
        });
    }
    ledger
}
