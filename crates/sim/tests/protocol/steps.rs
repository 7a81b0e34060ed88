//! The steps of the model, and the state after each.

use stateright::{Model, Property};

use crate::ledger::{Does, Hashes, Intent, Ledger, NONCES, Slot, TxHash, Write};
use crate::mistakes::Mistake;
use crate::promises;
use crate::witness::{Event, Witness};
use crate::world::{Block, Mind, Node, Open, Term, World};

/// The bounds of one exploration.
#[derive(Debug)]
pub(crate) struct Protocol {
    pub(crate) nodes: usize,
    pub(crate) intents: usize,
    /// `max_in_flight`.
    pub(crate) window: u8,
    /// The largest number of changes of the lane's owner.
    pub(crate) tenures: u8,
    pub(crate) attempts_a_slot: u32,
    pub(crate) cancels: bool,
    /// The number of foreign transactions with our key.
    pub(crate) foreign_txs: u8,
    /// The number of reorgs of the newest block. Without any, a block is final at once.
    pub(crate) reorgs: u8,
    /// Is a commit refused when the rows differ from its writer's memory? A second protection behind the fence.
    pub(crate) compares: bool,
    pub(crate) mistake: Option<Mistake>,
    pub(crate) witness: Witness,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// The lease runs out, or is released. Possible at any time: a node may take any time for a step.
    Expire,
    /// A request for the lease. The answer may be lost, and the request may have been under way for long.
    Acquire {
        node: usize,
        heard: bool,
    },
    Load {
        node: usize,
    },
    /// Opens a transaction for a write: locks the lease row and checks it.
    Begin {
        node: usize,
        write: Write,
    },
    /// The database commits the node's open transaction and the node is told.
    Commit {
        node: usize,
    },
    /// The transaction is rolled back and the node is told.
    RollBack {
        node: usize,
    },
    /// The node gives up waiting. The transaction stays open, and may be committed or not.
    TimeOut {
        node: usize,
    },
    CommitOrphan {
        orphan: usize,
    },
    RollBackOrphan {
        orphan: usize,
    },
    /// The process dies, and a process with another owner id takes its place.
    Crash {
        node: usize,
    },
    Broadcast {
        node: usize,
        hash: TxHash,
    },
    Mine {
        hash: TxHash,
    },
    /// A foreign transaction is mined at our next nonce.
    MineForeign,
    /// The lowest block that is not final becomes final.
    Finalize,
    Reorg,
}

impl Model for Protocol {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.nodes, self.intents, self.foreign_txs, self.reorgs)]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        if world.lease.valid {
            steps.push(Step::Expire);
        }
        for (index, node) in world.nodes.iter().enumerate() {
            self.steps_of(world, index, node, steps);
        }
        for (orphan, open) in world.orphans.iter().enumerate() {
            if open.is_some() {
                steps.extend([Step::CommitOrphan { orphan }, Step::RollBackOrphan { orphan }]);
            }
        }
        if world.chain.has_room() {
            let minable = world.chain.pool.at(world.chain.height);
            steps.extend(minable.iter().map(|hash| Step::Mine { hash }));
            if world.chain.foreign_left > 0 {
                steps.push(Step::MineForeign);
            }
        }
        if world.chain.final_height < world.chain.height {
            steps.push(Step::Finalize);
            if world.chain.reorgs_left > 0 {
                steps.push(Step::Reorg);
            }
        }
    }

    fn next_state(&self, last: &World, step: Step) -> Option<World> {
        let mut world = *last;
        match step {
            Step::Expire => world.lease.valid = false,
            Step::Acquire { node, heard } => self.acquire(&mut world, node, heard),
            Step::Load { node } => self.load(&mut world, node),
            Step::Begin { node, write } => self.begin(&mut world, node, write),
            Step::Commit { node } => self.commit(&mut world, node),
            Step::RollBack { node } => {
                if let Mind::Waiting(open, memory) = world.nodes[node].mind {
                    world.nodes[node].mind = Mind::Loaded(open.term, memory);
                }
            }
            Step::TimeOut { node } => self.time_out(&mut world, node),
            Step::CommitOrphan { orphan } => {
                if let Some(open) = world.orphans[orphan].take() {
                    self.apply(&mut world, open);
                }
            }
            Step::RollBackOrphan { orphan } => world.orphans[orphan] = None,
            Step::Crash { node } => {
                if let Mind::Waiting(open, _) = world.nodes[node].mind {
                    abandon(&mut world, open);
                }
                world.nodes[node] = Node { owns_row: false, mind: Mind::Idle };
            }
            Step::Broadcast { node, hash } => {
                if !world.is_owner(&world.nodes[node]) {
                    self.witness.saw(Event::LateBroadcast);
                }
                world.chain.pool = world.chain.pool.with(hash);
            }
            Step::Mine { hash } => self.mine(&mut world, Block::Ours(hash)),
            Step::MineForeign => {
                world.chain.foreign_left -= 1;
                self.mine(&mut world, Block::Foreign);
            }
            Step::Finalize => world.chain.finalize(),
            Step::Reorg => {
                self.witness.saw(Event::Reorg);
                world.chain.reorg();
            }
        }
        world.sort();
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        promises::all()
    }
}

