//! Leases: which node gets a lane, when, and with which token.

use std::slice::from_ref;
use std::time::Duration;

use gapless_domain::{FencingToken, LaneCommit, Lease, LeaseTerms, SubmitterId, Timestamp};

use super::Harness;
use super::fixtures::*;
use crate::roles::{Accepted, Acquired, CommitVerdict, Renewal};

pub(super) async fn free_lane_is_acquired_with_token_one(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = submitter(1);
    let lease = acquire(&a, &lane).await;
    assert_eq!((lease.submitter(), lease.owner(), lease.token()), (&lane, a.owner(), FencingToken::new(1)));
}

pub(super) async fn owner_keeps_its_token_when_it_acquires_or_renews(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = submitter(1);
    let mut kept = 0;
    for _ in 0..10 {
        let first = Moment::of(&a, acquire(&a, &lane)).await;
        let again = Moment::of(&a, acquire(&a, &lane)).await;
        let renewal = a.renew().await.unwrap();
        if again.to < first.from.saturating_add(h.terms().duration) {
            assert_eq!(first.value, again.value);
            kept += 1;
        }
        let held = [renewal.extended, renewal.busy].concat();
        for lease in held.iter().filter(|lease| *lease.submitter() == lane) {
            assert_eq!(*lease, again.value);
        }
    }
    assert!(kept > 0, "{TOO_SLOW}");
}

/// proves N02
pub(super) async fn takeover_waits_for_expiry_and_skew_and_raises_token(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let (lane, terms) = (submitter(1), h.terms());
    let granted = Moment::of(&a, acquire(&a, &lane)).await;
    let free_from = granted.from.saturating_add(terms.duration + terms.clock_skew);
    let free_to = granted.to.saturating_add(terms.duration + terms.clock_skew);
    // The lease has expired now, and only the clock skew keeps it. The steps are small, so that none skips this time.
    h.pass(terms.duration).await;
    let taken = loop {
        let asked = Moment::of(&b, try_acquire(&b, &lane)).await;
        if let Acquired::Held(lease) = asked.value {
            assert!(asked.to > free_from, "taken over at {:?}, not free before {free_from:?}", asked.to);
            break lease;
        }
        assert!(asked.from <= free_to, "still refused at {:?}, free since {free_to:?}", asked.from);
        h.pass(terms.clock_skew / 4 + Duration::from_millis(1)).await;
    };
    assert!(taken.token() > granted.value.token());
}

/// proves N02
pub(super) async fn expired_lease_is_acquired_again_with_new_token(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = submitter(1);
    let mut last = acquire(&a, &lane).await;
    for _ in 0..2 {
        h.pass(h.terms().duration + Duration::from_millis(1)).await;
        let next = acquire(&a, &lane).await;
        assert!(next.token() > last.token());
        last = next;
    }
}

/// proves N01: by the database's clock, over a random schedule of three nodes
pub(super) async fn lane_has_one_owner_at_any_database_time(h: &dyn Harness) {
    let mut nodes = Vec::new();
    for name in ["a", "b", "c"] {
        nodes.push(h.node(name).await);
    }
    let mut schedule = Schedule {
        lane: submitter(1),
        terms: h.terms(),
        latest: vec![None; nodes.len()],
        nodes,
        held: None,
        token: FencingToken::new(0),
        takeovers: 0,
    };
    let (duration, skew) = (h.terms().duration, h.terms().clock_skew);
    let mut dice = Dice::new(2026);
    for _ in 0..80 {
        let who = dice.below(3) as usize;
        match dice.below(16) {
            0..=6 => schedule.acquire(who).await,
            7..=12 => schedule.write(who).await,
            13 => schedule.release(who).await,
            // Within a lease, or up to the time when only the skew keeps the lease, or later.
            14 => h.pass(duration.mul_f64(dice.below(100) as f64 / 100.0)).await,
            _ => h.pass(duration + skew * dice.below(5) as u32 / 3).await,
        }
    }
    assert!(schedule.takeovers > 0, "no lane was ever taken over");
}

/// The history of one lane with three nodes, and the rules that it must obey.
struct Schedule {
    lane: SubmitterId,
    terms: LeaseTerms,
    nodes: Vec<Node>,
    /// The last lease that each node was granted.
    latest: Vec<Option<Lease>>,
    /// The node that was granted or extended the lease last, and when; `None` after a release.
    held: Option<Moment<usize>>,
    token: FencingToken,
    takeovers: u32,
}

