//! The state: a database, nodes, and a chain.

use crate::ledger::{Hashes, Ledger, NONCES, TxHash, Write};

pub(crate) const NODES: usize = 3;
/// Transactions that are open in the database while no node waits for them. With the lock there is at most one. Without
/// it there could be more, and the last one is then rolled back.
pub(crate) const ORPHANS: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) lease: LeaseRow,
    pub(crate) ledger: Ledger,
    pub(crate) orphans: [Option<Open>; ORPHANS],
    /// Sorted, since the names of nodes do not matter.
    pub(crate) nodes: [Node; NODES],
    pub(crate) chain: Chain,
    pub(crate) broken: Broken,
}

/// The lease row. Its owner is the node with `owns_row`, or a process that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LeaseRow {
    pub(crate) token: u8,
    pub(crate) valid: bool,
    /// How often the lane was given to a process that did not have it. The protocol cannot see this; its token should
    /// say the same.
    pub(crate) tenure: u8,
}

/// A right to write, as it was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Term {
    pub(crate) token: u8,
    pub(crate) tenure: u8,
}

/// A transaction of the database: its lease was found valid, its writes are not visible yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Open {
    pub(crate) term: Term,
    pub(crate) write: Write,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Node {
    /// The lease row names this process, whether it knows or not.
    pub(crate) owns_row: bool,
    pub(crate) mind: Mind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Mind {
    /// This configuration has fewer nodes.
    Absent,
    Idle,
    /// Has a lease, but must load before it does anything.
    Blank(Term),
    Loaded(Term, Ledger),
    /// Its commit is open in the database.
    Waiting(Open, Ledger),
}

impl Mind {
    /// The rows that are durable for the node, from which it may send.
    pub(crate) fn memory(&self) -> Option<&Ledger> {
        match self {
            Mind::Loaded(_, memory) | Mind::Waiting(_, memory) => Some(memory),
            Mind::Absent | Mind::Idle | Mind::Blank(_) => None,
        }
    }

    pub(crate) fn term(&self) -> Option<Term> {
        match self {
            Mind::Blank(term) | Mind::Loaded(term, _) => Some(*term),
            Mind::Waiting(open, _) => Some(open.term),
            Mind::Absent | Mind::Idle => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Block {
    NotYet,
    Ours(TxHash),
    Foreign,
}

/// One block holds one transaction, the one with the next nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Chain {
    /// Every sent transaction whose nonce is not finally used. No transaction is dropped: a pool with fewer could mine
    /// nothing that this one cannot.
    pub(crate) pool: Hashes,
    pub(crate) blocks: [Block; NONCES],
    pub(crate) height: u8,
    /// Blocks below this are final.
    pub(crate) final_height: u8,
    pub(crate) foreign_left: u8,
    pub(crate) reorgs_left: u8,
}

impl Chain {
    pub(crate) fn block(&self, nonce: u8) -> Block {
        self.blocks[usize::from(nonce)]
    }

    pub(crate) fn has_room(&self) -> bool {
        usize::from(self.height) < NONCES
    }

    pub(crate) fn mine(&mut self, block: Block) {
        self.blocks[usize::from(self.height)] = block;
        self.height += 1;
    }

    pub(crate) fn finalize(&mut self) {
        self.final_height += 1;
        self.pool = self.pool.at_or_above(self.final_height);
    }

    /// Removes the newest block. Its transaction is still in the pool, or a foreign one may come again.
    pub(crate) fn reorg(&mut self) {
        self.height -= 1;
        let top = &mut self.blocks[usize::from(self.height)];
        self.foreign_left += u8::from(*top == Block::Foreign);
        *top = Block::NotYet;
        self.reorgs_left -= 1;
    }

    pub(crate) fn is_final(&self, nonce: u8) -> bool {
        nonce < self.final_height
    }
}

/// Violations that only the step itself shows. They stay unset in every world that keeps its promises, so that they
/// cost no states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Broken {
    /// A write of an earlier tenure was applied.
    pub(crate) fence: bool,
    /// A slot or an intent lost the other without the proof that P4 asks for.
    pub(crate) sticky: bool,
    /// A terminal state changed.
    pub(crate) terminal: bool,
}

impl World {
    pub(crate) fn new(nodes: usize, intents: usize, foreign_left: u8, reorgs_left: u8) -> World {
        let mind = |i| if i < nodes { Mind::Idle } else { Mind::Absent };
        let mut world = World {
            lease: LeaseRow { token: 0, valid: false, tenure: 0 },
            ledger: Ledger::new(intents),
            orphans: [None; ORPHANS],
            nodes: std::array::from_fn(|i| Node { owns_row: false, mind: mind(i) }),
            chain: Chain {
                pool: Hashes::default(),
                blocks: [Block::NotYet; NONCES],
                height: 0,
                final_height: 0,
                foreign_left,
                reorgs_left,
            },
            broken: Broken::default(),
        };
        world.sort();
        world
    }

    /// One world for all that differ only in the names of nodes.
    pub(crate) fn sort(&mut self) {
        self.nodes.sort_unstable();
        self.orphans.sort_unstable();
    }

    /// Is the lease row locked by a transaction?
    pub(crate) fn is_locked(&self) -> bool {
        self.orphans.iter().any(Option::is_some) || self.nodes.iter().any(|node| matches!(node.mind, Mind::Waiting(..)))
    }

    /// The process that got the lane last. Under the mistakes of this model, other processes may pass the fence too.
    pub(crate) fn is_owner(&self, node: &Node) -> bool {
        node.mind.term().is_some_and(|term| term.tenure == self.lease.tenure)
    }

    /// Every hash that left a trace anywhere.
    pub(crate) fn known_hashes(&self) -> Hashes {
        let memories = self.nodes.iter().filter_map(|node| node.mind.memory()).map(|memory| memory.attempts);
        let waiting = self.nodes.iter().filter_map(|node| match node.mind {
            Mind::Waiting(open, _) => Some(open),
            _ => None,
        });
        let open = waiting.chain(self.orphans.iter().flatten().copied()).filter_map(|open| open.write.hash());
        let mined = self.chain.blocks.iter().filter_map(|block| match block {
            Block::Ours(hash) => Some(*hash),
            Block::NotYet | Block::Foreign => None,
        });
        let kept = memories.fold(self.ledger.attempts.union(self.chain.pool), Hashes::union);
        open.chain(mined).fold(kept, Hashes::with)
    }
}
