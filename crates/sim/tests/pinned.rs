//! Scenarios that have found a bug once, as scripts: faults at named moments, in small worlds.
//!
//! A scenario runs under several seeds, since the dice still decide about times and depths. No world may break a
//! promise, and at least one of them must show the scenario. A scenario that is no longer shown needs another script.

use std::ops::Range;
use std::time::Duration;

use gapless_domain::{
    AttemptKind, B256, EventKind, FinalFailure, LaneCommit, LaneEventKind, ReservationStep, SendOutcome, SubStateName,
    TransitionName, TxId, TxState,
};
use gapless_sim::history::Moment;
use gapless_sim::{Cue, Fault, Landmark, StoreKind, WorldSpec, run};
use gapless_store::{CommitVerdict, Conflict};

/// A world of one node and one lane, without people and without faults but those of the script.
fn small(seed: u64, script: &[(Landmark, Fault)]) -> WorldSpec {
    WorldSpec {
        nodes: 1,
        lanes: 1,
        intents: 8,
        people: false,
        store: StoreKind::Model,
        endpoints: 1,
        block_time: Duration::from_secs(1),
        confirmations: 3,
        by_tag: false,
        storm: Duration::from_secs(60),
        odds: Default::default(),
        script: script.iter().map(|(after, fault)| Cue { after: *after, fault: *fault }).collect(),
        ..WorldSpec::of(seed)
    }
}

/// Runs the worlds. None may break a promise, and some must show the scenario.
fn scenario(worlds: u64, plan: impl Fn(u64) -> WorldSpec, is_shown: impl Fn(&[Moment]) -> bool) {
    let mut shown = 0;
    for seed in 0..worlds {
        let outcome = run(&plan(seed));
        assert_eq!(outcome.violation, None, "seed {seed}\n{}", outcome.tail.join("\n"));
        shown += usize::from(is_shown(&outcome.moments()));
    }
    assert!(shown > 0, "none of {worlds} worlds shows the scenario");
}

fn commits(moments: &[Moment]) -> impl Iterator<Item = (usize, &LaneCommit)> {
    moments.iter().enumerate().filter_map(|(at, moment)| match moment {
        Moment::Committed { commit, .. } => Some((at, &**commit)),
        _ => None,
    })
}

fn position(moments: &[Moment], from: usize, is_it: impl Fn(&Moment) -> bool) -> Option<usize> {
    moments.iter().skip(from).position(is_it).map(|at| from + at)
}

fn has_struck(moment: &Moment, wanted: Fault) -> bool {
    matches!(moment, Moment::Struck { fault, .. } if *fault == wanted)
}

fn has_lane_event(commit: &LaneCommit, wanted: LaneEventKind) -> bool {
    commit.lane_events().any(|(_, kind, _)| kind == wanted)
}

/// Where commits were lost: the lost part of the history.
fn losses(moments: &[Moment]) -> Vec<Range<usize>> {
    let loss = |(at, moment): (usize, &Moment)| match moment {
        Moment::StoreLost { since } => Some(*since..at),
        _ => None,
    };
    moments.iter().enumerate().filter_map(loss).collect()
}

/// Commits that a loss took away, each with the end of the loss.
fn lost_commits(moments: &[Moment]) -> Vec<(usize, &LaneCommit)> {
    let lost = losses(moments);
    let of = |(at, commit)| lost.iter().find(|loss| loss.contains(&at)).map(|loss| (loss.end, commit));
    commits(moments).filter_map(of).collect()
}

/// The blocks of a transaction, by where they are in the history.
fn mined_at(moments: &[Moment], hash: B256) -> Vec<(usize, u64)> {
    let has = |(at, moment): (usize, &Moment)| match moment {
        Moment::Mined { block } if block.txs.iter().any(|tx| tx.hash() == hash) => Some((at, block.block.number)),
        _ => None,
    };
    moments.iter().enumerate().filter_map(has).collect()
}

fn own_hashes(moments: &[Moment]) -> Vec<B256> {
    commits(moments).flat_map(|(_, commit)| commit.attempts()).map(|attempt| attempt.hash).collect()
}

