//! Liveness: after the storm, every intent ends.

use gapless_domain::{LaneState, SubmitterId};

use crate::history::Moment;

use super::{Check, CheckFailure, WorldView};

#[derive(Debug, Default)]
pub(super) struct Liveness {
    gave_up: Option<CheckFailure>,
}

impl Check for Liveness {
    fn promise(&self) -> &'static str {
        "liveness"
    }

    fn see(&mut self, moment: &Moment, _picture: &WorldView) -> Result<(), CheckFailure> {
        if let Moment::GaveUp { lane, number } = moment {
            self.gave_up = Some(CheckFailure::of(lane, format!("request-{number} was never accepted")));
        }
        Ok(())
    }

    /// A stopped lane needs the decision of an operator, and the world has one. Only lanes on a chain that violated
    /// finality are excused.
    fn end(&mut self, view: &WorldView) -> Result<(), CheckFailure> {
        let excused = |lane: &SubmitterId| view.is_excused(lane);
        if let Some(failure) = self.gave_up.take().filter(|failure| !failure.lane.as_ref().is_some_and(excused)) {
            return Err(failure);
        }
        for (lane, lane_ledger) in view.ledger.lanes.iter().filter(|(lane, _)| !excused(lane)) {
            let Some(cursor) = &lane_ledger.cursor else { continue };
            if let LaneState::Protect(protection) = &cursor.state {
                let code = protection.code.as_str();
                return Err(CheckFailure::of(
                    lane,
                    format!("the lane is still in PROTECT ({code}): {}", protection.detail),
                ));
            }
            if cursor.paused {
                return Err(CheckFailure::of(lane, "the lane is still paused"));
            }
        }
        view.finding("liveness")
    }
}
