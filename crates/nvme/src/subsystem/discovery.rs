//! The discovery role: which subsystems a host can discover.
//!
//! A host sees only the subsystems that it may connect to. A target that listens on all addresses does not
//! know which of them the host can reach. But the host has just connected to one, so such a record returns
//! that address, if it is of the family of the listener. No entry is listed twice.
//!
//! Holds: the generation counter changes with every change, and hosts that enabled the event get it
//!        (`a_discovery_change_is_reported_and_counted` in `tests/controller/subsystem.rs`); a host gets only
//!        addresses where the target listens (`discovery_names_only_addresses_that_are_listened_on`, same
//!        file).
//! NVM Express Base Specification: "Discovery Log Page".

use super::Subsystem;
use super::config::HostAccess;
use crate::spec::Nqn;
use crate::spec::discovery::{DiscoveryEntry, DiscoveryHeader, SecureChannel, SubsystemType, TransportType};
use crate::spec::event::EventKind;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::net::SocketAddr;
use zerocopy::{FromZeros, IntoBytes};

/// Where a subsystem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscoveryAddress {
    /// At this address.
    At(SocketAddr),
    /// All addresses of one family. The record returns the IP address that the host connected to
    /// (`Subsystem::set_local_address`), with this port. It is left out if that address is of the other
    /// family, or was not set: nothing is known then of where the host could connect.
    AsReached {
        /// Whether they are all IPv6 addresses, and not all IPv4 addresses.
        is_ipv6: bool,
        /// Port.
        port: u16,
    },
}

/// A path to a subsystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveryRecord {
    /// The subsystem.
    pub subsystem: Nqn,
    /// Its type.
    pub kind: SubsystemType,
    /// The transport there.
    pub transport: TransportType,
    /// Its address.
    pub address: DiscoveryAddress,
    /// The hosts that can see it.
    pub hosts: HostAccess,
    /// Whether it has TLS.
    pub secure: SecureChannel,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Records {
    generation: u64,
    records: Vec<DiscoveryRecord>,
}

impl Subsystem {
    /// Replaces the discovery records. Sends an event to the hosts if they changed.
    pub fn set_discovery_records(&mut self, records: Vec<DiscoveryRecord>) {
        if self.discovery.records == records {
            return;
        }
        self.discovery.records = records;
        self.discovery.generation += 1;
        self.raise_for_all(EventKind::DiscoveryChanged);
    }

    pub(super) fn discovery_page(&self, slot: usize) -> Vec<u8> {
        let controller = self.controller(slot);
        let visible =
            self.discovery.records.iter().filter(|record| record.hosts.allows(&controller.host_nqn));
        let mut told = BTreeSet::new();
        let mut is_new = |record: &DiscoveryRecord, address| {
            told.insert((record.kind.to_wire(), record.subsystem.clone(), record.transport, address))
        };
        let entries: Vec<DiscoveryEntry> = visible
            .filter_map(|record| {
                let address = match record.address {
                    DiscoveryAddress::At(address) => address,
                    DiscoveryAddress::AsReached { is_ipv6, port } => {
                        let local = controller.local?.ip().to_canonical();
                        (local.is_ipv6() == is_ipv6).then_some(SocketAddr::new(local, port))?
                    }
                };
                // Two listeners may be one place for this host.
                is_new(record, address).then(|| {
                    let at = (address.ip(), address.port());
                    DiscoveryEntry::new(record.kind, &record.subsystem, record.transport, at, record.secure)
                })
            })
            .collect();
        let header = DiscoveryHeader {
            generation: self.discovery.generation.into(),
            records: (entries.len() as u64).into(),
            ..DiscoveryHeader::new_zeroed()
        };
        let mut page = header.as_bytes().to_vec();
        entries.iter().for_each(|entry| page.extend_from_slice(entry.as_bytes()));
        page
    }
}
