//! [`EvmChain`]: the [`Chain`] contract for EVM chains.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use alloy_primitives::{Address, B256, Bytes};
use async_trait::async_trait;
use gapless_chain::{
    AccountView, Chain, ChainError, ChainPricer, ChainReader, ChainSender, EndpointStatus, FeeQuote, Header, HeaderAt,
    Receipt, Revert, SendAnswer, SentInBlock, UnreadableTx, Wanted,
};
use gapless_domain::{
    Action, Amount, BlockRef, ChainId, ChainRules, DiagnoseRequest, EvmCall, EvmRules, MempoolSignal, Outline,
    SignedPlan, SignedTx, SubmitterId, Work,
};
use tokio::sync::watch;

use crate::broadcast::{SendSettings, broadcast};
use crate::classify::Classifier;
use crate::endpoint::{Endpoint, EndpointParts, EndpointSettings, SharedState};
use crate::endpoints::{Endpoints, LagLimits, failed};
use crate::estimates::Estimates;
use crate::fees::{FeeOptions, Rollup};
use crate::gas_margin::GasMargin;
use crate::mempool;
use crate::options::{ConnectError, EndpointOptions, EvmChainOptions, SendTo};
use crate::read::RevertSource;
use crate::rpc::{self, HeadListener, HttpTransport, Transport, WebSocketTransport};
use crate::surcharge::DataFees;
use crate::{fees, read, transaction};

/// A whole broadcast may take this many time-outs: for the check of an endpoint, for the send, and for a substitute.
const SEND_TIMEOUTS: u32 = 3;

/// One EVM chain. Its tasks end when it is dropped.
pub struct EvmChain {
    id: ChainId,
    number: u64,
    sending: SendSettings,
    endpoints: Endpoints,
    pricing: FeeOptions,
    data_fees: DataFees,
    estimates: Estimates,
    gas_margin: GasMargin,
    heads: HeadNotifications,
}

/// Counts the head notifications of WebSockets.
#[derive(Debug)]
struct HeadNotifications {
    count: Arc<watch::Sender<u64>>,
    /// The count that `head_changed` has returned for. Notifications between two calls are not lost.
    seen: AtomicU64,
    /// At least one endpoint is a WebSocket.
    has_source: bool,
}

impl EvmChain {
    /// The limit of headers in one request of a caller.
    pub const MAX_HEADERS: u64 = 10_000;
    /// The limit of whole blocks in one request of a caller.
    pub const MAX_BLOCKS: u64 = 1_000;

    /// Creates the chain. No endpoint has to be up: endpoints are checked when they are first needed, and again after
    /// an outage. A chain with a WebSocket endpoint has to be created inside a tokio runtime.
    pub fn connect(options: EvmChainOptions) -> Result<Self, ConnectError> {
        options.validate()?;
        let number = options.id.evm_number().ok_or_else(|| ConnectError::NotEvm(options.id.clone()))?;
        let needs_tls = options.rpc.iter().any(|endpoint| matches!(endpoint.url.scheme(), "https" | "wss"));
        let tls = rpc::client_config(needs_tls).map_err(|error| ConnectError::Tls(error.to_string()))?;
        let settings = Arc::new(EndpointSettings {
            chain: options.id.clone(),
            chain_number: number,
            timeout: options.rpc_timeout,
            batch_max: options.batch_max,
            blocks_max: options.blocks_max,
            classifier: Classifier::new(options.overrides.clone())?,
        });
        let count = Arc::new(watch::Sender::new(0));
        let mut list = Vec::with_capacity(options.rpc.len());
        let mut has_source = false;
        for (index, EndpointOptions { url, weight }) in options.rpc.iter().enumerate() {
            let state = Arc::new(SharedState::default());
            let transport = if matches!(url.scheme(), "ws" | "wss") {
                tokio::runtime::Handle::try_current().map_err(|_| ConnectError::NoRuntime)?;
                has_source = true;
                let on_head = head_listener(Arc::clone(&count), Arc::clone(&state));
                let timeout = options.rpc_timeout;
                Transport::WebSocket(WebSocketTransport::open(url.clone(), Arc::clone(&tls), timeout, on_head))
            } else {
                Transport::Http(Box::new(HttpTransport::new(url, &tls, options.rpc_timeout)?))
            };
            let parts = EndpointParts {
                name: name_of(&options.rpc, index),
                weight: *weight,
                url: url.clone(),
                transport,
                max_in_flight: options.rpc_max_in_flight,
                state,
            };
            list.push(Arc::new(Endpoint::new(Arc::clone(&settings), parts)));
        }
        let max_endpoints = match options.send_to {
            SendTo::All => usize::MAX,
            SendTo::Best(count) => count,
        };
        let sending = SendSettings { max_endpoints, timeout: options.rpc_timeout.saturating_mul(SEND_TIMEOUTS) };
        let lag = LagLimits { lag_max: options.lag_max, head_age_max: options.head_age_max };
        Ok(EvmChain {
            id: options.id,
            number,
            sending,
            endpoints: Endpoints::new(list, lag),
            estimates: Estimates::new(options.fees.rollup == Rollup::Arbitrum),
            gas_margin: options.gas_margin,
            pricing: options.fees,
            data_fees: DataFees::default(),
            heads: HeadNotifications { count, seen: AtomicU64::new(0), has_source },
        })
    }

