//! The rows of one lane, and the changes of a commit.
//!
//! All types are small and `Copy`, since an exploration keeps and compares millions of states.

use std::fmt;

pub(crate) const NONCES: usize = 4;
pub(crate) const INTENTS: usize = 3;

/// The effect of a signed transaction when it is mined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Does {
    Intent(u8),
    /// A cancel: the nonce is used, without an effect.
    Nothing,
}

/// One signature. Two signatures of the same payload have two hashes, as with another fee or another signer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TxHash {
    pub(crate) nonce: u8,
    pub(crate) does: Does,
    variant: u8,
}

impl TxHash {
    /// The number of signatures with the same effect at one nonce that are told apart.
    const VARIANTS: u8 = 4;

    /// A hash that occurs nowhere. A hash that was signed without a trace may come again: no part could tell.
    pub(crate) fn fresh(nonce: u8, does: Does, used: Hashes) -> Option<TxHash> {
        (0..Self::VARIANTS).map(|variant| TxHash { nonce, does, variant }).find(|hash| !used.contains(*hash))
    }

    fn bit(self) -> u32 {
        let does = match self.does {
            Does::Intent(intent) => intent,
            Does::Nothing => INTENTS as u8,
        };
        u32::from((self.nonce * 4 + does) * Self::VARIANTS + self.variant)
    }

    fn of_bit(bit: u32) -> TxHash {
        let (kind, variant) = (bit as u8 / Self::VARIANTS, bit as u8 % Self::VARIANTS);
        let does = if usize::from(kind % 4) == INTENTS { Does::Nothing } else { Does::Intent(kind % 4) };
        TxHash { nonce: kind / 4, does, variant }
    }
}

impl fmt::Debug for TxHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.does {
            Does::Intent(intent) => write!(f, "nonce {} intent {intent} #{}", self.nonce, self.variant),
            Does::Nothing => write!(f, "nonce {} cancel #{}", self.nonce, self.variant),
        }
    }
}

/// A set of hashes, one bit each.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Hashes(u64);

impl Hashes {
    const BITS_A_NONCE: u32 = 16;

    pub(crate) fn with(self, hash: TxHash) -> Hashes {
        Hashes(self.0 | 1 << hash.bit())
    }

    pub(crate) fn union(self, other: Hashes) -> Hashes {
        Hashes(self.0 | other.0)
    }

    pub(crate) fn contains(self, hash: TxHash) -> bool {
        self.0 & 1 << hash.bit() != 0
    }

    pub(crate) fn without(self, other: Hashes) -> Hashes {
        Hashes(self.0 & !other.0)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn at(self, nonce: u8) -> Hashes {
        let shift = u32::from(nonce) * Self::BITS_A_NONCE;
        Hashes(self.0 & (u64::from(u16::MAX) << shift))
    }

    /// The hashes whose nonce is not used yet on a chain of this height.
    pub(crate) fn at_or_above(self, height: u8) -> Hashes {
        Hashes(self.0 & u64::MAX.checked_shl(u32::from(height) * Self::BITS_A_NONCE).unwrap_or(0))
    }

    pub(crate) fn len(self) -> u32 {
        self.0.count_ones()
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = TxHash> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            (left != 0).then(|| {
                let bit = left.trailing_zeros();
                left &= left - 1;
                TxHash::of_bit(bit)
            })
        })
    }
}

impl fmt::Debug for Hashes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Slot {
    /// Never bound.
    Free,
    Of(u8),
    /// A foreign transaction has used the nonce, and the slot says so.
    Foreign,
}

/// Intents are numbered in the order of their acceptance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Intent {
    /// This configuration has fewer intents.
    Absent,
    Queued,
    Bound(u8),
    Confirmed,
    Canceled,
}

impl Intent {
    pub(crate) fn is_terminal(self) -> bool {
        matches!(self, Intent::Confirmed | Intent::Canceled)
    }
}

/// The rows of a lane: the durable ones, or those in the memory of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ledger {
    pub(crate) next_nonce: u8,
    /// The token of the last write.
    pub(crate) written_by: u8,
    pub(crate) slots: [Slot; NONCES],
    pub(crate) intents: [Intent; INTENTS],
    pub(crate) attempts: Hashes,
}

