//! Wake-ups between nodes: LISTEN and NOTIFY on a connection of their own.
//!
//! A notification is sent after the commit that it tells of. Inside the transaction it would serialize all commits of
//! the server. While one notification is under way, the next ones gather, at most one for each lane and channel, and go
//! in one statement. After a lost connection every listener is woken for all lanes; the sweep finds the work that was
//! missed.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gapless_domain::SubmitterId;
use gapless_store::{StoreError, WakeBoard, Wakeup, Wakeups};
use tokio::task::JoinHandle;
use tokio_postgres::{Config, Notification};

use crate::error::unavailable;
use crate::options::PgOptions;
use crate::session::{Session, within};

/// The channel for work: the owner of the lane, or a node that may acquire it, looks at its queue and commands.
const WORK: &str = "gapless_wake";
/// The channel for changes of queued intents without their lane: the node that runs the lane reads its queue.
const QUEUE_CHANGED: &str = "gapless_queue";
/// The channel for changes: callers that wait for intents of the lane read them again.
const CHANGED: &str = "gapless_changed";
/// The payload that stands for all lanes.
const EVERYWHERE: &str = "*";

const NOTIFY: &str = "SELECT pg_notify(n.channel, n.lane) FROM unnest($1::text[], $2::text[]) AS n (channel, lane)";

#[derive(Debug)]
pub(crate) struct Notifier {
    /// Wake-ups for this process.
    here: Arc<Boards>,
    /// Wake-ups for other nodes, which the task sends.
    outbox: Arc<Boards>,
    peers: Arc<Peers>,
    task: JoinHandle<()>,
}

/// Whether other processes exist. A process that is alone sends no notification, because one costs the server as much
/// as a commit. A process that starts announces itself.
#[derive(Debug, Default)]
pub(crate) struct Peers(Mutex<PeerState>);

#[derive(Debug, Default)]
struct PeerState {
    /// No other process was alive at the last renewal, and no notification came since.
    is_alone: bool,
    /// Number of notifications from other processes.
    received: u64,
}

impl Peers {
    /// The number of notifications so far. A search for other processes begins with it.
    pub(crate) fn received(&self) -> u64 {
        self.state().received
    }

    /// The search that began at `received` found other processes or none. Another process may have announced itself
    /// after the search has read the table; then this process is not alone.
    pub(crate) fn found(&self, others: bool, received: u64) {
        let mut state = self.state();
        state.is_alone = !others && state.received == received;
    }

    fn receive(&self) {
        let mut state = self.state();
        state.is_alone = false;
        state.received += 1;
    }

    fn is_alone(&self) -> bool {
        self.state().is_alone
    }

    fn state(&self) -> MutexGuard<'_, PeerState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One board for each channel.
#[derive(Debug, Default)]
struct Boards {
    work: WakeBoard,
    changed: WakeBoard,
}

impl Boards {
    fn wake_all_lanes(&self) {
        self.work.post(&Wakeup::Everywhere);
        self.changed.post(&Wakeup::Everywhere);
    }
}

impl Notifier {
    pub(crate) fn start(config: Config, options: PgOptions) -> Self {
        let (here, outbox) = (Arc::new(Boards::default()), Arc::new(Boards::default()));
        let peers = Arc::new(Peers::default());
        let mut outgoing = PendingNotices { work: outbox.work.listen(), changed: outbox.changed.listen() };
        let (incoming, unsent, known) = (Arc::clone(&here), Arc::clone(&outbox), Arc::clone(&peers));
        let keep_connected = async move {
            loop {
                if let Err(error) = relay(&config, &options, &mut outgoing, &incoming, &known).await {
                    tracing::warn!(%error, "wake-up connection lost");
                    // Some wake-ups may have been taken from the outbox and not sent.
                    unsent.wake_all_lanes();
                }
                #[expect(clippy::disallowed_methods, reason = "a server that is away is not asked in a tight loop")]
                tokio::time::sleep(options.reconnect_pause).await;
            }
        };
        #[expect(clippy::disallowed_methods, reason = "the wake-up connection lives as long as its store")]
        let task = tokio::spawn(keep_connected);
        Notifier { here, outbox, peers, task }
    }

    pub(crate) fn wakeups(&self) -> Wakeups {
        self.here.work.listen()
    }

    pub(crate) fn changes(&self) -> Wakeups {
        self.here.changed.listen()
    }

    /// Wakes this process at once, and the others soon: there is work in these lanes.
    pub(crate) fn wake(&self, lanes: BTreeSet<SubmitterId>) {
        self.post(lanes.into_iter().map(Wakeup::Lane), |boards| &boards.work);
    }

    /// Wakes this process at once, and the others soon: queued intents of these lanes were changed.
    pub(crate) fn queue_changed(&self, lanes: BTreeSet<SubmitterId>) {
        self.post(lanes.into_iter().map(Wakeup::QueueChanged), |boards| &boards.work);
    }

