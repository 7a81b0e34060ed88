//! The rule for saving a head over an older one, shared by every store.

use gapless_domain::{BlockRef, Head, Tail};

use crate::roles::HeadVerdict;

/// Decides whether `new` replaces the saved head `kept`. Returns the verdict, and the head to write, if any.
///
/// Lanes act on final blocks, so the final block only moves forward. A head that contradicts it, or belongs to another
/// chain, changes nothing. A head with an older final block adds at most a genesis that was not known. A head is saved
/// as a whole or not at all, so that the saved tail always belongs to the saved final block.
pub fn merge_heads(kept: Option<&Head>, new: &Head) -> (HeadVerdict, Option<Head>) {
    let Some(kept) = kept else { return (HeadVerdict::Saved, Some(new.clone())) };
    if let (Some(old), Some(new)) = (kept.genesis, new.genesis)
        && old != new
    {
        return (HeadVerdict::GenesisDiffers(kept.clone()), None);
    }
    if final_differs(kept, new) {
        return (HeadVerdict::FinalDiffers(kept.clone()), None);
    }
    let genesis = kept.genesis.or(new.genesis);
    if height(kept) > height(new) {
        let known = Head { genesis, ..kept.clone() };
        let write = (known.genesis != kept.genesis).then(|| known.clone());
        return (HeadVerdict::FinalIsNewer(known), write);
    }
    (HeadVerdict::Saved, Some(Head { genesis, ..new.clone() }))
}

/// The number of the final block. An unknown final block is below all others.
fn height(head: &Head) -> Option<u64> {
    head.finalized.map(|block| block.number)
}

fn final_differs(kept: &Head, new: &Head) -> bool {
    let Some(old_final) = kept.finalized else { return false };
    // The tip of a lagging head may be orphaned since. So the tail of `new` counts only if its final block or its tip
    // is at least as high as the saved one. Its final block counts in any case.
    let counts = height(new) >= height(kept) || new.tail.last().number > kept.tail.last().number;
    if counts && contradicts(&new.tail, old_final) {
        return true;
    }
    match new.finalized {
        // The saved tail below the saved final block is final too.
        Some(new_final) if new_final.number < old_final.number => contradicts(&kept.tail, new_final),
        Some(new_final) => new_final.number == old_final.number && new_final.hash != old_final.hash,
        None => false,
    }
}

/// Tells whether the tail has another block at this height. The parent hash of the first block counts too.
fn contradicts(tail: &Tail, block: BlockRef) -> bool {
    let parent_differs = block.number.checked_add(1) == Some(tail.first_number())
        && tail.hashes().first().is_some_and(|parent| *parent != block.hash);
    tail.contradicts(block) || parent_differs
}

#[cfg(test)]
mod tests {
    use gapless_domain::{B256, BlockLink};

    use super::*;

    /// A block of one of several forks, which differ from number 5 on.
    fn block(number: u64, fork: u8) -> BlockRef {
        let mut hash = B256::with_last_byte(number as u8);
        hash[0] = if number >= 5 { fork } else { 0 };
        BlockRef { number, hash }
    }

    fn head(
        numbers: std::ops::RangeInclusive<u64>,
        fork: u8,
        finalized: Option<BlockRef>,
        genesis: Option<u8>,
    ) -> Head {
        let links = numbers.map(|number| BlockLink {
            block: block(number, fork),
            parent_hash: block(number.wrapping_sub(1), fork).hash,
        });
        Head { tail: Tail::of(links).unwrap(), finalized, genesis: genesis.map(B256::repeat_byte) }
    }

    #[derive(Debug, PartialEq, Eq)]
    enum Outcome {
        Saved,
        Newer,
        FinalDiffers,
        GenesisDiffers,
    }

    /// The outcome, and the saved head afterwards.
    fn merged(kept: &Head, new: &Head) -> (Outcome, Head) {
        let (verdict, write) = merge_heads(Some(kept), new);
        let after = write.unwrap_or_else(|| kept.clone());
        let outcome = match verdict {
            HeadVerdict::Saved => Outcome::Saved,
            HeadVerdict::FinalIsNewer(returned) => {
                assert_eq!(returned, after, "the verdict has the saved head");
                Outcome::Newer
            }
            HeadVerdict::FinalDiffers(returned) => {
                assert_eq!(returned, after);
                Outcome::FinalDiffers
            }
            HeadVerdict::GenesisDiffers(returned) => {
                assert_eq!(returned, after);
                Outcome::GenesisDiffers
            }
        };
        (outcome, after)
    }

