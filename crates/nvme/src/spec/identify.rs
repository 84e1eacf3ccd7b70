//! Identify: the CNS values, and the lists that answer the short questions.
//!
//! The large structures have their own files: `identify_controller`, `identify_namespace`. Every answer has
//! 4096 bytes.
//!
//! Holds: lists end where the specification says and read back (`lists_read_back`).
//! NVM Express Base Specification: "Identify command".

use alloc::vec;
use alloc::vec::Vec;

/// Bytes of every Identify answer.
pub const IDENTIFY_SIZE: usize = 4096;

/// CSI of the NVM command set, the only one supported.
pub const CSI_NVM: u8 = 0;

/// NSID that means all namespaces.
pub const NSID_ALL: u32 = 0xffff_ffff;

/// Controller or Namespace Structure: CDW10 bits 7:0.
pub mod cns {
    /// Identify Namespace.
    pub const NAMESPACE: u8 = 0x00;
    /// Identify Controller.
    pub const CONTROLLER: u8 = 0x01;
    /// Active namespaces with an identifier above NSID.
    pub const ACTIVE_NAMESPACES: u8 = 0x02;
    /// Namespace Identification Descriptors.
    pub const NAMESPACE_DESCRIPTORS: u8 = 0x03;
    /// Identify Namespace, of an IO command set.
    pub const NAMESPACE_OF_COMMAND_SET: u8 = 0x05;
    /// Identify Controller, of an IO command set.
    pub const CONTROLLER_OF_COMMAND_SET: u8 = 0x06;
    /// Active namespaces of an IO command set with an identifier above NSID.
    pub const ACTIVE_NAMESPACES_OF_COMMAND_SET: u8 = 0x07;
    /// Identify Namespace, independent of the IO command set.
    pub const NAMESPACE_INDEPENDENT: u8 = 0x08;
    /// Allocated namespaces with an identifier above NSID.
    pub const ALLOCATED_NAMESPACES: u8 = 0x10;
    /// Identify Namespace of an allocated one.
    pub const ALLOCATED_NAMESPACE: u8 = 0x11;
    /// Controllers attached to a namespace, starting at CNTID.
    pub const CONTROLLERS_OF_NAMESPACE: u8 = 0x12;
    /// Controllers of the subsystem, starting at CNTID.
    pub const CONTROLLERS: u8 = 0x13;
    /// IO Command Set combinations.
    pub const IO_COMMAND_SETS: u8 = 0x1c;
}

/// The fields of an Identify command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdentifyCommand {
    /// CNS.
    pub cns: u8,
    /// CNTID: the first controller of a list, or the controller for which combinations are requested.
    pub controller_id: u16,
    /// CSI.
    pub command_set: u8,
}

impl IdentifyCommand {
    /// From dwords 10 and 11.
    pub fn parse(sqe: &super::Sqe) -> IdentifyCommand {
        IdentifyCommand {
            cns: sqe.cdw10() as u8,
            controller_id: (sqe.cdw10() >> 16) as u16,
            command_set: (sqe.cdw11() >> 24) as u8,
        }
    }

    /// As a command on namespace `nsid`.
    pub fn to_sqe(self, nsid: u32) -> super::Sqe {
        super::Sqe::new(super::opcode::admin::IDENTIFY).with_nsid(nsid).with_cdw10_15([
            u32::from(self.controller_id) << 16 | u32::from(self.cns),
            u32::from(self.command_set) << 24,
            0,
            0,
            0,
            0,
        ])
    }
}

/// Namespaces in a namespace list.
pub const NAMESPACE_LIST_ENTRIES: usize = IDENTIFY_SIZE / 4;

/// A namespace list: ascending identifiers, then zeroes. Identifiers that do not fit are left out.
pub fn namespace_list(nsids: impl Iterator<Item = u32>) -> Vec<u8> {
    let mut list = Vec::with_capacity(IDENTIFY_SIZE);
    for nsid in nsids.take(NAMESPACE_LIST_ENTRIES) {
        list.extend_from_slice(&nsid.to_le_bytes());
    }
    list.resize(IDENTIFY_SIZE, 0);
    list
}

/// The identifiers in a namespace list, up to the first zero.
pub fn read_namespace_list(list: &[u8]) -> impl Iterator<Item = u32> {
    list.chunks_exact(4)
        .map(|entry| u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]))
        .take_while(|&nsid| nsid != 0)
}

/// A controller list: a count, then ascending identifiers. Identifiers that do not fit are left out.
pub fn controller_list(ids: impl Iterator<Item = u16>) -> Vec<u8> {
    const ENTRIES_MAX: usize = IDENTIFY_SIZE / 2 - 1;
    let mut list = vec![0; 2];
    let mut count: u16 = 0;
    for id in ids.take(ENTRIES_MAX) {
        list.extend_from_slice(&id.to_le_bytes());
        count += 1;
    }
    list[..2].copy_from_slice(&count.to_le_bytes());
    list.resize(IDENTIFY_SIZE, 0);
    list
}

