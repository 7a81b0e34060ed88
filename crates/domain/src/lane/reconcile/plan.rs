//! Reconcile plan: the changes of the ledger that a scan calls for, and the obstacles. This module changes nothing.

use std::collections::HashSet;

use crate::command::LostRule;
use crate::cursor::{Cursor, LaneState, ProtectCode};
use crate::id::TxId;
use crate::intent_record::IntentRecord;
use crate::nonce::Nonce;
use crate::payload::Payload;
use crate::slot::SlotKind;
use crate::state::Progress;
use crate::time::Timestamp;

use crate::lane::Lane;
use crate::lane::command::finality_violation_text;
use crate::lane::fact::ScannedTx;
use crate::lane::open_slot::OpenSlot;
use crate::lane::reconcile::scan::{NonceUse, ScanFindings};

/// Changes of the ledger that a scan calls for, and the obstacle against them.
#[derive(Debug, Default)]
pub(in crate::lane) struct ReconcilePlan {
    /// Foreign transactions that explain their slot.
    pub(in crate::lane) attach: Vec<Attachment>,
    pub(in crate::lane) lost: Vec<Lost>,
    pub(in crate::lane) adopt: Vec<Adoption>,
    /// First nonce of a lane that never started.
    pub(in crate::lane) start_at: Option<Nonce>,
    /// More nonces need adoption than one reconciliation may adopt.
    pub(in crate::lane) more: bool,
    remarks: Vec<String>,
    /// A foreign transaction in a block that is not final yet.
    unfinal_foreign: Option<String>,
    /// Reason why nothing is changed now.
    pub(in crate::lane) obstacle: Option<(ProtectCode, String)>,
}

/// A foreign transaction that becomes an attempt of its slot.
#[derive(Debug)]
pub(in crate::lane) struct Attachment {
    pub(in crate::lane) sent: ScannedTx,
    pub(in crate::lane) ordinal: u16,
    /// The nonce was reserved, so no operator needs to decide.
    pub(in crate::lane) is_reserved: bool,
}

/// A nonce that was consumed by a foreign transaction.
#[derive(Debug)]
pub(in crate::lane) struct Lost {
    pub(in crate::lane) nonce: Nonce,
    pub(in crate::lane) tx: Option<IntentRecord>,
    pub(in crate::lane) why: String,
}

/// A consumed nonce without a slot.
#[derive(Debug)]
pub(in crate::lane) struct Adoption {
    pub(in crate::lane) nonce: Nonce,
    pub(in crate::lane) evidence: String,
    /// The transaction does what this queued intent asks for.
    pub(in crate::lane) of: Option<(ScannedTx, TxId)>,
}

impl Lane {
    pub(in crate::lane) fn reconcile_plan(
        &self,
        cursor: &Cursor,
        found: &ScanFindings,
        at: Timestamp,
    ) -> ReconcilePlan {
        let mut plan = ReconcilePlan { obstacle: self.obstacle(cursor, found), ..ReconcilePlan::default() };
        for nonce in self.ledger.slots.unmined() {
            let Some(slot) = self.ledger.slots.get(*nonce).filter(|slot| slot.is_unmined()) else {
                continue;
            };
            // The orphaned inclusion must be written first.
            let bound = slot.tx.as_ref().and_then(|tx| tx.state.bound());
            if bound.is_some_and(|bound| matches!(bound.progress, Progress::Mined(_))) {
                continue;
            }
            // The timed-out reservation must end first. While no intent may end, a transaction of its caller takes the
            // nonce instead.
            let has_timed_out = slot.reserved_until().is_some_and(|until| until <= at);
            let is_submitted = cursor.state.is_store_regressed() && matches!(found.use_of(slot), NonceUse::Foreign(_));
            if has_timed_out && !is_submitted {
                continue;
            }
            self.plan_slot(slot, found, &mut plan);
        }
        let finalized = found.scan.account.finalized.unwrap_or_default();
        let never_bound = matches!(&cursor.state, LaneState::Protect(p) if p.code == ProtectCode::HistoryWithoutStart);
        if never_bound && finalized > cursor.next_nonce && self.ledger.slots.is_empty() {
            plan.start_at = Some(finalized);
        } else {
            self.plan_adoptions(cursor.next_nonce, finalized, found, &mut plan);
            // After a loss of commits, an unread transaction may be ours. It is not adopted as foreign.
            let is_unread = |nonce| found.on_chain(nonce).is_none() && !found.has_read_all_of(nonce);
            let unseen = plan.adopt.iter().find(|adoption| is_unread(adoption.nonce));
            if let Some(unseen) = unseen.filter(|_| cursor.state.is_store_regressed()) {
                let text = unread(unseen.nonce, found);
                plan.set_obstacle(ProtectCode::StoreRegressed, text);
            }
        }
        if cursor.state.is_store_regressed()
            && let Some(open) = self.first_undecided(found)
        {
            plan.set_obstacle(ProtectCode::StoreRegressed, self.undecided_text(open));
        }
        plan
    }

