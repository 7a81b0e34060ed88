//! The network. A request that was sent arrives and is served, also when the process that sent it has ended.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::dice::Dice;
use crate::stage::{Stage, TaskOwner};

/// The network between processes and one server. Clones share its dice.
#[derive(Clone, Debug)]
pub struct Net {
    stage: Stage,
    dice: Arc<Mutex<Dice>>,
    usual: Duration,
}

/// The travel times of a request and of its answer.
#[derive(Clone, Copy, Debug)]
pub struct TravelTime {
    pub there: Duration,
    pub back: Duration,
}

impl Net {
    pub fn new(stage: Stage, dice: Dice, usual: Duration) -> Self {
        Net { stage, dice: Arc::new(Mutex::new(dice)), usual }
    }

    pub fn stage(&self) -> &Stage {
        &self.stage
    }

    pub fn roll<T>(&self, with: impl FnOnce(&mut Dice) -> T) -> T {
        with(&mut self.dice.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn travel_time(&self) -> TravelTime {
        let usual = self.usual;
        self.roll(|dice| TravelTime { there: dice.latency(usual), back: dice.latency(usual) })
    }

    /// Runs `work` at the server when the request has arrived. The answer travels back; it is dropped if the requesting
    /// process has ended.
    pub async fn ask<T: Send + 'static>(
        &self,
        travel_time: TravelTime,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let (answer, answered) = oneshot::channel();
        let stage = self.stage.clone();
        self.stage.spawn(TaskOwner::World, async move {
            stage.sleep(travel_time.there).await;
            let done = work();
            stage.sleep(travel_time.back).await;
            let _ = answer.send(done);
        });
        match answered.await {
            Ok(done) => done,
            // The tasks of the world end before their work is done only when the whole world ends.
            Err(_) => std::future::pending().await,
        }
    }
}
