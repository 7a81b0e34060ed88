//! The conformance suite of the chain contract, on the chain of a process and on the chain of a test.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use gapless_chain::conformance::{Harness, Lack};
use gapless_domain::{Action, EvmCall, Fees, Nonce, TxPlan, Work};
use tokio::task::JoinSet;

use super::endpoint::EndpointCondition;
use super::*;
use crate::fault::Odds;
use crate::testing::PausedDriver;

/// More accounts than one case needs.
const ACCOUNTS: usize = 8;
/// Longer than gossip takes, and than a block takes to every endpoint.
const SETTLED: Duration = Duration::from_secs(2);
/// Longer than an endpoint that did not answer is avoided.
const NOT_AVOIDED: Duration = Duration::from_secs(5);
const GWEI: u128 = 1_000_000_000;
/// Effects: of a call that succeeds, of one that fails in a block, and of one whose estimate reverts while an earlier
/// effect is pooled.
const SUCCEEDS: u64 = 4;
const FAILS: u64 = 3;
const TOO_EARLY: u64 = 5;

fn lanes() -> Vec<SubmitterId> {
    (1..=ACCOUNTS).map(|number| format!("eip155:31337:0x{number:040x}").parse().unwrap()).collect()
}

/// An action that reverts as long as an earlier effect of the account is pooled.
async fn reverting_action(chain: &dyn Chain, from: &SubmitterId) -> Action {
    let nonce = chain.accounts(std::slice::from_ref(from), None).await.unwrap()[0].pending;
    let fees = Fees::Eip1559 { max_fee: 10 * GWEI, max_priority_fee: GWEI };
    let call = action(SUCCEEDS);
    let plan = TxPlan { submitter: from.clone(), nonce, action: call, work: Work::new(60_000), fees };
    chain.broadcast(&[sign(&plan)]).await;
    action(TOO_EARLY)
}

mod scripted_chain {
    use super::*;

    struct OnScript {
        chain: Arc<ScriptedChain>,
        lanes: Vec<SubmitterId>,
        next: AtomicUsize,
    }

    fn fresh() -> OnScript {
        let lanes = lanes();
        OnScript { chain: ScriptedChain::new(&lanes, PausedDriver::start()), lanes, next: AtomicUsize::new(0) }
    }

    #[async_trait]
    impl Harness for OnScript {
        fn chain(&self) -> Arc<dyn Chain> {
            self.chain.clone()
        }

        async fn account(&self) -> SubmitterId {
            self.lanes[self.next.fetch_add(1, Ordering::Relaxed)].clone()
        }

        async fn sign(&self, plan: &TxPlan) -> SignedTx {
            sign(plan)
        }

        async fn send_foreign(&self, from: &SubmitterId, nonce: Nonce) -> B256 {
            self.chain.foreign(from, nonce.get())
        }

        async fn mine(&self) {
            self.chain.mine();
        }

        async fn reverting_action(&self, from: &SubmitterId) -> Action {
            reverting_action(&*self.chain, from).await
        }

        fn failing_action(&self) -> Action {
            action(FAILS)
        }

        async fn reorg(&self) -> Result<(), Lack> {
            self.chain.reorg(1, false);
            Ok(())
        }

        async fn cut(&self) -> Result<(), Lack> {
            self.chain.script(|script| script.unreachable = true);
            Ok(())
        }

        async fn restore(&self) {
            self.chain.script(|script| script.unreachable = false);
        }
    }

    gapless_chain::conformance_suite!(fresh());
}

mod process_chain {
    use super::*;

    /// A process with two endpoints, on a stage that a task steps.
    struct OnStage {
        stage: Stage,
        world: Arc<ChainWorld>,
        chain: Arc<dyn Chain>,
        lanes: Vec<SubmitterId>,
        next: AtomicUsize,
        _stepping: JoinSet<()>,
    }

    fn fresh() -> OnStage {
        let plan = WorldSpec { endpoints: 2, odds: Odds::new(), ..WorldSpec::of(1) };
        let (stage, lanes) = (Stage::default(), lanes());
        let history = History::new(stage.clone());
        let world = ChainWorld::new(&plan, &lanes, stage.clone(), history.clone());
        world.enter(|state, now| state.calm_down(now));
        let net = Net::new(stage.clone(), Dice::new(1, "conformance"), Duration::from_millis(20));
        let chain = world.client(net, Faults::new(1, &plan.odds), history, OwnerId::new("conformance", 1));
        let (stepped, mut dice) = (stage.clone(), Dice::new(1, "order"));
        let mut stepping = JoinSet::new();
        stepping.spawn(async move {
            loop {
                stepped.step(&mut dice);
                tokio::task::yield_now().await;
            }
        });
        OnStage { stage, world, chain, lanes, next: AtomicUsize::new(0), _stepping: stepping }
    }

    #[async_trait]
    impl Harness for OnStage {
        fn chain(&self) -> Arc<dyn Chain> {
            Arc::clone(&self.chain)
        }

        async fn account(&self) -> SubmitterId {
            self.lanes[self.next.fetch_add(1, Ordering::Relaxed)].clone()
        }

        async fn sign(&self, plan: &TxPlan) -> SignedTx {
            sign(plan)
        }

        async fn send_foreign(&self, from: &SubmitterId, nonce: Nonce) -> B256 {
            let call = EvmCall { data: Bytes::from_static(b"foreign"), ..EvmCall::default() };
            let fees = Fees::Eip1559 { max_fee: 100 * GWEI, max_priority_fee: 9 * GWEI };
            let plan = TxPlan { submitter: from.clone(), nonce, action: call.into(), work: Work::new(50_000), fees };
            let tx = sign_as_stranger(&plan);
            assert!(self.world.submit_outside(&tx.raw));
            self.stage.sleep(SETTLED).await;
            tx.hash
        }

        async fn mine(&self) {
            self.stage.sleep(SETTLED).await;
            self.world.enter(|state, now| state.mine_block(false, now));
            self.stage.sleep(SETTLED).await;
        }

        async fn reverting_action(&self, from: &SubmitterId) -> Action {
            reverting_action(&*self.chain, from).await
        }

        fn failing_action(&self) -> Action {
            action(FAILS)
        }

        async fn reorg(&self) -> Result<(), Lack> {
            self.world.enter(|state, now| {
                state.cut(1, now);
                (0..2).for_each(|_| state.put_block(Vec::new(), now));
            });
            self.stage.sleep(SETTLED).await;
            Ok(())
        }

        async fn cut(&self) -> Result<(), Lack> {
            let down = EndpointCondition::Down { gateway: false, until: Duration::MAX };
            self.world.enter(|state, _| state.endpoints.iter_mut().for_each(|endpoint| endpoint.put(down)));
            Ok(())
        }

        async fn restore(&self) {
            self.world.enter(|state, _| state.heal_endpoints());
            self.stage.sleep(NOT_AVOIDED).await;
        }
    }

    gapless_chain::conformance_suite!(fresh());
}
