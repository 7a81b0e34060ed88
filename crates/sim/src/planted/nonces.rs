//! Bugs with nonces: a nonce is taken from its intent, is not filled, or is skipped.

use std::collections::BTreeSet;

use gapless_domain::{
    CommitOutcome, Effect, Fact, Lane, LaneCommit, LostRule, NodeText, Nonce, Payload, Progress, SendOutcome, SentTx,
    Sighting, SignFailure, SignRequest, SignedTx,
};

use super::lane::{KnownLane, LaneBug};

/// A commit that the bug writes, or that it has changed. The lane's memory differs from the store afterwards, so the
/// lane is released and loaded again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum OwnCommit {
    #[default]
    None,
    InFlight,
    Done,
}

impl OwnCommit {
    fn note_fact(&mut self, fact: &Fact) {
        if let (OwnCommit::InFlight, Fact::Committed(outcome)) = (*self, fact) {
            *self = if matches!(outcome, CommitOutcome::Done { .. }) { OwnCommit::Done } else { OwnCommit::None };
        }
    }

    /// True if the lane ends with these effects.
    fn ends(self, effects: &mut Vec<Effect>) -> bool {
        if self == OwnCommit::Done {
            *effects = vec![Effect::Release];
        }
        self == OwnCommit::Done
    }
}

/// The answer that takes a nonce from its intent.
#[derive(Clone, Copy, Debug)]
enum FreedBy {
    Timeout,
    NullReceipt,
    Refusal,
}

/// Takes a nonce from its intent although a node may have its bytes.
#[derive(Debug)]
pub(super) struct FreedNonces {
    by: FreedBy,
    rule: LostRule,
    freed: BTreeSet<Nonce>,
    commit: OwnCommit,
}

impl FreedNonces {
    pub(super) fn after_timeout() -> Self {
        FreedNonces::new(FreedBy::Timeout, LostRule::Requeue)
    }

    pub(super) fn after_null_receipt() -> Self {
        FreedNonces::new(FreedBy::NullReceipt, LostRule::Requeue)
    }

    pub(super) fn after_refusal() -> Self {
        FreedNonces::new(FreedBy::Refusal, LostRule::Fail)
    }

    fn new(by: FreedBy, rule: LostRule) -> Self {
        FreedNonces { by, rule, freed: BTreeSet::new(), commit: OwnCommit::None }
    }

    fn is_freed_by(&self, sent: &SentTx) -> bool {
        match self.by {
            FreedBy::Timeout => matches!(sent.outcome, SendOutcome::Unknown | SendOutcome::Unavailable),
            FreedBy::Refusal => sent.outcome.is_refusal(),
            FreedBy::NullReceipt => false,
        }
    }

    fn note_sighting(&mut self, sighting: &Sighting, known: &KnownLane) {
        if let (FreedBy::NullReceipt, Sighting::NotFound { hash }) = (self.by, sighting) {
            self.freed.extend(known.nonce_of(hash));
        }
    }

    /// Adds the loss of the freed nonces to a commit. Returns true if there is one.
    fn lose(&self, commit: &mut LaneCommit, known: &KnownLane) -> bool {
        let mut loses = false;
        for nonce in self.freed.iter().copied().filter(|nonce| !known.is_mined(*nonce)) {
            let Some(tx) = known.holder_after(nonce, commit) else { continue };
            let is_mined = tx.state.bound().is_some_and(|bound| matches!(bound.progress, Progress::Mined(_)));
            if is_mined || matches!(tx.payload(), Payload::Reservation(_)) {
                continue;
            }
            let why = NodeText::new("planted bug: the nonce is taken from its intent");
            loses |= commit.lose_nonce(&tx, self.rule, true, why).is_ok();
        }
        loses
    }
}

impl LaneBug for FreedNonces {
    fn alter_fact(&mut self, fact: Fact, known: &KnownLane, _: &Lane) -> Vec<Fact> {
        self.commit.note_fact(&fact);
        match &fact {
            Fact::Sent(sent) => {
                let freed: Vec<Nonce> =
                    sent.iter().filter(|sent| self.is_freed_by(sent)).map(|sent| sent.nonce).collect();
                self.freed.extend(freed);
            }
            Fact::Sightings(sightings) => sightings.iter().for_each(|sighting| self.note_sighting(sighting, known)),
            _ => {}
        }
        vec![fact]
    }

