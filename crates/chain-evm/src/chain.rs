//! [`EvmChain`]: the contract, put together from its parts.

use std::collections::HashMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use alloy_primitives::{Address, B256, Bytes};
use async_trait::async_trait;
use gapless_chain::{
    AccountView, Chain, ChainError, Classifier, EndpointStatus, FeeQuote, Header, HeaderAt, Receipt, Revert,
    SendAnswer, SentInBlock, SignError, UnreadableTx, Wanted,
};
use gapless_domain::{
    Amount, BlockRef, ChainId, DiagnoseRequest, EvmCall, MempoolSignal, Outline, Permit, SignedPlan, SignedTx,
    SubmitterId, TxPlan,
};
use tokio::sync::watch;

use crate::broadcast::{SendTerms, broadcast};
use crate::endpoint::{Endpoint, EndpointState, Parts, Terms};
use crate::endpoints::{Endpoints, LagTerms, failed};
use crate::fees::{FeeOptions, Rollup};
use crate::mempool;
use crate::options::{ConnectError, EndpointOptions, EvmChainOptions, SendTo};
use crate::rpc::{self, HeadNews, HttpRoad, Road, WebSocketRoad};
use crate::signer::{Signer, SignerError};
use crate::surcharge::DataFees;
use crate::{fees, read, transaction};

/// Time-outs that a whole broadcast may take: one to find out who an endpoint is, one for it, one for whoever stands in for it.
const SEND_TIMEOUTS: u32 = 3;

/// One EVM chain. Dropping it ends everything that it started.
pub struct EvmChain {
    id: ChainId,
    number: u64,
    sending: SendTerms,
    endpoints: Endpoints,
    pricing: FeeOptions,
    data_fees: DataFees,
    signers: HashMap<Address, Arc<dyn Signer>>,
    heads: Heads,
}

/// Counts what WebSockets tell of heads.
#[derive(Debug)]
struct Heads {
    told: Arc<watch::Sender<u64>>,
    /// How far `head_changed` has come: news between two calls of it are not lost.
    seen: AtomicU64,
    has_source: bool,
}

impl EvmChain {
    /// Headers that may be asked for at once.
    pub const MAX_HEADERS: u64 = 10_000;
    /// Whole blocks that may be asked for at once.
    pub const MAX_BLOCKS: u64 = 1_000;

    /// Makes the chain. No node has to be there: endpoints are looked for when they are first needed, and again whenever
    /// they are away. With a WebSocket endpoint it has to be called inside a tokio runtime.
    pub fn connect(options: EvmChainOptions, signers: Vec<Arc<dyn Signer>>) -> Result<Self, ConnectError> {
        options.validate()?;
        let number = options.id.evm_number().ok_or_else(|| ConnectError::NotEvm(options.id.clone()))?;
        let mut by_address = HashMap::new();
        for signer in signers {
            let address = signer.address();
            if by_address.insert(address, signer).is_some() {
                return Err(ConnectError::TwoSigners(address));
            }
        }
        let needs_tls = options.rpc.iter().any(|endpoint| matches!(endpoint.url.scheme(), "https" | "wss"));
        let tls = rpc::client_config(needs_tls).map_err(|error| ConnectError::Tls(error.to_string()))?;
        let terms = Arc::new(Terms {
            chain: options.id.clone(),
            chain_number: number,
            timeout: options.rpc_timeout,
            batch_max: options.batch_max,
            blocks_max: options.blocks_max,
            classifier: Classifier::new(options.overrides.clone())?,
        });
        let told = Arc::new(watch::Sender::new(0));
        let mut list = Vec::with_capacity(options.rpc.len());
        let mut has_source = false;
        for (place, EndpointOptions { url, weight }) in options.rpc.iter().enumerate() {
            let state = Arc::new(EndpointState::default());
            let road = if matches!(url.scheme(), "ws" | "wss") {
                tokio::runtime::Handle::try_current().map_err(|_| ConnectError::NoRuntime)?;
                has_source = true;
                let news = head_news(Arc::clone(&told), Arc::clone(&state));
                Road::WebSocket(WebSocketRoad::open(url.clone(), Arc::clone(&tls), options.rpc_timeout, news))
            } else {
                Road::Http(Box::new(HttpRoad::new(url, &tls, options.rpc_timeout)?))
            };
            let name = name_of(&options.rpc, place);
            let parts =
                Parts { name, weight: *weight, url: url.clone(), road, places: options.rpc_max_in_flight, state };
            list.push(Arc::new(Endpoint::new(Arc::clone(&terms), parts)));
        }
        let most = match options.send_to {
            SendTo::All => usize::MAX,
            SendTo::Best(most) => most,
        };
        let sending = SendTerms { most, patience: options.rpc_timeout.saturating_mul(SEND_TIMEOUTS) };
        let lag = LagTerms { lag_max: options.lag_max, head_age_max: options.head_age_max };
        Ok(EvmChain {
            id: options.id,
            number,
            sending,
            endpoints: Endpoints::new(list, lag),
            pricing: options.fees,
            data_fees: DataFees::default(),
            signers: by_address,
            heads: Heads { told, seen: AtomicU64::new(0), has_source },
        })
    }

    /// The accounts that this node has keys for.
    pub fn signing_addresses(&self) -> impl Iterator<Item = Address> {
        self.signers.keys().copied()
    }

