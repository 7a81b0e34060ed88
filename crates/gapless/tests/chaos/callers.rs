//! Who hands in work: callers of three lanes, who ask every node in turn until they are answered, and now and then once more.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use futures_util::{StreamExt as _, stream};
use gapless_sim::Dice;
use gapless_wire::{CallPayload, ClientError, TxRequest};

use crate::support::{Accepted, LONG, hex, may_be_asked_again};
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
/// How long a caller stands before one node.
const PATIENCE: Duration = Duration::from_secs(2);
const BETWEEN_TWO_NODES: Duration = Duration::from_millis(50);
/// Enough for a transfer with some bytes; said by the caller, so that nobody has to estimate.
const GAS: u64 = 40_000;

impl LaneLoad {
    pub(crate) fn submitter(&self) -> String {
        format!("s{}", self.account)
    }

    /// Gets one wei from each of its intents.
    pub(crate) fn to(&self) -> String {
        format!("0x{:040x}", 0xc_0000 + self.account)
    }

    /// One wei, and the request id itself as data: the chain tells which request it was that took effect.
    fn request(&self, request_id: &str) -> TxRequest {
        let payload = CallPayload {
            to: Some(self.to()),
            value: Some("1".to_owned()),
            data: Some(hex(request_id.as_bytes())),
            gas_limit: Some(GAS.into()),
            ..CallPayload::default()
        };
        TxRequest::new(self.submitter(), request_id, payload)
    }
}

/// Until it is over and each has an answer to its last request.
pub(crate) async fn hand_in(world: &World, seed: u64, over: &AtomicBool) {
    let mut dice = Dice::new(seed, "callers");
    let callers = LANES.iter().flat_map(|lane| (0..lane.callers).map(move |caller| (lane, caller)));
    join_all(callers.map(|(lane, caller)| call(world, lane, caller, over, dice.fork()))).await;
}

async fn call(world: &World, lane: &LaneLoad, caller: u32, over: &AtomicBool, mut dice: Dice) {
    for number in 0.. {
        let request_id = format!("{}-c{caller}-{number}", lane.submitter());
        ask(world, lane, &request_id, dice.below(3) as usize).await;
        if dice.one_in(ASKED_AGAIN) {
            ask(world, lane, &request_id, dice.below(3) as usize).await;
        }
        if over.load(Ordering::SeqCst) {
            return;
        }
        tokio::time::sleep(dice.up_to(lane.pause)).await;
    }
}

/// Those whose answers did not hold ask again, under the same request ids.
pub(crate) async fn ask_again(world: &World, lane: &LaneLoad, request_ids: &[String]) {
    const AT_ONCE: usize = 8;
    let asked = stream::iter(request_ids.iter().enumerate());
    asked.for_each_concurrent(AT_ONCE, |(turn, request_id)| ask(world, lane, request_id, turn)).await;
}

/// Asks each node in turn until there is an answer that counts, or until it turns out that it has happened already. A lane in PROTECT
/// takes nothing new: that is waited for as well.
async fn ask(world: &World, lane: &LaneLoad, request_id: &str, first: usize) {
    world.register().asks(lane, request_id);
    let (request, asked) = (lane.request(request_id), Instant::now());
    for turn in first.. {
        if world.register().happened(request_id) {
            return;
        }
        let answer = tokio::time::timeout(PATIENCE, world.doors().client(turn).create_tx(&request)).await;
        match answer {
            Ok(Ok((told, _))) => {
                assert_eq!(told.request_id, request_id);
                let (tx_id, request_id, answered) = (told.tx_id, told.request_id, Instant::now());
                let accepted = Accepted { tx_id, request_id, asked, answered };
                if let Err(other) = world.register().told(&accepted) {
                    world.violations().add("P1", format!("{accepted:?} was said to be {other} before"));
                }
                return;
            }
            Ok(Err(error)) if !may_be_asked_again(&error) && !is_protected(&error) => {
                panic!("{request_id} was not accepted: {error}")
            }
            _ if asked.elapsed() >= LONG => panic!("{request_id} was not answered: {answer:?}"),
            Ok(Err(error)) if is_protected(&error) => world.figures().count("turned away by PROTECT"),
            _ => {}
        }
        tokio::time::sleep(BETWEEN_TWO_NODES).await;
    }
}

fn is_protected(error: &ClientError) -> bool {
    error.problem().is_some_and(|problem| problem.code == "submitter_protected")
}