    #[test]
    fn first_head_is_saved_unchanged() {
        let first = head(3..=9, 0, Some(block(7, 0)), Some(1));
        assert_eq!(merge_heads(None, &first), (HeadVerdict::Saved, Some(first)));
    }

    #[test]
    fn final_block_moves_forward_along_one_chain() {
        let kept = head(5..=10, 0, Some(block(7, 0)), Some(1));
        for (what, new, expected) in [
            ("further", head(6..=11, 0, Some(block(8, 0)), Some(1)), Outcome::Saved),
            ("the same final block", head(7..=11, 0, Some(block(7, 0)), Some(1)), Outcome::Saved),
            ("a gap between the tails", head(20..=30, 0, Some(block(25, 0)), Some(1)), Outcome::Saved),
            ("a reorg above the final block", head(8..=8, 0, Some(block(7, 0)), Some(1)), Outcome::Saved),
            ("a final block further behind", head(5..=12, 0, Some(block(6, 0)), Some(1)), Outcome::Newer),
            ("a final block before the tail", head(8..=12, 0, Some(block(2, 0)), Some(1)), Outcome::Newer),
            ("no final block", head(5..=12, 0, None, Some(1)), Outcome::Newer),
            ("another block is final there", head(9..=11, 0, Some(block(7, 1)), Some(1)), Outcome::FinalDiffers),
            ("another block is there, and final", head(5..=11, 1, Some(block(9, 1)), Some(1)), Outcome::FinalDiffers),
            ("another block is there", head(5..=11, 1, None, Some(1)), Outcome::FinalDiffers),
            ("its parent is another block", head(8..=11, 1, Some(block(9, 1)), Some(1)), Outcome::FinalDiffers),
            ("an orphaned tip that lags behind", head(4..=9, 1, Some(block(4, 1)), Some(1)), Outcome::Newer),
            ("another block is final below", head(9..=11, 0, Some(block(6, 1)), Some(1)), Outcome::FinalDiffers),
            ("another chain", head(6..=11, 0, Some(block(8, 0)), Some(2)), Outcome::GenesisDiffers),
            ("another chain, from the beginning", head(0..=2, 0, None, Some(2)), Outcome::GenesisDiffers),
        ] {
            let (outcome, after) = merged(&kept, &new);
            let is_new = outcome == Outcome::Saved;
            assert_eq!(outcome, expected, "{what}");
            assert_eq!(after, if is_new { new } else { kept.clone() }, "{what}");
        }
    }

    #[test]
    fn any_head_is_saved_while_no_block_is_final() {
        let kept = head(5..=10, 0, None, None);
        for new in [head(5..=6, 1, None, None), head(2..=12, 1, Some(block(6, 1)), None)] {
            assert_eq!(merged(&kept, &new), (Outcome::Saved, new));
        }
    }

    #[test]
    fn known_genesis_stays() {
        let (short, long) = (
            |genesis| head(5..=8, 0, Some(block(6, 0)), genesis),
            |genesis| head(5..=10, 0, Some(block(7, 0)), genesis),
        );
        assert_eq!(merged(&short(Some(1)), &long(None)), (Outcome::Saved, long(Some(1))));
        assert_eq!(merged(&short(None), &long(Some(1))), (Outcome::Saved, long(Some(1))));
        // A head with an older final block may add the genesis.
        assert_eq!(merged(&long(None), &short(Some(1))), (Outcome::Newer, long(Some(1))));
        assert_eq!(merged(&long(Some(1)), &short(None)), (Outcome::Newer, long(Some(1))));
    }

    #[test]
    fn head_without_news_writes_nothing() {
        let kept = head(5..=10, 0, Some(block(7, 0)), Some(1));
        for new in [head(5..=9, 0, None, None), head(5..=9, 1, None, None), head(5..=9, 0, None, Some(2))] {
            assert_eq!(merge_heads(Some(&kept), &new).1, None, "{new:?}");
        }
    }
}