/// One fenced commit: all of it or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Write {
    Bind {
        intent: u8,
        hash: TxHash,
    },
    /// Another signature for a nonce that is bound: a higher fee, or a cancel.
    Attempt {
        intent: u8,
        hash: TxHash,
    },
    /// One of our hashes is final at the nonce.
    Finish {
        intent: u8,
        nonce: u8,
        end: Intent,
    },
    /// A final block has a foreign transaction at the nonce: the intent goes back into the queue.
    LoseNonce {
        intent: u8,
        nonce: u8,
    },
    /// A foreign transaction has used the nonce that would be bound next.
    Adopt {
        nonce: u8,
    },
    /// A mistake: the nonce of an intent is given to another one.
    Recycle {
        intent: u8,
        from: u8,
        hash: TxHash,
    },
}

impl Write {
    pub(crate) fn hash(self) -> Option<TxHash> {
        match self {
            Write::Bind { hash, .. } | Write::Attempt { hash, .. } | Write::Recycle { hash, .. } => Some(hash),
            Write::Finish { .. } | Write::LoseNonce { .. } | Write::Adopt { .. } => None,
        }
    }
}

impl Ledger {
    pub(crate) fn new(intents: usize) -> Ledger {
        Ledger {
            next_nonce: 0,
            written_by: 0,
            slots: [Slot::Free; NONCES],
            intents: std::array::from_fn(|i| if i < intents { Intent::Queued } else { Intent::Absent }),
            attempts: Hashes::default(),
        }
    }

    pub(crate) fn slot(&self, nonce: u8) -> Slot {
        self.slots[usize::from(nonce)]
    }

    pub(crate) fn intent(&self, intent: u8) -> Intent {
        self.intents[usize::from(intent)]
    }

    pub(crate) fn first_queued(&self) -> Option<u8> {
        (0..INTENTS as u8).find(|intent| self.intent(*intent) == Intent::Queued)
    }

    /// The compare before the set: do the rows equal the memory of the writer?
    pub(crate) fn fits(&self, write: Write, token: u8) -> bool {
        let holds = |intent, nonce| self.slot(nonce) == Slot::Of(intent) && self.intent(intent) == Intent::Bound(nonce);
        self.written_by <= token
            && match write {
                Write::Bind { intent, hash } => {
                    self.next_nonce == hash.nonce
                        && self.slot(hash.nonce) == Slot::Free
                        && self.intent(intent) == Intent::Queued
                }
                Write::Attempt { intent, hash } => holds(intent, hash.nonce),
                Write::Finish { intent, nonce, .. } | Write::LoseNonce { intent, nonce } => holds(intent, nonce),
                Write::Adopt { nonce } => self.next_nonce == nonce && self.slot(nonce) == Slot::Free,
                Write::Recycle { intent, from, hash } => {
                    holds(from, hash.nonce) && self.intent(intent) == Intent::Queued
                }
            }
    }

    #[must_use]
    pub(crate) fn written(mut self, write: Write, token: u8) -> Ledger {
        self.written_by = token;
        match write {
            Write::Bind { intent, hash } => {
                self.slots[usize::from(hash.nonce)] = Slot::Of(intent);
                self.intents[usize::from(intent)] = Intent::Bound(hash.nonce);
                self.next_nonce = hash.nonce + 1;
            }
            Write::Attempt { .. } => {}
            Write::Finish { intent, end, .. } => self.intents[usize::from(intent)] = end,
            Write::LoseNonce { intent, nonce } => {
                self.slots[usize::from(nonce)] = Slot::Foreign;
                self.intents[usize::from(intent)] = Intent::Queued;
            }
            Write::Adopt { nonce } => {
                self.slots[usize::from(nonce)] = Slot::Foreign;
                self.next_nonce = nonce + 1;
            }
            Write::Recycle { intent, from, hash } => {
                self.slots[usize::from(hash.nonce)] = Slot::Of(intent);
                self.intents[usize::from(from)] = Intent::Queued;
                self.intents[usize::from(intent)] = Intent::Bound(hash.nonce);
            }
        }
        if let Some(hash) = write.hash() {
            self.attempts = self.attempts.with(hash);
        }
        self
    }
}
