//! Identify: describes the subsystem, its controllers and its namespaces.
//!
//! Holds: the fields that Linux depends on (`identify_has_what_linux_requires` in `tests/controller/linux.rs`).
//! NVM Express Base Specification and NVM Command Set Specification: "Identify command".

use super::abort::ABORTS_MAX;
use super::action::Action;
use super::config::{CAPSULE_UNIT, MDTS_UNIT, Role};
use super::copy;
use super::fused::ATOMIC_COMPARE_AND_WRITE_UNIT;
use super::keep_alive;
use super::namespaces::Namespace;
use super::properties::VERSION;
use super::{Subsystem, exact_length};
use crate::spec::discovery::TransportType;
use crate::spec::identify::descriptor::{self, NamespaceIds};
use crate::spec::identify::{
    self, CSI_NVM, IDENTIFY_SIZE, IdentifyCommand, NSID_ALL, cns, controller_list, namespace_list,
};
use crate::spec::identify_controller::{
    CDFS_FORMAT_0, FUSES_COMPARE_AND_WRITE, IdentifyController, IdentifyNvmController, SGLS_RDMA, SGLS_TCP,
    anacap, cmic, controller_type, ctratt, lpa, oncs, padded, vwc,
};
use crate::spec::identify_namespace::{
    DLFEAT_READS_ZEROES, DLFEAT_WRITE_ZEROES_DEALLOCATES, IdentifyNamespace, IdentifyNamespaceIndependent,
    LbaFormat, NMIC_SHARED, NSATTR_WRITE_PROTECTED, NSFEAT_OPTIMAL_PERFORMANCE, NSFEAT_THIN_PROVISIONING,
    NSTAT_READY, RESCAP_ALL_TYPES, RESCAP_PERSISTENCE,
};
use crate::spec::{Cqe, Sqe, Status};
use alloc::vec;
use alloc::vec::Vec;
use zerocopy::{FromZeros, IntoBytes};

/// CQT: within this time all commands of a lost host have ended or been taken back, if the device works. If a
/// device hangs, the host's next commands wait until its old ones have ended, even after this time.
const COMMAND_QUIESCE_MILLIS: u16 = 1000;

/// SQES and CQES: 64 and 16 bytes, required and largest.
const SQES: u8 = 0x66;
const CQES: u8 = 0x44;
/// FRMW: one firmware slot, read only.
const FRMW_ONE_SLOT: u8 = 1 << 1 | 1;
/// ANATT: longest time of an ANA transition, in seconds.
const ANATT_SECONDS: u8 = 10;
/// ACL: outstanding Aborts, minus one.
const ABORT_LIMIT: u8 = ABORTS_MAX as u8 - 1;
/// MSDBD: SGL descriptors per capsule. Only the one in the command.
const MSDBD: u8 = 1;
/// Bytes of a submission queue entry, which is the first part of a command capsule.
const SQE_BYTES: u32 = 64;
/// DCTYPE: Direct Discovery Controller; other targets do not register with it.
const DISCOVERY_CONTROLLER_DIRECT: u8 = 1;

/// DMRSL: blocks of one Deallocate range that hosts should not exceed: 1 GiB of 4 KiB blocks. A device may
/// take long to free a large range. Hosts time out after 30 s, and Linux would send 2 TiB in one range.
/// Longer ranges are carried out nevertheless.
const DEALLOCATE_BLOCKS_MAX: u32 = 1 << 18;

impl Subsystem {
    pub(super) fn identify(&self, slot: usize, sqe: &Sqe) -> Result<Action, Status> {
        exact_length(sqe, IDENTIFY_SIZE)?;
        let command = IdentifyCommand::parse(sqe);
        let page = match self.config.role {
            Role::Io => self.identify_io(slot, &command, sqe.nsid())?,
            Role::Discovery if command.cns == cns::CONTROLLER => self.identify_controller(slot),
            Role::Discovery => return Err(Status::INVALID_FIELD),
        };
        Ok(Action::reply_with(Cqe::success(sqe.cid()), page))
    }