    fn address_of(&self, submitter: &SubmitterId) -> Result<Address, ChainError> {
        let own = submitter.evm_address().filter(|_| *submitter.chain() == self.id);
        own.ok_or_else(|| failed("the submitter belongs to another chain"))
    }
}

/// Host and port. Endpoints with the same host and port are numbered from the second on.
fn name_of(endpoints: &[EndpointOptions], index: usize) -> String {
    let Some(own) = endpoints.get(index).map(|endpoint| endpoint.url.name()) else { return String::new() };
    match endpoints.iter().take(index).filter(|other| other.url.name() == own).count() {
        0 => own.to_owned(),
        before => format!("{own}#{}", before + 1),
    }
}

fn head_listener(count: Arc<watch::Sender<u64>>, state: Arc<SharedState>) -> HeadListener {
    Arc::new(move |number| {
        if let Some(number) = number {
            state.note_subscribed_head(number);
        }
        count.send_modify(|count| *count += 1);
    })
}

#[async_trait]
impl ChainReader for EvmChain {
    fn id(&self) -> &ChainId {
        &self.id
    }

    async fn head(&self) -> Result<Header, ChainError> {
        self.endpoints.head().await
    }

    async fn header(&self, at: HeaderAt) -> Result<Option<Header>, ChainError> {
        match at {
            HeaderAt::Hash(_) => self.endpoints.find(|endpoint| async move { read::header(&endpoint, at).await }).await,
            HeaderAt::Number(_) | HeaderAt::Safe | HeaderAt::Finalized => {
                self.endpoints.read(|endpoint| async move { read::header(&endpoint, at).await }).await
            }
        }
    }

    async fn headers(&self, numbers: RangeInclusive<u64>) -> Result<Vec<Option<Header>>, ChainError> {
        let Some(span) = numbers.end().checked_sub(*numbers.start()) else { return Ok(Vec::new()) };
        if span >= Self::MAX_HEADERS {
            return Err(failed("too many headers in one request"));
        }
        let numbers = &numbers;
        self.endpoints.read(|endpoint| async move { read::headers(&endpoint, numbers.clone()).await }).await
    }

    async fn block_receipts(&self, block: BlockRef, wanted: &Wanted<'_>) -> Result<Option<Vec<Receipt>>, ChainError> {
        self.endpoints.find(|endpoint| async move { read::block_receipts(&endpoint, block, wanted).await }).await
    }

    async fn receipts(&self, hashes: &[B256]) -> Result<Vec<Option<Receipt>>, ChainError> {
        if hashes.is_empty() {
            return Ok(Vec::new());
        }
        self.endpoints.read(|endpoint| async move { read::receipts(&endpoint, hashes).await }).await
    }

    async fn reverts(&self, hashes: &[B256]) -> Result<Vec<Option<Revert>>, ChainError> {
        let ask = |from: RevertSource| {
            move |endpoint: Arc<Endpoint>, list: Vec<B256>| async move { read::reverts(&endpoint, &list, from).await }
        };
        // A guess of one endpoint must not win over the knowledge of another one.
        let mut found: Vec<Option<Revert>> = self.endpoints.find_each(hashes, ask(RevertSource::Recorded)).await?;
        let (open, rest): (Vec<usize>, Vec<B256>) =
            hashes.iter().enumerate().filter(|(at, _)| matches!(found.get(*at), Some(None))).unzip();
        // A failed guess does not discard the reasons that were found.
        let guessed = self.endpoints.find_each(&rest, ask(RevertSource::Replayed)).await.unwrap_or_default();
        for (at, guess) in open.into_iter().zip(guessed) {
            if let Some(slot) = found.get_mut(at) {
                *slot = guess;
            }
        }
        Ok(found)
    }

