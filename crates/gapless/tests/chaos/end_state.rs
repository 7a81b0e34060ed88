//! The same end once more, by the simulator's own words: the store is read as a node reads it, the chain as the product reads blocks, and
//! both are judged by the check that judges simulated worlds.

use std::collections::BTreeMap;

use gapless_chain::{Chain as _, SentInBlock};
use gapless_chain_evm::{EvmChain, EvmChainOptions};
use gapless_domain::{ChainId, RequestId, SignedPlan, SubmitterId, TxId};
use gapless_sim::check::{Scan, check_end_state, read_end_state};
use gapless_sim::history::{ChainBlock, ChainTx};
use serde_json::json;

use crate::ledger::Ledger;
use crate::register::Entry;
use crate::support::{LONG, within};
use crate::world::{REQUIRED, World};

/// Blocks whose transactions are asked for at once.
const BLOCKS: u64 = 500;

/// Nobody is excused, and nothing that is found is left out.
pub(crate) async fn check(world: &World, told: &BTreeMap<String, Entry>, ledger: &Ledger) {
    let chain_id = world.chain.call("eth_chainId", json!([])).await;
    let number = u64::from_str_radix(chain_id.as_str().unwrap().trim_start_matches("0x"), 16).unwrap();
    let chain: ChainId = format!("eip155:{number}").parse().unwrap();
    let of = |address: &str| -> SubmitterId { format!("{chain}:{address}").parse().unwrap() };
    let lanes: Vec<SubmitterId> = ledger.lanes.iter().map(|rows| of(&rows.address)).collect();
    let by_alias = ledger.lanes.iter().map(|rows| rows.submitter.as_str()).zip(&lanes).collect();

    if within(LONG, async || world.servers.stream_is_whole().await.then_some(())).await.is_none() {
        world.violations().add("P8", "what is in the stream's table can still not be read from the stream");
    }
    let store = world.servers.store().await;
    let end = read_end_state(&store, &lanes, acknowledged(told, &by_alias), Vec::new()).await.unwrap();
    let endpoint = world.chain.url().parse().unwrap();
    let reader = EvmChain::connect(EvmChainOptions::new(chain, vec![endpoint]), Vec::new()).unwrap();
    let scan = scan(&reader, &lanes).await;

    let (read, kept) = (end.txs.len(), ledger.lanes.iter().map(|rows| rows.intents.len()).sum::<usize>());
    if read != kept {
        world.violations().add("nothing", format!("is shown by {read} intents of the store, where the API has {kept}"));
    }
    for (promise, broken) in check_end_state(&end, &scan) {
        let lane = broken.lane.as_ref().map_or("", SubmitterId::as_str);
        world.violations().add(promise, format!("{lane}: {}", broken.what));
    }
}

/// The answers that hold: where a loss was declared and the request was asked for again, the later one.
fn acknowledged(
    told: &BTreeMap<String, Entry>,
    by_alias: &BTreeMap<&str, &SubmitterId>,
) -> Vec<(SubmitterId, RequestId, TxId)> {
    let answers = told.values().filter_map(|entry| Some((entry, entry.accepted.as_ref()?)));
    let answers = answers.map(|(entry, accepted)| {
        let lane = by_alias[entry.submitter.as_str()].clone();
        (lane, RequestId::restore(&accepted.request_id), accepted.tx_id.parse().unwrap())
    });
    answers.collect()
}

/// Every canonical block with what these lanes have sent in it. Whoever has their keys is one of our nodes.
async fn scan(chain: &EvmChain, lanes: &[SubmitterId]) -> Scan {
    let head = chain.head().await.unwrap().block.number;
    let mut canonical: Vec<ChainBlock> = Vec::new();
    for first in (0..=head).step_by(usize::try_from(BLOCKS).unwrap()) {
        let numbers = first..=head.min(first + BLOCKS - 1);
        let mut blocks: BTreeMap<u64, ChainBlock> = BTreeMap::new();
        for lane in lanes {
            for found in chain.sent_by(lane, numbers.clone()).await.unwrap() {
                let SentInBlock { link, sent } = found.expect("a block below the head is there");
                let (block, parent) = (link.block, link.parent_hash);
                let fresh = ChainBlock { block, parent, txs: Vec::new() };
                let known = blocks.entry(block.number).or_insert(fresh);
                assert_eq!((known.block, known.parent), (block, parent), "the chain has changed though all is healed");
                known.txs.extend(with_receipts(chain, sent).await);
            }
        }
        canonical.extend(blocks.into_values());
    }
    for pair in canonical.windows(2) {
        assert_eq!(pair[1].parent, pair[0].block.hash, "block {} is not linked", pair[1].block.number);
    }
    assert_eq!(canonical.len() as u64, head + 1, "a block is missing");
    // A block is its own first confirmation.
    Scan { canonical, final_number: (head + 1).saturating_sub(REQUIRED) }
}

async fn with_receipts(chain: &EvmChain, sent: Vec<SignedPlan>) -> Vec<ChainTx> {
    let hashes: Vec<_> = sent.iter().map(|sent| sent.signed.hash).collect();
    let receipts = chain.receipts(&hashes).await.unwrap();
    let with_receipt = |(read, receipt): (SignedPlan, Option<gapless_chain::Receipt>)| ChainTx {
        read,
        succeeded: receipt.expect("what is in a block has a receipt").succeeded,
        by_stranger: false,
    };
    sent.into_iter().zip(receipts).map(with_receipt).collect()
}