    fn identify_io(&self, slot: usize, command: &IdentifyCommand, nsid: u32) -> Result<Vec<u8>, Status> {
        let of_nvm = || if command.command_set == CSI_NVM { Ok(()) } else { Err(Status::INVALID_FIELD) };
        Ok(match command.cns {
            cns::CONTROLLER => self.identify_controller(slot),
            cns::NAMESPACE | cns::ALLOCATED_NAMESPACE => self.identify_namespace(nsid)?,
            cns::ACTIVE_NAMESPACES | cns::ALLOCATED_NAMESPACES => self.list_namespaces(nsid)?,
            cns::ACTIVE_NAMESPACES_OF_COMMAND_SET => {
                of_nvm()?;
                self.list_namespaces(nsid)?
            }
            cns::NAMESPACE_DESCRIPTORS => {
                let namespace = self.namespaces.get(nsid).ok_or(Status::INVALID_NAMESPACE)?;
                descriptor::emit(&NamespaceIds {
                    eui64: namespace.info.eui64,
                    nguid: namespace.info.nguid,
                    uuid: Some(namespace.uuid),
                    command_set: CSI_NVM,
                })
            }
            cns::NAMESPACE_OF_COMMAND_SET => {
                of_nvm()?;
                self.namespaces.get(nsid).ok_or(Status::INVALID_NAMESPACE)?;
                // No protection information and no storage tags: all fields are 0.
                vec![0; IDENTIFY_SIZE]
            }
            cns::CONTROLLER_OF_COMMAND_SET => {
                of_nvm()?;
                let vsl = self.transfer_limit();
                let dmrsl = DEALLOCATE_BLOCKS_MAX.into();
                let page = IdentifyNvmController { vsl, dmrsl, ..IdentifyNvmController::new_zeroed() };
                page.as_bytes().to_vec()
            }
            cns::NAMESPACE_INDEPENDENT => self.identify_independent(nsid)?,
            cns::CONTROLLERS => self.list_controllers(command.controller_id),
            cns::CONTROLLERS_OF_NAMESPACE => {
                self.namespaces.get(nsid).ok_or(Status::INVALID_NAMESPACE)?;
                self.list_controllers(command.controller_id)
            }
            cns::IO_COMMAND_SETS => identify::io_command_sets(),
            _ => return Err(Status::INVALID_FIELD),
        })
    }

    /// The longest transfer, as encoded in MDTS and VSL.
    fn transfer_limit(&self) -> u8 {
        (self.config.limits.transfer_max.get() / MDTS_UNIT).trailing_zeros() as u8
    }

    fn identify_controller(&self, slot: usize) -> Vec<u8> {
        let (config, limits) = (&self.config, &self.config.limits);
        let controller = self.controller(slot);
        let (sgls, in_capsule_max) = match controller.transport {
            TransportType::Tcp => (SGLS_TCP, limits.in_capsule_max),
            TransportType::Rdma => (SGLS_RDMA, 0),
        };
        let mut page = IdentifyController {
            sn: padded(&config.serial),
            mn: padded(&config.model),
            fr: padded(&config.firmware),
            mdts: self.transfer_limit(),
            cntlid: controller.id.into(),
            ver: VERSION.0.into(),
            oaes: self.event_bits().into(),
            ctratt: (ctratt::HOST_ID_128 | ctratt::TRAFFIC_BASED_KEEP_ALIVE).into(),
            acl: ABORT_LIMIT,
            aerl: limits.event_requests_max - 1,
            frmw: FRMW_ONE_SLOT,
            lpa: lpa::EXTENDED | lpa::SUPPORTED_PAGES | lpa::COMMANDS_SUPPORTED,
            elpe: (limits.error_log_entries - 1) as u8,
            kas: keep_alive::GRANULARITY.into(),
            maxcmd: limits.queue_entries_max.into(),
            sgls: sgls.into(),
            subnqn: config.nqn.to_field(),
            ioccsz: ((SQE_BYTES + in_capsule_max) / CAPSULE_UNIT).into(),
            iorcsz: (Cqe::SIZE as u32 / CAPSULE_UNIT).into(),
            msdbd: MSDBD,
            ..IdentifyController::new_zeroed()
        };
        match config.role {
            Role::Io => self.identify_io_controller(&mut page),
            Role::Discovery => {
                page.cntrltype = controller_type::DISCOVERY;
                page.dctype = DISCOVERY_CONTROLLER_DIRECT;
            }
        }
        page.as_bytes().to_vec()
    }

    fn identify_io_controller(&self, page: &mut IdentifyController) {
        let (config, limits) = (&self.config, &self.config.limits);
        let offered = config.commands;
        let supported = [
            (oncs::COMPARE, offered.compare),
            (oncs::DATASET_MANAGEMENT, offered.deallocate),
            (oncs::WRITE_ZEROES, offered.write_zeroes),
            (oncs::SAVE_AND_SELECT, true),
            (oncs::RESERVATIONS, offered.reservations),
            (oncs::TIMESTAMP, true),
            (oncs::VERIFY, offered.verify),
            (oncs::COPY, offered.copy),
        ];
        let supported = supported.into_iter().filter(|(_, offered)| *offered);
        page.oncs = supported.fold(0, |all, (bit, _)| all | bit).into();
        if offered.compare {
            page.fuses = FUSES_COMPARE_AND_WRITE.into();
            page.acwu = ATOMIC_COMPARE_AND_WRITE_UNIT.into();
        }
        if offered.copy {
            page.cdfs = CDFS_FORMAT_0.into();
        }
        page.cmic = cmic::PORTS | cmic::CONTROLLERS | cmic::ANA;
        page.cntrltype = controller_type::IO;
        page.cqt = COMMAND_QUIESCE_MILLIS.into();
        page.tnvmcap = self.namespaces.capacity().to_le_bytes();
        page.anatt = ANATT_SECONDS;
        page.anacap = anacap::ALL_STATES;
        page.anagrpmax = limits.ana_groups_max.into();
        page.nanagrpid = limits.ana_groups_max.into();
        page.sqes = SQES;
        page.cqes = CQES;
        page.nn = limits.namespaces_max.into();
        page.mnan = limits.namespaces_max.into();
        page.vwc = vwc::FLUSH_ONE_NAMESPACE | if config.volatile_write_cache { vwc::PRESENT } else { 0 };
    }

