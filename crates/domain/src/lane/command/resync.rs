//! Resync: carries out the changes that a scan calls for. A dry run only reports them.

use crate::command::LostRule;
use crate::cursor::Cursor;
use crate::event::LaneEventKind;
use crate::text::NodeText;

use super::{Answer, Execution, done, refused};
use crate::lane::reconcile::plan::ReconcilePlan;

const MAY_BE_OURS: &str = "the lane is paused: transactions that the ledger cannot explain may belong to lost \
    requests, or be replacements of queued intents; cancel the intents that were already carried out, then resume\n";

pub(super) fn execute(run: &mut Execution<'_>, plan: &ReconcilePlan, rule: LostRule, dry_run: bool) -> Answer {
    if dry_run {
        return report(run, plan, rule);
    }
    if let Some(refusal) = refusal(run, plan, rule) {
        return refused(&refusal);
    }
    let mut lines = plan.lines(rule);
    run.lane.apply_plan(plan, rule, run.draft)?;
    if is_store_regressed(run) && plan.is_unexplained() {
        // The transaction may be the lost replacement of a queued intent. Nothing is sent before people have checked.
        run.draft.set_paused(true, NodeText::new(MAY_BE_OURS))?;
        lines.push_str(MAY_BE_OURS);
    }
    let summary = NodeText::new(&plan.summary());
    run.draft.lane_event(LaneEventKind::Resynced, summary.clone())?;
    if !plan.more {
        // The pending reason for PROTECT is reconciled as well.
        run.draft.take_protection(run.lane.commits.protection.take());
        if is_protected(run) {
            run.draft.unprotect(true, summary)?;
        }
    }
    done(&lines)
}

/// Report of a dry run.
fn report(run: &Execution<'_>, plan: &ReconcilePlan, rule: LostRule) -> Answer {
    let mut text = String::from("dry run, nothing was changed; resync would:\n");
    text.push_str(&plan.lines(rule));
    match refusal(run, plan, rule) {
        Some(refusal) => text.push_str(&format!("but it would be refused now: {refusal}\n")),
        None if plan.more => text.push_str("PROTECT would stay: more nonces need adoption\n"),
        None if is_protected(run) => text.push_str("PROTECT would end\n"),
        None => {}
    }
    done(&text)
}

/// Reason why a resync is refused.
fn refusal(run: &Execution<'_>, plan: &ReconcilePlan, rule: LostRule) -> Option<String> {
    if let Some((_, obstacle)) = &plan.obstacle {
        return Some(obstacle.clone());
    }
    let fails = rule == LostRule::Fail && plan.lost.iter().any(|lost| lost.tx.is_some());
    let text = "after a loss of commits no intent may end before the lane is reconciled: use `requeue`";
    (fails && is_store_regressed(run)).then(|| text.to_owned())
}

fn is_store_regressed(run: &Execution<'_>) -> bool {
    run.draft.base().is_some_and(|cursor| cursor.state.is_store_regressed())
}

fn is_protected(run: &Execution<'_>) -> bool {
    run.draft.base().is_some_and(Cursor::is_protected)
}
