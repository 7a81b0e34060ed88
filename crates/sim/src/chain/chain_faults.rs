//! Faults of the chain itself. Each is rolled for once a block or once a second, and recorded when it is done.

use std::collections::BTreeMap;
use std::time::Duration;

use gapless_domain::{Address, Amount, Bytes, EvmCall, Fees, Nonce, SignedTx, TxPlan, Work};

use super::endpoint::EndpointCondition;
use super::signed::sign_as_stranger;
use super::state::{ChainState, PoolId};
use crate::dice::Dice;
use crate::fault::{Fault, Faults};
use crate::history::{History, Moment};

/// The greatest number of each of these faults in one world: the lanes need time to handle them.
const MOST_STRANGERS: u32 = 6;
const MOST_DEEP_REORGS: u32 = 2;
/// A deep reorg drops this number of final blocks, at the most.
const DEEPEST_BEYOND: u64 = 5;
/// The head number below which a chain is not reset.
const RESET_ABOVE: u64 = 5;

/// The period, in seconds, in which all pools get all transactions after the storm.
const SHARE_TICKS: u64 = 10;

const STRANGER_GAS: u64 = 50_000;
const GWEI: u128 = 1_000_000_000;

/// Injects a fault and records it. False if the fault is impossible now.
type ChainFaultFn = fn(&mut ChainFaults, &mut ChainState, &mut Dice, Duration) -> bool;

#[derive(Debug)]
pub(super) struct ChainFaults {
    pub(super) faults: Faults,
    pub(super) history: History,
    /// The dice of each fault, so that one fault less does not change the others.
    dice: BTreeMap<Fault, Dice>,
    ticks: u64,
    strangers: u32,
    deep_reorgs: u32,
    is_reset: bool,
}

impl ChainFaults {
    pub(super) fn new(seed: u64, faults: Faults, history: History) -> Self {
        let dice = |fault: &Fault| (*fault, Dice::new(seed, &format!("chain {}", fault.as_str())));
        let dice = Fault::ALL.iter().map(dice).collect();
        ChainFaults { faults, history, dice, ticks: 0, strangers: 0, deep_reorgs: 0, is_reset: false }
    }

    /// Makes the next block, or a reorg. True if there is a new head.
    pub(super) fn block_due(&mut self, state: &mut ChainState, now: Duration) -> bool {
        self.see_calm(state, now);
        if now < state.halted_until {
            return false;
        }
        let is_done = self.attempt(Fault::DeepReorg, Self::deep_reorg, state, now)
            || self.attempt(Fault::Reorg, Self::reorg, state, now);
        if !is_done {
            state.mine(now);
        }
        true
    }

    pub(super) fn second_passed(&mut self, state: &mut ChainState, now: Duration) {
        self.see_calm(state, now);
        self.ticks += 1;
        if state.calm && self.ticks.is_multiple_of(SHARE_TICKS) {
            state.share(now);
        }
        let all: [(Fault, ChainFaultFn); 9] = [
            (Fault::EndpointLags, |faults, state, dice, now| faults.done(Fault::EndpointLags, lag(state, dice, now))),
            (Fault::EndpointForked, |faults, state, dice, now| {
                faults.done(Fault::EndpointForked, fork(state, dice, now))
            }),
            (Fault::EndpointDown, |faults, state, dice, now| faults.done(Fault::EndpointDown, down(state, dice, now))),
            (Fault::PoolForgets, |faults, state, dice, _| faults.done(Fault::PoolForgets, forget(state, dice))),
            (Fault::FeeSpike, |faults, state, dice, now| faults.done(Fault::FeeSpike, spike(state, dice, now))),
            (Fault::BalanceDrained, |faults, state, dice, now| {
                faults.done(Fault::BalanceDrained, drain(state, dice, now))
            }),
            (Fault::Stranger, Self::stranger),
            (Fault::ChainHalt, |faults, state, dice, now| faults.done(Fault::ChainHalt, halt(state, dice, now))),
            (Fault::ChainReset, Self::reset),
        ];
        for (fault, work) in all {
            self.attempt(fault, work, state, now);
        }
    }

