//! The specification of a world. The seed decides all of it; `replay` overrides parts of it.

use std::time::Duration;

use gapless_domain::{ExternalNoncePolicy, ReleaseRule};

use crate::dice::Dice;
use crate::fault::{Fault, Odds};
use crate::planted::Mistake;
use crate::script::Cue;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorldSpec {
    pub seed: u64,
    pub nodes: u32,
    pub lanes: u32,
    pub store: StoreKind,
    /// `max_in_flight` of every lane.
    pub window: u16,
    pub release: ReleaseRule,
    pub on_external_nonce: ExternalNoncePolicy,
    pub endpoints: u32,
    /// Each node reads the chain from one endpoint only, so that a lagging endpoint makes one node lag. A world of a
    /// seed does not have it.
    pub own_endpoints: bool,
    pub block_time: Duration,
    /// The number of confirmations that make a block final, counting the block itself.
    pub confirmations: u32,
    /// Nodes use the chain's `finalized` tag, which has the same depth.
    pub by_tag: bool,
    /// The largest batch that a lane signs, writes or sends at once.
    pub batch: usize,
    /// The largest number of broadcasts of a lane in flight.
    pub broadcasts: usize,
    pub open_slots: usize,
    /// The watcher does not walk a gap of more blocks than this.
    pub walk_max: u32,
    /// The number of intents of all callers together.
    pub intents: u32,
    /// Callers also cancel, replace and reserve nonces, and operators pause lanes.
    pub people: bool,
    /// The duration of the storm, the phase in which faults strike.
    pub storm: Duration,
    pub odds: Odds,
    pub fees: FeeSettings,
    /// Faults at named moments, beside those that the odds give. A world of a seed has none.
    pub script: Vec<Cue>,
    /// The age at which ended intents are moved out. Their events and attempts are deleted at twice this age. `None`
    /// means that no row is moved or deleted.
    pub retention: Option<Duration>,
    /// The planted bug. A world of a seed has none.
    pub mistake: Option<Mistake>,
}

/// The fee policy of all lanes of a world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeeSettings {
    /// The bump policy: the multiplier in thousandths, and the greatest number of bumps.
    pub bumps: Option<(u32, u16)>,
    /// The highest price of one unit of work; 0 is no limit.
    pub max_price: u128,
    pub diagnoses: bool,
    /// The number of tries until an intent is stuck. The decision about it is then random.
    pub tries: u16,
    /// The interval of resends.
    pub resubmits: Duration,
}

impl FeeSettings {
    fn of(seed: u64) -> FeeSettings {
        let dice = &mut Dice::new(seed, "fees");
        FeeSettings {
            bumps: dice
                .permille(500)
                .then(|| (dice.pick(&[1100, 1125, 1500, 2500]).unwrap_or(1125), dice.between(1, 6) as u16)),
            max_price: dice.pick(&[0, 0, MAX_PRICE, 3 * MAX_PRICE]).unwrap_or(0),
            diagnoses: dice.permille(300),
            tries: dice.pick(&[1, 2, 5]).unwrap_or(5),
            resubmits: dice.pick(&[4, 10]).map_or(Duration::from_secs(10), Duration::from_secs),
        }
    }
}

/// Retention of one world in five. The age is short, so that rows are moved and deleted while their lanes work.
fn retention(seed: u64) -> Option<Duration> {
    let dice = &mut Dice::new(seed, "retention");
    dice.permille(200).then(|| dice.duration(Duration::ZERO, Duration::from_secs(60)))
}

/// A limit that is sufficient while there is no fee spike.
const MAX_PRICE: u128 = 5_000_000_000;

gapless_domain::names! {
    StoreKind {
        Model = "model",
        Sqlite = "sqlite",
    }
}

impl WorldSpec {
    /// The world of a seed.
    pub fn of(seed: u64) -> WorldSpec {
        let dice = &mut Dice::new(seed, "plan");
        // Most worlds have a few nodes, some have one.
        let nodes = dice.pick(&[1, 2, 2, 3, 3, 4, 5]).unwrap_or(1);
        let lanes = dice.pick(&[1, 1, 2, 3, 4, 6]).unwrap_or(1);
        let kind = WorldKind::of(dice);
        let store = match kind {
            // Only the model has a standby.
            WorldKind::Failover => StoreKind::Model,
            _ if dice.permille(250) => StoreKind::Sqlite,
            _ => StoreKind::Model,
        };
        WorldSpec {
            seed,
            nodes,
            lanes,
            store,
            window: dice.pick(&[1, 1, 2, 4, 8, 16]).unwrap_or(1),
            release: dice
                .pick(&[ReleaseRule::Mined, ReleaseRule::Mined, ReleaseRule::Final])
                .unwrap_or(ReleaseRule::Mined),
            on_external_nonce: dice
                .pick(&[ExternalNoncePolicy::Adopt, ExternalNoncePolicy::Protect])
                .unwrap_or(ExternalNoncePolicy::Protect),
            endpoints: dice.pick(&[1, 2, 3, 3]).unwrap_or(1),
            own_endpoints: false,
            block_time: dice.pick(&[1, 2, 2, 5]).map_or(Duration::from_secs(1), Duration::from_secs),
            confirmations: dice.pick(&[2, 3, 4, 6]).unwrap_or(2),
            by_tag: dice.permille(250),
            batch: dice.pick(&[2, 4, 256]).unwrap_or(256),
            broadcasts: Dice::new(seed, "broadcasts").pick(&[1, 1, 3]).unwrap_or(1),
            open_slots: dice.pick(&[3, 9, 1000, 1000]).unwrap_or(1000),
            walk_max: dice.pick(&[5, 50, 1000]).unwrap_or(1000),
            intents: dice.between(5, 60) as u32,
            people: dice.permille(700),
            storm: Duration::from_secs(dice.between(30, 180)),
            odds: odds(kind, dice),
            fees: FeeSettings::of(seed),
            script: Vec::new(),
            retention: retention(seed),
            mistake: None,
        }
    }

