//! The controller is killed (SIGKILL) before and after each of its requests to the target, in every procedure that changes something. A new one that is asked
//! the same succeeds, and nothing is left over: the configuration and the directory agree, and are as before once all is undone.

mod bed;

use bed::*;
use csi::messages::*;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use tonic::Status;

/// Where a driver is killed.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// The request does not reach the target.
    Before,
    /// The target has answered, and the answer does not reach the driver.
    After,
}

/// Passes `requests` requests on, then kills the process of that number.
fn proxy(at: &Path, admin: &Path, requests: usize, cut: Cut) -> Arc<AtomicU32> {
    let _ = std::fs::remove_file(at);
    let listener = UnixListener::bind(at).expect("ours");
    let admin = admin.to_owned();
    let victim = Arc::new(AtomicU32::new(0));
    let id = Arc::clone(&victim);
    thread::spawn(move || {
        let kill = || {
            let id = Pid::from_raw(id.load(Ordering::SeqCst).cast_signed()).expect("it was started");
            kill_process(id, Signal::KILL).expect("our own child");
        };
        for (number, driver) in listener.incoming().enumerate() {
            let mut driver = driver.expect("a connection");
            if number == requests && matches!(cut, Cut::Before) {
                return kill();
            }
            let mut target = UnixStream::connect(&admin).expect("the target listens");
            let (mut from, mut to) =
                (driver.try_clone().expect("a copy"), target.try_clone().expect("a copy"));
            let asked = thread::spawn(move || {
                // Either end may be gone.
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Write);
            });
            let mut bytes = vec![0; 1 << 16];
            loop {
                let length = target.read(&mut bytes).unwrap_or(0);
                if number == requests && length > 0 {
                    return kill();
                }
                if length == 0 || driver.write_all(&bytes[..length]).is_err() {
                    break;
                }
            }
            let _ = asked.join();
        }
    });
    victim
}

/// A procedure, and what is there before it.
struct Case {
    name: &'static str,
    prepare: fn(&Client),
    act: fn(&Client) -> Result<(), Status>,
    undo: fn(&Client),
}

fn plain(client: &Client) -> String {
    client.create(volume("plain")).expect("there is room").volume_id
}

fn with_auth(client: &Client) -> String {
    let parameters = named(&[("auth", "true")]);
    client.create(CreateVolumeRequest { parameters, ..volume("auth") }).expect("there is room").volume_id
}

fn published(client: &Client) {
    client.publish(&plain(client), NODE).expect("nobody has it");
}

/// A copy of the snapshot of the plain volume.
fn copied(client: &Client) -> Result<Volume, Status> {
    let snapshot = Some(SnapshotSource { snapshot_id: id_of_snapshot() });
    let volume_content_source = Some(VolumeContentSource { snapshot, volume: None });
    client.create(CreateVolumeRequest { volume_content_source, ..volume("copy") })
}

fn snapshot(client: &Client) -> Result<Snapshot, Status> {
    client.snapshot(&plain(client), "before")
}

fn remove(client: &Client) {
    client.unpublish(&plain(client), "").expect("possible");
    client.delete(&plain(client)).expect("nobody has it");
}

const CASES: [Case; 9] = [
    Case {
        name: "create",
        prepare: |_| (),
        act: |client| client.create(volume("plain")).map(drop),
        undo: remove,
    },
    Case {
        name: "delete",
        prepare: |client| drop(plain(client)),
        act: |client| client.delete(&id_of_plain()).map(drop),
        undo: |_| (),
    },
    Case {
        name: "publish",
        prepare: |client| drop(plain(client)),
        act: |client| client.publish(&id_of_plain(), NODE).map(drop),
        undo: remove,
    },
    Case {
        name: "unpublish",
        prepare: published,
        act: |client| client.unpublish(&id_of_plain(), NODE),
        undo: remove,
    },
    Case {
        name: "publish with auth",
        prepare: |client| drop(with_auth(client)),
        act: |client| client.publish(&id_of_auth(), NODE).map(drop),
        undo: |client| {
            client.unpublish(&id_of_auth(), NODE).expect("it has it");
            client.delete(&id_of_auth()).expect("nobody has it");
        },
    },
    Case {
        name: "unpublish with auth",
        prepare: |client| drop(client.publish(&with_auth(client), NODE).expect("there is a key")),
        act: |client| client.unpublish(&id_of_auth(), NODE),
        undo: |client| {
            client.delete(&id_of_auth()).expect("nobody has it");
        },
    },
    Case {
        name: "snapshot",
        prepare: |client| drop(plain(client)),
        act: |client| client.snapshot(&id_of_plain(), "before").map(drop),
        undo: |client| {
            let taken = snapshot(client).expect("it is there");
            client.delete_snapshot(&taken.snapshot_id).expect("it is there");
            remove(client);
        },
    },
    Case {
        name: "delete a snapshot",
        prepare: |client| drop(snapshot(client).expect("there is room")),
        act: |client| client.delete_snapshot(&id_of_snapshot()).map(drop),
        undo: remove,
    },
    Case {
        name: "create a copy",
        prepare: |client| drop(snapshot(client).expect("there is room")),
        act: |client| copied(client).map(drop),
        undo: |client| {
            client.delete(&copied(client).expect("it is there").volume_id).expect("nobody has it");
            client.delete_snapshot(&id_of_snapshot()).expect("it is there");
            remove(client);
        },
    },
];

fn id_of(name: &str) -> String {
    csi::volume_id(name).expect("a name")
}

fn id_of_plain() -> String {
    id_of("plain")
}

fn id_of_auth() -> String {
    id_of("auth")
}

fn id_of_snapshot() -> String {
    format!("pool/csi-{}", id_of("before"))
}

#[test]
fn a_kill_before_or_after_any_request_to_the_target_leaks_nothing() {
    let bed = Bed::new("kills");
    bed.make_key(NODE);
    let steady = bed.controller("steady.sock", &bed.admin());
    let client = steady.client();
    let admin = bed.folder.join("proxy");
    // The first change may order the file anew.
    plain(&client);
    remove(&client);
    let before = bed.text();
    let mut kills = 0;
    for Case { name, prepare, act, undo } in CASES {
        for cut in [Cut::Before, Cut::After] {
            let mut requests = 0;
            loop {
                prepare(&client);
                let victim = proxy(&admin, &bed.admin(), requests, cut);
                let driver = bed.controller("victim.sock", &admin);
                victim.store(driver.id(), Ordering::SeqCst);
                let ended = act(&driver.client());
                drop(driver);
                act(&client).unwrap_or_else(|status| panic!("{name}, {cut:?} request {requests}: {status}"));
                let mut wanted = bed.files_wanted();
                wanted.extend(bed.files().into_iter().filter(|file| file.contains(".snapshot")));
                assert_eq!(bed.files(), wanted, "{name}, {cut:?} request {requests}");
                undo(&client);
                assert_eq!(bed.text(), before, "{name}, {cut:?} request {requests}");
                assert!(bed.files().is_empty(), "{name}, {cut:?} request {requests}: {:?}", bed.files());
                if ended.is_ok() {
                    break;
                }
                requests += 1;
                kills += 1;
            }
            assert!(requests >= 2, "{name}: a procedure asks and changes");
        }
    }
    println!("{kills} kills in {} procedures", CASES.len());
}
