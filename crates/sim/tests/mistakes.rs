//! Planted bugs: each known mistake of this kind of system is made on purpose, and the check of the promise that it
//! breaks must find it within a few seeds.
//!
//! The worlds are small and full of the faults under which the mistake matters, so that all tests are quick. Plain
//! worlds find the mistakes too, after more seeds: `gapless sim --mistake NAME`. Every world in which a mistake is
//! found runs once more without the mistake, and must keep every promise.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gapless_sim::check::Violation;
use gapless_sim::{Fault, Mistake, StoreKind, WorldOverrides, WorldSpec, run};

/// The settings of worlds in which a mistake matters. The default is one node, one lane, a few intents, and no people.
struct Setting {
    nodes: u32,
    lanes: u32,
    intents: u32,
    storm_s: u64,
    people: bool,
    endpoints: Option<u32>,
    /// The faults, each with its odds of a thousand. No other fault strikes.
    faults: &'static [(Fault, u32)],
}

const SMALL: Setting =
    Setting { nodes: 1, lanes: 1, intents: 5, storm_s: 30, people: false, endpoints: None, faults: &[] };

impl Setting {
    fn plan(&self, seed: u64) -> WorldSpec {
        let changes = WorldOverrides {
            nodes: Some(self.nodes),
            lanes: Some(self.lanes),
            endpoints: self.endpoints,
            intents: Some(self.intents),
            storm: Some(Duration::from_secs(self.storm_s)),
            people: Some(self.people),
            // Some mistakes of a store are made by the model only.
            store: Some(StoreKind::Model),
            only: Some(BTreeSet::new()),
            mistake: None,
        };
        WorldSpec { odds: BTreeMap::from_iter(self.faults.iter().copied()), ..changes.apply(WorldSpec::of(seed)) }
    }
}

#[expect(clippy::print_stdout, reason = "shown with --nocapture")]
fn show(mistake: Mistake, seed: u64, violation: &Violation) {
    println!("{}: seed {seed}, {violation}", mistake.name());
}

/// The first of the promises is the one that the mistake is about: a world of the first `within` seeds must break it.
/// Other worlds may break the other promises, and no world may break a promise that is not named.
fn is_found(mistake: Mistake, promises: &[&str], within: u64, setting: &Setting) {
    let mut broken = (0..within).filter_map(|seed| broken_promise(mistake, promises, &setting.plan(seed)));
    let found = broken.any(|promise| promises.first() == Some(&promise));
    assert!(found, "{}: {} No check finds it in {within} worlds.", mistake.name(), mistake.describe());
}

fn broken_promise(mistake: Mistake, promises: &[&str], plan: &WorldSpec) -> Option<&'static str> {
    let violation = run(&WorldSpec { mistake: Some(mistake), ..plan.clone() }).violation;
    let (name, violation) = (mistake.name(), violation?);
    show(mistake, plan.seed, &violation);
    assert!(promises.contains(&violation.promise), "{name}: {violation}, but {promises:?} was expected");
    assert_eq!(run(plan).violation, None, "{name}: the same world without the mistake, {plan:?}");
    Some(violation.promise)
}

macro_rules! mistakes {
    ($($name:ident = $mistake:ident breaks $promises:expr, within $within:literal: $setting:expr;)+) => {
        $(
            #[test]
            fn $name() {
                assert_eq!(stringify!($name), Mistake::$mistake.name());
                is_found(Mistake::$mistake, &$promises, $within, &$setting);
            }
        )+

        const TESTED: &[Mistake] = &[$(Mistake::$mistake),+];
    };
}

