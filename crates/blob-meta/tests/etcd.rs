//! An etcd server (Debian's etcd-server) passes the tests for every store, also after it was killed.

mod server;

use blob::store::conformance::{Bed, run};
use blob::store::{Commit, Store, Transaction};
use blob_meta::Etcd;
use server::Server;
use std::thread;
use std::time::Duration;
use units::Nanos;

impl Bed for Server {
    fn open(&mut self) -> Box<dyn Store> {
        Box::new(self.connect())
    }

    /// Leases live in real time.
    fn pass_time(&mut self) {
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn etcd_conforms_and_keeps_what_it_committed_when_it_is_killed() {
    let mut server = Server::start("etcd");
    run(&mut server);
    let mut store = server.connect();
    let lease = store.grant(Nanos::secs(60)).expect("it answers");
    let put = Transaction::default().put("kept", "a").put_leased("leased", "b", lease);
    let Ok(Commit::Done(revision)) = store.commit(&put) else { panic!("not committed") };
    server.kill();
    assert!(store.get("kept").is_err(), "a dead server answers");
    server.start_again();
    let entry = store.get("kept").expect("it answers").expect("it is there");
    assert_eq!((entry.value.as_slice(), entry.revision), (&b"a"[..], revision));
    assert_eq!(store.renew(lease), Ok(()), "a lease survives a restart");
}

#[test]
fn endpoints_are_checked_before_they_are_used() {
    for bad in ["", "host", "http://host:1", "host:1/x"] {
        assert!(Etcd::new(bad).is_err(), "{bad:?}");
    }
    assert!(blob_meta::open("ftp://x").is_err());
}