impl Schedule {
    async fn acquire(&mut self, who: usize) {
        let asked = Moment::of(&self.nodes[who], try_acquire(&self.nodes[who], &self.lane)).await;
        let span = self.terms.duration + self.terms.clock_skew;
        match (&asked.value, &self.held) {
            (Acquired::Held(lease), Some(held)) if held.value != who => {
                assert!(asked.to > held.from.saturating_add(span), "two holders at {:?}", asked.to);
                assert!(lease.token() > self.token);
                self.takeovers += 1;
            }
            (Acquired::Held(lease), Some(held)) if lease.token() == self.token => {
                assert!(asked.from < held.to.saturating_add(self.terms.duration), "an expired lease was renewed");
            }
            (Acquired::Held(lease), Some(held)) => {
                assert!(lease.token() > self.token);
                assert!(asked.to >= held.from.saturating_add(self.terms.duration), "a valid lease got a new token");
            }
            (Acquired::Held(lease), None) => assert!(lease.token() > self.token),
            (_, Some(held)) => {
                assert_ne!(held.value, who, "a node was refused its own lane");
                assert!(asked.from <= held.to.saturating_add(span), "a free lane was refused");
            }
            (refused, None) => panic!("a free lane was refused: {refused:?}"),
        }
        if let Acquired::Held(lease) = asked.value {
            self.token = lease.token();
            self.latest[who] = Some(lease);
            self.held = Some(Moment { value: who, from: asked.from, to: asked.to });
        }
    }

    /// A node that once had the lane tries to write it.
    async fn write(&mut self, who: usize) {
        let Some(lease) = self.latest[who].clone() else { return };
        let node = &self.nodes[who];
        let asked =
            Moment::of(node, async { node.commit(&[LaneCommit::new(&lease)]).await.unwrap().verdicts.remove(0) }).await;
        let held = self.held.as_ref().filter(|held| held.value == who && lease.token() == self.token);
        match (asked.value, held) {
            (CommitVerdict::Done, Some(held)) => {
                assert!(asked.from < held.to.saturating_add(self.terms.duration), "written with an expired lease");
                self.held = Some(Moment { value: who, from: asked.from, to: asked.to });
            }
            (CommitVerdict::Done, None) => panic!("{} wrote a lane that it does not hold", node.owner()),
            (CommitVerdict::Fenced, Some(held)) => {
                assert!(asked.to >= held.from.saturating_add(self.terms.duration), "the holder was fenced");
            }
            (CommitVerdict::Fenced | CommitVerdict::Busy, _) => {}
            (other, _) => panic!("{other:?}"),
        }
    }

    async fn release(&mut self, who: usize) {
        let Some(lease) = self.latest[who].clone() else { return };
        self.nodes[who].release(from_ref(&lease)).await.unwrap();
        if lease.token() == self.token {
            self.held = None;
        }
    }
}

/// proves N26: released and acquired many times, the token only grows
pub(super) async fn released_lane_is_free_at_once_and_tokens_only_grow(h: &dyn Harness) {
    let nodes = [h.node("a").await, h.node("b").await];
    let lane = submitter(1);
    let mut last = FencingToken::new(0);
    for round in 0..12 {
        let node = &nodes[round % 2];
        let lease = acquire(node, &lane).await;
        assert!(lease.token() > last, "round {round}");
        last = lease.token();
        node.release(&[lease]).await.unwrap();
    }
    let again = acquire(&nodes[1], &lane).await;
    assert!(again.token() > last, "a node acquires again after its own release");
}

pub(super) async fn release_of_lost_lease_leaves_new_owner_alone(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = submitter(1);
    let old = acquire(&a, &lane).await;
    a.release(from_ref(&old)).await.unwrap();
    for _ in 0..20 {
        let granted = Moment::of(&b, acquire(&b, &lane)).await;
        a.release(from_ref(&old)).await.unwrap();
        let again = Moment::of(&b, acquire(&b, &lane)).await;
        if again.to < granted.from.saturating_add(h.terms().duration) {
            assert_eq!(again.value, granted.value);
            return;
        }
    }
    panic!("{TOO_SLOW}")
}

/// proves N22
pub(super) async fn restarted_node_is_another_owner_than_its_old_process(h: &dyn Harness) {
    let (old_process, restarted) = (h.node("node-a").await, h.node("node-a").await);
    assert_ne!(old_process.owner(), restarted.owner());
    let lane = submitter(1);
    let old = acquire(&old_process, &lane).await;
    let new = take_over(h, &restarted, &lane).await;
    assert!(new.token() > old.token());
    let verdict = old_process.commit(&[LaneCommit::new(&old)]).await.unwrap().verdicts.remove(0);
    assert_eq!(verdict, CommitVerdict::Fenced);
    assert!(old_process.renew().await.unwrap().extended.iter().all(|lease| *lease.submitter() != lane));
}