/// Found by seed 2178: a transaction that reverted while no node ran, longer ago than headers are kept, was looked up
/// again and again, and its intent never ended.
#[test]
fn revert_older_than_the_kept_headers_ends() {
    let plan = |seed| WorldSpec { walk_max: 5, ..small(seed, &[(Landmark::Sent, Fault::CrashAnywhere); 4]) };
    scenario(30, plan, |moments| {
        let is_end = |moment: &Moment| matches!(moment, Moment::Ended { .. });
        let is_start = |moment: &Moment| matches!(moment, Moment::Started { .. });
        let is_block = |moment: &&Moment| matches!(moment, Moment::Mined { .. });
        commits(moments).any(|(at, commit)| {
            commit.changes().iter().any(|change| {
                let TxState::FailedFinal(FinalFailure::Reverted(settled)) = change.to() else { return false };
                let mined = mined_at(moments, settled.inclusion.hash);
                let Some((mined, _)) = mined.into_iter().rfind(|(mined, _)| *mined < at) else { return false };
                let Some(start) = position(moments, mined, is_start) else { return false };
                let is_away = moments[..mined].iter().rev().find(|moment| is_end(moment) || is_start(moment));
                let blocks = moments[mined..start].iter().filter(is_block).count();
                is_away.is_some_and(is_end) && blocks > 8
            })
        })
    });
}

/// Found by seed 2454: after a reorg below the final block, which an operator accepted, a transaction stood below the
/// height at which the search for it ended. Its intent was taken for lost, and sent again.
#[test]
fn transaction_mined_lower_after_a_deep_reorg_is_not_lost() {
    let plan = |seed| small(seed, &[(Landmark::OwnMined, Fault::DeepReorg)]);
    scenario(20, plan, |moments| {
        let Some(struck) = position(moments, 0, |moment| has_struck(moment, Fault::DeepReorg)) else { return false };
        let is_accepted = |moment: &Moment| matches!(moment, Moment::HeadForgotten { .. });
        let is_lower = |hash: B256| {
            let mined = mined_at(moments, hash);
            let (before, after): (Vec<_>, Vec<_>) = mined.into_iter().partition(|(at, _)| *at < struck);
            before.iter().any(|(_, high)| after.iter().any(|(_, low)| low < high))
        };
        position(moments, struck, is_accepted).is_some() && own_hashes(moments).into_iter().any(is_lower)
    });
}

/// Found by seed 14222: the commit that put a lane into PROTECT was lost by a second failover. Its owner had nothing
/// to write, and never noticed.
#[test]
fn loss_of_the_commit_that_protects_is_noticed() {
    let plan = |seed| small(seed, &[(Landmark::Bound, Fault::Failover), (Landmark::Protected, Fault::Failover)]);
    scenario(10, plan, |moments| {
        let protects = |commit: &LaneCommit| has_lane_event(commit, LaneEventKind::Protected);
        let lost = lost_commits(moments).into_iter().find(|(_, commit)| protects(commit));
        lost.is_some_and(|(loss, _)| commits(moments).any(|(at, commit)| at > loss && protects(commit)))
    });
}

/// Found by seed 6806: a second loss forgot that an operator's resync was done. The lane executed it again, after a
/// loss that it was not meant for, and went on before the transactions that were sent had shown themselves.
#[test]
fn resync_from_before_a_loss_is_not_executed_again() {
    let plan = |seed| small(seed, &[(Landmark::Bound, Fault::Failover), (Landmark::Resynced, Fault::Failover)]);
    scenario(10, plan, |moments| {
        lost_commits(moments).iter().any(|(_, commit)| has_lane_event(commit, LaneEventKind::Resynced))
    });
}

/// The hashes of replacements whose commits were lost, each with the end of the loss.
fn lost_replacements(moments: &[Moment]) -> Vec<(usize, B256)> {
    let replacements = lost_commits(moments).into_iter().flat_map(|(loss, commit)| {
        let is_replacement = |attempt: &&gapless_domain::NewAttempt| attempt.kind == AttemptKind::Replace;
        commit.attempts().iter().filter(is_replacement).map(move |attempt| (loss, attempt.hash))
    });
    replacements.collect()
}

/// Found by seeds 1957 and 2630: a replacement of ours had used a nonce, and the database had lost the replacement.
/// The intent was taken for lost, and sent again.
#[test]
fn replacement_lost_by_the_database_is_not_sent_again() {
    let plan = |seed| {
        let plan = small(seed, &[(Landmark::Replaced, Fault::Failover)]);
        WorldSpec { people: true, intents: 20, ..plan }
    };
    scenario(30, plan, |moments| {
        lost_replacements(moments).into_iter().any(|(_, hash)| !mined_at(moments, hash).is_empty())
    });
}

