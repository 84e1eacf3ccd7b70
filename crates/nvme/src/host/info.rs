//! A host's knowledge of a controller and its namespaces.

use super::error::HostError;
use crate::spec::connect::ConnectResult;
use crate::spec::event::EventKind;
use crate::spec::identify_controller::{IdentifyController, cmic, ctratt, unpadded};
use crate::spec::{AnaState, Sqe};
use alloc::string::String;
use units::Bytes;

/// MDTS counts in the controller's smallest memory page, which is 4 KiB on every controller over fabrics.
const MDTS_UNIT: u64 = 4096;
/// Longest transfer to use: with a controller that reports no limit, and with one that reports a larger
/// limit.
const TRANSFER_MAX: Bytes = Bytes::mib(4);
/// IOCCSZ and IORCSZ count in units of 16 bytes.
const CAPSULE_UNIT: u32 = 16;
/// SGLS bits 1:0.
const SGLS_SUPPORTED: u32 = 3;

/// A controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControllerInfo {
    /// CNTLID.
    pub controller_id: u16,
    /// Serial number.
    pub serial: String,
    /// Model number.
    pub model: String,
    /// Firmware revision.
    pub firmware: String,
    /// Version (VS), as on the wire.
    pub version: u32,
    /// The longest transfer of one command.
    pub transfer_max: Bytes,
    /// Data of an IO command that may travel in its capsule, in bytes.
    pub in_capsule_max: u32,
    /// IO queues granted.
    pub io_queues: u16,
    /// Most entries of a queue.
    pub queue_entries_max: u32,
    /// Optional commands: ONCS.
    pub optional_commands: u16,
    /// Whether completed writes need a Flush to be on stable media.
    pub volatile_write_cache: bool,
    /// Whether any command counts as keep-alive traffic.
    pub traffic_based_keep_alive: bool,
    /// Whether the controller reports ANA states.
    pub ana: bool,
    /// Bytes of the longest ANA log page.
    pub(super) ana_log_length: u64,
    /// Events that the controller reports and this host knows; bits as in feature 0Bh.
    pub events: u32,
    /// The first credit. `None` if the controller does not support credits or was not asked.
    pub credit: Option<u32>,
}

impl ControllerInfo {
    pub(super) fn connected(result: ConnectResult) -> ControllerInfo {
        ControllerInfo { controller_id: result.controller_id, ..ControllerInfo::default() }
    }

    /// Stores the data of Identify Controller. The error says why this host cannot use the controller.
    pub(super) fn learn(
        &mut self,
        identify: &IdentifyController,
        keep_alive: bool,
        io: bool,
    ) -> Result<(), HostError> {
        if identify.cntlid.get() != self.controller_id {
            return Err(HostError::Lacking("CNTLID of Connect and of Identify Controller differ"));
        }
        if keep_alive && identify.kas.get() == 0 {
            return Err(HostError::Lacking("no keep-alive (KAS is 0); turn keep-alive off"));
        }
        let limit = match identify.mdts {
            0 => TRANSFER_MAX,
            mdts => MDTS_UNIT.checked_shl(u32::from(mdts)).map_or(TRANSFER_MAX, Bytes),
        };
        self.transfer_max = limit.clamp(Bytes(MDTS_UNIT), TRANSFER_MAX);
        self.serial = unpadded(&identify.sn).into();
        self.model = unpadded(&identify.mn).into();
        self.firmware = unpadded(&identify.fr).into();
        self.version = identify.ver.get();
        self.optional_commands = identify.oncs.get();
        self.volatile_write_cache = identify.vwc & 1 != 0;
        self.traffic_based_keep_alive = identify.ctratt.get() & ctratt::TRAFFIC_BASED_KEEP_ALIVE != 0;
        let wanted = match io {
            true => {
                EventKind::NamespaceChanged.configuration_bit() | EventKind::AnaChanged.configuration_bit()
            }
            false => EventKind::DiscoveryChanged.configuration_bit(),
        };
        self.events = identify.oaes.get() & wanted;
        if io {
            if identify.sgls.get() & SGLS_SUPPORTED == 0 {
                return Err(HostError::Lacking("no SGLs (SGLS is 0)"));
            }
            if identify.iorcsz.get() == 0 {
                return Err(HostError::Lacking("no response capsules (IORCSZ is 0)"));
            }
            let capsule = identify.ioccsz.get().saturating_mul(CAPSULE_UNIT);
            let without_data = capsule.checked_sub(Sqe::SIZE as u32);
            self.in_capsule_max =
                without_data.ok_or(HostError::Lacking("capsules shorter than 64 bytes (IOCCSZ)"))?;
            if identify.maxcmd.get() != 0 {
                self.queue_entries_max = self.queue_entries_max.min(u32::from(identify.maxcmd.get()));
            }
            self.ana = identify.cmic & cmic::ANA != 0;
            let namespaces = match identify.mnan.get() {
                0 => identify.nn.get(),
                most => most,
            };
            let (groups, namespaces) = (u64::from(identify.nanagrpid.get()), u64::from(namespaces));
            self.ana_log_length = 16 + 32 * groups + 4 * namespaces;
        }
        Ok(())
    }
}

