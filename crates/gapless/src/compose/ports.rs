//! The engine as the API sees it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use gapless_api::{ChainInfo, Chains, ChangeHints, HeadInfo};
use gapless_chain::{Chain, UnreadableTx};
use gapless_chain_evm::authority;
use gapless_domain::{
    AccountFacts, Address, Authorization, Bytes, ChainId, NoncePolicy, Outline, Protection, SignedPlan, SubmitterId,
    TxId,
};
use gapless_engine::{ChainStatus, EngineView, Finality};
use gapless_wire::FinalityName;

#[derive(Clone, Debug)]
pub(crate) struct EnginePorts {
    pub(crate) view: Arc<EngineView>,
    /// In the order of the config.
    pub(crate) chains: Vec<Arc<dyn Chain>>,
    /// The nonce policy of each submitter of the config.
    pub(crate) lanes: HashMap<SubmitterId, NoncePolicy>,
}

impl ChangeHints for EnginePorts {
    fn changed(&self, submitter: &SubmitterId, _id: TxId, _version: u32) -> BoxFuture<'static, ()> {
        Box::pin(self.view.changes().waiter(submitter).listen())
    }

    fn lane_changed(&self, submitter: &SubmitterId) -> BoxFuture<'static, ()> {
        Box::pin(self.view.changes().waiter(submitter).listen())
    }
}

impl Chains for EnginePorts {
    fn all(&self) -> Vec<ChainInfo> {
        self.chains.iter().filter_map(|chain| self.one(chain.id())).collect()
    }

    fn one(&self, chain: &ChainId) -> Option<ChainInfo> {
        let (finality, required_confirmations) = self.view.finality(chain)?;
        let load = self.view.chain_load(chain)?;
        let status = self.view.chain_status(chain);
        let status = status.as_ref();
        Some(ChainInfo {
            id: chain.clone(),
            head: status.map(|status| self.head_of(status)),
            final_block: status.and_then(|status| status.final_block),
            finality: finality_name(finality),
            required_confirmations,
            block_time: status.and_then(|status| status.block_time_ms).map(Duration::from_millis),
            trouble: status.and_then(ChainStatus::broken).cloned(),
            open_hashes: load.open_hashes,
            lanes: load.lanes,
            endpoints: self.view.endpoints(chain),
        })
    }

    fn head(&self, chain: &ChainId) -> Option<HeadInfo> {
        self.view.chain_status(chain).map(|status| self.head_of(&status))
    }

    fn trouble(&self, chain: &ChainId) -> Option<Protection> {
        self.view.chain_status(chain)?.broken().cloned()
    }

    fn account(&self, submitter: &SubmitterId) -> BoxFuture<'_, Option<AccountFacts>> {
        let submitter = submitter.clone();
        Box::pin(async move { self.view.account(&submitter).await })
    }

    fn read_signed(&self, chain: &ChainId, raw: &Bytes) -> Option<Result<SignedPlan, UnreadableTx>> {
        self.chains.iter().find(|known| known.id() == chain).map(|known| known.read_signed(raw))
    }

    fn outline(&self, chain: &ChainId, raw: &Bytes) -> Option<Outline> {
        self.chains.iter().find(|known| known.id() == chain)?.outline(raw)
    }

    fn authority(&self, authorization: &Authorization) -> Option<Address> {
        authority(authorization)
    }

    fn nonce_policy(&self, submitter: &SubmitterId) -> Option<NoncePolicy> {
        self.lanes.get(submitter).cloned()
    }
}

impl EnginePorts {
    fn head_of(&self, status: &ChainStatus) -> HeadInfo {
        HeadInfo { block: status.head, age: self.view.head_age(status) }
    }
}

fn finality_name(finality: Finality) -> FinalityName {
    match finality {
        Finality::Depth => FinalityName::Depth,
        Finality::Safe => FinalityName::Safe,
        Finality::Finalized => FinalityName::Finalized,
    }
}
