//! An etcd server (Debian's etcd-server) passes the tests for every store, also after it was killed.

mod server;

use blob::store::conformance::run;
use blob::store::{Commit, Store, Transaction};
use blob_meta::EtcdFiles;
use server::Server;
use units::Nanos;

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
fn a_store_of_another_kind_is_refused_and_what_may_be_a_password_is_not_repeated() {
    let error = blob_meta::open("ftp://a:sesame@x", &EtcdFiles::default()).err().expect("no store");
    assert!(error.contains("ftp://") && error.contains("etcd[s]://") && !error.contains("sesame"), "{error}");
}
