//! Fields of the Identify pages that hosts depend on.

use crate::world::{World, config, host};
use nvme::spec::identify::cns;
use nvme::spec::identify_controller::IdentifyController;
use nvme::spec::identify_namespace::{
    IdentifyNamespace, IdentifyNamespaceIndependent, NMIC_SHARED, NSTAT_READY,
};
use nvme::subsystem::{BlockSize, NamespaceInfo};
use zerocopy::FromBytes;

#[test]
fn the_capacity_of_a_subsystem_is_that_of_its_namespaces() {
    let mut world = World::new(config().with_namespace(2, NamespaceInfo::new(BlockSize::B4096, 1000)));
    let admin = world.remote(&host(1)).admin;
    let page = world.identify(admin, cns::CONTROLLER, 0).expect("CNS 01h");
    let controller = IdentifyController::read_from_bytes(&page).expect("4096 bytes");
    let sizes = [1, 2].map(|nsid| {
        let page = world.identify(admin, cns::NAMESPACE, nsid).expect("CNS 00h");
        let namespace = IdentifyNamespace::read_from_bytes(&page).expect("4096 bytes");
        let bytes = namespace.nsze.get() * u64::from(namespace.block_size().expect("a block size"));
        assert_eq!(u128::from_le_bytes(namespace.nvmcap), bytes.into());
        bytes
    });
    assert_eq!(sizes[1], 4096 * 1000);
    assert_eq!(u128::from_le_bytes(controller.tnvmcap), (sizes[0] + sizes[1]).into());
}

/// From this page alone, Linux takes whether a namespace is ready, write protected and shared.
#[test]
fn the_independent_page_agrees_with_the_page_of_the_namespace() {
    let writable = NamespaceInfo::new(BlockSize::B512, 100);
    let mut world = World::new(config().with_namespace(2, NamespaceInfo { read_only: true, ..writable }));
    let admin = world.remote(&host(1)).admin;
    for (nsid, is_read_only) in [(1, 0), (2, 1)] {
        let page = world.identify(admin, cns::NAMESPACE_INDEPENDENT, nsid).expect("CNS 08h");
        let independent = IdentifyNamespaceIndependent::read_from_bytes(&page).expect("4096 bytes");
        let page = world.identify(admin, cns::NAMESPACE, nsid).expect("CNS 00h");
        let namespace = IdentifyNamespace::read_from_bytes(&page).expect("4096 bytes");
        assert_eq!((independent.nstat, independent.nmic), (NSTAT_READY, NMIC_SHARED));
        assert_eq!((independent.nsattr, namespace.nsattr), (is_read_only, is_read_only));
        assert_eq!((independent.rescap, independent.anagrpid), (namespace.rescap, namespace.anagrpid));
    }
}

/// NSFEAT bit 0, and NSZE, NCAP and NUSE, from the page.
fn provisioning(world: &mut World, nsid: u32) -> (u8, [u64; 3]) {
    let admin = world.remote(&host(1)).admin;
    let page = world.identify(admin, cns::NAMESPACE, nsid).expect("CNS 00h");
    let field = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().expect("8 bytes"));
    (page[24] & 1, [field(0), field(8), field(16)])
}

#[test]
fn a_thin_namespace_reports_its_allocated_blocks() {
    let thin = NamespaceInfo { thin: true, ..NamespaceInfo::new(BlockSize::B4096, 1000) };
    let mut world = World::new(config().with_namespace(2, thin));
    assert_eq!(provisioning(&mut world, 2), (1, [1000, 1000, 1000]), "not counted yet");
    for (counted, reported) in [(0, 0), (17, 17), (1000, 1000), (5000, 1000), (3, 3)] {
        world.subsystem.set_allocated(2, counted);
        assert_eq!(provisioning(&mut world, 2), (1, [1000, 1000, reported]));
    }
    world.subsystem.resize_namespace(2, 2).expect("it may shrink");
    assert_eq!(provisioning(&mut world, 2), (1, [2, 2, 2]), "NUSE is never above NCAP");
    world.subsystem.set_allocated(3, 1);
    assert_eq!(provisioning(&mut world, 3), (0, [0, 0, 0]), "there is no such namespace");
}

#[test]
fn a_namespace_that_has_all_its_blocks_is_not_thin_until_some_are_deallocated() {
    let mut world = World::new(config().with_namespace(2, NamespaceInfo::new(BlockSize::B4096, 1000)));
    for (counted, is_thin) in [(1000, 0), (999, 1), (1000, 0)] {
        world.subsystem.set_allocated(2, counted);
        assert_eq!(provisioning(&mut world, 2), (is_thin, [1000, 1000, counted]));
    }
}
