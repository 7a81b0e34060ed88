//! What acts. The engine executes what the domain decides, against a store and chains.
//!
//! - [`Engine`] is one node, put together. [`Intake`] accepts intents, many in one commit.
//! - `dispatcher`: which lanes run here; `fair_share`: which of them others should have. `roster`: those that do, and the renewal of their leases. `lane_runner`: one lane, its effects executed. [`LaneWriter`]: commits of many lanes in one.
//! - [`LeaseKeeper`] knows which leases this process holds and how long it may trust them.
//! - `watcher`: one for each chain; follows heads and tells lanes what became of their hashes.
//! - `chain_desk`, `gathered`: what lanes share: prices, sends, reads, many in one round trip. `survey`: what an account has sent,
//!   by the blocks themselves.
//! - `retention`: moves ended intents out and deletes old rows ([`RetentionOptions`]).
//! - [`StuckPolicy`]: who decides about what is stuck.
//! - [`Changes`]: who waits for an intent to change. [`FaultPoint`]: named places on a transaction's way.
//!
//! Architecture invariant: no loop in here sleeps, spawns or reads a clock by itself. Loops are plain futures that a
//! [`Driver`] runs; time comes from it and ids from [`Ids`], so that a simulator can bring its own. Nothing here knows SQL
//! or a chain's protocol.

mod chain_desk;
mod changes;
mod clock;
mod dispatcher;
mod driver;
mod engine;
mod fair_share;
mod fault_points;
mod gathered;
mod group_commit;
mod ids;
mod intake;
mod lane_inbox;
mod lane_runner;
mod lane_writer;
mod lease_keeper;
mod published;
mod retention;
mod roster;
mod stuck_policy;
mod survey;
mod watcher;

pub use chain_desk::{ChainLoad, GasPolicy};
pub use changes::{ChangeWaiter, Changes};
pub use clock::{Clock, SystemClock};
pub use dispatcher::DispatchOptions;
pub use driver::{Driver, TokioDriver};
pub use engine::{ChainSetup, Engine, EngineOptions, EngineParts, EngineView, UnknownChain};
pub use fair_share::ShareOptions;
pub use fault_points::{FaultPoint, FaultPoints, NoFaults};
pub use group_commit::BatchLimits;
pub use ids::{Ids, TimeOrderedIds};
pub use intake::{Intake, IntakeError, IntakeLimits, IntakeLoop};
pub use lane_writer::{LaneWriter, LaneWriterLoop, WriteError, Written};
pub use lease_keeper::LeaseKeeper;
pub use retention::RetentionOptions;
pub use stuck_policy::{StuckPolicy, WaitForOperator};
pub use watcher::{ChainStatus, Finality, WatcherOptions};
