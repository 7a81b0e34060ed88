//! Wake-ups between nodes: LISTEN and NOTIFY on a connection of their own.
//!
//! A notification is sent after the commit that it tells of, never inside: inside, it serializes all commits of the server.
//! While one is under way the next gather, one for each lane and
//! channel, and go in one statement. A connection that is lost is made anew, and then every
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

/// "Look at this lane's queue and commands": for whoever holds it, or may take it.
const WORK: &str = "gapless_wake";
/// "Something of this lane was written": for whoever waits for its intents.
const CHANGED: &str = "gapless_changed";
/// Any lane.
const EVERYWHERE: &str = "*";

const NOTIFY: &str = "SELECT pg_notify(n.channel, n.lane) FROM unnest($1::text[], $2::text[]) AS n (channel, lane)";

#[derive(Debug)]
pub(crate) struct Notifier {
    /// What this process is told.
    here: Arc<Boards>,
    /// What is to be told to other nodes; the task below is its listener.
    outbox: Arc<Boards>,
    /// No other process was alive at the last renewal, and none has been heard of since: then there is nobody to tell, and a
    /// notification costs the server as much as a commit. A process that begins announces itself, which ends this.
    alone: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

/// One for each channel.
#[derive(Debug, Default)]
struct Boards {
    work: WakeBoard,
    changed: WakeBoard,
}

impl Boards {
    fn look_everywhere(&self) {
        self.work.post(&Wakeup::Everywhere);
        self.changed.post(&Wakeup::Everywhere);
    }
}

impl Notifier {
    pub(crate) fn start(config: Config, options: PgOptions) -> Self {
        let (here, outbox) = (Arc::new(Boards::default()), Arc::new(Boards::default()));
        let alone = Arc::new(AtomicBool::new(false));
        let mut outgoing = Outgoing { work: outbox.work.listen(), changed: outbox.changed.listen() };
        let (incoming, unsent, company) = (Arc::clone(&here), Arc::clone(&outbox), Arc::clone(&alone));
        let keep_connected = async move {
            loop {
                if let Err(error) = relay(&config, &options, &mut outgoing, &incoming, &company).await {
                    tracing::warn!("the wake-up connection was lost: {error}");
                    // Some may have been taken out and not sent.
                    unsent.look_everywhere();
                }
                #[expect(clippy::disallowed_methods, reason = "a server that is away is not asked in a tight loop")]
                tokio::time::sleep(options.reconnect_pause).await;
            }
        };
        #[expect(clippy::disallowed_methods, reason = "the wake-up connection lives as long as its store")]
        let task = tokio::spawn(keep_connected);
        Notifier { here, outbox, alone, task }
    }

    pub(crate) fn wakeups(&self) -> Wakeups {
        self.here.work.listen()
    }

    pub(crate) fn changes(&self) -> Wakeups {
        self.here.changed.listen()
    }

    /// There is work in these lanes. Tells this process at once, and the others soon.
    pub(crate) fn wake(&self, lanes: BTreeSet<SubmitterId>) {
        self.post(lanes, |boards| &boards.work);
    }

    /// Something of these lanes was written.
    pub(crate) fn tell(&self, lanes: BTreeSet<SubmitterId>) {
        self.post(lanes, |boards| &boards.changed);
    }

    fn post(&self, lanes: BTreeSet<SubmitterId>, board: impl Fn(&Boards) -> &WakeBoard) {
        let alone = self.alone.load(Ordering::SeqCst);
        for lane in lanes {
            let wakeup = Wakeup::Lane(lane);
            board(&self.here).post(&wakeup);
            if !alone {
                board(&self.outbox).post(&wakeup);
            }
        }
    }

    pub(crate) fn set_alone(&self, alone: bool) {
        self.alone.store(alone, Ordering::SeqCst);
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

/// What waits to be told to others.
struct Outgoing {
    work: Wakeups,
    changed: Wakeups,
}

/// What one statement tells: channels, and beside each a lane.
#[derive(Default)]
struct Round {
    channels: Vec<&'static str>,
    lanes: Vec<String>,
}

impl Outgoing {
    /// Waits for something to tell, and takes everything that has gathered, of both channels. Dropping the future loses
    /// nothing: after its only wait it does not stop again.
    async fn next(&mut self) -> Round {
        let mut round = Round::default();
        tokio::select! {
            wakeup = self.work.next() => round.add(WORK, wakeup),
            wakeup = self.changed.next() => round.add(CHANGED, wakeup),
        }
        while let Some(wakeup) = self.work.try_next() {
            round.add(WORK, wakeup);
        }
        while let Some(wakeup) = self.changed.try_next() {
            round.add(CHANGED, wakeup);
        }
        round
    }
}

impl Round {
    fn add(&mut self, channel: &'static str, wakeup: Wakeup) {
        self.channels.push(channel);
        self.lanes.push(match wakeup {
            Wakeup::Lane(lane) => lane.as_str().to_owned(),
            Wakeup::Everywhere => EVERYWHERE.to_owned(),
        });
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
    outgoing: &mut Outgoing,
    here: &Boards,
    alone: &AtomicBool,
) -> Result<(), StoreError> {
    let (session, mut incoming) = Session::open_listening(config, options).await?;
    let own_pid = within(options.call_timeout, "listening", async {
        // A notification is a transaction too. It needs no durability, and must not wait for the disk beside those that do.
        // And this one tells the others that somebody is there.
        let listen =
            format!("SET synchronous_commit = off; LISTEN {WORK}; LISTEN {CHANGED}; NOTIFY {WORK}, '{EVERYWHERE}'");
        session.client().batch_execute(&listen).await.map_err(unavailable)?;
        let row = session.client().query_one("SELECT pg_backend_pid()", &[]).await.map_err(unavailable)?;
        Ok(row.get::<_, i32>(0))
    })
    .await?;
    // Whatever came before we listened was missed.
    here.look_everywhere();
    loop {
        tokio::select! {
            notification = incoming.recv() => match notification {
                Some(notification) if notification.process_id() == own_pid => {}
                Some(notification) => {
                    alone.store(false, Ordering::SeqCst);
                    post(&notification, here);
                }
                None => return Ok(()),
            },
            round = outgoing.next() => {
                within(options.call_timeout, "notifying", round.send(&session)).await?;
            }
        }
    }
}

fn post(notification: &Notification, here: &Boards) {
    let board = if notification.channel() == CHANGED { &here.changed } else { &here.work };
    match notification.payload().parse() {
        Ok(lane) => board.post(&Wakeup::Lane(lane)),
        // "*", or something newer than we are.
        Err(_) => board.post(&Wakeup::Everywhere),
    }
}