/// The IO command set combinations of a controller that supports only the NVM command set.
pub fn io_command_sets() -> Vec<u8> {
    let mut combinations = vec![0; IDENTIFY_SIZE];
    combinations[0] = 1 << CSI_NVM;
    combinations
}

/// Namespace identification descriptors: type, length, 2 reserved bytes, then the identifier.
pub mod descriptor {
    use super::{CSI_NVM, IDENTIFY_SIZE};
    use alloc::vec::Vec;

    const NIDT_EUI64: u8 = 1;
    const NIDT_NGUID: u8 = 2;
    const NIDT_UUID: u8 = 3;
    const NIDT_CSI: u8 = 4;

    /// The globally unique identifiers of a namespace.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct NamespaceIds {
        /// EUI64.
        pub eui64: Option<[u8; 8]>,
        /// NGUID.
        pub nguid: Option<[u8; 16]>,
        /// UUID, big-endian as in its text form.
        pub uuid: Option<[u8; 16]>,
        /// IO command set. The NVM command set if there is no descriptor for it.
        pub command_set: u8,
    }

    /// The 4096 bytes of descriptors.
    pub fn emit(ids: &NamespaceIds) -> Vec<u8> {
        let mut list = Vec::with_capacity(IDENTIFY_SIZE);
        let mut push = |kind: u8, id: &[u8]| {
            list.extend_from_slice(&[kind, id.len() as u8, 0, 0]);
            list.extend_from_slice(id);
        };
        if let Some(eui64) = &ids.eui64 {
            push(NIDT_EUI64, eui64);
        }
        if let Some(nguid) = &ids.nguid {
            push(NIDT_NGUID, nguid);
        }
        if let Some(uuid) = &ids.uuid {
            push(NIDT_UUID, uuid);
        }
        push(NIDT_CSI, &[ids.command_set]);
        list.resize(IDENTIFY_SIZE, 0);
        list
    }

    /// Reads descriptors. Skips those with an unknown type or a wrong length.
    pub fn parse(mut list: &[u8]) -> NamespaceIds {
        let mut ids = NamespaceIds { command_set: CSI_NVM, ..NamespaceIds::default() };
        while let &[kind, length, _, _, ref rest @ ..] = list {
            let Some((id, rest)) = rest.split_at_checked(usize::from(length)) else { break };
            if id.is_empty() {
                break;
            }
            match kind {
                NIDT_EUI64 => ids.eui64 = id.try_into().ok(),
                NIDT_NGUID => ids.nguid = id.try_into().ok(),
                NIDT_UUID => ids.uuid = id.try_into().ok(),
                NIDT_CSI => ids.command_set = id[0],
                _ => {}
            }
            list = rest;
        }
        ids
    }
}

#[cfg(test)]
mod tests {
    use super::descriptor::NamespaceIds;
    use super::*;

    #[test]
    fn lists_read_back() {
        let list = namespace_list([1, 2, 7].into_iter());
        assert_eq!(list.len(), IDENTIFY_SIZE);
        assert!(read_namespace_list(&list).eq([1, 2, 7]));
        let full = namespace_list(1..5000);
        assert_eq!(read_namespace_list(&full).count(), NAMESPACE_LIST_ENTRIES);
        let controllers = controller_list([1, 0xffef].into_iter());
        assert_eq!(&controllers[..8], &[2, 0, 1, 0, 0xef, 0xff, 0, 0]);
        assert_eq!(controllers.len(), IDENTIFY_SIZE);
    }

    #[test]
    fn descriptors_read_back() {
        let ids = NamespaceIds { eui64: None, nguid: None, uuid: Some([9; 16]), command_set: CSI_NVM };
        let list = descriptor::emit(&ids);
        assert_eq!(list.len(), IDENTIFY_SIZE);
        assert_eq!(&list[..5], &[3, 16, 0, 0, 9]);
        assert_eq!(&list[20..26], &[4, 1, 0, 0, 0, 0]);
        assert_eq!(descriptor::parse(&list), ids);
        let ids = NamespaceIds { eui64: Some([2; 8]), nguid: Some([3; 16]), ..ids };
        let list = descriptor::emit(&ids);
        assert_eq!((&list[..5], &list[12..17]), (&[1, 8, 0, 0, 2][..], &[2, 16, 0, 0, 3][..]));
        assert_eq!(descriptor::parse(&list), ids);
    }

    #[test]
    fn descriptors_of_unknown_type_are_passed_over() {
        let unknown = [0x77, 3, 0, 0, 1, 2, 3];
        let known = descriptor::emit(&NamespaceIds {
            uuid: Some([9; 16]),
            command_set: 2,
            ..NamespaceIds::default()
        });
        let ids = descriptor::parse(&[&unknown[..], &known].concat());
        assert_eq!((ids.uuid, ids.command_set), (Some([9; 16]), 2));
    }

    #[test]
    fn descriptors_cut_short_are_passed_over() {
        assert_eq!(descriptor::parse(&[3, 16, 0, 0, 1]), NamespaceIds::default());
        assert_eq!(descriptor::parse(&[]), NamespaceIds::default());
    }
}
