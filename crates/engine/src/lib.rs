//! What acts. The engine executes what the domain decides, against a store and (from the next floor on) a chain.
//!
//! - [`Intake`] accepts intents, many in one commit.
//! - [`LaneWriter`] writes lane commits, many lanes in one commit.
//! - [`LeaseKeeper`] knows which leases this process holds and how long it may trust them.
//!
//! Architecture invariant: no loop in here sleeps, spawns or reads a clock by itself. Loops are plain futures that somebody
//! drives; time comes from a [`Clock`] and ids from [`Ids`], so that a simulator can bring its own. Nothing here knows SQL
//! or a chain's protocol.

mod clock;
mod group_commit;
mod ids;
mod intake;
mod lane_writer;
mod lease_keeper;

pub use clock::{Clock, SystemClock};
pub use group_commit::BatchLimits;
pub use ids::{Ids, TimeOrderedIds};
pub use intake::{Intake, IntakeError, IntakeLimits, IntakeLoop};
pub use lane_writer::{LaneWriter, LaneWriterLoop, WriteError, Written};
pub use lease_keeper::LeaseKeeper;
