//! The census: live nodes and valid leases.

use std::slice::from_ref;
use std::time::Duration;

use gapless_domain::{SubmitterId, Timestamp};

use super::Harness;
use super::fixtures::*;
use crate::roles::Census;

/// The database's time, read without a lease.
async fn now(node: &Node, lane: &SubmitterId) -> Timestamp {
    node.lane_status(from_ref(lane)).await.unwrap().remove(0).unwrap().now
}

async fn count(node: &Node) -> (u32, u32) {
    let Census { nodes, lanes } = node.census().await.unwrap();
    (nodes, lanes)
}

pub(super) async fn census_counts_valid_leases(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lanes = submitters(1..4);
    register(&a, &lanes).await;
    assert_eq!(count(&a).await.1, 0);
    for attempt in 0.. {
        let from = now(&a, &lanes[0]).await;
        acquire(&a, &lanes[0]).await;
        acquire(&a, &lanes[1]).await;
        let released = acquire(&b, &lanes[2]).await;
        let held = [count(&a).await.1, count(&b).await.1];
        b.release(&[released]).await.unwrap();
        let left = [count(&a).await.1, count(&b).await.1];
        if now(&a, &lanes[0]).await < from.saturating_add(h.terms().duration) {
            assert_eq!((held, left), ([3, 3], [2, 2]));
            break;
        }
        assert!(attempt < 20, "{TOO_SLOW}");
    }
    h.pass(h.terms().duration + Duration::from_millis(1)).await;
    assert_eq!([count(&a).await.1, count(&b).await.1], [0, 0]);
}

pub(super) async fn census_counts_live_nodes(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = lane(&a, 1).await;
    for attempt in 0.. {
        let from = now(&a, &lane).await;
        a.renew().await.unwrap();
        b.renew().await.unwrap();
        let counted = [count(&a).await.0, count(&b).await.0];
        if now(&a, &lane).await < from.saturating_add(h.terms().duration) {
            assert_eq!(counted, [2, 2]);
            break;
        }
        assert!(attempt < 20, "{TOO_SLOW}");
    }
    let silence = h.terms().duration + h.terms().clock_skew + Duration::from_millis(1);
    h.pass(silence).await;
    // A node always counts itself.
    assert_eq!([count(&a).await.0, count(&b).await.0], [1, 1]);
    for attempt in 0.. {
        let from = now(&a, &lane).await;
        a.renew().await.unwrap();
        let counted = count(&b).await.0;
        if now(&a, &lane).await < from.saturating_add(h.terms().duration) {
            assert_eq!(counted, 2, "a silent node may come back");
            break;
        }
        assert!(attempt < 20, "{TOO_SLOW}");
    }
    assert_eq!(count(&a).await.0, 1);
}
