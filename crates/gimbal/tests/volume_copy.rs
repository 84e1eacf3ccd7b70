//! `gimbal volume import` and `gimbal volume export` on real targets: copied, compared, killed and run again, refused.
//!
//! A line of progress comes two seconds after the start at the earliest. Files are so large that, at their rate, the copy has some
//! seconds left then.

#![cfg(target_os = "linux")]

mod process;
mod rack;

use blob::{Outcome, Request};
use process::gimbal;
use rack::scratch::Scratch;
use rack::{Rack, VOLUME, content, done, opened};
use rustix::fs::{CWD, FileType, FlockOperation, Mode, mknodat};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};

/// Sizes around blocks (4048 bytes of data), micro blobs (16 of them) and the pieces of a copy (1 MiB).
const SIZES: [u64; 12] =
    [0, 1, 4047, 4048, 4049, 64_767, 64_768, 64_769, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3_500_000];

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Writes a file with content of its own, and the directories that it lies in.
fn put(root: &Path, path: &str, number: u64, size: u64) {
    let file = root.join(path);
    fs::create_dir_all(file.parent().expect("it has one")).expect("writable");
    fs::write(file, content(number, 0, size)).expect("writable");
}

/// A tree like a database with others beside it.
fn make_tree(root: &Path) {
    for (number, size) in (0..).zip(SIZES) {
        put(root, &format!("db/{number:06}.sst"), number, size);
    }
    put(root, "db/CURRENT", 100, 16);
    put(root, "db/LOCK", 0, 0);
    put(root, "db/archive/deep/down/ünd", 101, 5000);
    put(root, "CURRENT", 102, 16);
    put(root, ".hidden", 103, 10);
    fs::create_dir_all(root.join("empty/too")).expect("writable");
}

/// All paths below a directory; `None` stands for a directory.
fn tree(root: &Path) -> BTreeMap<String, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).expect("a directory") {
            let path = entry.expect("readable").path();
            let is_dir = path.is_dir();
            let bytes = (!is_dir).then(|| fs::read(&path).expect("readable"));
            found.insert(text(path.strip_prefix(root).expect("below it")).to_owned(), bytes);
            if is_dir {
                dirs.push(path);
            }
        }
    }
    found
}

fn assert_same(one: &Path, other: &Path) {
    let (one, other) = (tree(one), tree(other));
    assert_eq!(one.keys().collect::<Vec<_>>(), other.keys().collect::<Vec<_>>());
    for (path, bytes) in &one {
        assert!(other.get(path) == Some(bytes), "{path} differs");
    }
}

/// A command that is running, with its messages.
struct Running {
    child: Child,
    stderr: BufReader<ChildStderr>,
}

impl Running {
    fn start(rack: &Rack, arguments: &[&str]) -> Running {
        let mut command = gimbal();
        command.args(arguments).env("GIMBAL_STORE", rack.store());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary was built");
        let stderr = BufReader::new(child.stderr.take().expect("piped"));
        Running { child, stderr }
    }

    /// Waits for a line of progress.
    fn await_progress(&mut self) -> String {
        let mut all = String::new();
        loop {
            let mut line = String::new();
            let length = self.stderr.read_line(&mut line).expect("readable");
            assert!(length > 0, "it ended without progress:\n{all}");
            if line.starts_with("copying: ") || line.starts_with("comparing: ") {
                return line;
            }
            all += &line;
        }
    }

    fn kill(mut self) {
        self.child.kill().expect("our own child");
        let status = self.child.wait().expect("our own child");
        assert_eq!(status.code(), None, "it was killed, and not at its end");
    }

    /// Waits for its end; the exit code, and the rest of its messages.
    fn end(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.stderr, &mut rest).expect("readable");
        (self.child.wait().expect("our own child").code(), rest)
    }
}

/// Runs a command that must be refused; its message, which must have all of these parts.
fn refused(rack: &Rack, arguments: &[&str], parts: &[&str]) -> String {
    let output = rack.run(arguments);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
    for part in parts {
        assert!(said.contains(part), "{arguments:?} does not say {part:?}: {said}");
    }
    said
}

