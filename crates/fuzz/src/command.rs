//! NVMe commands of every opcode, mostly with valid parameters.

use crate::input::Input;
use nvme::spec::connect::{CNTLID_DYNAMIC, ConnectCommand, ConnectData, HostId};
use nvme::spec::copy::{CopyCommand, SOURCE_RANGE_SIZE, SourceRange};
use nvme::spec::opcode::{admin, fabrics, nvm};
use nvme::spec::property::{Configuration, offset};
use nvme::spec::sqe::{FLAGS_FUSE_FIRST, FLAGS_FUSE_SECOND, FLAGS_PSDT_SGL, OPCODE_FABRICS};
use nvme::spec::{Nqn, Sgl, Sqe, feature};
use zerocopy::IntoBytes;

/// Logical blocks that the commands address.
const BLOCKS: &[u64] = &[0, 1, 2, 3, 7, 8, 16383, 16384, 131_071, 131_072, u64::MAX - 1, u64::MAX];
const FEATURES: &[u8] = &[
    feature::ARBITRATION,
    feature::POWER_MANAGEMENT,
    feature::TEMPERATURE_THRESHOLD,
    feature::ERROR_RECOVERY,
    feature::VOLATILE_WRITE_CACHE,
    feature::NUMBER_OF_QUEUES,
    feature::WRITE_ATOMICITY,
    feature::ASYNC_EVENT_CONFIGURATION,
    feature::TIMESTAMP,
    feature::KEEP_ALIVE_TIMER,
    feature::HOST_BEHAVIOR,
    feature::HOST_IDENTIFIER,
    feature::RESERVATION_NOTIFICATION_MASK,
    feature::RESERVATION_PERSISTENCE,
    feature::CREDITS,
];
const NAMESPACES: &[u32] = &[1, 1, 1, 2, 3, 4, 0, 5, u32::MAX - 1, u32::MAX];

/// Any command, with any identifier and no data pointer yet.
pub(crate) fn any_command(input: &mut Input<'_>) -> Sqe {
    let nsid = input.pick(NAMESPACES);
    let reads = |input: &mut Input<'_>, opcode| {
        let lba = if input.one_in(8) { input.long() } else { input.pick(BLOCKS) };
        let blocks = input.pick(&[0, 0, 7, 255, 0xffff]);
        let flags = if input.one_in(4) { input.word() & 0xffff_0000 } else { 0 };
        Sqe::new(opcode).with_cdw10_15([
            lba as u32,
            (lba >> 32) as u32,
            blocks | flags,
            input.below(64),
            0,
            0,
        ])
    };
    let sqe = match input.below(22) {
        0..=4 => {
            let opcode = input.pick(&[nvm::READ, nvm::WRITE, nvm::COMPARE, nvm::WRITE_ZEROES, nvm::VERIFY]);
            reads(input, opcode)
        }
        5 => Sqe::new(nvm::FLUSH),
        6 => Sqe::new(nvm::DATASET_MANAGEMENT).with_cdw10_15([
            input.below(256),
            input.pick(&[4, 4, 0, 7]),
            0,
            0,
            0,
            0,
        ]),
        7..=10 => {
            let opcode = input.pick(&[
                nvm::RESERVATION_REGISTER,
                nvm::RESERVATION_REGISTER,
                nvm::RESERVATION_ACQUIRE,
                nvm::RESERVATION_ACQUIRE,
                nvm::RESERVATION_RELEASE,
                nvm::RESERVATION_REPORT,
            ]);
            let action = input.pick(&[0, 0, 1, 2, 2, 7]);
            let ignore = u32::from(input.one_in(4)) << 3;
            let kind = input.pick(&[1, 2, 3, 4, 5, 6, 0, 7]) << 8;
            let rest = if input.one_in(8) { input.word() } else { 0 };
            let dword = if opcode == nvm::RESERVATION_REPORT {
                input.pick(&[0, 1, 15, 1023])
            } else {
                action | ignore | kind | rest
            };
            Sqe::new(opcode).with_cdw10_15([dword, input.pick(&[1, 1, 0]), 0, 0, 0, 0])
        }
        11 => Sqe::new(admin::IDENTIFY).with_cdw10_15([
            u32::from(input.byte() % 0x21) | if input.one_in(4) { input.word() << 8 } else { 0 },
            if input.one_in(4) { input.word() } else { 0 },
            0,
            0,
            0,
            0,
        ]),
        12 => {
            let page = u32::from(input.pick(&[0u8, 1, 2, 3, 4, 5, 6, 9, 0x0c, 0x0d, 0x12, 0x70, 0x80, 0x81]));
            let dwords = input.pick(&[0, 127, 1023, 0xffff]);
            let offset = if input.one_in(3) { input.pick(&[4, 16, 512, 4096, 1 << 20, u32::MAX]) } else { 0 };
            let upper = if input.one_in(8) { u32::from(input.byte()) } else { 0 };
            Sqe::new(admin::GET_LOG_PAGE).with_cdw10_15([
                page | u32::from(input.byte() & 0x8f) << 8 | dwords << 16,
                upper,
                offset,
                upper,
                0,
                0,
            ])
        }
        13 | 14 => {
            let opcode = input.pick(&[admin::SET_FEATURES, admin::GET_FEATURES]);
            let id = if input.one_in(8) { input.byte() } else { input.pick(FEATURES) };
            let select = if input.one_in(4) { (u32::from(input.byte()) & 7) << 8 } else { 0 };
            let save = u32::from(input.one_in(16)) << 31;
            let value = input.pick(&[0, 1, 0x1_0001, 0x8000_0000, 0x900, 1000, u32::MAX]);
            let value = if input.one_in(4) { input.word() } else { value };
            Sqe::new(opcode).with_cdw10_15([u32::from(id) | select | save, value, 0, 0, 0, 0])
        }
        15 => Sqe::new(input.pick(&[admin::ASYNC_EVENT_REQUEST, admin::KEEP_ALIVE])),
        19 => Sqe::new(admin::ABORT).with_cdw10_15([
            input.below(3) | u32::from(input.byte()) << 16,
            0,
            0,
            0,
            0,
            0,
        ]),
        20 => CopyCommand {
            destination: if input.one_in(8) { input.long() } else { input.pick(BLOCKS) },
            ranges: input.pick(&[1, 1, 2, 3, 128, 129, 256]),
            format: if input.one_in(8) { input.byte() & 0xf } else { 0 },
            force_unit_access: input.flag(),
        }
        .to_sqe(nsid),
        16 => property(input),
        17 => connect(input).to_sqe(),
        18 => Sqe::fabrics(input.byte()),
        _ => {
            let opcode = input.byte();
            Sqe::new(opcode).with_cdw10_15([0; 6].map(|_| input.word()))
        }
    };
    let sqe = if sqe.opcode() == OPCODE_FABRICS { sqe } else { sqe.with_nsid(nsid) };
    if input.one_in(24) { sqe.with_flags(input.byte()) } else { sqe }
}

