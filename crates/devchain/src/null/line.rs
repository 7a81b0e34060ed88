//! A connection to the null chain. With a latency, answers wait here concurrently.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::broadcast::{self, error::RecvError};
use tokio::time::Instant;

use super::block::Block;
use super::{LIMITS, NullChain, clock, render};
use crate::error::{RpcError, SERVER_ERROR_CODE};
use crate::rpc::{EndpointError, FellBehind, Line, METHOD_NOT_FOUND_CODE, Reply, Road, RpcLimits, Served};

#[derive(Debug)]
pub(crate) struct NullLine {
    chain: NullChain,
    /// `None` over HTTP, which has no subscriptions.
    heads: Option<Heads>,
    /// Texts that wait for their time to be sent. All wait for the same duration, so they are in order.
    waiting: VecDeque<(Instant, String)>,
}

/// Subscriptions to new heads.
#[derive(Debug, Default)]
pub(super) struct Heads {
    ids: Vec<u64>,
    last_id: u64,
    /// Present only while a subscription exists.
    blocks: Option<broadcast::Receiver<Arc<Block>>>,
}

impl Served for NullChain {
    type Line = NullLine;

    fn limits(&self) -> &RpcLimits {
        &LIMITS
    }

    /// All endpoint names lead to the same endpoint.
    fn line(&self, _: &str, road: Road) -> Result<NullLine, EndpointError> {
        let heads = (road == Road::Socket).then(Heads::default);
        Ok(NullLine { chain: self.clone(), heads, waiting: VecDeque::new() })
    }
}

impl Line for NullLine {
    fn is_dead(&self) -> bool {
        false
    }

    async fn answer(&mut self, text: &[u8]) -> Reply {
        let Some(answer) = self.chain.answer(text, self.heads.as_mut()) else { return Reply::Nothing };
        let latency = self.chain.shared.options.latency;
        if latency.is_zero() {
            return Reply::Text(answer);
        }
        let due = clock::due_after(latency);
        if self.heads.is_some() {
            self.waiting.push_back((due, answer));
            return Reply::Nothing;
        }
        clock::until(Some(due)).await;
        Reply::Text(answer)
    }

    async fn news(&mut self) -> Result<Vec<String>, FellBehind> {
        let latency = self.chain.shared.options.latency;
        let Some(heads) = &mut self.heads else { return std::future::pending().await };
        loop {
            let due = self.waiting.front().map(|(due, _)| *due);
            tokio::select! {
                () = clock::until(due) => return Ok(self.waiting.pop_front().map(|(_, text)| text).into_iter().collect()),
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

impl Heads {
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

    async fn next(&mut self) -> Result<Arc<Block>, FellBehind> {
        match &mut self.blocks {
            None => std::future::pending().await,
            Some(blocks) => match blocks.recv().await {
                Ok(block) => Ok(block),
                Err(RecvError::Lagged(_)) => Err(FellBehind),
                Err(RecvError::Closed) => std::future::pending().await,
            },
        }
    }

    fn notifications(&self, block: &Block) -> Vec<String> {
        self.ids.iter().map(|id| render::new_head(*id, block)).collect()
    }
}
