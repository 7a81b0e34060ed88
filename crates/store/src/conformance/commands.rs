//! Commands: written by any node, executed by the lane's owner.

use gapless_domain::{
    Amount, B256, Bytes, Command, CommandId, CommandKind, CommandReport, CommandStatus, Fees, LockOwner, LostRule,
    NewCommand, SignedTx, SubmitterId,
};

use super::Harness;
use super::accept::woken;
use super::fixtures::*;
use crate::roles::{CommitVerdict, MAX_OPEN_COMMANDS};

fn command(lane: &SubmitterId, kind: CommandKind) -> NewCommand {
    NewCommand { submitter: lane.clone(), kind, issued_by: text("operator 'x'") }
}

pub(super) async fn commands_load_with_their_lane_oldest_first(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let (lane, other) = (lane(&a, 1).await, lane(&a, 2).await);
    let (tx_id, lock_owner) = (fresh_id(), LockOwner::new("me").unwrap());
    let kinds = [
        CommandKind::Replace { tx_id, payload: transfer(5) },
        CommandKind::Resubmit { tx_id, fees: Some(Fees::flat(u128::MAX)) },
        CommandKind::UseReserved {
            nonce: nonce(3),
            lock_owner,
            signed: SignedTx { hash: B256::repeat_byte(7), raw: Bytes::from_static(&[0, 255]) },
            fees: Fees::with_tip(9, 1),
            cost: Amount::from(u128::MAX),
        },
        CommandKind::Resync { lost: LostRule::Fail, dry_run: true },
        CommandKind::Pause,
        CommandKind::Cancel { tx_id },
    ];
    let mut put: Vec<_> = kinds.iter().map(|kind| command(&lane, kind.clone())).collect();
    put.insert(2, command(&other, CommandKind::Resume));
    let mut ids = b.put_commands(&put).await.unwrap();
    ids.extend(a.put_commands(&[command(&lane, CommandKind::CancelPending)]).await.unwrap());
    let seen = view(&a, &lane).await.lane;
    assert_eq!(
        seen.commands.iter().map(|command| command.id).collect::<Vec<_>>(),
        [ids[0], ids[1], ids[3], ids[4], ids[5], ids[6], ids[7]]
    );
    for (command, kind) in seen.commands.iter().zip(&kinds) {
        assert_eq!((&command.kind, &command.submitter, &command.issued_by), (kind, &lane, &put[0].issued_by));
        assert!(command.issued_at <= seen.now);
    }
    assert_eq!(view(&a, &other).await.lane.commands[0].id, ids[2]);
}

pub(super) async fn finished_command_is_not_loaded(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let put = [CommandKind::Pause, CommandKind::Resume].map(|kind| command(&lane, kind));
    let ids = a.put_commands(&put).await.unwrap();
    let seen = view(&a, &lane).await;
    let pause = &seen.lane.commands[0];
    commit_done(&a, &lane, |commit| {
        commit.set_paused(&seen.cursor, true, text("asked")).unwrap().command_done(pause, done("paused"));
    })
    .await;
    let seen = view(&a, &lane).await;
    assert!(seen.cursor.paused);
    assert_eq!(seen.lane.commands.iter().map(|command| command.id).collect::<Vec<_>>(), ids[1..]);
    // A second result for a command changes nothing and does not fail the commit.
    let again = commit(&a, &lane, |commit| {
        commit.command_done(pause, refused("again"));
    })
    .await;
    assert_eq!(again, CommitVerdict::Done);
    assert_eq!(view(&a, &lane).await.lane.commands.len(), 1);
}

pub(super) async fn command_result_is_readable(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let (one, two) = (lane(&a, 1).await, lane(&a, 2).await);
    let put =
        [command(&one, CommandKind::Pause), command(&two, CommandKind::Pause), command(&one, CommandKind::Resume)];
    let ids = b.put_commands(&put).await.unwrap();
    let unknown = CommandId(ids.iter().map(|id| id.0).max().unwrap() + 1000);
    let asked = [ids[1], unknown, ids[0], ids[1], ids[2], CommandId(u64::MAX)];
    let open = Some(CommandStatus::Open);
    let over = |result| Some(CommandStatus::Over(result));
    let lines = format!("two\n{}", "lines ".repeat(CommandReport::MAX_BYTES / 6 - 1));
    let found = b.commands(&asked).await.unwrap();
    assert_eq!(found, [open.clone(), None, open.clone(), open.clone(), open.clone(), None]);

    let mine = a.open_commands(std::slice::from_ref(&one)).await.unwrap().remove(0);
    let others = waiting(&a, &two, ids[1]).await;
    commit_done(&a, &one, |commit| {
        commit.command_done(&mine[0], done(&lines)).command_done(&mine[1], refused(""));
        // A lane cannot finish the command of another lane.
        commit.command_done(&others, done("of another lane"));
    })
    .await;
    commit_done(&a, &one, |commit| {
        commit.command_done(&mine[0], refused("again")).command_done(&mine[1], done("again"));
    })
    .await;
    let found = b.commands(&asked).await.unwrap();
    assert_eq!(found, [open.clone(), None, over(done(&lines)), open, over(refused("")), None]);
    assert_eq!(b.commands(&[]).await.unwrap(), []);
}

/// The read needs no lease: the owner of a lane does not load the lane again for it.
pub(super) async fn open_commands_are_oldest_first_up_to_limit(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let (many, few, idle) = (lane(&a, 1).await, lane(&a, 2).await, lane(&a, 3).await);
    let (limit, total) = (MAX_OPEN_COMMANDS as usize, MAX_OPEN_COMMANDS as usize + 5);
    let mut put = vec![command(&many, CommandKind::Pause); total];
    put.insert(1, command(&few, CommandKind::Cancel { tx_id: fresh_id() }));
    let mut ids = b.put_commands(&put).await.unwrap();
    let other = ids.remove(1);
    let ids_of = |commands: &[Command]| commands.iter().map(|command| command.id).collect::<Vec<_>>();

    let asked = [few.clone(), submitter(4), many.clone(), idle, many.clone()];
    let found = b.open_commands(&asked).await.unwrap();
    assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [1, 0, limit, 0, limit]);
    assert_eq!((ids_of(&found[0]), ids_of(&found[2])), (vec![other], ids[..limit].to_vec()));
    assert_eq!(found[2], found[4]);
    assert_eq!(found[0], view(&a, &few).await.lane.commands, "equal to the commands that the owner loads");
    assert_eq!(found[0][0].kind, put[1].kind);

    commit_done(&a, &many, |commit| {
        for command in &found[2] {
            commit.command_done(command, done("done"));
        }
    })
    .await;
    assert_eq!(ids_of(&a.open_commands(&[many]).await.unwrap()[0]), ids[limit..]);
    assert_eq!(a.open_commands(&[]).await.unwrap(), Vec::<Vec<Command>>::new());
}

pub(super) async fn put_command_wakes_other_nodes(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = lane(&a, 1).await;
    let mut wakeups = b.wakeups();
    let putting = beside({
        let (a, put) = (a.clone(), [command(&lane, CommandKind::Resume)]);
        async move {
            loop {
                a.put_commands(&put).await.unwrap();
                for _ in 0..20 {
                    pause().await;
                }
            }
        }
    });
    soon("a wake-up on another node", woken(&mut wakeups, &lane)).await;
    putting.abort();
}
