//! The dependencies of the routes.

use std::fmt;
use std::sync::Arc;

use gapless_domain::Limits;
use gapless_engine::{Driver, Ids, Intake};
use gapless_store::{Heads, IntentIntake, Upkeep, Views};

use crate::drain::Drain;
use crate::hosts::AllowedHosts;
use crate::limits::ApiLimits;
use crate::ports::{Chains, ChangeHints};

/// The dependencies that the composition root passes to the routes.
#[derive(Clone)]
pub struct App {
    pub views: Arc<dyn Views>,
    /// Writes of commands, and of cancellations in the queue. New intents go through `intake`.
    pub intents: Arc<dyn IntentIntake>,
    pub heads: Arc<dyn Heads>,
    /// Declarations of operators about the database.
    pub upkeep: Arc<dyn Upkeep>,
    pub intake: Intake,
    /// Source of the names that callers leave out.
    pub ids: Arc<dyn Ids>,
    pub changes: Arc<dyn ChangeHints>,
    pub chains: Arc<dyn Chains>,
    /// The clock and the timers.
    pub driver: Arc<dyn Driver>,
    /// The text of `/metrics`.
    pub metrics: Arc<dyn Fn() -> String + Send + Sync>,
    pub drain: Drain,
    /// Host names by which the API may be called.
    pub hosts: AllowedHosts,
    /// Limits of one intent.
    pub intent_limits: Limits,
    pub limits: ApiLimits,
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").field("views", &self.views).field("limits", &self.limits).finish_non_exhaustive()
    }
}