fn property(input: &mut Input<'_>) -> Sqe {
    let fctype = input.pick(&[fabrics::PROPERTY_GET, fabrics::PROPERTY_SET]);
    let place = input.pick(&[
        offset::CAP,
        offset::VS,
        offset::CC,
        offset::CC,
        offset::CSTS,
        offset::CRTO,
        0x20,
        u32::MAX,
    ]);
    let enabled = Configuration::host(false).enabled();
    let value = input.pick(&[
        enabled.0,
        enabled.0,
        Configuration::host(false).0,
        enabled.shutting_down().0,
        0,
        u32::MAX,
    ]);
    let value = if input.one_in(8) { input.word() } else { value };
    Sqe::fabrics(fctype).with_cdw10_15([input.pick(&[0, 0, 1, 7]), place, value, 0, 0, 0])
}

/// A Connect, usually a valid one.
pub(crate) fn connect(input: &mut Input<'_>) -> ConnectCommand {
    ConnectCommand {
        record_format: if input.one_in(24) { input.half() } else { 0 },
        queue_id: input.pick(&[0, 0, 1, 1, 2, 3, u16::MAX]),
        sqsize: input.pick(&[31, 31, 127, 1, 0, u16::MAX]),
        attributes: input.pick(&[0, 0, 4, 0xff]),
        keep_alive_timeout: input.pick(&[0, 5000, 30_000, 1, u32::MAX]),
    }
}

/// NQN and host identifier of host `number`. Host 3 has no identifier; host 2 has that of host 1.
pub(crate) fn host(number: u32) -> (Nqn, HostId) {
    let name = Nqn::new(&format!("nqn.2014-08.org.example:host{number}")).expect("a valid NQN");
    let id = match number {
        3 => HostId::NONE,
        2 => HostId([1; 16]),
        _ => HostId([number as u8; 16]),
    };
    (name, id)
}

/// The data of a Connect by host `number`.
pub(crate) fn connect_data(number: u32, subsystem: &str, controller_id: Option<u16>) -> ConnectData {
    let (host, id) = host(number);
    let subsystem = Nqn::new(subsystem).expect("a valid NQN");
    ConnectData::new(id, &host, &subsystem, controller_id.unwrap_or(CNTLID_DYNAMIC))
}