    pub fn without(mut self, fault: Fault) -> WorldSpec {
        self.odds.remove(&fault);
        self
    }

    pub fn has(&self, fault: Fault) -> bool {
        let is_scripted = self.script.iter().any(|cue| cue.fault == fault);
        is_scripted || self.odds.get(&fault).is_some_and(|odds| *odds > 0)
    }
}

/// The kind of a world. Some faults weaken a promise, so they occur only in worlds of their own kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorldKind {
    /// All faults that no other kind has.
    Plain,
    /// Another user has the keys.
    Strangers,
    /// A standby that misses commits is promoted.
    Failover,
    /// A reorg drops final blocks.
    DeepReorg,
    /// A chain with another genesis replaces the old one.
    Reset,
}

impl WorldKind {
    fn of(dice: &mut Dice) -> WorldKind {
        match dice.below(100) {
            0..45 => WorldKind::Plain,
            45..60 => WorldKind::Strangers,
            60..75 => WorldKind::Failover,
            75..88 => WorldKind::DeepReorg,
            _ => WorldKind::Reset,
        }
    }

    fn allows(self, fault: Fault) -> bool {
        match fault {
            Fault::Stranger => self == WorldKind::Strangers,
            Fault::Failover => self == WorldKind::Failover,
            Fault::DeepReorg => self == WorldKind::DeepReorg,
            Fault::ChainReset => self == WorldKind::Reset,
            _ => true,
        }
    }
}

/// The odds of a world. Each fault is in about two of three worlds, so that faults also meet few others. The fault that
/// a kind is named after is in every world of that kind.
fn odds(kind: WorldKind, dice: &mut Dice) -> Odds {
    let mut odds = Odds::new();
    for fault in Fault::ALL.iter().copied() {
        let (usual, is_theme) = usual_odds(fault);
        let is_in = is_theme || dice.permille(650);
        let strength = dice.pick(&[1, 2, 2, 4, 8]).unwrap_or(2);
        if is_in && kind.allows(fault) {
            odds.insert(fault, usual * strength / 2);
        }
    }
    odds
}

/// The usual odds of a fault, in a thousand chances, and whether a kind of world is named after it.
fn usual_odds(fault: Fault) -> (u32, bool) {
    match fault {
        // One chance at every fault point that a process reaches.
        Fault::CrashAtPoint => (4, false),
        // One chance every second, for each process.
        Fault::CrashAnywhere => (10, false),
        Fault::Drain => (10, false),
        Fault::Pause => (10, false),
        Fault::NodeClockJump => (10, false),
        // One chance every second.
        Fault::DatabaseClockJump => (20, false),
        Fault::Failover => (35, true),
        Fault::EndpointLags | Fault::EndpointForked | Fault::EndpointDown => (20, false),
        Fault::PoolForgets => (30, false),
        Fault::FeeSpike => (20, false),
        Fault::BalanceDrained => (15, false),
        Fault::Stranger => (30, true),
        Fault::ChainHalt => (10, false),
        Fault::ChainReset => (60, true),
        // One chance at every block.
        Fault::Reorg => (80, false),
        Fault::DeepReorg => (40, true),
        // One chance at every wake-up, statement, request or transaction.
        Fault::WakeupLost => (150, false),
        Fault::WakeupDoubled => (100, false),
        Fault::AnswerLost | Fault::CommitRefused | Fault::StatementTimeout => (10, false),
        Fault::StoreSlow => (10, false),
        Fault::RpcTimeoutBefore | Fault::RpcTimeoutAfter | Fault::RpcSlow => (20, false),
        Fault::SendDropped | Fault::SendDoubled | Fault::SendDelayed | Fault::SendsReordered => (60, false),
        Fault::NullReceipt => (50, false),
        Fault::WrongText | Fault::UnknownText => (40, false),
        // One chance at every call of a signer.
        Fault::SignerHangs => (10, false),
        Fault::SignerSlow | Fault::SignerFails => (30, false),
    }
}