/// The numbers of the object that `--json` prints.
fn numbers(rack: &Rack, arguments: &[&str]) -> BTreeMap<String, u64> {
    let printed = rack.ask(&[arguments, &["--json"]].concat());
    assert_eq!(printed.lines().count(), 1, "{printed}");
    let object: BTreeMap<String, serde_json::Value> = serde_json::from_str(&printed).expect("one object");
    object.into_iter().filter_map(|(key, value)| value.as_u64().map(|value| (key, value))).collect()
}

#[test]
fn a_directory_comes_back_from_a_volume_as_it_went_in() {
    let rack = Rack::new("copy-round", 2);
    rack.create();
    let scratch = Scratch::new("copy-round-local");
    let (source, back) = (scratch.file("source"), scratch.file("new/back"));
    make_tree(&source);
    let import = ["volume", "import", VOLUME, text(&source), "/one/two"];
    let first = numbers(&rack, &import);
    let bytes = SIZES.iter().sum::<u64>() + 16 + 5000 + 16 + 10;
    let counts = [
        ("files", 17),
        ("directories", 6),
        ("bytes", bytes),
        ("copied_files", 17),
        ("copied_bytes", bytes),
        ("skipped_files", 0),
        ("continued_bytes", 0),
    ];
    counts.iter().for_each(|(key, value)| assert_eq!(first[*key], *value, "{key}"));

    // Again: all is compared, nothing is copied.
    let again = numbers(&rack, &import);
    assert_eq!((again["copied_files"], again["skipped_files"], again["skipped_bytes"]), (0, 17, bytes));

    let export = ["volume", "export", VOLUME, "one/two", text(&back)];
    let printed = rack.ask(&export);
    assert!(printed.contains("17 copied and checked"), "{printed}");
    assert_same(&source, &back);
    // A file that is gone and one that was cut are copied again; one that the volume does not have is named.
    fs::remove_file(back.join("db/000003.sst")).expect("it is there");
    fs::write(back.join("notes"), "mine").expect("writable");
    let printed = rack.ask(&export);
    assert!(printed.contains("1 copied and checked") && printed.contains("notes"), "{printed}");
    let output = rack.run(&["volume", "scrub", VOLUME]);
    assert!(String::from_utf8_lossy(&output.stdout).contains(" 0 corrupt"));
}

#[test]
fn a_killed_import_goes_on_where_it_ended() {
    let rack = Rack::new("copy-killed", 2);
    rack.create();
    let scratch = Scratch::new("copy-killed-local");
    let (source, back) = (scratch.file("source"), scratch.file("back"));
    put(&source, "CURRENT", 1, 16);
    put(&source, "a.sst", 2, 8_000_000);
    put(&source, "b.sst", 3, 16_000_001);
    put(&source, "c.sst", 4, 100_000);
    let limited = ["volume", "import", VOLUME, text(&source), "/db", "--rate", "2M"];
    let mut running = Running::start(&rack, &limited);
    assert!(running.await_progress().contains("a.sst"));
    running.kill();

    // The mount waits until the lease of the killed one is over.
    let mount = rack.mount();
    let Outcome::Names(names) = done(&mount, Request::List { path: "db".into() }) else { panic!("no names") };
    assert_eq!(names, ["a.sst.gimbal-part"], "the file is not complete");
    let (handle, size) = opened(&mount, Request::Open { path: "db/a.sst.gimbal-part".into() });
    let bytes = done(&mount, Request::Read { handle, offset: 0, length: size, class: blob::Class::Normal });
    assert_eq!(bytes, Outcome::Bytes(content(2, 0, size)), "what is there is a beginning of it");
    mount.unmount().expect("in order");

    // Killed once more, a file or two later.
    let mut running = Running::start(&rack, &[&limited[..5], &["--rate", "4M"]].concat());
    while !running.await_progress().contains("b.sst") {}
    running.kill();

    let ended = numbers(&rack, &limited[..5]);
    assert_eq!((ended["copied_files"] + ended["skipped_files"], ended["skipped_files"]), (4, 1), "{ended:?}");
    assert!(ended["continued_bytes"] > 0, "{ended:?}");
    rack.ask(&["volume", "export", VOLUME, "/db", text(&back)]);
    assert_same(&source, &back);
}