    /// The first nonce of an intent that no final block has consumed, as far as the scan and the watcher know. Both may
    /// lag. A reserved nonce counts too: its caller may have submitted a transaction that was lost.
    fn first_undecided(&self, found: &ScanFindings) -> Option<Nonce> {
        let is_decided = |slot: &OpenSlot| match found.use_of(slot) {
            NonceUse::Foreign(sent) => found.is_in_final_block(sent),
            NonceUse::WithoutTransaction => found.is_final(slot.nonce),
            NonceUse::Unused | NonceUse::Ours | NonceUse::Unread => slot.is_final(),
        };
        let undecided = |slot: &&OpenSlot| slot.tx.is_some() && !is_decided(slot);
        self.ledger.slots.iter().find(undecided).map(|slot| slot.nonce)
    }

    /// Refusal because the nonce is not decided.
    fn undecided_text(&self, open: Nonce) -> String {
        let mut text = format!(
            "nonce {open} is not consumed by a final block; a lost transaction may still consume it: wait until it is \
             final, then try again"
        );
        if self.ledger.slots.get(open).is_some_and(OpenSlot::is_reserved) {
            text.push_str(&format!("; nonce {open} is reserved, and is canceled when its hold has ended"));
        }
        text
    }

    fn plan_slot(&self, slot: &OpenSlot, found: &ScanFindings, plan: &mut ReconcilePlan) {
        let nonce = slot.nonce;
        let lost = |why: String| Lost { nonce, tx: slot.tx.as_deref().cloned(), why };
        match found.use_of(slot) {
            NonceUse::Unused | NonceUse::Ours => {}
            NonceUse::Foreign(sent) => {
                let is_reserved = slot.kind == SlotKind::Reservation;
                let fits = slot.tx.as_ref().is_some_and(|tx| does(sent, tx));
                if is_reserved || fits {
                    plan.attach.push(Attachment { sent: sent.clone(), ordinal: slot.next_ordinal(), is_reserved });
                } else if found.is_in_final_block(sent) {
                    plan.lost.push(lost(format!("nonce {nonce} was consumed by {}", describe(sent))));
                } else {
                    let text = format!("nonce {nonce} is consumed by {}, which is not final yet", describe(sent));
                    plan.unfinal_foreign.get_or_insert_with(|| text.clone());
                    plan.set_obstacle(ProtectCode::ForeignTransaction, text);
                }
                if let Some(other) = self.queue.candidates.iter().find(|other| !fits && does(sent, &other.tx)) {
                    plan.remarks.push(format!("{} matches queued intent {}", describe(sent), other.tx.id));
                }
            }
            NonceUse::WithoutTransaction if found.is_final(nonce) => {
                let cause = self.setup.rules.words().silent_use;
                let why = format!("nonce {nonce} was consumed without a transaction of the account ({cause})");
                plan.lost.push(lost(why));
            }
            NonceUse::WithoutTransaction => {
                let text = format!("nonce {nonce} is consumed by an unknown transaction that is not final yet");
                plan.set_obstacle(ProtectCode::ForeignTransaction, text);
            }
            NonceUse::Unread => {
                plan.set_obstacle(ProtectCode::ForeignTransaction, unread(nonce, found));
            }
        }
    }

