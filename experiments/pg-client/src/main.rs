//! Which PostgreSQL client? sqlx and tokio-postgres, side by side on one server.
//!
//! `cargo run --release -- <database url> [bench|facts]`; the URL names 127.0.0.1 and a port. The database must be a
//! throwaway: tables are dropped, and `facts` changes `synchronous_standby_names` for a moment. Every figure is a
//! median over rounds in which the clients take turns, so a noisy neighbour hits all alike; `×` is the median of the
//! per-round ratios to the first client.

mod delay;
mod facts;

use std::error::Error;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::join;
use sqlx::{Connection, PgConnection, Row};
use tokio_postgres::{Client, NoTls, Statement};
use uuid::Uuid;

type Arg<'a> = &'a (dyn tokio_postgres::types::ToSql + Sync);
pub(crate) type Res<T> = Result<T, Box<dyn Error + Send + Sync>>;

const ROUNDS: usize = 9;
const SLICE: Duration = Duration::from_millis(400);
const ROWS: usize = 200;
const LANES: usize = 50;

const SCHEMA: &str = "
DROP TABLE IF EXISTS lease, cursor, tx, attempt, event;
CREATE TABLE lease (submitter text PRIMARY KEY, owner text NOT NULL, token bigint NOT NULL,
  expires_at timestamptz NOT NULL);
CREATE TABLE cursor (submitter text PRIMARY KEY, next bigint NOT NULL, token bigint NOT NULL DEFAULT 0);
CREATE TABLE tx (id uuid PRIMARY KEY, submitter text NOT NULL, state text NOT NULL,
  payload jsonb NOT NULL, raw bytea NOT NULL,
  nonce bigint NOT NULL, fee bigint NOT NULL, token bigint NOT NULL DEFAULT 0);
CREATE TABLE attempt (tx uuid, n bigint, kind text NOT NULL, raw bytea NOT NULL, fee bigint NOT NULL,
  PRIMARY KEY (tx, n));
CREATE TABLE event (tx uuid, seq bigint, kind text NOT NULL, body jsonb NOT NULL,
  xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
  PRIMARY KEY (tx, seq));";
const ONE: &str = "INSERT INTO event (tx, seq, kind, body) VALUES ($1, $2, $3, $4::text::jsonb)";
const BATCH: &str =
    "INSERT INTO tx SELECT * FROM (SELECT id, s, st, p::jsonb, r, n, f, t FROM unnest($1::uuid[], $2::text[],
  $3::text[], $4::text[], $5::bytea[], $6::bigint[], $7::bigint[], $8::bigint[]) u(id, s, st, p, r, n, f, t)) x";
const LOCK_LEASE: &str = "SELECT submitter FROM lease WHERE submitter = ANY($1) AND owner = 'me' AND token = 1
  AND expires_at > clock_timestamp() ORDER BY submitter FOR NO KEY UPDATE SKIP LOCKED";
const LOCK_CURSOR: &str =
    "SELECT submitter, next FROM cursor WHERE submitter = ANY($1) ORDER BY submitter FOR NO KEY UPDATE";
const LOCK_TX: &str = "SELECT id, state, token FROM tx WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE";
const UPDATE: &str =
    "UPDATE tx SET state = u.st, fee = u.f, token = 1 FROM unnest($1::uuid[], $2::text[], $3::bigint[]) u(id, st, f)
  WHERE tx.id = u.id AND tx.token <= 1";
const ATTEMPTS: &str =
    "INSERT INTO attempt SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::bytea[], $5::bigint[])";
const EVENTS: &str = "INSERT INTO event (tx, seq, kind, body) SELECT i, n, k, b::jsonb
  FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[]) u(i, n, k, b)";
const READ: &str = "SELECT id, submitter, state, raw, nonce, fee FROM tx ORDER BY id LIMIT 1000";

/// The arguments of all statements, built once; only ids and sequence numbers change from one operation to the next.
struct Data {
    lanes: Vec<String>,
    /// New rows.
    ids: Vec<Uuid>,
    /// The rows that every fenced commit locks and changes.
    owned: Vec<Uuid>,
    submitters: Vec<String>,
    states: Vec<String>,
    json: Vec<String>,
    raw: Vec<Vec<u8>>,
    nums: Vec<i64>,
}

