//! The controller with a real target: what is refused, and with which words.

mod bed;

use bed::*;
use csi::messages::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tonic::{Code, Status};

fn code<T>(answer: Result<T, Status>) -> Option<Code> {
    answer.err().map(|status| status.code())
}

#[test]
fn a_volume_is_what_its_class_says_and_another_one_of_its_name_is_refused() {
    let bed = Bed::new("classes");
    let driver = bed.controller("controller.sock", &bed.admin());
    let client = driver.client();
    let class = named(&[
        ("pool", "pool"),
        ("weight", "4"),
        ("limitIops", "1000"),
        ("sloIops", "500"),
        ("sloLatencyP99", "2ms"),
    ]);
    let request = CreateVolumeRequest { parameters: class, ..volume("a") };
    let made = client.create(request.clone()).expect("there is room");
    assert_eq!(made.capacity_bytes, 64 << 20);
    for line in
        ["weight = 4", "limit_iops = 1000", "tenant = \"namespace\"", "hosts = []", "wipe_on_remove = true"]
    {
        assert!(bed.text().contains(line), "{line} is missing:\n{}", bed.text());
    }
    assert_eq!(client.create(request.clone()).expect("the same"), made);
    let other = CreateVolumeRequest { parameters: named(&[("weight", "5")]), ..volume("a") };
    assert_eq!(code(client.create(other)), Some(Code::AlreadyExists));
    let unknown = CreateVolumeRequest { parameters: named(&[("wieght", "5")]), ..volume("b") };
    let refused = client.create(unknown).expect_err("unknown");
    assert!(refused.code() == Code::InvalidArgument && refused.message().contains("wieght"), "{refused}");
    // Only the target can judge these.
    let promised = named(&[("limitRate", "1M"), ("reservation", "2M")]);
    let refused = client.create(CreateVolumeRequest { parameters: promised, ..volume("b") });
    let refused = refused.expect_err("more is promised than allowed");
    assert!(
        refused.code() == Code::InvalidArgument && refused.message().contains("reservation"),
        "{refused}"
    );

    let change = |pairs: &[(&str, &str)]| {
        let mutable_parameters = named(pairs);
        let request = ControllerModifyVolumeRequest { volume_id: made.volume_id.clone(), mutable_parameters };
        client.call::<_, ControllerModifyVolumeResponse>("ControllerModifyVolume", request)
    };
    change(&[("weight", "7"), ("limitIops", "none")]).expect("they may change");
    assert!(bed.text().contains("weight = 7") && !bed.text().contains("limit_iops"), "{}", bed.text());
    assert_eq!(code(change(&[("pool", "b")])), Some(Code::InvalidArgument));
    client.delete(&made.volume_id).expect("nobody uses it");
    assert!(bed.files().is_empty(), "{:?}", bed.files());
}

#[test]
fn a_full_directory_is_told_with_what_is_free() {
    let bed = Bed::new("full");
    let driver = bed.controller("controller.sock", &bed.admin());
    let client = driver.client();
    let room = || -> i64 {
        let answer: GetCapacityResponse =
            client.call("GetCapacity", GetCapacityRequest::default()).expect("one pool");
        answer.available_capacity
    };
    assert!(room() > 15 << 30, "{}", room());
    bed.fill(32 << 20);
    assert_eq!(room(), 0, "the reserve is 64 MiB");
    let refused = client.create(volume("a")).expect_err("it is full");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().contains("pool \"pool\" has 0 B of"), "{refused}");
}

#[test]
fn a_volume_for_one_node_has_one_node_and_is_not_deleted_meanwhile() {
    let bed = Bed::new("nodes");
    let driver = bed.controller("controller.sock", &bed.admin());
    let client = driver.client();
    let id = client.create(volume("a")).expect("there is room").volume_id;
    let facts = client.publish(&id, NODE).expect("nobody has it").publish_context;
    assert!(facts["nqn"].ends_with(&id) && facts["uuid"] == id, "{facts:?}");
    assert_eq!(client.publish(&id, NODE).expect("the same").publish_context, facts);
    let refused = client.publish(&id, OTHER_NODE).expect_err("another has it");
    assert!(refused.code() == Code::FailedPrecondition && refused.message().contains(NODE), "{refused}");
    assert_eq!(code(client.delete(&id)), Some(Code::FailedPrecondition));
    assert_eq!(code(client.publish(&id, "node-1")), Some(Code::NotFound));
    client.unpublish(&id, NODE).expect("it has it");
    client.unpublish(&id, NODE).expect("a repeated request");
    client.publish(&id, OTHER_NODE).expect("nobody has it");
}

