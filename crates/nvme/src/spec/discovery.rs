//! The Discovery log page: which subsystems exist, and at which addresses.
//!
//! A header of 1024 bytes, then one entry of 1024 bytes for each path to a subsystem. A reader checks the
//! generation counter before and after, because the page may change between two commands.
//!
//! Holds: an entry survives its bytes (`an_entry_survives_its_bytes`).
//! NVM Express Base Specification: "Discovery Log Page"; TCP and RDMA Transport Specifications: "TSAS".

use super::Nqn;
use super::identify_controller::{padded, unpadded};
use super::nqn::NQN_FIELD_SIZE;
use alloc::string::String;
use core::net::IpAddr;
use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the header, and of each entry.
pub const RECORD_SIZE: usize = 1024;

const FAMILY_IPV4: u8 = 1;
const FAMILY_IPV6: u8 = 2;
/// TREQ: the host may turn flow control off.
const TREQ_FLOW_CONTROL_OPTIONAL: u8 = 1 << 2;
/// TREQ bits 1:0: a secure channel is required, or not.
const TREQ_SECURE_REQUIRED: u8 = 1;
const TREQ_SECURE_OPTIONAL: u8 = 2;
/// TSAS.SECTYPE: TLS 1.3.
const SECTYPE_TLS_1_3: u8 = 2;
/// TSAS of RDMA: reliable connections, without a provider type, through the connection manager.
const RDMA_SPECIFIC: [u8; 3] = [1, 1, 1];
/// CNTLID: any free controller.
const CNTLID_DYNAMIC: u16 = 0xffff;
/// EFLAGS bit 0: this subsystem returns the same entries, so a host need not connect to it to learn more.
const SAME_INFORMATION: u16 = 1;
/// EFLAGS bit 1: a host may keep its connection (with a keep-alive) and gets events about changes.
const PERSISTENT_CONNECTIONS: u16 = 1 << 1;
/// ASQSZ: entries of the admin queue. Every target must support at least this many.
const ADMIN_QUEUE_ENTRIES: u16 = 32;

/// The start of the page.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct DiscoveryHeader {
    /// GENCTR: changes each time the page changes.
    pub generation: U64,
    /// NUMREC: entries that follow.
    pub records: U64,
    /// RECFMT: 0.
    pub record_format: U16,
    /// Reserved.
    pub reserved: [u8; 1006],
}

const _: () = assert!(size_of::<DiscoveryHeader>() == RECORD_SIZE);

/// The type of the subsystem that an entry refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SubsystemType {
    /// Another discovery subsystem.
    Referral,
    /// A subsystem with namespaces.
    Nvm,
    /// This discovery subsystem itself.
    CurrentDiscovery,
}

impl SubsystemType {
    /// SUBTYPE.
    pub const fn to_wire(self) -> u8 {
        match self {
            SubsystemType::Referral => 1,
            SubsystemType::Nvm => 2,
            SubsystemType::CurrentDiscovery => 3,
        }
    }
}

/// A transport of NVMe over Fabrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TransportType {
    /// RDMA.
    Rdma,
    /// TCP.
    #[default]
    Tcp,
}

impl TransportType {
    /// Its name, as hosts know it.
    pub const fn word(self) -> &'static str {
        match self {
            TransportType::Rdma => "rdma",
            TransportType::Tcp => "tcp",
        }
    }

    /// TRTYPE.
    pub const fn to_wire(self) -> u8 {
        match self {
            TransportType::Rdma => 1,
            TransportType::Tcp => 3,
        }
    }
}

/// Whether a connection is encrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SecureChannel {
    /// It cannot be.
    #[default]
    Without,
    /// As the host likes, with TLS 1.3.
    Optional,
    /// It has to be, with TLS 1.3.
    Required,
}

/// An entry of the page.
#[derive(Clone, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct DiscoveryEntry {
    transport: u8,
    address_family: u8,
    subsystem_type: u8,
    requirements: u8,
    port_id: U16,
    controller_id: U16,
    admin_queue_entries: U16,
    flags: U16,
    reserved_12: [u8; 20],
    service_id: [u8; 32],
    reserved_64: [u8; 192],
    subsystem_nqn: [u8; NQN_FIELD_SIZE],
    address: [u8; 256],
    transport_specific: [u8; 256],
}

const _: () = assert!(size_of::<DiscoveryEntry>() == RECORD_SIZE);

impl DiscoveryEntry {
    /// `subsystem` at an address and a port. `secure` is for TCP only: NVMe/RDMA has no secure channel.
    pub fn new(
        subsystem_type: SubsystemType,
        subsystem: &Nqn,
        transport: TransportType,
        (address, port): (IpAddr, u16),
        secure: SecureChannel,
    ) -> DiscoveryEntry {
        use alloc::string::ToString;
        let (requirement, security) = match secure {
            SecureChannel::Without => (0, 0),
            SecureChannel::Optional => (TREQ_SECURE_OPTIONAL, SECTYPE_TLS_1_3),
            SecureChannel::Required => (TREQ_SECURE_REQUIRED, SECTYPE_TLS_1_3),
        };
        let mut transport_specific = [0; 256];
        match transport {
            TransportType::Tcp => transport_specific[0] = security,
            TransportType::Rdma => transport_specific[..RDMA_SPECIFIC.len()].copy_from_slice(&RDMA_SPECIFIC),
        }
        DiscoveryEntry {
            transport: transport.to_wire(),
            address_family: if address.is_ipv4() { FAMILY_IPV4 } else { FAMILY_IPV6 },
            subsystem_type: subsystem_type.to_wire(),
            requirements: TREQ_FLOW_CONTROL_OPTIONAL | requirement,
            transport_specific,
            controller_id: CNTLID_DYNAMIC.into(),
            admin_queue_entries: ADMIN_QUEUE_ENTRIES.into(),
            flags: match subsystem_type {
                SubsystemType::CurrentDiscovery => SAME_INFORMATION | PERSISTENT_CONNECTIONS,
                SubsystemType::Referral | SubsystemType::Nvm => 0,
            }
            .into(),
            service_id: padded(&port.to_string()),
            subsystem_nqn: subsystem.to_field(),
            address: padded(&address.to_string()),
            ..DiscoveryEntry::new_zeroed()
        }
    }