/// proves N23
pub(super) async fn address_in_two_letter_cases_is_one_lane(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let checksummed = submitter(1);
    let lower: SubmitterId = checksummed.as_str().to_lowercase().parse().unwrap();
    register(&a, from_ref(&checksummed)).await;
    register(&b, from_ref(&lower)).await;
    assert_eq!(a.submitters().await.unwrap().len(), 1);

    let id = accept(&a, &checksummed, &["r"]).await[0];
    assert_eq!(b.accept(&[new_intent(&lower, "r")]).await.unwrap(), [Accepted::Existing(id)]);
    let first = acquire(&a, &checksummed).await;
    let second = take_over(h, &b, &lower).await;
    assert!(second.token() > first.token(), "two spellings held two leases");
    b.release(&[second]).await.unwrap();

    bind_next(&a, &checksummed).await;
    let lease = acquire(&a, &lower).await;
    a.release(&[lease]).await.unwrap();
    assert_eq!(view(&b, &lower).await.cursor.next_nonce, nonce(1));
}

pub(super) async fn renewal_lists_exactly_the_held_leases(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lanes = submitters(1..5);
    let others = acquire(&b, &lanes[3]).await;
    // One round is enough. On a slow machine a lease may expire between the calls; then the round is repeated.
    for _ in 0..20 {
        let from = database_now(&a).await;
        let mut held = Vec::new();
        for lane in &lanes[..3] {
            held.push(acquire(&a, lane).await);
        }
        let released = held.remove(1);
        a.release(&[released]).await.unwrap();
        let renewal = a.renew().await.unwrap();
        let to = database_now(&a).await;
        if to >= from.saturating_add(h.terms().duration) {
            continue;
        }
        let mut renewed = [renewal.extended, renewal.busy].concat();
        renewed.retain(|lease| lanes.contains(lease.submitter()));
        renewed.sort_by(|x, y| x.submitter().cmp(y.submitter()));
        held.sort_by(|x, y| x.submitter().cmp(y.submitter()));
        assert_eq!(renewed, held);
        assert!(!renewed.contains(&others));

        h.pass(h.terms().duration + Duration::from_millis(1)).await;
        let renewal = a.renew().await.unwrap();
        assert_eq!(renewal, Renewal::default(), "an expired lease is lost");
        return;
    }
    panic!("{TOO_SLOW}")
}

pub(super) async fn commit_extends_its_lease(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let (lane, terms) = (lane(&a, 1).await, h.terms());
    for _ in 0..20 {
        let lease = acquire(&a, &lane).await;
        h.pass(terms.duration.mul_f64(0.6)).await;
        let done =
            Moment::of(&a, async { a.commit(&[LaneCommit::new(&lease)]).await.unwrap().verdicts.remove(0) }).await;
        if done.value != CommitVerdict::Done {
            continue;
        }
        h.pass(terms.duration.mul_f64(0.6)).await;
        let asked = Moment::of(&b, try_acquire(&b, &lane)).await;
        if asked.to <= done.from.saturating_add(terms.duration + terms.clock_skew) {
            assert_eq!(asked.value, Acquired::HeldByOther);
            return;
        }
        if let Acquired::Held(lease) = asked.value {
            b.release(&[lease]).await.unwrap();
        }
    }
    panic!("{TOO_SLOW}")
}

pub(super) async fn acquire_answers_each_lane_in_order(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lanes = submitters(1..7);
    for _ in 0..20 {
        let held = Moment::of(&a, a.acquire(&lanes[..2])).await;
        let mut order = lanes.clone();
        order.reverse();
        let answers = Moment::of(&b, b.acquire(&order)).await;
        if answers.to >= held.from.saturating_add(h.terms().duration + h.terms().clock_skew) {
            h.pass(h.terms().duration + h.terms().clock_skew + Duration::from_millis(1)).await;
            continue;
        }
        let answers = answers.value.unwrap();
        assert_eq!(answers.len(), order.len());
        for (lane, answer) in order.iter().zip(answers) {
            match answer {
                Acquired::Held(lease) => assert!(lease.submitter() == lane && !lanes[..2].contains(lane)),
                Acquired::HeldByOther => assert!(lanes[..2].contains(lane)),
                Acquired::Busy => {}
            }
        }
        assert_eq!(b.acquire(&[]).await.unwrap(), []);
        return;
    }
    panic!("{TOO_SLOW}")
}

/// The result of a call, with the database's time before and after it.
#[derive(Clone, Debug)]
struct Moment<T> {
    value: T,
    from: Timestamp,
    to: Timestamp,
}

impl<T> Moment<T> {
    async fn of(node: &Node, call: impl Future<Output = T>) -> Self {
        let from = database_now(node).await;
        let value = call.await;
        Moment { value, from, to: database_now(node).await }
    }
}