#[test]
fn a_node_without_a_key_does_not_get_a_volume_with_auth() {
    let bed = Bed::new("keys");
    let driver = bed.controller("controller.sock", &bed.admin());
    let client = driver.client();
    let auth = CreateVolumeRequest { parameters: named(&[("auth", "true")]), ..volume("a") };
    let id = client.create(auth.clone()).expect("there is room").volume_id;
    assert!(bed.text().contains("authentication = \"always\""), "{}", bed.text());
    let refused = client.publish(&id, NODE).expect_err("there is no key");
    assert!(
        refused.code() == Code::FailedPrecondition && refused.message().contains("gimbal key gen"),
        "{refused}"
    );
    bed.make_key(NODE);
    client.publish(&id, NODE).expect("there is a key");
    assert!(bed.text().contains("dhchap_key"), "{}", bed.text());
    // The key stays while there is another volume that needs it.
    let second =
        client.create(CreateVolumeRequest { name: "b".to_owned(), ..auth }).expect("there is room").volume_id;
    client.publish(&second, NODE).expect("there is a key");
    client.unpublish(&id, NODE).expect("it has it");
    assert!(bed.text().contains("dhchap_key"), "{}", bed.text());
    client.unpublish(&second, NODE).expect("it has it");
    assert!(!bed.text().contains("dhchap_key"), "{}", bed.text());
}

#[test]
fn a_target_that_is_away_is_told_and_a_repeated_request_succeeds() {
    let bed = Bed::new("away");
    let driver = bed.controller("controller.sock", &bed.admin());
    let client = driver.client();
    bed.signal_target("-STOP");
    let began = Instant::now();
    let refused = client.create(volume("a")).expect_err("the target hangs");
    let took = began.elapsed();
    bed.signal_target("-CONT");
    println!("told after {took:?}");
    assert_eq!(refused.code(), Code::Unavailable);
    // 10 s on a machine that has a processor for it.
    assert!(took < Duration::from_secs(20), "{took:?}");
    client.create(volume("a")).expect("the target answers");

    let elsewhere = bed.controller("elsewhere.sock", &bed.folder.join("nothing"));
    let refused = elsewhere.client().create(volume("b")).expect_err("there is no target");
    assert!(
        refused.code() == Code::Unavailable && refused.message().contains("no target answers"),
        "{refused}"
    );
}

#[test]
#[ignore = "long: 1,000 volumes"]
fn a_thousand_volumes_of_eight_clients_leak_nothing() {
    const EACH: usize = 125;
    const REPEATS_MAX: usize = 30;
    let bed = Bed::new("crowd");
    let driver = bed.controller("controller.sock", &bed.admin());
    let repeated = AtomicUsize::new(0);
    // As a sidecar of Kubernetes does it, but not for ever: a turn that never comes is a failure.
    let patient = |act: &dyn Fn() -> Result<(), Status>| {
        for _ in 0..=REPEATS_MAX {
            match act() {
                Ok(()) => return,
                Err(status) if status.code() == Code::Unavailable => {
                    _ = repeated.fetch_add(1, Ordering::Relaxed)
                }
                Err(status) => panic!("{status}"),
            }
        }
        panic!("one request was told UNAVAILABLE more than {REPEATS_MAX} times");
    };
    let began = Instant::now();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let (client, patient) = (driver.client(), &patient);
            scope.spawn(move || {
                for volume_of_client in 0..EACH {
                    let request = volume(&format!("pvc-{number}-{volume_of_client}"));
                    patient(&|| client.create(request.clone()).map(drop));
                }
            });
        }
    });
    let made = began.elapsed();
    assert_eq!(bed.files().len(), 8 * EACH);
    assert_eq!(bed.files(), bed.files_wanted());
    let client = driver.client();
    let listed: ListVolumesResponse =
        client.call("ListVolumes", ListVolumesRequest::default()).expect("a list");
    assert_eq!(listed.entries.len(), 8 * EACH);
    let ids: Vec<String> =
        listed.entries.into_iter().filter_map(|entry| Some(entry.volume?.volume_id)).collect();
    let began = Instant::now();
    std::thread::scope(|scope| {
        for part in ids.chunks(EACH) {
            let (client, patient) = (driver.client(), &patient);
            scope.spawn(move || part.iter().for_each(|id| patient(&|| client.delete(id).map(drop))));
        }
    });
    let (deleted, repeated) = (began.elapsed(), repeated.load(Ordering::Relaxed));
    println!("{} volumes: made in {made:?}, deleted in {deleted:?}, {repeated} requests repeated", 8 * EACH);
    assert!(bed.files().is_empty(), "{:?}", bed.files());
}