    /// Whether a connection there would return the same entries as this page (EFLAGS bit 0).
    pub fn tells_the_same(&self) -> bool {
        self.flags.get() & SAME_INFORMATION != 0
    }

    /// The type that it refers to; `None` for an unknown type.
    pub fn subsystem_type(&self) -> Option<SubsystemType> {
        match self.subsystem_type {
            1 => Some(SubsystemType::Referral),
            2 => Some(SubsystemType::Nvm),
            3 => Some(SubsystemType::CurrentDiscovery),
            _ => None,
        }
    }

    /// Whether the subsystem is reached over this transport.
    pub fn is_over(&self, transport: TransportType) -> bool {
        self.transport == transport.to_wire()
    }

    /// Whether a connection there has to be encrypted, or may be.
    pub fn secure_channel(&self) -> SecureChannel {
        match (self.requirements & 3, self.transport_specific[0]) {
            _ if !self.is_over(TransportType::Tcp) => SecureChannel::Without,
            (_, 0) => SecureChannel::Without,
            (TREQ_SECURE_REQUIRED, _) => SecureChannel::Required,
            _ => SecureChannel::Optional,
        }
    }

    /// The subsystem's NQN, if it is valid.
    pub fn subsystem_nqn(&self) -> Option<Nqn> {
        Nqn::from_field(&self.subsystem_nqn).ok()
    }

    /// TRADDR: an IP address, or any other text the target wrote there.
    pub fn address(&self) -> String {
        unpadded(&self.address).into()
    }

    /// TRSVCID: the port.
    pub fn port(&self) -> Option<u16> {
        unpadded(&self.service_id).parse().ok()
    }
}

impl core::fmt::Debug for DiscoveryEntry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("DiscoveryEntry")
            .field("subsystem_type", &self.subsystem_type())
            .field("subsystem_nqn", &self.subsystem_nqn())
            .field("address", &self.address())
            .field("port", &self.port())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn an_entry_survives_its_bytes() {
        let name = Nqn::new("nqn.2024-01.test:a").expect("a good name");
        let entry = DiscoveryEntry::new(
            SubsystemType::Nvm,
            &name,
            TransportType::Tcp,
            (Ipv4Addr::new(10, 0, 2, 2).into(), 4420),
            SecureChannel::Required,
        );
        let bytes = entry.as_bytes();
        assert_eq!(&bytes[..10], &[3, 1, 2, 5, 0, 0, 0xff, 0xff, 32, 0]);
        assert_eq!((bytes[768], &bytes[769..]), (2, &[0; 255][..]), "TSAS");
        assert_eq!((&bytes[32..37], &bytes[512..521]), (&b"4420 "[..], &b"10.0.2.2 "[..]));
        let entry = DiscoveryEntry::read_from_bytes(bytes).expect("1024 bytes");
        assert_eq!((entry.subsystem_type(), entry.subsystem_nqn()), (Some(SubsystemType::Nvm), Some(name)));
        assert_eq!(
            (entry.address().as_str(), entry.port(), entry.is_over(TransportType::Tcp)),
            ("10.0.2.2", Some(4420), true)
        );
        let entry = DiscoveryEntry::new(
            SubsystemType::Nvm,
            &Nqn::discovery(),
            TransportType::Tcp,
            (Ipv6Addr::LOCALHOST.into(), 1),
            SecureChannel::Without,
        );
        assert_eq!(
            (entry.as_bytes()[1], entry.address().as_str(), entry.tells_the_same()),
            (2, "::1", false)
        );
        assert_eq!((entry.as_bytes()[3], entry.secure_channel()), (4, SecureChannel::Without));
        let itself = SubsystemType::CurrentDiscovery;
        let entry = DiscoveryEntry::new(
            itself,
            &Nqn::discovery(),
            TransportType::Tcp,
            (Ipv4Addr::LOCALHOST.into(), 4420),
            SecureChannel::Optional,
        );
        assert_eq!((entry.as_bytes()[2], entry.as_bytes()[10], entry.tells_the_same()), (3, 3, true));
        assert_eq!((entry.as_bytes()[3], entry.secure_channel()), (6, SecureChannel::Optional));
    }

    #[test]
    fn an_entry_over_rdma_says_how_queues_are_opened_and_has_no_secure_channel() {
        let at = (Ipv4Addr::new(10, 0, 2, 2).into(), 4420);
        let (kind, rdma) = (SubsystemType::Nvm, TransportType::Rdma);
        let entry = DiscoveryEntry::new(kind, &Nqn::discovery(), rdma, at, SecureChannel::Without);
        assert_eq!(entry.as_bytes()[..4], [1, 1, 2, 4]);
        assert_eq!((&entry.as_bytes()[768..771], &entry.as_bytes()[771..]), (&[1, 1, 1][..], &[0; 253][..]));
        assert_eq!((entry.is_over(rdma), entry.secure_channel()), (true, SecureChannel::Without));
    }
}