impl Protocol {
    fn makes(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn steps_of(&self, world: &World, index: usize, node: &Node, steps: &mut Vec<Step>) {
        if node.mind == Mind::Absent {
            return;
        }
        if self.may_acquire(world, node) {
            steps.extend([true, false].map(|heard| Step::Acquire { node: index, heard }));
        }
        if node.owns_row || node.mind != Mind::Idle {
            steps.push(Step::Crash { node: index });
        }
        match &node.mind {
            Mind::Blank(_) => {
                if self.makes(Mistake::LoadWithoutWaiting) || !self.is_locked(world) {
                    steps.push(Step::Load { node: index });
                }
            }
            Mind::Loaded(_, memory) => {
                if !self.is_locked(world) {
                    self.writes(world, memory, &mut |write| steps.push(Step::Begin { node: index, write }));
                }
            }
            Mind::Waiting(..) => steps.extend([
                Step::Commit { node: index },
                Step::RollBack { node: index },
                Step::TimeOut { node: index },
            ]),
            Mind::Absent | Mind::Idle => {}
        }
        // A node sends also after its lease was lost: it may have been stopped just before. A send after its nonce is
        // used changes nothing.
        let unsent = self.sendable(node).at_or_above(world.chain.final_height).without(world.chain.pool);
        steps.extend(unsent.iter().map(|hash| Step::Broadcast { node: index, hash }));
    }

    fn mine(&self, world: &mut World, block: Block) {
        world.chain.mine(block);
        if self.reorgs == 0 {
            world.chain.finalize();
        }
    }

    /// The attempts that this node knows to be durable.
    fn sendable(&self, node: &Node) -> Hashes {
        let durable = node.mind.memory().map_or(Hashes::default(), |memory| memory.attempts);
        match node.mind {
            Mind::Waiting(Open { write, .. }, _) if self.makes(Mistake::SendBeforeCommit) => {
                write.hash().map_or(durable, |hash| durable.with(hash))
            }
            _ => durable,
        }
    }

    /// No node takes or loads a locked row: every node waits for the lock.
    fn is_locked(&self, world: &World) -> bool {
        !self.makes(Mistake::ExistsFence) && world.is_locked()
    }

    fn is_own(&self, node: &Node) -> bool {
        node.owns_row || self.makes(Mistake::SameOwnerId)
    }

    fn may_acquire(&self, world: &World, node: &Node) -> bool {
        if matches!(node.mind, Mind::Waiting(..)) || self.is_locked(world) {
            return false;
        }
        if node.owns_row && world.lease.valid {
            // A renewal, which matters only to a process that does not know its lease.
            return node.mind.term().is_none_or(|term| term.token != world.lease.token);
        }
        (self.is_own(node) || !world.lease.valid) && world.lease.tenure < self.tenures
    }

    fn acquire(&self, world: &mut World, node: usize, heard: bool) {
        let renews = self.is_own(&world.nodes[node]) && world.lease.valid;
        if !renews {
            let first = world.lease.token == 0;
            if first || !self.makes(Mistake::KeepToken) {
                world.lease.token += 1;
            }
            world.lease.valid = true;
        }
        if !world.nodes[node].owns_row || !renews {
            world.lease.tenure += 1;
            for other in &mut world.nodes {
                other.owns_row = false;
            }
            world.nodes[node].owns_row = true;
        }
        if world.lease.tenure > 1 && world.ledger.written_by > 0 {
            self.witness.saw(Event::Takeover);
        }
        if heard {
            world.nodes[node].mind = Mind::Blank(Term { token: world.lease.token, tenure: world.lease.tenure });
        }
    }

    fn passes_fence(&self, world: &World, node: usize, term: Term) -> bool {
        world.lease.valid && term.token == world.lease.token && self.is_own(&world.nodes[node])
    }

    fn load(&self, world: &mut World, node: usize) {
        let Mind::Blank(term) = world.nodes[node].mind else { return };
        world.nodes[node].mind = if self.passes_fence(world, node, term) {
            if world.ledger.written_by == term.token {
                // The node has written before, and loads again: the outcome of a commit was unknown to it.
                self.witness.saw(Event::ReadBack);
            }
            Mind::Loaded(term, world.ledger)
        } else {
            Mind::Idle
        };
    }

    fn begin(&self, world: &mut World, node: usize, write: Write) {
        let Mind::Loaded(term, memory) = world.nodes[node].mind else { return };
        world.nodes[node].mind = if self.passes_fence(world, node, term) {
            Mind::Waiting(Open { term, write }, memory)
        } else {
            self.witness.saw(Event::Refused);
            Mind::Idle
        };
    }

    fn commit(&self, world: &mut World, node: usize) {
        let Mind::Waiting(open, memory) = world.nodes[node].mind else { return };
        world.nodes[node].mind = if self.apply(world, open) {
            Mind::Loaded(open.term, memory.written(open.write, open.term.token))
        } else {
            Mind::Blank(open.term)
        };
    }

    fn time_out(&self, world: &mut World, node: usize) {
        let Mind::Waiting(open, memory) = world.nodes[node].mind else { return };
        abandon(world, open);
        world.nodes[node].mind = if self.makes(Mistake::UnknownIsFailure) {
            Mind::Loaded(open.term, memory)
        } else {
            Mind::Blank(open.term)
        };
    }

    /// The moment at which a write becomes durable. False: the rows were not what the writer thought, and nothing is
    /// written.
    fn apply(&self, world: &mut World, open: Open) -> bool {
        let Open { term, write } = open;
        let jumps = self.makes(Mistake::JumpToChain) && matches!(write, Write::Bind { .. });
        if self.compares && !jumps && !world.ledger.fits(write, term.token) {
            self.witness.saw(Event::Conflict);
            return false;
        }
        let before = world.ledger;
        world.ledger = before.written(write, term.token);
        if let Write::LoseNonce { .. } = write {
            self.witness.saw(Event::NonceLost);
        }
        world.broken.fence |= term.tenure != world.lease.tenure;
        world.broken.sticky |= promises::lets_go(&before, &world.ledger, &world.chain);
        world.broken.terminal |= promises::changes_an_end(&before, &world.ledger);
        true
    }

    /// All writes that a node with this memory may want, under any policy.
    fn writes(&self, world: &World, memory: &Ledger, want: &mut impl FnMut(Write)) {
        let known = world.known_hashes();
        if let Some(nonce) = self.nonce_to_bind(world, memory)
            && let Some(intent) = memory.first_queued()
            && let Some(hash) = self.sign(nonce, Does::Intent(intent), known)
        {
            want(Write::Bind { intent, hash });
        }
        if world.chain.is_final(memory.next_nonce) && !self.makes(Mistake::JumpToChain) {
            want(Write::Adopt { nonce: memory.next_nonce });
        }
        for nonce in 0..memory.next_nonce {
            let Slot::Of(intent) = memory.slot(nonce) else { continue };
            if memory.intent(intent) != Intent::Bound(nonce) {
                continue;
            }
            match world.chain.block(nonce) {
                Block::Ours(_) | Block::Foreign if !self.may_end(world, nonce) => {}
                Block::NotYet => self.writes_for_open_slot(world, memory, intent, nonce, want),
                Block::Ours(hash) if memory.attempts.contains(hash) => {
                    let end = if hash.does == Does::Nothing { Intent::Canceled } else { Intent::Confirmed };
                    want(Write::Finish { intent, nonce, end });
                }
                // By the memory of this node, a foreign transaction.
                Block::Ours(_) | Block::Foreign => want(Write::LoseNonce { intent, nonce }),
            }
        }
    }

    /// Only final blocks decide.
    fn may_end(&self, world: &World, nonce: u8) -> bool {
        world.chain.is_final(nonce) || self.makes(Mistake::MinedIsFinal)
    }

    fn writes_for_open_slot(
        &self,
        world: &World,
        memory: &Ledger,
        intent: u8,
        nonce: u8,
        want: &mut impl FnMut(Write),
    ) {
        let known = world.known_hashes();
        if memory.attempts.at(nonce).len() < self.attempts_a_slot {
            let kinds = [Some(Does::Intent(intent)), self.cancels.then_some(Does::Nothing)];
            for hash in kinds.into_iter().flatten().filter_map(|does| self.sign(nonce, does, known)) {
                want(Write::Attempt { intent, hash });
            }
        }
        if self.makes(Mistake::RecycleAfterTimeout)
            && let Some(heir) = memory.first_queued()
            && let Some(hash) = self.sign(nonce, Does::Intent(heir), known)
        {
            want(Write::Recycle { intent: heir, from: intent, hash });
        }
        if self.makes(Mistake::RequeueWithoutReceipt) {
            want(Write::LoseNonce { intent, nonce });
        }
    }

    fn sign(&self, nonce: u8, does: Does, known: Hashes) -> Option<TxHash> {
        let hash = TxHash::fresh(nonce, does, known);
        if hash.is_none() {
            self.witness.saw(Event::OutOfHashes);
        }
        hash
    }

    /// The next nonce in line, if there is room in the window, and if every block so far is explained by a slot: else
    /// the lane is in PROTECT.
    fn nonce_to_bind(&self, world: &World, memory: &Ledger) -> Option<u8> {
        let height = world.chain.height;
        if self.makes(Mistake::JumpToChain) {
            let nonce = memory.next_nonce.max(height);
            return (usize::from(nonce) < NONCES && nonce - height < self.window).then_some(nonce);
        }
        let explained = (0..height).all(|nonce| match (world.chain.block(nonce), memory.slot(nonce)) {
            (Block::Ours(hash), Slot::Of(_)) => memory.attempts.contains(hash),
            (Block::Foreign, Slot::Foreign) => true,
            // By the memory of this node, a foreign transaction.
            (Block::Ours(hash), Slot::Foreign) => !memory.attempts.contains(hash),
            _ => false,
        });
        // A node with this mistake does not read the chain either.
        let explained = explained || self.makes(Mistake::RequeueWithoutReceipt);
        let nonce = memory.next_nonce;
        let in_flight = nonce.checked_sub(height)?;
        (explained && usize::from(nonce) < NONCES && in_flight < self.window).then_some(nonce)
    }
}

/// No node waits for the transaction any more. It may still be committed.
fn abandon(world: &mut World, open: Open) {
    if let Some(place) = world.orphans.iter_mut().find(|place| place.is_none()) {
        *place = Some(open);
    }
}
