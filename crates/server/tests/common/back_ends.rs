//! Targets whose device is a namespace of another target.

use super::{BLOCK, Folder, any_port, simple, until};
use host::KeyFiles;
use server::config::{AccessState, BackEndConfig, Config, DEFAULT_NQN, DeviceKind, GroupConfig};
use server::{Server, ServerHandle};
use std::net::SocketAddr;
use units::Bytes;

/// The name of the target in the middle as a host.
pub const MIDDLE: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-0000000000aa";
/// Blocks of the files.
pub const BLOCKS: u64 = 4096;
/// The group of a fenced device.
pub const GROUP: &str = "moving";

/// The namespace of the target there.
pub fn behind(address: SocketAddr) -> BackEndConfig {
    BackEndConfig {
        address,
        subsystem: DEFAULT_NQN.to_owned(),
        nsid: 1,
        host: MIDDLE.to_owned(),
        timeout: BackEndConfig::TIMEOUT,
        digests: false,
        fenced: false,
        keys: KeyFiles::default(),
    }
}

/// A target whose device is a namespace of another one. A fenced one is of group [`GROUP`].
pub fn middle(back_end: BackEndConfig) -> Config {
    let is_fenced = back_end.fenced;
    let mut config = simple(DeviceKind::NvmeTcp(back_end), any_port());
    if is_fenced {
        config.subsystems[0].namespaces[0].group = Some(GROUP.to_owned());
        config.groups =
            vec![GroupConfig { name: GROUP.to_owned(), id: None, state: AccessState::Inaccessible }];
    }
    config
}

/// A target with a file, at this address. It keeps reservations.
pub fn of_file(folder: &Folder, address: SocketAddr) -> Config {
    let (path, size) = (folder.0.join("image"), Some(Bytes(BLOCKS * BLOCK as u64)));
    let config = simple(DeviceKind::File { path, size, create: true, direct: true }, address);
    Config { state_dir: Some(folder.0.join("state")), ..config }
}

/// Starts a target again where it was before.
pub fn again(config: &Config) -> ServerHandle {
    let mut server = None;
    // The sockets of the one before may need a moment to go.
    until(|| {
        server = Server::start(config.clone()).ok();
        server.is_some()
    });
    server.expect("it was just started")
}
