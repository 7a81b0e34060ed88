//! The sections with intervals and batch sizes of the engine: `[intake]` to `[lane]`, `[watcher]`, `[gas]` and
//! `[oracle]`.

use std::time::Duration;

use gapless_chain_evm::{FeeOptions, GasMargin, Rollup};
use gapless_domain::{LaneLimits, LanePauses};
use gapless_engine::{
    BatchLimits, DispatchOptions, EngineOptions, PriceOptions, RetentionOptions, ShareOptions, WatcherOptions,
};
use gapless_signer::SigningLimits;

use super::chain::GasConfig;
use super::policy::Price;
use super::problem::ProblemKind;
use super::section::{Section, words};
use super::value::{ByteSize, Period, Permille};

words!(Rollup {
    Rollup::None => "none",
    Rollup::Optimism => "optimism",
    Rollup::Arbitrum => "arbitrum",
});

const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// A process that was suspended for less finds its row when it goes on, and does not conclude that commits were lost.
const NODES_KEPT: Duration = Duration::from_secs(3600);

pub(crate) fn engine(file: &mut Section<'_>) -> EngineOptions {
    let base = EngineOptions::default();
    EngineOptions {
        intake: file.within("intake", |section| batches(section, base.intake)),
        writer: file.within("writer", |section| one_by_one(section, base.writer)),
        sender: file.within("sender", |section| batches(section, base.sender)),
        // A read has no bytes to limit.
        reader: file.within("reader", |section| BatchLimits {
            items: section.read_in("items", base.reader.items, 1..=100_000),
            waiting: section.read_in("waiting", base.reader.waiting, 1..=1_000_000),
            flushes: section.read_in("flushes", base.reader.flushes, 1..=64),
            ..base.reader
        }),
        dispatch: file.within("dispatch", |section| dispatch(section, base.dispatch)),
        retention: file.within("retention", |section| retention(section, base.retention)),
        signing: file.within("signing", |section| signing(section, base.signing)),
    }
}

fn signing(section: &mut Section<'_>, base: SigningLimits) -> SigningLimits {
    SigningLimits {
        timeout: section.read_in("timeout", base.timeout, SHORTEST..=LONGEST),
        concurrency: section.read_in("concurrency", base.concurrency, 1..=10_000),
        batch_max: section.read_in("batch_max", base.batch_max, 1..=10_000),
        handover_first: section.read_in("handover_first", base.handover_first, SHORTEST..=LONGEST),
        handover_longest: section.read_in("handover_longest", base.handover_longest, SHORTEST..=LONGEST),
    }
}

fn batches(section: &mut Section<'_>, base: BatchLimits) -> BatchLimits {
    BatchLimits { flushes: section.read_in("flushes", base.flushes, 1..=64), ..one_by_one(section, base) }
}

/// The limits of the writer, which always has one flush at a time and therefore no key for it.
fn one_by_one(section: &mut Section<'_>, base: BatchLimits) -> BatchLimits {
    BatchLimits {
        items: section.read_in("items", base.items, 1..=100_000),
        bytes: section.read_in("bytes", ByteSize(base.bytes), ByteSize(1)..=ByteSize(1 << 30)).0,
        waiting: section.read_in("waiting", base.waiting, 1..=1_000_000),
        flushes: base.flushes,
    }
}

fn dispatch(section: &mut Section<'_>, base: DispatchOptions) -> DispatchOptions {
    DispatchOptions {
        sweep_interval: section.read_in("sweep_interval", base.sweep_interval, SHORTEST..=LONGEST),
        sweep_limit: section.read_in("sweep_limit", base.sweep_limit, 1..=100_000),
        lanes_max: section.read_in("lanes_max", base.lanes_max, 1..=1_000_000),
        held_pause: section.read_in("held_pause", base.held_pause, SHORTEST..=LONGEST),
        reload_pause: section.read_in("reload_pause", base.reload_pause, SHORTEST..=LONGEST),
        refused_pause: section.read_in("refused_pause", base.refused_pause, SHORTEST..=LONGEST),
        share: share(section, base.share),
    }
}

/// The rebalancing keys of `[dispatch]`.
fn share(section: &mut Section<'_>, base: ShareOptions) -> ShareOptions {
    ShareOptions {
        interval: section.read_in("rebalance_interval", base.interval, SHORTEST..=LONGEST),
        slack: section.read_in("rebalance_slack", base.slack, 0..=1_000_000),
        slack_percent: section.read_in("rebalance_slack_percent", base.slack_percent, 0..=1000),
        round_max: section.read_in("rebalance_max", base.round_max, 0..=100_000),
        pause: section.read_in("handed_over_pause", base.pause, SHORTEST..=LONGEST),
        yield_pause: section.read_in("yield_pause", base.yield_pause, Duration::ZERO..=LONGEST),
        returned_pause: section.read_in("returned_pause", base.returned_pause, SHORTEST..=LONGEST),
        away_after: section.read_in("chain_away_after", base.away_after, SHORTEST..=LONGEST),
    }
}

