//! The text of each moment, one short line each, for the reader of a trace.

use std::fmt;

use gapless_domain::{
    B256, BlockRef, Change, Claim, CommandKind, CommandResult, EventKind, LaneCommit, LaneState, OwnerId, Payload,
    Progress, ReservationStep, SlotKind, SubmitterId, TransitionName, TxId, TxState,
};

use crate::chain::data_of;
use crate::history::{ChainBlock, ChainTx, Moment, effect_of};

pub(crate) fn moment(moment: &Moment, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match moment {
        Moment::Accepted { id, intent } => {
            let what = match intent.payload() {
                Payload::Act(action) => effect(data_of(action)),
                Payload::Reservation(external) => format!("reservation for {}", external.lock_owner),
            };
            let (request, lane) = (intent.request_id(), account(intent.submitter()));
            write!(f, "store: {} accepted for {lane}: {what}, request {request}", intent_name(*id))
        }
        Moment::Leased { lease } => {
            let (lane, owner, token) = (account(lease.submitter()), process(lease.owner()), lease.token());
            write!(f, "{owner} holds {lane} with token {token}")
        }
        Moment::Released { lease } => {
            let (lane, owner, token) = (account(lease.submitter()), process(lease.owner()), lease.token());
            write!(f, "{owner} released {lane} (token {token})")
        }
        Moment::Committed { commit, .. } => {
            let (lane, owner) = (account(commit.lease().submitter()), process(commit.lease().owner()));
            write!(f, "{owner} committed for {lane}: {}", contents(commit))
        }
        Moment::NotCommitted { commit, verdict } => {
            let (lane, owner) = (account(commit.lease().submitter()), process(commit.lease().owner()));
            write!(f, "{owner} could not commit for {lane} ({verdict:?}): {}", contents(commit))
        }
        Moment::CanceledInQueue { id } => write!(f, "store: {} canceled in the queue", intent_name(*id)),
        Moment::CommandPut { id, lane, kind } => {
            write!(f, "command {} for {}: {}", id.0, account(lane), command(kind))
        }
        Moment::FinalKept { block } => write!(f, "store: {} saved as final", block_name(block)),
        Moment::Retained { kind, count } => write!(f, "store: retention took {count} of {}", kind.as_str()),
        Moment::HeadForgotten { chain } => write!(f, "store: final block of {chain} dropped"),
        Moment::StoreLost { since } => write!(f, "store: all writes since moment {since} lost"),
        Moment::Acknowledged { id, lane, request } => {
            write!(f, "caller of {}: {request} acknowledged as {}", account(lane), intent_name(*id))
        }
        Moment::GaveUp { lane, number } => write!(f, "caller of {}: gave up on request-{number}", account(lane)),
        Moment::Operator { what } => write!(f, "operator: {what}"),
        Moment::Sent { by, tx } => write!(f, "{} sent {}", process(by), short(&tx.hash)),
        Moment::Mined { block } => mined(block, f),
        Moment::MinedPrivately { block } => {
            f.write_str("private block of one endpoint: ")?;
            mined(block, f)
        }
        Moment::Orphaned { block } => write!(f, "chain: {} orphaned", block_name(block)),
        Moment::Final { block } => write!(f, "chain: final up to {}", block_name(block)),
        Moment::ChainReset { genesis } => write!(f, "chain: reset, new genesis {}", block_name(genesis)),
        Moment::Started { owner } => write!(f, "{} started", process(owner)),
        Moment::Ended { owner, how } => write!(f, "{} ended: {how}", process(owner)),
        Moment::Struck { fault, what } => write!(f, "fault {}: {what}", fault.as_str()),
        Moment::Calm => f.write_str("end of the storm: no more faults"),
    }
}

/// All contents of a commit: slots and attempts first, the cursor last.
fn contents(commit: &LaneCommit) -> String {
    let mut parts = Vec::new();
    for slot in commit.slots() {
        let nonce = slot.nonce;
        parts.push(match slot.kind {
            SlotKind::Intent(id) => format!("nonce {nonce} bound for {}", intent_name(id)),
            SlotKind::Reservation => format!("nonce {nonce} bound for a reservation"),
            SlotKind::Foreign => format!("nonce {nonce} adopted as foreign"),
        });
    }
    for new in commit.attempts() {
        parts.push(format!("{} {} for nonce {}", new.kind.as_str(), short(&new.hash), new.nonce));
    }
    parts.extend(commit.changes().iter().map(change));
    parts.extend(commit.reservations().iter().map(reservation));
    for report in commit.reports() {
        parts.push(format!("send of {}: {}", short(&report.hash), report.outcome.as_str()));
    }
    for Claim { nonce, .. } in commit.claims() {
        parts.push(format!("nonce {nonce} claimed for a resend"));
    }
    for (id, result) in commit.commands_done() {
        let refused = if matches!(result, CommandResult::Refused(_)) { "refused" } else { "done" };
        parts.push(format!("command {} {refused}", id.0));
    }
    parts.extend(commit.lane_events().map(|(_, kind, text)| format!("lane {}: {text}", kind.as_str())));
    if let Some(cursor) = commit.cursor().map(|change| change.to()) {
        let protect = match &cursor.state {
            LaneState::Protect(protection) => format!(" PROTECT {}", protection.code.as_str()),
            LaneState::Idle | LaneState::InFlight => String::new(),
        };
        let (next, open, last) = (cursor.next_nonce, cursor.open_nonce, cursor.final_nonce);
        parts.push(format!("cursor next {next} open {open} final {last}{protect}"));
    }
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
}

