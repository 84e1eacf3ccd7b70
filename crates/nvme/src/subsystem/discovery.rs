//! The discovery role: which subsystems a host is told of.
//!
//! A host sees only what it may connect to. A target that listens on every address does not know which of them a host can
//! reach, but the host has just reached one: such records tell the address of its own connection back.
//!
//! Holds: the generation counter moves with every change, and hosts that asked are told
//!        (`a_discovery_change_is_told_and_counted` in `tests/controller/subsystem.rs`).
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
    /// At the IP address that the asking host connected to (`Subsystem::set_local_address`), and this port. Left out for a
    /// connection whose address was not set.
    AsReached {
        /// TCP port.
        port: u16,
    },
}

/// A way to a subsystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveryRecord {
    /// The subsystem.
    pub subsystem: Nqn,
    /// What it is.
    pub kind: SubsystemType,
    /// Where it is.
    pub address: DiscoveryAddress,
    /// Who is told.
    pub hosts: HostAccess,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Records {
    generation: u64,
    records: Vec<DiscoveryRecord>,
}

impl Subsystem {
    /// Replaces what can be discovered here and tells the hosts, if it differs.
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
