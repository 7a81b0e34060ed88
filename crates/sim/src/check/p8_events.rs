//! P8: every change has its event, in order and without a gap, and the events alone give the whole state.

use gapless_domain::TxState;

use crate::history::Moment;

use super::{Check, CheckFailure, WorldView};

#[derive(Debug, Default)]
pub(super) struct Events;

impl Check for Events {
    fn promise(&self) -> &'static str {
        "P8"
    }

    /// The version of a row is the number of its newest event.
    fn see(&mut self, moment: &Moment, view: &WorldView) -> Result<(), CheckFailure> {
        let Moment::Committed { commit, .. } = moment else { return Ok(()) };
        let lane = commit.lease().submitter();
        for (change, row) in commit.changes().iter().zip(&view.before.rows) {
            let (id, from, version) = (change.tx_id(), change.from().as_str(), change.from_version());
            let what = match row {
                None => format!("{id} is changed, but there is no such intent"),
                Some((state, now)) if *now != version || state.name() != change.from() => {
                    let state = state.name().as_str();
                    format!("{id} is changed from {from} at version {version}, but was {state} at {now}")
                }
                Some(_) => continue,
            };
            return Err(CheckFailure::of(lane, what));
        }
        let before = view.before.cursor.as_ref().map_or((0, 0), |cursor| (cursor.version, cursor.event_seq));
        if let Some(cursor) = commit.cursor() {
            let events = commit.lane_events().count() as u64;
            let after = (cursor.to().version, cursor.to().event_seq);
            if cursor.from_version() != before.0 || after != (before.0 + 1, before.1 + events) {
                let what =
                    format!("the cursor goes from (version, event) {before:?} to {after:?} with {events} events");
                return Err(CheckFailure::of(lane, what));
            }
        }
        Ok(())
    }

    fn end(&mut self, view: &WorldView) -> Result<(), CheckFailure> {
        view.finding("P8")?;
        let Some(end) = view.end() else { return Ok(()) };
        for row in &end.txs {
            let (id, lane) = (row.tx.id, row.tx.intent.submitter());
            let Some(entry) = view.ledger.intents.get(&id) else {
                return Err(CheckFailure::of(lane, format!("{id} is in the store, but not in the history")));
            };
            if !is_same(&entry.state, &row.tx.state) || entry.version != row.tx.version {
                let (made, made_at) = (entry.state.name().as_str(), entry.version);
                let (is, at) = (row.tx.state.name().as_str(), row.tx.version);
                return Err(CheckFailure::of(
                    lane,
                    format!("{id} is {is} at version {at}, but its commits give {made} at version {made_at}"),
                ));
            }
        }
        Ok(())
    }
}

/// The history records a cancel in the queue without its reason.
fn is_same(recorded: &TxState, row: &TxState) -> bool {
    use gapless_domain::Cancellation::InQueue;
    let in_queue = |state: &TxState| matches!(state, TxState::Canceled(InQueue(_)));
    recorded == row || (in_queue(recorded) && in_queue(row))
}
