//! Properties for every order of sends and every seed.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

mod support;

use alloy_primitives::B256;
use gapless_devchain::{BlockSelector, DevAccount, DevChain, Genesis, Remine};
use proptest::prelude::*;
use support::*;

const NONCES: u64 = 12;

/// Runs a sequence of sends, blocks and reorgs that the bytes choose. Returns the hashes of all blocks.
fn run_steps(chain: &DevChain, steps: &[u8]) -> Vec<B256> {
    let accounts = [alice(), bob(), carol()];
    let mut next = [0; 3];
    for step in steps {
        let who = usize::from(step % 3);
        match step % 8 {
            0..=4 => {
                // Refused sends are expected.
                drop(chain.send_raw(&accounts[who].sign(transfer(next[who])).unwrap()));
                next[who] += 1;
            }
            5 => drop(chain.mine(0).unwrap()),
            6 => drop(chain.reorg(u64::from(step % 4).min(chain.view().head().number()), Remine::Shuffle).unwrap()),
            _ => drop(chain.reorg(u64::from(step % 3).min(chain.view().head().number()), Remine::ToPool).unwrap()),
        }
    }
    chain.mine(0).unwrap();
    let head = chain.view().head().number();
    (0..=head).map(|number| chain.view().block(BlockSelector::Number(number)).unwrap().hash).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// Contiguous nonces are all mined, in nonce order, whatever their order of arrival.
    #[test]
    fn contiguous_nonces_are_mined_in_order(
        order in Just((0..NONCES).collect::<Vec<_>>()).prop_shuffle(),
        every in 1..6_usize,
    ) {
        let chain = chain();
        for (index, nonce) in order.iter().enumerate() {
            send(&chain, &alice().sign(transfer(*nonce)).unwrap());
            if index % every == 0 {
                chain.mine(0).unwrap();
            }
        }
        chain.mine(0).unwrap();
        let head = chain.view().head().number();
        let blocks = (1..=head).map(|number| chain.view().block(BlockSelector::Number(number)).unwrap());
        let nonces = blocks.flat_map(|block| block.txs.iter().map(|tx| tx.nonce()).collect::<Vec<_>>());
        let mined: Vec<u64> = nonces.collect();
        prop_assert_eq!(mined, (0..NONCES).collect::<Vec<_>>());
    }

    /// A run with the same genesis and operations gives the same blocks. Another seed gives others.
    #[test]
    fn same_seed_reproduces_all_blocks(steps in proptest::collection::vec(any::<u8>(), 1..60)) {
        let of = |seed| run_steps(&DevChain::new(Genesis { seed, ..Genesis::dev() }), &steps);
        prop_assert_eq!(of(1), of(1));
        prop_assert_ne!(of(1).last().copied(), of(2).last().copied());
    }

    /// A reorg keeps all transactions: the account counts are the same again after the next block.
    #[test]
    fn reorg_keeps_all_transactions(steps in proptest::collection::vec(0..6_u8, 1..40), depth in 1..6_u64) {
        let chain = chain();
        run_steps(&chain, &steps);
        let count = |account: DevAccount| chain.view().nonce(account.address, BlockSelector::Latest).unwrap();
        let counts = || [alice(), bob(), carol()].map(count);
        let before = counts();
        chain.reorg(depth.min(chain.view().head().number()), Remine::ToPool).unwrap();
        chain.mine(0).unwrap();
        prop_assert_eq!(counts(), before);
    }
}