    async fn sent_by(
        &self,
        account: &SubmitterId,
        numbers: RangeInclusive<u64>,
    ) -> Result<Vec<Option<SentInBlock>>, ChainError> {
        let sender = self.address_of(account)?;
        let Some(span) = numbers.end().checked_sub(*numbers.start()) else { return Ok(Vec::new()) };
        if span >= Self::MAX_BLOCKS {
            return Err(failed("too many blocks in one request"));
        }
        let numbers = &numbers;
        self.endpoints.read(|endpoint| async move { read::sent_by(&endpoint, sender, numbers.clone()).await }).await
    }

    async fn accounts(
        &self,
        accounts: &[SubmitterId],
        final_at: Option<BlockRef>,
    ) -> Result<Vec<AccountView>, ChainError> {
        if accounts.is_empty() {
            return Ok(Vec::new());
        }
        let addresses: Vec<Address> =
            accounts.iter().map(|account| self.address_of(account)).collect::<Result<_, _>>()?;
        let addresses = addresses.as_slice();
        self.endpoints.read(|endpoint| async move { read::accounts(&endpoint, addresses, final_at).await }).await
    }

    async fn head_changed(&self) {
        if !self.heads.has_source {
            return std::future::pending().await;
        }
        let seen = self.heads.seen.load(Ordering::Acquire);
        let mut counts = self.heads.count.subscribe();
        // The sender lives as long as the chain.
        if let Ok(count) = counts.wait_for(|count| *count != seen).await {
            self.heads.seen.store(*count, Ordering::Release);
        }
    }

    fn endpoints(&self) -> Vec<EndpointStatus> {
        self.endpoints.statuses()
    }
}

#[async_trait]
impl ChainPricer for EvmChain {
    async fn measure(&self, from: &SubmitterId, actions: &[&Action], at: BlockRef) -> Vec<Result<Work, ChainError>> {
        let calls: Vec<&EvmCall> = actions.iter().map(|Action::Evm(call)| call).collect();
        let estimates = match self.address_of(from) {
            Ok(from) => self.estimates.of(&self.endpoints, from, &calls, at).await,
            Err(error) => vec![Err(error); calls.len()],
        };
        estimates.into_iter().map(|estimate| estimate.map(|gas| self.gas_margin.limit(gas))).collect()
    }

    async fn quote(&self) -> Result<FeeQuote, ChainError> {
        let market = self.endpoints.read(|endpoint| async move { read::market(&endpoint).await }).await?;
        let quote = fees::quote(&market, &self.pricing);
        quote.ok_or_else(|| failed("the chain has no base fee and the endpoint returned no gas price"))
    }

    async fn surcharge(&self, action: &Action, _work: Work) -> Result<Amount, ChainError> {
        let Action::Evm(call) = action;
        match self.pricing.rollup {
            Rollup::None | Rollup::Arbitrum => Ok(Amount::ZERO),
            Rollup::Optimism => {
                let size = transaction::unsigned_size(call, self.number);
                self.data_fees.of(&self.endpoints, size).await.map(Amount::new)
            }
        }
    }
}

#[async_trait]
impl ChainSender for EvmChain {
    async fn broadcast(&self, txs: &[SignedTx]) -> Vec<SendAnswer> {
        broadcast(&self.endpoints, &self.id, txs, self.sending).await
    }

    async fn diagnose(&self, account: &SubmitterId, asked: &[DiagnoseRequest]) -> Vec<MempoolSignal> {
        match self.address_of(account) {
            Ok(account) => mempool::diagnose(&self.endpoints, account, asked).await,
            Err(_) => vec![MempoolSignal::Unknown; asked.len()],
        }
    }
}

impl Chain for EvmChain {
    fn rules(&self) -> &'static dyn ChainRules {
        &EvmRules
    }

    fn read_signed(&self, raw: &Bytes) -> Result<SignedPlan, UnreadableTx> {
        transaction::read_signed(raw, &self.id)
    }

    fn outline(&self, raw: &Bytes) -> Option<Outline> {
        transaction::outline_of(raw)
    }
}

impl fmt::Debug for EvmChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EvmChain").field("id", &self.id).field("endpoints", &self.endpoints).finish_non_exhaustive()
    }
}
