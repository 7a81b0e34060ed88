//! The policies of submitters. The sections of the file override the defaults, the sections of a chain override those,
//! and the sections of a submitter override those of its chain. All three are read by the same code.

use gapless_domain::{
    Amount, BumpPolicy, ConfirmationPolicy, ExternalNoncePolicy, FeePolicy, FundsPolicy, MempoolPolicy, Nonce,
    NoncePolicy, OnShortage, ReleaseRule, ResubmitPolicy, StartFrom, StuckRule, SubmitterPolicy,
};

use gapless_engine::Finality;

use super::problem::ProblemKind;
use super::section::{Section, words};
use super::tree::Value;
use super::value::{Permille, Setting, number_of, text_of};
use super::webhook::{self, WebhookConfig};

words!(ReleaseRule { ReleaseRule::Mined => "mined", ReleaseRule::Final => "final" });
words!(ExternalNoncePolicy { ExternalNoncePolicy::Protect => "protect", ExternalNoncePolicy::Adopt => "adopt" });
words!(Finality {
    Finality::Depth => "depth",
    Finality::Safe => "safe",
    Finality::Finalized => "finalized",
});
words!(OnShortage { OnShortage::Wait => "wait", OnShortage::Fail => "fail" });

/// The watcher keeps this number of headers, and reads them again if a transaction is found in an old block. A chain
/// returns at most `EvmChain::MAX_HEADERS` in one call.
const MAX_CONFIRMATIONS: u32 = 10_000;

/// The largest number of blocks that a bump can wait for.
const MAX_BUMP_BLOCKS: u32 = 10_000;

impl Setting for Amount {
    fn wanted() -> String {
        "an amount of wei as text: digits, or 0x and hex digits".to_owned()
    }

    /// Small amounts may also be written as a number; large amounts do not fit into a TOML number.
    fn read(value: &Value) -> Option<Self> {
        text_of(value).or_else(|| number_of(value))?.parse().ok()
    }

    fn show(&self) -> String {
        format!("\"{self}\"")
    }
}

/// A price per unit of gas. An amount that is too large for a price is rejected.
pub(super) struct Price(pub(super) u128);

impl Setting for Price {
    fn wanted() -> String {
        "a price in wei for one unit of gas, as text: digits, or 0x and hex digits".to_owned()
    }

    fn read(value: &Value) -> Option<Self> {
        u128::try_from(Amount::read(value)?.get()).ok().map(Price)
    }

    fn show(&self) -> String {
        format!("\"{}\"", self.0)
    }
}

impl Setting for StartFrom {
    fn wanted() -> String {
        "a nonce or \"chain\"".to_owned()
    }

    fn read(value: &Value) -> Option<Self> {
        if text_of(value) == Some("chain") {
            return Some(StartFrom::Chain);
        }
        Nonce::new(number_of(value)?.parse().ok()?).ok().map(StartFrom::Nonce)
    }

    fn show(&self) -> String {
        match self {
            StartFrom::Chain => "\"chain\"".to_owned(),
            StartFrom::Nonce(nonce) => nonce.to_string(),
        }
    }
}

/// Reads the policy sections of the file. Also returns the finality rule, which belongs to a chain, and the webhook,
/// which belongs to the node.
pub(crate) fn policy(file: &mut Section<'_>, base: SubmitterPolicy) -> (SubmitterPolicy, Finality, WebhookConfig) {
    let (confirmations, finality) =
        file.within("confirmations", |section| confirmations(section, base.confirmations, Finality::default()));
    let (stuck, webhook) = file.within("stuck", |section| (stuck(section, base.stuck), webhook::webhook(section)));
    let policy = SubmitterPolicy {
        nonce: file.within("nonce", |section| nonce(section, base.nonce)),
        resubmit: file.within("resubmit", |section| resubmit(section, base.resubmit)),
        bump: file.within("gas_bump", |section| bump(section, base.bump)),
        confirmations,
        funds: file.within("funds", |section| funds(section, base.funds)),
        fees: file.within("fees", |section| fees(section, base.fees)),
        stuck,
        mempool: file.within("mempool", |section| mempool(section, base.mempool)),
    };
    check(file, &policy);
    (policy, finality, webhook)
}

