//! The transition table, cell by cell, and its diagram in `docs/states.md`.

use std::fmt::Write as _;
use std::path::Path;

use gapless_domain::{
    Amount, AttemptKind, B256, BlockRef, Bound, CancelReason, Cancellation, ConfirmationNotice, EvmCall, Execution,
    FailReason, FinalFailure, Goal, Inclusion, Mined, NodeText, Nonce, Payload, Progress, Settled, StateName,
    StuckReason, Transition, TransitionName, TxState, targets,
};

/// The expected table: one row for each transition, one column for each state that is not terminal. A dot means that
/// the transition is not allowed.
const TABLE: &str = "
transition        QUEUED        ALLOCATED  TRACKING                         STUCK
bind              ALLOCATED     .          .                                .
acknowledge       .             TRACKING   .                                .
mine              .             TRACKING   TRACKING                         TRACKING
confirm           .             .          TRACKING                         .
unmine            .             .          TRACKING                         .
await_funds       .             ALLOCATED  TRACKING                         STUCK
funded            .             ALLOCATED  TRACKING                         STUCK
give_up           .             STUCK      STUCK                            .
revive            .             .          .                                TRACKING
want_cancel       .             ALLOCATED  TRACKING                         STUCK
want_replace      QUEUED        ALLOCATED  TRACKING                         STUCK
lose_nonce        .             QUEUED     QUEUED                           QUEUED
settle            .             .          CONFIRMED|FAILED_FINAL|CANCELED  .
fail_in_queue     FAILED_FINAL  .          .                                .
cancel_in_queue   CANCELED      .          .                                .
release_reserved  .             CANCELED   .                                .
";

const OPEN: [StateName; 4] = [StateName::Queued, StateName::Allocated, StateName::Tracking, StateName::Stuck];

#[test]
fn transition_table_matches_expected_table() {
    let rows: Vec<Vec<&str>> = TABLE.trim().lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows.len(), TransitionName::ALL.len(), "a transition is missing in the expected table");
    for row in rows {
        let transition = TransitionName::parse(row[0]).unwrap();
        for (state, expected) in OPEN.into_iter().zip(&row[1..]) {
            let expected: Vec<&str> = if *expected == "." { vec![] } else { expected.split('|').collect() };
            let actual: Vec<&str> = targets(state, transition).iter().map(|name| name.as_str()).collect();
            assert_eq!(actual, expected, "{} from {}", transition.as_str(), state.as_str());
        }
    }
}

#[test]
fn terminal_state_allows_no_transition() {
    for state in samples().into_iter().filter(|state| state.name().is_terminal()) {
        for transition in transitions() {
            assert!(state.apply(transition.clone()).is_err(), "{state:?} {transition:?}");
        }
    }
}

/// Applying a transition agrees with the table in every cell: no transition outside of the table succeeds, and every
/// target in the table is reached by some data.
#[test]
fn applying_transitions_agrees_with_table() {
    let mut reached = Vec::new();
    for state in samples() {
        for transition in transitions() {
            let allowed = targets(state.name(), transition.name());
            match state.apply(transition.clone()) {
                Ok(next) => {
                    assert!(allowed.contains(&next.name()), "{state:?} {transition:?} -> {next:?}");
                    reached.push((state.name(), transition.name(), next.name()));
                }
                Err(illegal) => assert_eq!((illegal.from, illegal.transition), (state.name(), transition.name())),
            }
        }
    }
    for from in StateName::ALL.iter().copied() {
        for transition in TransitionName::ALL.iter().copied() {
            for to in targets(from, transition).iter().copied() {
                assert!(reached.contains(&(from, transition, to)), "never reached: {from:?} {transition:?} {to:?}");
            }
        }
    }
}

#[test]
fn settled_intent_ends_by_what_was_mined() {
    let end = |goal, inclusion| {
        let bound = Bound { nonce: Nonce::ZERO, goal, progress: mined(inclusion) };
        TxState::Tracking(bound).apply(Transition::Settle(None)).unwrap()
    };
    let canceling = Goal::Cancel(CancelReason::User);
    assert_eq!(end(canceling, inclusion(AttemptKind::Original, Execution::Success)).name(), StateName::Confirmed);
    assert_eq!(end(canceling, inclusion(AttemptKind::Bump, reverted())).name(), StateName::FailedFinal);
    assert_eq!(end(Goal::Replace, inclusion(AttemptKind::Replace, Execution::Success)).name(), StateName::Confirmed);
    let canceled = end(canceling, inclusion(AttemptKind::Cancel, Execution::Success));
    assert!(matches!(canceled, TxState::Canceled(Cancellation::OnChain(CancelReason::User, _))));
    let filled = end(Goal::Deliver, inclusion(AttemptKind::Fill, reverted()));
    assert!(matches!(filled, TxState::Canceled(Cancellation::OnChain(CancelReason::Rejected, _))));
}

#[test]
fn transition_forbidden_by_data_is_rejected() {
    let tracking = |goal, progress| TxState::Tracking(Bound { nonce: Nonce::ZERO, goal, progress });
    let in_block = || mined(inclusion(AttemptKind::Original, Execution::Success));
    assert!(tracking(Goal::Deliver, Progress::Pending).apply(Transition::Unmine).is_err());
    assert!(tracking(Goal::Deliver, Progress::Pending).apply(Transition::Settle(None)).is_err());
    assert!(tracking(Goal::Deliver, in_block()).apply(Transition::LoseNonce).is_err());
    assert!(tracking(Goal::Deliver, in_block()).apply(Transition::GiveUp(StuckReason::OutOfTries)).is_err());
    assert!(
        tracking(Goal::Cancel(CancelReason::User), Progress::Pending)
            .apply(Transition::WantReplace(payload()))
            .is_err()
    );
}