    /// Tells this process at once, and the others soon, that these lanes were written.
    pub(crate) fn tell(&self, lanes: BTreeSet<SubmitterId>) {
        self.post(lanes.into_iter().map(Wakeup::Lane), |boards| &boards.changed);
    }

    fn post(&self, wakeups: impl Iterator<Item = Wakeup>, board: impl Fn(&Boards) -> &WakeBoard) {
        let alone = self.peers.is_alone();
        for wakeup in wakeups {
            board(&self.here).post(&wakeup);
            if !alone {
                board(&self.outbox).post(&wakeup);
            }
        }
    }

    pub(crate) fn peers(&self) -> &Peers {
        &self.peers
    }

    pub(crate) fn wake_others(&self, lanes: BTreeSet<SubmitterId>) {
        for lane in lanes {
            self.outbox.work.post(&Wakeup::Lane(lane));
        }
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The wake-ups that wait to be sent to other nodes.
struct PendingNotices {
    work: Wakeups,
    changed: Wakeups,
}

/// The wake-ups of one statement: channels, and beside each a lane.
#[derive(Default)]
struct Notifications {
    channels: Vec<&'static str>,
    lanes: Vec<String>,
}

impl PendingNotices {
    /// Waits for a wake-up, and takes all that have gathered in both channels. Dropping the future loses none: after
    /// its only wait it runs to its end.
    async fn next(&mut self) -> Notifications {
        let mut batch = Notifications::default();
        tokio::select! {
            wakeup = self.work.next() => batch.add(WORK, wakeup),
            wakeup = self.changed.next() => batch.add(CHANGED, wakeup),
        }
        while let Some(wakeup) = self.work.try_next() {
            batch.add(WORK, wakeup);
        }
        while let Some(wakeup) = self.changed.try_next() {
            batch.add(CHANGED, wakeup);
        }
        batch
    }
}

impl Notifications {
    fn add(&mut self, channel: &'static str, wakeup: Wakeup) {
        let (channel, lane) = match wakeup {
            Wakeup::Lane(lane) => (channel, lane.as_str().to_owned()),
            Wakeup::QueueChanged(lane) => (QUEUE_CHANGED, lane.as_str().to_owned()),
            Wakeup::Everywhere => (channel, EVERYWHERE.to_owned()),
        };
        self.channels.push(channel);
        self.lanes.push(lane);
    }

    async fn send(&self, session: &Session) -> Result<(), StoreError> {
        let statement = session.prepared(NOTIFY).await.map_err(unavailable)?;
        session.client().query(&statement, &[&self.channels, &self.lanes]).await.map_err(unavailable)?;
        Ok(())
    }
}

async fn relay(
    config: &Config,
    options: &PgOptions,
    outgoing: &mut PendingNotices,
    here: &Boards,
    peers: &Peers,
) -> Result<(), StoreError> {
    let (session, mut incoming) = Session::open_listening(config, options).await?;
    let own_pid = within(options.call_timeout, "listening", async {
        // A notification is a transaction, which needs no durability and must not wait for the disk. The first one
        // tells other nodes that this one exists.
        let listen = format!(
            "SET synchronous_commit = off; LISTEN {WORK}; LISTEN {QUEUE_CHANGED}; LISTEN {CHANGED}; \
             NOTIFY {WORK}, '{EVERYWHERE}'"
        );
        session.client().batch_execute(&listen).await.map_err(unavailable)?;
        let row = session.client().query_one("SELECT pg_backend_pid()", &[]).await.map_err(unavailable)?;
        Ok(row.get::<_, i32>(0))
    })
    .await?;
    // Notifications before LISTEN were missed.
    here.wake_all_lanes();
    loop {
        tokio::select! {
            notification = incoming.recv() => match notification {
                Some(notification) if notification.process_id() == own_pid => {}
                Some(notification) => {
                    peers.receive();
                    post(&notification, here);
                }
                None => return Ok(()),
            },
            batch = outgoing.next() => {
                within(options.call_timeout, "notifying", batch.send(&session)).await?;
            }
        }
    }
}

fn post(notification: &Notification, here: &Boards) {
    let board = if notification.channel() == CHANGED { &here.changed } else { &here.work };
    match notification.payload().parse() {
        Ok(lane) if notification.channel() == QUEUE_CHANGED => board.post(&Wakeup::QueueChanged(lane)),
        Ok(lane) => board.post(&Wakeup::Lane(lane)),
        // The payload stands for all lanes, or comes from a newer release.
        Err(_) => board.post(&Wakeup::Everywhere),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_that_starts_during_the_search_is_not_overlooked() {
        let peers = Peers::default();
        assert!(!peers.is_alone(), "not known before the first renewal");
        let received = peers.received();
        peers.found(false, received);
        assert!(peers.is_alone());
        let received = peers.received();
        peers.receive();
        peers.found(false, received);
        assert!(!peers.is_alone());
        peers.found(false, peers.received());
        assert!(peers.is_alone(), "the other process has ended");
        peers.found(true, peers.received());
        assert!(!peers.is_alone());
    }
}
