//! The fixture of the tests of the checks: the store is the model, the tests write the chain and all other moments by
//! hand.

use std::sync::Arc;
use std::time::Duration;

use gapless_domain::{
    Amount, AttemptKind, B256, BlockLink, BlockRef, Change, Command, CommandId, CommandKind, CommandReport,
    CommandResult, Cursor, Execution, ExternalNoncePolicy, Fees, FencingToken, Inclusion, Intent, IntentRecord,
    LaneCommit, Lease, LeaseTerms, LostRule, NewAttempt, NodeText, Nonce, OwnerId, Protection, ReleaseRule, RequestId,
    SignedTx, Speed, SubmitterId, Timestamp, Transition, TxId, TxPlan, TxState, Work,
};
use gapless_store::{
    Acquired, CommitVerdict, IntentIntake, Lanes, Leases, ManualClock, Model, ModelStore, NewIntent, NewSubmitter,
    Snapshot, Upkeep,
};

use crate::chain::{action, read_signed, sign, sign_as_stranger};
use crate::fault::Fault;
use crate::history::{ChainBlock, ChainTx, Moment};
use crate::store::wait_for;
use crate::world_spec::WorldSpec;

use super::{Check, EndState, WorldView, all, read_end_state};

/// The promises that a moment violated.
pub(super) type ViolatedPromises = Vec<&'static str>;

#[derive(Debug)]
pub(super) struct CheckFixture {
    pub(super) view: WorldView,
    checks: Vec<Box<dyn Check>>,
    model: Model,
    store: ModelStore,
    pub(super) lane: SubmitterId,
    pub(super) lease: Lease,
    pub(super) cursor: Cursor,
    index: usize,
    pub(super) now: Duration,
    blocks: Vec<ChainBlock>,
}

pub(super) fn strict() -> WorldSpec {
    let on_external_nonce = ExternalNoncePolicy::Protect;
    let mut odds = WorldSpec::of(1).odds;
    // A cause for PROTECT.
    odds.insert(Fault::Stranger, 1);
    WorldSpec {
        window: 1,
        release: ReleaseRule::Mined,
        on_external_nonce,
        confirmations: 1,
        by_tag: false,
        odds,
        ..WorldSpec::of(1)
    }
}

pub(super) fn wide() -> WorldSpec {
    WorldSpec { window: 8, ..strict() }
}

impl CheckFixture {
    pub(super) fn new(plan: &WorldSpec) -> CheckFixture {
        let lane: SubmitterId = "eip155:31337:0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266".parse().unwrap();
        let clock = Arc::new(ManualClock::starting_at(Timestamp::from_micros(1_000_000)));
        let model = Model::new(LeaseTerms::default(), clock);
        let owner = OwnerId::new("a", 1);
        let store = model.node(owner.clone());
        wait_for(store.register_submitters(&[NewSubmitter { id: lane.clone(), alias: None }])).unwrap();
        let lease = Lease::granted(lane.clone(), owner, FencingToken::new(1));
        let mut fixture = CheckFixture {
            view: WorldView::new(std::slice::from_ref(&lane), plan),
            checks: all(plan),
            model,
            store,
            lane: lane.clone(),
            lease: lease.clone(),
            cursor: Cursor::starting_at(Nonce::ZERO),
            index: 0,
            now: Duration::ZERO,
            blocks: Vec::new(),
        };
        assert_eq!(fixture.mine(&[]), NOTHING);
        if plan.has(Fault::Stranger) {
            let what = "another user of the key".to_owned();
            assert_eq!(fixture.tell(Moment::Struck { fault: Fault::Stranger, what }), NOTHING);
        }
        let acquired = wait_for(fixture.store.acquire(&[lane])).unwrap();
        assert_eq!(acquired, [Acquired::Held(lease.clone())]);
        assert_eq!(fixture.tell(Moment::Leased { lease }), NOTHING);
        fixture
    }

    /// Shows a moment to all checks.
    pub(super) fn tell(&mut self, moment: Moment) -> ViolatedPromises {
        assert!(!moment.to_string().is_empty() && !moment.to_string().contains('\n'), "{moment}");
        self.view.apply(self.index, self.now, &moment);
        self.index += 1;
        let (view, checks) = (&self.view, self.checks.iter_mut());
        checks.filter_map(|check| check.see(&moment, view).err().map(|_| check.promise())).collect()
    }

