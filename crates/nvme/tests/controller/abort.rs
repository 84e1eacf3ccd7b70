//! Abort: event requests are aborted here, the caller has to find IOs.

use crate::world::{World, host};
use nvme::spec::identify::cns;
use nvme::spec::opcode::admin;
use nvme::spec::{AnaState, Sqe, Status};
use nvme::subsystem::{ABORTS_MAX, Action, Output};

fn abort(queue_id: u16, cid: u16) -> Sqe {
    let dword = u32::from(cid) << 16 | u32::from(queue_id);
    Sqe::new(admin::ABORT).with_cdw10_15([dword, 0, 0, 0, 0, 0])
}

#[test]
fn an_aborted_event_request_is_answered() {
    let mut world = World::io();
    let remote = world.remote(&host(1)).admin;
    world.set_feature(remote, 0x0b, 0x900);
    let request = Sqe::new(admin::ASYNC_EVENT_REQUEST).with_cid(0x101f);
    assert_eq!(world.raw(remote, &request, &[]), Action::Pending);
    let (cqe, _) = world.ask(remote, abort(0, 0x101f), 0);
    assert_eq!((cqe.status(), cqe.dw0()), (Status::SUCCESS, 0), "aborted");
    let outputs = world.outputs();
    let [Output::Complete { queue, cqe }] = outputs[..] else { panic!("{outputs:?}") };
    assert_eq!((queue, cqe.cid(), cqe.status()), (remote, 0x101f, Status::ABORT_REQUESTED));
    let (cqe, _) = world.ask(remote, abort(0, 0x101f), 0);
    assert_eq!(cqe.dw0(), 1, "no such request any more");
    world.subsystem.set_ana_state(1, AnaState::NonOptimized).expect("a group");
    assert_eq!(world.outputs(), [], "no request is outstanding");
}

#[test]
fn an_abort_names_an_io_by_its_queue() {
    let mut world = World::io();
    let (one, two) = (world.remote(&host(1)), world.remote(&host(2)));
    match world.send(one.admin, abort(1, 0x2005), 0, &[]) {
        Action::Abort { queue, cid, cqe } => {
            assert_eq!((queue, cid, cqe.status()), (one.io, 0x2005, Status::SUCCESS));
            assert_ne!(queue, two.io);
            assert_eq!((cqe.dw0(), cqe.abort_failed().dw0()), (0, 1));
        }
        other => panic!("{other:?}"),
    }
    let (cqe, _) = world.ask(one.admin, abort(2, 5), 0);
    assert_eq!((cqe.status(), cqe.dw0()), (Status::SUCCESS, 1), "no such queue");
    let page = world.identify(one.admin, cns::CONTROLLER, 0).expect("CNS 01h");
    assert_eq!(usize::from(page[258]), ABORTS_MAX - 1, "ACL");
}
