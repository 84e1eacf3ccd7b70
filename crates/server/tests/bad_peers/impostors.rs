//! Hosts that use the NQN of a named host, from other addresses.

use crate::common::{self, BLOCK, Client, HOST, until};
use crate::log::capture;
use crate::raw::Raw;
use nvme::spec::Status;
use nvme::spec::connect::CNTLID_DYNAMIC;
use nvme::tcp::pdu::Digests;
use server::ServerHandle;
use server::config::{Config, DeviceKind, Limits, TenantConfig};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use units::Bytes;

/// Where the impostors are. The host itself is at the default loopback address.
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);

/// A target for which HOST is a named host, at this address if there is one.
fn serving(limits: Limits, address: Option<IpAddr>) -> ServerHandle {
    capture();
    let null = DeviceKind::Null { size: Bytes::gib(1) };
    let tenants = vec![TenantConfig { address, ..TenantConfig::equal(HOST) }];
    common::start(Config { limits, tenants, ..common::simple(null, common::any_port()) })
}

/// Connects as many controllers with the host's name as there is room for; at least one attempt fails.
fn flood(address: SocketAddr, inside: &mut Vec<Raw>) {
    for _ in 0..66 {
        let mut raw = Raw::greeted_from(ELSEWHERE, address, Digests::default());
        match raw.connect(0, 32, CNTLID_DYNAMIC, HOST, 0).status() {
            Status::SUCCESS => inside.push(raw),
            status => assert_eq!(status, Status::CONNECT_CONTROLLER_BUSY),
        }
    }
}

fn connections(server: &ServerHandle) -> usize {
    server.stats().ssds[0].connections
}

#[test]
fn a_host_comes_back_whatever_others_do_with_its_name() {
    let small = Limits { connections_per_host: 10, ..Limits::default() };
    let few = Limits { connections: 16, ..Limits::default() };
    for limits in [Limits::default(), small, few] {
        let server = serving(limits, None);
        let address = server.addresses()[0];
        for _reset in 0..2 {
            let mut client = Client::connect(address);
            let mut inside = Vec::new();
            flood(address, &mut inside);
            assert!(client.read(1, 0, 1).is_ok());
            drop(client);
            until(|| connections(&server) == inside.len());
            let before = inside.len();
            flood(address, &mut inside);
            assert_eq!(inside.len(), before, "the place of the host is kept while it is away");
            let mut client = Client::connect(address);
            assert_eq!(client.read(1, 0, 1), Ok(vec![0; BLOCK]));
            drop((client, inside));
            until(|| connections(&server) == 0);
        }
    }
}

#[test]
fn a_host_with_an_address_comes_in_after_others_with_its_name() {
    let server = serving(Limits::default(), Some(Ipv4Addr::LOCALHOST.into()));
    let address = server.addresses()[0];
    let mut inside = Vec::new();
    flood(address, &mut inside);
    assert_eq!(inside.len(), 63);
    assert_eq!(Client::connect(address).read(1, 0, 1), Ok(vec![0; BLOCK]));
}
