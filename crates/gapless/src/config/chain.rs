//! The sections `[rpc]`, `[[chain]]` and `[[classify]]`.

use std::time::Duration;

use gapless_chain_evm::{EndpointOptions, EvmChainOptions, FeeOptions, GasMargin, SendTo};
use gapless_chain_evm::{OverrideRule, Overrides};
use gapless_domain::{ChainId, SubmitterPolicy};
use gapless_engine::{Finality, PriceOptions, WatcherOptions};
use gapless_secret::SecretUrl;

use super::problem::ProblemKind;
use super::section::Section;
use super::tree::Value;
use super::value::{Setting, number_of, text_of};
use super::{pace, policy};

pub(crate) const MAX_CHAINS: usize = 256;
/// The shortest time limit.
const SHORTEST: Duration = Duration::from_millis(1);

/// The use of a chain's endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RpcConfig {
    pub(crate) timeout: Duration,
    pub(crate) max_in_flight: usize,
    pub(crate) batch_max: usize,
    pub(crate) blocks_max: usize,
    pub(crate) send_to: SendTo,
    pub(crate) lag_max: u64,
    pub(crate) head_age_max: Duration,
}

/// One endpoint of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EndpointConfig {
    pub(crate) url: SecretUrl,
    pub(crate) weight: u32,
}

/// The section `[gas]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GasConfig {
    pub(crate) margin: GasMargin,
    pub(crate) prices: PriceOptions,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChainConfig {
    pub(crate) id: ChainId,
    pub(crate) endpoints: Vec<EndpointConfig>,
    pub(crate) rpc: RpcConfig,
    pub(crate) watcher: WatcherOptions,
    pub(crate) gas: GasConfig,
    pub(crate) oracle: FeeOptions,
    /// The policy of the chain's submitters that have none of their own.
    pub(crate) policy: SubmitterPolicy,
}

impl ChainConfig {
    /// A chain with one endpoint and the default settings, or `None` if the URL is invalid.
    #[cfg(any(test, feature = "tools"))]
    pub(crate) fn at(id: &ChainId, endpoint: &str, base: &ChainDefaults) -> Option<Self> {
        let policy = base.policy.clone();
        let url = SecretUrl::with_scheme(endpoint, &EvmChainOptions::SCHEMES).ok()?;
        Some(ChainConfig {
            id: id.clone(),
            endpoints: vec![EndpointConfig { url, weight: EndpointOptions::DEFAULT_WEIGHT }],
            rpc: base.rpc,
            watcher: by_policy(base.watcher.clone(), &policy, base.watcher.finality),
            gas: base.gas,
            oracle: base.oracle,
            policy,
        })
    }
}

impl Default for RpcConfig {
    fn default() -> Self {
        RpcConfig {
            timeout: Duration::from_secs(10),
            max_in_flight: 100,
            batch_max: 100,
            blocks_max: EvmChainOptions::DEFAULT_BLOCKS,
            send_to: SendTo::All,
            lag_max: EvmChainOptions::DEFAULT_LAG,
            head_age_max: EvmChainOptions::DEFAULT_HEAD_AGE,
        }
    }
}

/// The settings of a chain that has none of its own.
#[derive(Clone, Debug)]
pub(crate) struct ChainDefaults {
    rpc: RpcConfig,
    watcher: WatcherOptions,
    gas: GasConfig,
    oracle: FeeOptions,
    policy: SubmitterPolicy,
}

impl ChainDefaults {
    pub(crate) fn read(file: &mut Section<'_>, policy: SubmitterPolicy, finality: Finality) -> Self {
        let watcher = file.within("watcher", |section| pace::watcher(section, WatcherOptions::default()));
        ChainDefaults {
            rpc: file.within("rpc", |section| rpc(section, RpcConfig::default())),
            watcher: by_policy(watcher, &policy, finality),
            gas: file.within("gas", |section| pace::gas(section, GasConfig::default())),
            oracle: file.within("oracle", |section| pace::oracle(section, FeeOptions::default())),
            policy,
        }
    }
}

/// Copies the rules for final blocks and for receipts by hash from the policy into the watcher's options.
fn by_policy(watcher: WatcherOptions, policy: &SubmitterPolicy, finality: Finality) -> WatcherOptions {
    let confirmations = &policy.confirmations;
    WatcherOptions {
        confirmations: confirmations.required,
        stale_receipt_timeout: confirmations.stale_receipt_timeout,
        finality,
        ..watcher
    }
}

fn rpc(section: &mut Section<'_>, base: RpcConfig) -> RpcConfig {
    RpcConfig {
        timeout: section.read_in("timeout", base.timeout, SHORTEST..=EvmChainOptions::MAX_TIMEOUT),
        max_in_flight: section.read_in("max_in_flight", base.max_in_flight, 1..=EvmChainOptions::MAX_IN_FLIGHT),
        batch_max: section.read_in("batch_max", base.batch_max, 1..=EvmChainOptions::MAX_BATCH),
        blocks_max: section.read_in("blocks_max", base.blocks_max, 1..=EvmChainOptions::MAX_BATCH),
        send_to: section.read("send_to", base.send_to),
        lag_max: section.read_in("lag_max", base.lag_max, 0..=EvmChainOptions::MAX_LAG),
        head_age_max: section.read_in("head_age_max", base.head_age_max, SHORTEST..=EvmChainOptions::MAX_HEAD_AGE),
    }
}

pub(crate) fn chains(file: &mut Section<'_>, base: &ChainDefaults) -> Vec<ChainConfig> {
    let mut chains: Vec<ChainConfig> = Vec::new();
    for chain in file.each("chain", MAX_CHAINS, |item| chain(item, base)).into_iter().flatten() {
        if chains.iter().any(|other| other.id == chain.id) {
            file.refuse("chain", ProblemKind::Twice { other: format!("another [[chain]] {}", chain.id) });
        } else {
            chains.push(chain);
        }
    }
    chains
}