/// Reads the policy sections of a `[[chain]]` or a `[[submitter]]`. The keys of `nonce` can also stand directly in it,
/// and `confirmations = 3` is a short form.
pub(crate) fn overrides(
    item: &mut Section<'_>,
    base: SubmitterPolicy,
    finality: Finality,
) -> (SubmitterPolicy, Finality) {
    for key in NONCE_KEYS {
        if item.has(key) && item.has_within("nonce", key) {
            item.refuse(key, ProblemKind::Twice { other: "the table `nonce`".to_owned() });
        }
    }
    let short = nonce(item, base.nonce);
    let (confirmations, finality) = if item.has("confirmations") && !item.has_table("confirmations") {
        let required = item.read("confirmations", base.confirmations.required);
        (ConfirmationPolicy { required, ..base.confirmations }, finality)
    } else {
        item.within("confirmations", |section| confirmations(section, base.confirmations, finality))
    };
    let policy = SubmitterPolicy {
        nonce: item.within("nonce", |section| nonce(section, short)),
        resubmit: item.within("resubmit", |section| resubmit(section, base.resubmit)),
        bump: item.within("gas_bump", |section| bump(section, base.bump)),
        confirmations,
        funds: item.within("funds", |section| funds(section, base.funds)),
        fees: item.within("fees", |section| fees(section, base.fees)),
        stuck: item.within("stuck", |section| stuck(section, base.stuck)),
        mempool: item.within("mempool", |section| mempool(section, base.mempool)),
    };
    check(item, &policy);
    (policy, finality)
}

fn check(section: &mut Section<'_>, policy: &SubmitterPolicy) {
    if let Err(error) = policy.validate() {
        section.refuse("", error.into());
    }
    if policy.confirmations.required > MAX_CONFIRMATIONS {
        let (min, max) = ("1".to_owned(), MAX_CONFIRMATIONS.to_string());
        section.refuse("confirmations", ProblemKind::Range { min, max });
    }
}

const NONCE_KEYS: [&str; 5] =
    ["max_in_flight", "delegated_max_in_flight", "release", "start_from", "on_external_nonce"];

fn nonce(section: &mut Section<'_>, base: NoncePolicy) -> NoncePolicy {
    NoncePolicy {
        max_in_flight: section.read("max_in_flight", base.max_in_flight),
        narrow_max_in_flight: section.read("delegated_max_in_flight", base.narrow_max_in_flight),
        release: section.read("release", base.release),
        start_from: section.read("start_from", base.start_from),
        on_external_nonce: section.read("on_external_nonce", base.on_external_nonce),
    }
}

fn funds(section: &mut Section<'_>, base: FundsPolicy) -> FundsPolicy {
    FundsPolicy {
        on_shortage: section.read("on_shortage", base.on_shortage),
        low_balance: section.read("low_balance", base.low_balance),
    }
}

fn resubmit(section: &mut Section<'_>, base: ResubmitPolicy) -> ResubmitPolicy {
    ResubmitPolicy { enabled: section.read("enabled", base.enabled), interval: section.read("interval", base.interval) }
}

fn bump(section: &mut Section<'_>, base: BumpPolicy) -> BumpPolicy {
    BumpPolicy {
        enabled: section.read("enabled", base.enabled),
        min_interval: section.read("min_interval", base.min_interval),
        max_attempts: section.read("max_attempts", base.max_attempts),
        multiplier_permille: section.read("multiplier", Permille(base.multiplier_permille)).0,
        min_blocks: section.read_in("min_blocks", base.min_blocks, 0..=MAX_BUMP_BLOCKS),
        max_market_permille: section.read("max_market", Permille(base.max_market_permille)).0,
        only_lowest: section.read("only_lowest", base.only_lowest),
    }
}

fn fees(section: &mut Section<'_>, base: FeePolicy) -> FeePolicy {
    FeePolicy { max_price: section.read("max_price", Price(base.max_price)).0 }
}

fn stuck(section: &mut Section<'_>, base: StuckRule) -> StuckRule {
    StuckRule {
        after_tries: section.read("after_tries", base.after_tries),
        ask_interval: section.read("ask_interval", base.ask_interval),
    }
}

fn mempool(section: &mut Section<'_>, base: MempoolPolicy) -> MempoolPolicy {
    MempoolPolicy { diagnose: section.read("diagnose", base.diagnose) }
}

fn confirmations(
    section: &mut Section<'_>,
    base: ConfirmationPolicy,
    finality: Finality,
) -> (ConfirmationPolicy, Finality) {
    let policy = ConfirmationPolicy {
        required: section.read("required", base.required),
        stale_receipt_timeout: section.read("stale_receipt_timeout", base.stale_receipt_timeout),
    };
    (policy, section.read("finality", finality))
}
