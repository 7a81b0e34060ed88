//! Databases and intents for the measurements.

use std::sync::Arc;

use gapless_domain::{Address, Intent, OwnerId, SubmitterId};
use gapless_store::{NewSubmitter, Store};
use gapless_store_postgres::{PgOptions, PgStore};
use gapless_testbed::Postgres;
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

pub(crate) struct Fixture {
    pub(crate) url: String,
    pub(crate) store: Arc<PgStore>,
    pub(crate) lanes: Vec<SubmitterId>,
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        let base = Postgres::shared_url().unwrap();
        let name = format!("bench_{}", Uuid::new_v4().simple());
        let admin = connect(&format!("{base}/postgres")).await;
        admin.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        let url = format!("{base}/{name}");
        let owner = OwnerId::new("bench", Uuid::new_v4().as_u128());
        let store = Arc::new(PgStore::open(&url, owner, PgOptions::default()).await.unwrap());
        let lanes: Vec<SubmitterId> = (1..=64).map(submitter).collect();
        let new: Vec<_> = lanes.iter().map(|id| NewSubmitter { id: id.clone(), alias: None }).collect();
        store.register_submitters(&new).await.unwrap();
        // A running node renews every few seconds, and learns that it is alone.
        store.renew().await.unwrap();
        Fixture { url, store, lanes }
    }
}

pub(crate) fn submitter(n: u64) -> SubmitterId {
    let mut bytes = [0x5a; 20];
    bytes[..8].copy_from_slice(&n.to_be_bytes());
    format!("eip155:31337:{}", Address::from(bytes)).parse().unwrap()
}

/// A token transfer, like most intents.
pub(crate) fn intent(lane: &SubmitterId) -> Intent {
    gapless_bench_cluster::raw::intent(lane).unwrap()
}

pub(crate) async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}
