//! No lane enters PROTECT before something happened that PROTECT is for: another user of the key, a loss of commits, a
//! chain that took back what was final or began anew.

use gapless_domain::{LaneState, ProtectCode};

use crate::fault::Fault;
use crate::history::Moment;

use super::{Check, CheckFailure, WorldView};

#[derive(Debug, Default)]
pub(super) struct FalseAlarms {
    has_cause: bool,
    /// An endpoint may show a branch that is below the final block by now. A node that sees nothing else is right to
    /// stop.
    has_old_branch: bool,
    /// An endpoint may say of a fill that it can never be mined.
    has_wrong_text: bool,
}

const CAUSES: [Fault; 4] = [Fault::Stranger, Fault::Failover, Fault::DeepReorg, Fault::ChainReset];
const OLD_BRANCHES: [Fault; 2] = [Fault::EndpointForked, Fault::Reorg];

impl FalseAlarms {
    fn is_excused(&self, code: ProtectCode) -> bool {
        match code {
            ProtectCode::DeepReorg => self.has_old_branch,
            ProtectCode::CannotFill => self.has_wrong_text,
            _ => false,
        }
    }
}

impl Check for FalseAlarms {
    fn promise(&self) -> &'static str {
        "no false PROTECT"
    }

    fn see(&mut self, moment: &Moment, view: &WorldView) -> Result<(), CheckFailure> {
        match moment {
            Moment::Struck { fault, .. } => {
                self.has_cause |= CAUSES.contains(fault);
                self.has_old_branch |= OLD_BRANCHES.contains(fault);
                self.has_wrong_text |= *fault == Fault::WrongText;
            }
            Moment::Committed { commit, .. } if !self.has_cause && view.losses == 0 => {
                if let Some(LaneState::Protect(protection)) = commit.cursor().map(|change| &change.to().state)
                    && !self.is_excused(protection.code)
                {
                    let what = format!("PROTECT without a cause: {protection:?}");
                    return Err(CheckFailure::of(commit.lease().submitter(), what));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