fn chain(item: &mut Section<'_>, base: &ChainDefaults) -> Option<ChainConfig> {
    let id = item.need::<ChainId>("id");
    if id.as_ref().is_some_and(|id| id.rules().is_none()) {
        item.refuse("id", ProblemKind::NotSupported { feature: "a chain of another namespace than eip155".to_owned() });
    }
    if !item.has("rpc") {
        item.refuse("rpc", ProblemKind::Missing);
    }
    let endpoints = item.list::<EndpointConfig>("rpc", EvmChainOptions::MAX_ENDPOINTS);
    let rpc = RpcConfig {
        timeout: item.read_in("rpc_timeout", base.rpc.timeout, SHORTEST..=EvmChainOptions::MAX_TIMEOUT),
        max_in_flight: item.read_in("rpc_max_in_flight", base.rpc.max_in_flight, 1..=EvmChainOptions::MAX_IN_FLIGHT),
        batch_max: item.read_in("rpc_batch_max", base.rpc.batch_max, 1..=EvmChainOptions::MAX_BATCH),
        blocks_max: item.read_in("rpc_blocks_max", base.rpc.blocks_max, 1..=EvmChainOptions::MAX_BATCH),
        send_to: item.read("rpc_send_to", base.rpc.send_to),
        lag_max: item.read_in("rpc_lag_max", base.rpc.lag_max, 0..=EvmChainOptions::MAX_LAG),
        head_age_max: item.read_in("rpc_head_age_max", base.rpc.head_age_max, SHORTEST..=EvmChainOptions::MAX_HEAD_AGE),
    };
    let gas = item.within("gas", |section| pace::gas(section, base.gas));
    let oracle = item.within("oracle", |section| pace::oracle(section, base.oracle));
    let watcher = item.within("watcher", |section| pace::watcher(section, base.watcher.clone()));
    let (policy, finality) = policy::overrides(item, base.policy.clone(), base.watcher.finality);
    if item.has("finality") && item.has_within("confirmations", "finality") {
        item.refuse("finality", ProblemKind::Twice { other: "the table `confirmations`".to_owned() });
    }
    let finality = item.read("finality", finality);
    let watcher = by_policy(watcher, &policy, finality);
    Some(ChainConfig { id: id?, endpoints, rpc, watcher, gas, oracle, policy })
}

/// The operator's own patterns for error texts of endpoints.
pub(crate) fn classify(file: &mut Section<'_>) -> Vec<OverrideRule> {
    let rules = file.each("classify", Overrides::MAX, |item| {
        let family = item.find("family");
        let (pattern, verdict) = (item.need("pattern"), item.need("verdict"));
        Some(OverrideRule { family, pattern: pattern?, verdict: verdict? })
    });
    let rules: Vec<OverrideRule> = rules.into_iter().flatten().collect();
    if let Err(error) = Overrides::new(&rules) {
        file.refuse("classify", error.into());
    }
    rules
}

impl Setting for ChainId {
    fn wanted() -> String {
        "a CAIP-2 id such as \"eip155:1\"".to_owned()
    }

    fn read(value: &Value) -> Option<Self> {
        text_of(value)?.parse().ok()
    }

    fn try_read(value: &Value) -> Result<Self, ProblemKind> {
        match text_of(value) {
            Some(text) => text.parse().map_err(ProblemKind::Id),
            None => Err(ProblemKind::Wanted { wanted: Self::wanted() }),
        }
    }

    fn show(&self) -> String {
        format!("\"{self}\"")
    }
}

impl Setting for EndpointConfig {
    fn wanted() -> String {
        let max = EndpointOptions::MAX_WEIGHT;
        format!(
            "a URL such as \"http://127.0.0.1:8545\" (http, https, ws or wss), or {{ url = …, weight = … }} with a \
             weight up to {max}"
        )
    }

    fn read(value: &Value) -> Option<Self> {
        let (url, weight) = match value {
            Value::Table(table) => {
                if table.keys().any(|key| !matches!(key.as_str(), "url" | "weight")) {
                    return None;
                }
                let weight = match table.get("weight") {
                    Some(node) => number_of(&node.value)?.parse().ok()?,
                    None => EndpointOptions::DEFAULT_WEIGHT,
                };
                (text_of(&table.get("url")?.value)?, weight)
            }
            value => (text_of(value)?, EndpointOptions::DEFAULT_WEIGHT),
        };
        let url = SecretUrl::with_scheme(url, &EvmChainOptions::SCHEMES).ok()?;
        (weight <= EndpointOptions::MAX_WEIGHT).then_some(EndpointConfig { url, weight })
    }

    fn show(&self) -> String {
        match self.weight {
            EndpointOptions::DEFAULT_WEIGHT => format!("\"{}\"", self.url),
            weight => format!("{{ url = \"{}\", weight = {weight} }}", self.url),
        }
    }
}

impl Setting for SendTo {
    fn wanted() -> String {
        "\"all\" or a number of endpoints, at least 1".to_owned()
    }

    fn read(value: &Value) -> Option<Self> {
        match number_of(value).and_then(|digits| digits.parse().ok()) {
            Some(0) => None,
            Some(count) => Some(SendTo::Best(count)),
            None => (text_of(value)? == "all").then_some(SendTo::All),
        }
    }

    fn show(&self) -> String {
        match self {
            SendTo::All => "\"all\"".to_owned(),
            SendTo::Best(count) => count.to_string(),
        }
    }
}
