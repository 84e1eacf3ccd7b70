//! Commands of SPDK's host (24.01: `spdk_nvme_perf`), captured on the wire, against our subsystem.
//!
//! It differs from Linux in four ways that may surprise a target. It may have no name, it asks for the Zoned
//! Namespace command set and accepts a refusal, it leaves four event requests outstanding, and it reuses
//! their identifiers when it shuts down.

use crate::world::{BLOCKS, NQN, World, property_set};
use nvme::spec::connect::{CNTLID_DYNAMIC, ConnectCommand, ConnectData, HostId};
use nvme::spec::feature::QueueCounts;
use nvme::spec::identify::{cns, descriptor, read_namespace_list};
use nvme::spec::identify_namespace::IdentifyNamespace;
use nvme::spec::log::{self, LogRequest};
use nvme::spec::opcode::admin;
use nvme::spec::property::offset;
use nvme::spec::{AnaState, Nqn, Sqe, Status};
use nvme::subsystem::{Action, Output, QueueKey};
use zerocopy::{FromBytes, IntoBytes};

const ID: HostId = HostId([0xb4; 16]);
/// Identifiers of the event requests.
const REQUESTS: [u16; 4] = [0, 1, 2, 3];

/// Connect without a `hostnqn`: HOSTNQN is all zeroes.
fn connect(world: &mut World, queue_id: u16, controller_id: u16, sqsize: u16) -> QueueKey {
    let name = Nqn::new(NQN).expect("a good name");
    let mut bytes = [0; ConnectData::SIZE];
    bytes.copy_from_slice(ConnectData::new(ID, &name, &name, controller_id).as_bytes());
    bytes[512..768].fill(0);
    let data = ConnectData::read_from_bytes(&bytes).expect("1024 bytes");
    let command =
        ConnectCommand { record_format: 0, queue_id, sqsize, attributes: 0, keep_alive_timeout: 10_000 };
    let key = world.next_key();
    world.subsystem.on_connect(world.now, key, &command.to_sqe(), &data).expect("a good Connect");
    key
}

fn bring_up(world: &mut World) -> QueueKey {
    let admin = connect(world, 0, CNTLID_DYNAMIC, 31);
    assert_eq!(world.property(admin, offset::VS), Ok(0x20000));
    assert!(world.property(admin, offset::CAP).is_ok());
    assert_eq!(world.property(admin, offset::CC), Ok(0));
    assert_eq!(world.property(admin, offset::CSTS), Ok(0));
    world.configure(admin, 0x460061);
    assert_eq!(world.property(admin, offset::CSTS), Ok(1));
    world.identify(admin, cns::CONTROLLER, 0).expect("CNS 01h");
    assert_eq!(world.set_feature(admin, 0x0b, 0x91f).status(), Status::SUCCESS);
    for cid in REQUESTS {
        let request = Sqe::new(admin::ASYNC_EVENT_REQUEST).with_cid(cid);
        assert_eq!(world.raw(admin, &request, &[]), Action::Pending);
    }
    admin
}

#[test]
fn a_host_without_a_name_scans_and_connects_its_queues() {
    let mut world = World::io();
    let admin = bring_up(&mut world);
    let (id, name) =
        world.subsystem.controllers().map(|(id, name)| (id, name.to_string())).next().expect("one");
    assert_eq!(name, "nqn.2014-08.org.nvmexpress:uuid:b4b4b4b4-b4b4-b4b4-b4b4-b4b4b4b4b4b4");
    let zoned = Sqe::new(admin::IDENTIFY).with_cdw10_15([6, 2 << 24, 0, 0, 0, 0]);
    assert_eq!(world.ask(admin, zoned, 4096).0.status(), Status::INVALID_FIELD);
    let granted = world.set_feature(admin, 0x07, 0x03ff_03ff);
    assert_eq!(QueueCounts::from_wire(granted.dw0()), QueueCounts::both(128));
    let list = world.identify(admin, cns::ACTIVE_NAMESPACES, 0).expect("CNS 02h");
    assert!(read_namespace_list(&list).eq([1]));
    let page = world.identify(admin, cns::NAMESPACE, 1).expect("CNS 00h");
    let namespace = IdentifyNamespace::read_from_bytes(&page).expect("4096 bytes");
    assert_eq!(namespace.nsze.get(), BLOCKS);
    let ids = descriptor::parse(&world.identify(admin, cns::NAMESPACE_DESCRIPTORS, 1).expect("CNS 03h"));
    assert!(ids.uuid.is_some());
    let ana = world.log(admin, LogRequest::read(log::ANA, 0, 0x414), 0xffff_ffff).expect("log 0Ch");
    assert_eq!(ana[8], 1, "one group");
    assert_eq!(world.tell(admin, Sqe::new(admin::KEEP_ALIVE), &[]), Status::SUCCESS);
    connect(&mut world, 1, id, 1023);
}

#[test]
fn the_identifiers_of_event_requests_are_used_again_to_shut_down() {
    let mut world = World::io();
    let admin = bring_up(&mut world);
    // While the host drops request 0 and then all others, an event is on its way.
    world.subsystem.set_ana_state(1, AnaState::Inaccessible).expect("group 1 exists");
    for cid in REQUESTS {
        world.subsystem.on_given_up(admin, cid);
    }
    assert_eq!(world.property(admin, offset::CC), Ok(0x460061));
    let shut_down = property_set(offset::CC, 0x464061).with_cid(REQUESTS[0]);
    assert!(
        matches!(world.raw(admin, &shut_down, &[]), Action::Reply { cqe, .. } if cqe.status().is_success())
    );
    assert_eq!(world.property(admin, offset::CSTS).map(|csts| csts & 0xc), Ok(0x8), "SHST is complete");
    world.subsystem.set_ana_state(1, AnaState::Optimized).expect("group 1 exists");
    let completions = world.outputs().into_iter().filter(|output| matches!(output, Output::Complete { .. }));
    assert_eq!(completions.count(), 0, "no event request is outstanding any more");
}
