//! The clients' behaviour under failures, observed on a real server and not taken from the documentation. Needs a
//! superuser.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::join;
use sqlx::postgres::PgListener;
use sqlx::{Connection, PgConnection};
use tokio::time::sleep;
use tokio_postgres::{AsyncMessage, Client, NoTls};

use crate::Res;

type Heard = Arc<Mutex<Vec<String>>>;

/// Connects, and collects every notice and notification while it drives the connection.
async fn connect(url: &str) -> Res<(Client, Heard)> {
    let (client, mut connection) = tokio_postgres::connect(url, NoTls).await?;
    let heard = Heard::default();
    let sink = heard.clone();
    tokio::spawn(async move {
        while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
            let ended = message.is_err(); // polling on after an error would spin for ever
            let text = match message {
                Ok(AsyncMessage::Notice(n)) => {
                    format!("{} {}: {} / {:?}", n.severity(), n.code().code(), n.message(), n.detail())
                }
                Ok(AsyncMessage::Notification(n)) => format!("notification {} {}", n.channel(), n.payload()),
                Ok(_) => "other".into(),
                Err(e) => format!("connection ended: {e:?}"),
            };
            if let Ok(mut list) = sink.lock() {
                list.push(text);
            }
            if ended {
                break;
            }
        }
    });
    Ok((client, heard))
}

fn take(heard: &Heard) -> Vec<String> {
    heard.lock().map(|mut list| std::mem::take(&mut *list)).unwrap_or_default()
}

pub(crate) async fn facts(url: &str) -> Res<()> {
    let with_options = format!("{url}?options=-c%20lock_timeout%3D1234ms%20-c%20statement_timeout%3D5s");
    let (admin, _) = connect(url).await?;
    admin.batch_execute("DROP TABLE IF EXISTS fact; CREATE TABLE fact (id int PRIMARY KEY)").await?;
    let (client, heard) = connect(&with_options).await?;
    let mut conn = PgConnection::connect(&with_options).await?;

    println!("options: tokio-postgres {}", client.query_one("SHOW lock_timeout", &[]).await?.get::<_, String>(0));
    println!("options: sqlx {}", sqlx::query_scalar::<_, String>("SHOW lock_timeout").fetch_one(&mut conn).await?);

    client.batch_execute("LISTEN look").await?;
    let mut listener = PgListener::connect(url).await?;
    listener.listen("look").await?;
    admin.batch_execute("NOTIFY look, 'now'").await?;
    println!("listen: sqlx {:?}", listener.recv().await?.payload());
    client.batch_execute("UNLISTEN look").await?;
    println!("listen: tokio-postgres {:?}", take(&heard));

    // A write fails, and the COMMIT behind it was already on its way: what does COMMIT answer?
    let insert = client.prepare("INSERT INTO fact VALUES ($1)").await?;
    let (begin, first, twin, commit) = (
        client.batch_execute("BEGIN"),
        client.execute(&insert, &[&1]),
        client.execute(&insert, &[&1]),
        client.batch_execute("COMMIT"),
    );
    let (begin, first, twin, commit) = join!(begin, first, twin, commit);
    println!("failed write, pipelined: begin {begin:?} first {first:?} twin {} commit {commit:?}", twin.is_err());
    let mut t = conn.begin().await?;
    let first = sqlx::query("INSERT INTO fact VALUES (1)").execute(&mut *t).await.map(|r| r.rows_affected());
    let twin = sqlx::query("INSERT INTO fact VALUES (1)").execute(&mut *t).await;
    println!("failed write, sqlx: first {first:?} twin {} commit {:?}", twin.is_err(), t.commit().await);
    println!("rows after both: {}", client.query("SELECT FROM fact", &[]).await?.len());

    // COMMIT waits for a standby that does not exist; then the wait is cancelled, or the connection is cut.
    admin.batch_execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'").await?;
    admin.batch_execute("SELECT pg_reload_conf()").await?;
    sleep(Duration::from_millis(500)).await;
    let outcome = commits(&admin, client, &heard, conn).await;
    admin.batch_execute("ALTER SYSTEM RESET synchronous_standby_names").await?;
    admin.batch_execute("SELECT pg_reload_conf()").await?;
    outcome
}

async fn commits(admin: &Client, client: Client, heard: &Heard, mut conn: PgConnection) -> Res<()> {
    let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await?.get(0);
    let sqlx_pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut conn).await?;
    for (id, end) in [(10, "pg_cancel_backend"), (20, "pg_terminate_backend")] {
        let stop = |pid: i32| async move {
            sleep(Duration::from_millis(500)).await;
            admin.batch_execute(&format!("SELECT {end}({pid})")).await
        };
        client.batch_execute("BEGIN").await?;
        client.batch_execute(&format!("INSERT INTO fact VALUES ({id})")).await?;
        // The notices are read in the same poll in which COMMIT returns: the warning must be there by then.
        let commit = async { (client.batch_execute("COMMIT").await, take(heard)) };
        let ((answer, notices), _) = join!(commit, stop(pid));
        println!("{end} during COMMIT, tokio-postgres: {answer:?}\n  heard before the answer: {notices:?}");
        sleep(Duration::from_millis(200)).await;
        println!("  heard after: {:?}, is_closed {}", take(heard), client.is_closed());

        let mut t = conn.begin().await?;
        sqlx::query("INSERT INTO fact VALUES ($1)").bind(id + 1).execute(&mut *t).await?;
        let (answer, _) = join!(t.commit(), stop(sqlx_pid));
        println!("{end} during COMMIT, sqlx: {answer:?}");
        let rows = admin.query("SELECT id FROM fact WHERE id >= 10 ORDER BY id", &[]).await?;
        println!("  rows that are there: {:?}", rows.iter().map(|r| r.get::<_, i32>(0)).collect::<Vec<_>>());
    }
    Ok(())
}
