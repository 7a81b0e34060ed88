//! Heads: the saved head of a chain, shared by all nodes.

use std::ops::RangeInclusive;

use gapless_domain::{B256, BlockRef, ChainId, Head, keccak256};

use super::Harness;
use super::fixtures::*;
use crate::roles::HeadVerdict;

const GENESIS: B256 = B256::repeat_byte(1);
const OTHER_GENESIS: B256 = B256::repeat_byte(2);

/// The number of heads that each node saves in a race.
const ROUNDS: u64 = 25;

fn chain() -> ChainId {
    "eip155:31337".parse().unwrap()
}

fn head(numbers: RangeInclusive<u64>, finalized: Option<u64>) -> Head {
    Head { tail: tail(numbers), finalized: finalized.map(block), genesis: Some(GENESIS) }
}

fn fork(number: u64) -> BlockRef {
    BlockRef { number, hash: keccak256(format!("fork {number}")) }
}

pub(super) async fn saved_head_reads_back_unchanged(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    assert_eq!(b.head(&chain()).await.unwrap(), None);
    for saved in [
        Head { genesis: None, ..head(0..=0, None) },
        Head { genesis: None, ..head(1..=100, None) },
        // A reorg, or a watcher with a shorter tail.
        Head { genesis: None, ..head(98..=99, None) },
        head(1..=120, Some(80)),
        head(100..=121, Some(101)),
        head(121..=121, Some(101)),
    ] {
        assert_eq!(a.save_head(&chain(), &saved).await.unwrap(), HeadVerdict::Saved, "{saved:?}");
        assert_eq!(b.head(&chain()).await.unwrap(), Some(saved));
    }
}

pub(super) async fn final_block_only_moves_forward(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let kept = head(3..=14, Some(7));
    for saved in [head(3..=10, None), head(3..=11, Some(5)), head(3..=13, Some(5)), kept.clone()] {
        assert_eq!(a.save_head(&chain(), &saved).await.unwrap(), HeadVerdict::Saved);
        assert_eq!(b.head(&chain()).await.unwrap(), Some(saved));
    }
    // A lagging node, and a node that knows no final block.
    for lagging in [head(3..=15, Some(6)), head(3..=15, None), head(1..=6, Some(2))] {
        let verdict = b.save_head(&chain(), &lagging).await.unwrap();
        assert_eq!(verdict, HeadVerdict::FinalIsNewer(kept.clone()), "{lagging:?}");
        assert_eq!(a.head(&chain()).await.unwrap(), Some(kept.clone()), "{lagging:?}");
    }
    let next = head(12..=16, Some(9));
    assert_eq!(b.save_head(&chain(), &next).await.unwrap(), HeadVerdict::Saved);
    assert_eq!(a.head(&chain()).await.unwrap(), Some(next));
}

pub(super) async fn head_against_final_block_changes_nothing(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let kept = Head { genesis: None, ..head(3..=14, Some(7)) };
    a.save_head(&chain(), &kept).await.unwrap();
    let forked_from = |number: u64| {
        let mut tail = tail(3..=number - 1);
        let parent_hash = tail.last().hash;
        assert!(tail.push(gapless_domain::BlockLink { block: fork(number), parent_hash }));
        Head { tail, finalized: None, genesis: Some(GENESIS) }
    };
    for differs in [
        Head { finalized: Some(fork(7)), ..head(12..=15, None) },
        Head { finalized: Some(fork(6)), ..head(12..=15, None) },
        Head { finalized: Some(fork(7)), ..forked_from(7) },
    ] {
        let verdict = b.save_head(&chain(), &differs).await.unwrap();
        assert_eq!(verdict, HeadVerdict::FinalDiffers(kept.clone()), "{differs:?}");
        assert_eq!(
            a.head(&chain()).await.unwrap(),
            Some(kept.clone()),
            "the genesis is not written either: {differs:?}"
        );
    }
    // The tip of a lagging head may be orphaned since. It contradicts nothing.
    let lags = Head { finalized: Some(block(5)), ..forked_from(7) };
    assert!(matches!(b.save_head(&chain(), &lags).await.unwrap(), HeadVerdict::FinalIsNewer(_)));
    // Above the final block the chain may reorganise.
    let above = Head { finalized: Some(block(7)), ..forked_from(8) };
    assert_eq!(b.save_head(&chain(), &above).await.unwrap(), HeadVerdict::Saved);
    assert_eq!(a.head(&chain()).await.unwrap(), Some(above));
}

