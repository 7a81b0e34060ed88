use super::*;
use crate::endpoint::now;

const LIMITS: LagLimits = LagLimits { lag_max: 3, head_age_max: Duration::from_secs(30) };

fn at(head: u64) -> EndpointFacts {
    let now = now();
    let head = ReportedHead { number: head, hash: None, reported_at: now, changed_at: now, has_header: true };
    EndpointFacts {
        view: EndpointSnapshot {
            connectivity: Connectivity::Up,
            weight: 1,
            is_retry_due: true,
            is_check_due: false,
            is_rate_limited: false,
            has_retry_after: false,
            has_last_request_failed: false,
            is_flipping: false,
            head: Some(head),
        },
        overtaken_at: None,
        takes_sends: true,
    }
}

fn but(mut facts: EndpointFacts, change: impl FnOnce(&mut EndpointSnapshot)) -> EndpointFacts {
    change(&mut facts.view);
    facts
}

/// An endpoint whose head has stood still for so many seconds while others rose.
fn overtaken(head: u64, seconds: u64) -> EndpointFacts {
    let mut facts = at(head);
    facts.overtaken_at = facts.view.head.unwrap().reported_at.checked_sub(Duration::from_secs(seconds));
    assert!(facts.overtaken_at.is_some());
    facts
}

fn ranking(all: &[EndpointFacts]) -> EndpointRanking {
    ranking_after(Duration::ZERO, all)
}

fn ranking_after(time: Duration, all: &[EndpointFacts]) -> EndpointRanking {
    EndpointRanking::new(now() + time, LIMITS, all.to_vec(), None)
}

fn healths(ranking: &EndpointRanking) -> Vec<EndpointHealth> {
    (0..ranking.all.len()).map(|index| ranking.health(index)).collect()
}

#[test]
fn endpoint_behind_is_outdated_and_beyond_the_limit_lags() {
    let ranking = ranking(&[at(100), at(97), at(96), at(99)]);
    use EndpointHealth::*;
    assert_eq!(healths(&ranking), [Good, Good, Lagging, Good]);
    assert_eq!((0..4).map(|index| ranking.lag(index).unwrap()).collect::<Vec<_>>(), [0, 3, 4, 1]);
    assert_eq!((0..4).map(|index| ranking.is_up_to_date(index)).collect::<Vec<_>>(), [true, false, false, false]);
    assert_eq!(ranking.for_reading(), [0, 3, 1, 2]);
    assert_eq!(ranking.for_sending(), (vec![0, 3, 1, 2], vec![]), "a transaction is sent to lagging endpoints too");
}

#[test]
fn head_of_a_down_endpoint_counts_for_a_while() {
    let newest = |connectivity| ranking(&[but(at(200), |view| view.connectivity = connectivity), at(100)]).newest();
    assert_eq!(newest(Connectivity::Up), Some(200));
    assert_eq!(newest(Connectivity::Down), Some(200));
    assert_eq!(newest(Connectivity::WrongChain), Some(100));
    let down = but(at(200), |view| view.connectivity = Connectivity::Down);
    let later = ranking_after(HEAD_COUNTS_FOR, &[down, at(100)]);
    assert_eq!(later.newest(), Some(100));
}

#[test]
fn head_that_stands_still_while_others_rise_is_lagging() {
    let ranking = ranking(&[overtaken(1_000_000, 31), at(100)]);
    assert_eq!(healths(&ranking), [EndpointHealth::Lagging, EndpointHealth::Good]);
    assert!(ranking.is_up_to_date(1));
    assert_eq!((ranking.for_reading(), ranking.for_finding()), (vec![1], vec![1, 0]));
    assert_eq!(ranking.newest(), Some(100));
}

#[test]
fn head_that_stood_still_briefly_or_unasked_is_not_stuck() {
    assert_eq!(healths(&ranking(&[overtaken(100, 29), overtaken(100, 0), at(101)])), [EndpointHealth::Good; 3]);
}

#[test]
fn flipping_endpoint_is_used_only_if_it_is_the_last() {
    let flipping = but(at(103), |view| view.is_flipping = true);
    let two = ranking(&[flipping, at(100)]);
    assert_eq!(healths(&two), [EndpointHealth::Flipping, EndpointHealth::Good]);
    assert_eq!((two.for_reading(), two.newest()), (vec![1], Some(100)));
    assert!(two.is_up_to_date(1));
    assert_eq!(two.for_sending().0, [1, 0]);
    let down = but(at(100), |view| view.connectivity = Connectivity::Down);
    let alone = ranking(&[flipping, down]);
    assert_eq!(healths(&alone), [EndpointHealth::Flipping, EndpointHealth::Down]);
    assert_eq!(alone.for_reading(), [0]);
}

#[test]
fn flipping_endpoint_does_not_yield_to_a_lagging_one() {
    let flipping = but(at(104), |view| view.is_flipping = true);
    let behind = ranking(&[at(100), flipping]);
    assert_eq!((behind.for_reading(), behind.newest()), (vec![0, 1], Some(104)));
    assert!(!behind.is_up_to_date(0) && behind.is_up_to_date(1));
    let stuck = overtaken(104, 31);
    assert_eq!(ranking(&[stuck, flipping]).for_reading(), [1]);
    assert_eq!(ranking(&[stuck]).for_reading(), [0], "better than no endpoint");
}

