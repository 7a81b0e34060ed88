//! What may happen next.

use std::slice::from_ref;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use gapless_domain::{
    Address, Amount, CommandKind, CommitOutcome, Decision, Effect, EventPosition, EvmCall, ExternalNoncePolicy, Fact,
    Fees, Intent, IntentDraft, LaneCommit, LaneSetup, LeaseTerms, Limits, NewCommand, NodeText, Outgoing, OwnerId,
    Payload, Peeked, PrepareFailure, PrepareKey, PrepareRequest, Prepared, ReleaseRule, SendOutcome, SentTx,
    SignFailure, SignRequest, Speed, Step, SubmitterId, Tick, Timestamp, TxId,
};
use gapless_store::{
    Accepted, Acquired, CommitVerdict, IntentIntake, Lanes, Leases, Loaded, ManualClock, Model, NewIntent,
    NewSubmitter, Outbox, TxFilter, Views,
};
use uuid::Uuid;

use crate::chain::{Chain, FINAL_DEPTH, decode, reverts, sign};
use crate::checks::{Checks, is_invalid, is_refused, needs_previous};
use crate::dice::Dice;
use crate::owner::{Answer, Owner, Work};
use crate::people;
use crate::reader;

/// How long a storm lasts.
const STEPS: usize = 500;
/// After it, everything must end within so many half seconds.
const CALM: usize = 3000;
/// Facts that may follow from each other without any time passing.
const BUSY: usize = 3000;

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) dice: Dice,
    clock: Arc<ManualClock>,
    model: Model,
    pub(crate) lane: SubmitterId,
    setup: LaneSetup,
    now: Tick,
    pub(crate) chain: Chain,
    /// The newest one last; older ones are late, and do not know it.
    owners: Vec<Owner>,
    born: u128,
    pub(crate) checks: Checks,
    pub(crate) intents: u64,
    most_intents: u64,
    /// Callers cancel and borrow nonces, and operators pause, in some worlds.
    pub(crate) with_people: bool,
    /// Somebody else uses the key, in some worlds; the lane adopts it.
    with_strangers: bool,
    /// In percent; 0 when all is calm.
    trouble: u64,
}

