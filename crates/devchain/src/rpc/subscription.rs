//! Subscriptions of one WebSocket connection.

use std::collections::BTreeMap;

use serde_json::Value;
use tokio::sync::broadcast::{self, error::RecvError};

use super::args::Args;
use super::connection::SubscriberLagged;
use super::message::{Answer, METHOD_NOT_FOUND_CODE, answer, notification};
use super::request::FilterRequest;
use super::server::RpcServer;
use super::shape;
use crate::block::{Block, ChainEvent};
use crate::endpoint::Endpoint;
use crate::error::{RpcError, SERVER_ERROR_CODE};
use crate::query::LogFilter;

#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    by_id: BTreeMap<String, SubscriptionKind>,
    /// Present only while a subscription exists. A receiver that is never read would fall behind.
    events: Option<broadcast::Receiver<ChainEvent>>,
}

#[derive(Debug)]
enum SubscriptionKind {
    NewHeads,
    Logs(LogFilter),
    /// Hashes, or full transactions.
    PendingTransactions {
        full: bool,
    },
}

impl Subscriptions {
    /// `eth_subscribe`
    pub(crate) fn open(&mut self, server: &RpcServer, endpoint: &Endpoint, params: Value) -> Result<Answer, RpcError> {
        let mut args = Args::new(params, 2)?;
        let name: String = args.required()?;
        let kind = match name.as_str() {
            "newHeads" => SubscriptionKind::NewHeads,
            "logs" => SubscriptionKind::Logs(args.optional::<FilterRequest>()?.unwrap_or_default().into_filter()?),
            "newPendingTransactions" => {
                SubscriptionKind::PendingTransactions { full: args.optional()?.unwrap_or(false) }
            }
            _ => {
                let text = format!("no \"{name}\" subscription in eth namespace");
                return Err(RpcError::new(METHOD_NOT_FOUND_CODE, text));
            }
        };
        let most = server.limits().subscriptions;
        if self.by_id.len() >= most {
            return Err(RpcError::new(SERVER_ERROR_CODE, format!("at most {most} subscriptions a connection")));
        }
        let id = server.next_subscription();
        let answered = answer(&id)?;
        self.events.get_or_insert_with(|| endpoint.subscribe());
        self.by_id.insert(id, kind);
        Ok(answered)
    }

    /// `eth_unsubscribe`
    pub(crate) fn close(&mut self, params: Value) -> Result<Answer, RpcError> {
        let id: String = Args::new(params, 1)?.required()?;
        if self.by_id.remove(&id).is_none() {
            return Err(RpcError::new(SERVER_ERROR_CODE, "subscription not found"));
        }
        if self.by_id.is_empty() {
            self.events = None;
        }
        answer(&true)
    }

    /// The next event. Pending while no subscription exists.
    pub(crate) async fn next(&mut self) -> Result<ChainEvent, SubscriberLagged> {
        match &mut self.events {
            None => std::future::pending().await,
            Some(events) => match events.recv().await {
                Ok(event) => Ok(event),
                Err(RecvError::Lagged(_)) => Err(SubscriberLagged),
                // The chain is gone, so no further event follows.
                Err(RecvError::Closed) => std::future::pending().await,
            },
        }
    }

    /// The notifications of an event.
    pub(crate) fn notifications(&self, event: &ChainEvent) -> Vec<String> {
        let mut texts = Vec::new();
        for (id, kind) in &self.by_id {
            match (kind, event) {
                (SubscriptionKind::NewHeads, ChainEvent::NewHead(block)) => {
                    texts.extend(text(id, &shape::header(block)))
                }
                (SubscriptionKind::Logs(filter), ChainEvent::NewHead(block)) => {
                    texts.extend(logs(id, filter, block, false))
                }
                (SubscriptionKind::Logs(filter), ChainEvent::Removed(block)) => {
                    texts.extend(logs(id, filter, block, true))
                }
                (SubscriptionKind::PendingTransactions { full: true }, ChainEvent::Pending(tx)) => {
                    texts.extend(text(id, &shape::pooled_transaction(tx)));
                }
                (SubscriptionKind::PendingTransactions { full: false }, ChainEvent::Pending(tx)) => {
                    texts.extend(text(id, &tx.hash))
                }
                _ => {}
            }
        }
        texts
    }
}

fn logs<'a>(id: &'a str, filter: &'a LogFilter, block: &'a Block, removed: bool) -> impl Iterator<Item = String> + 'a {
    let wanted = block.logs(removed).filter(|entry| filter.wants(&entry.log));
    wanted.filter_map(|entry| text(id, &shape::log(entry)))
}

fn text(id: &str, value: &impl serde::Serialize) -> Option<String> {
    answer(value).ok().map(|result| notification(id, &result))
}
