//! One intent at a time, on idle nodes.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gapless_domain::SubmitterId;
use serde_json::{Value, json};

use super::{Bench, p50};
use crate::driver::{follow, hand_in, see_blocks};
use crate::order::Orders;
use crate::percentiles::Percentiles;
use crate::rpc::{Rpc, number};
use crate::setup::{BenchSetup, Setting};
use crate::{LoadError, Row, raw};

const SETTING: Setting = Setting { submitters: 1, window: 256, nodes: 1, confirmations: 1, latency: Duration::ZERO };
/// Timers have a resolution of a millisecond.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);
/// Pause between two intents: a prime number, so that it does not keep step with the blocks.
const PAUSE: Duration = Duration::from_millis(37);
/// Number of first intents that do not count: the lane is not loaded and connections are not open yet.
const WARM_UP: u64 = 3;
/// Rounds; Gapless and plain INSERTs alternate.
const TURN: u64 = 10;
/// Duration of plain INSERTs in one round.
const INSERTS: Duration = Duration::from_millis(20);
/// Number of newest arrivals to read from the null chain; the measured transaction is among them.
const ARRIVALS: u32 = 10;
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) async fn accept(bench: &Bench<'_>) -> Result<Vec<Row>, LoadError> {
    let setup = BenchSetup::set(bench, &SETTING).await?;
    let row = time_accepts(bench, &setup).await;
    setup.strike().await?;
    Ok(vec![row?])
}

pub(super) async fn broadcast(bench: &Bench<'_>) -> Result<Vec<Row>, LoadError> {
    let setup = BenchSetup::set(bench, &SETTING).await?;
    let row = time_broadcasts(bench, &setup).await;
    setup.strike().await?;
    Ok(vec![row?])
}

pub(super) async fn confirm(bench: &Bench<'_>) -> Result<Vec<Row>, LoadError> {
    let setup = BenchSetup::set(bench, &SETTING).await?;
    let row = time_confirmations(bench, &setup).await;
    setup.strike().await?;
    Ok(vec![row?])
}

async fn time_accepts(bench: &Bench<'_>, setup: &BenchSetup) -> Result<Row, LoadError> {
    let orders = Orders::new(setup, bench.options.calldata, bench.options.estimate);
    let mut plain = PlainInserts::new(bench, setup).await?;
    let mut connection = setup.connect(0).await?;
    let mut times = Vec::new();
    for number in 0..WARM_UP + bench.options.single_samples() {
        if number.is_multiple_of(TURN) {
            plain.time_some().await?;
        }
        let body = orders.body(number);
        let asked = Instant::now();
        let id = hand_in(&mut connection, &body).await?;
        let took = asked.elapsed();
        // The intent ends before the next one is sent, so that each finds an idle node.
        follow(&mut connection, &id).await?;
        if number >= WARM_UP {
            times.push(took);
        }
    }
    let insert = plain.finish().await?;
    let mut row = bench.row("accept-latency");
    row.times("accept", Percentiles::of(&times));
    row.plain("one plain INSERT p50", insert, "ms");
    row.plain("accept in INSERTs p50", p50(&times).zip(insert).map(|(ours, plain)| ours / plain), "");
    Ok(row)
}

async fn time_broadcasts(bench: &Bench<'_>, setup: &BenchSetup) -> Result<Row, LoadError> {
    let orders = Orders::new(setup, bench.options.calldata, bench.options.estimate);
    let mut plain = PlainInserts::new(bench, setup).await?;
    let mut connection = setup.connect(0).await?;
    let mut rpc = setup.chain.endpoint.connect().await?;
    let address = setup.accounts.first().map(|account| account.address.to_string()).unwrap_or_default();
    let (mut from_request, mut from_answer) = (Vec::new(), Vec::new());
    for number in 0..WARM_UP + bench.options.single_samples() {
        if number.is_multiple_of(TURN) {
            plain.time_some().await?;
        }
        let body = orders.body(number);
        let asked = Moment::now();
        let handed_in = async {
            let id = hand_in(&mut connection, &body).await?;
            Ok((id, Moment::now()))
        };
        // The null chain records arrival times; other chains are polled.
        let ((id, answered), sent) = if setup.chain.endpoint.is_null {
            (handed_in.await?, None)
        } else {
            let (handed_in, at) = tokio::try_join!(handed_in, seen_by_chain(&mut rpc, &address, number))?;
            (handed_in, Some(at))
        };
        let view = follow(&mut connection, &id).await?;
        let sent = match sent {
            Some(sent) => sent,
            None => noted_by_chain(&mut rpc, &view["hash"]).await?,
        };
        if number >= WARM_UP {
            from_request.push(sent.since(asked));
            from_answer.push(sent.since(answered));
        }
        tokio::time::sleep(PAUSE).await;
    }
    let insert = plain.finish().await?;
    let mut row = bench.row("broadcast-latency");
    row.times("request → broadcast", Percentiles::of(&from_request));
    row.times("accepted → broadcast", Percentiles::of(&from_answer));
    row.plain("one plain INSERT p50", insert, "ms");
    row.plain(
        "request → broadcast in INSERTs p50",
        p50(&from_request).zip(insert).map(|(ours, plain)| ours / plain),
        "",
    );
    Ok(row)
}

