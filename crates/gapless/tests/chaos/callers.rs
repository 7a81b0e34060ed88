//! Who hands in work: callers of three lanes, who ask every node in turn until they are answered, and now and then once more.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;

use crate::dice::Dice;
use crate::support::{Accepted, transfer};
use crate::world::World;

/// One submitter: how many nonces it may have in flight, how many callers it has, and how long each of them thinks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneLoad {
    pub(crate) account: u32,
    pub(crate) window: u32,
    callers: u32,
    pause: Duration,
}

/// About what each of them gets done in half of the time, since the other half it has no owner, or no chain, or no database.
pub(crate) const LANES: [LaneLoad; 3] = [
    LaneLoad { account: 0, window: 1, callers: 2, pause: Duration::from_millis(1600) },
    LaneLoad { account: 1, window: 4, callers: 3, pause: Duration::from_millis(600) },
    LaneLoad { account: 2, window: 64, callers: 8, pause: Duration::from_millis(350) },
];
/// So many requests are asked for once more, though they were answered.
const ASKED_AGAIN: u64 = 4;

impl LaneLoad {
    pub(crate) fn submitter(&self) -> String {
        format!("s{}", self.account)
    }

    /// Gets one wei from each of its intents.
    pub(crate) fn to(&self) -> String {
        format!("0x{:040x}", 0xc_0000 + self.account)
    }
}

/// What the callers of one lane were told.
#[derive(Debug)]
pub(crate) struct LaneAccepted {
    pub(crate) lane: LaneLoad,
    pub(crate) accepted: Vec<Accepted>,
}

/// Until it is over and each has an answer to its last request.
pub(crate) async fn hand_in(world: &World, seed: u64, over: &AtomicBool) -> Vec<LaneAccepted> {
    let mut dice = Dice::new(!seed);
    let lanes = LANES.map(|lane| {
        let callers: Vec<_> = (0..lane.callers).map(|caller| call(world, lane, caller, over, dice.fork())).collect();
        async move { LaneAccepted { lane, accepted: join_all(callers).await.concat() } }
    });
    join_all(lanes).await
}

async fn call(world: &World, lane: LaneLoad, caller: u32, over: &AtomicBool, mut dice: Dice) -> Vec<Accepted> {
    let mut accepted = Vec::new();
    while !over.load(Ordering::SeqCst) {
        let request = transfer(&lane.submitter(), &format!("c{caller}-{}", accepted.len()), &lane.to());
        let told = world.doors().create(dice.below(3) as usize, &request).await;
        if dice.one_in(ASKED_AGAIN) {
            let again = world.doors().create(dice.below(3) as usize, &request).await;
            assert_eq!(again.tx_id, told.tx_id, "one request has become two intents");
        }
        accepted.push(told);
        tokio::time::sleep(dice.up_to(lane.pause)).await;
    }
    accepted
}