pub(super) async fn known_genesis_stays(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let unknown = |head: Head| Head { genesis: None, ..head };
    a.save_head(&chain(), &unknown(head(3..=14, Some(7)))).await.unwrap();
    // A lagging node may know the genesis first.
    let kept = head(3..=14, Some(7));
    let verdict = b.save_head(&chain(), &head(3..=9, Some(5))).await.unwrap();
    assert_eq!(verdict, HeadVerdict::FinalIsNewer(kept.clone()));
    assert_eq!(a.head(&chain()).await.unwrap(), Some(kept));
    let kept = head(3..=15, Some(8));
    assert_eq!(a.save_head(&chain(), &unknown(kept.clone())).await.unwrap(), HeadVerdict::Saved);
    assert_eq!(b.head(&chain()).await.unwrap(), Some(kept.clone()));
    for other in [head(3..=16, Some(9)), head(0..=2, None), head(3..=9, Some(5))] {
        let other = Head { genesis: Some(OTHER_GENESIS), ..other };
        let verdict = b.save_head(&chain(), &other).await.unwrap();
        assert_eq!(verdict, HeadVerdict::GenesisDiffers(kept.clone()), "{other:?}");
        assert_eq!(a.head(&chain()).await.unwrap(), Some(kept.clone()), "{other:?}");
    }
}

pub(super) async fn forgotten_chain_accepts_new_genesis(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let other: ChainId = "eip155:1".parse().unwrap();
    a.forget_head(&chain(), &text("op"), "no head yet").await.unwrap();
    a.save_head(&chain(), &head(3..=14, Some(7))).await.unwrap();
    a.save_head(&other, &head(3..=14, Some(7))).await.unwrap();
    let new = Head { genesis: Some(OTHER_GENESIS), ..head(0..=2, Some(1)) };
    assert!(matches!(b.save_head(&chain(), &new).await.unwrap(), HeadVerdict::GenesisDiffers(_)));
    b.forget_head(&chain(), &text("op"), "the chain was started again").await.unwrap();
    assert_eq!(a.head(&chain()).await.unwrap(), None);
    assert_eq!(a.save_head(&chain(), &new).await.unwrap(), HeadVerdict::Saved);
    assert_eq!(b.head(&chain()).await.unwrap(), Some(new));
    assert_eq!(b.head(&other).await.unwrap(), Some(head(3..=14, Some(7))));
}

pub(super) async fn heads_of_two_chains_are_separate(h: &dyn Harness) {
    let a = h.node("a").await;
    let [one, two]: [ChainId; 2] = ["eip155:1".parse().unwrap(), "eip155:10".parse().unwrap()];
    a.save_head(&one, &head(8..=10, Some(5))).await.unwrap();
    assert_eq!(a.head(&two).await.unwrap(), None);
    assert_eq!(a.save_head(&two, &head(1..=3, Some(2))).await.unwrap(), HeadVerdict::Saved);
    assert_eq!(a.head(&one).await.unwrap(), Some(head(8..=10, Some(5))));
}

/// There is no row to lock before the first head is saved.
pub(super) async fn concurrent_saves_agree_on_first_head(h: &dyn Harness) {
    let nodes = [h.node("a").await, h.node("b").await, h.node("c").await];
    for round in 0..ROUNDS {
        let chain: ChainId = format!("eip155:{}", round + 1).parse().unwrap();
        let saves: Vec<_> = (0_u8..)
            .zip(&nodes)
            .map(|(n, node)| {
                let (node, chain) = (node.clone(), chain.clone());
                let own = Head { genesis: Some(B256::repeat_byte(n)), ..head(3..=9, Some(5)) };
                beside(async move { (node.save_head(&chain, &own).await.unwrap(), own) })
            })
            .collect();
        let mut verdicts = Vec::new();
        for save in saves {
            verdicts.push(save.await.unwrap());
        }
        let kept = nodes[0].head(&chain).await.unwrap().unwrap();
        for (verdict, own) in verdicts {
            let expected = if own == kept { HeadVerdict::Saved } else { HeadVerdict::GenesisDiffers(kept.clone()) };
            assert_eq!(verdict, expected);
        }
    }
}

pub(super) async fn concurrent_saves_never_move_final_block_back(h: &dyn Harness) {
    let nodes = [h.node("a").await, h.node("b").await, h.node("c").await];
    let saves: Vec<_> = (0_u64..)
        .zip(&nodes)
        .map(|(n, node)| {
            let node = node.clone();
            beside(async move {
                let mut highest = 0;
                for round in 1..=ROUNDS {
                    // Each node has its own pace, and sometimes one is far behind.
                    let newest = if round % 5 == n { round } else { round * (n + 1) };
                    let verdict = node.save_head(&chain(), &head(newest..=newest + 3, Some(newest))).await.unwrap();
                    let read = node.head(&chain()).await.unwrap().unwrap().finalized.unwrap().number;
                    match verdict {
                        HeadVerdict::Saved => assert!(newest >= highest, "{newest} was saved over {highest}"),
                        HeadVerdict::FinalIsNewer(kept) => assert!(kept.finalized.unwrap().number > newest),
                        other => panic!("{other:?}"),
                    }
                    assert!(read >= highest && read >= newest, "{read} after {highest} and {newest}");
                    highest = read;
                }
            })
        })
        .collect();
    for save in saves {
        save.await.unwrap();
    }
    let highest = ROUNDS * 3;
    let kept = nodes[0].head(&chain()).await.unwrap();
    assert_eq!(kept, Some(head(highest..=highest + 3, Some(highest))));
}
