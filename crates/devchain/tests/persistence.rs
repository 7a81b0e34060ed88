//! A chain in a directory continues at its last state, however its process ended.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

mod support;

use std::fs::{self, OpenOptions as FileOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use alloy_primitives::{Address, B256, Bytes, TxKind, U256};
use gapless_devchain::{
    BlockSelector, ChainError, DevChain, Genesis, JournalSync, OpenOptions, PoolLimits, Remine, ether,
};
use support::*;

/// A temporary directory of one test, removed on drop.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("devchain-{name}-{}", std::process::id()));
        drop(fs::remove_dir_all(&path));
        Self(path)
    }

    fn open(&self) -> DevChain {
        self.open_as(Genesis::dev()).unwrap()
    }

    fn open_as(&self, genesis: Genesis) -> Result<DevChain, ChainError> {
        DevChain::open(&self.0, genesis, OpenOptions { sync: JournalSync::EveryBlock })
    }

    fn journal(&self) -> PathBuf {
        self.file("journal-")
    }

    fn file(&self, prefix: &str) -> PathBuf {
        let mut found = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path());
        found.find(|path| path.file_name().unwrap().to_str().unwrap().starts_with(prefix)).unwrap()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// All readable data of a chain: block hashes, pool, and account states.
fn contents(chain: &DevChain) -> (Vec<B256>, Vec<String>, Vec<(u64, U256)>) {
    let view = chain.view();
    let head = view.head().number();
    let blocks: Vec<_> = (0..=head).filter_map(|number| view.block(BlockSelector::Number(number))).collect();
    let mut pool = Vec::new();
    let content = view.pool_content();
    for (kind, lists) in [("pending", content.pending), ("queued", content.queued)] {
        pool.extend(lists.values().flatten().map(|(nonce, tx)| format!("{kind} {nonce} {}", tx.hash)));
    }
    let accounts = [alice().address, bob().address, carol().address, unfunded_account()];
    let oldest = blocks[0].number();
    let states = (oldest..=head).flat_map(|number| {
        let view = &view;
        accounts.map(|account| {
            (
                view.nonce(account, BlockSelector::Number(number)).unwrap(),
                view.balance(account, BlockSelector::Number(number)).unwrap(),
            )
        })
    });
    let states = states.collect();
    let receipts = blocks.iter().flat_map(|block| block.receipts.iter().map(|receipt| format!("{receipt:?}")));
    pool.extend(receipts);
    (blocks.iter().map(|block| block.hash).collect(), pool, states)
}

/// Applies operations of every kind.
fn apply_all_operations(chain: &DevChain) {
    let address = deploy(chain, carol(), 0, &counter());
    for nonce in 0..6 {
        send(chain, &alice().sign(transfer(nonce)).unwrap());
        send(chain, &carol().sign(invoke(nonce + 1, TxKind::Call(address), Bytes::new())).unwrap());
        chain.mine(0).unwrap();
    }
    chain.set_balance(unfunded_account(), ether(7)).unwrap();
    chain.set_gas_limit(20_000_000).unwrap();
    chain.set_coinbase(Address::repeat_byte(9)).unwrap();
    chain.reorg(3, Remine::Shuffle).unwrap();
    chain.reorg(2, Remine::ToPool).unwrap();
    chain.send_delayed(&bob().sign(transfer(0)).unwrap(), chain.view().head().number() + 2).unwrap();
    let dropped = send(chain, &bob().sign(transfer(5)).unwrap());
    chain.drop_tx(dropped).unwrap();
    chain.mine(0).unwrap();
    send(chain, &bob().sign(transfer(7)).unwrap());
    let next = chain.view().nonce(alice().address, BlockSelector::Pending).unwrap();
    send(chain, &alice().sign(transfer(next)).unwrap());
}

#[test]
fn reopened_chain_continues_at_last_state() {
    let dir = Dir::new("goes-on");
    let chain = dir.open();
    apply_all_operations(&chain);
    let before = contents(&chain);
    drop(chain);
    let chain = dir.open();
    assert_eq!(contents(&chain), before);
    // The delayed send is released, and the chain accepts new blocks.
    let block = chain.mine(0).unwrap();
    assert!(block.txs.iter().any(|tx| tx.from == bob().address), "the delayed send is mined");
    assert!(block.txs.iter().any(|tx| tx.from == alice().address), "the pending transaction is mined");
    let after = contents(&chain);
    drop(chain);
    assert_eq!(contents(&dir.open()), after);
}

