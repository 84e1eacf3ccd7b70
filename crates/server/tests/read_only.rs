//! Namespaces that hosts may only read: configured, or because their file or device cannot be written.

mod common;

use common::*;
use nvme::spec::opcode::nvm;
use nvme::spec::{Sqe, Status};
use nvme::tcp::Transfer;
use server::config::{Config, DeviceConfig, DeviceKind, NamespaceConfig};
use server::{Server, StartError};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use units::Bytes;

/// Byte of Identify Namespace.
const NSATTR: usize = 99;

fn nsattr(client: &mut Client, nsid: u32) -> u8 {
    client.identify(0x00, nsid)[NSATTR]
}

/// Sends every command that would change a block of namespace 1, and those that would not.
fn expect_protected(client: &mut Client) {
    assert_eq!(nsattr(client, 1) & 1, 1);
    assert_eq!(client.identify(0x08, 1)[8] & 1, 1, "NSATTR of the independent structure");
    assert_eq!(client.write(1, 0, &pattern(1, BLOCK)), Status::WRITE_PROTECTED);
    assert_eq!(client.simple(nvm::WRITE_ZEROES, 1, 0, 8), Status::WRITE_PROTECTED);
    assert_eq!(client.deallocate(1, &[(0, 8)]), Status::WRITE_PROTECTED);
    let mut range = [0; 32];
    (range[8], range[16]) = (0, 7);
    let copy = Sqe::new(nvm::COPY).with_nsid(1).with_cdw10_15([64, 0, 0, 0, 0, 0]);
    let (cqe, _) = client.io.command(copy, Transfer::ToController(range.to_vec(), 32));
    assert_eq!(cqe.status(), Status::WRITE_PROTECTED);
    assert!(client.read(1, 0, 1).is_ok());
    assert_eq!(client.flush(1), Status::SUCCESS);
    assert_eq!(client.simple(nvm::VERIFY, 1, 0, 8), Status::SUCCESS);
    let blocks = client.read(1, 0, 1).expect("it can be read");
    assert_eq!(client.compare(1, 0, &blocks), Status::SUCCESS);
    // A hint without deallocation changes nothing.
    let hint = Sqe::new(nvm::DATASET_MANAGEMENT).with_nsid(1).with_cdw10_15([0, 1, 0, 0, 0, 0]);
    let (cqe, _) = client.io.command(hint, Transfer::ToController(vec![0; 16], 16));
    assert_eq!(cqe.status(), Status::SUCCESS);
}

struct Image(PathBuf);

impl Image {
    fn new(name: &str) -> Image {
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("read-only-{name}-{}", std::process::id()));
        fs::write(&path, pattern(9, 1 << 20)).expect("cargo's folder for tests is writable");
        Image(path)
    }

    fn config(&self, read_only: Option<bool>) -> Config {
        let kind = DeviceKind::File { path: self.0.clone(), size: None, create: false, direct: false };
        let mut config = simple(kind, any_port());
        config.devices[0].read_only = read_only;
        config
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn a_file_that_nobody_may_write_is_read_only() {
    let image = Image::new("mode");
    fs::set_permissions(&image.0, Permissions::from_mode(0o444)).expect("it is ours");
    let before = fs::read(&image.0).expect("readable");
    let server = start(image.config(None));
    expect_protected(&mut Client::connect(server.addresses()[0]));
    drop(server);
    assert!(fs::read(&image.0).expect("readable") == before);
    let Err(error) = Server::start(image.config(Some(false))) else { panic!("it cannot be written") };
    assert!(matches!(error, StartError::Device { .. }));
    let said = error.to_string();
    assert!(said.contains("cannot be written") && said.contains("read_only"), "{said}");
}

#[test]
fn a_device_is_read_only_if_the_configuration_says_so() {
    let image = Image::new("configured");
    let server = start(image.config(Some(true)));
    expect_protected(&mut Client::connect(server.addresses()[0]));
    for kind in [fast_ssd(), DeviceKind::Null { size: Bytes::gib(1) }] {
        let mut config = simple(kind, any_port());
        config.devices[0].read_only = Some(true);
        let server = start(config);
        expect_protected(&mut Client::connect(server.addresses()[0]));
    }
}

#[test]
fn a_namespace_becomes_read_only_and_writable_again_under_a_host() {
    let half = |nsid, place: u64| NamespaceConfig {
        offset: Bytes::mib(256 * place),
        size: Some(Bytes::mib(256)),
        ..NamespaceConfig::whole(nsid, "ssd")
    };
    let mut config = Config {
        devices: vec![DeviceConfig::new("ssd", fast_ssd())],
        subsystems: vec![subsystem(NEAR, vec![half(1, 0), half(2, 1)])],
        ..simple(fast_ssd(), any_port())
    };
    let mut server = start(config.clone());
    let mut host = Client::connect(server.addresses()[0]);
    assert_eq!(host.write(1, 0, &pattern(1, BLOCK)), Status::SUCCESS);
    config.subsystems[0].namespaces[0].read_only = true;
    let changes = server.reload(config.clone(), Duration::from_secs(60)).expect("it can change");
    assert_eq!(changes[0].to_string(), format!("namespace 1 of {NEAR}: 256 MiB → 256 MiB, read-only"));
    expect_protected(&mut host);
    assert_eq!(host.write(2, 0, &pattern(1, BLOCK)), Status::SUCCESS, "its neighbour is writable");
    config.subsystems[0].namespaces[0].read_only = false;
    server.reload(config, Duration::from_secs(60)).expect("it can change");
    assert_eq!(nsattr(&mut host, 1), 0);
    assert_eq!(host.write(1, 0, &pattern(1, BLOCK)), Status::SUCCESS);
}
