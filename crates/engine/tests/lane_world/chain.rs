//! A chain with one account: a pool, blocks, reorgs above the final one, and nodes that answer as nodes do.

use std::collections::BTreeMap;

use gapless_domain::{
    AccountFacts, Address, Amount, AttemptKind, B256, BlockLink, BlockRef, Bytes, EvmCall, Execution, Fees, MinedTx,
    Nonce, ScanRequest, ScanResult, ScannedTx, SendOutcome, SignRequest, SignedPlan, SignedTx, SubmitterId, TxPlan,
    keccak256,
};

use crate::dice::Dice;

/// From here on, values are those of strangers.
const STRANGE: u64 = 1_000_000;

/// A block is final with this many on the chain, counting itself.
pub(crate) const FINAL_DEPTH: u64 = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tx {
    pub(crate) nonce: u64,
    pub(crate) hash: B256,
    pub(crate) kind: AttemptKind,
    /// Which intent it is of; its number is its value.
    pub(crate) intent: u64,
    max_fee: u128,
    raw: Bytes,
    /// It is no transaction: an authorization has used the nonce (EIP-7702).
    ghost: bool,
}

impl Tx {
    /// Nobody of ours has asked for it.
    pub(crate) fn is_strange(&self) -> bool {
        self.ghost || self.intent >= STRANGE
    }

    /// What its bytes say.
    fn read(&self, lane: &SubmitterId) -> SignedPlan {
        let to = if self.kind.carries_payload() { Some(Address::repeat_byte(1)) } else { lane.evm_address() };
        let plan = TxPlan {
            submitter: lane.clone(),
            nonce: Nonce::new(self.nonce).unwrap(),
            call: EvmCall { to, value: Amount::from(self.intent), ..EvmCall::default() },
            gas_limit: 21_000,
            fees: Fees::Eip1559 { max_fee: self.max_fee, max_priority_fee: 2 },
        };
        SignedPlan { plan, signed: SignedTx { hash: self.hash, raw: self.raw.clone() } }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) at: BlockRef,
    pub(crate) txs: Vec<Tx>,
}

#[derive(Debug)]
pub(crate) struct Chain {
    pub(crate) blocks: Vec<Block>,
    /// What a miner would take next, by nonce.
    pool: BTreeMap<u64, Tx>,
    /// Everything that any node ever had: no node can be made to forget.
    known: Vec<Tx>,
    forks: u64,
    /// The next block uses up a nonce without a transaction.
    pub(crate) authorized: bool,
}

impl Chain {
    pub(crate) fn new() -> Self {
        let genesis = Block { at: BlockRef { number: 0, hash: keccak256("genesis") }, txs: Vec::new() };
        Chain { blocks: vec![genesis], pool: BTreeMap::new(), known: Vec::new(), forks: 0, authorized: false }
    }

    pub(crate) fn head(&self) -> u64 {
        self.blocks.len() as u64 - 1
    }

    pub(crate) fn final_number(&self) -> u64 {
        self.head().saturating_sub(FINAL_DEPTH - 1)
    }

    pub(crate) fn count_at(&self, number: u64) -> u64 {
        self.blocks.iter().take(number as usize + 1).map(|block| block.txs.len() as u64).sum()
    }

    /// Where one of our transactions stands.
    pub(crate) fn find(&self, hash: B256) -> Option<(BlockRef, &Tx)> {
        self.blocks.iter().find_map(|block| Some((block.at, block.txs.iter().find(|tx| tx.hash == hash)?)))
    }

    /// What has used a nonce, finally.
    pub(crate) fn final_use(&self, nonce: u64) -> Option<&Tx> {
        let settled = self.blocks.iter().take(self.final_number() as usize + 1);
        settled.flat_map(|block| &block.txs).find(|tx| tx.nonce == nonce)
    }