#[test]
fn torn_tail_is_truncated_at_any_byte() {
    let dir = Dir::new("torn");
    let chain = dir.open();
    let first = send(&chain, &alice().sign(transfer(0)).unwrap());
    chain.mine(0).unwrap();
    let durable = contents(&chain);
    let good = fs::metadata(dir.journal()).unwrap().len();
    send(&chain, &alice().sign(transfer(1)).unwrap());
    drop(chain);
    let whole = fs::read(dir.journal()).unwrap();
    for cut in [good + 1, good + 7, good + 20, whole.len() as u64 - 1] {
        fs::write(dir.journal(), &whole[..cut as usize]).unwrap();
        let chain = dir.open();
        assert_eq!(contents(&chain), durable, "cut at {cut}");
        assert!(chain.view().receipt(first).is_some());
        drop(chain);
        assert_eq!(fs::metadata(dir.journal()).unwrap().len(), good);
    }
    // Garbage after the end is also a torn tail. The chain accepts new operations after it.
    let mut file = FileOptions::new().append(true).open(dir.journal()).unwrap();
    file.write_all(&[0; 100]).unwrap();
    let chain = dir.open();
    send(&chain, &alice().sign(transfer(1)).unwrap());
    chain.mine(0).unwrap();
    let after = contents(&chain);
    drop(chain);
    assert_eq!(contents(&dir.open()), after);
}

#[test]
fn damage_before_end_fails_to_open() {
    let dir = Dir::new("damage");
    let chain = dir.open();
    apply_all_operations(&chain);
    drop(chain);
    let mut bytes = fs::read(dir.journal()).unwrap();
    bytes[150] ^= 0xff;
    fs::write(dir.journal(), bytes).unwrap();
    let error = dir.open_as(Genesis::dev()).unwrap_err();
    assert!(matches!(error, ChainError::Damaged { .. }), "{error}");
}

#[test]
fn other_genesis_is_refused() {
    let dir = Dir::new("genesis");
    drop(dir.open());
    let error = dir.open_as(Genesis { chain_id: 5, ..Genesis::dev() }).unwrap_err();
    assert!(matches!(error, ChainError::OtherGenesis { .. }), "{error}");
}

#[test]
fn foreign_file_is_not_overwritten() {
    let dir = Dir::new("foreign");
    drop(dir.open());
    let list = [b"a shopping list".as_slice(); 10].concat();
    fs::write(dir.journal(), &list).unwrap();
    let error = dir.open_as(Genesis::dev()).unwrap_err();
    assert!(matches!(error, ChainError::OtherFormat), "{error}");
    assert_eq!(fs::read(dir.journal()).unwrap(), list);
    // Half a header is left if the process ends during its first write.
    fs::write(dir.journal(), [0, 0, 0, 49, 1]).unwrap();
    dir.open();
}

#[test]
fn open_chain_cannot_be_opened_again() {
    let dir = Dir::new("lock");
    let chain = dir.open();
    let error = dir.open_as(Genesis::dev()).unwrap_err();
    assert!(matches!(error, ChainError::InUse), "{error}");
    drop(chain);
    dir.open();
}

#[test]
fn snapshot_restores_the_chain() {
    let dir = Dir::new("snapshot");
    let genesis = Genesis {
        limits: gapless_devchain::Limits { pool: PoolLimits::for_benchmarks(), ..Default::default() },
        ..Genesis::dev()
    };
    let chain = dir.open_as(genesis.clone()).unwrap();
    apply_all_operations(&chain);
    // Code edits are the largest operations. Enough of them lead to a snapshot.
    for index in 0..100_u64 {
        let account = Address::from_word(B256::from(U256::from(0x1000 + index)));
        chain.set_code(account, vec![index as u8; 100_000].into()).unwrap();
    }
    chain.mine(0).unwrap();
    send(
        &chain,
        &alice().sign(transfer(chain.view().nonce(alice().address, BlockSelector::Pending).unwrap())).unwrap(),
    );
    let before = contents(&chain);
    let code = chain.view().code(Address::from_word(B256::from(U256::from(0x1007))), BlockSelector::Latest).unwrap();
    drop(chain);
    assert!(dir.file("snapshot-").ends_with("snapshot-1"));
    assert!(dir.journal().ends_with("journal-1"));
    assert!(fs::metadata(dir.journal()).unwrap().len() < 1_000, "the snapshot replaced the long journal");
    let chain = dir.open_as(genesis.clone()).unwrap();
    assert_eq!(contents(&chain), before);
    assert_eq!(
        chain.view().code(Address::from_word(B256::from(U256::from(0x1007))), BlockSelector::Latest).unwrap(),
        code
    );
    // The snapshot has the state of old blocks, so a reorg is possible.
    chain.reorg(4, Remine::Same).unwrap();
    chain.mine(0).unwrap();
    let after = contents(&chain);
    drop(chain);
    assert_eq!(contents(&dir.open_as(genesis).unwrap()), after);
}

