//! Faults of endpoints of a healthy chain.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

mod support;

use alloy_primitives::Bytes;
use gapless_devchain::{
    Admission, BlockSelector, CallFilter, CallRefusal, ChainEvent, Endpoint, Fault, RpcError, View,
};
use support::*;

fn raw(nonce: u64) -> Bytes {
    alice().sign(transfer(nonce)).unwrap()
}

fn admitted(endpoint: &Endpoint) -> View {
    match endpoint.admit("eth_call").unwrap() {
        Admission::View(view) => view,
        Admission::Null => panic!("null"),
    }
}

#[test]
fn dropped_send_is_answered_but_not_pooled() {
    let chain = chain();
    let node = chain.endpoint("a");
    node.faults().next(CallFilter::Sends, 1, Fault::Drop);
    let hash = node.send_raw(&raw(0)).unwrap();
    assert!(chain.view().transaction(hash).is_none());
    assert_eq!(node.send_raw(&raw(0)), Ok(hash), "the fault applies to one send only");
    assert!(chain.view().transaction(hash).is_some());
    node.faults().next(CallFilter::Sends, 1, Fault::Drop);
    assert!(matches!(node.send_raw(&[9]), Err(CallRefusal::Rpc(_))), "undecodable bytes are refused despite the fault");
}

#[test]
fn timeout_can_precede_or_follow_execution() {
    let chain = chain();
    let node = chain.endpoint("a");
    node.faults().next(CallFilter::Sends, 1, Fault::TimeOutBefore);
    node.faults().next(CallFilter::Sends, 1, Fault::TimeOutAfter);
    assert_eq!(node.send_raw(&raw(0)), Err(CallRefusal::TimedOut));
    assert_eq!(chain.view().pool_status().pending, 0);
    assert_eq!(node.send_raw(&raw(0)), Err(CallRefusal::TimedOut));
    assert_eq!(chain.view().pool_status().pending, 1);
}

#[test]
fn send_faults_change_error_hash_and_count() {
    let chain = chain();
    let node = chain.endpoint("a");
    let words = || ("nonce too low, by a client of another kind".to_owned(), -32010);
    let (message, code) = words();
    node.faults().next(CallFilter::Sends, 1, Fault::Refuse { code, message: message.clone() });
    node.faults().next(CallFilter::Sends, 1, Fault::RefuseAfter { code, message });
    let refused = Err(CallRefusal::Rpc(RpcError::new(words().1, words().0)));
    assert_eq!(node.send_raw(&raw(0)), refused);
    assert_eq!(chain.view().pool_status().pending, 0);
    assert_eq!(node.send_raw(&raw(0)), refused);
    assert_eq!(chain.view().pool_status().pending, 1);
    node.faults().next(CallFilter::Sends, 1, Fault::WrongHash);
    let wrong = node.send_raw(&raw(1)).unwrap();
    assert!(chain.view().transaction(wrong).is_none());
    assert_eq!(chain.view().pool_status().pending, 2);
    node.faults().next(CallFilter::Sends, 1, Fault::Duplicate);
    let known = node.send_raw(&raw(2)).unwrap_err();
    assert_eq!(known.to_string(), "already known");
    assert_eq!(chain.view().pool_status().pending, 3);
}

#[test]
fn delayed_send_is_mined_at_its_block() {
    let chain = chain();
    let node = chain.endpoint("a");
    node.faults().next(CallFilter::Sends, 1, Fault::DelayBlocks(2));
    let hash = node.send_raw(&raw(0)).unwrap();
    assert!(chain.view().transaction(hash).is_none());
    assert_eq!(chain.mine(0).unwrap().txs.len(), 0);
    assert_eq!(chain.mine(0).unwrap().txs[0].hash, hash);
}

#[test]
fn endpoints_have_independent_faults() {
    let chain = chain();
    let (slow, dead, well) = (chain.endpoint("slow"), chain.endpoint("dead"), chain.endpoint("well"));
    slow.faults().set_lag(2);
    dead.faults().set_dead(true);
    let hash = well.send_raw(&raw(0)).unwrap();
    chain.mine(0).unwrap();
    assert_eq!(slow.view().head().number(), 0);
    chain.mine(0).unwrap();
    assert_eq!((slow.view().head().number(), well.view().head().number()), (0, 2));
    assert!(slow.view().receipt(hash).is_none());
    assert!(well.view().receipt(hash).is_some());
    assert_eq!(slow.view().nonce(alice().address, BlockSelector::Latest), Ok(0));
    assert!(slow.view().block(BlockSelector::Number(1)).is_none());
    assert!(slow.view().block(BlockSelector::Hash(well.view().head().hash)).is_none());
    assert!(matches!(dead.admit("eth_blockNumber"), Err(CallRefusal::Disconnected)));
    assert_eq!(dead.send_raw(&raw(1)), Err(CallRefusal::Disconnected));
    let head = ChainEvent::NewHead(chain.mine(0).unwrap());
    let shown = |node: &Endpoint| match node.visible_event(head.clone()) {
        Some(ChainEvent::NewHead(block)) => Some(block.number()),
        _ => None,
    };
    assert_eq!([&slow, &dead, &well].map(shown), [Some(1), None, Some(3)]);
    slow.faults().clear();
    dead.faults().clear();
    assert!(slow.view().receipt(hash).is_some());
    assert_eq!(admitted(&dead).head().number(), 3);
}

#[test]
fn read_faults_apply_as_configured() {
    let chain = chain();
    let node = chain.endpoint("a");
    let busy = Fault::Http { status: 429, retry_after_secs: Some(3), body: "slow down".to_owned() };
    node.faults().next(CallFilter::Method("eth_call".to_owned()), 1, busy);
    assert!(node.admit("eth_blockNumber").is_ok());
    let refused = node.admit("eth_call").unwrap_err();
    assert_eq!(refused, CallRefusal::Http { status: 429, retry_after_secs: Some(3), body: "slow down".to_owned() });
    node.faults().next(CallFilter::Reads, 1, Fault::Null);
    assert!(matches!(node.admit("eth_getTransactionReceipt"), Ok(Admission::Null)));
    node.faults().hide_receipts(true);
    let hash = node.send_raw(&raw(0)).unwrap();
    chain.mine(0).unwrap();
    assert!(node.view().receipt(hash).is_none());
    assert!(node.view().transaction(hash).is_none());
    assert_eq!(node.view().nonce(alice().address, BlockSelector::Latest), Ok(1));
    node.faults().set_wrong_chain_id(Some(1));
    assert_eq!((node.view().chain_id(), chain.view().chain_id()), (1, 31337));
}