pub(crate) fn now<T>(verb: impl Future<Output = T>) -> T {
    verb.now_or_never().unwrap()
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let clock = Arc::new(ManualClock::starting_at(Timestamp::from_micros(1_000_000_000)));
        let model = Model::new(LeaseTerms::default(), Arc::<ManualClock>::clone(&clock));
        let lane: SubmitterId = "eip155:31337:0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266".parse().unwrap();
        let mut setup = LaneSetup::default();
        setup.policy.nonce.max_in_flight = dice.pick(&[1, 1, 2, 3, 8]);
        setup.policy.nonce.release = dice.pick(&[ReleaseRule::Mined, ReleaseRule::Mined, ReleaseRule::Final]);
        setup.policy.resubmit.interval = Duration::from_secs(10);
        setup.limits.batch = dice.pick(&[2, 4, 256]);
        setup.limits.open_slots = dice.pick(&[3, 9, 1000]);
        setup.limits.notices_per_head = dice.pick(&[0, 1, 2, 100]);
        setup.policy.confirmations.required = FINAL_DEPTH as u32;
        setup.limits.resend_longest = Duration::from_secs(8);
        let (with_people, trouble) = (dice.percent(50), dice.pick(&[0, 5, 12, 25]));
        let with_strangers = dice.percent(30);
        if with_strangers {
            setup.policy.nonce.on_external_nonce = ExternalNoncePolicy::Adopt;
        }
        let most_intents = 1 + dice.below(30) as u64;
        let world = World {
            dice,
            clock,
            model,
            lane,
            setup,
            now: Tick::since_start(Duration::from_secs(1)),
            chain: Chain::new(),
            owners: Vec::new(),
            born: 0,
            checks: Checks::default(),
            intents: 0,
            most_intents,
            with_people,
            with_strangers,
            trouble,
        };
        let submitter = NewSubmitter { id: world.lane.clone(), alias: None };
        now(world.any_node().register_submitters(&[submitter])).unwrap();
        world
    }

    pub(crate) fn run(mut self) {
        self.come();
        for _ in 0..STEPS {
            self.step();
        }
        self.calm_down();
        let filter = TxFilter { submitter: Some(self.lane.clone()), limit: 1000, ..TxFilter::default() };
        let rows = now(self.any_node().list(&filter)).unwrap();
        self.checks.end(&self.chain, &rows);
        let events = now(self.any_node().read_events(EventPosition::default(), u32::MAX)).unwrap();
        reader::follow(&events, &self.chain);
    }

    /// Callers and operators come in at any node.
    pub(crate) fn any_node(&self) -> gapless_store::ModelStore {
        self.model.node(OwnerId::new("door", u128::MAX))
    }

    fn step(&mut self) {
        match self.dice.below(100) {
            0..=9 => self.accept(),
            10..=14 => self.pass(Duration::from_millis(100)),
            15..=22 => {
                let span = self.dice.pick(&[200, 500, 1000, 3000]);
                self.pass(Duration::from_millis(span));
            }
            23..=30 => {
                let room = self.dice.below(4);
                let trouble = self.trouble;
                self.chain.mine(room, trouble, &mut self.dice);
            }
            31..=40 => self.look(),
            41..=50 => self.deliver(),
            51..=53 => self.tell_somebody(Fact::Woken),
            54 => self.tell_somebody(Fact::Tick),
            55..=58 => self.people(),
            59 if self.with_strangers => self.stranger(),
            59..=64 => self.misfortune(),
            _ => self.work(),
        }
    }

    fn stranger(&mut self) {
        if self.dice.percent(30) {
            self.chain.authorized = true;
        } else {
            self.chain.stranger(&mut self.dice);
        }
    }

    /// In proportion to how troubled the world is.
    fn misfortune(&mut self) {
        if !self.dice.percent(self.trouble * 4) {
            return;
        }
        match self.dice.below(10) {
            0..=4 => {
                let (lose, odd) = (self.trouble, self.trouble);
                self.chain.reorg(lose, odd, &mut self.dice);
            }
            5 => self.chain.drop_from_pool(&mut self.dice),
            6 => {
                // Killed: what it had begun may have been done, or not.
                self.finish_some();
                self.owners.pop();
                self.pass(Duration::from_secs(12));
                self.come();
            }
            7 => {
                // Stopped for longer than its lease; it will go on as if nothing had been.
                if let Some(owner) = self.owners.last_mut() {
                    owner.stalled = true;
                }
                self.pass(Duration::from_secs(12));
                self.come();
            }
            8 => self.tell_newest(Fact::Drain),
            _ => {
                // A late one is gone at last.
                if self.owners.len() > 1 {
                    self.owners.remove(0);
                }
            }
        }
    }

    fn finish_some(&mut self) {
        let Some(newest) = self.owners.len().checked_sub(1) else { return };
        for index in (0..self.owners[newest].under_way.len()).rev() {
            if self.dice.percent(50) {
                self.execute(newest, index);
            }
        }
    }

    fn accept(&mut self) {
        if self.intents >= self.most_intents {
            return;
        }
        self.intents += 1;
        let number = self.intents;
        let call = EvmCall { to: Some(Address::repeat_byte(1)), value: Amount::from(number), ..EvmCall::default() };
        let borrows = self.with_people && self.dice.percent(20);
        let payload = if borrows { people::borrow(number) } else { Payload::Evm(call) };
        let draft = IntentDraft {
            submitter: self.lane.clone(),
            request_id: number.to_string(),
            payload,
            speed: Speed::Standard,
            valid_until: None,
            metadata: None,
        };
        let id = TxId::from_uuid(Uuid::from_u128(u128::from(number)));
        let new = NewIntent { id, intent: Intent::new(draft, &Limits::default()).unwrap() };
        assert_eq!(now(self.any_node().accept(&[new])).unwrap(), [Accepted::New]);
        self.checks.accepted(id);
    }

    pub(crate) fn command(&self, kind: CommandKind) {
        let command = NewCommand { submitter: self.lane.clone(), kind, issued_by: NodeText::new("test") };
        now(self.any_node().put_commands(&[command])).unwrap();
    }

    fn pass(&mut self, span: Duration) {
        self.clock.advance(span);
        self.now = self.now.saturating_add(span);
        for owner in self.owners.iter().filter(|owner| !owner.stalled) {
            now(owner.store.renew()).unwrap();
        }
        for index in 0..self.owners.len() {
            if self.owners.get(index).and_then(|owner| owner.wake_at).is_some_and(|at| at <= self.now) {
                self.tell(index, Fact::Tick);
            }
        }
        self.sweep();
    }

    /// Another process takes the lane, if it is free.
    fn come(&mut self) {
        self.born += 1;
        let store = self.model.node(OwnerId::new("node", self.born));
        let Acquired::Held(lease) = now(store.acquire(from_ref(&self.lane))).unwrap().remove(0) else { return };
        for owner in &mut self.owners {
            owner.stalled = true;
        }
        let Loaded::Lane(snapshot) = now(store.load_lanes(from_ref(&lease))).unwrap().remove(0) else {
            panic!("fenced")
        };
        self.owners.push(Owner::new(store, lease, snapshot, &self.setup, self.now));
        let newest = self.owners.len() - 1;
        self.tell(newest, Fact::Woken);
    }

    /// Somebody finds the lane if it has work and no owner.
    fn sweep(&mut self) {
        let free = now(self.any_node().lanes_with_work(None, 1)).unwrap();
        if !free.is_empty() {
            self.come();
        }
    }

    fn look(&mut self) {
        if self.owners.is_empty() {
            return;
        }
        let index = self.dice.below(self.owners.len());
        let behind = if self.dice.percent(self.trouble) { self.dice.below(3) as u64 } else { 0 };
        self.owners[index].look(&self.chain, behind, self.trouble, &mut self.dice);
    }

    /// Some of what a watcher has told; now and then twice.
    fn deliver(&mut self) {
        if self.owners.is_empty() {
            return;
        }
        let index = self.dice.below(self.owners.len());
        let owner = &mut self.owners[index];
        let count = self.dice.below(owner.inbox.len() + 1);
        let sightings: Vec<_> = owner.inbox.drain(..count).collect();
        let twice = self.dice.percent(self.trouble);
        if twice {
            self.tell(index, Fact::Sightings(sightings.clone()));
        }
        if index < self.owners.len() {
            self.tell(index, Fact::Sightings(sightings));
        }
        if index < self.owners.len() && self.dice.percent(50) {
            self.tell_news(index);
        }
    }

    /// Only who follows heads hears of them.
    fn tell_news(&mut self, index: usize) {
        let owner = &mut self.owners[index];
        if owner.lane.follows_heads()
            && let Some(chain) = owner.news.take()
        {
            self.tell(index, Fact::Chain(chain));
        }
    }

    fn tell_somebody(&mut self, fact: Fact) {
        if !self.owners.is_empty() {
            let index = self.dice.below(self.owners.len());
            self.tell(index, fact);
        }
    }

    fn tell_newest(&mut self, fact: Fact) {
        if let Some(newest) = self.owners.len().checked_sub(1) {
            self.tell(newest, fact);
        }
    }

    fn tell(&mut self, index: usize, fact: Fact) {
        let owner = &mut self.owners[index];
        let Step { effects, wake_at } = owner.handle(fact, self.now);
        owner.wake_at = wake_at;
        for effect in effects {
            match effect {
                Effect::Watch(watched) => owner.watch(&watched),
                Effect::Unwatch(hashes) => owner.unwatch(&hashes),
                Effect::Notice { text, .. } => assert!(!text.as_str().starts_with("cannot write"), "{text}"),
                Effect::Release => {
                    let owner = self.owners.remove(index);
                    now(owner.store.release(&[owner.lease])).unwrap();
                    return;
                }
                effect => {
                    owner.check_alone(&effect);
                    match &effect {
                        Effect::Commit(commit) => self.checks.wants(commit, owner, &self.setup, &self.chain),
                        Effect::Broadcast(outgoing) => self.checks.wants_sent(outgoing, owner),
                        _ => {}
                    }
                    owner.under_way.push(Work::Begun(effect));
                }
            }
        }
    }

    /// Something that is under way goes on: it is done, or its answer arrives.
    fn work(&mut self) {
        if self.owners.is_empty() {
            return;
        }
        let index = self.dice.below(self.owners.len());
        let under_way = self.owners[index].under_way.len();
        if under_way > 0 {
            let which = self.dice.below(under_way);
            self.advance(index, which);
        }
    }

    fn advance(&mut self, index: usize, which: usize) {
        if matches!(self.owners[index].under_way[which], Work::Begun(_)) {
            self.execute(index, which);
            return;
        }
        let Work::Answered(answer) = self.owners[index].under_way.remove(which) else { return };
        match answer {
            Answer::Fact(fact) => {
                let fact = self.checked_against_view(index, fact);
                self.tell(index, fact);
            }
            Answer::Lost => drop(self.owners.remove(index)),
            Answer::Reload => {
                let owner = &mut self.owners[index];
                match now(owner.store.load_lanes(from_ref(&owner.lease))).unwrap().remove(0) {
                    Loaded::Lane(snapshot) => {
                        owner.reload(snapshot, &self.setup, self.now);
                        self.tell(index, Fact::Woken);
                    }
                    Loaded::Fenced => drop(self.owners.remove(index)),
                }
            }
        }
    }

    /// A revert counts only on the chain that the watcher has linked.
    fn checked_against_view(&self, index: usize, fact: Fact) -> Fact {
        let Fact::Prepared(answers) = fact else { return fact };
        let owner = &self.owners[index];
        let check = |(key, answer)| match answer {
            Err(PrepareFailure::Reverted { at, .. }) if !owner.has_linked(at) => (key, Err(unavailable())),
            answer => (key, answer),
        };
        Fact::Prepared(answers.into_iter().map(check).collect())
    }

    fn execute(&mut self, index: usize, which: usize) {
        let owner = &mut self.owners[index];
        let Work::Begun(effect) = owner.under_way.remove(which) else { return };
        let answer = match effect {
            Effect::Peek { limit, without } => Answer::Fact(self.peek(index, limit, &without)),
            Effect::Prepare(requests) => Answer::Fact(self.prepare(&requests)),
            Effect::Sign(requests) => Answer::Fact(self.sign(&requests)),
            Effect::Commit(commit) => self.commit(index, &commit),
            Effect::Broadcast(outgoing) => Answer::Fact(self.broadcast(&outgoing)),
            Effect::ReadAccount => {
                let lag = if self.dice.percent(self.trouble) { self.dice.below(4) as u64 } else { 0 };
                let account = self.chain.account(lag);
                Answer::Fact(Fact::Account((!self.dice.percent(self.trouble)).then_some(account)))
            }
            Effect::Scan(request) => {
                let lag = if self.dice.percent(self.trouble) { self.dice.below(4) as u64 } else { 0 };
                let survey = self.chain.survey(&self.lane, request, lag);
                Answer::Fact(Fact::Scanned((!self.dice.percent(self.trouble)).then_some(survey)))
            }
            Effect::Decide(case) => Answer::Fact(Fact::Decided(case.nonce, Decision::Wait)),
            other => panic!("{other:?}"),
        };
        let at = which.min(self.owners[index].under_way.len());
        self.owners[index].under_way.insert(at, Work::Answered(answer));
    }

    fn peek(&mut self, index: usize, limit: u32, without: &[TxId]) -> Fact {
        if self.dice.percent(self.trouble) {
            return Fact::Peeked(None);
        }
        let store = &self.owners[index].store;
        let queue = now(store.peek_queues(&[(self.lane.clone(), limit)], without)).unwrap().remove(0);
        let commands = now(store.open_commands(from_ref(&self.lane))).unwrap().remove(0);
        Fact::Peeked(Some(Peeked { queue, commands }))
    }

    fn prepare(&mut self, requests: &[PrepareRequest]) -> Fact {
        let lag = if self.dice.percent(self.trouble) { self.dice.below(3) as u64 } else { 0 };
        let number = self.chain.head().saturating_sub(lag);
        let answers = requests.iter().map(|request| (request.key, self.price(request, number)));
        Fact::Prepared(answers.collect::<Vec<_>>())
    }

    fn price(&mut self, request: &PrepareRequest, block: u64) -> Result<Prepared, PrepareFailure> {
        if self.dice.percent(self.trouble) {
            return Err(unavailable());
        }
        if let PrepareKey::Intent(id, _) = request.key {
            let number = self.checks.number_of(id);
            if is_invalid(number) {
                return Err(PrepareFailure::Invalid(NodeText::new("never")));
            }
            let has_run = |wanted: u64| {
                let before = self.chain.blocks.iter().take(block as usize + 1);
                let mut txs = before.flat_map(|block| &block.txs);
                txs.any(|tx| tx.kind.carries_payload() && tx.intent == wanted && !reverts(tx.intent))
            };
            if needs_previous(number) && !has_run(number - 1) {
                let at = self.chain.blocks[block as usize].at;
                return Err(PrepareFailure::Reverted { at, text: NodeText::new("not before the other") });
            }
        }
        let max_fee = 100 + self.dice.below(20) as u128;
        Ok(Prepared::new(21_000, Fees::Eip1559 { max_fee, max_priority_fee: 2 }))
    }

    fn sign(&mut self, requests: &[SignRequest]) -> Fact {
        let answers = requests.iter().map(|request| {
            if self.dice.percent(self.trouble) {
                Err(SignFailure::Unavailable(NodeText::new("away")))
            } else {
                Ok(sign(request))
            }
        });
        Fact::Signed(answers.collect::<Vec<_>>())
    }

    fn commit(&mut self, index: usize, commit: &LaneCommit) -> Answer {
        if self.dice.percent(self.trouble) {
            return Answer::Fact(Fact::Committed(CommitOutcome::NotWritten));
        }
        if self.dice.percent(self.trouble / 3) {
            return Answer::Reload;
        }
        let committed = now(self.owners[index].store.commit(from_ref(commit))).unwrap();
        match &committed.verdicts[0] {
            CommitVerdict::Done => {
                self.checks.done(commit, &self.chain);
                // Durable, and nobody learns of it.
                if self.dice.percent(self.trouble / 3) {
                    return Answer::Reload;
                }
                let replicated = !self.dice.percent(self.trouble);
                Answer::Fact(Fact::Committed(CommitOutcome::Done { at: committed.at, replicated }))
            }
            CommitVerdict::Fenced => Answer::Lost,
            CommitVerdict::Conflict(conflict) => {
                assert!(self.with_people, "nobody else writes here: {conflict:?}");
                Answer::Reload
            }
            other => panic!("{other:?}"),
        }
    }

    fn broadcast(&mut self, outgoing: &[Outgoing]) -> Fact {
        self.checks.sends(outgoing);
        let sent = outgoing.iter().map(|out| {
            let outcome = self.send(out);
            SentTx { nonce: out.nonce, hash: out.tx.hash, outcome, text: NodeText::new("said so"), answers: Vec::new() }
        });
        Fact::Sent(sent.collect::<Vec<_>>())
    }

    fn send(&mut self, out: &Outgoing) -> SendOutcome {
        let tx = decode(&out.tx.raw);
        let refused = tx.kind.carries_payload() && is_refused(tx.intent);
        if refused && !self.dice.percent(self.trouble) {
            return SendOutcome::Rejected;
        }
        let no_verdict =
            [SendOutcome::Unavailable, SendOutcome::Unknown, SendOutcome::PoolFull, SendOutcome::RateLimited];
        let untrue = [
            SendOutcome::NonceTooLow,
            SendOutcome::NonceTooHigh,
            SendOutcome::AlreadyKnown,
            SendOutcome::InsufficientFunds,
            SendOutcome::Underpriced,
            SendOutcome::ReplacementUnderpriced,
            SendOutcome::Wait,
        ];
        match self.dice.below(100) as u64 {
            // It never arrived.
            chance if chance < self.trouble => self.dice.pick(&no_verdict),
            // It arrived, and the answer did not.
            chance if chance < self.trouble * 2 => {
                self.chain.send(&out.tx.raw, true);
                self.dice.pick(&no_verdict)
            }
            // A node says what is not so.
            chance if chance < self.trouble * 5 / 2 => self.dice.pick(&untrue),
            _ => {
                let gapped = self.dice.percent(70);
                self.chain.send(&out.tx.raw, gapped)
            }
        }
    }

    /// No more trouble: everything has to end, by itself, and soon.
    fn calm_down(&mut self) {
        self.trouble = 0;
        self.command(CommandKind::Resume);
        let newest = self.owners.len().saturating_sub(1);
        self.owners.drain(..newest);
        if self.owners.last().is_some_and(|owner| owner.stalled) {
            self.owners.clear();
        }
        while self.intents < self.most_intents {
            self.accept();
        }
        for _ in 0..CALM {
            self.pass(Duration::from_millis(500));
            self.chain.mine(4, 0, &mut self.dice);
            for owner in &mut self.owners {
                owner.look(&self.chain, 0, 0, &mut self.dice);
            }
            self.settle();
            let has_slots = !now(self.any_node().open_slots(&self.lane, None, 1)).unwrap().is_empty();
            if self.checks.all_ended() && !has_slots {
                return;
            }
        }
        let open = now(self.any_node().list(&TxFilter { limit: 1000, ..TxFilter::default() })).unwrap();
        let open: Vec<_> = open.iter().filter(|tx| !tx.state.name().is_terminal()).collect();
        panic!("not all have ended: {open:#?}\n{:#?}", self.owners);
    }

    /// Everything that follows without time passing.
    fn settle(&mut self) {
        for _ in 0..BUSY {
            let Some(newest) = self.owners.len().checked_sub(1) else { return };
            if !self.owners[newest].inbox.is_empty() {
                let sightings = self.owners[newest].inbox.drain(..).collect();
                self.tell(newest, Fact::Sightings(sightings));
                if newest < self.owners.len() {
                    self.tell_news(newest);
                }
            } else if !self.owners[newest].under_way.is_empty() {
                self.advance(newest, 0);
            } else {
                return;
            }
        }
        panic!("it goes in circles: {:#?}", self.owners);
    }
}

fn unavailable() -> PrepareFailure {
    PrepareFailure::Unavailable(NodeText::new("away"))
}