#[test]
fn evicted_transaction_stays_out_after_reopen() {
    let dir = Dir::new("evicted");
    let mut genesis = Genesis::dev();
    (genesis.limits.pool.global_slots, genesis.limits.pool.global_queue) = (3, 2);
    genesis.limits.pool.account_queue = 1;
    let chain = dir.open_as(genesis.clone()).unwrap();
    for nonce in [0, 1, 4, 3, 6] {
        drop(chain.send_raw(&alice().sign(transfer(nonce)).unwrap()));
    }
    for who in [bob(), carol()] {
        let rich = alloy_consensus::TxEip1559 { max_priority_fee_per_gas: 5_000_000_000, ..transfer(0) };
        drop(chain.send_raw(&who.sign(rich).unwrap()));
    }
    chain.mine(0).unwrap();
    let before = contents(&chain);
    drop(chain);
    assert_eq!(contents(&dir.open_as(genesis.clone()).unwrap()), before);
    // A larger pool on reopening does not change that.
    genesis.limits.pool = PoolLimits::for_benchmarks();
    assert_eq!(contents(&dir.open_as(genesis).unwrap()), before);
}

#[test]
fn reset_survives_reopen() {
    let dir = Dir::new("reset");
    let chain = dir.open();
    apply_all_operations(&chain);
    chain.reset().unwrap();
    send(&chain, &alice().sign(transfer(0)).unwrap());
    chain.mine(0).unwrap();
    let before = contents(&chain);
    drop(chain);
    let chain = dir.open();
    assert_eq!(contents(&chain), before);
    assert_eq!(chain.view().head().number(), 1);
}

#[test]
fn long_journal_replays_quickly() {
    let dir = Dir::new("many");
    let chain = dir.open();
    chain.mine_many(2_000, 1).unwrap();
    let hash = chain.view().head().hash;
    drop(chain);
    let chain = dir.open();
    assert_eq!((chain.view().head().number(), chain.view().head().hash), (2_000, hash));
}

/// The directory of the child process that is killed. Unset in all other processes.
const CHILD_DIR: &str = "GAPLESS_DEVCHAIN_TEST_DIR";

/// The child process of the next test. Without the variable it does nothing.
#[test]
fn child_process_sends_and_mines_until_killed() {
    let Some(dir) = std::env::var_os(CHILD_DIR) else { return };
    let chain = DevChain::open(Path::new(&dir), Genesis::dev(), OpenOptions::default()).unwrap();
    let mut out = std::io::stdout();
    for nonce in chain.view().nonce(alice().address, BlockSelector::Pending).unwrap().. {
        let hash = send(&chain, &alice().sign(transfer(nonce)).unwrap());
        writeln!(out, "accepted {hash}").unwrap();
        out.flush().unwrap();
        if nonce % 7 == 0 {
            let block = chain.mine(0).unwrap();
            writeln!(out, "mined {}", block.hash).unwrap();
        }
        if nonce % 50 == 49 {
            chain.reorg(2, Remine::Same).unwrap();
        }
    }
}

/// Every send that was answered before `kill -9` is in the pool or in a block afterwards, three times in a row.
#[test]
fn killed_process_keeps_accepted_sends() {
    use std::io::BufRead;
    use std::process::{Command, Stdio};

    let dir = Dir::new("killed");
    let mut accepted: Vec<B256> = Vec::new();
    for lines in [40, 150, 333] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", "child_process_sends_and_mines_until_killed"])
            .env(CHILD_DIR, &dir.0)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let reader = std::io::BufReader::new(child.stdout.take().unwrap());
        let mut seen = 0;
        for line in reader.lines() {
            let line = line.unwrap();
            // The test harness may have written the beginning of the line.
            if let Some((_, hash)) = line.split_once("accepted ") {
                accepted.push(hash.parse().unwrap());
                seen += 1;
            }
            if seen == lines {
                // The loop goes on to read what the child writes until its end.
                child.kill().unwrap();
                seen += 1;
            }
        }
        child.wait().unwrap();
        assert!(seen > lines, "the child ended by itself after {seen} lines");
        let chain = dir.open();
        for hash in &accepted {
            assert!(chain.view().transaction(*hash).is_some(), "{hash} was accepted and is lost");
        }
        let nonce = chain.view().nonce(alice().address, BlockSelector::Pending).unwrap();
        assert!(nonce as usize >= accepted.len());
    }
}
