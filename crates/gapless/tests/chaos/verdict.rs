//! What must be true when it is over.

use crate::callers::LaneAccepted;
use crate::support::Ledger;
use crate::world::World;

/// The rows of what happened are as many as there were changes, numbered without a hole, and the newest is how it ended.
const HOLES: &str = "
    SELECT count(*) FROM managed_tx t
    LEFT JOIN LATERAL (
        SELECT count(*) AS rows, min(seq) AS first, max(seq) AS last FROM tx_event e WHERE e.tx_id = t.tx_id
    ) AS e ON true
    WHERE e.rows <> t.version OR e.first <> 1 OR e.last <> t.version
       OR t.state <> (SELECT state FROM tx_event n WHERE n.tx_id = t.tx_id AND n.seq = t.version)";
/// Once it has ended, nothing more has happened to it.
const AFTER_THE_END: &str = "
    SELECT count(*) FROM tx_event e JOIN tx_event ended ON ended.tx_id = e.tx_id AND ended.seq < e.seq
    WHERE ended.state IN ('CONFIRMED', 'FAILED_FINAL', 'CANCELED')";

pub(crate) async fn assert_promises_kept(world: &World, lanes: &[LaneAccepted]) {
    for LaneAccepted { lane, accepted } in lanes {
        assert!(!accepted.is_empty(), "nothing was accepted for {}: this has shown nothing", lane.submitter());
        let ledger = Ledger::read(&world.doors().client(0), &lane.submitter()).await;
        // Each has one end, nonces have no gap, the chain has each of them once and nothing else of the account.
        ledger.assert_exactly_once(&world.chain, accepted).await;
        ledger.assert_in_order_of_acceptance(accepted);
        assert_eq!(world.chain.balance(&lane.to()).await, accepted.len() as u64, "{} paid otherwise", lane.submitter());
    }
    assert_eq!(world.database.count(HOLES).await, 0, "events are missing");
    assert_eq!(world.database.count(AFTER_THE_END).await, 0, "something has ended twice");
}