#[test]
fn old_reported_head_does_not_count() {
    let barred =
        but(at(200), |view| (view.is_rate_limited, view.has_retry_after, view.is_retry_due) = (true, true, false));
    let after = |first, time| ranking_after(time, &[first, at(100)]);
    assert_eq!(after(barred, Duration::ZERO).newest(), Some(200));
    let fresh = but(at(100), |view| {
        view.head = view.head.map(|head| ReportedHead { reported_at: now() + ASKABLE_HEAD_COUNTS_FOR, ..head });
    });
    for (first, time) in [(barred, HEAD_COUNTS_FOR), (at(200), ASKABLE_HEAD_COUNTS_FOR)] {
        let ranking = ranking_after(time, &[first, fresh]);
        assert_eq!(ranking.newest(), Some(100));
        assert!(ranking.is_up_to_date(1));
    }
    assert_eq!(after(at(200), HEAD_COUNTS_FOR).newest(), Some(200), "the endpoint is up and will be asked again");
}

#[test]
fn head_far_above_two_that_agree_is_not_credible() {
    let three = ranking(&[at(1_000_000), at(100), at(110)]);
    assert_eq!(three.newest(), Some(110));
    assert_eq!([0, 1, 2].map(|index| three.is_up_to_date(index)), [false, false, true]);
    assert!(!three.has_credible_head(0) && three.has_credible_head(1));
    assert_eq!(three.for_reading(), [2, 1, 0], "the endpoint with the incredible head is last");
    let supported = ranking(&[at(1_000_000), at(100), at(110), at(999_500)]);
    assert!(supported.is_up_to_date(0) && !supported.is_up_to_date(2));
    let syncing = ranking(&[at(1_000_000), at(100), at(50_000)]);
    assert!(syncing.is_up_to_date(0), "two heads far apart do not support each other");
    assert!(ranking(&[at(1_000_000), at(100)]).is_up_to_date(0));
}

#[test]
fn endpoint_of_weight_zero_is_used_only_if_needed() {
    let spare = but(at(101), |view| view.weight = 0);
    let need = |other: EndpointFacts| ranking(&[spare, other]);
    let well = need(at(100));
    assert_eq!((well.for_reading(), well.for_finding(), well.for_sending()), (vec![1], vec![1], (vec![1], vec![])));
    assert!(well.is_up_to_date(1), "a newer head of an idle spare makes no endpoint outdated");
    assert_eq!(well.lag(1), Some(1));
    assert_eq!((well.for_heads(Duration::from_secs(9)), well.for_heads(Duration::ZERO)), (vec![1], vec![1, 0]));
    for other in [
        at(90),
        but(at(100), |view| view.connectivity = Connectivity::Down),
        but(at(100), |view| (view.is_rate_limited, view.has_retry_after) = (true, true)),
        but(at(100), |view| view.is_flipping = true),
    ] {
        let ranking = need(other);
        assert!(ranking.for_reading().contains(&0) && ranking.is_up_to_date(0), "{other:?}");
        assert!(!ranking.is_up_to_date(1) || !ranking.for_reading().contains(&1), "{other:?}");
    }
}

#[test]
fn equals_have_the_same_head_on_the_same_fork() {
    let on = |fork: u8, weight| {
        but(at(100), |view| {
            view.weight = weight;
            view.head = view.head.map(|head| ReportedHead { hash: Some(B256::repeat_byte(fork)), ..head });
        })
    };
    let all =
        [on(1, 1), on(2, 1), on(2, 7), at(99), on(2, 0), but(on(2, 1), |view| view.has_last_request_failed = true)];
    let ranking = EndpointRanking::new(now(), LIMITS, all.to_vec(), Some(B256::repeat_byte(2)));
    let ranked = ranking.for_reading();
    assert_eq!(ranked, [2, 1, 0, 3, 5], "the heaviest first, the one with a failed request last");
    assert_eq!(ranking.equals(&ranked), [(2, 7), (1, 1)]);
    assert_eq!(ranking.equals(&[]), []);
}

#[test]
fn down_endpoint_gets_a_transaction_only_if_due_or_last() {
    let down = |is_retry_due| {
        but(at(100), |view| {
            view.connectivity = Connectivity::Down;
            view.is_retry_due = is_retry_due;
        })
    };
    let limited =
        but(at(100), |view| (view.is_rate_limited, view.has_retry_after, view.is_retry_due) = (true, true, false));
    let busy = but(limited, |view| view.has_retry_after = false);
    let foreign = but(at(100), |view| view.connectivity = Connectivity::WrongChain);
    assert_eq!(ranking(&[down(true), down(false), at(100), limited, foreign]).for_sending(), (vec![2, 0], vec![1, 3]));
    assert_eq!(ranking(&[down(false), limited, foreign]).for_sending(), (vec![0], vec![1]));
    assert_eq!(ranking(&[limited, foreign]).for_sending(), (vec![], vec![0]), "the endpoint asked for a pause");
    assert_eq!(healths(&ranking(&[limited])), [EndpointHealth::RateLimited]);
    assert_eq!(ranking(&[limited]).for_reading(), Vec::<usize>::new());
    assert_eq!(ranking(&[busy, at(90)]).for_finding(), [1, 0], "a rate-limited endpoint without Retry-After is last");
    assert_eq!(ranking(&[busy]).for_sending().0, [0]);
    assert_eq!(
        ranking(&[down(true), busy]).for_sending().0,
        [1, 0],
        "a rate-limited endpoint is better than a down one"
    );
    assert_eq!(ranking(&[at(90), busy]).for_sending(), (vec![0], vec![1]));
    let reads_only = EndpointFacts { takes_sends: false, ..at(100) };
    assert_eq!(ranking(&[reads_only, at(90)]).for_sending(), (vec![1], vec![0]));
    assert_eq!(ranking(&[reads_only, down(true)]).for_sending().0, [0, 1], "its pause is cut short if no other is up");
}
