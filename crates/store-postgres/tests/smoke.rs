#![allow(clippy::unwrap_used, reason = "a test")]
mod support;
use gapless_domain::*;
use gapless_store::conformance::fixtures as f;
use gapless_store::*;

#[tokio::test]
async fn smoke() {
    let db = support::Database::shared().await;
    let a = db.open("a").await;
    let lane = f::submitter(1);
    a.register_submitters(&[NewSubmitter { id: lane.clone(), alias: None }]).await.unwrap();
    let i: Vec<_> = (0..5).map(|n| f::new_intent(&lane, &format!("r{n}"))).collect();
    println!("{:?}", a.accept(&i).await.unwrap());
    println!("{:?}", a.accept(&i).await.unwrap());
    let Acquired::Held(lease) = a.acquire(&[lane.clone()]).await.unwrap().remove(0) else { panic!() };
    println!("{:?}", a.load_lanes(std::slice::from_ref(&lease)).await.unwrap());
    let q = a.peek_queues(&[(lane.clone(), 10)]).await.unwrap().remove(0);
    let cursor = Cursor::starting_at(Nonce::ZERO);
    let mut c = LaneCommit::new(&lease);
    for (n, tx) in q.iter().take(2).enumerate() {
        c.bind(&cursor, tx, f::attempt(Nonce::new(n as u64).unwrap(), 0, "s")).unwrap();
    }
    println!("{:?}", a.commit(&[c.clone()]).await.unwrap());
    println!("{:?}", a.commit(&[c]).await.unwrap());
    println!("{:#?}", a.load_lanes(std::slice::from_ref(&lease)).await.unwrap());
    println!("{:?}", a.renew().await.unwrap());
    println!("{:?}", a.read_events(EventPosition::default(), 100).await.unwrap().len());
}