fn retention(section: &mut Section<'_>, base: RetentionOptions) -> RetentionOptions {
    let mut period = |key, base| section.read(key, Period(base)).0;
    RetentionOptions {
        after: period("after", base.after),
        events_after: period("events_after", base.events_after),
        attempts_after: period("attempts_after", base.attempts_after),
        commands_after: period("commands_after", base.commands_after),
        audit_after: period("audit_after", base.audit_after),
        nodes_after: section
            .read_in("nodes_after", Period(base.nodes_after), Period(Some(NODES_KEPT))..=Period(None))
            .0,
        interval: section.read_in("interval", base.interval, SHORTEST..=LONGEST),
        batch: section.read_in("batch", base.batch, 1..=100_000),
        pause: section.read_in("pause", base.pause, Duration::ZERO..=LONGEST),
    }
}

pub(crate) fn lane(section: &mut Section<'_>) -> LaneLimits {
    let base = LaneLimits::default();
    LaneLimits {
        open_slots: section.read_in("open_slots", base.open_slots, 1..=1_000_000),
        window_bytes: section.read_in("window_bytes", ByteSize(base.window_bytes), ByteSize(1)..=ByteSize(1 << 30)).0,
        adopt: section.read_in("adopt", base.adopt, 1..=1_000_000),
        batch: section.read_in("batch", base.batch, 1..=10_000),
        broadcasts: section.read_in("broadcasts", base.broadcasts, 1..=64),
        batch_bytes: section.read_in("batch_bytes", ByteSize(base.batch_bytes), ByteSize(1)..=ByteSize(1 << 30)).0,
        look_interval: section.read_in("look_interval", base.look_interval, SHORTEST..=LONGEST),
        idle_linger: section.read_in("idle_linger", base.idle_linger, Duration::ZERO..=LONGEST),
        notices_per_head: section.read_in("notices_per_head", base.notices_per_head, 0..=100_000),
        account_interval: section.read_in("account_interval", base.account_interval, SHORTEST..=LONGEST),
        price_age: section.read_in("price_age", base.price_age, SHORTEST..=LONGEST),
        pauses: LanePauses {
            prepare_retry: section.read_in("prepare_retry", base.pauses.prepare_retry, SHORTEST..=LONGEST),
            resend_first: section.read_in("resend_first", base.pauses.resend_first, SHORTEST..=LONGEST),
            resend_longest: section.read_in("resend_longest", base.pauses.resend_longest, SHORTEST..=LONGEST),
            retry: section.read_in("retry", base.pauses.retry, SHORTEST..=LONGEST),
        },
    }
}

/// The section `[watcher]`, of the file or of a chain. The rule for final blocks comes from the policy.
pub(crate) fn watcher(section: &mut Section<'_>, base: WatcherOptions) -> WatcherOptions {
    let options = WatcherOptions {
        confirmations: base.confirmations,
        finality: base.finality,
        stale_receipt_timeout: base.stale_receipt_timeout,
        margin: section.read_in("margin", base.margin, 0..=100_000),
        walk_max: section.read_in("walk_max", base.walk_max, 1..=1_000_000),
        poll_min: section.read_in("poll_min", base.poll_min, SHORTEST..=LONGEST),
        poll_max: section.read_in("poll_max", base.poll_max, SHORTEST..=LONGEST),
        look_ups: section.read_in("look_ups", base.look_ups, 1..=100_000),
        stale_checks: section.read_in("stale_checks", base.stale_checks, 1..=100_000),
        save_interval: section.read_in("save_interval", base.save_interval, SHORTEST..=LONGEST),
        survey_blocks: section.read_in("survey_blocks", base.survey_blocks, 1..=10_000_000),
    };
    if options.poll_min > options.poll_max {
        section.refuse("poll_min", ProblemKind::Polls);
    }
    options
}

/// The section `[oracle]`, of the file or of a chain.
pub(crate) fn oracle(section: &mut Section<'_>, base: FeeOptions) -> FeeOptions {
    let factor = section.read("base_fee_factor", Permille(base.base_fee_factor)).0;
    if !(FeeOptions::MIN_FACTOR..=FeeOptions::MAX_FACTOR).contains(&factor) {
        let (min, max) = ("1.0".to_owned(), "100.0".to_owned());
        section.refuse("base_fee_factor", ProblemKind::Range { min, max });
    }
    FeeOptions {
        min_priority_fee: floor(section, "min_priority_fee", base.min_priority_fee),
        min_fee: floor(section, "min_fee", base.min_fee),
        base_fee_factor: factor,
        rollup: section.read("rollup", base.rollup),
    }
}

fn floor(section: &mut Section<'_>, key: &'static str, base: u128) -> u128 {
    let price = section.read(key, Price(base)).0;
    if price > FeeOptions::MAX_FLOOR {
        let (min, max) = ("0".to_owned(), FeeOptions::MAX_FLOOR.to_string());
        section.refuse(key, ProblemKind::Range { min, max });
    }
    price
}

/// The section `[gas]`, of the file or of a chain.
pub(crate) fn gas(section: &mut Section<'_>, base: GasConfig) -> GasConfig {
    let factor_permille = section.read("factor", Permille(base.margin.factor_permille)).0;
    if !(1000..=100_000).contains(&factor_permille) {
        let (min, max) = ("1.0".to_owned(), "100.0".to_owned());
        section.refuse("factor", ProblemKind::Range { min, max });
    }
    let constant = section.read_in("constant", base.margin.constant, 0..=1_000_000_000);
    let longest = Duration::from_secs(60);
    let price_for = section.read_in("price_for", base.prices.price_for, Duration::ZERO..=longest);
    GasConfig { margin: GasMargin { factor_permille, constant }, prices: PriceOptions { price_for } }
}