    /// Somebody else with the key: at the next nonce, or behind what is pooled, or in the place of what is.
    pub(crate) fn stranger(&mut self, dice: &mut Dice) {
        self.forks += 1;
        let nonce = self.count_at(self.head()) + dice.below(3) as u64;
        let raw = format!("{nonce} original {} 500", STRANGE + self.forks);
        let tx = decode(&Bytes::from(raw.into_bytes()));
        self.known.push(tx.clone());
        self.pool.insert(nonce, tx);
    }

    /// What a caller has signed by itself, sent without telling us.
    pub(crate) fn sent_by_caller(&mut self, raw: &Bytes) {
        self.send(raw, true);
    }

    pub(crate) fn mined(&self, number: u64, tx: &Tx) -> MinedTx {
        let reverts = tx.kind.carries_payload() && reverts(tx.intent);
        let execution =
            if reverts { Execution::Reverted { reason: None, data: Bytes::new() } } else { Execution::Success };
        let block = self.blocks[number as usize].at;
        let parent_hash = self.link(number as usize).parent_hash;
        MinedTx {
            hash: tx.hash,
            block,
            parent_hash,
            execution,
            gas_used: 21_000,
            effective_gas_price: Amount::from(tx.max_fee),
        }
    }

    pub(crate) fn link(&self, number: usize) -> BlockLink {
        let parent = number.checked_sub(1).map(|parent| self.blocks[parent].at.hash);
        BlockLink { block: self.blocks[number].at, parent_hash: parent.unwrap_or_default() }
    }

    /// What a node says of the account; one that lags says less.
    pub(crate) fn account(&self, lag: u64) -> AccountFacts {
        let latest = self.count_at(self.head().saturating_sub(lag));
        let mut pending = latest;
        while self.pool.contains_key(&pending) {
            pending += 1;
        }
        let nonce = |count| Nonce::new(count).unwrap();
        AccountFacts {
            head: self.head().saturating_sub(lag),
            latest: nonce(latest),
            pending: nonce(pending),
            finalized: Some(nonce(self.count_at(self.final_number()))),
            final_block: Some(self.blocks[self.final_number() as usize].at),
            balance: Amount::from(u128::MAX),
            delegated: false,
        }
    }

    /// What the blocks say of the account; a node that lags has fewer of them.
    pub(crate) fn survey(&self, lane: &SubmitterId, request: ScanRequest, lag: u64) -> ScanResult {
        // What is final is never behind.
        let head = self.head().saturating_sub(lag).max(self.final_number());
        let account = self.account(lag);
        let asked = request.from..account.latest.max(account.finalized.unwrap_or_default());
        let (mut oldest, mut sent) = (head, Vec::new());
        let is_there =
            |above: &BlockRef| self.blocks.get(above.number as usize).is_some_and(|block| block.at == *above);
        let above = request.above.filter(is_there);
        let lowest = above.map_or(0, |above| above.number + 1);
        for number in (lowest..=head).rev() {
            oldest = number;
            let block = &self.blocks[number as usize];
            let BlockLink { block: at, parent_hash } = self.link(number as usize);
            let read = |tx: &Tx| ScannedTx { tx: tx.read(lane), block: at, parent_hash };
            let of_block = block.txs.iter().filter(|tx| !tx.ghost).map(read);
            sent.extend(of_block.filter(|found| asked.contains(&found.tx.plan.nonce)));
            if sent.len() as u64 >= asked.end.get().saturating_sub(asked.start.get()) {
                break;
            }
        }
        sent.sort_by_key(|found| found.tx.plan.nonce);
        ScanResult { account, head: self.blocks[head as usize].at, oldest, is_whole: oldest <= lowest, sent }
    }

