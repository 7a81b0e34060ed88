//! What a survey means for the ledger: what would have to be done about it, and what stands in the way. Nothing is done here.

use std::collections::HashSet;

use crate::command::LostRule;
use crate::cursor::{Cursor, LaneState, ProtectCode};
use crate::id::TxId;
use crate::intent_record::IntentRecord;
use crate::nonce::Nonce;
use crate::payload::{EvmCall, Payload};
use crate::slot::SlotKind;
use crate::state::Progress;
use crate::time::Timestamp;

use super::Lane;
use super::fact::OnChain;
use super::open_slot::{OpenSlot, Seen};
use super::survey::{Found, Trace};
use super::writing::contradicted;

/// What would be done, and what stands in the way.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Transactions that are not ours and explain their slot all the same.
    pub(super) attach: Vec<Attachment>,
    pub(super) lost: Vec<Lost>,
    pub(super) adopt: Vec<Adoption>,
    /// A lane that never began begins here.
    pub(super) start_at: Option<Nonce>,
    /// There is more to adopt than one reconciliation may.
    pub(super) more: bool,
    remarks: Vec<String>,
    /// A stranger's transaction in a block that is not final yet.
    stranger: Option<String>,
    /// While this is so, nothing is done.
    pub(super) obstacle: Option<(ProtectCode, String)>,
}

#[derive(Debug)]
pub(super) struct Attachment {
    pub(super) sent: OnChain,
    pub(super) ordinal: u16,
    /// It stands at a nonce that was lent: nobody has to decide about it.
    pub(super) lent: bool,
}

#[derive(Debug)]
pub(super) struct Lost {
    pub(super) nonce: Nonce,
    pub(super) tx: Option<IntentRecord>,
    pub(super) why: String,
}

#[derive(Debug)]
pub(super) struct Adoption {
    pub(super) nonce: Nonce,
    pub(super) evidence: String,
    /// It does what this intent wants, which the ledger believes to be waiting.
    pub(super) of: Option<(OnChain, TxId)>,
}

impl Lane {
    pub(super) fn recovery_plan(&self, cursor: &Cursor, found: &Found, at: Timestamp) -> Plan {
        let mut plan = Plan { obstacle: self.obstacle(cursor, found), ..Plan::default() };
        for nonce in self.slots.unmined() {
            let Some(slot) = self.slots.get(*nonce).filter(|slot| slot.seen == Seen::Nowhere) else { continue };
            // What stood in a block that was orphaned is written as such first.
            let bound = slot.tx.as_ref().and_then(|tx| tx.state.bound());
            if bound.is_some_and(|bound| matches!(bound.progress, Progress::Mined(_))) {
                continue;
            }
            // What was lent and is past its time comes back first.
            if slot.is_lent_until().is_some_and(|until| until <= at) {
                continue;
            }
            self.plan_slot(slot, found, &mut plan);
        }
        let finalized = found.survey.account.finalized.unwrap_or_default();
        let never_bound = matches!(&cursor.state, LaneState::Protect(p) if p.code == ProtectCode::HistoryWithoutStart);
        if never_bound && finalized > cursor.next_nonce && self.slots.is_empty() {
            plan.start_at = Some(finalized);
        } else {
            self.plan_adoptions(cursor.next_nonce, finalized, found, &mut plan);
            // What a store that lost commits does not know may be ours: it is not taken for a stranger's unseen.
            let is_unread = |nonce| found.on_chain(nonce).is_none() && !found.has_read_all_of(nonce);
            let unseen = plan.adopt.iter().find(|adoption| is_unread(adoption.nonce));
            if let Some(unseen) = unseen.filter(|_| cursor.state.is_store_regressed()) {
                let text = unread(unseen.nonce, found);
                plan.hinder(ProtectCode::StoreRegressed, text);
            }
        }
        if cursor.state.is_store_regressed()
            && let Some(open) = self.first_undecided(found)
        {
            let text = format!(
                "nonce {open} is not used up by a final block: a replacement that was sent for it, and is lost, may still take it; \
                 wait until it is final"
            );
            plan.hinder(ProtectCode::StoreRegressed, text);
        }
        plan
    }

