//! The lane: the pure state machine that decides for one submitter.
//!
//! Facts come in and effects go out ([`Lane::handle`]). The lane does no I/O and reads no clock. All of its state can
//! be rebuilt from the store: a lane whose state is uncertain is dropped and loaded again.
//!
//! The lane is driven by levels, not by edges. A fact only changes the lane's knowledge. Then `decide` looks at the
//! whole state and begins everything that is possible and not in flight. A fact that comes late, twice or in another
//! order leads to the same result.
//!
//! - `lane_state`: the parts of the memory. `restoring`: the memory as loaded from the ledger.
//! - `queue`: queued intents and how far each of them is prepared. `signing`: attempts on their way through the signer.
//! - `open_slot`: one bound nonce with its attempts. `slot_work`: the work that the lane has with it. `slot_chain`: its
//!   state on chain. `reservations`: its reservation. `slots`: all open slots and their indexes.
//! - `funds`: the amount that the account can spend
//! - `draft`: the commit being built, and the records as that commit will leave them. `fold`: how a written commit
//!   changes the memory.
//! - `decide`: the rules, one a file. `command`: the commands, one a file. `reconcile`: scans of the chain and the
//!   changes that they call for.

mod command;
mod decide;
mod draft;
mod effect;
mod fact;
mod fold;
mod funds;
mod lane_state;
mod open_slot;
mod queue;
mod reconcile;
mod reservations;
mod restoring;
mod setup;
mod signing;
mod slot_chain;
mod slot_work;
mod slots;

use crate::block::BlockLink;
use crate::cursor::Cursor;
use crate::lease::Lease;
use crate::policy::ReleaseRule;
use crate::time::{Tick, Timestamp};

pub use decide::BindBlocker;
pub use effect::{DiagnoseRequest, Effect, Outgoing, PrepareRequest, ScanRequest, SignRequest, Step, WatchRequest};
pub use fact::{
    AccountFacts, ChainFacts, CommitOutcome, Fact, MinedTx, Peeked, PrepareFailure, PrepareKey, Prepared, ScanResult,
    ScannedTx, SentTx, Sighting, SignFailure,
};
pub use setup::{LaneLimits, LanePauses, LaneSetup};

use funds::Funds;
use lane_state::{ChainView, CommitState, FeeCap, OpenLedger, Outbox, Phase, SignerState};
use queue::Queue;
use reconcile::scan::Scans;
use slot_work::Pace;

/// The state machine of one lane. See the module documentation.
#[derive(Debug)]
pub struct Lane {
    lease: Lease,
    setup: LaneSetup,
    ledger: OpenLedger,
    chain: ChainView,
    queue: Queue,
    funds: Funds,
    scans: Scans,
    signer: SignerState,
    commits: CommitState,
    outbox: Outbox,
    fee_cap: FeeCap,
    phase: Phase,
}

/// The highest of the given links.
fn newest_link(links: impl Iterator<Item = BlockLink>) -> Option<BlockLink> {
    links.max_by_key(|link| link.block.number)
}

impl Lane {
    /// Applies a fact and returns the effects to begin.
    pub fn handle(&mut self, fact: Fact, now: Tick) -> Step {
        match fact {
            Fact::Woken => self.queue.want_peek(),
            Fact::QueueChanged => self.queue.intent_left(),
            Fact::Tick => {}
            Fact::Drain => self.drain(),
            Fact::Peeked(answer) => self.peeked(answer),
            Fact::Prepared(answers) => {
                for (key, answer) in answers {
                    match key {
                        PrepareKey::Intent(id, version) => self.candidate_prepared(id, version, answer, now),
                        PrepareKey::Slot(nonce, ticket) => self.attempt_prepared(nonce, ticket, answer, now),
                    }
                }
            }
            Fact::Signed(answers) => self.signed(answers, now),
            Fact::Committed(outcome) => self.committed(outcome, now),
            Fact::Sent(sent) => {
                self.outbox.broadcasts = self.outbox.broadcasts.saturating_sub(1);
                for sent in sent {
                    self.sent(sent, now);
                }
            }
            Fact::Sightings(sightings) => {
                for sighting in sightings {
                    self.observe(sighting, now);
                }
            }
            Fact::Chain(chain) => self.chain_changed(chain),
            Fact::Account(account) => self.account(account, now),
            Fact::Scanned(scan) => self.scanned(scan, now),
            Fact::Diagnosed(signals) => self.diagnosed(signals),
            Fact::Decided(nonce, decision) => self.decided(nonce, decision),
        }
        self.decide(now)
    }

    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// The cursor as stored.
    pub fn cursor(&self) -> Option<&Cursor> {
        self.ledger.cursor.as_ref()
    }

    /// Number of nonces that are bound and not consumed, by the release rule of the policy.
    pub fn in_flight(&self) -> usize {
        match self.setup.policy.nonce.release {
            ReleaseRule::Mined => self.ledger.slots.unmined().len(),
            ReleaseRule::Final => self.ledger.slots.unsettled(),
        }
    }

    fn pace(&self) -> Pace {
        Pace {
            first: self.setup.limits.pauses.resend_first,
            longest: self.setup.limits.pauses.resend_longest,
            resubmit: self.setup.resubmit_interval(),
        }
    }

    /// The tick at which the database's clock shows `at`.
    fn tick_of(&self, at: Timestamp) -> Tick {
        let (then, tick) = self.commits.database_time;
        let micros = u64::try_from(at.as_micros().saturating_sub(then.as_micros())).unwrap_or(0);
        tick.saturating_add(std::time::Duration::from_micros(micros))
    }

    /// Approximate time of the database's clock.
    fn database_now(&self, now: Tick) -> Timestamp {
        let (then, tick) = self.commits.database_time;
        then.saturating_add(now.saturating_since(tick))
    }
}
