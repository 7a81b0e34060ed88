//! The callers of three lanes. A caller repeats its request at each node in turn until there is an answer, and
//! sometimes once more after that.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use futures_util::{StreamExt as _, stream};
use gapless_sim::Dice;
use gapless_wire::{CallPayload, ClientError, TxRequest};

use crate::cluster::ChaosCluster;
use crate::support::{AcceptedRequest, LONG, hex, is_retryable};

/// One submitter: the number of nonces in flight, the number of callers, and the longest pause of a caller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneLoad {
    pub(crate) account: u32,
    pub(crate) window: u32,
    callers: u32,
    pause: Duration,
}

/// A load that each lane can handle in half of the time, because in the other half it has no owner, chain or database.
pub(crate) const LANES: [LaneLoad; 3] = [
    LaneLoad { account: 0, window: 1, callers: 2, pause: Duration::from_millis(1600) },
    LaneLoad { account: 1, window: 4, callers: 3, pause: Duration::from_millis(600) },
    LaneLoad { account: 2, window: 64, callers: 8, pause: Duration::from_millis(350) },
];
/// One in this number of requests is repeated after its answer.
const REPEATED_ONE_IN: u64 = 4;
/// The time limit for the answer of one node.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
const BETWEEN_TWO_NODES: Duration = Duration::from_millis(50);
/// The gas limit of a transfer with some bytes. The caller sets it, so that there is no estimate.
const GAS: u64 = 40_000;

impl LaneLoad {
    pub(crate) fn submitter(&self) -> String {
        format!("s{}", self.account)
    }

    /// The recipient, which gets one wei from each intent of the lane.
    pub(crate) fn to(&self) -> String {
        format!("0x{:040x}", 0xc_0000 + self.account)
    }

    /// A transfer of one wei with the request id as data, so that the chain shows which request took effect.
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

/// Runs all callers until `over` is set and each has the answer to its last request.
pub(crate) async fn send_requests(cluster: &ChaosCluster, seed: u64, over: &AtomicBool) {
    let mut rng = Dice::new(seed, "callers");
    let callers = LANES.iter().flat_map(|lane| (0..lane.callers).map(move |caller| (lane, caller)));
    join_all(callers.map(|(lane, caller)| call(cluster, lane, caller, over, rng.fork()))).await;
}

async fn call(cluster: &ChaosCluster, lane: &LaneLoad, caller: u32, over: &AtomicBool, mut rng: Dice) {
    for number in 0.. {
        let request_id = format!("{}-c{caller}-{number}", lane.submitter());
        ask(cluster, lane, &request_id, rng.below(3) as usize).await;
        if rng.one_in(REPEATED_ONE_IN) {
            ask(cluster, lane, &request_id, rng.below(3) as usize).await;
        }
        if over.load(Ordering::SeqCst) {
            return;
        }
        tokio::time::sleep(rng.up_to(lane.pause)).await;
    }
}

/// Sends requests whose answers were lost again, under the same request ids.
pub(crate) async fn send_again(cluster: &ChaosCluster, lane: &LaneLoad, request_ids: &[String]) {
    const AT_ONCE: usize = 8;
    let requests = stream::iter(request_ids.iter().enumerate());
    requests.for_each_concurrent(AT_ONCE, |(turn, request_id)| ask(cluster, lane, request_id, turn)).await;
}

/// Sends a request to each node in turn until there is an answer, or until the operator has found its transaction on
/// chain. A lane in PROTECT rejects new requests, so the caller waits for its end too.
async fn ask(cluster: &ChaosCluster, lane: &LaneLoad, request_id: &str, first: usize) {
    cluster.answers().record_request(lane, request_id);
    let (request, asked) = (lane.request(request_id), Instant::now());
    for turn in first.. {
        if cluster.answers().is_found_on_chain(request_id) {
            return;
        }
        let answer =
            tokio::time::timeout(ANSWER_TIMEOUT, cluster.node_clients().client(turn).create_tx(&request)).await;
        match answer {
            Ok(Ok((answer, _))) => {
                assert_eq!(answer.request_id, request_id);
                let (tx_id, request_id, answered) = (answer.tx_id, answer.request_id, Instant::now());
                let accepted = AcceptedRequest { tx_id, request_id, asked, answered };
                if let Err(other) = cluster.answers().record_answer(&accepted) {
                    cluster.violations().add("P1", format!("{accepted:?} had the transaction id {other} before"));
                }
                return;
            }
            Ok(Err(error)) if !is_retryable(&error) && !is_protected(&error) => {
                panic!("{request_id} was not accepted: {error}")
            }
            _ if asked.elapsed() >= LONG => panic!("{request_id} was not answered: {answer:?}"),
            Ok(Err(error)) if is_protected(&error) => cluster.statistics().count("request rejected by PROTECT"),
            _ => {}
        }
        tokio::time::sleep(BETWEEN_TWO_NODES).await;
    }
}

fn is_protected(error: &ClientError) -> bool {
    error.problem().is_some_and(|problem| problem.code == "submitter_protected")
}