#[test]
fn a_killed_export_goes_on_and_a_signal_ends_one_in_order() {
    let rack = Rack::new("copy-export", 2);
    rack.create();
    let scratch = Scratch::new("copy-export-local");
    let (source, back) = (scratch.file("source"), scratch.file("back"));
    put(&source, "CURRENT", 1, 16);
    put(&source, "a.sst", 2, 12_000_000);
    put(&source, "b.sst", 3, 12_000_001);
    rack.ask(&["volume", "import", VOLUME, text(&source), "/"]);
    let export = ["volume", "export", VOLUME, "/", text(&back)];
    let mut running = Running::start(&rack, &[&export[..], &["--rate", "2M"]].concat());
    running.await_progress();
    running.kill();
    let left = tree(&back);
    let part = left["a.sst.gimbal-part"].as_ref().expect("a file").clone();
    assert!(!left.contains_key("CURRENT") && !part.is_empty());
    assert_eq!(part, content(2, 0, part.len() as u64));

    // A part that differs is begun again.
    fs::write(back.join("a.sst.gimbal-part"), content(9, 0, 100_000)).expect("writable");
    let mut running = Running::start(&rack, &[&export[..], &["--rate", "4M"]].concat());
    running.await_progress();
    let sent = Command::new("kill").args(["-INT", &running.child.id().to_string()]).status();
    assert!(sent.expect("kill(1) is everywhere").success());
    let (code, said) = running.end();
    assert!(code == Some(130) && said.contains("run the same command again"), "{code:?}: {said}");

    let output = rack.run(&export);
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "the lease was given back: {}",
        stderr(&output)
    );
    assert_same(&source, &back);
}

