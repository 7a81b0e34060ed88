//! An RPC endpoint of the chain: a view of the shared blocks, with faults of its own.

use std::collections::BTreeMap;

use alloy_primitives::{B256, keccak256};
use tokio::sync::broadcast;

use crate::block::ChainEvent;
use crate::call_counter::CallCounter;
use crate::chain::DevChain;
use crate::error::{RpcError, SERVER_ERROR_CODE};
use crate::faults::{Fault, Faults, SEND_METHOD};
use crate::view::View;

/// The reason why a call has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallRefusal {
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// No answer. The caller does not know whether the call was executed.
    #[error("no answer")]
    TimedOut,
    #[error("connection lost")]
    Disconnected,
    #[error("HTTP {status}")]
    Http { status: u16, retry_after_secs: Option<u32>, body: String },
}

/// The result of a call that was not refused.
#[derive(Debug)]
pub enum Admission {
    /// The call reads from this view.
    View(View),
    /// The answer is `null` for any call.
    Null,
}

/// An endpoint. Clones are handles to the same endpoint, with the same faults.
#[derive(Clone, Debug)]
pub struct Endpoint {
    chain: DevChain,
    name: String,
    faults: Faults,
    calls: CallCounter,
}

impl Endpoint {
    pub(crate) fn new(chain: DevChain, name: &str, faults: Faults) -> Self {
        Self { chain, name: name.to_owned(), faults, calls: CallCounter::default() }
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

    /// Number of calls by method, including failed calls. Control methods are not counted.
    pub fn calls(&self) -> BTreeMap<String, u64> {
        self.calls.by_method()
    }

    /// Freezes the endpoint's head at the current block, even if a reorg removes that block. `false` ends the freeze.
    pub fn freeze_head(&self, stuck: bool) {
        let head = stuck.then(|| self.view().head().hash);
        self.faults.freeze_head_at(head);
    }

    /// Applies the faults to a call. Every call except a send begins here, and reads from the returned view.
    pub fn admit(&self, method: &str) -> Result<Admission, CallRefusal> {
        self.calls.count(method);
        if self.faults.is_dead() {
            return Err(CallRefusal::Disconnected);
        }
        match self.faults.fault_for(method) {
            Some(Fault::Null) => Ok(Admission::Null),
            Some(fault) => refusal_before(fault).map_or_else(|| Ok(Admission::View(self.view())), Err),
            None => Ok(Admission::View(self.view())),
        }
    }

    /// A view of the chain as this endpoint sees it. Fault rules do not apply; lag, hidden receipts and wrong answers
    /// do.
    pub fn view(&self) -> View {
        View::of_endpoint(self.chain.clone(), self.faults.clone())
    }

    /// `eth_sendRawTransaction` at this endpoint.
    pub fn send_raw(&self, raw: &[u8]) -> Result<B256, CallRefusal> {
        self.calls.count(SEND_METHOD);
        if self.faults.is_dead() {
            return Err(CallRefusal::Disconnected);
        }
        let Some(fault) = self.faults.fault_for(SEND_METHOD) else { return self.forward(raw) };
        match fault {
            // Bytes that cannot be decoded are refused, as on a real node: a fault does not make invalid bytes valid.
            Fault::Drop => Ok(crate::tx::Tx::decode(raw).map_err(RpcError::from)?.hash),
            Fault::DelayBlocks(blocks) => {
                let until = self.chain.view().head().number().saturating_add(blocks);
                self.chain
                    .send_delayed(raw, until)
                    .map_err(|error| RpcError::new(SERVER_ERROR_CODE, error.to_string()).into())
            }
            Fault::Duplicate => {
                self.forward(raw)?;
                self.forward(raw)
            }
            Fault::TimeOutAfter => {
                // The caller gets no answer, and so no error of the pool either.
                drop(self.forward(raw));
                Err(CallRefusal::TimedOut)
            }
            Fault::RefuseAfter { code, message } => {
                drop(self.forward(raw));
                Err(RpcError::new(code, message).into())
            }
            Fault::WrongHash => self.forward(raw).map(keccak256),
            before => refusal_before(before).map_or_else(|| self.forward(raw), Err),
        }
    }

    /// Subscribes to the chain's events. [`Self::visible_event`] maps an event to the one that this endpoint shows.
    pub fn subscribe(&self) -> broadcast::Receiver<ChainEvent> {
        self.chain.subscribe()
    }

    /// The event that a subscriber of this endpoint gets. A lagging endpoint shows the block that it has reached, and
    /// reports no removed blocks.
    pub fn visible_event(&self, event: ChainEvent) -> Option<ChainEvent> {
        let lag = self.faults.lag();
        match event {
            event if self.faults.is_dead() || self.faults.is_stuck() => {
                drop(event);
                None
            }
            event if lag == 0 => Some(event),
            ChainEvent::NewHead(block) => {
                let number = block.number().checked_sub(lag)?;
                self.chain.view().block(crate::BlockSelector::Number(number)).map(ChainEvent::NewHead)
            }
            ChainEvent::Removed(_) | ChainEvent::Pending(_) => None,
        }
    }

    fn forward(&self, raw: &[u8]) -> Result<B256, CallRefusal> {
        self.chain.send_raw(raw).map_err(|error| RpcError::from(error).into())
    }
}

/// The refusal of a fault that acts before the call is executed. `None` for all other faults.
fn refusal_before(fault: Fault) -> Option<CallRefusal> {
    match fault {
        Fault::TimeOutBefore => Some(CallRefusal::TimedOut),
        Fault::Refuse { code, message } => Some(RpcError::new(code, message).into()),
        Fault::Http { status, retry_after_secs, body } => Some(CallRefusal::Http { status, retry_after_secs, body }),
        Fault::Disconnect => Some(CallRefusal::Disconnected),
        Fault::Drop
        | Fault::DelayBlocks(_)
        | Fault::Duplicate
        | Fault::TimeOutAfter
        | Fault::RefuseAfter { .. }
        | Fault::WrongHash
        | Fault::Null => None,
    }
}