/// Found by seed 2730: a decision canceled a cancel that was stuck. Such a change cannot be written, and the lane
/// wrote nothing from then on.
#[test]
fn stuck_cancel_ends() {
    let plan = |seed| {
        let mut plan = small(seed, &[(Landmark::CancelWanted, Fault::FeeSpike); 3]);
        (plan.people, plan.intents, plan.fees.tries) = (true, 20, 1);
        (plan.fees.resubmits, plan.fees.bumps) = (Duration::from_secs(4), None);
        plan
    };
    scenario(20, plan, |moments| {
        let changes = commits(moments).flat_map(|(_, commit)| commit.changes());
        let given_up = changes.filter(|change| change.event() == EventKind::Tx(TransitionName::GiveUp));
        given_up.into_iter().any(|change| change.to().sub_state() == Some(SubStateName::Canceling))
    });
}

/// Found by seed 7952: a bump was refused as underpriced. A higher price was above the cap, and the bump was never
/// sent again.
#[test]
fn bump_refused_as_underpriced_is_sent_again() {
    let plan = |seed| {
        let mut plan = small(seed, &[(Landmark::Sent, Fault::ChainHalt); 8]);
        plan.odds = [(Fault::WrongText, 900)].into();
        // The second bump reaches the cap.
        plan.fees.bumps = Some((1500, 6));
        (plan.fees.max_price, plan.fees.resubmits) = (5_000_000_000, Duration::from_secs(4));
        plan
    };
    scenario(100, plan, |moments| {
        let attempts = commits(moments).flat_map(|(_, commit)| commit.attempts());
        let bumps: Vec<B256> =
            attempts.filter(|attempt| attempt.kind == AttemptKind::Bump).map(|attempt| attempt.hash).collect();
        commits(moments).any(|(at, commit)| {
            let refused =
                commit.reports().iter().filter(|report| report.outcome == SendOutcome::ReplacementUnderpriced);
            let is_sent = |hash: B256| {
                position(moments, at, |moment| matches!(moment, Moment::Sent { tx, .. } if tx.hash == hash)).is_some()
            };
            refused.into_iter().any(|report| bumps.contains(&report.hash) && is_sent(report.hash))
        })
    });
}

/// Found by seed 2989: a transaction was found again in an old block while the chain violated finality. The lane
/// forgot it as if it had been told that it is final.
#[test]
fn transaction_found_during_a_finality_violation_ends() {
    let script = [(Landmark::OwnMined, Fault::DeepReorg), (Landmark::Orphaned, Fault::CrashAnywhere)];
    scenario(
        30,
        |seed| small(seed, &script),
        |moments| {
            let struck = position(moments, 0, |moment| has_struck(moment, Fault::DeepReorg));
            let is_start = |moment: &Moment| matches!(moment, Moment::Started { .. });
            let is_accepted = |moment: &Moment| matches!(moment, Moment::HeadForgotten { .. });
            let Some(struck) = struck else { return false };
            let (start, accepted) = (position(moments, struck, is_start), position(moments, struck, is_accepted));
            let Some((start, accepted)) = start.zip(accepted).filter(|(start, accepted)| start < accepted) else {
                return false;
            };
            commits(moments).filter(|(at, _)| *at > accepted).any(|(_, commit)| {
                commit.changes().iter().any(|change| match change.to() {
                    TxState::Confirmed(settled) => {
                        mined_at(moments, settled.inclusion.hash).iter().any(|(at, _)| *at < start)
                    }
                    _ => false,
                })
            })
        },
    );
}

/// Found by seed 8436: a loss was reconciled by the answers of endpoints that were behind. A replacement that was
/// lost with the database had used the nonce long before, and its intent was sent once more.
#[test]
fn loss_is_not_reconciled_by_endpoints_that_lag() {
    let plan = |seed| {
        let script = [(Landmark::Replaced, Fault::Failover), (Landmark::Protected, Fault::EndpointLags)];
        WorldSpec { people: true, intents: 20, ..small(seed, &script) }
    };
    scenario(30, plan, |moments| {
        lost_replacements(moments).into_iter().any(|(loss, hash)| {
            let lags = position(moments, loss, |moment| has_struck(moment, Fault::EndpointLags));
            let resynced = |(at, commit): (usize, &LaneCommit)| {
                (at > loss && has_lane_event(commit, LaneEventKind::Resynced)).then_some(at)
            };
            let resynced = commits(moments).find_map(resynced);
            lags.zip(resynced).is_some_and(|(lags, resynced)| lags < resynced) && !mined_at(moments, hash).is_empty()
        })
    });
}