    /// The first nonce of an intent that no final block has used up, as far as this survey and the watcher know. Both may be behind.
    ///
    /// What stands behind a nonce that is lent and unused is not asked for: no block can have it before that one comes back, and that
    /// ends an intent, for which the loss has to be reconciled first.
    fn first_undecided(&self, found: &Found) -> Option<Nonce> {
        let is_decided = |slot: &OpenSlot| match found.trace(slot) {
            Trace::Foreign(sent) => found.stands_final(sent),
            Trace::WithoutTransaction => found.is_final(slot.nonce),
            Trace::Unused | Trace::Ours | Trace::Unread => slot.is_final(),
        };
        // Who has seen one behind it in a block knows better than a survey that has it unused.
        let newest_seen = self.slots.iter().filter(|slot| slot.seen != Seen::Nowhere).map(|slot| slot.nonce).max();
        let is_held_up = |slot: &OpenSlot| {
            slot.is_lent() && found.trace(slot) == Trace::Unused && newest_seen.is_none_or(|seen| seen < slot.nonce)
        };
        let mut before = self.slots.iter().take_while(|slot| !is_held_up(slot));
        let undecided =
            |slot: &&OpenSlot| matches!(slot.kind, SlotKind::Intent(_)) && slot.tx.is_some() && !is_decided(slot);
        before.find(undecided).map(|slot| slot.nonce)
    }

    fn plan_slot(&self, slot: &OpenSlot, found: &Found, plan: &mut Plan) {
        let nonce = slot.nonce;
        let lost = |why: String| Lost { nonce, tx: slot.tx.as_deref().cloned(), why };
        match found.trace(slot) {
            Trace::Unused | Trace::Ours => {}
            Trace::Foreign(sent) => {
                let lent = slot.kind == SlotKind::Reservation;
                let fits = slot.tx.as_ref().is_some_and(|tx| does(sent, tx));
                if lent || fits {
                    plan.attach.push(Attachment { sent: sent.clone(), ordinal: slot.next_ordinal(), lent });
                } else if found.stands_final(sent) {
                    plan.lost.push(lost(format!("nonce {nonce} was used by {}", describe(sent))));
                } else {
                    let text = format!("nonce {nonce} is used by {}, which is not final yet", describe(sent));
                    plan.stranger.get_or_insert_with(|| text.clone());
                    plan.hinder(ProtectCode::ForeignTransaction, text);
                }
                if let Some(other) = self.line.waiting.iter().find(|other| !fits && does(sent, &other.tx)) {
                    plan.remarks.push(format!("{} does what queued intent {} asks for", describe(sent), other.tx.id));
                }
            }
            Trace::WithoutTransaction if found.is_final(nonce) => {
                let way = "an EIP-7702 authorization, or code of the account that creates contracts";
                plan.lost.push(lost(format!("nonce {nonce} was used without a transaction of the account ({way})")));
            }
            Trace::WithoutTransaction => {
                let text = format!("nonce {nonce} is used up by nothing of ours, and that is not final yet");
                plan.hinder(ProtectCode::ForeignTransaction, text);
            }
            Trace::Unread => {
                plan.hinder(ProtectCode::ForeignTransaction, unread(nonce, found));
            }
        }
    }