    fn plan_adoptions(&self, next: Nonce, finalized: Nonce, found: &ScanFindings, plan: &mut ReconcilePlan) {
        let mut waiting: Vec<&IntentRecord> = plan.lost.iter().filter_map(|lost| lost.tx.as_ref()).collect();
        waiting.extend(self.queue.candidates.iter().map(|candidate| candidate.tx.as_ref()));
        waiting.sort_by_key(|tx| tx.seq);
        let mut given = HashSet::new();
        let most = self.setup.limits.adopt as u64;
        let end = finalized.get().min(next.get().saturating_add(most));
        let mut adopt = Vec::new();
        for nonce in (next.get()..end).filter_map(|nonce| Nonce::new(nonce).ok()) {
            let sent = found.on_chain(nonce).filter(|sent| found.is_in_final_block(sent));
            let evidence = match sent {
                Some(sent) => describe(sent),
                None => {
                    let (oldest, head) = (found.scan.oldest, found.scan.head.number);
                    format!("the account's final nonce; blocks {oldest} to {head} contain no transaction for it")
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

    /// Reason why nothing can be reconciled now, independent of the slots.
    fn obstacle(&self, cursor: &Cursor, found: &ScanFindings) -> Option<(ProtectCode, String)> {
        if let Some(violation) = self.chain.finality_violation() {
            return Some((violation.code, finality_violation_text(violation)));
        }
        let account = &found.scan.account;
        let Some(finalized) = account.finalized else {
            return Some((ProtectCode::ChainRegressed, "no final block of the chain is known yet".to_owned()));
        };
        let next = cursor.next_nonce;
        if finalized < cursor.final_nonce || account.latest < cursor.open_nonce {
            let (latest, most) = (account.latest, cursor.final_nonce.max(cursor.open_nonce));
            let text = format!(
                "the account has sent {latest} transactions ({finalized} final), but the ledger has recorded {most} as \
                 final: the chain has another history than the ledger"
            );
            return Some((ProtectCode::ChainRegressed, text));
        }
        let ahead = account.pending.max(account.latest);
        if ahead > next.max(finalized) {
            let text = format!(
                "the account's pending nonce is {ahead}, but the ledger's next nonce is {next}: wait until all \
                 transactions are final, then try again"
            );
            return Some((ProtectCode::PendingAhead, text));
        }
        if let Some(hole) = self.first_hole() {
            return Some((ProtectCode::MissingSlot, format!("nonce {hole} is below the cursor but has no slot")));
        }
        let unfillable = self.ledger.slots.unmined().iter().filter_map(|nonce| self.ledger.slots.get(*nonce));
        // A nonce that a foreign transaction consumed needs no filler.
        let unfillable =
            unfillable.into_iter().find(|slot| slot.cannot_fill() && found.use_of(slot) == NonceUse::Unused)?;
        Some((ProtectCode::CannotFill, format!("nonce {} cannot be filled: nodes reject the filler", unfillable.nonce)))
    }
}

impl ReconcilePlan {
    pub(in crate::lane) fn is_empty(&self) -> bool {
        self.attach.is_empty() && self.lost.is_empty() && self.adopt.is_empty() && self.start_at.is_none()
    }

    /// True if the chain has transactions of the account that the ledger cannot explain.
    pub(in crate::lane) fn is_unexplained(&self) -> bool {
        self.lost.iter().any(|lost| lost.tx.is_some()) || self.adopt.iter().any(|adoption| adoption.of.is_none())
    }

    fn set_obstacle(&mut self, code: ProtectCode, text: String) {
        self.obstacle.get_or_insert((code, text));
    }

    /// The first change that an operator must decide about.
    pub(in crate::lane) fn undecided(&self) -> Option<String> {
        let foreign = self.attach.iter().find(|attachment| !attachment.is_reserved);
        let foreign = foreign.map(|attachment| format!("{} is unknown to the ledger", describe(&attachment.sent)));
        let lost = self.lost.first().map(|lost| lost.why.clone());
        let adopt = self
            .adopt
            .first()
            .map(|adoption| format!("nonce {} was consumed outside of Gapless: {}", adoption.nonce, adoption.evidence));
        let start = self.start_at.map(|start| format!("the account has already sent {start} transactions"));
        let what = foreign.or(lost).or(adopt).or(start)?;
        Some(format!("{what} (`resync --dry-run` lists all changes)"))
    }

    /// Reason for PROTECT in a lane that does not adopt.
    pub(in crate::lane) fn protect_cause(&self) -> Option<(ProtectCode, String)> {
        let unfinal_foreign = self.unfinal_foreign.clone().map(|text| (ProtectCode::ForeignTransaction, text));
        let adopts_only = self.lost.is_empty() && self.attach.iter().all(|attachment| attachment.is_reserved);
        let code = if adopts_only { ProtectCode::ExternalNonce } else { ProtectCode::ForeignTransaction };
        unfinal_foreign.or_else(|| Some((code, self.undecided()?)))
    }

    pub(in crate::lane) fn summary(&self) -> String {
        let of_ours = self.adopt.iter().filter(|adoption| adoption.of.is_some()).count();
        let start = self.start_at.map(|start| format!(", starts at nonce {start}")).unwrap_or_default();
        format!(
            "{} adopted ({of_ours} for intents), {} attached, {} lost{start}",
            self.adopt.len(),
            self.attach.len(),
            self.lost.len()
        )
    }

    pub(in crate::lane) fn lines(&self, rule: LostRule) -> String {
        let mut text = String::new();
        let mut line = |entry: String| text.extend([entry.as_str(), "\n"]);
        for Attachment { sent, .. } in &self.attach {
            line(format!("attach {} to nonce {}", describe(sent), sent.tx.plan.nonce));
        }
        for Lost { nonce, tx, why } in &self.lost {
            let found_again = |id: TxId| self.adopt.iter().any(|a| a.of.as_ref().is_some_and(|(_, of)| *of == id));
            line(match (tx, rule) {
                (None, _) => format!("close nonce {nonce}: {why}"),
                (Some(tx), _) if found_again(tx.id) => format!("move intent {}: {why}", tx.id),
                (Some(tx), LostRule::Requeue) => format!("requeue intent {}: {why}", tx.id),
                (Some(tx), LostRule::Fail) => format!("fail intent {}: {why}", tx.id),
            });
        }
        if let Some(start) = self.start_at {
            line(format!("start at nonce {start}, the account's final nonce"));
        }
        for Adoption { nonce, evidence, of } in &self.adopt {
            line(match of {
                Some((_, id)) => format!("adopt nonce {nonce} for intent {id}: {evidence}"),
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

fn unread(nonce: Nonce, found: &ScanFindings) -> String {
    let oldest = found.scan.oldest;
    format!(
        "nonce {nonce} is consumed, and blocks below {oldest} were not read that may contain its transaction: \
         increase survey_blocks in the config"
    )
}

/// True if the transaction does what the intent asks for.
fn does(sent: &ScannedTx, tx: &IntentRecord) -> bool {
    let asked = [Some(tx.intent.payload()), tx.replacement.as_ref()];
    asked.into_iter().flatten().any(|payload| carries(sent, payload))
}

/// True if the transaction does what the payload asks for.
pub(in crate::lane) fn carries(sent: &ScannedTx, payload: &Payload) -> bool {
    payload.action().is_some_and(|action| action.has_same_purpose(&sent.tx.plan.action))
}

fn describe(sent: &ScannedTx) -> String {
    let (hash, block) = (sent.tx.signed.hash, sent.block.number);
    format!("transaction {hash} in block {block} ({})", sent.tx.plan.action.summary())
}
