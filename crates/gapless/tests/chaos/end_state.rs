//! The final check of the simulator, applied to this run: the store and the blocks are read by the product's own code.

use std::collections::BTreeMap;
use std::error::Error;

use gapless_chain::{ChainReader as _, Receipt, SentInBlock};
use gapless_chain_evm::{EvmChain, EvmChainOptions};
use gapless_domain::{ChainId, RequestId, SignedPlan, SubmitterId, TxId};
use gapless_sim::check::{Scan, check_end_state, read_end_state};
use gapless_sim::history::{ChainBlock, ChainTx};
use serde_json::json;

use crate::answers::CallerRequest;
use crate::cluster::{ChaosCluster, REQUIRED};
use crate::ledger::LedgerSnapshot;
use crate::support::{LONG, within};

/// Blocks that one call reads.
const BLOCKS: u64 = 500;

/// The reason why the check could not run.
type CheckError = Box<dyn Error + Send + Sync>;

/// Adds all violations of the simulator's check. A check that cannot run is a violation too; a panic would hide the
/// violations that were found before.
pub(crate) async fn check(cluster: &ChaosCluster, answers: &BTreeMap<String, CallerRequest>, ledger: &LedgerSnapshot) {
    if let Err(failure) = compare(cluster, answers, ledger).await {
        cluster.violations().add("check", format!("the simulator's check did not run: {failure}"));
    }
}

async fn compare(
    cluster: &ChaosCluster,
    answers: &BTreeMap<String, CallerRequest>,
    ledger: &LedgerSnapshot,
) -> Result<(), CheckError> {
    let chain_id = cluster.chain.call("eth_chainId", json!([])).await;
    let number = u64::from_str_radix(chain_id.as_str().unwrap_or_default().trim_start_matches("0x"), 16)?;
    let chain: ChainId = format!("eip155:{number}").parse()?;
    let lanes = ledger.lanes.iter().map(|rows| format!("{chain}:{}", rows.address).parse());
    let lanes: Vec<SubmitterId> = lanes.collect::<Result<_, _>>()?;
    let by_alias = ledger.lanes.iter().map(|rows| rows.submitter.as_str()).zip(&lanes).collect();

    let is_complete = async || {
        let is_complete = cluster.servers.is_stream_complete().await;
        cluster.statistics().add("read of an incomplete event stream at the end", usize::from(!is_complete));
        is_complete.then_some(())
    };
    if within(LONG, is_complete).await.is_none() {
        cluster.violations().add("P8", "the event stream does not return all events of its table");
    }
    let store = cluster.servers.store().await?;
    let end = read_end_state(&store, &lanes, acknowledged(answers, &by_alias)?, Vec::new()).await?;
    let endpoint = cluster.chain.url().parse()?;
    let reader = EvmChain::connect(EvmChainOptions::new(chain, vec![endpoint]))?;
    let scan = scan(&reader, &lanes).await?;

    let (read, kept) = (end.txs.len(), ledger.lanes.iter().map(|rows| rows.intents.len()).sum::<usize>());
    if read != kept {
        cluster.violations().add("check", format!("the store has {read} intents, and the API has {kept}"));
    }
    for (promise, broken) in check_end_state(&end, &scan) {
        let lane = broken.lane.as_ref().map_or("", SubmitterId::as_str);
        cluster.violations().add(promise, format!("{lane}: {}", broken.what));
    }
    if !cluster.violations().read().is_empty() {
        cluster.keep("intents", &end.txs);
        cluster.keep("stream", &end.events);
        cluster.keep("lanes", &end.lanes);
        cluster.keep("blocks", &scan.canonical);
    }
    Ok(())
}

/// The valid answers: after a declared loss, the answer to the repeated request.
fn acknowledged(
    answers: &BTreeMap<String, CallerRequest>,
    by_alias: &BTreeMap<&str, &SubmitterId>,
) -> Result<Vec<(SubmitterId, RequestId, TxId)>, CheckError> {
    let answers = answers.values().filter_map(|entry| Some((entry, entry.accepted.as_ref()?)));
    let answers = answers.map(|(entry, accepted)| {
        let lane = *by_alias.get(entry.submitter.as_str()).ok_or("an answer names an unknown lane")?;
        Ok((lane.clone(), RequestId::restore(&accepted.request_id), accepted.tx_id.parse()?))
    });
    answers.collect()
}

/// All canonical blocks with the transactions of these lanes. Only the nodes have the keys.
async fn scan(chain: &EvmChain, lanes: &[SubmitterId]) -> Result<Scan, CheckError> {
    let head = chain.head().await?.block.number;
    let mut canonical: Vec<ChainBlock> = Vec::new();
    for first in (0..=head).step_by(BLOCKS as usize) {
        let numbers = first..=head.min(first + BLOCKS - 1);
        let mut blocks: BTreeMap<u64, ChainBlock> = BTreeMap::new();
        for lane in lanes {
            for found in chain.sent_by(lane, numbers.clone()).await? {
                let SentInBlock { link, sent } = found.ok_or("a block below the head is missing")?;
                let (block, parent) = (link.block, link.parent_hash);
                let fresh = ChainBlock { block, parent, txs: Vec::new() };
                let known = blocks.entry(block.number).or_insert(fresh);
                if (known.block, known.parent) != (block, parent) {
                    return Err(format!("block {} has changed after all faults healed", block.number).into());
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
    // The block itself is the first confirmation.
    Ok(Scan { canonical, final_number: (head + 1).saturating_sub(REQUIRED) })
}

async fn with_receipts(chain: &EvmChain, sent: Vec<SignedPlan>) -> Result<Vec<ChainTx>, CheckError> {
    let hashes: Vec<_> = sent.iter().map(|sent| sent.signed.hash).collect();
    let receipts = chain.receipts(&hashes).await?;
    let with_receipt = |(read, receipt): (SignedPlan, Option<Receipt>)| {
        let succeeded = receipt.ok_or("a mined transaction has no receipt")?.succeeded;
        Ok(ChainTx { read, succeeded, by_stranger: false })
    };
    sent.into_iter().zip(receipts).map(with_receipt).collect()
}
