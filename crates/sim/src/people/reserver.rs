//! A caller that reserves a nonce and signs by itself.

use std::time::Duration;

use gapless_domain::{
    CommandKind, Fees, LockOwner, Nonce, Payload, ReservationRequest, SubmitterId, TxId, TxPlan, Work,
};

use super::{PATIENCE, command, within};
use crate::chain;
use crate::dice::Dice;
use crate::world::SharedWorld;

const HOLD: Duration = Duration::from_secs(20);
const FEES: Fees = Fees::with_tip(400_000_000_000, 2_000_000_000);
const WORK: Work = Work::new(60_000);

pub(super) fn payload(number: u64) -> Payload {
    // The name is short enough and not empty, so it is never refused.
    let lock_owner = LockOwner::new(&format!("reserver {number}"));
    let hold_ms = u32::try_from(HOLD.as_millis()).unwrap_or(u32::MAX);
    match lock_owner {
        Some(lock_owner) => Payload::Reservation(ReservationRequest { lock_owner, hold_ms }),
        None => chain::action(number).into(),
    }
}

/// Waits for the reserved nonce. Then submits it, releases it, abandons it, or sends its transaction directly to the
/// chain.
pub(super) async fn use_nonce(world: &SharedWorld, lane: &SubmitterId, id: TxId, number: u64, dice: &mut Dice) {
    let Some(nonce) = reserved_nonce(world, id, dice).await else { return };
    let Payload::Reservation(ReservationRequest { lock_owner, .. }) = payload(number) else { return };
    world.stage().sleep(dice.latency(Duration::from_secs(2))).await;
    let plan = plan(lane, nonce, number);
    let (signed, cost) = (chain::sign(&plan), plan.worst_cost(chain::rules()));
    let by_command =
        CommandKind::UseReserved { nonce, lock_owner: lock_owner.clone(), signed: signed.clone(), fees: FEES, cost };
    match dice.below(10) {
        0..=5 => command(world, dice, lane, by_command, "reserver").await,
        6..=7 => command(world, dice, lane, CommandKind::ReleaseReserved { nonce, lock_owner }, "reserver").await,
        8 => drop(world.parts.chain.submit_outside(&signed.raw)),
        _ => {}
    }
}

fn plan(lane: &SubmitterId, nonce: Nonce, number: u64) -> TxPlan {
    TxPlan { submitter: lane.clone(), nonce, action: chain::action(number), work: WORK, fees: FEES }
}

/// The reserved nonce, if the intent gets one in time.
async fn reserved_nonce(world: &SharedWorld, id: TxId, dice: &mut Dice) -> Option<Nonce> {
    for _ in 0..60 {
        world.stage().sleep(dice.duration(Duration::from_millis(200), Duration::from_secs(2))).await;
        let Some((_, store)) = world.random_node(dice) else { continue };
        let Some(Ok(rows)) = within(world.stage(), PATIENCE, store.get(&[id])).await else { continue };
        let Some(Some(tx)) = rows.into_iter().next() else { continue };
        if tx.state.name().is_terminal() {
            return None;
        }
        if let Some(bound) = tx.state.bound() {
            return Some(bound.nonce);
        }
    }
    None
}