mistakes! {
    // --- Nonces ---
    recycle_after_timeout = RecycleAfterTimeout breaks ["P4"], within 30:
        Setting { faults: &[(Fault::RpcTimeoutAfter, 200)], ..SMALL };
    requeue_on_null_receipt = RequeueOnNullReceipt breaks ["P4"], within 20:
        Setting { faults: &[(Fault::NullReceipt, 500)], ..SMALL };
    rejected_frees_nonce = RejectedFreesNonce breaks ["P4"], within 20:
        Setting { intents: 10, endpoints: Some(1), faults: &[(Fault::WrongText, 800)], ..SMALL };
    no_fill_for_hole = NoFillForHole breaks ["P2"], within 40:
        Setting { intents: 8, storm_s: 20, people: true, ..SMALL };
    jump_to_chain = JumpToChain breaks ["P7", "P2", "liveness"], within 40:
        Setting { intents: 10, storm_s: 40, faults: &[(Fault::Stranger, 200)], ..SMALL };
    window_ignored = WindowIgnored breaks ["N12"], within 15:
        Setting { intents: 8, storm_s: 20, ..SMALL };

    // --- Answers of the chain and its endpoints ---
    only_last_hash = OnlyLastHash breaks ["no false PROTECT", "liveness"], within 60:
        Setting {
            intents: 10,
            storm_s: 40,
            people: true,
            faults: &[(Fault::ChainHalt, 100), (Fault::WrongText, 400)],
            ..SMALL
        };
    nonce_too_low_is_success = NonceTooLowIsSuccess breaks ["P9"], within 30:
        Setting { faults: &[(Fault::WrongText, 500)], ..SMALL };
    underpriced_is_success = UnderpricedIsSuccess breaks ["P2", "liveness"], within 40:
        Setting { storm_s: 40, faults: &[(Fault::FeeSpike, 100), (Fault::BalanceDrained, 100)], ..SMALL };
    mined_is_final = MinedIsFinal breaks ["P9"], within 5:
        SMALL;
    reorg_ignored = ReorgIgnored breaks ["P9"], within 30:
        Setting { faults: &[(Fault::Reorg, 300)], ..SMALL };
    fork_continues = ForkContinues breaks ["R03"], within 30:
        Setting { faults: &[(Fault::Reorg, 300)], ..SMALL };

    // --- Durability ---
    send_before_commit = SendBeforeCommit breaks ["P3"], within 5:
        SMALL;
    unknown_is_done = UnknownIsDone breaks ["P3"], within 30:
        Setting { intents: 8, faults: &[(Fault::AnswerLost, 300)], ..SMALL };
    ack_before_commit = AckBeforeCommit breaks ["P6"], within 5:
        SMALL;
    forget_request = ForgetRequest breaks ["P1"], within 15:
        Setting { storm_s: 10, faults: &[(Fault::AnswerLost, 300)], ..SMALL };
    event_apart = EventApart breaks ["P8"], within 15:
        Setting { storm_s: 10, ..SMALL };
    no_epoch = NoEpoch breaks ["P7"], within 10:
        Setting { intents: 8, storm_s: 40, faults: &[(Fault::Failover, 300)], ..SMALL };
    lost_wakeup = LostWakeup breaks ["liveness"], within 20:
        Setting { intents: 3, storm_s: 10, faults: &[(Fault::WakeupLost, 700)], ..SMALL };

    // --- Several nodes ---
    exists_fence = ExistsFence breaks ["P5"], within 30:
        Setting {
            nodes: 3,
            lanes: 2,
            intents: 15,
            storm_s: 40,
            faults: &[(Fault::Pause, 150), (Fault::RpcTimeoutBefore, 200)],
            ..SMALL
        };
    keep_token = KeepToken breaks ["P5"], within 15:
        Setting { nodes: 2, faults: &[(Fault::CrashAnywhere, 100)], ..SMALL };
    // P5 makes late sends harmless, so P5 does not find this mistake. N06 has a check of its own.
    send_without_permit = SendWithoutPermit breaks ["N06"], within 30:
        Setting {
            nodes: 3,
            lanes: 2,
            intents: 20,
            storm_s: 60,
            faults: &[(Fault::Pause, 100), (Fault::UnknownText, 800)],
            ..SMALL
        };
}

/// A new mistake needs a test in this file.
#[test]
fn every_mistake_has_a_test() {
    let all = |mistakes: &[Mistake]| mistakes.iter().map(|mistake| mistake.name()).collect::<BTreeSet<_>>();
    assert_eq!(all(TESTED), all(Mistake::ALL));
}
