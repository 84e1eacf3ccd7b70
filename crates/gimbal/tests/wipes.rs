//! Blocks of removed namespaces are erased before they get another owner, whenever the target is killed.

mod http;
mod process;

use host::{Backend, Client, ControllerOptions, HostId, Nqn, RetryPolicy};
use http::send;
use process::{Process, gimbal};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use units::Bytes;

const NQN: &str = "nqn.2025-01.io.example:disk";
/// Bytes of a namespace.
const PART: usize = 1 << 20;
const SECRET: u8 = 0xa5;

struct Place(PathBuf);

impl Place {
    fn new(seed: u64) -> Place {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("wipes-{seed}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("cargo's folder for tests is writable");
        Place(folder)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A configuration with a second namespace of this number. Erasing takes a moment.
    fn text(&self, second: u32) -> String {
        format!(
            "listen = [\"127.0.0.1:0\"]\nstate_dir = {:?}\n\
             [[device]]\nname = \"a\"\nkind = \"file\"\npath = {:?}\ndirect = false\n\
             [[device.fault]]\nkind = \"delay\"\nop = \"write-zeroes\"\ndelay = \"20ms\"\n\
             [[subsystem]]\nnqn = {NQN:?}\nallow_any_host = true\n\
             [[subsystem.namespace]]\nnsid = 1\ndevice = \"a\"\nsize = \"1M\"\n\
             [[subsystem.namespace]]\nnsid = {second}\ndevice = \"a\"\noffset = \"1M\"\nsize = \"1M\"\nwipe_on_remove = true\n",
            self.file("state"),
            self.file("image")
        )
    }

    fn command(&self) -> Command {
        let mut command = gimbal();
        command.args(["serve", "-c"]).arg(self.file("gimbal.toml"));
        command.arg("--admin-socket").arg(self.file("s"));
        command
    }

    /// The blocks of the second namespace.
    fn second(&self) -> Vec<u8> {
        fs::read(self.file("image")).expect("it is there")[PART..].to_vec()
    }
}

/// The numbers of the namespaces that hosts see.
fn served(target: &Process) -> Vec<u32> {
    let client = Client::start(Backend::Auto, Bytes::mib(16)).expect("a client");
    let [subsystem, host] = [NQN, "nqn.2025-01.io.example:host"].map(|name| Nqn::new(name).expect("valid"));
    let options = ControllerOptions::new(target.address(), subsystem, host, HostId([7; 16]));
    let options = ControllerOptions { retry: RetryPolicy::Never, ..options };
    let controller = client.connect(options).wait().expect("connects");
    controller.namespaces().iter().map(|namespace| namespace.nsid).collect()
}

#[test]
fn a_kill_at_any_moment_leaves_nothing_of_a_removed_namespace_for_the_next_owner() {
    for seed in 0..16 {
        let place = Place::new(seed);
        let mut draw = Xoshiro256PlusPlus::seed_from_u64(seed);
        fs::write(place.file("gimbal.toml"), place.text(2)).expect("ours");
        fs::write(place.file("image"), vec![SECRET; 2 * PART]).expect("ours");
        let mut kills = draw.random_range(1..4);
        loop {
            let mut target = Process::start(&mut place.command());
            let (seen, contents) = (served(&target), place.second());
            assert!(seen.contains(&1), "seed {seed}: {seen:?}");
            let (is_whole, is_zero) =
                (contents.iter().all(|byte| *byte == SECRET), contents.iter().all(|byte| *byte == 0));
            assert!(!seen.contains(&2) || is_whole || is_zero, "seed {seed}: a part of it is gone");
            assert!(!seen.contains(&3) || is_zero, "seed {seed}: the next owner sees what was there");
            let tag = send(&place.file("s"), "GET", "/v1/config", &[], b"").tag;
            let next = place.text(3);
            let headers = [("If-Match", &*tag), ("Content-Type", "application/toml")];
            if kills > 0 {
                kills -= 1;
                let mut stream = UnixStream::connect(place.file("s")).expect("the target listens");
                let request = format!(
                    "PUT /v1/config HTTP/1.1\r\nHost: a\r\nIf-Match: {tag}\r\nContent-Type: application/toml\r\n\
                     Content-Length: {}\r\n\r\n{next}",
                    next.len()
                );
                stream.write_all(request.as_bytes()).expect("the target reads");
                // The moment of the kill is the machine's; what is asserted holds for every moment.
                for _ in 0..draw.random_range(0..2_000_000) {
                    std::hint::spin_loop();
                }
                target.kill();
                continue;
            }
            // Changes that a slow device delays are accepted, and done by a later reload.
            let mut status = send(&place.file("s"), "PUT", "/v1/config", &headers, next.as_bytes()).status;
            while status == 202 {
                status = send(&place.file("s"), "POST", "/v1/reload", &[], b"").status;
            }
            assert_eq!(status, 200, "seed {seed}");
            assert_eq!(served(&target), [1, 3], "seed {seed}");
            let image = fs::read(place.file("image")).expect("it is there");
            assert!(image[PART..].iter().all(|byte| *byte == 0), "seed {seed}: not erased");
            assert!(image[..PART].iter().all(|byte| *byte == SECRET), "seed {seed}: more was erased");
            assert_eq!(fs::read_dir(place.file("state/wipes")).expect("a folder").count(), 0, "seed {seed}");
            break;
        }
    }
}
