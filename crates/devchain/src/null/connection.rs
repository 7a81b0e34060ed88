//! A connection to the null chain. With a latency, answers wait here concurrently.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::broadcast::{self, error::RecvError};
use tokio::time::Instant;

use super::block::NullBlock;
use super::{LIMITS, NullChain, clock, render};
use crate::error::{RpcError, SERVER_ERROR_CODE};
use crate::rpc::{
    EndpointError, METHOD_NOT_FOUND_CODE, RpcConnection, RpcLimits, RpcReply, RpcService, RpcTransport,
    SubscriberLagged,
};

#[derive(Debug)]
pub(crate) struct NullConnection {
    chain: NullChain,
    /// `None` over HTTP, which has no subscriptions.
    heads: Option<HeadSubscriptions>,
    /// Texts that wait for their time to be sent. All wait for the same duration, so they are in order.
    waiting: VecDeque<(Instant, String)>,
}

/// Subscriptions to new heads.
#[derive(Debug, Default)]
pub(super) struct HeadSubscriptions {
    ids: Vec<u64>,
    last_id: u64,
    /// Present only while a subscription exists.
    blocks: Option<broadcast::Receiver<Arc<NullBlock>>>,
}

impl RpcService for NullChain {
    type Connection = NullConnection;

    fn limits(&self) -> &RpcLimits {
        &LIMITS
    }

    /// All endpoint names lead to the same endpoint.
    fn connect(&self, _: &str, transport: RpcTransport) -> Result<NullConnection, EndpointError> {
        let heads = (transport == RpcTransport::Socket).then(HeadSubscriptions::default);
        Ok(NullConnection { chain: self.clone(), heads, waiting: VecDeque::new() })
    }
}

impl RpcConnection for NullConnection {
    fn is_dead(&self) -> bool {
        false
    }

    async fn answer(&mut self, text: &[u8]) -> RpcReply {
        let Some(answer) = self.chain.answer(text, self.heads.as_mut()) else { return RpcReply::Nothing };
        let latency = self.chain.shared.options.latency;
        if latency.is_zero() {
            return RpcReply::Text(answer);
        }
        let due = clock::due_after(latency);
        if self.heads.is_some() {
            self.waiting.push_back((due, answer));
            return RpcReply::Nothing;
        }
        clock::until(Some(due)).await;
        RpcReply::Text(answer)
    }

    async fn next_messages(&mut self) -> Result<Vec<String>, SubscriberLagged> {
        let latency = self.chain.shared.options.latency;
        let Some(heads) = &mut self.heads else { return std::future::pending().await };
        loop {
            let due = self.waiting.front().map(|(due, _)| *due);
            tokio::select! {
                () = clock::until(due) => {
                    return Ok(self.waiting.pop_front().map(|(_, text)| text).into_iter().collect());
                }
                block = heads.next() => {
                    let texts = heads.notifications(&*block?);
                    if latency.is_zero() {
                        return Ok(texts);
                    }
                    let due = clock::due_after(latency);
                    self.waiting.extend(texts.into_iter().map(|text| (due, text)));
                }
            }
        }
    }
}

impl HeadSubscriptions {
    pub(super) fn open(&mut self, chain: &NullChain, name: &str) -> Result<u64, RpcError> {
        if name != "newHeads" {
            let text = format!("no \"{name}\" subscription in eth namespace");
            return Err(RpcError::new(METHOD_NOT_FOUND_CODE, text));
        }
        let most = LIMITS.subscriptions;
        if self.ids.len() >= most {
            return Err(RpcError::new(SERVER_ERROR_CODE, format!("at most {most} subscriptions a connection")));
        }
        self.last_id += 1;
        self.ids.push(self.last_id);
        self.blocks.get_or_insert_with(|| chain.shared.heads.subscribe());
        Ok(self.last_id)
    }

    pub(super) fn close(&mut self, id: &str) -> Result<(), RpcError> {
        let before = self.ids.len();
        self.ids.retain(|known| render::quantity(*known) != id);
        if self.ids.len() == before {
            return Err(RpcError::new(SERVER_ERROR_CODE, "subscription not found"));
        }
        if self.ids.is_empty() {
            self.blocks = None;
        }
        Ok(())
    }

    async fn next(&mut self) -> Result<Arc<NullBlock>, SubscriberLagged> {
        match &mut self.blocks {
            None => std::future::pending().await,
            Some(blocks) => match blocks.recv().await {
                Ok(block) => Ok(block),
                Err(RecvError::Lagged(_)) => Err(SubscriberLagged),
                Err(RecvError::Closed) => std::future::pending().await,
            },
        }
    }

    fn notifications(&self, block: &NullBlock) -> Vec<String> {
        self.ids.iter().map(|id| render::new_head(*id, block)).collect()
    }
}