    fn plan_adoptions(&self, next: Nonce, finalized: Nonce, found: &Found, plan: &mut Plan) {
        let mut waiting: Vec<&IntentRecord> = plan.lost.iter().filter_map(|lost| lost.tx.as_ref()).collect();
        waiting.extend(self.line.waiting.iter().map(|candidate| candidate.tx.as_ref()));
        waiting.sort_by_key(|tx| tx.seq);
        let mut given = HashSet::new();
        let most = self.setup.limits.adopt as u64;
        let end = finalized.get().min(next.get().saturating_add(most));
        let mut adopt = Vec::new();
        for nonce in (next.get()..end).filter_map(|nonce| Nonce::new(nonce).ok()) {
            let sent = found.on_chain(nonce).filter(|sent| found.stands_final(sent));
            let evidence = match sent {
                Some(sent) => describe(sent),
                None => {
                    let (oldest, head) = (found.survey.oldest, found.survey.head.number);
                    format!("the final count; blocks {oldest} to {head} have no transaction of the account for it")
                }
            };
            let of = sent.and_then(|sent| {
                let tx = waiting.iter().find(|tx| !given.contains(&tx.id) && does(sent, tx))?;
                given.insert(tx.id);
                Some((sent.clone(), tx.id))
            });
            adopt.push(Adoption { nonce, evidence, of });
        }
        plan.adopt = adopt;
        plan.more = end < finalized.get();
    }

    /// Why nothing can be reconciled at this moment, whatever the slots look like.
    fn obstacle(&self, cursor: &Cursor, found: &Found) -> Option<(ProtectCode, String)> {
        if let Some(broken) = self.chain.as_ref().and_then(|chain| chain.broken.as_ref()) {
            return Some((broken.code, contradicted(broken)));
        }
        let account = &found.survey.account;
        let Some(finalized) = account.finalized else {
            return Some((ProtectCode::ChainRegressed, "no block of the chain is known to be final yet".to_owned()));
        };
        let next = cursor.next_nonce;
        if finalized < cursor.final_nonce || account.latest < cursor.open_nonce {
            let (latest, most) = (account.latest, cursor.final_nonce.max(cursor.open_nonce));
            let text = format!(
                "the account has sent {latest} transactions, {finalized} of them final, but the ledger has seen {most} final: \
                 this is another history than the ledger's"
            );
            return Some((ProtectCode::ChainRegressed, text));
        }
        let ahead = account.pending.max(account.latest);
        if ahead > next.max(finalized) {
            let text = format!(
                "the account's count is {ahead} with those that are not final, but the ledger knows of {next}: wait until \
                 they are final"
            );
            return Some((ProtectCode::PendingAhead, text));
        }
        if let Some(hole) = self.first_hole() {
            return Some((ProtectCode::MissingSlot, format!("nonce {hole} is below the cursor and has no slot")));
        }
        let unfillable = self.slots.unmined().iter().filter_map(|nonce| self.slots.get(*nonce));
        // What something else has used need not be filled.
        let unfillable =
            unfillable.into_iter().find(|slot| slot.cannot_fill() && found.trace(slot) == Trace::Unused)?;
        Some((ProtectCode::CannotFill, format!("nonce {} cannot be filled: nodes reject it", unfillable.nonce)))
    }
}

impl Plan {
    pub(super) fn is_empty(&self) -> bool {
        self.attach.is_empty() && self.lost.is_empty() && self.adopt.is_empty() && self.start_at.is_none()
    }

    /// Is there something on chain that no intent of ours has asked for, as far as the ledger knows?
    pub(super) fn is_unexplained(&self) -> bool {
        self.lost.iter().any(|lost| lost.tx.is_some()) || self.adopt.iter().any(|adoption| adoption.of.is_none())
    }

    fn hinder(&mut self, code: ProtectCode, text: String) {
        self.obstacle.get_or_insert((code, text));
    }

    /// What somebody has to decide about.
    pub(super) fn undecided(&self) -> Option<String> {
        let foreign = self.attach.iter().find(|attachment| !attachment.lent);
        let foreign = foreign.map(|attachment| format!("{} is not in the ledger", describe(&attachment.sent)));
        let lost = self.lost.first().map(|lost| lost.why.clone());
        let adopt = self
            .adopt
            .first()
            .map(|adoption| format!("nonce {} was used by somebody else: {}", adoption.nonce, adoption.evidence));
        let start = self.start_at.map(|start| format!("the account has sent {start} transactions already"));
        let what = foreign.or(lost).or(adopt).or(start)?;
        Some(format!("{what} (`resync --dry-run` lists all of it)"))
    }