#[test]
fn what_cannot_be_copied_is_named() {
    let rack = Rack::new("copy-refused", 2);
    rack.create();
    let scratch = Scratch::new("copy-refused-local");
    let source = scratch.file("source");
    let import = ["volume", "import", VOLUME, text(&source), "/db"];
    refused(&rack, &import, &[text(&source), "does not exist"]);
    fs::write(&source, "a file").expect("writable");
    refused(&rack, &import, &[text(&source), "no directory"]);
    fs::remove_file(&source).expect("it is there");

    put(&source, "sub/file", 1, 10);
    let bad = source.join("sub/bad");
    mknodat(CWD, &bad, FileType::Fifo, Mode::RUSR, 0).expect("a FIFO");
    refused(&rack, &import, &[text(&bad), "FIFO", "remove it"]);
    fs::remove_file(&bad).expect("it is there");
    symlink(source.join("sub/file"), &bad).expect("a link");
    refused(&rack, &import, &[text(&bad), "link", "put what it leads to in its place"]);
    fs::remove_file(&bad).expect("it is there");
    // Paths of sockets are short.
    let socket = std::env::temp_dir().join(format!("gimbal-copy-{}", std::process::id()));
    let _listener = UnixListener::bind(&socket).expect("a socket");
    fs::rename(&socket, &bad).or_else(|_| fs::remove_file(&socket)).expect("ours");
    if bad.exists() {
        refused(&rack, &import, &[text(&bad), "socket", "remove it"]);
        fs::remove_file(&bad).expect("it is there");
    }
    let odd = source.join(OsStr::from_bytes(b"odd-\xff"));
    fs::write(&odd, "x").expect("writable");
    refused(&rack, &import, &["odd-", "UTF-8", "rename it"]);
    fs::remove_file(&odd).expect("it is there");
    let long = (0..5).map(|_| "x".repeat(220)).collect::<Vec<_>>().join("/");
    put(&source, &long, 1, 1);
    refused(&rack, &import, &["1024 bytes", "rename it"]);
    fs::remove_dir_all(source.join("x".repeat(220))).expect("it is there");
    put(&source, "sub/f.gimbal-part", 1, 1);
    refused(&rack, &import, &["sub/f.gimbal-part", "interrupted copy"]);
    fs::remove_file(source.join("sub/f.gimbal-part")).expect("it is there");
    refused(
        &rack,
        &["volume", "import", VOLUME, text(&source), "/a/../b"],
        &["\"/a/../b\"", "no path in a volume"],
    );
    refused(&rack, &["volume", "import", VOLUME, text(&source), "/db", "--rate", "0"], &["--rate 0"]);

    // A file where a directory is needed, at both ends of a path.
    rack.ask(&import);
    for path in ["/db/sub/file", "/db/sub/file/below"] {
        refused(&rack, &["volume", "import", VOLUME, text(&source), path], &["db:/db/sub/file is a file"]);
    }
    refused(
        &rack,
        &["volume", "export", VOLUME, "/none", text(&scratch.file("back"))],
        &["db:/none does not exist"],
    );

    // More than fits.
    File::create(source.join("huge")).and_then(|file| file.set_len(1 << 40)).expect("a file of holes");
    refused(&rack, &import, &["db:/db has space for", "nothing was copied"]);
    fs::remove_file(source.join("huge")).expect("it is there");

    // A database that is open in this process.
    put(&source, "CURRENT", 1, 16);
    put(&source, "LOCK", 1, 0);
    let lock = OpenOptions::new().write(true).open(source.join("LOCK")).expect("writable");
    rustix::fs::fcntl_lock(&lock, FlockOperation::NonBlockingLockExclusive).expect("nobody else has it");
    refused(&rack, &import, &[text(&source), "open in another process", "checkpoint"]);
    drop(lock);
    rack.ask(&import);
}

#[test]
fn files_of_the_destination_that_differ_are_replaced_only_when_asked() {
    let rack = Rack::new("copy-differs", 2);
    rack.create();
    let scratch = Scratch::new("copy-differs-local");
    let (source, back) = (scratch.file("source"), scratch.file("back"));
    make_tree(&source);
    let import = ["volume", "import", VOLUME, text(&source), "/x"];
    rack.ask(&import);
    // As a database that was opened and closed: a new manifest and log, another CURRENT, an old table gone.
    put(&source, "db/CURRENT", 200, 16);
    put(&source, "db/MANIFEST-000020", 201, 300);
    fs::remove_file(source.join("db/000005.sst")).expect("it is there");
    let said = refused(&rack, &import, &["db:/x/db/CURRENT", "nothing was copied", "--replace"]);
    assert!(!said.contains("000001.sst"), "{said}");
    let printed = rack.ask(&[&import[..], &["--replace"]].concat());
    assert!(printed.contains("2 copied and checked") && printed.contains("db/000005.sst"), "{printed}");
    rack.ask(&["volume", "export", VOLUME, "/x", text(&back)]);
    fs::remove_file(back.join("db/000005.sst")).expect("it is not removed in the volume");
    assert_same(&source, &back);

    // The same at an export, and a directory with files of others.
    fs::write(back.join(".hidden"), "0123456789").expect("writable");
    let export = ["volume", "export", VOLUME, "/x", text(&back)];
    refused(&rack, &export, &[text(&back.join(".hidden")), "--replace"]);
    rack.ask(&[&export[..], &["--replace"]].concat());
    let other = scratch.file("other");
    put(&other, "letter.txt", 1, 1);
    refused(
        &rack,
        &["volume", "export", VOLUME, "/x", text(&other)],
        &[text(&other), "new or empty directory"],
    );
    symlink("/dev/null", other.join("link")).expect("a link");
    refused(&rack, &["volume", "export", VOLUME, "/x", text(&other)], &["link"]);
}

