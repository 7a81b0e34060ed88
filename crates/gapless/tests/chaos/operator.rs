//! Who is called when the database has lost commits: looks, waits, and reconciles one lane after the other (docs/nonces.md).

use std::time::Duration;

use gapless_wire::{Client, ClientError, CommandState, CommandView, ResyncRequest, SubmitterExpand};
use serde_json::json;

use crate::callers::{LANES, LaneLoad, ask_again};
use crate::rules::Rules;
use crate::scan::request_of;
use crate::servers::Loss;
use crate::support::eventually;
use crate::world::{NODES, World};

const WAIT: Option<Duration> = Some(Duration::from_secs(5));
const PATIENCE: Duration = Duration::from_secs(8);
const DRY_RUN: ResyncRequest = ResyncRequest { lost: None, dry_run: Some(true) };
const RESYNC: ResyncRequest = ResyncRequest { lost: None, dry_run: None };
const REGRESSED: &str = "store_regressed";

/// Nothing else is wrong while this is done: nobody reconciles while there are nodes that nobody can reach, with who knows what in their
/// hands.
pub(crate) async fn reconcile(world: &World, rules: &Rules, loss: Loss) {
    // Each node that misses commits of its own declares the loss once more, and what was decided before that is void.
    let called = world.servers.now().await;
    eventually("every node has looked for its own commits", async || {
        (world.servers.looked_since(called).await == NODES).then_some(())
    })
    .await;
    for lane in &LANES {
        eventually("a lane has noticed that commits were lost", async || is_regressed(world, lane).await).await;
    }
    for lane in &LANES {
        wait_until_all_is_final(world, lane).await;
    }
    let stand = world.servers.standings().await;
    for (submitter, before) in &loss.stood {
        if stand.get(submitter) != Some(before) {
            let now = stand.get(submitter);
            world
                .violations()
                .add("P7", format!("{submitter} went on though commits were lost: {before:?}, then {now:?}"));
        }
    }
    for lane in &LANES {
        let lost = world.register().declare_lost(&lane.submitter(), &world.servers.requests(&lane.submitter()).await);
        world.figures().add("accepted and lost", lost.len());
        resync(world, rules, lane).await;
        let gone: Vec<String> = lost.into_iter().filter(|lost| !world.register().happened(lost)).collect();
        world.figures().add("asked for again after that", gone.len());
        ask_again(world, lane, &gone).await;
    }
    world.figures().add("commits lost", usize::try_from(loss.commits).unwrap_or_default());
}

async fn is_regressed(world: &World, lane: &LaneLoad) -> Option<()> {
    for turn in 0..NODES {
        let view = asked(world.doors().client(turn).submitter(&lane.submitter(), &[])).await?.ok()?;
        if view.protect.is_none_or(|protect| protect.code != REGRESSED) {
            return None;
        }
    }
    Some(())
}

/// Whatever was sent before the loss is in a final block, or nobody has it any more.
async fn wait_until_all_is_final(world: &World, lane: &LaneLoad) {
    let mut turn = 0;
    eventually("the pools are empty", async || {
        turn += 1;
        let client = world.doors().client(turn);
        let view = asked(client.submitter(&lane.submitter(), &[SubmitterExpand::Nonces])).await?.ok()?;
        let nonces = view.nonces?;
        (nonces.settled.is_some() && nonces.settled == nonces.latest && nonces.latest == nonces.preconfirmed)
            .then_some(())
    })
    .await;
}

/// First what it would do. What it finds of ours that the ledger has no request for has happened: whoever asks for it must know that
/// before the lane takes requests again.
async fn resync(world: &World, rules: &Rules, lane: &LaneLoad) {
    let report = tell(
        world,
        lane,
        async |client, name| client.resync(name, &DRY_RUN, WAIT).await,
        |report| !report.contains("it would be refused now"),
    )
    .await;
    for line in report.lines() {
        // `adopt nonce 7: transaction 0x… in block 9 (…)`; one that belongs to an intent reads `adopt nonce 7 for intent …`.
        let Some((nonce, evidence)) = line.strip_prefix("adopt nonce ").and_then(|rest| rest.split_once(": ")) else {
            continue;
        };
        let hash = evidence.strip_prefix("transaction ").and_then(|rest| rest.split(' ').next());
        let Some(hash) = hash.filter(|_| nonce.parse::<u64>().is_ok()) else { continue };
        let request = request_of(&world.chain.call("eth_getTransactionByHash", json!([hash])).await["input"]);
        world.figures().count("lost and found on chain");
        if rules.resend_blindly {
            continue;
        }
        if !world.register().has_been_found(&request) {
            world.violations().add("P7", format!("nobody has asked for {request:?}, which {hash} is for"));
        }
    }
    tell(world, lane, async |client, name| client.resync(name, &RESYNC, WAIT).await, |_| true).await;
    // A pause may have been kept, and its end lost.
    tell(world, lane, async |client, name| client.resume(name, WAIT).await, |_| true).await;
    eventually("a lane is out of PROTECT", async || {
        let view = asked(world.doors().client(0).submitter(&lane.submitter(), &[])).await?.ok()?;
        view.protect.is_none().then_some(())
    })
    .await;
}

/// Asks one node after the other until the lane has done it; what it said comes back.
async fn tell(
    world: &World,
    lane: &LaneLoad,
    command: impl AsyncFn(&Client, &str) -> Result<CommandView, ClientError>,
    is_enough: impl Fn(&str) -> bool,
) -> String {
    let (name, mut turn) = (lane.submitter(), 0);
    eventually("a lane does as it is told", async || {
        turn += 1;
        let client = world.doors().client(turn);
        let view = asked(command(&client, &name)).await?.ok()?;
        let result = view.result.filter(|_| view.state == CommandState::Done)?;
        is_enough(&result).then_some(result)
    })
    .await
}

async fn asked<T>(answer: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(PATIENCE, answer).await.ok()
}
