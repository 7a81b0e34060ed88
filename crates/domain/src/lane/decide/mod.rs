//! Rules of the lane, one a file: each looks at the whole state, and begins work that is possible and not in flight.
//!
//! - `start`, `account`, `protect`: read the account, start a new lane, compare the ledger with the chain
//! - `peek`, `price`, `next_attempt`, `sign`: read the queue, and make attempts
//! - `commit`: the order in which rules fill a commit. `bind`, `reserve`, `expire`, `confirm`, `resend`,
//!   `bump`, `stuck`, `low_balance`, `close`: rules that write
//! - `send`: sends durable attempts. `idle`: ends the lane

mod account;
mod bind;
mod bump;
mod close;
mod commit;
mod confirm;
mod expire;
mod idle;
mod low_balance;
pub(super) mod next_attempt;
mod peek;
mod price;
mod protect;
mod resend;
mod reserve;
mod send;
mod sign;
mod start;
pub(super) mod stuck;

pub use bind::BindBlocker;

use crate::time::Tick;

use crate::lane::Lane;
use crate::lane::effect::Step;
use crate::lane::lane_state::Phase;

impl Lane {
    pub(in crate::lane) fn decide(&mut self, now: Tick) -> Step {
        let mut step = Step { effects: std::mem::take(&mut self.outbox.effects), wake_at: None };
        if self.phase == Phase::Over {
            return step;
        }
        self.plan_account(now, &mut step);
        self.plan_scan(now, &mut step);
        self.plan_peek(now, &mut step);
        self.time_out_reservations(now);
        self.plan_prepare(now, &mut step);
        self.plan_sign(now, &mut step);
        if self.plan_commit(now, &mut step) {
            // Commands of the commit may have requested attempts, and candidates may be back in the queue.
            self.plan_prepare(now, &mut step);
        }
        self.plan_broadcast(now, &mut step);
        self.plan_decisions(now, &mut step);
        self.plan_end(now, &mut step);
        step
    }
}

impl Step {
    pub(in crate::lane) fn wake(&mut self, at: Tick) {
        self.wake_at = Some(self.wake_at.map_or(at, |other| other.min(at)));
    }

    /// Adds another step behind this one.
    pub(in crate::lane) fn append(&mut self, mut other: Step) {
        self.effects.append(&mut other.effects);
        other.wake_at.into_iter().for_each(|at| self.wake(at));
    }
}