    /// True if the fault struck and was possible.
    fn attempt(&mut self, fault: Fault, work: ChainFaultFn, state: &mut ChainState, now: Duration) -> bool {
        if !self.faults.rolls(fault) {
            return false;
        }
        let Some(mut dice) = self.dice.remove(&fault) else { return false };
        let is_done = work(self, state, &mut dice, now);
        self.dice.insert(fault, dice);
        is_done
    }

    /// Counts and records the fault, if it was possible.
    fn done(&self, fault: Fault, what: Option<String>) -> bool {
        let is_done = what.is_some();
        if let Some(what) = what {
            self.faults.count(fault);
            self.history.tell(Moment::Struck { fault, what });
        }
        is_done
    }

    fn see_calm(&mut self, state: &mut ChainState, now: Duration) {
        if self.faults.is_calm() && !state.calm {
            state.calm_down(now);
        }
    }

    /// Drops blocks down to the one above the newest final block, at the most.
    fn reorg(&mut self, state: &mut ChainState, dice: &mut Dice, now: Duration) -> bool {
        let deepest = state.confirmations.saturating_sub(1).min(state.tree.head_number());
        if deepest == 0 {
            return false;
        }
        let (depth, more) = (dice.between(1, deepest), dice.between(1, 2));
        self.done(Fault::Reorg, Some(format!("the newest {depth} blocks")));
        state.reorg(depth, more, dice, now);
        true
    }

    fn deep_reorg(&mut self, state: &mut ChainState, dice: &mut Dice, now: Duration) -> bool {
        let (least, head) = (state.confirmations, state.tree.head_number());
        if self.deep_reorgs >= MOST_DEEP_REORGS || head <= least {
            return false;
        }
        self.deep_reorgs += 1;
        let depth = dice.between(least, (least + DEEPEST_BEYOND).min(head));
        self.done(Fault::DeepReorg, Some(format!("the newest {depth} blocks, final ones among them")));
        state.heal_endpoints();
        state.reorg(depth, 1, dice, now);
        true
    }

    fn reset(&mut self, state: &mut ChainState, _: &mut Dice, now: Duration) -> bool {
        if self.is_reset || state.tree.head_number() < RESET_ABOVE {
            return false;
        }
        self.is_reset = true;
        self.done(Fault::ChainReset, Some("another genesis".to_owned()));
        state.reset(now);
        true
    }

    fn stranger(&mut self, state: &mut ChainState, dice: &mut Dice, now: Duration) -> bool {
        let what = if self.strangers < MOST_STRANGERS { self.send_as_stranger(state, dice, now) } else { None };
        self.done(Fault::Stranger, what)
    }

    fn send_as_stranger(&mut self, state: &mut ChainState, dice: &mut Dice, now: Duration) -> Option<String> {
        let account = dice.index(state.lanes.len());
        let lane = state.lanes.get(account)?.clone();
        let count = state.tree.accounts(state.tree.head()).get(account)?.count;
        let pending = state.miner.pending(account, count);
        let nonce = match dice.below(4) {
            0 => count,
            1 => dice.between(count, pending),
            2 => pending,
            _ => pending + dice.between(1, 2),
        };
        let generous = dice.permille(800);
        let fees = match generous {
            true => Fees::Eip1559 { max_fee: 100 * GWEI, max_priority_fee: 9 * GWEI },
            false => Fees::Eip1559 { max_fee: 3 * GWEI, max_priority_fee: 1000 },
        };
        self.strangers += 1;
        let call = EvmCall {
            to: Some(Address::repeat_byte(0x5E)),
            value: Amount::from(u64::from(self.strangers)),
            data: Bytes::from_static(b"a stranger"),
            ..EvmCall::default()
        };
        let plan = TxPlan {
            submitter: lane.clone(),
            nonce: Nonce::new(nonce).ok()?,
            action: call.into(),
            work: Work::new(STRANGER_GAS),
            fees,
        };
        let SignedTx { raw, hash } = sign_as_stranger(&plan);
        let to = match dice.permille(400) {
            true => PoolId::Miner,
            false => PoolId::Endpoint(dice.index(state.endpoints.len())),
        };
        let result = match state.submit(to, &raw, now) {
            Ok(_) => "accepted".to_owned(),
            Err(refusal) => format!("refused: {refusal:?}"),
        };
        Some(format!("{lane} nonce {nonce} by {hash}, {result}"))
    }
}

