//! What the API asks of the engine.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use gapless_api::{ChainInfo, Chains, Changes, EndpointInfo, HeadInfo};
use gapless_domain::{Amount, ChainId, SubmitterId, TxId};
use gapless_engine::EngineView;

#[derive(Clone, Debug)]
pub(crate) struct EnginePorts {
    pub(crate) view: Arc<EngineView>,
    /// In the order of the config.
    pub(crate) chains: Vec<ChainId>,
}

impl Changes for EnginePorts {
    fn changed(&self, submitter: &SubmitterId, _id: TxId, _version: u32) -> BoxFuture<'static, ()> {
        Box::pin(self.view.changes().waiter(submitter).listen())
    }

    fn lane_changed(&self, submitter: &SubmitterId) -> BoxFuture<'static, ()> {
        Box::pin(self.view.changes().waiter(submitter).listen())
    }
}

impl Chains for EnginePorts {
    fn all(&self) -> Vec<ChainInfo> {
        self.chains.iter().map(|id| self.info(id)).collect()
    }

    fn head_number(&self, chain: &ChainId) -> Option<u64> {
        self.view.chain_status(chain).map(|status| status.head.block.number)
    }

    fn balance(&self, submitter: &SubmitterId) -> Option<Amount> {
        self.view.balance(submitter)
    }
}

impl EnginePorts {
    fn info(&self, id: &ChainId) -> ChainInfo {
        let status = self.view.chain_status(id);
        let head = status.as_ref().map(|status| {
            let block = status.head.block;
            HeadInfo { number: block.number, hash: block.hash, age: self.view.head_age(status) }
        });
        let endpoints = self.view.endpoints(id).into_iter().map(|endpoint| EndpointInfo {
            name: endpoint.name,
            healthy: endpoint.healthy,
            head_number: endpoint.head,
        });
        let final_number = status.map(|status| status.final_block.number);
        ChainInfo { id: id.clone(), head, final_number, endpoints: endpoints.collect() }
    }
}
