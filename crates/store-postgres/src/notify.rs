//! Wake-ups between nodes: LISTEN and NOTIFY on a connection of their own.
//!
//! A notification is sent after the commit that it tells of, never inside: inside, it serializes all commits of the server.
//! While one is under way the next gather, one for each lane. A connection that is lost is made anew, and then every
//! listener is told to look everywhere; the sweep finds what was missed in between.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gapless_domain::SubmitterId;
use gapless_store::{StoreError, WakeBoard, Wakeup, Wakeups};
use tokio::task::JoinHandle;
use tokio_postgres::{Config, Notification};

use crate::error::unavailable;
use crate::options::PgOptions;
use crate::session::{Session, within};

const NOTIFY: &str = "SELECT pg_notify('gapless_wake', lane) FROM unnest($1::text[]) AS lane";

#[derive(Debug)]
pub(crate) struct Notifier {
    /// What is to be told to other nodes; the task below is its listener.
    outbox: Arc<WakeBoard>,
    board: Arc<WakeBoard>,
    /// No other process was alive at the last renewal, and none has been heard of since: then there is nobody to tell, and a
    /// notification costs the server as much as a commit. A process that begins announces itself, which ends this.
    alone: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Notifier {
    pub(crate) fn start(config: Config, options: PgOptions, board: Arc<WakeBoard>) -> Self {
        let outbox = Arc::new(WakeBoard::default());
        let mut outgoing = outbox.listen();
        let incoming = Arc::clone(&board);
        let unsent = Arc::clone(&outbox);
        let alone = Arc::new(AtomicBool::new(false));
        let company = Arc::clone(&alone);
        let keep_connected = async move {
            loop {
                if let Err(error) = relay(&config, &options, &mut outgoing, &incoming, &company).await {
                    tracing::warn!("the wake-up connection was lost: {error}");
                    // Some may have been taken out and not sent.
                    unsent.post(&Wakeup::Everywhere);
                }
                #[expect(clippy::disallowed_methods, reason = "a server that is away is not asked in a tight loop")]
                tokio::time::sleep(options.reconnect_pause).await;
            }
        };
        #[expect(clippy::disallowed_methods, reason = "the wake-up connection lives as long as its store")]
        let task = tokio::spawn(keep_connected);
        Notifier { outbox, board, alone, task }
    }

    /// Tells this process at once, and the others soon.
    pub(crate) fn wake(&self, lanes: BTreeSet<SubmitterId>) {
        for lane in lanes {
            let wakeup = Wakeup::Lane(lane);
            self.board.post(&wakeup);
            if !self.alone.load(Ordering::SeqCst) {
                self.outbox.post(&wakeup);
            }
        }
    }

    pub(crate) fn set_alone(&self, alone: bool) {
        self.alone.store(alone, Ordering::SeqCst);
    }

    pub(crate) fn wake_others(&self, lanes: BTreeSet<SubmitterId>) {
        for lane in lanes {
            self.outbox.post(&Wakeup::Lane(lane));
        }
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn relay(
    config: &Config,
    options: &PgOptions,
    outgoing: &mut Wakeups,
    board: &WakeBoard,
    alone: &AtomicBool,
) -> Result<(), StoreError> {
    let (session, mut incoming) = Session::open_listening(config, options).await?;
    let own_pid = within(options.call_timeout, "listening", async {
        // A notification is a transaction too. It needs no durability, and must not wait for the disk beside those that do.
        // And this one tells the others that somebody is there.
        let listen = "SET synchronous_commit = off; LISTEN gapless_wake; NOTIFY gapless_wake, '*'";
        session.client().batch_execute(listen).await.map_err(unavailable)?;
        let row = session.client().query_one("SELECT pg_backend_pid()", &[]).await.map_err(unavailable)?;
        Ok(row.get::<_, i32>(0))
    })
    .await?;
    // Whatever came before we listened was missed.
    board.post(&Wakeup::Everywhere);
    loop {
        tokio::select! {
            notification = incoming.recv() => match notification {
                Some(notification) if notification.process_id() == own_pid => {}
                Some(notification) => {
                    alone.store(false, Ordering::SeqCst);
                    post(&notification, board);
                }
                None => return Ok(()),
            },
            first = outgoing.next() => {
                within(options.call_timeout, "notifying", send(&session, first, outgoing)).await?;
            }
        }
    }
}

fn post(notification: &Notification, board: &WakeBoard) {
    match notification.payload().parse() {
        Ok(lane) => board.post(&Wakeup::Lane(lane)),
        // "*", or something newer than we are.
        Err(_) => board.post(&Wakeup::Everywhere),
    }
}

/// Everything that has gathered, in one round trip.
async fn send(session: &Session, first: Wakeup, outgoing: &mut Wakeups) -> Result<(), StoreError> {
    let mut lanes = Vec::new();
    let mut next = Some(first);
    while let Some(wakeup) = next {
        match wakeup {
            Wakeup::Lane(lane) => lanes.push(lane.as_str().to_owned()),
            Wakeup::Everywhere => lanes.push("*".to_owned()),
        }
        next = outgoing.try_next();
    }
    let statement = session.prepared(NOTIFY).await.map_err(unavailable)?;
    session.client().query(&statement, &[&lanes]).await.map_err(unavailable)?;
    Ok(())
}
