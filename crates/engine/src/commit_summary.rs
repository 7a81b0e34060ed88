//! The log lines and metrics of a commit.

use gapless_domain::{
    Change, EventKind, Inclusion, LaneCommit, LaneEventKind, NodeText, StateName, TransitionName, TxId, U256,
};

const BILLION: u64 = 1_000_000_000;

/// The log lines and metrics of one commit. They are written only when the commit is durable.
pub(crate) struct CommitSummary {
    changes: Vec<(TxId, EventKind, StateName)>,
    lane_events: Vec<(LaneEventKind, NodeText)>,
    /// Confirmation lists that do not continue the list before.
    new_forks: u64,
    /// Kinds of the new attempts, and fees by kind of the final ones, in billions of the smallest unit: the metrics
    /// show the cost of bumping.
    attempts: Vec<&'static str>,
    fees_paid: Vec<(&'static str, u64)>,
}

impl CommitSummary {
    pub(crate) fn new(commit: &LaneCommit) -> Self {
        let change = |change: &Change| (change.tx_id(), change.event(), change.to().name());
        let forks = |change: &&Change| {
            let first = change.event() == EventKind::Tx(TransitionName::Mine);
            !first && change.notice().is_some_and(|notice| notice.new_fork)
        };
        let unmined = |change: &&Change| change.event() == EventKind::Tx(TransitionName::Unmine);
        let new_forks = commit.changes().iter().filter(|change| forks(change) || unmined(change)).count() as u64;
        CommitSummary {
            changes: commit.changes().iter().map(change).collect(),
            lane_events: commit.lane_events().map(|(_, kind, text)| (kind, text.clone())).collect(),
            new_forks,
            attempts: commit.attempts().iter().map(|attempt| attempt.kind.as_str()).collect(),
            fees_paid: commit.changes().iter().filter_map(|change| change.to().inclusion().map(fees_paid)).collect(),
        }
    }

    /// Writes the log lines and metrics. The caller's span adds submitter, node and fencing token to each line.
    pub(crate) fn record(&self) {
        if self.new_forks > 0 {
            metrics::counter!("gapless_confirmations_new_fork_total").increment(self.new_forks);
        }
        for kind in &self.attempts {
            metrics::counter!("gapless_tx_attempts_total", "kind" => *kind).increment(1);
        }
        for (kind, billions) in &self.fees_paid {
            metrics::counter!("gapless_fees_paid_gwei_total", "kind" => *kind).increment(*billions);
        }
        for (tx_id, kind, state) in &self.changes {
            let event = kind.as_str();
            tracing::info!(%tx_id, event, state = state.as_str(), "{}", change_text(*kind, *state));
            metrics::counter!("gapless_tx_changes_total", "event" => event).increment(1);
        }
        for (kind, detail) in &self.lane_events {
            let (event, text) = (kind.as_str(), lane_event_text(*kind));
            if needs_attention(*kind) {
                tracing::warn!(event, %detail, "{text}");
            } else {
                tracing::info!(event, %detail, "{text}");
            }
        }
    }
}

/// The log message of a state change.
fn change_text(event: EventKind, state: StateName) -> &'static str {
    let EventKind::Tx(transition) = event else { return "intent accepted" };
    match (transition, state) {
        (TransitionName::Bind, _) => "intent bound to a nonce",
        (TransitionName::Acknowledge, _) => "intent acknowledged by an endpoint",
        (TransitionName::Mine, _) => "intent mined",
        (TransitionName::Confirm, _) => "intent confirmations changed",
        (TransitionName::Unmine, _) => "intent unmined by a reorg",
        (TransitionName::AwaitFunds, _) => "intent waits for funds",
        (TransitionName::Funded, _) => "intent has funds again",
        (TransitionName::GiveUp, _) => "intent stuck",
        (TransitionName::Revive, _) => "intent no longer stuck",
        (TransitionName::WantCancel, _) => "intent cancel requested",
        (TransitionName::WantReplace, _) => "intent replaced",
        (TransitionName::LoseNonce, _) => "intent lost its nonce to a foreign transaction",
        (TransitionName::Settle, StateName::Confirmed) => "intent confirmed",
        (TransitionName::Settle, StateName::Canceled)
        | (TransitionName::CancelInQueue | TransitionName::ReleaseReserved, _) => "intent canceled",
        (TransitionName::Settle | TransitionName::FailInQueue, _) => "intent failed",
    }
}

/// The log message of a lane event.
fn lane_event_text(kind: LaneEventKind) -> &'static str {
    match kind {
        LaneEventKind::Protected => "lane entered PROTECT",
        LaneEventKind::Unprotected => "lane left PROTECT",
        LaneEventKind::Paused => "lane paused",
        LaneEventKind::Resumed => "lane resumed",
        LaneEventKind::Resynced => "lane resynced",
        LaneEventKind::LowBalance => "balance below the threshold",
        LaneEventKind::BalanceRestored => "balance above the threshold again",
        LaneEventKind::FeesAboveCap => "fees above the cap; sending and bumping stop",
        LaneEventKind::FeesBelowCap => "fees below the cap again",
        LaneEventKind::Diagnosed => "mempool signal of a nonce changed",
        LaneEventKind::Escalated => "stuck intent needs a decision",
    }
}

/// Does an operator have to act on the event?
fn needs_attention(kind: LaneEventKind) -> bool {
    use LaneEventKind as K;
    matches!(kind, K::Protected | K::LowBalance | K::FeesAboveCap | K::Escalated)
}

/// The fee of a final transaction in billions of the smallest unit, with the kind of its attempt.
fn fees_paid(inclusion: &Inclusion) -> (&'static str, u64) {
    let fee = inclusion.unit_price.get().saturating_mul(U256::from(inclusion.work_used));
    (inclusion.kind.as_str(), u64::try_from(fee / U256::from(BILLION)).unwrap_or(u64::MAX))
}