/// The time by the machine's clock, which the null chain uses as well.
#[derive(Clone, Copy, Debug)]
struct Moment(Duration);

impl Moment {
    fn now() -> Self {
        Moment(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
    }

    fn since(self, before: Self) -> Duration {
        self.0.saturating_sub(before.0)
    }
}

/// Waits until the chain has the transaction of this nonce, mined or not.
async fn seen_by_chain(rpc: &mut Rpc, address: &str, nonce: u64) -> Result<Moment, LoadError> {
    let began = Instant::now();
    loop {
        let count = rpc.call("eth_getTransactionCount", json!([address, "pending"])).await?;
        if number(&count).is_some_and(|count| count > nonce) {
            return Ok(Moment::now());
        }
        if began.elapsed() > PATIENCE {
            let (seconds, log) = (PATIENCE.as_secs(), String::new());
            return Err(LoadError::Stalled { done: nonce, wanted: nonce + 1, seconds, log });
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// The arrival time that the null chain recorded.
async fn noted_by_chain(rpc: &mut Rpc, hash: &Value) -> Result<Moment, LoadError> {
    let arrivals = rpc.call("null_arrivals", json!([ARRIVALS])).await?;
    let found = arrivals.as_array().into_iter().flatten().find(|arrival| arrival[0] == *hash);
    let at = found.and_then(|arrival| arrival[1].as_u64()).map(|micros| Moment(Duration::from_micros(micros)));
    at.ok_or_else(|| LoadError::Unreadable { what: "null_arrivals".to_owned(), text: format!("{hash} never came") })
}

async fn time_confirmations(bench: &Bench<'_>, setup: &BenchSetup) -> Result<Row, LoadError> {
    let orders = Orders::new(setup, bench.options.calldata, bench.options.estimate);
    let mut connection = setup.connect(0).await?;
    let mut rpc = setup.chain.endpoint.connect().await?;
    let (mut from_block, mut from_request) = (Vec::new(), Vec::new());
    for number in 0..WARM_UP + bench.options.single_samples() {
        let body = orders.body(number);
        let mut seen = Vec::new();
        let asked = Instant::now();
        let confirmed = async {
            let id = hand_in(&mut connection, &body).await?;
            let view = follow(&mut connection, &id).await?;
            Ok::<_, LoadError>((view, Instant::now()))
        };
        let mut record = |block, at| seen.push((block, at));
        let (view, at) = tokio::select! {
            confirmed = confirmed => confirmed?,
            failed = see_blocks(&mut rpc, LOOK_INTERVAL, &mut record) => return Err(failed),
        };
        // A read may have been interrupted in the middle of its answer.
        rpc = setup.chain.endpoint.connect().await?;
        let block = view["receipt"]["blockNumber"].as_u64();
        let seen_at = seen.iter().find(|(number, _)| Some(*number) >= block).map(|(_, at)| *at);
        if number >= WARM_UP {
            from_request.push(at - asked);
            // A block that the API reported before it was seen here counts as zero.
            from_block.push(seen_at.map_or(Duration::ZERO, |seen| at.saturating_duration_since(seen)));
        }
        tokio::time::sleep(PAUSE).await;
    }
    let mut row = bench.row("confirm-latency");
    row.times("block → CONFIRMED", Percentiles::of(&from_block));
    row.times("request → CONFIRMED", Percentiles::of(&from_request));
    row.plain("block time", Some(bench.options.block_time().as_secs_f64() * 1e3), "ms");
    Ok(row)
}

/// Latency of one plain INSERT, measured in alternating rounds; none without a server.
#[derive(Debug)]
struct PlainInserts {
    client: Option<(crate::database::Database, tokio_postgres::Client)>,
    lane: Option<SubmitterId>,
    times: Vec<Duration>,
}

impl PlainInserts {
    async fn new(bench: &Bench<'_>, setup: &BenchSetup) -> Result<Self, LoadError> {
        let client = match setup.twin_database(bench).await? {
            Some(twin) => {
                let client = twin.connect().await?;
                Some((twin, client))
            }
            None => None,
        };
        let lane = setup.accounts.first().map(|account| setup.submitter(account).parse()).transpose()?;
        Ok(PlainInserts { client, lane, times: Vec::new() })
    }

    async fn time_some(&mut self) -> Result<(), LoadError> {
        if let (Some((_, client)), Some(lane)) = (&self.client, &self.lane) {
            self.times.extend(raw::insert_singly(client, lane, Instant::now() + INSERTS).await?);
        }
        Ok(())
    }

    async fn finish(self) -> Result<Option<f64>, LoadError> {
        if let Some((database, client)) = self.client {
            drop(client);
            database.remove().await?;
        }
        Ok(p50(&self.times))
    }
}