fn until(dice: &mut Dice, now: Duration, least_s: u64, most_s: u64) -> Duration {
    now + Duration::from_secs(dice.between(least_s, most_s))
}

/// A random endpoint without a fault.
fn healthy(state: &ChainState, dice: &mut Dice, now: Duration) -> Option<usize> {
    let healthy_ones: Vec<usize> = (0..state.endpoints.len())
        .filter(|at| state.endpoints.get(*at).is_some_and(|endpoint| endpoint.is_healthy(now)))
        .collect();
    dice.pick(&healthy_ones)
}

fn put(state: &mut ChainState, at: usize, condition: EndpointCondition) {
    if let Some(endpoint) = state.endpoints.get_mut(at) {
        endpoint.put(condition);
    }
}

/// An endpoint follows behind the others, or stays at an old block.
fn lag(state: &mut ChainState, dice: &mut Dice, now: Duration) -> Option<String> {
    let at = healthy(state, dice, now)?;
    let blocks = match dice.permille(700) {
        true => dice.between(1, 5),
        false => dice.between(6, 30),
    };
    let until = until(dice, now, 5, 40);
    let head = state.view(at, now);
    let number = state.tree.header(head)?.block.number.saturating_sub(blocks);
    let how = match dice.permille(500) {
        true => {
            put(state, at, EndpointCondition::Lags { blocks: blocks as usize, until });
            "lags"
        }
        false => {
            let on = state.tree.at(head, number)?;
            put(state, at, EndpointCondition::Stuck { on, until });
            "is stuck"
        }
    };
    Some(format!("endpoint {at} {how}, {blocks} blocks behind, until {until:?}"))
}

/// An endpoint gets private blocks. The fork is as deep as a normal reorg and never longer than the canonical chain, so
/// the endpoint shows no block as final that is not.
fn fork(state: &mut ChainState, dice: &mut Dice, now: Duration) -> Option<String> {
    let deepest = state.confirmations.saturating_sub(1).min(state.tree.head_number());
    let at = healthy(state, dice, now).filter(|_| deepest > 0)?;
    let depth = dice.between(1, deepest);
    let on = state.private_fork(at, depth, dice, now)?;
    let until = until(dice, now, 3, 25);
    put(state, at, EndpointCondition::Stuck { on, until });
    let block = state.tree.header(on)?.block;
    Some(format!("endpoint {at} has {depth} private blocks up to {} {}, until {until:?}", block.number, block.hash))
}

fn down(state: &mut ChainState, dice: &mut Dice, now: Duration) -> Option<String> {
    let at = healthy(state, dice, now)?;
    let gateway = dice.permille(300);
    let until = until(dice, now, 3, 40);
    put(state, at, EndpointCondition::Down { gateway, until });
    Some(format!("endpoint {at} until {until:?}"))
}

fn forget(state: &mut ChainState, dice: &mut Dice) -> Option<String> {
    let (all, one) = (dice.permille(400), dice.index(state.endpoints.len() + 1));
    let pools = state.pools().enumerate().filter(|(at, _)| all || *at == one);
    let gone: usize = pools.map(|(_, pool)| pool.forget_some(dice)).sum();
    let whose = if all { "all pools" } else { "one pool" };
    (gone > 0).then(|| format!("{gone} transactions of {whose}"))
}

fn spike(state: &mut ChainState, dice: &mut Dice, now: Duration) -> Option<String> {
    if now < state.spike_until {
        return None;
    }
    state.spike_until = until(dice, now, 10, 60);
    Some(format!("until {:?}", state.spike_until))
}

fn drain(state: &mut ChainState, dice: &mut Dice, now: Duration) -> Option<String> {
    let account = dice.index(state.lanes.len());
    let until = until(dice, now, 20, 260);
    let drained = state.drained.get_mut(account).filter(|drained| **drained <= now)?;
    *drained = until;
    let lane = state.lanes.get(account)?;
    Some(format!("{lane} until {until:?}"))
}

fn halt(state: &mut ChainState, dice: &mut Dice, now: Duration) -> Option<String> {
    if now < state.halted_until {
        return None;
    }
    state.halted_until = until(dice, now, 10, 40);
    Some(format!("until {:?}", state.halted_until))
}
