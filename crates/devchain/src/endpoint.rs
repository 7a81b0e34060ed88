//! One node's face of the chain: the same blocks as everybody's, with this node's faults.

use std::collections::BTreeMap;

use alloy_primitives::{B256, keccak256};
use tokio::sync::broadcast;

use crate::block::ChainEvent;
use crate::calls::Calls;
use crate::chain::DevChain;
use crate::error::{RpcError, SERVER_ERROR_CODE};
use crate::faults::{Fault, Faults, SEND_METHOD};
use crate::view::View;

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// Nothing comes back. Whether the call did its work is not known to the caller.
    #[error("no answer")]
    TimedOut,
    #[error("connection lost")]
    Disconnected,
    #[error("HTTP {status}")]
    Http { status: u16, retry_after_secs: Option<u32>, body: String },
}

/// What a call that may be made gets.
#[derive(Debug)]
pub enum Admitted {
    /// Read from here.
    View(View),
    /// Answer `null`, whatever the question is.
    Null,
}

/// An endpoint. Clones are handles onto the same one, with the same faults.
#[derive(Clone, Debug)]
pub struct Endpoint {
    chain: DevChain,
    name: String,
    faults: Faults,
    calls: Calls,
}

impl Endpoint {
    pub(crate) fn new(chain: DevChain, name: &str, faults: Faults) -> Self {
        Self { chain, name: name.to_owned(), faults, calls: Calls::default() }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn chain(&self) -> &DevChain {
        &self.chain
    }

    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// How often each method was called here so far, also by calls that went wrong. Control is not counted.
    pub fn calls(&self) -> BTreeMap<String, u64> {
        self.calls.by_method()
    }

    /// The endpoint's head stays where it is, even when the chain gives that block up; or it goes on.
    pub fn stick(&self, stuck: bool) {
        let head = stuck.then(|| self.view().head().hash);
        self.faults.stick_at(head);
    }

    /// Lets a call through, or has it go wrong. Every call but a send begins with this, and reads from the view that it gets.
    pub fn admit(&self, method: &str) -> Result<Admitted, Refusal> {
        self.calls.count(method);
        if self.faults.is_dead() {
            return Err(Refusal::Disconnected);
        }
        match self.faults.strike(method) {
            Some(Fault::Null) => Ok(Admitted::Null),
            Some(fault) => refusal_before(fault).map_or_else(|| Ok(Admitted::View(self.view())), Err),
            None => Ok(Admitted::View(self.view())),
        }
    }

    /// Reads as this endpoint sees the chain, past the rules of the switchboard: only lag, hidden receipts and lies apply.
    pub fn view(&self) -> View {
        View::of_endpoint(self.chain.clone(), self.faults.clone())
    }

    /// `eth_sendRawTransaction` at this endpoint.
    pub fn send_raw(&self, raw: &[u8]) -> Result<B256, Refusal> {
        self.calls.count(SEND_METHOD);
        if self.faults.is_dead() {
            return Err(Refusal::Disconnected);
        }
        let Some(fault) = self.faults.strike(SEND_METHOD) else { return self.pass_on(raw) };
        match fault {
            // Bytes that no node would take are not taken here either: a fault does not make garbage a transaction.
            Fault::Drop => Ok(crate::tx::Tx::decode(raw).map_err(RpcError::from)?.hash),
            Fault::DelayBlocks(blocks) => {
                let until = self.chain.view().head().number().saturating_add(blocks);
                self.chain
                    .send_delayed(raw, until)
                    .map_err(|error| RpcError::new(SERVER_ERROR_CODE, error.to_string()).into())
            }
            Fault::Duplicate => {
                self.pass_on(raw)?;
                self.pass_on(raw)
            }
            Fault::TimeOutAfter => {
                // The caller hears nothing, and so does not hear a refusal of the pool either.
                drop(self.pass_on(raw));
                Err(Refusal::TimedOut)
            }
            Fault::RefuseAfter { code, message } => {
                drop(self.pass_on(raw));
                Err(RpcError::new(code, message).into())
            }
            Fault::WrongHash => self.pass_on(raw).map(keccak256),
            before => refusal_before(before).map_or_else(|| self.pass_on(raw), Err),
        }
    }

    /// What happens from now on, as this endpoint tells it; [`Self::seen`] turns it into what it shows.
    pub fn subscribe(&self) -> broadcast::Receiver<ChainEvent> {
        self.chain.subscribe()
    }

    /// What a subscriber of this endpoint sees of an event: one that lags shows the block that it has come to, and keeps blocks
    /// that it never showed to itself when they are taken back.
    pub fn seen(&self, event: ChainEvent) -> Option<ChainEvent> {
        let lag = self.faults.lag();
        match event {
            event if self.faults.is_dead() || self.faults.is_stuck() => {
                drop(event);
                None
            }
            event if lag == 0 => Some(event),
            ChainEvent::NewHead(block) => {
                let number = block.number().checked_sub(lag)?;
                self.chain.view().block(crate::At::Number(number)).map(ChainEvent::NewHead)
            }
            ChainEvent::Removed(_) | ChainEvent::Pending(_) => None,
        }
    }

    fn pass_on(&self, raw: &[u8]) -> Result<B256, Refusal> {
        self.chain.send_raw(raw).map_err(|error| RpcError::from(error).into())
    }
}

/// The faults that strike before anything is done; `None` for the others.
fn refusal_before(fault: Fault) -> Option<Refusal> {
    match fault {
        Fault::TimeOutBefore => Some(Refusal::TimedOut),
        Fault::Refuse { code, message } => Some(RpcError::new(code, message).into()),
        Fault::Http { status, retry_after_secs, body } => Some(Refusal::Http { status, retry_after_secs, body }),
        Fault::Disconnect => Some(Refusal::Disconnected),
        Fault::Drop
        | Fault::DelayBlocks(_)
        | Fault::Duplicate
        | Fault::TimeOutAfter
        | Fault::RefuseAfter { .. }
        | Fault::WrongHash
        | Fault::Null => None,
    }
}