/// Regenerate with `GAPLESS_UPDATE=1 cargo test -p gapless-domain`.
#[test]
fn states_diagram_in_docs_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/states.md");
    let drawn = draw();
    if std::env::var_os("GAPLESS_UPDATE").is_some() {
        std::fs::write(&path, &drawn).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(kept, drawn, "docs/states.md is outdated; run GAPLESS_UPDATE=1 cargo test -p gapless-domain");
}

fn draw() -> String {
    let mut arrows = String::new();
    let mut within = String::new();
    for from in OPEN {
        for transition in TransitionName::ALL.iter().copied() {
            for to in targets(from, transition) {
                let line = format!("    {} --> {}: {}\n", from.as_str(), to.as_str(), transition.as_str());
                let list = if from == *to { &mut within } else { &mut arrows };
                list.push_str(&line);
            }
        }
    }
    let ends: String = StateName::ALL
        .iter()
        .filter(|state| state.is_terminal())
        .map(|state| format!("    {} --> [*]\n", state.as_str()))
        .collect();
    let mut page = String::new();
    let _ = write!(
        page,
        "# The states of an intent\n\n\
         Generated from the transition table in `crates/domain/src/transition.rs`; do not edit.\n\
         Regenerate it with `GAPLESS_UPDATE=1 cargo test -p gapless-domain`.\n\n\
         ```mermaid\nstateDiagram-v2\n    [*] --> QUEUED: accepted\n{arrows}{ends}```\n\n\
         These transitions keep the state and change only the sub-state or the goal:\n\n\
         ```mermaid\nstateDiagram-v2\n{within}```\n\n\
         The complete table. A dot means that the transition is not allowed. No transition leaves a terminal state.\n\n\
         ```text{TABLE}```\n"
    );
    page
}

fn samples() -> Vec<TxState> {
    let settled = |kind, execution| Settled { nonce: Nonce::ZERO, inclusion: inclusion(kind, execution) };
    let mut states = vec![
        TxState::Queued,
        TxState::Confirmed(settled(AttemptKind::Original, Execution::Success)),
        TxState::FailedFinal(FinalFailure::Unbound(FailReason::InvalidPayload, NodeText::default())),
        TxState::FailedFinal(FinalFailure::Reverted(settled(AttemptKind::Original, reverted()))),
        TxState::Canceled(Cancellation::InQueue(CancelReason::User)),
        TxState::Canceled(Cancellation::Released),
        TxState::Canceled(Cancellation::OnChain(CancelReason::User, settled(AttemptKind::Cancel, Execution::Success))),
    ];
    for goal in [Goal::Deliver, Goal::Replace, Goal::Cancel(CancelReason::Expired)] {
        let mut progresses = vec![Progress::Pending, Progress::AwaitingFunds];
        for kind in AttemptKind::ALL.iter().copied() {
            progresses.push(mined(inclusion(kind, Execution::Success)));
            progresses.push(mined(inclusion(kind, reverted())));
        }
        for progress in progresses {
            let bound = Bound { nonce: Nonce::ZERO, goal, progress };
            if !matches!(bound.progress, Progress::Mined(_)) {
                states.push(TxState::Allocated(bound.clone()));
                states.push(TxState::Stuck(bound.clone(), StuckReason::OutOfTries));
            }
            states.push(TxState::Tracking(bound));
        }
    }
    states
}

fn payload() -> Payload {
    Payload::from(EvmCall::default())
}

fn transitions() -> Vec<Transition> {
    let all = vec![
        Transition::Bind(Nonce::ZERO),
        Transition::Acknowledge,
        Transition::Mine(inclusion(AttemptKind::Original, Execution::Success)),
        Transition::Confirm(ConfirmationNotice::first(inclusion(AttemptKind::Original, Execution::Success).link())),
        Transition::Unmine,
        Transition::AwaitFunds,
        Transition::Funded,
        Transition::GiveUp(StuckReason::OutOfTries),
        Transition::Revive,
        Transition::WantCancel(CancelReason::User),
        Transition::WantReplace(payload()),
        Transition::LoseNonce,
        Transition::Settle(None),
        Transition::FailInQueue(FailReason::Expired, NodeText::default()),
        Transition::CancelInQueue(CancelReason::User),
        Transition::ReleaseReserved,
    ];
    let names: Vec<TransitionName> = all.iter().map(Transition::name).collect();
    assert_eq!(names, TransitionName::ALL, "a transition has no sample");
    all
}

fn inclusion(kind: AttemptKind, execution: Execution) -> Inclusion {
    Inclusion {
        hash: B256::repeat_byte(1),
        kind,
        block: BlockRef { number: 1, hash: B256::repeat_byte(2) },
        parent_hash: B256::repeat_byte(3),
        execution,
        work_used: 21_000,
        unit_price: Amount::from(1_u64),
    }
}

fn mined(inclusion: Inclusion) -> Progress {
    let notified = inclusion.block;
    Progress::Mined(Mined { inclusion, notified })
}

fn reverted() -> Execution {
    Execution::Reverted { reason: None, data: Default::default() }
}
