use super::*;
use crate::endpoint::now;

const TERMS: LagTerms = LagTerms { lag_max: 3, head_age_max: Duration::from_secs(30) };

fn at(head: u64) -> Seen {
    let now = now();
    let head = HeadClaim { number: head, hash: None, heard_at: now, moved_at: now, shown: true };
    Seen {
        sight: Sight {
            standing: Standing::Good,
            weight: 1,
            is_due: true,
            is_check_due: false,
            is_limited: false,
            is_barred: false,
            is_doubtful: false,
            is_flipping: false,
            head: Some(head),
        },
        overtaken_at: None,
        takes_sends: true,
    }
}

fn but(mut seen: Seen, change: impl FnOnce(&mut Sight)) -> Seen {
    change(&mut seen.sight);
    seen
}

fn outlook(all: &[Seen]) -> Outlook {
    Outlook { now: now(), terms: TERMS, all: all.to_vec(), told: None }
}

fn standings(outlook: &Outlook) -> Vec<EndpointHealth> {
    (0..outlook.all.len()).map(|place| outlook.standing(place)).collect()
}

#[test]
fn who_is_behind_by_more_than_the_limit_lags_and_who_is_behind_at_all_is_not_believed() {
    let outlook = outlook(&[at(100), at(97), at(96), at(99)]);
    use EndpointHealth::*;
    assert_eq!(standings(&outlook), [Good, Good, Lagging, Good]);
    assert_eq!((0..4).map(|place| outlook.lag(place).unwrap()).collect::<Vec<_>>(), [0, 3, 4, 1]);
    assert_eq!((0..4).map(|place| outlook.is_believed(place)).collect::<Vec<_>>(), [true, false, false, false]);
    assert_eq!(outlook.for_reading(), [0, 3, 1, 2]);
    assert_eq!(outlook.for_sending(), (vec![0, 3, 1, 2], vec![]), "a transaction is given to those too");
}

#[test]
fn the_word_of_one_that_is_away_stands_for_a_while_and_that_of_another_chain_not_at_all() {
    let newest = |standing| outlook(&[but(at(200), |sight| sight.standing = standing), at(100)]).newest();
    assert_eq!(newest(Standing::Good), Some(200));
    assert_eq!(newest(Standing::Down), Some(200));
    assert_eq!(newest(Standing::WrongChain), Some(100));
    let down = but(at(200), |sight| sight.standing = Standing::Down);
    let later = Outlook { now: now() + CLAIM_STANDS, ..outlook(&[down, at(100)]) };
    assert_eq!(later.newest(), Some(100));
}

#[test]
fn whose_head_stands_still_while_others_move_is_of_the_past_whatever_its_number_is() {
    let mut stuck = at(1_000_000);
    stuck.overtaken_at = stuck.sight.head.unwrap().heard_at.checked_sub(Duration::from_secs(31));
    assert!(stuck.overtaken_at.is_some());
    let outlook = outlook(&[stuck, at(100)]);
    assert_eq!(standings(&outlook), [EndpointHealth::Lagging, EndpointHealth::Good]);
    assert!(outlook.is_believed(1));
    assert_eq!((outlook.for_reading(), outlook.for_finding()), (vec![1], vec![1, 0]));
    assert_eq!(outlook.newest(), Some(100));
}

#[test]
fn who_stood_still_for_a_short_time_or_was_not_asked_since_is_not_stuck() {
    let mut slow = at(100);
    slow.overtaken_at = slow.sight.head.unwrap().heard_at.checked_sub(Duration::from_secs(29));
    let mut unasked = at(100);
    unasked.overtaken_at = Some(unasked.sight.head.unwrap().heard_at);
    assert_eq!(standings(&outlook(&[slow, unasked, at(101)])), [EndpointHealth::Good; 3]);
}

#[test]
fn who_flips_is_left_out_unless_there_is_nobody_else() {
    let flipping = but(at(103), |sight| sight.is_flipping = true);
    let two = outlook(&[flipping, at(100)]);
    assert_eq!(standings(&two), [EndpointHealth::Flipping, EndpointHealth::Good]);
    assert_eq!((two.for_reading(), two.newest()), (vec![1], Some(100)));
    assert!(two.is_believed(1));
    assert_eq!(two.for_sending().0, [1, 0]);
    let down = but(at(100), |sight| sight.standing = Standing::Down);
    let alone = outlook(&[flipping, down]);
    assert_eq!(standings(&alone), [EndpointHealth::Flipping, EndpointHealth::Down]);
    assert_eq!(alone.for_reading(), [0]);
}

#[test]
fn who_flips_does_not_give_way_to_one_that_is_far_behind_or_stuck() {
    let flipping = but(at(104), |sight| sight.is_flipping = true);
    let behind = outlook(&[at(100), flipping]);
    assert_eq!((behind.for_reading(), behind.newest()), (vec![0, 1], Some(104)));
    assert!(!behind.is_believed(0) && behind.is_believed(1));
    let mut stuck = at(104);
    stuck.overtaken_at = stuck.sight.head.unwrap().heard_at.checked_sub(Duration::from_secs(31));
    assert_eq!(outlook(&[stuck, flipping]).for_reading(), [1]);
    assert_eq!(outlook(&[stuck]).for_reading(), [0], "better than nobody");
}

