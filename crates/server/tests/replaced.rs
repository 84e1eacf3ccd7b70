//! The file that is served, and the name that it was opened by: what a reload does when the name leads elsewhere, and what hosts get
//! when another program cuts the file.

mod common;

use common::*;
use nvme::spec::Status;
use nvme::spec::opcode::nvm;
use server::ServerHandle;
use server::config::{Config, DeviceKind};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;
use units::Bytes;

const AMPLE: Duration = Duration::from_secs(60);
const MIB: u64 = 1 << 20;
/// The first block behind 32 MiB.
const HALF: u64 = 32 * MIB / BLOCK as u64;

/// A folder with an image of 64 MiB.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("replaced-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("cargo's folder for tests is writable");
        let folder = Folder(path);
        folder.image("disk.img", 64);
        folder
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn image(&self, name: &str, mib: u64) -> PathBuf {
        let path = self.file(name);
        fs::File::create(&path).and_then(|file| file.set_len(mib * MIB)).expect("a sparse file");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn of_file(path: &Path, size: Option<u64>) -> Config {
    let size = size.map(Bytes::mib);
    simple(DeviceKind::File { path: path.to_owned(), size, create: false, direct: false }, any_port())
}

fn blocks(client: &mut Client) -> u64 {
    u64::from_le_bytes(client.identify(0x00, 1)[..8].try_into().expect("eight bytes"))
}

/// A reload of the same configuration is refused; returns the reason.
fn refused(server: &mut ServerHandle, config: &Config) -> String {
    server.reload(config.clone(), AMPLE).expect_err("the name leads elsewhere").to_string()
}

#[test]
fn a_reload_is_refused_while_the_name_leads_to_another_file() {
    for size in [None, Some(64)] {
        let folder = Folder::new(&format!("moved-{size:?}"));
        let (disk, aside) = (folder.file("disk.img"), folder.file("aside.img"));
        let config = of_file(&disk, size);
        let mut server = start(config.clone());
        let mut host = Client::connect(server.addresses()[0]);
        assert_eq!(host.write(1, HALF, &pattern(1, BLOCK)), Status::SUCCESS);
        for mib in [32, 64, 128] {
            fs::rename(&disk, &aside).expect("they are in one folder");
            folder.image("disk.img", mib);
            let said = refused(&mut server, &config);
            let expected = format!("{}: is now another file or disk", disk.display());
            assert!(said.contains(&expected) && said.contains("aside.img (inode "), "{said}");
            assert!(said.contains("reload"), "it says what to do: {said}");
            assert_eq!(blocks(&mut host), 64 * MIB / BLOCK as u64);
            assert_eq!(host.read(1, HALF, 1), Ok(pattern(1, BLOCK)), "the old file is served on");
            fs::rename(&aside, &disk).expect("they are in one folder");
            assert_eq!(server.reload(config.clone(), AMPLE).expect("the name leads back"), []);
        }
        fs::remove_file(&disk).expect("it is there");
        let said = refused(&mut server, &config);
        assert!(said.contains("no longer exists under this name") && said.contains("(deleted)"), "{said}");
    }
}

#[test]
fn a_reload_is_refused_while_a_link_leads_to_another_file() {
    let folder = Folder::new("link");
    let (link, other) = (folder.file("link"), folder.image("other.img", 128));
    symlink("disk.img", &link).expect("a link");
    let config = of_file(&link, None);
    let mut server = start(config.clone());
    fs::remove_file(&link).expect("it is there");
    symlink(&other, &link).expect("a link");
    let said = refused(&mut server, &config);
    assert!(said.contains("is now another file or disk") && said.contains("disk.img (inode "), "{said}");
    assert_eq!(fs::metadata(&other).expect("untouched").len(), 128 * MIB);
}

#[test]
fn a_file_that_grows_is_extended_whatever_its_name_leads_to_later() {
    let folder = Folder::new("grows");
    let disk = folder.file("disk.img");
    let mut server = start(of_file(&disk, Some(64)));
    let mut host = Client::connect(server.addresses()[0]);
    server.reload(of_file(&disk, Some(96)), AMPLE).expect("it may grow");
    assert_eq!((blocks(&mut host), fs::metadata(&disk).expect("there").len()), (96 * 256, 96 * MIB));
    fs::rename(&disk, folder.file("aside.img")).expect("they are in one folder");
    let other = folder.image("disk.img", 16);
    refused(&mut server, &of_file(&disk, Some(128)));
    assert_eq!(fs::metadata(other).expect("there").len(), 16 * MIB, "nothing is done to another file");
}

#[test]
fn blocks_that_another_program_cuts_off_stay_lost() {
    for backend in backends() {
        let folder = Folder::new(&format!("cut-{backend:?}"));
        let disk = folder.file("disk.img");
        let config = Config { backend, ..of_file(&disk, Some(64)) };
        let mut server = start(config.clone());
        let mut host = Client::connect(server.addresses()[0]);
        for lba in [0, HALF, HALF + 7] {
            assert_eq!(host.write(1, lba, &pattern(lba, BLOCK)), Status::SUCCESS);
        }
        let file = fs::File::options().write(true).open(&disk).expect("there");
        file.set_len(32 * MIB).expect("it can be cut");
        // Nothing that changes blocks makes the file long again.
        assert_eq!(host.write(1, HALF + 9, &pattern(1, BLOCK)), Status::WRITE_FAULT);
        assert_eq!(host.simple(nvm::WRITE_ZEROES, 1, HALF + 9, 8), Status::WRITE_FAULT);
        assert_eq!(host.deallocate(1, &[(HALF, 8)]), Status::WRITE_FAULT);
        assert_eq!(fs::metadata(&disk).expect("there").len(), 32 * MIB);
        for lba in [HALF, HALF + 7, HALF + 9] {
            assert_eq!(host.read(1, lba, 1), Err(Status::UNRECOVERED_READ_ERROR));
        }
        assert_eq!(host.read(1, 0, 1), Ok(pattern(0, BLOCK)), "what is in front of the cut is there");
        assert_eq!(host.write(1, HALF - 1, &pattern(2, BLOCK)), Status::SUCCESS);
        // A reload does not bring lost blocks back as zeros.
        let said = refused(&mut server, &config);
        assert!(said.contains("was cut to 32 MiB"), "{said}");
        file.set_len(64 * MIB).expect("it can be extended");
        assert_eq!(host.read(1, HALF, 1), Err(Status::UNRECOVERED_READ_ERROR), "its data is lost");
        drop((host, server));

        let server = start(config);
        let mut host = Client::connect(server.addresses()[0]);
        assert_eq!(host.read(1, HALF, 1), Ok(vec![0; BLOCK]), "the operator has opened it anew");
    }
}

#[test]
fn a_read_behind_a_cut_is_enough_to_fail_writes_there() {
    let folder = Folder::new("read");
    let disk = folder.file("disk.img");
    let server = start(of_file(&disk, None));
    let mut host = Client::connect(server.addresses()[0]);
    let file = fs::File::options().write(true).open(&disk).expect("there");
    file.set_len(32 * MIB).expect("it can be cut");
    assert_eq!(host.read(1, HALF + 5, 1), Err(Status::UNRECOVERED_READ_ERROR));
    file.set_len(64 * MIB).expect("it can be extended");
    for lba in [HALF, HALF + 5] {
        assert_eq!(host.write(1, lba, &pattern(1, BLOCK)), Status::WRITE_FAULT);
    }
    assert_eq!(host.write(1, 0, &pattern(1, BLOCK)), Status::SUCCESS);
}