    fn alter_effects(&mut self, effects: &mut Vec<Effect>, known: &KnownLane, lane: &Lane) -> Vec<Fact> {
        let is_regressed = lane.cursor().is_none_or(|cursor| cursor.state.is_store_regressed());
        if self.commit.ends(effects) || self.freed.is_empty() || is_regressed || known.commits() {
            return Vec::new();
        }
        let commit = effects.iter_mut().find_map(|effect| match effect {
            Effect::Commit(commit) => Some(commit),
            _ => None,
        });
        let loses = match commit {
            Some(commit) => self.lose(commit, known),
            None => {
                let mut commit = Box::new(LaneCommit::new(lane.lease()));
                let loses = self.lose(&mut commit, known);
                effects.extend(loses.then_some(Effect::Commit(commit)));
                loses
            }
        };
        if loses {
            self.commit = OwnCommit::InFlight;
        }
        Vec::new()
    }
}

/// Lets the signer refuse every filler.
#[derive(Debug, Default)]
pub(super) struct NoFiller {
    /// For each request of the batch at the signer: whether it was kept from the signer.
    kept_back: Vec<bool>,
}

/// A refusal of one filler does not delay the other transactions of the lane.
fn refused() -> Result<SignedTx, SignFailure> {
    Err(SignFailure::Refused(NodeText::new("planted bug: no filler is made")))
}

impl LaneBug for NoFiller {
    fn alter_fact(&mut self, fact: Fact, _: &KnownLane, _: &Lane) -> Vec<Fact> {
        let Fact::Signed(answers) = fact else { return vec![fact] };
        if self.kept_back.is_empty() {
            return vec![Fact::Signed(answers)];
        }
        let mut answers = answers.into_iter();
        let all = std::mem::take(&mut self.kept_back).into_iter();
        let all = all.filter_map(|kept_back| if kept_back { Some(refused()) } else { answers.next() });
        vec![Fact::Signed(all.collect())]
    }

    fn alter_effects(&mut self, effects: &mut Vec<Effect>, _: &KnownLane, _: &Lane) -> Vec<Fact> {
        let is_filler = |request: &SignRequest| !request.kind.carries_payload();
        let mut answers = Vec::new();
        for effect in effects.iter_mut() {
            let Effect::Sign(requests) = effect else { continue };
            let kept_back: Vec<bool> = requests.iter().map(is_filler).collect();
            requests.retain(|request| !is_filler(request));
            if requests.is_empty() {
                answers.push(Fact::Signed(kept_back.iter().map(|_| refused()).collect()));
            } else {
                self.kept_back = kept_back;
            }
        }
        effects.retain(|effect| !matches!(effect, Effect::Sign(requests) if requests.is_empty()));
        answers
    }
}

/// Moves the cursor to the account's nonce.
#[derive(Debug, Default)]
pub(super) struct JumpToChain {
    target: Option<Nonce>,
    commit: OwnCommit,
}

impl LaneBug for JumpToChain {
    /// Hides from the lane which nonces the chain has consumed, so that the lane finds no reason for PROTECT.
    fn alter_fact(&mut self, fact: Fact, _: &KnownLane, lane: &Lane) -> Vec<Fact> {
        self.commit.note_fact(&fact);
        let (Fact::Account(Some(mut account)), Some(cursor)) = (fact.clone(), lane.cursor()) else { return vec![fact] };
        let next = cursor.next_nonce;
        self.target = Some(account.latest.max(account.pending)).filter(|ahead| *ahead > next);
        account.latest = account.latest.min(cursor.open_nonce);
        account.pending = account.pending.min(next);
        account.finalized = account.finalized.map(|finalized| finalized.min(cursor.open_nonce.max(cursor.final_nonce)));
        vec![Fact::Account(Some(account))]
    }

    fn alter_effects(&mut self, effects: &mut Vec<Effect>, known: &KnownLane, lane: &Lane) -> Vec<Fact> {
        let commits = known.commits() || effects.iter().any(|effect| matches!(effect, Effect::Commit(_)));
        if self.commit.ends(effects) || commits {
            return Vec::new();
        }
        let (Some(target), Some(cursor)) = (self.target, lane.cursor()) else { return Vec::new() };
        let mut commit = LaneCommit::new(lane.lease());
        let mut next = cursor.next_nonce;
        if commit.start_at(cursor, target).is_err() {
            // Slots are open, so the nonces in between get a slot too.
            commit = LaneCommit::new(lane.lease());
            while next < target && commit.adopt_foreign(cursor, next, NodeText::new("planted bug")).is_ok() {
                next = next.next().unwrap_or(target);
            }
        }
        if !commit.is_empty() && !cursor.is_protected() && !cursor.paused {
            self.commit = OwnCommit::InFlight;
            effects.push(Effect::Commit(Box::new(commit)));
        }
        Vec::new()
    }
}
