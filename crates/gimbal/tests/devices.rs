//! The devices that `gimbal serve` accepts or refuses, and the files that it creates.

mod process;

use process::{Process, gimbal, serve};
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder of its own.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let folder =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("devices-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("cargo's folder for tests is writable");
        Scratch(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("text").to_owned()
    }

    /// Writes a configuration with one device of these lines.
    fn config(&self, device: &str) -> String {
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\n[[device]]\nname = \"a\"\n{device}\n[[subsystem]]\nnqn = \"nqn.2025-01.io.example:a\"\n\
             allow_any_host = true\n[[subsystem.namespace]]\nnsid = 1\ndevice = \"a\"\n"
        );
        let file = self.path("gimbal.toml");
        fs::write(&file, text).expect("writable");
        file
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The error of a target that does not start.
fn refused(command: &mut Command) -> String {
    let output = command.output().expect("the binary was built");
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(1), "{said}");
    said
}

fn expect(said: &str, expected: &str) {
    assert!(said.contains(expected), "{expected:?} is not in:\n{said}");
}

#[test]
fn a_device_that_does_not_exist_is_an_error_in_every_form_and_nothing_is_made() {
    let scratch = Scratch::new("absent");
    let absent = format!("/dev/gimbal-absent-{}", std::process::id());
    let link = scratch.path("link");
    symlink(&absent, &link).expect("a link");
    let around = format!("/dev/../dev/gimbal-absent-{}", std::process::id());
    for path in [&absent, &around] {
        for arguments in [&["--device", path][..], &["--device", path, "--create", "--size", "64M"]] {
            expect(&refused(&mut serve(arguments)), "does not exist; lsblk lists the block devices");
        }
        for kind in [
            "kind = \"block\"",
            "kind = \"file\"\nsize = \"64M\"",
            "kind = \"file\"\nsize = \"64M\"\ncreate = true",
        ] {
            let config = scratch.config(&format!("{kind}\npath = {path:?}"));
            expect(&refused(gimbal().args(["serve", "-c", &config])), "does not exist; lsblk");
        }
        let backing = format!("kind = \"emulated\"\nsize = \"64M\"\ncreate = true\nbacking = {path:?}");
        expect(&refused(gimbal().args(["serve", "-c", &scratch.config(&backing)])), "does not exist; lsblk");
    }
    let made = &["--device", &link, "--create", "--size", "64M"];
    expect(&refused(&mut serve(made)), &format!("is a symbolic link to {absent}, which does not exist"));
    assert!(!Path::new(&absent).exists(), "no file was created in /dev");
}

#[test]
fn a_file_is_created_only_on_request() {
    let scratch = Scratch::new("made");
    let disk = scratch.path("disk");
    let said = refused(&mut serve(&["--device", &disk, "--size", "64M"]));
    expect(&said, "does not exist; to create it, add --create and --size");
    let file = format!("kind = \"file\"\npath = {disk:?}\nsize = \"64M\"");
    expect(
        &refused(gimbal().args(["serve", "-c", &scratch.config(&file)])),
        "or in a configuration create = true",
    );
    let backing = format!("kind = \"emulated\"\nbacking = {disk:?}\nsize = \"64M\"");
    expect(
        &refused(gimbal().args(["serve", "-c", &scratch.config(&backing)])),
        "does not exist; to create it",
    );
    assert!(!Path::new(&disk).exists());
    let made = ["--device", &disk, "--create", "--size", "64M"];
    drop(Process::start(&mut serve(&made)));
    assert_eq!(fs::metadata(&disk).expect("made").len(), 64 << 20);
    // The same command again: now the file exists and has the size.
    drop(Process::start(&mut serve(&made)));
    let nowhere = scratch.path("no/such/folder");
    expect(
        &refused(&mut serve(&["--device", &nowhere, "--create", "--size", "64M"])),
        "its folder does not exist",
    );
}

#[test]
fn a_size_that_disagrees_with_the_file_is_an_error_that_says_both() {
    let scratch = Scratch::new("size");
    let disk = scratch.path("disk");
    let file = File::create(&disk).expect("writable");
    file.set_len(128 << 20).expect("a sparse file");
    for (size, bytes) in [("64M", 64 << 20), ("256M", 256 << 20)] {
        for create in [&[][..], &["--create"]] {
            let said = refused(serve(&["--device", &disk, "--size", size]).args(create));
            expect(&said, "is 128 MiB (134217728 bytes), but its size should be ");
            expect(&said, &format!("({bytes} bytes); leave out the size to take the file as it is, or"));
            expect(&said, &format!("truncate -s {bytes} {disk}"));
        }
    }
    let backing = format!("kind = \"emulated\"\nbacking = {disk:?}\nsize = \"64M\"");
    expect(&refused(gimbal().args(["serve", "-c", &scratch.config(&backing)])), "is 128 MiB");
    assert_eq!(file.metadata().expect("there").len(), 128 << 20, "and the file stays as it is");
    drop(Process::start(&mut serve(&["--device", &disk])));
    drop(Process::start(&mut serve(&["--device", &disk, "--size", "128M"])));
    // The state after a kill between the creation of the file and setting its size.
    file.set_len(0).expect("a shorter file");
    drop(Process::start(&mut serve(&["--device", &disk, "--create", "--size", "64M"])));
    assert_eq!(file.metadata().expect("there").len(), 64 << 20);
}

