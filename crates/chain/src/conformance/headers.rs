//! Heads and headers.

use alloy_primitives::B256;

use super::Harness;
use super::fixtures::{head, mine};
use crate::contract::HeaderAt;

pub(super) async fn head_and_its_ancestors_are_linked(harness: &dyn Harness) {
    let before = head(harness).await;
    mine(harness).await;
    let newest = mine(harness).await;
    assert!(newest.block.number >= before.block.number + 2);
    let headers = harness.chain().headers(before.block.number..=newest.block.number).await.unwrap();
    let headers: Vec<_> = headers.into_iter().map(Option::unwrap).collect();
    assert_eq!((headers.first(), headers.last()), (Some(&before), Some(&newest)));
    for pair in headers.windows(2) {
        assert_eq!(pair[1].block.number, pair[0].block.number + 1);
        assert_eq!(pair[1].parent_hash, pair[0].block.hash);
        assert!(pair[1].timestamp >= pair[0].timestamp);
    }
}

pub(super) async fn header_is_found_by_number_and_by_hash(harness: &dyn Harness) {
    let newest = mine(harness).await;
    let chain = harness.chain();
    assert_eq!(chain.header(HeaderAt::Number(newest.block.number)).await.unwrap(), Some(newest));
    assert_eq!(chain.header(HeaderAt::Hash(newest.block.hash)).await.unwrap(), Some(newest));
}

pub(super) async fn unknown_header_is_none(harness: &dyn Harness) {
    let above = head(harness).await.block.number + 1_000_000;
    let chain = harness.chain();
    assert_eq!(chain.header(HeaderAt::Hash(B256::repeat_byte(0x77))).await.unwrap(), None);
    assert_eq!(chain.header(HeaderAt::Number(above)).await.unwrap(), None);
    assert_eq!(chain.headers(above..=above + 1).await.unwrap(), [None, None]);
}
