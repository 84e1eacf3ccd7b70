//! Copy: commands that are passed on, and commands that are refused.

use crate::world::{BLOCKS, World, config, host};
use nvme::spec::Status;
use nvme::spec::copy::{CopyCommand, SourceRange};
use nvme::spec::identify::cns;
use nvme::spec::identify_namespace::IdentifyNamespace;
use nvme::spec::log::{self, LogRequest};
use nvme::spec::opcode::nvm;
use nvme::subsystem::{Action, BlockRange, BlockSize, IoCommand, IoOp, NamespaceInfo, QueueKey};
use units::Lba;
use zerocopy::{FromBytes, IntoBytes};

fn to(destination: u64, ranges: usize) -> CopyCommand {
    CopyCommand { destination, ranges, format: 0, force_unit_access: false }
}

fn copy(
    world: &mut World,
    io: QueueKey,
    command: CopyCommand,
    sources: &[(u64, u32)],
) -> Result<IoCommand, Status> {
    let data: Vec<u8> =
        sources.iter().flat_map(|&(lba, blocks)| SourceRange::new(lba, blocks).as_bytes().to_vec()).collect();
    match world.send(io, command.to_sqe(1), data.len(), &data) {
        Action::Io(command) => Ok(command),
        Action::Reply { cqe, .. } => Err(cqe.status()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_copy_is_within_its_limits() {
    let mut world = World::io();
    let io = world.remote(&host(1)).io;
    let given = copy(&mut world, io, to(1000, 2), &[(8, 4), (100, 1)]).expect("a good copy");
    let ranges = [(8, 4), (100, 1)].map(|(lba, blocks)| BlockRange { lba: Lba(lba), blocks });
    assert_eq!((given.lba, given.blocks, given.op), (Lba(1000), 5, IoOp::Copy(ranges.to_vec())));
    let forced = CopyCommand { force_unit_access: true, ..to(1000, 1) };
    assert!(copy(&mut world, io, forced, &[(8, 4)]).expect("a good copy").fua);

    // 1 MiB in 512-byte blocks, in any number of ranges.
    assert!(copy(&mut world, io, to(4096, 1), &[(0, 2048)]).is_ok());
    let mut refused =
        |command, sources: &[(u64, u32)]| copy(&mut world, io, command, sources).expect_err("refused");
    let limit = Status::COMMAND_SIZE_LIMIT_EXCEEDED;
    assert_eq!(refused(to(4096, 1), &[(0, 2049)]), limit, "MSSRL");
    assert_eq!(refused(to(4096, 2), &[(0, 2048), (9, 1)]), limit, "MCL");
    assert_eq!(refused(to(4096, 129), &[(0, 1); 129]), limit, "MSRC");
    assert_eq!(refused(to(BLOCKS - 3, 1), &[(0, 4)]), Status::LBA_OUT_OF_RANGE, "beyond the end");
    assert_eq!(refused(to(0, 1), &[(BLOCKS - 3, 4)]), Status::LBA_OUT_OF_RANGE, "from beyond the end");
    assert_eq!(refused(to(u64::MAX, 1), &[(0, 4)]), Status::LBA_OUT_OF_RANGE);
    assert_eq!(refused(to(0, 1), &[(u64::MAX, 4)]), Status::LBA_OUT_OF_RANGE);
    assert_eq!(refused(to(4096, 2), &[(0, 4)]), Status::DATA_SGL_LENGTH_INVALID, "one range of two");
    assert_eq!(refused(CopyCommand { format: 1, ..to(4096, 1) }, &[(0, 4)]), Status::INVALID_FIELD);
}

#[test]
fn the_sources_of_a_copy_may_not_overlap_its_destination() {
    let mut world = World::io();
    let io = world.remote(&host(1)).io;
    for (destination, sources, is_good) in [
        (100, &[(90, 10)][..], true),
        (100, &[(91, 10)][..], false),
        (100, &[(110, 10)][..], true),
        (100, &[(109, 10)][..], false),
        (100, &[(100, 1)][..], false),
        // With the second range, the destination overlaps the first.
        (100, &[(105, 5), (0, 5)][..], false),
        (100, &[(105, 5)][..], true),
        (100, &[(0, 5), (0, 5)][..], true),
    ] {
        let given = copy(&mut world, io, to(destination, sources.len()), sources);
        match is_good {
            true => assert!(given.is_ok(), "{sources:?} to {destination}: {given:?}"),
            false => assert_eq!(given, Err(Status::OVERLAPPING_IO_RANGE), "{sources:?} to {destination}"),
        }
    }
}

#[test]
fn copy_is_reported_with_its_limits() {
    let large = NamespaceInfo::new(BlockSize::B4096, 1000);
    let mut world = World::new(config().with_namespace(2, large));
    let remote = world.remote(&host(1));
    let page = world.identify(remote.admin, cns::CONTROLLER, 0).expect("CNS 01h");
    assert_eq!((page[521] & 1, page[534]), (1, 1), "ONCS bit 8, CDFS format 0");
    for (nsid, blocks) in [(1, 2048), (2, 256)] {
        let page = world.identify(remote.admin, cns::NAMESPACE, nsid).expect("CNS 00h");
        let page = IdentifyNamespace::read_from_bytes(&page).expect("4096 bytes");
        assert_eq!((page.mssrl.get(), page.mcl.get(), page.msrc), (blocks as u16, blocks, 127));
    }
    let effects =
        world.log(remote.admin, LogRequest::read(log::COMMANDS_SUPPORTED, 1024, 1024), 0).expect("log 05h");
    assert_eq!(effects[4 * usize::from(nvm::COPY)], 3, "supported, changes contents");
    let mut bare = config();
    bare.commands.copy = false;
    let mut world = World::new(bare);
    let remote = world.remote(&host(1));
    assert_eq!(copy(&mut world, remote.io, to(100, 1), &[(0, 1)]), Err(Status::INVALID_OPCODE));
    assert_eq!(world.identify(remote.admin, cns::CONTROLLER, 0).expect("CNS 01h")[534], 0);
    assert_eq!(world.identify(remote.admin, cns::NAMESPACE, 1).expect("CNS 00h")[74..81], [0; 7]);
}

/// After a restart, the blocks that it marks would be readable again, with old data.
#[test]
fn write_uncorrectable_is_not_offered() {
    let mut world = World::io();
    let remote = world.remote(&host(1));
    let page = world.identify(remote.admin, cns::CONTROLLER, 0).expect("CNS 01h");
    assert_eq!(page[520] & 1 << 1, 0, "ONCS bit 1");
    let uncorrectable = crate::world::io_command(0x04, 0, 1);
    assert_eq!(world.tell(remote.io, uncorrectable, &[]), Status::INVALID_OPCODE);
}