/// A fused Compare and Write, usually of the same block.
pub(crate) fn fused_pair(input: &mut Input<'_>) -> [Sqe; 2] {
    let (nsid, lba) = (input.pick(NAMESPACES), input.pick(BLOCKS));
    let half = |input: &mut Input<'_>, opcode, fuse| {
        let opcode = if input.one_in(12) { input.byte() } else { opcode };
        let lba = if input.one_in(12) { input.long() } else { lba };
        let nsid = if input.one_in(12) { input.pick(NAMESPACES) } else { nsid };
        let blocks = if input.one_in(8) { 1 } else { 0 };
        let force = u32::from(input.flag()) << 30;
        Sqe::new(opcode).with_flags(FLAGS_PSDT_SGL | fuse).with_nsid(nsid).with_cdw10_15([
            lba as u32,
            (lba >> 32) as u32,
            blocks | force,
            0,
            0,
            0,
        ])
    };
    [half(input, nvm::COMPARE, FLAGS_FUSE_FIRST), half(input, nvm::WRITE, FLAGS_FUSE_SECOND)]
}

/// A data length for this command: usually the one it requires, at most `most`.
pub(crate) fn data_length(input: &mut Input<'_>, sqe: &Sqe, block_size: u32, most: u32) -> u32 {
    // Read and Get Log Page have the same opcode, on different queues.
    let is_log_page = sqe.opcode() == admin::GET_LOG_PAGE && input.flag();
    let proper = match sqe.opcode() {
        admin::GET_LOG_PAGE if is_log_page => ((sqe.cdw10() >> 16) + 1) * 4,
        nvm::READ | nvm::WRITE | nvm::COMPARE => ((sqe.cdw12() & 0xffff) + 1).saturating_mul(block_size),
        nvm::DATASET_MANAGEMENT => ((sqe.cdw10() & 0xff) + 1) * 16,
        nvm::COPY => (CopyCommand::parse(sqe).ranges * SOURCE_RANGE_SIZE) as u32,
        nvm::RESERVATION_REGISTER | nvm::RESERVATION_ACQUIRE => 16,
        nvm::RESERVATION_RELEASE => 8,
        nvm::RESERVATION_REPORT => sqe.cdw10().saturating_add(1).saturating_mul(4),
        admin::IDENTIFY => 4096,
        admin::GET_FEATURES => input.pick(&[0, 8, 16, 512]),
        OPCODE_FABRICS if sqe.fctype() == fabrics::CONNECT => 1024,
        _ => 0,
    };
    let length = if input.one_in(12) { input.pick(&[0, 1, 4, 512, 4096, 8192, u32::MAX]) } else { proper };
    length.min(most)
}

/// Data for a command: few distinct keys, ranges near the ends of a namespace, a Connect, or one byte
/// repeated.
pub(crate) fn data(input: &mut Input<'_>, sqe: &Sqe, length: u32) -> Vec<u8> {
    let length = length as usize;
    let mut bytes = match sqe.opcode() {
        nvm::RESERVATION_REGISTER | nvm::RESERVATION_ACQUIRE | nvm::RESERVATION_RELEASE => {
            let keys = [0; 2].map(|_| u64::from(input.pick(&[1u8, 1, 2, 3, 0])));
            keys.map(u64::to_le_bytes).concat()
        }
        nvm::DATASET_MANAGEMENT => {
            let range = |input: &mut Input<'_>| {
                let blocks: u32 = input.pick(&[1, 0, 8, 131_072, u32::MAX]);
                let lba = if input.one_in(4) { input.pick(BLOCKS) } else { u64::from(input.byte()) };
                [&[0; 4], &blocks.to_le_bytes()[..], &lba.to_le_bytes()[..]].concat()
            };
            (0..length / 16).flat_map(|_| range(input)).collect()
        }
        nvm::COPY => {
            let range = |input: &mut Input<'_>| {
                let blocks = input.pick(&[1, 1, 8, 256, 2048, 65536]);
                let lba = if input.one_in(4) { input.pick(BLOCKS) } else { u64::from(input.byte()) };
                SourceRange::new(lba, blocks).as_bytes().to_vec()
            };
            (0..length / SOURCE_RANGE_SIZE).flat_map(|_| range(input)).collect()
        }
        OPCODE_FABRICS if sqe.fctype() == fabrics::CONNECT => {
            let controller = input.flag().then(|| input.below(4) as u16);
            connect_data(input.below(4), crate::SUBSYSTEM, controller).as_bytes().to_vec()
        }
        _ => vec![input.byte(); length],
    };
    bytes.resize(length, 0);
    bytes
}

/// A data descriptor for `length` bytes, usually one that a real host would send.
pub(crate) fn descriptor(input: &mut Input<'_>, length: u32, in_capsule: bool) -> Sgl {
    match input.below(24) {
        0 => Sgl::Other(input.byte()),
        1 => Sgl::InCapsule { offset: input.long(), length },
        2 => Sgl::Transport { length: input.word() },
        _ if in_capsule => Sgl::InCapsule { offset: 0, length },
        _ => Sgl::Transport { length },
    }
}