#[test]
fn a_claim_that_was_not_heard_for_long_does_not_stand() {
    let barred = but(at(200), |sight| (sight.is_limited, sight.is_barred, sight.is_due) = (true, true, false));
    let after = |first, time| Outlook { now: now() + time, ..outlook(&[first, at(100)]) };
    assert_eq!(after(barred, Duration::ZERO).newest(), Some(200));
    let fresh = but(at(100), |sight| {
        sight.head = sight.head.map(|head| HeadClaim { heard_at: now() + GOOD_CLAIM_STANDS, ..head });
    });
    for (first, time) in [(barred, CLAIM_STANDS), (at(200), GOOD_CLAIM_STANDS)] {
        let outlook = Outlook { now: now() + time, ..outlook(&[first, fresh]) };
        assert_eq!(outlook.newest(), Some(100));
        assert!(outlook.is_believed(1));
    }
    assert_eq!(after(at(200), CLAIM_STANDS).newest(), Some(200), "it is well and will be asked again");
}

#[test]
fn one_far_above_two_that_agree_is_not_believed_even_if_it_shows_its_head() {
    let three = outlook(&[at(1_000_000), at(100), at(110)]);
    assert_eq!(three.newest(), Some(110));
    assert_eq!([0, 1, 2].map(|place| three.is_believed(place)), [false, false, true]);
    assert!(!three.is_heeded(0) && three.is_heeded(1));
    assert_eq!(three.for_reading(), [2, 1, 0], "and it is asked last");
    let borne_out = outlook(&[at(1_000_000), at(100), at(110), at(999_500)]);
    assert!(borne_out.is_believed(0) && !borne_out.is_believed(2));
    let syncing = outlook(&[at(1_000_000), at(100), at(50_000)]);
    assert!(syncing.is_believed(0), "two that are at odds bear nobody out");
    assert!(outlook(&[at(1_000_000), at(100)]).is_believed(0));
}

#[test]
fn one_without_a_weight_is_for_need_only() {
    let spare = but(at(101), |sight| sight.weight = 0);
    let need = |other: Seen| outlook(&[spare, other]);
    let well = need(at(100));
    assert_eq!((well.for_reading(), well.for_finding(), well.for_sending()), (vec![1], vec![1], (vec![1], vec![])));
    assert!(well.is_believed(1), "one block more of a spare one puts nobody into the past");
    assert_eq!(well.lag(1), Some(1));
    assert_eq!((well.for_heads(Duration::from_secs(9)), well.for_heads(Duration::ZERO)), (vec![1], vec![1, 0]));
    for other in [
        at(90),
        but(at(100), |sight| sight.standing = Standing::Down),
        but(at(100), |sight| (sight.is_limited, sight.is_barred) = (true, true)),
        but(at(100), |sight| sight.is_flipping = true),
    ] {
        let outlook = need(other);
        assert!(outlook.for_reading().contains(&0) && outlook.is_believed(0), "{other:?}");
        assert!(!outlook.is_believed(1) || !outlook.for_reading().contains(&1), "{other:?}");
    }
}

#[test]
fn equals_are_those_with_the_same_head_on_the_same_fork() {
    let on = |fork: u8, weight| {
        but(at(100), |sight| {
            sight.weight = weight;
            sight.head = sight.head.map(|head| HeadClaim { hash: Some(B256::repeat_byte(fork)), ..head });
        })
    };
    let all = [on(1, 1), on(2, 1), on(2, 7), at(99), on(2, 0), but(on(2, 1), |sight| sight.is_doubtful = true)];
    let outlook = Outlook { told: Some(B256::repeat_byte(2)), ..outlook(&all) };
    let ranked = outlook.for_reading();
    assert_eq!(ranked, [2, 1, 0, 3, 5], "the heavy one first, the doubtful one last");
    assert_eq!(outlook.equals(&ranked), [(2, 7), (1, 1)]);
    assert_eq!(outlook.equals(&[]), []);
}

#[test]
fn who_is_away_gets_a_transaction_only_when_it_is_due_or_nobody_else_is_there() {
    let down = |is_due| {
        but(at(100), |sight| {
            sight.standing = Standing::Down;
            sight.is_due = is_due;
        })
    };
    let limited = but(at(100), |sight| (sight.is_limited, sight.is_barred, sight.is_due) = (true, true, false));
    let busy = but(limited, |sight| sight.is_barred = false);
    let foreign = but(at(100), |sight| sight.standing = Standing::WrongChain);
    assert_eq!(outlook(&[down(true), down(false), at(100), limited, foreign]).for_sending(), (vec![2, 0], vec![1, 3]));
    assert_eq!(outlook(&[down(false), limited, foreign]).for_sending(), (vec![0], vec![1]));
    assert_eq!(outlook(&[limited, foreign]).for_sending(), (vec![], vec![0]), "it asked to be left alone");
    assert_eq!(standings(&outlook(&[limited])), [EndpointHealth::RateLimited]);
    assert_eq!(outlook(&[limited]).for_reading(), Vec::<usize>::new());
    assert_eq!(outlook(&[busy, at(90)]).for_finding(), [1, 0], "who only says that it is busy comes last");
    assert_eq!(outlook(&[busy]).for_sending().0, [0]);
    assert_eq!(
        outlook(&[down(true), busy]).for_sending().0,
        [1, 0],
        "who may be back does not replace who is only busy"
    );
    assert_eq!(outlook(&[at(90), busy]).for_sending(), (vec![0], vec![1]));
    let reads_only = Seen { takes_sends: false, ..at(100) };
    assert_eq!(outlook(&[reads_only, at(90)]).for_sending(), (vec![1], vec![0]));
    assert_eq!(outlook(&[reads_only, down(true)]).for_sending().0, [0, 1], "it is tried before its time if need be");
}
