//! What becomes of the head that is kept when a watcher brings another one: one rule for every store.

use gapless_domain::{BlockRef, Head, Tail};

use crate::roles::HeadVerdict;

/// The verdict, and what has to be written for it, if anything.
///
/// What is final was acted upon, so it only moves forward: a head that contradicts it, or belongs to another chain, changes
/// nothing, and one that has not come as far leaves nothing but a genesis that was not known. A head is kept whole or not at
/// all, so that the tail which is kept always goes with the final block beside it.
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
        let learned = (known.genesis != kept.genesis).then(|| known.clone());
        return (HeadVerdict::FinalIsNewer(known), learned);
    }
    (HeadVerdict::Saved, Some(Head { genesis, ..new.clone() }))
}

/// Where the final block is; one that is not known is below all others.
fn height(head: &Head) -> Option<u64> {
    head.finalized.map(|block| block.number)
}

fn final_differs(kept: &Head, new: &Head) -> bool {
    let Some(old_final) = kept.finalized else { return false };
    // A head that lags may end in a branch that was orphaned since. What it takes for final counts in any case, the rest only
    // when it is higher than what is kept.
    let counts = height(new) >= height(kept) || new.tail.last().number > kept.tail.last().number;
    if counts && denies(&new.tail, old_final) {
        return true;
    }
    match new.finalized {
        // Below the final block the tail that goes with it is final as well.
        Some(new_final) if new_final.number < old_final.number => denies(&kept.tail, new_final),
        Some(new_final) => new_final.number == old_final.number && new_final.hash != old_final.hash,
        None => false,
    }
}

/// Does the tail say that another block is there? It also says what its first block stands on.
fn denies(tail: &Tail, block: BlockRef) -> bool {
    let stands_on_another = block.number.checked_add(1) == Some(tail.first_number())
        && tail.hashes().first().is_some_and(|parent| *parent != block.hash);
    tail.contradicts(block) || stands_on_another
}

#[cfg(test)]
mod tests {
    use gapless_domain::{B256, BlockLink};

    use super::*;

    /// A block of one of several forks; all begin to differ at number 5.
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
    enum Said {
        Saved,
        Newer,
        FinalDiffers,
        GenesisDiffers,
    }

    /// What was said, and what is kept afterwards.
    fn said(kept: &Head, new: &Head) -> (Said, Head) {
        let (verdict, write) = merge_heads(Some(kept), new);
        let after = write.unwrap_or_else(|| kept.clone());
        let said = match verdict {
            HeadVerdict::Saved => Said::Saved,
            HeadVerdict::FinalIsNewer(told) => {
                assert_eq!(told, after, "it tells what is kept now");
                Said::Newer
            }
            HeadVerdict::FinalDiffers(told) => {
                assert_eq!(told, after);
                Said::FinalDiffers
            }
            HeadVerdict::GenesisDiffers(told) => {
                assert_eq!(told, after);
                Said::GenesisDiffers
            }
        };
        (said, after)
    }

    #[test]
    fn the_first_head_is_kept_as_it_is() {
        let first = head(3..=9, 0, Some(block(7, 0)), Some(1));
        assert_eq!(merge_heads(None, &first), (HeadVerdict::Saved, Some(first)));
    }

    #[test]
    fn the_final_block_moves_forward_along_one_chain() {
        let kept = head(5..=10, 0, Some(block(7, 0)), Some(1));
        for (what, new, expected) in [
            ("further", head(6..=11, 0, Some(block(8, 0)), Some(1)), Said::Saved),
            ("the same final block", head(7..=11, 0, Some(block(7, 0)), Some(1)), Said::Saved),
            ("a hole that nobody can look into", head(20..=30, 0, Some(block(25, 0)), Some(1)), Said::Saved),
            ("a reorg above what is final", head(8..=8, 0, Some(block(7, 0)), Some(1)), Said::Saved),
            ("a final block further behind", head(5..=12, 0, Some(block(6, 0)), Some(1)), Said::Newer),
            ("a final block before the tail", head(8..=12, 0, Some(block(2, 0)), Some(1)), Said::Newer),
            ("no final block", head(5..=12, 0, None, Some(1)), Said::Newer),
            ("another block is final there", head(9..=11, 0, Some(block(7, 1)), Some(1)), Said::FinalDiffers),
            ("another block is there, and final", head(5..=11, 1, Some(block(9, 1)), Some(1)), Said::FinalDiffers),
            ("another block is there", head(5..=11, 1, None, Some(1)), Said::FinalDiffers),
            ("it stands on another block", head(8..=11, 1, Some(block(9, 1)), Some(1)), Said::FinalDiffers),
            ("an orphaned tip that lags behind", head(4..=9, 1, Some(block(4, 1)), Some(1)), Said::Newer),
            ("another block is final below", head(9..=11, 0, Some(block(6, 1)), Some(1)), Said::FinalDiffers),
            ("another chain", head(6..=11, 0, Some(block(8, 0)), Some(2)), Said::GenesisDiffers),
            ("another chain, from the beginning", head(0..=2, 0, None, Some(2)), Said::GenesisDiffers),
        ] {
            let (said, after) = said(&kept, &new);
            let is_new = said == Said::Saved;
            assert_eq!(said, expected, "{what}");
            assert_eq!(after, if is_new { new } else { kept.clone() }, "{what}");
        }
    }

    #[test]
    fn while_nothing_is_final_anything_may_come() {
        let kept = head(5..=10, 0, None, None);
        for new in [head(5..=6, 1, None, None), head(2..=12, 1, Some(block(6, 1)), None)] {
            assert_eq!(said(&kept, &new), (Said::Saved, new));
        }
    }

    #[test]
    fn a_genesis_stays_once_it_is_known() {
        let (short, long) = (
            |genesis| head(5..=8, 0, Some(block(6, 0)), genesis),
            |genesis| head(5..=10, 0, Some(block(7, 0)), genesis),
        );
        assert_eq!(said(&short(Some(1)), &long(None)), (Said::Saved, long(Some(1))));
        assert_eq!(said(&short(None), &long(Some(1))), (Said::Saved, long(Some(1))));
        // One that has not come as far may still know what the other did not.
        assert_eq!(said(&long(None), &short(Some(1))), (Said::Newer, long(Some(1))));
        assert_eq!(said(&long(Some(1)), &short(None)), (Said::Newer, long(Some(1))));
    }

    #[test]
    fn where_nothing_is_new_nothing_is_written() {
        let kept = head(5..=10, 0, Some(block(7, 0)), Some(1));
        for new in [head(5..=9, 0, None, None), head(5..=9, 1, None, None), head(5..=9, 0, None, Some(2))] {
            assert_eq!(merge_heads(Some(&kept), &new).1, None, "{new:?}");
        }
    }
}