    fn address_of(&self, submitter: &SubmitterId) -> Result<Address, ChainError> {
        let own = submitter.evm_address().filter(|_| *submitter.chain() == self.id);
        own.ok_or_else(|| failed("the submitter is of another chain"))
    }
}

/// Host and port; where several endpoints have the same, numbered from the second on.
fn name_of(endpoints: &[EndpointOptions], place: usize) -> String {
    let Some(own) = endpoints.get(place).map(|endpoint| endpoint.url.name()) else { return String::new() };
    match endpoints.iter().take(place).filter(|other| other.url.name() == own).count() {
        0 => own.to_owned(),
        before => format!("{own}#{}", before + 1),
    }
}

fn head_news(told: Arc<watch::Sender<u64>>, state: Arc<EndpointState>) -> HeadNews {
    Arc::new(move |number| {
        if let Some(number) = number {
            state.hear_head(number);
        }
        told.send_modify(|count| *count += 1);
    })
}

#[async_trait]
impl Chain for EvmChain {
    fn id(&self) -> &ChainId {
        &self.id
    }

    async fn estimate_gas(&self, from: &SubmitterId, call: &EvmCall, at: BlockRef) -> Result<u64, ChainError> {
        let from = self.address_of(from)?;
        self.endpoints.read(|endpoint| async move { read::estimate_gas(&endpoint, from, call, at).await }).await
    }

    async fn quote(&self) -> Result<FeeQuote, ChainError> {
        let market = self.endpoints.read(|endpoint| async move { read::market(&endpoint).await }).await?;
        let quote = fees::quote(&market, &self.pricing);
        quote.ok_or_else(|| failed("the chain has no base fee and its node names no price"))
    }

    async fn surcharge(&self, call: &EvmCall) -> Result<Amount, ChainError> {
        match self.pricing.rollup {
            Rollup::None | Rollup::Arbitrum => Ok(Amount::ZERO),
            Rollup::Optimism => {
                let size = transaction::unsigned_size(call, self.number);
                self.data_fees.of(&self.endpoints, size).await.map(Amount::new)
            }
        }
    }

    async fn sign(&self, permit: &Permit, plan: &TxPlan) -> Result<SignedTx, SignError> {
        if permit.lease().submitter() != &plan.submitter {
            return Err(SignError::Refused("the permit is for another submitter".to_owned()));
        }
        let no_key = || SignError::NoKey(plan.submitter.clone());
        let address = self.address_of(&plan.submitter).map_err(|_| no_key())?;
        let signer = self.signers.get(&address).ok_or_else(no_key)?;
        let unsigned = transaction::build(plan, self.number)?;
        let raw = signer.sign_transaction(&unsigned).await.map_err(|error| match error {
            SignerError::Unavailable(text) => SignError::Unavailable(text),
            SignerError::Refused(text) => SignError::Refused(text),
        })?;
        if signer.is_in_memory() {
            transaction::verify_own(plan, &unsigned, raw)
        } else {
            transaction::verify(plan, &unsigned, raw)
        }
    }

    fn read_signed(&self, raw: &Bytes) -> Result<SignedPlan, UnreadableTx> {
        transaction::read_signed(raw, &self.id)
    }

    fn outline(&self, raw: &Bytes) -> Option<Outline> {
        transaction::outline_of(raw)
    }

    async fn broadcast(&self, txs: &[SignedTx]) -> Vec<SendAnswer> {
        broadcast(&self.endpoints, &self.id, txs, self.sending).await
    }

    async fn diagnose(&self, account: &SubmitterId, asked: &[DiagnoseRequest]) -> Vec<MempoolSignal> {
        match self.address_of(account) {
            Ok(account) => mempool::diagnose(&self.endpoints, account, asked).await,
            Err(_) => vec![MempoolSignal::Unknown; asked.len()],
        }
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
            return Err(failed("so many headers are not asked for at once"));
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
        let ask = |way: read::Way| {
            move |endpoint: Arc<Endpoint>, hashes: Vec<B256>| async move { read::reverts(&endpoint, &hashes, way).await }
        };
        // One that can only guess must not speak before another one that knows.
        let mut found: Vec<Option<Revert>> = self.endpoints.find_each(hashes, ask(read::Way::Surely)).await?;
        let (open, rest): (Vec<usize>, Vec<B256>) =
            hashes.iter().enumerate().filter(|(at, _)| matches!(found.get(*at), Some(None))).unzip();
        // What was found stays found, whatever becomes of the guesses.
        let guessed = self.endpoints.find_each(&rest, ask(read::Way::ByReplay)).await.unwrap_or_default();
        for (at, guess) in open.into_iter().zip(guessed) {
            if let Some(place) = found.get_mut(at) {
                *place = guess;
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
            return Err(failed("so many blocks are not asked for at once"));
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
        let mut told = self.heads.told.subscribe();
        // The sender lives as long as we do.
        if let Ok(count) = told.wait_for(|count| *count != seen).await {
            self.heads.seen.store(*count, Ordering::Release);
        }
    }

    fn endpoints(&self) -> Vec<EndpointStatus> {
        self.endpoints.statuses()
    }
}

impl fmt::Debug for EvmChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EvmChain")
            .field("id", &self.id)
            .field("endpoints", &self.endpoints)
            .field("signers", &self.signers.keys())
            .finish_non_exhaustive()
    }
}