#[test]
fn an_error_names_the_type_of_what_is_neither_a_file_nor_a_block_device() {
    let scratch = Scratch::new("kinds");
    let (fifo, socket) = (scratch.path("fifo"), scratch.path("socket"));
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo(1) is everywhere").success());
    let _listening = UnixListener::bind(&socket).expect("a socket");
    let folder = scratch.0.to_str().expect("text");
    for (path, what) in [
        (folder, "a directory"),
        (&fifo, "a FIFO"),
        (&socket, "a socket"),
        ("/dev/null", "a character device"),
    ] {
        let said = refused(&mut serve(&["--device", path]));
        expect(
            &said,
            &format!("--device: {path}: is {what}, not a regular file; only regular files and block"),
        );
    }
    let file = scratch.path("file");
    fs::write(&file, vec![0; 8192]).expect("writable");
    let config = scratch.config(&format!("kind = \"block\"\npath = {file:?}"));
    let said = refused(gimbal().args(["serve", "-c", &config]));
    expect(&said, "is a regular file, not a block device; write kind = \"file\"");
}

/// AWUPF promises one block, its smallest value. Linux does not report the atomic write size of /dev/shm.
#[test]
fn the_operator_is_warned_of_blocks_that_a_power_failure_may_tear() {
    let scratch = Scratch::new("torn");
    let shm = Path::new("/dev/shm").join(format!("gimbal-torn-{}", std::process::id()));
    let device = format!("kind = \"file\"\npath = {shm:?}\nsize = \"64M\"\ncreate = true\ndirect = false");
    let file = scratch.config(&device);
    let warning = "subsystem nqn.2025-01.io.example:a, namespace 1: a power failure may tear its blocks of 4096 bytes: device \"a\"";
    let check = || {
        let output = gimbal().args(["config", "check", &file]).output().expect("it runs");
        assert!(output.status.success(), "a warning is not an error: {output:?}");
        String::from_utf8(output.stderr).expect("text")
    };
    expect(&check(), warning);
    expect(&check(), "write block_size = 512");
    let (target, mut log) = Process::start_with_log(gimbal().args(["serve", "-c", &file]));
    log.await_line("a power failure may tear its blocks of 4096 bytes");
    drop(target);
    let _ = fs::remove_file(shm);
    let text = fs::read_to_string(&file).expect("readable");
    fs::write(&file, text + "block_size = 512\n").expect("writable");
    assert_eq!(check(), "", "sectors are never torn");
}

#[test]
fn sparse_files_that_fit_only_one_at_a_time_get_a_warning() {
    let scratch = Scratch::new("together");
    let stat = rustix::fs::statvfs("/dev/shm").expect("it is mounted");
    // 60 % of the free space; other tests use little of it.
    let size = stat.f_bavail * stat.f_frsize / 5 * 3 / 4096 * 4096;
    let file = |name: &str| {
        let path = Path::new("/dev/shm").join(format!("gimbal-{name}-{}", std::process::id()));
        let file = fs::File::create(&path).expect("writable");
        file.set_len(size).expect("holes take no space");
        path
    };
    let (a, b) = (file("together-a"), file("together-b"));
    let device =
        |path: &Path| format!("kind = \"file\"\npath = {path:?}\ndirect = false\novercommit = \"refuse\"");
    let said = |devices: &str| {
        let config = scratch.config(devices);
        let output = gimbal().args(["config", "check", &config]).output().expect("it runs");
        String::from_utf8(output.stderr).expect("text")
    };
    let both = format!("{}\n[[device]]\nname = \"b\"\n{}", device(&a), device(&b));
    let (alone, together) = ([said(&device(&a)), said(&device(&b))], said(&both));
    let refusal = refused(gimbal().args(["serve", "-c", &scratch.config(&both)]));
    for path in [&a, &b] {
        let _ = fs::remove_file(path);
    }
    let shortage = "not allocated yet, with other devices on its file system";
    assert!(alone.iter().all(|said| !said.contains("not allocated yet")), "one fits: {alone:?}");
    assert_eq!(together.matches(shortage).count(), 2, "{together}");
    expect(&together, "a target cannot start with this here");
    expect(&refusal, shortage);
    expect(&refusal, "(overcommit = \"refuse\")");
}

#[test]
fn a_sparse_file_that_does_not_fit_gets_a_warning_or_is_refused() {
    let scratch = Scratch::new("space");
    // More than any file system of a test machine has.
    let size = "2048T";
    let shm = Path::new("/dev/shm").join(format!("gimbal-space-{}", std::process::id()));
    let device = |overcommit: &str| {
        format!(
            "kind = \"file\"\npath = {shm:?}\nsize = {size:?}\ncreate = true\ndirect = false\novercommit = {overcommit:?}"
        )
    };
    let said = refused(gimbal().args(["serve", "-c", &scratch.config(&device("refuse"))]));
    expect(&said, "2097152 GiB of it are not allocated yet, and the file system has ");
    expect(&said, "(overcommit = \"refuse\")");
    let (target, mut log) =
        Process::start_with_log(gimbal().args(["serve", "-c", &scratch.config(&device("warn"))]));
    log.await_line("2097152 GiB of it are not allocated yet");
    drop(target);
    let _ = fs::remove_file(shm);
}
