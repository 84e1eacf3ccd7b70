//! What a host can do to its namespaces, over real sockets.

mod common;

use common::*;
use nvme::spec::Status;
use nvme::spec::opcode::nvm;
use nvme::tcp::Transfer;
use nvme::tcp::pdu::Digests;
use server::config::{Config, DeviceKind, EmulatedConfig, ShareConfig, Speed, TenantConfig};
use units::{Bytes, Nanos};

fn emulated() -> DeviceKind {
    let speed = Speed::from_thousandths(100_000).expect("above zero");
    DeviceKind::Emulated(EmulatedConfig { speed, ..EmulatedConfig::new(Bytes::gib(1)) })
}

/// Every command on a namespace that keeps its contents.
fn exercise(client: &mut Client, nsid: u32) {
    for (lba, blocks) in [(0, 1), (7, 2), (100, 32), (1000, 256)] {
        let data = pattern(lba, blocks * BLOCK);
        assert_eq!(client.write(nsid, lba, &data), Status::SUCCESS);
        assert!(client.read(nsid, lba, blocks).expect("readable") == data, "{blocks} blocks at {lba} differ");
        assert_eq!(client.compare(nsid, lba, &data), Status::SUCCESS);
    }
    assert_eq!(client.compare(nsid, 100, &pattern(0, BLOCK)), Status::COMPARE_FAILURE);
    assert_eq!(client.simple(nvm::VERIFY, nsid, 0, 256), Status::SUCCESS);
    assert_eq!(client.simple(nvm::VERIFY, nsid, 0, 257), Status::INVALID_FIELD, "beyond VSL");
    assert_eq!(client.flush(nsid), Status::SUCCESS);
    assert_eq!(client.simple(nvm::WRITE_ZEROES, nsid, 101, 3), Status::SUCCESS);
    let after = client.read(nsid, 100, 5).expect("readable");
    let mut expected = pattern(100, 5 * BLOCK);
    expected[BLOCK..4 * BLOCK].fill(0);
    assert!(after == expected, "three blocks are zero, their neighbours are not");
    assert_eq!(client.deallocate(nsid, &[(0, 1), (7, 2)]), Status::SUCCESS);
}

#[test]
fn an_emulated_ssd_keeps_what_is_written() {
    for backend in backends() {
        let server = start(Config { backend, ..simple(emulated(), any_port()) });
        let mut client = Client::connect(server.addresses()[0]);
        exercise(&mut client, 1);
        assert_eq!(
            client.read(1, 7, 2).expect("readable"),
            vec![0; 2 * BLOCK],
            "deallocated memory reads as zeros"
        );
    }
}

/// Measured on the SSD's clock: if the limit used that clock, 20 reads at 40 IOPS would take half a second of it.
#[test]
fn a_limit_is_in_real_time_even_for_a_slowed_down_ssd() {
    let speed = Speed::from_thousandths(50).expect("above zero");
    let ssd = EmulatedConfig { speed, ..EmulatedConfig::new(Bytes::gib(1)) };
    let mut config = simple(DeviceKind::Emulated(ssd), any_port());
    config.tenants =
        vec![TenantConfig::with(HOST, ShareConfig { limit_iops: Some(40), ..ShareConfig::EQUAL })];
    let server = start(config);
    let mut client = Client::connect(server.addresses()[0]);
    let begin = server.stats().ssds[0].at;
    for lba in 0..20 {
        client.read(1, lba, 1).expect("readable");
    }
    let took = server.stats().ssds[0].at.since(begin);
    assert!(took >= Nanos::micros(18 * 1250), "20 reads within {took}: the limit does not hold");
    assert!(took < Nanos::millis(250), "20 reads took {took} of the SSD's time");
}

#[test]
fn the_null_device_reads_zeros_and_accepts_everything() {
    for backend in backends() {
        let server =
            start(Config { backend, ..simple(DeviceKind::Null { size: Bytes::gib(1) }, any_port()) });
        let mut client = Client::connect(server.addresses()[0]);
        assert_eq!(client.write(1, 5, &pattern(1, 64 * BLOCK)), Status::SUCCESS);
        assert_eq!(client.read(1, 5, 64).expect("readable"), vec![0; 64 * BLOCK]);
        assert_eq!(client.flush(1), Status::SUCCESS);
    }
}

#[test]
fn data_travels_in_capsules_and_by_r2t_with_and_without_digests() {
    let server = serve(emulated());
    for header in [false, true] {
        for data in [false, true] {
            for in_capsule_max in [0, 8192] {
                let digests = Digests { header, data };
                let options = Options { digests, in_capsule_max, ..Options::default() };
                exercise(&mut Client::with(server.addresses()[0], &options), 1);
            }
        }
    }
}

#[test]
fn a_full_queue_of_mixed_sizes_is_answered_in_any_order() {
    let server = serve(emulated());
    let mut client = Client::connect(server.addresses()[0]);
    let blocks_of = |index: u64| 1 + (index as usize * 7) % 40;
    for index in 0..100 {
        let data = pattern(index, blocks_of(index) * BLOCK);
        let length = data.len() as u32;
        client
            .io
            .submit(rw(nvm::WRITE, 1, index * 64, blocks_of(index)), Transfer::ToController(data, length));
    }
    for _ in 0..100 {
        assert!(client.io.next().expect("an answer").0.status().is_success());
    }
    let mut lbas = std::collections::HashMap::new();
    for index in 0..100 {
        let length = blocks_of(index) * BLOCK;
        let transfer = Transfer::FromController(vec![0; length], length as u32);
        let cid = client.io.submit(rw(nvm::READ, 1, index * 64, blocks_of(index)), transfer);
        lbas.insert(cid, index);
    }
    for _ in 0..100 {
        let (cqe, data) = client.io.next().expect("an answer");
        let index = lbas.remove(&cqe.cid()).expect("each is answered once");
        assert!(data.expect("data") == pattern(index, blocks_of(index) * BLOCK), "write {index} reads back");
    }
}

#[test]
fn what_does_not_exist_is_refused() {
    let server = serve(DeviceKind::Null { size: Bytes::mib(1) });
    let mut client = Client::connect(server.addresses()[0]);
    assert_eq!(client.read(1, 256, 1), Err(Status::LBA_OUT_OF_RANGE));
    assert_eq!(client.read(2, 0, 1), Err(Status::INVALID_NAMESPACE));
    assert_eq!(client.simple(0xc5, 1, 0, 1), Status::INVALID_OPCODE);
    assert_eq!(client.read(1, 255, 1), Ok(vec![0; BLOCK]), "the connection lives on");
}