#[test]
fn a_source_that_changes_meanwhile_is_an_error() {
    let rack = Rack::new("copy-changes", 2);
    rack.create();
    let scratch = Scratch::new("copy-changes-local");
    let source = scratch.file("source");
    put(&source, "CURRENT", 1, 16);
    put(&source, "000001.log", 2, 16_000_000);
    put(&source, "000002.sst", 3, 1000);
    let limited = ["volume", "import", VOLUME, text(&source), "/db", "--rate", "4M"];
    let mut running = Running::start(&rack, &limited);
    running.await_progress();
    let mut log = OpenOptions::new().append(true).open(source.join("000001.log")).expect("it is there");
    log.write_all(b"more").expect("writable");
    let (code, said) = running.end();
    assert!(code == Some(1) && said.contains("000001.log") && said.contains("close it"), "{code:?}: {said}");

    // A file that is new is found as well, before CURRENT is copied. The log may have been copied before it changed.
    let mut running = Running::start(&rack, &[&limited[..], &["--replace"]].concat());
    running.await_progress();
    put(&source, "000003.log", 4, 10);
    let (code, said) = running.end();
    assert!(code == Some(1) && said.contains("000003.log") && said.contains("close it"), "{code:?}: {said}");
    let mount = rack.mount();
    let Outcome::Names(names) = done(&mount, Request::List { path: "db".into() }) else { panic!("no names") };
    assert!(!names.contains(&"CURRENT".to_owned()), "{names:?}");

    // While another client has the volume.
    refused(&rack, &limited, &["another client has mounted the volume"]);
    mount.unmount().expect("in order");
    rack.ask(&limited[..5]);
}

#[test]
fn a_volume_that_gets_full_is_named_and_keeps_what_it_has() {
    let rack = Rack::new("copy-no-space", 2);
    rack.create();
    let scratch = Scratch::new("copy-no-space-local");
    let source = scratch.file("source");
    // Each file takes a micro blob of 64 KiB of the 240 MiB: more than their bytes say.
    (0..4200).for_each(|number| put(&source, &format!("{:02}/{number}", number % 50), number, 3));
    let import = ["volume", "import", VOLUME, text(&source), "/"];
    refused(&rack, &import, &["db:/", "no space on two SSDs", "which goes on"]);
    let kept = fs::read_dir(source.join("00")).expect("a directory").count() as u64;
    // With fewer files it goes on.
    (0..4200).filter(|number| number % 50 >= 40).for_each(|number| {
        fs::remove_file(source.join(format!("{:02}/{number}", number % 50))).expect("it is there");
    });
    let ended = numbers(&rack, &import);
    assert!(ended["files"] == 3360 && ended["skipped_files"] >= kept, "{ended:?}");
}

#[test]
fn a_local_disk_that_is_full_is_named() {
    let rack = Rack::new("copy-full", 2);
    rack.create();
    let scratch = Scratch::new("copy-full-local");
    let (source, back) = (scratch.file("source"), scratch.file("back"));
    put(&source, "big", 1, 3_000_000);
    fs::create_dir_all(&back).expect("writable");
    rack.ask(&["volume", "import", VOLUME, text(&source), "/"]);
    // A file system of its own, in a namespace of its own; and a file that may not be as large.
    let run = |before: &str| {
        let script = format!("{before} && exec \"$0\" volume export {VOLUME} / {}", text(&back));
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", &script]).arg(process::binary());
        command.env("GIMBAL_STORE", rack.store()).output().expect("unshare(1) is everywhere")
    };
    let mount = format!("mount -t tmpfs -o size=1m none {}", text(&back));
    let said = stderr(&run(&mount));
    assert!(said.contains(text(&back)) && said.contains("nothing was copied"), "{said}");
    // Room that goes away meanwhile cannot be made here; a limit has the same effect.
    let said = stderr(&run("trap '' XFSZ; ulimit -f 1000"));
    assert!(said.contains("big.gimbal-part cannot be written") && said.contains("ulimit -f"), "{said}");
}
