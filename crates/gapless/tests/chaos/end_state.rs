//! The same end once more, by the simulator's own words: the store is read as a node reads it, the chain as the product reads blocks, and
//! both are judged by the check that judges simulated worlds.

use std::collections::BTreeMap;
use std::error::Error;

use gapless_chain::{Chain as _, Receipt, SentInBlock};
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

/// Why this could not be looked at.
type Failure = Box<dyn Error + Send + Sync>;

/// Nobody is excused, and nothing that is found is left out. What cannot be looked at is a violation too: a panic here would hide what was
/// found before.
pub(crate) async fn check(world: &World, told: &BTreeMap<String, Entry>, ledger: &Ledger) {
    if let Err(failure) = compare(world, told, ledger).await {
        world.violations().add("nothing", format!("is shown by the simulator's check: {failure}"));
    }
}

async fn compare(world: &World, told: &BTreeMap<String, Entry>, ledger: &Ledger) -> Result<(), Failure> {
    let chain_id = world.chain.call("eth_chainId", json!([])).await;
    let number = u64::from_str_radix(chain_id.as_str().unwrap_or_default().trim_start_matches("0x"), 16)?;
    let chain: ChainId = format!("eip155:{number}").parse()?;
    let lanes = ledger.lanes.iter().map(|rows| format!("{chain}:{}", rows.address).parse());
    let lanes: Vec<SubmitterId> = lanes.collect::<Result<_, _>>()?;
    let by_alias = ledger.lanes.iter().map(|rows| rows.submitter.as_str()).zip(&lanes).collect();

    let is_whole = async || {
        let is_whole = world.servers.stream_is_whole().await;
        world.figures().add("look at a stream that was held back in the end", usize::from(!is_whole));
        is_whole.then_some(())
    };
    if within(LONG, is_whole).await.is_none() {
        world.violations().add("P8", "what is in the stream's table can still not be read from the stream");
    }
    let store = world.servers.store().await?;
    let end = read_end_state(&store, &lanes, acknowledged(told, &by_alias)?, Vec::new()).await?;
    let endpoint = world.chain.url().parse()?;
    let reader = EvmChain::connect(EvmChainOptions::new(chain, vec![endpoint]), Vec::new())?;
    let scan = scan(&reader, &lanes).await?;

    let (read, kept) = (end.txs.len(), ledger.lanes.iter().map(|rows| rows.intents.len()).sum::<usize>());
    if read != kept {
        world.violations().add("nothing", format!("is shown by {read} intents of the store, where the API has {kept}"));
    }
    for (promise, broken) in check_end_state(&end, &scan) {
        let lane = broken.lane.as_ref().map_or("", SubmitterId::as_str);
        world.violations().add(promise, format!("{lane}: {}", broken.what));
    }
    if !world.violations().read().is_empty() {
        world.keep("intents", &end.txs);
        world.keep("stream", &end.events);
        world.keep("lanes", &end.lanes);
        world.keep("blocks", &scan.canonical);
    }
    Ok(())
}

/// The answers that hold: where a loss was declared and the request was asked for again, the later one.
fn acknowledged(
    told: &BTreeMap<String, Entry>,
    by_alias: &BTreeMap<&str, &SubmitterId>,
) -> Result<Vec<(SubmitterId, RequestId, TxId)>, Failure> {
    let answers = told.values().filter_map(|entry| Some((entry, entry.accepted.as_ref()?)));
    let answers = answers.map(|(entry, accepted)| {
        let lane =
            *by_alias.get(entry.submitter.as_str()).ok_or("somebody was answered for a lane that is not there")?;
        Ok((lane.clone(), RequestId::restore(&accepted.request_id), accepted.tx_id.parse()?))
    });
    answers.collect()
}

/// Every canonical block with what these lanes have sent in it. Whoever has their keys is one of our nodes.
async fn scan(chain: &EvmChain, lanes: &[SubmitterId]) -> Result<Scan, Failure> {
    let head = chain.head().await?.block.number;
    let mut canonical: Vec<ChainBlock> = Vec::new();
    for first in (0..=head).step_by(BLOCKS as usize) {
        let numbers = first..=head.min(first + BLOCKS - 1);
        let mut blocks: BTreeMap<u64, ChainBlock> = BTreeMap::new();
        for lane in lanes {
            for found in chain.sent_by(lane, numbers.clone()).await? {
                let SentInBlock { link, sent } = found.ok_or("a block below the head is not there")?;
                let (block, parent) = (link.block, link.parent_hash);
                let fresh = ChainBlock { block, parent, txs: Vec::new() };
                let known = blocks.entry(block.number).or_insert(fresh);
                if (known.block, known.parent) != (block, parent) {
                    return Err(format!("block {} has changed though all is healed", block.number).into());
                }
                known.txs.extend(with_receipts(chain, sent).await?);
            }
        }
        canonical.extend(blocks.into_values());
    }
    if let Some(pair) = canonical.windows(2).find(|pair| pair[1].parent != pair[0].block.hash) {
        return Err(format!("block {} is not linked to the one before", pair[1].block.number).into());
    }
    if canonical.len() as u64 != head + 1 {
        return Err(format!("the chain has {} blocks, and its head is {head}", canonical.len()).into());
    }
    // A block is its own first confirmation.
    Ok(Scan { canonical, final_number: (head + 1).saturating_sub(REQUIRED) })
}

async fn with_receipts(chain: &EvmChain, sent: Vec<SignedPlan>) -> Result<Vec<ChainTx>, Failure> {
    let hashes: Vec<_> = sent.iter().map(|sent| sent.signed.hash).collect();
    let receipts = chain.receipts(&hashes).await?;
    let with_receipt = |(read, receipt): (SignedPlan, Option<Receipt>)| {
        let succeeded = receipt.ok_or("what is in a block has no receipt")?.succeeded;
        Ok(ChainTx { read, succeeded, by_stranger: false })
    };
    sent.into_iter().zip(receipts).map(with_receipt).collect()
}
