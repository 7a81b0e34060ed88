use super::*;

/// The rejection of the commit that `build` makes, checked `seconds` later.
fn later(ledger: &LaneLedger, seconds: u64, build: impl FnOnce(&mut LaneCommit)) -> Option<Rejection> {
    rejection_with(ledger, build, |facts| facts.now = AT.saturating_add(Duration::from_secs(seconds)))
}

#[test]
fn reserve_takes_smallest_recyclable_nonce_first() {
    let mut ledger = reserved_ledger(3);
    let next = queue_reservation(&mut ledger, 9);
    let refused = |at| Some(Conflict::Reservation(nonce(at)));
    let step = |at| {
        move |commit: &mut LaneCommit| {
            commit.reservation(reserve(at, &reservation_intent(ACCOUNT, 9)));
        }
    };
    assert_eq!(conflict(&ledger, step(0)), refused(0), "a reserved nonce is not reserved again");
    write(&mut ledger, |commit| {
        commit.reservation(release_by(2, "me")).reservation(release_by(1, "me"));
    });
    assert_eq!(conflict(&ledger, step(2)), refused(2));
    assert_eq!(conflict(&ledger, step(1)), None);
    let cursor = cursor(&ledger);
    let fresh = |commit: &mut LaneCommit| {
        commit.bind_reserved(&cursor, &next, reserve(3, &next)).unwrap();
    };
    assert_eq!(conflict(&ledger, fresh), refused(3), "no new nonce while one is recyclable");
}

#[test]
fn reserve_of_new_nonce_needs_a_new_reservation_slot() {
    let mut ledger = busy_ledger();
    let (cursor, next) = (cursor(&ledger), queue_reservation(&mut ledger, 9));
    let without = |commit: &mut LaneCommit| {
        commit.reservation(reserve(1, &next));
    };
    assert_eq!(conflict(&ledger, without), Some(Conflict::Reservation(nonce(1))));
    let with = |commit: &mut LaneCommit| {
        commit.bind_reserved(&cursor, &next, reserve(1, &next)).unwrap();
    };
    assert_eq!(conflict(&ledger, with), None);
    let twice = |commit: &mut LaneCommit| {
        commit.bind_reserved(&cursor, &next, reserve(1, &next)).unwrap().reservation(reserve(1, &next));
    };
    assert_eq!(conflict(&ledger, twice), Some(Conflict::Reservation(nonce(1))));
}

#[test]
fn closed_recyclable_nonce_is_not_reserved() {
    let mut ledger = reserved_ledger(2);
    let (first, before) = (holder(&ledger), cursor(&ledger));
    let next = queue_reservation(&mut ledger, 9);
    write(&mut ledger, |commit| {
        commit.end_reservation(&first, release_by(0, "me")).unwrap();
        commit.reservation(release_by(1, "me"));
    });
    let too_early = |commit: &mut LaneCommit| {
        commit.close_below(&before, nonce(1)).unwrap().reservation(reserve(1, &next));
    };
    assert_eq!(conflict(&ledger, too_early), Some(Conflict::Reservation(nonce(1))), "open until it is written");
    write(&mut ledger, |commit| {
        commit.close_below(&before, nonce(1)).unwrap();
    });
    assert_eq!(
        conflict(&ledger, |commit| {
            commit.reservation(reserve(1, &next));
        }),
        None
    );
}

#[test]
fn use_and_release_need_the_owner_before_the_time_out() {
    let ledger = reserved_ledger(1);
    let refused = Some(Rejection::Conflict(Conflict::Reservation(nonce(0))));
    for step in [use_by, release_by] {
        assert_eq!(
            later(&ledger, 0, |commit| {
                commit.reservation(step(0, "me"));
            }),
            None
        );
        assert_eq!(
            later(&ledger, 1, |commit| {
                commit.reservation(step(0, "me"));
            }),
            refused
        );
        assert_eq!(
            later(&ledger, 0, |commit| {
                commit.reservation(step(0, "you"));
            }),
            refused
        );
        assert_eq!(
            later(&ledger, 0, |commit| {
                commit.reservation(step(7, "me"));
            }),
            Some(Rejection::Conflict(Conflict::Reservation(nonce(7))))
        );
    }
}

#[test]
fn expire_needs_the_time_out() {
    let ledger = reserved_ledger(1);
    let expire = |commit: &mut LaneCommit| {
        commit.reservation(ReservationStep::Expire { nonce: nonce(0) });
    };
    assert_eq!(later(&ledger, 0, expire), Some(Rejection::Conflict(Conflict::Reservation(nonce(0)))));
    assert_eq!(later(&ledger, 1, expire), None);
}

#[test]
fn cancel_of_a_reservation_needs_the_time_out() {
    let mut ledger = reserved_ledger(1);
    let cancel = |commit: &mut LaneCommit| {
        commit.reservation(ReservationStep::Cancel { nonce: nonce(0) }).attempt(attempt(0));
    };
    let refused = Some(Rejection::Conflict(Conflict::Reservation(nonce(0))));
    assert_eq!(later(&ledger, 0, cancel), refused);
    assert_eq!(later(&ledger, 1, cancel), None);
    write(&mut ledger, |commit| {
        commit.reservation(release_by(0, "me"));
    });
    assert_eq!(later(&ledger, 1, cancel), refused, "the nonce is recyclable, so a filler takes it");
}

#[test]
fn fill_needs_a_recyclable_nonce() {
    let mut ledger = reserved_ledger(1);
    let fill = |commit: &mut LaneCommit| {
        commit.reservation(ReservationStep::Fill { nonce: nonce(0) });
    };
    assert_eq!(conflict(&ledger, fill), Some(Conflict::Reservation(nonce(0))));
    write(&mut ledger, |commit| {
        commit.reservation(release_by(0, "me"));
    });
    assert_eq!(conflict(&ledger, fill), None);
}

#[test]
fn steps_of_one_commit_see_each_other() {
    let ledger = reserved_ledger(1);
    let mut commit = LaneCommit::new(&lease());
    commit.reservation(release_by(0, "me")).reservation(ReservationStep::Fill { nonce: nonce(0) });
    let facts = ledger.facts(&commit, LeaseFact::Held, AT);
    let status = ReservationStatus::Used { tx_id: None };
    assert_eq!(check(&commit, &facts), Ok(vec![Reservation { nonce: nonce(0), status }]));
}

#[test]
fn attempt_at_reserved_nonce_needs_its_use() {
    let mut ledger = reserved_ledger(1);
    let add = |commit: &mut LaneCommit| {
        commit.attempt(attempt(0));
    };
    assert_eq!(conflict(&ledger, add), Some(Conflict::Cursor));
    let used = |commit: &mut LaneCommit| {
        commit.reservation(use_by(0, "me")).attempt(attempt(0));
    };
    assert_eq!(conflict(&ledger, used), None);
    write(&mut ledger, |commit| {
        commit.reservation(release_by(0, "me"));
    });
    assert_eq!(conflict(&ledger, add), Some(Conflict::Cursor), "recyclable");
}
