//! A consumer that reads events and nothing else, and has the confirmations of every intent.

use std::collections::HashMap;

use gapless_domain::{
    BlockLink, Cancellation, Event, EventBody, EventKind, FinalFailure, Progress, Settled, TransitionName, TxId,
    TxState,
};

use crate::chain::{Chain, FINAL_DEPTH};

/// After every event, its list is the one way from the block of the transaction to the last block that it was told of: blocks
/// are linked, so there is only one. At the end it is as long as finality asks for, and begins where the chain says (R03, R04).
pub(crate) fn follow(events: &[Event], chain: &Chain) {
    let mut lists: HashMap<TxId, (u32, Vec<BlockLink>)> = HashMap::new();
    for event in events {
        let EventBody::Tx { tx_id, seq, kind, state, notice } = &event.body else { continue };
        let (last, list) = lists.entry(*tx_id).or_default();
        assert_eq!(*seq, *last + 1, "{tx_id}: an event is missing");
        *last = *seq;
        match kind {
            EventKind::Tx(TransitionName::Unmine) => list.clear(),
            EventKind::Tx(TransitionName::Mine) => {
                assert!(notice.as_ref().is_some_and(|notice| notice.new_fork), "{tx_id}: the first is a new fork");
            }
            _ => {}
        }
        if let Some(notice) = notice {
            assert!(!notice.links.is_empty());
            notice.apply(list);
        }
        let linked = list.windows(2).all(|pair| pair[1].parent_hash == pair[0].block.hash);
        assert!(linked, "{tx_id}: {list:?} is no list");
        check(*tx_id, state, list, chain);
    }
}

fn check(id: TxId, state: &TxState, list: &[BlockLink], chain: &Chain) {
    let settled = match state {
        TxState::Confirmed(settled)
        | TxState::FailedFinal(FinalFailure::Reverted(settled))
        | TxState::Canceled(Cancellation::OnChain(_, settled)) => Some(settled),
        _ => None,
    };
    if let Some(Settled { inclusion, .. }) = settled {
        assert_eq!(list.first(), Some(&inclusion.link()));
        assert_eq!(list.len() as u64, FINAL_DEPTH, "{id}: the list of what is final is whole");
        assert_eq!(list[0], chain.link(inclusion.block.number as usize));
    }
    if let Some(bound) = state.bound() {
        match &bound.progress {
            Progress::Mined(mined) => {
                assert_eq!(list.first(), Some(&mined.inclusion.link()));
                assert_eq!(
                    list.last().map(|link| link.block),
                    Some(mined.notified),
                    "{id}: what was told is what the row says"
                );
                assert!(list.len() as u64 <= FINAL_DEPTH);
            }
            _ => assert_eq!(list, [], "{id}: not on the chain"),
        }
    }
}