static NEXT: AtomicU64 = AtomicU64::new(1 << 20);

impl Data {
    fn new() -> Self {
        let json = r#"{"to":"0x00000000219ab540356cbb839cbe05303d7705fa","value":"1000000000000000000","data":"0x"}"#;
        Self {
            lanes: (0..LANES).map(|i| format!("0x{i:040x}")).collect(),
            ids: vec![Uuid::nil(); ROWS],
            owned: (0..ROWS as u128).map(Uuid::from_u128).collect(),
            submitters: (0..ROWS).map(|i| format!("0x{:040x}", i % LANES)).collect(),
            states: vec!["TRACKING".into(); ROWS],
            json: vec![json.into(); ROWS],
            raw: (0..ROWS).map(|i| vec![i as u8; 180]).collect(),
            nums: vec![0; ROWS],
        }
    }

    fn renew(&mut self) {
        for id in &mut self.ids {
            *id = Uuid::from_u128(NEXT.fetch_add(1, Ordering::Relaxed).into());
        }
        let n = NEXT.fetch_add(1, Ordering::Relaxed) as i64;
        self.nums.fill(n);
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Op {
    One,
    Batch,
    Fenced,
    Read,
}

/// Takes every value out of the rows that `READ` gives; the two clients' rows have no trait in common.
macro_rules! decode {
    ($rows:expr) => {{
        let mut sum = 0;
        for row in $rows {
            let (id, s, st): (Uuid, String, String) = (row.get(0), row.get(1), row.get(2));
            let (raw, n, f): (Vec<u8>, i64, i64) = (row.get(3), row.get(4), row.get(5));
            sum += id.as_u128() as usize + s.len() + st.len() + raw.len() + (n + f) as usize;
        }
        sum
    }};
}

trait Side {
    async fn run(&mut self, op: Op, d: &Data) -> Res<()>;
}

struct TokioPg {
    client: Client,
    pipelined: bool,
    st: Vec<Statement>,
}

impl TokioPg {
    async fn new(url: &str, pipelined: bool) -> Res<Self> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        let mut st = Vec::new();
        for sql in [ONE, BATCH, LOCK_LEASE, LOCK_CURSOR, LOCK_TX, UPDATE, ATTEMPTS, EVENTS, READ] {
            st.push(client.prepare(sql).await?);
        }
        Ok(Self { client, pipelined, st })
    }
}

impl Side for TokioPg {
    async fn run(&mut self, op: Op, d: &Data) -> Res<()> {
        let (c, [one, batch, lease, cursor, tx, update, attempts, events, read]) = (&self.client, &self.st[..]) else {
            return Err("statements".into());
        };
        match op {
            Op::One => {
                c.execute(one, &[&d.ids[0], &d.nums[0], &d.states[0], &d.json[0]]).await?;
            }
            Op::Batch => {
                c.execute(batch, &[&d.ids, &d.submitters, &d.states, &d.json, &d.raw, &d.nums, &d.nums, &d.nums])
                    .await?;
            }
            Op::Fenced => {
                // A future sends its request when it is first polled; join! polls in the order written.
                let (args_l, args_t): ([Arg<'_>; 1], [Arg<'_>; 1]) = ([&d.lanes], [&d.owned]);
                let begin = c.batch_execute("BEGIN");
                let (l, u, t) = (c.query(lease, &args_l), c.query(cursor, &args_l), c.query(tx, &args_t));
                let (l, u, t) = if self.pipelined {
                    let (b, l, u, t) = join!(begin, l, u, t);
                    b?;
                    (l?, u?, t?)
                } else {
                    begin.await?;
                    (l.await?, u.await?, t.await?)
                };
                check(l.len() == LANES && u.len() == LANES && t.len() == ROWS)?;
                let args_u: [Arg<'_>; 3] = [&d.owned, &d.states, &d.nums];
                let args_a: [Arg<'_>; 5] = [&d.owned, &d.nums, &d.states, &d.raw, &d.nums];
                let args_e: [Arg<'_>; 4] = [&d.owned, &d.nums, &d.states, &d.json];
                let (u, a, e) = (c.execute(update, &args_u), c.execute(attempts, &args_a), c.execute(events, &args_e));
                let commit = c.batch_execute("COMMIT");
                let counts = if self.pipelined {
                    let (u, a, e, done) = join!(u, a, e, commit);
                    done?;
                    [u?, a?, e?]
                } else {
                    let counts = [u.await?, a.await?, e.await?];
                    commit.await?;
                    counts
                };
                check(counts == [ROWS as u64; 3])?;
            }
            Op::Read => {
                check(decode!(c.query(read, &[]).await?) > 0)?;
            }
        }
        Ok(())
    }
}

struct Sqlx(PgConnection);

impl Side for Sqlx {
    async fn run(&mut self, op: Op, d: &Data) -> Res<()> {
        let c = &mut self.0;
        match op {
            Op::One => {
                let q = sqlx::query(ONE).bind(d.ids[0]).bind(d.nums[0]).bind(&d.states[0]).bind(&d.json[0]);
                q.execute(c).await?;
            }
            Op::Batch => {
                let q = sqlx::query(BATCH).bind(&d.ids).bind(&d.submitters).bind(&d.states).bind(&d.json);
                q.bind(&d.raw).bind(&d.nums).bind(&d.nums).bind(&d.nums).execute(c).await?;
            }
            Op::Fenced => {
                let mut t = c.begin().await?;
                let leases = sqlx::query(LOCK_LEASE).bind(&d.lanes).fetch_all(&mut *t).await?;
                let cursors = sqlx::query(LOCK_CURSOR).bind(&d.lanes).fetch_all(&mut *t).await?;
                let txs = sqlx::query(LOCK_TX).bind(&d.owned).fetch_all(&mut *t).await?;
                check(leases.len() == LANES && cursors.len() == LANES && txs.len() == ROWS)?;
                let u = sqlx::query(UPDATE).bind(&d.owned).bind(&d.states).bind(&d.nums).execute(&mut *t).await?;
                let a = sqlx::query(ATTEMPTS).bind(&d.owned).bind(&d.nums).bind(&d.states).bind(&d.raw).bind(&d.nums);
                let a = a.execute(&mut *t).await?;
                let e = sqlx::query(EVENTS).bind(&d.owned).bind(&d.nums).bind(&d.states).bind(&d.json);
                let e = e.execute(&mut *t).await?;
                t.commit().await?;
                check([u, a, e].iter().all(|r| r.rows_affected() == ROWS as u64))?;
            }
            Op::Read => {
                check(decode!(sqlx::query(READ).fetch_all(c).await?) > 0)?;
            }
        }
        Ok(())
    }
}

fn check(ok: bool) -> Res<()> {
    if ok { Ok(()) } else { Err("the database did something else than asked".into()) }
}

/// CPU time of all our threads but the delay proxy's, from the kernel's accounting (nanoseconds, not 10 ms ticks).
fn cpu() -> Res<Duration> {
    let mut ns = 0;
    for task in std::fs::read_dir("/proc/self/task")? {
        let dir = task?.path();
        if std::fs::read_to_string(dir.join("comm"))?.trim() != "delay" {
            let stat = std::fs::read_to_string(dir.join("schedstat"))?;
            ns += stat.split(' ').next().ok_or("schedstat")?.parse::<u64>()?;
        }
    }
    Ok(Duration::from_nanos(ns))
}

/// One slice: as many operations as fit; gives the median latency and the CPU time of one operation, in microseconds.
async fn slice(side: &mut impl Side, op: Op, d: &mut Data) -> Res<[f64; 2]> {
    let mut times = Vec::new();
    let (start, cpu_before) = (Instant::now(), cpu()?);
    while start.elapsed() < SLICE {
        d.renew();
        let t = Instant::now();
        side.run(op, d).await?;
        times.push(t.elapsed().as_secs_f64() * 1e6);
    }
    let used = (cpu()? - cpu_before).as_secs_f64() * 1e6 / times.len() as f64;
    Ok([median(times), used])
}

fn median(mut v: Vec<f64>) -> f64 {
    v.sort_by(f64::total_cmp);
    v[v.len() / 2]
}

async fn scenario(name: &str, op: Op, url: &str, direct: &str) -> Res<()> {
    let mut d = Data::new();
    let (admin, connection) = tokio_postgres::connect(direct, NoTls).await?;
    tokio::spawn(connection);
    admin.batch_execute(SCHEMA).await?;
    let lanes = format!("(SELECT '0x' || lpad(to_hex(i), 40, '0') s FROM generate_series(0, {}) i) x", LANES - 1);
    admin.batch_execute(&format!("INSERT INTO lease SELECT s, 'me', 1, 'infinity' FROM {lanes}")).await?;
    admin.batch_execute(&format!("INSERT INTO cursor SELECT s, 0 FROM {lanes}")).await?;
    let mut a = TokioPg::new(url, true).await?;
    let mut b = TokioPg::new(url, false).await?;
    let mut c = Sqlx(PgConnection::connect(url).await?);
    // The rows that are owned, updated and read; then one warm-up each, which also fills sqlx's statement cache.
    for k in (0..1000 / ROWS as u128).rev() {
        d.ids = (0..ROWS as u128).map(|i| Uuid::from_u128(k * ROWS as u128 + i)).collect();
        a.run(Op::Batch, &d).await?;
    }
    admin.batch_execute("VACUUM ANALYZE").await?;
    admin.batch_execute("CHECKPOINT").await?;
    let mut figures: [Vec<[f64; 2]>; 3] = Default::default();
    for round in 0..=ROUNDS {
        let sa = slice(&mut a, op, &mut d).await?;
        let sb = if op == Op::Fenced { slice(&mut b, op, &mut d).await? } else { sa };
        let sc = slice(&mut c, op, &mut d).await?;
        if round > 0 {
            for (f, s) in figures.iter_mut().zip([sa, sb, sc]) {
                f.push(s);
            }
        }
    }
    for (i, who) in ["tokio-postgres", "tokio-postgres, one by one", "sqlx"].iter().enumerate() {
        if i == 1 && op != Op::Fenced {
            continue;
        }
        let col = |k: usize| median(figures[i].iter().map(|f| f[k]).collect());
        let ratio = |k: usize| median(figures[i].iter().zip(&figures[0]).map(|(f, first)| f[k] / first[k]).collect());
        println!("| {name} | {who} | {:.0} | ×{:.2} | {:.1} | ×{:.2} |", col(0), ratio(0), col(1), ratio(1));
    }
    Ok(())
}

async fn bench(url: &str, kind: &str) -> Res<()> {
    let config: tokio_postgres::Config = url.parse()?;
    let port = *config.get_ports().first().ok_or("the URL must name a port")?;
    let proxy = delay::proxy(SocketAddr::from(([127, 0, 0, 1], port)))?;
    let slow = url.replace(&format!(":{port}"), &format!(":{proxy}"));
    println!("{kind} runtime\n| what | client | latency µs | × | client CPU µs | × |\n|---|---|---|---|---|---|");
    scenario("1 one-row insert", Op::One, url, url).await?;
    scenario("2 insert of 200 rows", Op::Batch, url, url).await?;
    scenario("3 fenced commit", Op::Fenced, url, url).await?;
    scenario("3 fenced commit, 0.5 ms away", Op::Fenced, &slow, url).await?;
    scenario("4 read 1,000 rows", Op::Read, url, url).await
}

fn main() -> Res<()> {
    let url = std::env::args().nth(1).ok_or("usage: pg-client <url with 127.0.0.1 and a port> [bench|facts]")?;
    let one = || tokio::runtime::Builder::new_current_thread().enable_all().build();
    if std::env::args().nth(2).as_deref() == Some("facts") {
        return one()?.block_on(facts::facts(&url));
    }
    one()?.block_on(bench(&url, "single-threaded"))?;
    let many = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    many.block_on(many.spawn(async move { bench(&url, "multi-threaded").await }))?
}