    /// What puts a lane into PROTECT that does not adopt.
    pub(super) fn accusation(&self) -> Option<(ProtectCode, String)> {
        let stranger = self.stranger.clone().map(|text| (ProtectCode::ForeignTransaction, text));
        let adopts_only = self.lost.is_empty() && self.attach.iter().all(|attachment| attachment.lent);
        let code = if adopts_only { ProtectCode::ReservationRequest } else { ProtectCode::ForeignTransaction };
        stranger.or_else(|| Some((code, self.undecided()?)))
    }

    pub(super) fn summary(&self) -> String {
        let of_ours = self.adopt.iter().filter(|adoption| adoption.of.is_some()).count();
        let start = self.start_at.map(|start| format!(", begins at {start}")).unwrap_or_default();
        format!(
            "{} adopted ({of_ours} of them intents of ours), {} attached, {} lost{start}",
            self.adopt.len(),
            self.attach.len(),
            self.lost.len()
        )
    }

    pub(super) fn lines(&self, rule: LostRule) -> String {
        let mut text = String::new();
        let mut line = |entry: String| text.extend([entry.as_str(), "\n"]);
        for Attachment { sent, .. } in &self.attach {
            line(format!("attach {} to nonce {}, which it explains", describe(sent), sent.tx.plan.nonce));
        }
        for Lost { nonce, tx, why } in &self.lost {
            let found_again = |id: TxId| self.adopt.iter().any(|a| a.of.as_ref().is_some_and(|(_, of)| *of == id));
            line(match (tx, rule) {
                (None, _) => format!("close nonce {nonce}: {why}"),
                (Some(tx), _) if found_again(tx.id) => format!("move intent {}: {why}", tx.id),
                (Some(tx), LostRule::Requeue) => format!("queue intent {} again: {why}", tx.id),
                (Some(tx), LostRule::Fail) => format!("fail intent {}: {why}", tx.id),
            });
        }
        if let Some(start) = self.start_at {
            line(format!("begin at nonce {start}, the account's final count"));
        }
        for Adoption { nonce, evidence, of } in &self.adopt {
            line(match of {
                Some((_, id)) => format!("adopt nonce {nonce} for intent {id}, which {evidence} has done"),
                None => format!("adopt nonce {nonce}: {evidence}"),
            });
        }
        self.remarks.iter().for_each(|remark| line(format!("note: {remark}")));
        if self.is_empty() {
            line("nothing to reconcile".to_owned());
        }
        text
    }
}

fn unread(nonce: Nonce, found: &Found) -> String {
    let oldest = found.survey.oldest;
    format!(
        "nonce {nonce} is used up, and blocks below {oldest} were not read that could tell by what: see survey_blocks in the \
         config"
    )
}

/// Does it do what the intent asks for?
fn does(sent: &OnChain, tx: &IntentRecord) -> bool {
    let asked = [Some(tx.intent.payload()), tx.replacement.as_ref()];
    asked.into_iter().flatten().any(|payload| matches!(payload, Payload::Evm(call) if carries(sent, call)))
}

/// Access lists and authorizations are left out: they do not say what it is about.
pub(super) fn carries(sent: &OnChain, call: &EvmCall) -> bool {
    let theirs = &sent.tx.plan.call;
    call.to == theirs.to && call.value == theirs.value && call.data == theirs.data
}

fn describe(sent: &OnChain) -> String {
    let call = &sent.tx.plan.call;
    let to = call.to.map_or_else(|| "nobody (a creation)".to_owned(), |to| to.to_string());
    let (hash, block, bytes) = (sent.tx.signed.hash, sent.block.number, call.data.len());
    format!("transaction {hash} in block {block} (to {to}, value {}, {bytes} bytes of data)", call.value)
}
