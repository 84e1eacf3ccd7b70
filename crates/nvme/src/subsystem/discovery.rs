//! The discovery role: which subsystems a host can discover.
//!
//! A host sees only the subsystems that it may connect to. A target that listens on all addresses does not
//! know which of them the host can reach. But the host has just connected to one, so such a record returns
//! that address.
//!
//! Holds: the generation counter changes with every change, and hosts that enabled the event get it
//!        (`a_discovery_change_is_reported_and_counted` in `tests/controller/subsystem.rs`).
//! NVM Express Base Specification: "Discovery Log Page".

use super::Subsystem;
use super::config::HostAccess;
use crate::spec::Nqn;
use crate::spec::discovery::{DiscoveryEntry, DiscoveryHeader, SubsystemType};
use crate::spec::event::EventKind;
use alloc::vec::Vec;
use core::net::SocketAddr;
use zerocopy::{FromZeros, IntoBytes};

/// Where a subsystem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscoveryAddress {
    /// At this address.
    At(SocketAddr),
    /// The IP address that the host connected to (`Subsystem::set_local_address`), with this port. The record
    /// is left out if no address was set for the connection.
    AsReached {
        /// TCP port.
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
    /// Its address.
    pub address: DiscoveryAddress,
    /// The hosts that can see it.
    pub hosts: HostAccess,
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
        let entries: Vec<DiscoveryEntry> = visible
            .filter_map(|record| {
                let address = match record.address {
                    DiscoveryAddress::At(address) => address,
                    DiscoveryAddress::AsReached { port } => SocketAddr::new(controller.local?.ip(), port),
                };
                Some(DiscoveryEntry::tcp(record.kind, &record.subsystem, address.ip(), address.port()))
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
