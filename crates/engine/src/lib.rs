//! The engine executes the decisions of the domain against a store and chains.
//!
//! - [`Engine`]: one node, composed. [`Intake`] accepts intents, many in one commit.
//! - `dispatcher`: chooses the lanes that run on this node; `fair_share`: chooses lanes to hand over to other nodes.
//!   `running_lanes`: the lanes that run here, and the renewal of their leases.
//! - `lane_runner`: runs one lane and executes its effects; `commit_summary`: the log lines of its commits.
//!   [`LaneWriter`]: writes the commits of many lanes as one. [`LaneFactory`]: makes the lanes.
//! - [`LeaseKeeper`]: the leases that this process holds, and the time until which it may trust them.
//! - `watcher`: one for each chain; follows heads and reports to lanes the fate of their hashes.
//! - `chain_desk`, `batched_io`: sends and reads that lanes share, many in one round trip. `prices`: work, fees
//!   and surcharges before a nonce is bound. `scan`: reads blocks for the transactions of one account.
//! - `signing`: signs the batch of a lane with one call, under the time-out of `gapless-signer`.
//! - `retention`: moves ended intents out and deletes old rows ([`RetentionOptions`]).
//! - [`StuckPolicy`]: decides about stuck intents.
//! - [`Changes`]: wakes readers that wait for an intent to change. [`FaultPoint`]: named places where tests can
//!   intervene.
//!
//! Architecture invariant: no loop in here sleeps, spawns or reads a clock by itself. Loops are plain futures that a
//! [`Driver`] runs; time comes from the driver and ids from [`Ids`], so that a simulator can provide its own. No module
//! here knows SQL or the protocol of a chain.

mod batched_io;
mod chain_desk;
mod changes;
mod clock;
mod commit_summary;
mod dispatcher;
mod driver;
mod engine;
mod fair_share;
mod fault_points;
mod group_commit;
mod ids;
mod intake;
mod lane_inbox;
mod lane_machine;
mod lane_runner;
mod lane_writer;
mod lease_keeper;
mod prices;
mod published;
mod retention;
mod running_lanes;
mod scan;
mod signing;
mod stuck_policy;
mod watcher;

pub use chain_desk::ChainLoad;
pub use changes::{ChangeWaiter, Changes};
pub use clock::{Clock, SystemClock};
pub use dispatcher::DispatchOptions;
pub use driver::{Driver, TokioDriver};
pub use engine::{ChainSetup, Engine, EngineOptions, EngineParts, EngineView, ServedLane, UnknownChain};
pub use fair_share::ShareOptions;
pub use fault_points::{FaultPoint, FaultPoints, NoFaults};
pub use group_commit::BatchLimits;
pub use ids::{Ids, TimeOrderedIds};
pub use intake::{Intake, IntakeError, IntakeLimits, IntakeLoop};
pub use lane_machine::{DomainLanes, LaneFactory, LaneMachine, OutlineOf};
pub use lane_writer::{LaneWriter, LaneWriterLoop, WriteError, Written};
pub use lease_keeper::LeaseKeeper;
pub use prices::PriceOptions;
pub use retention::RetentionOptions;
pub use stuck_policy::{StuckPolicy, WaitForOperator};
pub use watcher::{ChainStatus, Finality, WatcherOptions};