    /// The page of an inactive namespace is all zeroes. An NSID out of range is refused.
    fn identify_namespace(&self, nsid: u32) -> Result<Vec<u8>, Status> {
        let mut page = IdentifyNamespace::new_zeroed();
        if nsid == NSID_ALL {
            // NSID FFFFFFFFh asks for the capabilities that all namespaces have in common. That is for
            // controllers with Namespace Management.
            return Err(Status::INVALID_NAMESPACE);
        }
        let Some(namespace) = self.namespaces.get(nsid) else {
            return match nsid {
                0 => Err(Status::INVALID_NAMESPACE),
                _ if nsid > self.config.limits.namespaces_max => Err(Status::INVALID_NAMESPACE),
                _ => Ok(page.as_bytes().to_vec()),
            };
        };
        page.nsze = namespace.blocks.into();
        page.ncap = namespace.blocks.into();
        let in_use = namespace.allocated.map_or(namespace.blocks, |blocks| blocks.min(namespace.blocks));
        page.nuse = in_use.into();
        // A file that was fully allocated may have had blocks deallocated since.
        if namespace.info.thin || in_use < namespace.blocks {
            page.nsfeat |= NSFEAT_THIN_PROVISIONING;
        }
        page.nmic = NMIC_SHARED;
        page.rescap = self.reservation_capabilities(namespace);
        page.dlfeat = DLFEAT_WRITE_ZEROES_DEALLOCATES
            | if namespace.info.zeroes_after_deallocate { DLFEAT_READS_ZEROES } else { 0 };
        page.nvmcap = (u128::from(namespace.blocks) << namespace.block_shift).to_le_bytes();
        if let Some(blocks) = namespace.info.optimal_write_blocks {
            let zero_based = (blocks.clamp(1, 1 << 16) - 1) as u16;
            page.nsfeat |= NSFEAT_OPTIMAL_PERFORMANCE;
            [page.npwg, page.npwa, page.npdg, page.npda, page.nows] = [zero_based.into(); 5];
        }
        if self.config.commands.copy {
            page.mssrl = copy::range_blocks_max(&self.config.limits, namespace.block_shift).into();
            page.mcl = copy::blocks_max(&self.config.limits, namespace.block_shift).into();
            page.msrc = (copy::RANGES_MAX - 1) as u8;
        }
        page.anagrpid = namespace.info.ana_group.into();
        page.nsattr = attributes(namespace);
        page.nguid = namespace.info.nguid.unwrap_or_default();
        page.eui64 = namespace.info.eui64.unwrap_or_default();
        page.lbaf[0] = LbaFormat { data_size_log2: namespace.block_shift, ..LbaFormat::default() };
        Ok(page.as_bytes().to_vec())
    }

    fn identify_independent(&self, nsid: u32) -> Result<Vec<u8>, Status> {
        let namespace = self.namespaces.get(nsid).ok_or(Status::INVALID_NAMESPACE)?;
        let page = IdentifyNamespaceIndependent {
            nmic: NMIC_SHARED,
            rescap: self.reservation_capabilities(namespace),
            anagrpid: namespace.info.ana_group.into(),
            nsattr: attributes(namespace),
            nstat: NSTAT_READY,
            ..IdentifyNamespaceIndependent::new_zeroed()
        };
        Ok(page.as_bytes().to_vec())
    }

    /// RESCAP.
    fn reservation_capabilities(&self, namespace: &Namespace) -> u8 {
        let is_offered = self.config.commands.reservations && namespace.info.reservable;
        match (is_offered, self.config.persistence) {
            (false, _) => 0,
            (true, false) => RESCAP_ALL_TYPES,
            (true, true) => RESCAP_ALL_TYPES | RESCAP_PERSISTENCE,
        }
    }

    fn list_namespaces(&self, after: u32) -> Result<Vec<u8>, Status> {
        if after >= NSID_ALL - 1 {
            return Err(Status::INVALID_NAMESPACE);
        }
        Ok(namespace_list(self.namespaces.ids_after(after)))
    }

    fn list_controllers(&self, from: u16) -> Vec<u8> {
        let mut ids: Vec<u16> = self.controllers().map(|(id, _)| id).filter(|&id| id >= from).collect();
        ids.sort_unstable();
        controller_list(ids.into_iter())
    }
}

fn attributes(namespace: &Namespace) -> u8 {
    if namespace.read_only { NSATTR_WRITE_PROTECTED } else { 0 }
}
