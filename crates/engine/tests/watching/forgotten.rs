//! An operator takes a kept head away: whoever was stopped by it goes on, on every node and without a restart.

use std::time::Duration;

use gapless_store::conformance::fixtures::text;

use crate::support::{Node, World};
use crate::{broken, one_sent, pass, protected};

async fn forget(node: &Node, world: &World) {
    node.store.forget_head(world.lanes[0].chain(), &text("operator"), "it is right as it is").await.unwrap();
}

/// Two nodes that have seen the same chain, and one transaction in it. The second looks seldom, so that the first has kept a new head
/// by then.
async fn two_nodes(world: &mut World) -> [Node; 2] {
    (0..12).for_each(|_| world.chain.mine());
    let (first, _) = one_sent(world).await;
    world.chain.mine();
    world.watcher.save_interval = Duration::from_secs(60);
    let second = world.node("b");
    pass(70).await;
    [first, second]
}

fn all_broken(nodes: &[Node; 2], world: &World) -> [Option<&'static str>; 2] {
    [broken(&nodes[0], world), broken(&nodes[1], world)]
}

#[tokio::test(start_paused = true)]
async fn a_deep_fork_is_accepted_on_every_node() {
    let mut world = World::without_blocks(1).await;
    let nodes = two_nodes(&mut world).await;
    world.chain.reorg(8, true);
    world.chain.mine_every(Duration::from_secs(1));
    pass(20).await;
    assert_eq!(all_broken(&nodes, &world), [Some("deep_reorg"); 2]);
    pass(600).await;
    assert_eq!(all_broken(&nodes, &world), [Some("deep_reorg"); 2], "time heals nothing");
    forget(&nodes[0], &world).await;
    pass(150).await;
    assert_eq!(all_broken(&nodes, &world), [None; 2]);
    // And things are final again by the chain as it is.
    let chain = world.lanes[0].chain();
    let kept = nodes[1].store.head(chain).await.unwrap().unwrap().finalized.unwrap();
    assert!(kept.number + 70 > world.chain.height());
    // Which the lane does not hear of by itself: it stays as it is until somebody decides.
    assert_eq!(protected(&nodes[0].store, &world.lanes[0]).await, Some("deep_reorg"));
}

#[tokio::test(start_paused = true)]
async fn a_chain_that_began_anew_is_accepted_on_every_node() {
    let mut world = World::without_blocks(1).await;
    let nodes = two_nodes(&mut world).await;
    world.chain.begin_anew(30);
    world.chain.mine_every(Duration::from_secs(1));
    pass(20).await;
    assert_eq!(all_broken(&nodes, &world), [Some("other_chain"); 2]);
    pass(600).await;
    assert_eq!(all_broken(&nodes, &world), [Some("other_chain"); 2], "time heals nothing");
    forget(&nodes[0], &world).await;
    pass(150).await;
    assert_eq!(all_broken(&nodes, &world), [None; 2], "also who looks after the other has kept a new one");
    let heads = nodes.each_ref().map(|node| node.engine.view().chain_status(world.lanes[0].chain()).unwrap().head);
    assert!(heads.iter().all(|head| head.number + 3 > world.chain.height()), "they follow it");
}

/// A node that is stopped, while the others are right: what they keep is no acceptance of what it sees.
#[tokio::test(start_paused = true)]
async fn what_other_nodes_keep_accepts_nothing_for_one_on_another_chain() {
    let mut world = World::without_blocks(1).await;
    let _right = two_nodes(&mut world).await;
    world.chain.mine_every(Duration::from_secs(1));
    let other = world.other_chain();
    other.begin_anew(40);
    other.mine_every(Duration::from_secs(1));
    let right = std::mem::replace(&mut world.chain, std::sync::Arc::clone(&other));
    let wrong = world.node("c");
    pass(120).await;
    assert_eq!(broken(&wrong, &world), Some("other_chain"));
    // Its endpoint is put right.
    other.script(|script| {
        (script.head_from, script.header_from) = (Some(std::sync::Arc::clone(&right)), Some(right));
    });
    pass(150).await;
    assert_eq!(broken(&wrong, &world), None);
}