    pub(super) fn end(&mut self) -> ViolatedPromises {
        let (demanded, excused) = (self.view.demanded(), self.view.excused());
        let end = wait_for(read_end_state(&self.store, std::slice::from_ref(&self.lane), demanded, excused)).unwrap();
        let repeated = self.view.repeated();
        self.view.close(EndState { repeated, ..end });
        let (view, checks) = (&self.view, self.checks.iter_mut());
        checks.filter_map(|check| check.end(view).err().map(|_| check.promise())).collect()
    }

    pub(super) fn store(&self) -> &ModelStore {
        &self.store
    }

    pub(super) fn index(&self) -> usize {
        self.index
    }

    pub(super) fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    // --- The store. ---

    pub(super) fn snapshot(&self) -> (Snapshot, usize) {
        (self.model.snapshot(), self.index)
    }

    pub(super) fn lose(&mut self, (snapshot, since): (Snapshot, usize)) -> ViolatedPromises {
        self.model.restore(snapshot);
        wait_for(self.store.declare_lost(&NodeText::new("operator"), "a test")).unwrap();
        self.tell(Moment::StoreLost { since })
    }

    /// Accepts and acknowledges an intent, in the store and in the history.
    pub(super) fn accept(&mut self, number: u64) -> IntentRecord {
        let tx = self.intent(number);
        let new = NewIntent { id: tx.id, intent: tx.intent.clone() };
        wait_for(self.store.accept(&[new])).unwrap();
        assert_eq!(self.tell(Moment::Accepted { id: tx.id, intent: Arc::new(tx.intent.clone()) }), NOTHING);
        let (id, lane, request) = (tx.id, self.lane.clone(), tx.intent.request_id().clone());
        assert_eq!(self.tell(Moment::Acknowledged { id, lane, request }), NOTHING);
        tx
    }

    pub(super) fn intent(&self, number: u64) -> IntentRecord {
        let request = RequestId::restore(&format!("request-{number}"));
        let intent = Intent::restore(self.lane.clone(), request, action(number).into(), Speed::Standard, None, None);
        let now = Timestamp::from_micros(1_000_000);
        let id = TxId::from_uuid(uuid::Uuid::from_u128(u128::from(number)));
        IntentRecord {
            id,
            seq: number,
            intent,
            replacement: None,
            state: TxState::Queued,
            version: 1,
            created_at: now,
            updated_at: now,
        }
    }

    /// Writes a commit to the store and records it.
    pub(super) fn commit(&mut self, commit: LaneCommit) -> ViolatedPromises {
        let write = || wait_for(self.store.commit(std::slice::from_ref(&commit)));
        // After a loss of commits the first answer is an error that reports it.
        let done = write().or_else(|_| write()).unwrap();
        assert_eq!(done.verdicts, [CommitVerdict::Done]);
        self.record(commit)
    }

    /// Records a commit that no store would apply.
    pub(super) fn record(&mut self, commit: LaneCommit) -> ViolatedPromises {
        if let Some(change) = commit.cursor() {
            self.cursor = change.to().clone();
        }
        self.tell(Moment::Committed { commit: Arc::new(commit), at: Timestamp::from_micros(1_000_000) })
    }

    pub(super) fn new_commit(&self) -> LaneCommit {
        LaneCommit::new(&self.lease)
    }

    pub(super) fn attempt(&self, nonce: u64, number: u64) -> NewAttempt {
        let signed = sign(&self.plan(nonce, number));
        let (nonce, fees) = (Nonce::new(nonce).unwrap(), FEES);
        NewAttempt { nonce, ordinal: 0, kind: AttemptKind::Original, hash: signed.hash, raw: signed.raw, fees }
    }

    pub(super) fn plan(&self, nonce: u64, number: u64) -> TxPlan {
        let (action, work) = (action(number), Work::new(50_000));
        TxPlan { submitter: self.lane.clone(), nonce: Nonce::new(nonce).unwrap(), action, work, fees: FEES }
    }

    pub(super) fn bind_commit(&self, tx: &IntentRecord, number: u64) -> (LaneCommit, NewAttempt) {
        let attempt = self.attempt(self.cursor.next_nonce.get(), number);
        let mut commit = self.new_commit();
        commit.bind(&self.cursor, tx, attempt.clone()).unwrap();
        (commit, attempt)
    }

    /// Binds the next nonce, in the store.
    pub(super) fn bind(&mut self, tx: &mut IntentRecord, number: u64) -> (NewAttempt, ViolatedPromises) {
        let (commit, attempt) = self.bind_commit(tx, number);
        follow(tx, &commit);
        let failure = self.commit(commit);
        (attempt, failure)
    }