    /// An honest node.
    pub(crate) fn send(&mut self, raw: &Bytes, gapped: bool) -> SendOutcome {
        let tx = decode(raw);
        if !self.known.contains(&tx) {
            self.known.push(tx.clone());
        }
        let count = self.count_at(self.head());
        if tx.nonce < count {
            return SendOutcome::NonceTooLow;
        }
        match self.pool.get(&tx.nonce) {
            Some(held) if held.hash == tx.hash => return SendOutcome::AlreadyKnown,
            Some(held) if tx.max_fee * 10 < held.max_fee * 11 => return SendOutcome::ReplacementUnderpriced,
            _ => {}
        }
        let has_lower = (count..tx.nonce).all(|lower| self.pool.contains_key(&lower));
        if !has_lower && !gapped {
            return SendOutcome::NonceTooHigh;
        }
        self.pool.insert(tx.nonce, tx);
        SendOutcome::Accepted
    }

    pub(crate) fn drop_from_pool(&mut self, dice: &mut Dice) {
        let nonces: Vec<u64> = self.pool.keys().copied().collect();
        if !nonces.is_empty() {
            self.pool.remove(&dice.pick(&nonces));
        }
    }

    /// A block with up to `room` transactions. `odd`: some other node's pool may still have what ours has replaced or lost.
    pub(crate) fn mine(&mut self, room: usize, odd: u64, dice: &mut Dice) {
        let mut txs = Vec::new();
        let mut first = self.count_at(self.head());
        if std::mem::take(&mut self.authorized) {
            self.forks += 1;
            let raw = format!("{first} original {} 0", STRANGE + self.forks);
            txs.push(Tx { ghost: true, ..decode(&Bytes::from(raw.into_bytes())) });
            first += 1;
        }
        for nonce in first..first + room as u64 {
            let others: Vec<&Tx> = self.known.iter().filter(|tx| tx.nonce == nonce).collect();
            let odd_one = (!others.is_empty() && dice.percent(odd)).then(|| others[dice.below(others.len())].clone());
            let Some(tx) = odd_one.or_else(|| self.pool.get(&nonce).cloned()) else { break };
            self.pool.remove(&nonce);
            txs.push(tx);
        }
        self.forks += 1;
        let number = self.blocks.len() as u64;
        let hash = keccak256(format!("block {number} of branch {}", self.forks));
        self.blocks.push(Block { at: BlockRef { number, hash }, txs });
    }

    /// Another branch is longer. What stood on this one is in the pool again, or lost.
    pub(crate) fn reorg(&mut self, lose: u64, odd: u64, dice: &mut Dice) {
        let depth = 1 + dice.below(FINAL_DEPTH as usize - 1);
        let depth = depth.min(self.blocks.len() - 1);
        for _ in 0..depth {
            for tx in self.blocks.pop().map(|block| block.txs).unwrap_or_default() {
                if !tx.ghost && !dice.percent(lose) {
                    self.pool.insert(tx.nonce, tx);
                }
            }
        }
        for _ in 0..=depth {
            let room = dice.below(3);
            self.mine(room, odd, dice);
        }
    }
}

/// Every seventh intent reverts.
pub(crate) fn reverts(intent: u64) -> bool {
    intent.is_multiple_of(7)
}

/// Signed bytes that say what they are.
pub(crate) fn sign(request: &SignRequest) -> SignedTx {
    let plan = &request.plan;
    let max_fee = match plan.fees {
        Fees::Legacy { gas_price } => gas_price,
        Fees::Eip1559 { max_fee, .. } => max_fee,
    };
    let raw = format!("{} {} {} {max_fee}", plan.nonce, request.kind.as_str(), plan.call.value);
    SignedTx { hash: keccak256(&raw), raw: Bytes::from(raw.into_bytes()) }
}

pub(crate) fn decode(raw: &Bytes) -> Tx {
    let text = std::str::from_utf8(raw).unwrap();
    let fields: Vec<&str> = text.split(' ').collect();
    Tx {
        nonce: fields[0].parse().unwrap(),
        hash: keccak256(raw),
        kind: AttemptKind::parse(fields[1]).unwrap(),
        intent: fields[2].parse().unwrap(),
        max_fee: fields[3].parse().unwrap(),
        raw: raw.clone(),
        ghost: false,
    }
}