/// Found by seed 9912: the endpoints of one node lagged. It carried out a resync, although another node had saved the
/// block of a transaction that the database had lost as final, and overlooked that transaction.
#[test]
fn resync_by_a_lagging_node_overlooks_no_transaction() {
    let plan = |seed| {
        let plan = small(seed, &[(Landmark::Replaced, Fault::Failover)]);
        // The pool of a lagging endpoint would show the overlooked transaction as pending.
        let odds = [(Fault::EndpointLags, 900), (Fault::PoolForgets, 900)].into();
        let plan = WorldSpec { people: true, intents: 60, window: 8, odds, ..plan };
        WorldSpec { nodes: 3, endpoints: 3, own_endpoints: true, confirmations: 2, ..plan }
    };
    scenario(160, plan, |moments| {
        lost_replacements(moments).into_iter().any(|(loss, hash)| {
            let lags = position(moments, loss, |moment| has_struck(moment, Fault::EndpointLags));
            let resynced = |(at, commit): (usize, &LaneCommit)| {
                (at > loss && has_lane_event(commit, LaneEventKind::Resynced)).then_some(at)
            };
            let resynced = commits(moments).find_map(resynced);
            lags.zip(resynced).is_some_and(|(lags, resynced)| lags < resynced) && !mined_at(moments, hash).is_empty()
        })
    });
}

/// Found by seed 216: a loss was not reconciled while a nonce was reserved, although the reservation ends only after
/// it: no nonce behind it can be mined.
#[test]
fn loss_is_reconciled_while_a_nonce_is_reserved() {
    let plan = |seed| {
        // The slow answer parts the two steps, so that the standby has the reservation when it takes over.
        let plan = small(seed, &[(Landmark::Reserved, Fault::StoreSlow), (Landmark::Sent, Fault::Failover)]);
        WorldSpec { people: true, intents: 20, ..plan }
    };
    scenario(30, plan, |moments| {
        let lost = losses(moments);
        let Some(loss) = lost.first().map(|loss| loss.end) else { return false };
        let kept: Vec<_> = commits(moments).filter(|(at, _)| !lost.iter().any(|loss| loss.contains(at))).collect();
        let ended = kept.iter().find(|(at, commit)| *at > loss && has_lane_event(commit, LaneEventKind::Unprotected));
        let Some((ended, _)) = ended else { return false };
        let steps = |from: usize, to: usize| {
            let within = kept.iter().filter(move |(at, _)| (from..to).contains(at));
            within.flat_map(|(at, commit)| commit.reservations().iter().map(move |step| (*at, step)))
        };
        let mut reserved = steps(0, loss).filter(|(_, step)| matches!(step, ReservationStep::Reserve { .. }));
        reserved.any(|(at, reserve)| steps(at + 1, *ended).all(|(_, step)| step.nonce() != reserve.nonce()))
    });
}

/// Intents that were canceled in the queue at least one block before a commit that binds them was refused.
fn late_conflicts(moments: &[Moment]) -> Vec<TxId> {
    let is_block = |moment: &Moment| matches!(moment, Moment::Mined { .. });
    let refused = moments.iter().enumerate().filter_map(|(at, moment)| match moment {
        Moment::NotCommitted { verdict: CommitVerdict::Conflict(Conflict::Tx(id)), .. } => Some((at, *id)),
        _ => None,
    });
    let is_late = |(at, id): &(usize, TxId)| {
        let canceled = position(moments, 0, |moment| matches!(moment, Moment::CanceledInQueue { id: it } if it == id));
        canceled.is_some_and(|canceled| moments[canceled..*at].iter().any(is_block))
    };
    refused.filter(is_late).map(|(_, id)| id).collect()
}

/// A lane had read an intent as a candidate, and its caller canceled it in the queue. The lane was not told. It signed
/// the intent, and loaded itself again after the conflict of its commit.
#[test]
fn cancel_in_the_queue_causes_no_late_conflict() {
    let plan = |seed| WorldSpec { people: true, intents: 40, window: 1, ..small(seed, &[]) };
    scenario(20, plan, |moments| {
        assert_eq!(late_conflicts(moments), []);
        moments.iter().any(|moment| matches!(moment, Moment::CanceledInQueue { .. }))
    });
}

/// A loss took the replacement of an intent behind a reserved nonce. A resync did not wait for that intent, whose
/// replacement was in the pools. Now a cancel takes the reserved nonce, and the resync waits.
#[test]
fn replacement_lost_behind_a_reserved_nonce_is_waited_for() {
    let plan = |seed| {
        let script = [(Landmark::Reserved, Fault::StoreSlow), (Landmark::Replaced, Fault::Failover)];
        WorldSpec { people: true, intents: 40, window: 8, ..small(seed, &script) }
    };
    scenario(110, plan, |moments| {
        let is_cancel = |step: &ReservationStep| matches!(step, ReservationStep::Cancel { .. });
        lost_replacements(moments).into_iter().any(|(loss, _)| {
            commits(moments).any(|(at, commit)| at > loss && commit.reservations().iter().any(is_cancel))
        })
    });
}