fn change(change: &Change) -> String {
    let id = intent_name(change.tx_id());
    match (change.event(), change.to()) {
        (EventKind::Tx(TransitionName::LoseNonce), _) => format!("{id} lost its nonce and is queued again"),
        (EventKind::Tx(TransitionName::Bind), TxState::Allocated(bound)) => format!("{id} has nonce {}", bound.nonce),
        (event, to) => format!("{id} {} -> {}", event.as_str(), state(to)),
    }
}

fn state(state: &TxState) -> String {
    let name = state.name().as_str();
    match state.bound() {
        Some(bound) => match &bound.progress {
            Progress::Mined(mined) => {
                let (hash, block) = (short(&mined.inclusion.hash), block_name(&mined.inclusion.block));
                format!("{name}/MINED by {hash} in {block}, notified up to {}", mined.notified.number)
            }
            Progress::Pending | Progress::AwaitingFunds => format!("{name}/{}", bound.sub_state().as_str()),
        },
        None => match state.nonce() {
            Some(nonce) => format!("{name} at nonce {nonce}"),
            None => name.to_owned(),
        },
    }
}

fn reservation(step: &ReservationStep) -> String {
    let nonce = step.nonce();
    match step {
        ReservationStep::Reserve { lock_owner, .. } => format!("nonce {nonce} reserved for {lock_owner}"),
        ReservationStep::Use { lock_owner, .. } => format!("nonce {nonce} submitted by {lock_owner}"),
        ReservationStep::Release { lock_owner, .. } => format!("nonce {nonce} released by {lock_owner}"),
        ReservationStep::Expire { .. } => format!("reservation of nonce {nonce} expired"),
        ReservationStep::Fill { .. } => format!("nonce {nonce} filled without a new reservation"),
        ReservationStep::Cancel { .. } => format!("reservation of nonce {nonce} expired and is being canceled"),
    }
}

fn command(kind: &CommandKind) -> String {
    let name = kind.as_str();
    match kind {
        CommandKind::Cancel { tx_id } | CommandKind::Replace { tx_id, .. } | CommandKind::Resubmit { tx_id, .. } => {
            format!("{name} {}", intent_name(*tx_id))
        }
        CommandKind::Resync { lost, dry_run } => {
            format!("{name} ({}{})", lost.as_str(), if *dry_run { ", dry run" } else { "" })
        }
        CommandKind::UseReserved { nonce, lock_owner, signed, .. } => {
            format!("{name} nonce {nonce} of {lock_owner} with {}", short(&signed.hash))
        }
        CommandKind::ReleaseReserved { nonce, lock_owner } => format!("{name} nonce {nonce} of {lock_owner}"),
        _ => name.to_owned(),
    }
}

fn mined(block: &ChainBlock, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "chain: {}", block_name(&block.block))?;
    let txs: Vec<String> = block.txs.iter().map(chain_tx).collect();
    if txs.is_empty() { f.write_str(", empty") } else { write!(f, " with {}", txs.join(", ")) }
}

fn chain_tx(tx: &ChainTx) -> String {
    let plan = &tx.read.plan;
    let whose = if tx.by_stranger { "stranger's " } else { "" };
    let how = if tx.succeeded { "" } else { ", reverted" };
    let (lane, hash) = (account(&plan.submitter), short(&tx.hash()));
    format!("{whose}{hash} ({lane} nonce {}, {}{how})", plan.nonce, effect(data_of(&plan.action)))
}

fn effect(data: &[u8]) -> String {
    match effect_of(data) {
        Some(number) => format!("effect {number}"),
        None if data.is_empty() => "no effect".to_owned(),
        None => format!("{} bytes", data.len()),
    }
}

/// The end of an id is shown, because ids begin with a time.
fn intent_name(id: TxId) -> String {
    let text = id.to_string();
    format!("intent …{}", text.get(text.len().saturating_sub(6)..).unwrap_or(&text))
}

/// The process name with the last digits of its unique part, which differ at each start.
fn process(owner: &OwnerId) -> String {
    match owner.as_str().split_once('/') {
        Some((name, unique)) => {
            let unique = unique.get(unique.len().saturating_sub(4)..).unwrap_or(unique);
            format!("{name}/{unique}")
        }
        None => owner.to_string(),
    }
}

fn account(lane: &SubmitterId) -> String {
    let address = lane.address();
    format!("{}…", address.get(..6).unwrap_or(address))
}

fn short(hash: &B256) -> String {
    let text = hash.to_string();
    format!("{}…", text.get(..8).unwrap_or(&text))
}

fn block_name(block: &BlockRef) -> String {
    format!("block {} ({})", block.number, short(&block.hash))
}