    /// Changes an intent, in the store.
    pub(super) fn change(&mut self, tx: &mut IntentRecord, transition: Transition) -> ViolatedPromises {
        let mut commit = self.new_commit();
        commit.change(tx.change(transition).unwrap());
        follow(tx, &commit);
        self.commit(commit)
    }

    /// Delivers an intent from acceptance to confirmation.
    pub(super) fn deliver(&mut self, number: u64) -> IntentRecord {
        let mut tx = self.accept(number);
        let (attempt, failure) = self.bind(&mut tx, number);
        assert_eq!(failure, NOTHING);
        assert_eq!(self.send(&attempt), NOTHING);
        assert_eq!(self.mine(&[self.ours(&attempt)]), NOTHING);
        let mined = Transition::Mine(self.inclusion(&attempt));
        assert_eq!(self.change(&mut tx, mined), NOTHING);
        assert_eq!(self.finalize(), NOTHING);
        assert_eq!(self.change(&mut tx, Transition::Settle(None)), NOTHING);
        tx
    }

    pub(super) fn protect(&mut self, protection: Protection) -> ViolatedPromises {
        let mut commit = self.new_commit();
        commit.protect(&self.cursor, protection).unwrap();
        self.commit(commit)
    }

    pub(super) fn resync(&self) -> (Command, CommandResult) {
        let kind = CommandKind::Resync { lost: LostRule::Requeue, dry_run: false };
        let by = NodeText::new("operator");
        let at = Timestamp::from_micros(1_000_000);
        let command = Command { id: CommandId(1), submitter: self.lane.clone(), kind, issued_by: by, issued_at: at };
        (command, CommandResult::Done(CommandReport::new("done")))
    }

    // --- The chain. ---

    pub(super) fn send(&mut self, attempt: &NewAttempt) -> ViolatedPromises {
        let tx = SignedTx { hash: attempt.hash, raw: attempt.raw.clone() };
        self.tell(Moment::Sent { by: self.lease.owner().clone(), tx })
    }

    pub(super) fn ours(&self, attempt: &NewAttempt) -> ChainTx {
        ChainTx { read: read_signed(&attempt.raw).unwrap(), succeeded: true, by_stranger: false }
    }

    pub(super) fn strangers(&self, nonce: u64) -> ChainTx {
        let read = read_signed(&sign_as_stranger(&self.plan(nonce, 4711)).raw).unwrap();
        ChainTx { read, succeeded: true, by_stranger: true }
    }

    pub(super) fn mine(&mut self, txs: &[ChainTx]) -> ViolatedPromises {
        let number = self.blocks.len() as u64;
        let parent = self.blocks.last().map_or(B256::ZERO, |block| block.block.hash);
        let block = BlockRef { number, hash: B256::repeat_byte(self.index as u8) };
        let block = ChainBlock { block, parent, txs: txs.to_vec() };
        self.blocks.push(block.clone());
        self.tell(Moment::Mined { block })
    }

    pub(super) fn orphan(&mut self) -> ViolatedPromises {
        let block = self.blocks.pop().unwrap().block;
        self.tell(Moment::Orphaned { block })
    }

    pub(super) fn finalize(&mut self) -> ViolatedPromises {
        self.tell(Moment::Final { block: self.head() })
    }

    pub(super) fn head(&self) -> BlockRef {
        self.blocks.last().unwrap().block
    }

    /// The links of the blocks from this number on.
    pub(super) fn links(&self, from: usize) -> Vec<BlockLink> {
        let link = |block: &ChainBlock| BlockLink { block: block.block, parent_hash: block.parent };
        self.blocks[from..].iter().map(link).collect()
    }

    pub(super) fn inclusion(&self, attempt: &NewAttempt) -> Inclusion {
        let head = self.blocks.last().unwrap();
        Inclusion {
            hash: attempt.hash,
            kind: attempt.kind,
            block: head.block,
            parent_hash: head.parent,
            execution: Execution::Success,
            work_used: 21_000,
            unit_price: Amount::from(1_u64),
        }
    }
}

pub(super) const NOTHING: &[&str] = &[];

const FEES: Fees = Fees::with_tip(100, 1);

/// Applies the commit to the record.
pub(super) fn follow(tx: &mut IntentRecord, commit: &LaneCommit) {
    let at = tx.updated_at;
    let changes: Vec<&Change> = commit.changes().iter().filter(|change| change.tx_id() == tx.id).collect();
    changes.into_iter().for_each(|change| tx.apply(change, at));
}