/// A namespace, as this host sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespaceView {
    /// Its identifier within the subsystem.
    pub nsid: u32,
    /// Bytes of a block.
    pub block_size: u32,
    /// Blocks.
    pub blocks: u64,
    /// NGUID, if it has one.
    pub nguid: Option<[u8; 16]>,
    /// UUID, if it has one.
    pub uuid: Option<[u8; 16]>,
    /// Whether the namespace is write protected.
    pub read_only: bool,
    /// The reservations that it can have: RESCAP.
    pub reservation_capabilities: u8,
    /// Its access state through this controller.
    pub ana: AnaState,
}

impl NamespaceView {
    /// Whether `other`, seen later with the same NSID, is the same namespace by its identifiers.
    pub fn is_same(&self, other: &NamespaceView) -> bool {
        (self.nsid, self.block_size, self.nguid, self.uuid)
            == (other.nsid, other.block_size, other.nguid, other.uuid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::identify_controller::SGLS_TCP;
    use zerocopy::FromZeros;

    /// A controller that supports everything a host needs.
    fn good() -> IdentifyController {
        let mut identify = IdentifyController::new_zeroed();
        identify.cntlid = 7.into();
        identify.kas = 1.into();
        identify.sgls = SGLS_TCP.into();
        identify.ioccsz = 4.into();
        identify.iorcsz = 1.into();
        identify
    }

    fn learn(change: impl Fn(&mut IdentifyController), io: bool) -> Result<ControllerInfo, HostError> {
        let mut identify = good();
        change(&mut identify);
        let mut info =
            ControllerInfo { controller_id: 7, queue_entries_max: 1024, ..ControllerInfo::default() };
        info.learn(&identify, true, io).map(|()| info)
    }

    #[test]
    fn a_controller_that_lacks_what_io_over_fabrics_needs_is_refused() {
        type Change = fn(&mut IdentifyController);
        let lacking: [(Change, bool); 5] = [
            (|identify| identify.cntlid = 8.into(), true),
            (|identify| identify.kas = 0.into(), true),
            (|identify| identify.sgls = 0.into(), false),
            (|identify| identify.ioccsz = 3.into(), false),
            (|identify| identify.iorcsz = 0.into(), false),
        ];
        for (number, (change, discovery_too)) in lacking.into_iter().enumerate() {
            assert!(matches!(learn(change, true), Err(HostError::Lacking(_))), "{number}");
            assert_eq!(learn(change, false).is_err(), discovery_too, "{number}");
        }
    }

    #[test]
    fn the_limits_of_a_controller_are_obeyed() {
        let info = learn(|_| {}, true).expect("a good controller");
        assert_eq!((info.in_capsule_max, info.transfer_max, info.queue_entries_max), (0, TRANSFER_MAX, 1024));
        let change = |identify: &mut IdentifyController| {
            identify.mdts = 5;
            identify.ioccsz = 260.into();
            identify.maxcmd = 128.into();
        };
        let info = learn(change, true).expect("a good controller");
        assert_eq!((info.in_capsule_max, info.transfer_max), (4096, Bytes(128 << 10)));
        assert_eq!(info.queue_entries_max, 128);
        let info = learn(|identify| identify.mdts = 255, true).expect("a good controller");
        assert_eq!(info.transfer_max, TRANSFER_MAX, "more than anybody transfers");
    }
}
