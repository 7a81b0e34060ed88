//! Liveness: after the storm, every intent ends.

use gapless_domain::{LaneState, SubmitterId};

use crate::history::Moment;

use super::{Broken, Check, Picture};

#[derive(Debug, Default)]
pub(super) struct Liveness {
    gave_up: Option<Broken>,
}

impl Check for Liveness {
    fn promise(&self) -> &'static str {
        "liveness"
    }

    fn see(&mut self, moment: &Moment, _picture: &Picture) -> Result<(), Broken> {
        if let Moment::GaveUp { lane, number } = moment {
            self.gave_up = Some(Broken::of(lane, format!("request-{number} was never accepted")));
        }
        Ok(())
    }

    /// A stopped lane needs the decision of an operator, and the world has one. Only lanes on a chain that violated
    /// finality are excused.
    fn end(&mut self, picture: &Picture) -> Result<(), Broken> {
        let excused = |lane: &SubmitterId| picture.is_excused(lane);
        if let Some(broken) = self.gave_up.take().filter(|broken| !broken.lane.as_ref().is_some_and(excused)) {
            return Err(broken);
        }
        for (lane, book) in picture.ledger.lanes.iter().filter(|(lane, _)| !excused(lane)) {
            let Some(cursor) = &book.cursor else { continue };
            if let LaneState::Protect(protection) = &cursor.state {
                let code = protection.code.as_str();
                return Err(Broken::of(lane, format!("is still in PROTECT ({code}): {}", protection.detail)));
            }
            if cursor.paused {
                return Err(Broken::of(lane, "is still paused"));
            }
        }
        picture.finding("liveness")
    }
}
