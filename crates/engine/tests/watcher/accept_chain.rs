//! An operator accepts the chain (`forget_head`): every node goes on, without a restart.

use std::time::Duration;

use gapless_store::conformance::fixtures::text;

use crate::support::{Node, World};
use crate::{finality_violation, one_sent, pass, protected};

async fn accept(node: &Node, world: &World) {
    node.store.forget_head(world.lanes[0].chain(), &text("operator"), "the chain is right").await.unwrap();
}

/// Two nodes on one chain with one transaction. The second node reads the saved head seldom, so that the first has
/// saved a new head by then.
async fn two_nodes(world: &mut World) -> [Node; 2] {
    (0..12).for_each(|_| world.chain.mine());
    let (first, _) = one_sent(world).await;
    world.chain.mine();
    world.watcher.save_interval = Duration::from_secs(60);
    let second = world.node("b");
    pass(70).await;
    [first, second]
}

fn violations(nodes: &[Node; 2], world: &World) -> [Option<&'static str>; 2] {
    [finality_violation(&nodes[0], world), finality_violation(&nodes[1], world)]
}

#[tokio::test(start_paused = true)]
async fn accepted_deep_reorg_is_accepted_on_every_node() {
    let mut world = World::without_blocks(1).await;
    let nodes = two_nodes(&mut world).await;
    world.chain.reorg(8, true);
    world.chain.mine_every(Duration::from_secs(1));
    pass(20).await;
    assert_eq!(violations(&nodes, &world), [Some("deep_reorg"); 2]);
    pass(600).await;
    assert_eq!(violations(&nodes, &world), [Some("deep_reorg"); 2], "the violation does not end by itself");
    accept(&nodes[0], &world).await;
    pass(150).await;
    assert_eq!(violations(&nodes, &world), [None; 2]);
    // Blocks of the accepted chain become final.
    let chain = world.lanes[0].chain();
    let kept = nodes[1].store.head(chain).await.unwrap().unwrap().finalized.unwrap();
    assert!(kept.number + 70 > world.chain.height());
    // The lane stays in PROTECT until an operator decides.
    assert_eq!(protected(&nodes[0].store, &world.lanes[0]).await, Some("deep_reorg"));
}

#[tokio::test(start_paused = true)]
async fn accepted_restarted_chain_is_accepted_on_every_node() {
    let mut world = World::without_blocks(1).await;
    let nodes = two_nodes(&mut world).await;
    world.chain.begin_anew(30);
    world.chain.mine_every(Duration::from_secs(1));
    pass(20).await;
    assert_eq!(violations(&nodes, &world), [Some("other_chain"); 2]);
    pass(600).await;
    assert_eq!(violations(&nodes, &world), [Some("other_chain"); 2], "the violation does not end by itself");
    accept(&nodes[0], &world).await;
    pass(150).await;
    assert_eq!(violations(&nodes, &world), [None; 2], "also the node that reads after the other has saved a new head");
    let heads = nodes.each_ref().map(|node| node.engine.view().chain_status(world.lanes[0].chain()).unwrap().head);
    assert!(heads.iter().all(|head| head.number + 3 > world.chain.height()), "both nodes follow the chain");
}

/// A node on another chain stays stopped: heads that the other nodes save accept nothing for it.
#[tokio::test(start_paused = true)]
async fn saved_heads_of_others_do_not_accept_another_chain() {
    let mut world = World::without_blocks(1).await;
    let _right = two_nodes(&mut world).await;
    world.chain.mine_every(Duration::from_secs(1));
    let other = world.other_chain();
    other.begin_anew(40);
    other.mine_every(Duration::from_secs(1));
    let right = std::mem::replace(&mut world.chain, std::sync::Arc::clone(&other));
    let wrong = world.node("c");
    pass(120).await;
    assert_eq!(finality_violation(&wrong, &world), Some("other_chain"));
    // The endpoint of node c shows the right chain from now on.
    other.script(|script| {
        (script.head_from, script.header_from) = (Some(std::sync::Arc::clone(&right)), Some(right));
    });
    pass(150).await;
    assert_eq!(finality_violation(&wrong, &world), None);
}
