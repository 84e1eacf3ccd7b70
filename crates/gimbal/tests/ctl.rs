//! The admin API and `gimbal ctl` of a running target: what is answered, what runs, and what is in the file.

mod http;
mod process;

use host::{Backend, Client, ControllerOptions, HostId, Nqn, Operation, Request, RetryPolicy};
use http::{Answer, answer, send};
use process::{Process, gimbal};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::thread;
use units::{Bytes, Lba};

const NQN: &str = "nqn.2025-01.io.example:disk";
const TENANT: &str = "nqn.2025-01.io.example:tenant";

/// The folder of a test, with a configuration and the socket of its target.
struct Place {
    file: PathBuf,
    socket: PathBuf,
}

impl Place {
    /// `faults` are lines of the only device.
    fn new(name: &str, faults: &str) -> Place {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("ctl-{name}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("cargo's folder for tests is writable");
        let text = format!(
            "# This file has comments.\nlisten = [\"127.0.0.1:0\"]\n\n[limits]\nhang_after = \"10ms\"  # soon\ndrain_timeout = \"1s\"\n\n\
             [[device]]\nname = \"a\"\nkind = \"null\"\nsize = \"1G\"\n{faults}\n\
             [[subsystem]]\nnqn = {NQN:?}\nallow_any_host = true\n\
             [[subsystem.namespace]]\nnsid = 1\ndevice = \"a\"\nsize = \"64M\"\n"
        );
        let place = Place { file: folder.join("gimbal.toml"), socket: folder.join("s") };
        fs::write(&place.file, text).expect("ours");
        place
    }

    fn command(&self) -> Command {
        let mut command = gimbal();
        command.arg("serve").arg("-c").arg(&self.file).arg("--admin-socket").arg(&self.socket);
        command
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.file).expect("it is there")
    }

    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        send(&self.socket, method, path, headers, body.as_bytes())
    }

    fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "")
    }

    /// A change of the configuration as it is now.
    fn patch(&self, path: &str, body: &str) -> Answer {
        let tag = self.get("/v1/config").tag;
        self.send("PATCH", path, &[("If-Match", &tag)], body)
    }

    fn ctl(&self, words: &[&str]) -> (Option<i32>, String) {
        let Output { status, stdout, stderr } =
            gimbal().arg("ctl").arg("--socket").arg(&self.socket).args(words).output().expect("it was built");
        (status.code(), String::from_utf8([stdout, stderr].concat()).expect("text"))
    }
}

/// The size of the namespace that runs, as a host finds it.
fn size(target: &Process) -> u64 {
    let client = Client::start(Backend::Auto, Bytes::mib(16)).expect("a client");
    let [subsystem, host] = [NQN, "nqn.2025-01.io.example:host"].map(|name| Nqn::new(name).expect("valid"));
    let options = ControllerOptions::new(target.address(), subsystem, host, HostId([7; 16]));
    let options = ControllerOptions { retry: RetryPolicy::Never, ..options };
    let controller = client.connect(options).wait().expect("connects");
    controller.namespaces()[0].blocks * controller.namespaces()[0].block_size.get()
}

#[test]
fn a_change_is_in_effect_and_in_the_file_with_its_comments() {
    let place = Place::new("change", "");
    let (target, mut log) = Process::start_with_log(&mut place.command());
    let (code, said) = place.ctl(&["set", "namespace", NQN, "1", "size=32M"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("64 MiB → 32 MiB"), "{said}");
    assert!(
        place.text().contains("size = \"32M\"") && place.text().contains("\"10ms\"  # soon"),
        "{}",
        place.text()
    );
    log.await_line("what=\"PATCH /v1/subsystems");
    assert!(
        log.saying("admin").last().is_some_and(|line| line.contains("uid=") && line.contains("status=200"))
    );

    let (code, said) = place.ctl(&["add", "tenant", TENANT, "weight=4"]);
    assert!(code == Some(0) && said.contains("weight 4"), "{said}");
    let (code, said) = place.ctl(&["add", "tenant", TENANT, "weight=5"]);
    assert!(code == Some(1) && said.contains("is there already"), "{said}");
    let (code, said) = place.ctl(&["get", "tenant", TENANT]);
    assert!(code == Some(0) && said.contains("\"weight\": 4"), "{said}");
    // What is refused names the line, and changes nothing.
    let before = place.text();
    let (code, said) = place.ctl(&["set", "tenant", TENANT, "weight=0"]);
    assert!(code == Some(1) && said.contains("line ") && said.contains("weight"), "{said}");
    let (code, said) = place.ctl(&["set", "limits", "queue_depth=64"]);
    assert!(code == Some(1) && said.contains("started again"), "{said}");
    assert_eq!(place.text(), before);
    assert_eq!(place.ctl(&["remove", "tenant", TENANT]).0, Some(0));
    let (code, said) = place.ctl(&["config", "show"]);
    assert_eq!((code, said), (Some(0), place.text()));
    assert_eq!(place.ctl(&["health"]), (Some(0), "alive\nready\n".to_owned()));
    assert_eq!(
        place.ctl(&["host", TENANT, "disconnect"]),
        (Some(0), "0 connections were ended\n".to_owned())
    );

    // A start with the file is the same.
    assert_eq!(size(&target), 32 << 20);
    drop(target);
    let target = Process::start(&mut place.command());
    assert_eq!(size(&target), 32 << 20);
}

#[test]
fn the_state_of_a_group_is_listed_and_changed_in_the_file() {
    let place = Place::new("ana", "");
    let groups = "group = \"left\"\n[[group]]\nname = \"left\"  # of the rack\nid = 9\n[[group]]\nname = \"right\"\nid = 3\n";
    fs::write(&place.file, format!("{}{groups}", place.text())).expect("ours");
    let _target = Process::start(&mut place.command());
    let listed = |state: &str| {
        format!("left: number 9, {state}: 1 of {NQN}\nright: number 3, optimized: no namespaces\n")
    };
    assert_eq!(place.ctl(&["ana"]), (Some(0), listed("optimized")));
    let (code, said) = place.ctl(&["ana", "set", "left", "non-optimized"]);
    assert!(code == Some(0) && said.contains("optimized, number 9 → non-optimized, number 9"), "{said}");
    assert_eq!(place.ctl(&["ana"]), (Some(0), listed("non-optimized")));
    assert!(
        place.text().contains("name = \"left\"  # of the rack\nid = 9\nstate = \"non-optimized\"\n"),
        "{}",
        place.text()
    );
    let before = place.text();
    let (code, said) = place.ctl(&["ana", "set", "left", "gone"]);
    assert!(
        code == Some(1) && said.contains("line 24: group[0].state: \"gone\" is not \"optimized\""),
        "{said}"
    );
    let (code, said) = place.ctl(&["ana", "set", "middle", "inaccessible"]);
    assert!(code == Some(1) && said.contains("there are left right"), "{said}");
    let (code, said) = place.ctl(&["remove", "group", "left"]);
    assert!(code == Some(1) && said.contains("no group is called \"left\""), "{said}");
    assert_eq!(place.text(), before);
}

#[test]
fn a_drain_is_over_when_an_operator_says_so_or_when_the_target_is_killed() {
    let place = Place::new("drain", "");
    let (mut target, mut log) = Process::start_with_log(&mut place.command());
    let client = Client::start(Backend::Auto, Bytes::mib(16)).expect("a client");
    let [subsystem, host] = [NQN, TENANT].map(|name| Nqn::new(name).expect("valid"));
    let options = ControllerOptions::new(target.address(), subsystem, host, HostId([7; 16]));
    let options = ControllerOptions { retry: RetryPolicy::Never, ..options };
    let controller = client.connect(options.clone()).wait().expect("connects");
    let (code, said) = place.ctl(&["connections"]);
    let lines: Vec<&str> = said.lines().collect();
    assert!(code == Some(0) && lines.len() >= 2, "{said}");
    let is_right =
        |line: &&str| line.starts_with(TENANT) && line.contains(NQN) && line.contains(" controller 1 queue ");
    assert!(lines.iter().all(is_right), "{said}");
    assert_eq!(place.ctl(&["connections", "--host", TENANT]).1.lines().count(), lines.len());
    assert_eq!(place.ctl(&["connections", "--host", NQN]), (Some(0), String::new()));

    let drained = format!("drained: {0} connections, 0 IOs\n{TENANT}: {0} connections, 0 IOs\n", lines.len());
    assert_eq!(place.ctl(&["drain", "--wait", "60s"]), (Some(0), drained.clone()));
    assert_eq!(place.ctl(&["drain", "status"]), (Some(0), drained.clone()));
    let (code, said) = place.ctl(&["health"]);
    assert!(code == Some(1) && said.contains("not ready: the target is drained"), "{said}");
    let waiting = client.connect(options);
    log.await_line("Connect refused: the target is drained for maintenance");
    // A change of the file goes on meanwhile.
    assert_eq!(place.ctl(&["add", "tenant", TENANT, "weight=4"]).0, Some(0));
    let (code, said) = place.ctl(&["drain", "end"]);
    assert!(code == Some(0) && said.starts_with("in use: "), "{said}");
    drop(waiting.wait().expect("a host that was turned away tries again"));
    assert_eq!(place.ctl(&["health"]).0, Some(0));

    assert_eq!(place.ctl(&["drain"]).0, Some(0));
    drop(controller);
    target.kill();
    let _target = Process::start(&mut place.command());
    let in_use = "in use: 0 connections, 0 IOs\n".to_owned();
    assert_eq!(place.ctl(&["drain", "status"]), (Some(0), in_use), "nothing of it is remembered");
    assert_eq!(place.ctl(&["health"]).0, Some(0));
}

#[test]
fn a_drain_counts_the_ios_of_a_device_that_hangs_and_does_not_wait_for_them() {
    let place = Place::new("drain-hang", "[[device.fault]]\nkind = \"hang\"\nop = \"write\"\n");
    let target = Process::start(&mut place.command());
    let client = Client::start(Backend::Auto, Bytes::mib(16)).expect("a client");
    let [subsystem, host] = [NQN, TENANT].map(|name| Nqn::new(name).expect("valid"));
    let options = ControllerOptions::new(target.address(), subsystem, host, HostId([7; 16]));
    let controller = client.connect(options).wait().expect("connects");
    let buffer = controller.client().buffer(4096).expect("the client has memory to spare");
    let write = Request::new(0, 1, Operation::Write { durable: false }, Lba(0), 1);
    let _never = controller.submit(write.with_buffer(buffer));
    while !place.ctl(&["connections"]).1.contains(", 1 IOs") {}
    let (code, said) = place.ctl(&["drain", "--wait", "10ms"]);
    assert!(
        code == Some(4) && said.contains(&format!("{TENANT}: ")) && said.contains(" connections, 1 IOs"),
        "{said}"
    );
}

#[test]
fn a_host_is_disconnected_and_health_is_open_to_all() {
    let place = Place::new("disconnect", "");
    fs::write(&place.file, format!("{}[metrics]\nlisten = \"127.0.0.1:0\"\n", place.text())).expect("ours");
    let (target, mut log) = Process::start_with_log(&mut place.command());
    let client = Client::start(Backend::Auto, Bytes::mib(16)).expect("a client");
    let [subsystem, host] = [NQN, TENANT].map(|name| Nqn::new(name).expect("valid"));
    let options = ControllerOptions::new(target.address(), subsystem, host, HostId([7; 16]));
    let options = ControllerOptions { retry: RetryPolicy::Never, ..options };
    let controller = client.connect(options).wait().expect("connects");
    let (code, said) = place.ctl(&["host", TENANT, "disconnect"]);
    assert!(
        code == Some(0) && said.ends_with("connections were ended\n") && !said.starts_with('0'),
        "{said}"
    );
    log.await_line("the operator has disconnected the host");
    drop(controller);

    let line = log.saying("health can be read without permission")[0].to_owned();
    let address =
        line.split("address=").nth(1).and_then(|rest| rest.split_whitespace().next()).expect("an address");
    for (path, status) in [("/healthz", 200), ("/readyz", 200), ("/v1/config", 404)] {
        let mut stream = std::net::TcpStream::connect(address).expect("it listens");
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("it answers");
        assert_eq!(answer(&text).status, status, "{path}");
    }
}

#[test]
fn a_file_is_shown_before_it_is_applied() {
    let place = Place::new("apply", "");
    let _target = Process::start(&mut place.command());
    let other = place.file.with_file_name("other.toml");
    let text = place.text().replace("\"64M\"", "\"128M\"");
    fs::write(&other, &text).expect("ours");
    let before = place.text();
    for words in
        [&["diff", other.to_str().expect("text")][..], &["apply", "--dry-run", other.to_str().expect("text")]]
    {
        let (code, said) = place.ctl(words);
        assert!(code == Some(0) && said.contains("64 MiB → 128 MiB"), "{said}");
        assert_eq!(place.text(), before);
    }
    let (code, said) = place.ctl(&["apply", other.to_str().expect("text")]);
    assert!(code == Some(0) && said.contains("64 MiB → 128 MiB"), "{said}");
    assert_eq!(place.text(), text);
    let (code, said) = place.ctl(&["diff", other.to_str().expect("text")]);
    assert_eq!((code, &*said), (Some(0), "nothing changes in the target\n"));
    assert_eq!(place.ctl(&["get", "tenant", "a", "b"]).0, Some(2));
    assert_eq!(
        gimbal().args(["ctl", "--socket", "/nonexistent/s", "health"]).status().expect("built").code(),
        Some(3)
    );
}

#[test]
fn of_two_writers_with_one_generation_one_wins() {
    let place = Place::new("two", "");
    let _target = Process::start(&mut place.command());
    for round in 0..8 {
        let tag = place.get("/v1/config").tag;
        let mut statuses: Vec<u16> = thread::scope(|scope| {
            let write = |size: u32| {
                let (place, tag) = (&place, &tag);
                scope.spawn(move || {
                    let path = format!("/v1/subsystems/{NQN}/namespaces/1");
                    let body = format!("{{\"size\":\"{size}M\"}}");
                    place.send("PATCH", &path, &[("If-Match", tag)], &body).status
                })
            };
            let writers = [write(100 + 2 * round), write(101 + 2 * round)];
            writers.map(|writer| writer.join().expect("it does not panic")).to_vec()
        });
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 412]);
    }
    assert_eq!(place.send("PATCH", "/v1/limits", &[], "{}").status, 428);
}

#[test]
fn an_edited_file_is_not_overwritten() {
    let place = Place::new("edited", "");
    let (target, mut log) = Process::start_with_log(&mut place.command());
    let before = place.text();
    let by_hand = before.replace("\"64M\"", "\"48M\"");
    fs::write(&place.file, &by_hand).expect("ours");
    let refused = place.patch("/v1/limits", "{\"connections\":77}");
    assert_eq!(refused.status, 409);
    assert!(refused.body.contains("gimbal ctl config discard"), "{}", refused.body);
    assert_eq!(place.text(), by_hand);
    assert_eq!(place.ctl(&["config", "discard"]).0, Some(0));
    assert_eq!(place.text(), before);
    assert_eq!(place.patch("/v1/limits", "{\"connections\":77}").status, 200);

    // The other way: what was edited is taken over, by a signal and by the API.
    fs::write(&place.file, &by_hand).expect("ours");
    target.signal("-HUP");
    log.await_line("the configuration was reloaded");
    assert_eq!(place.patch("/v1/limits", "{\"connections\":78}").status, 200);
    assert!(place.text().contains("\"48M\"") && place.text().contains("connections = 78"));
    fs::write(&place.file, &before).expect("ours");
    let (code, said) = place.ctl(&["reload"]);
    assert!(code == Some(0) && said.contains("48 MiB → 64 MiB"), "{said}");
    // A file that is wrong is refused by a reload, and what runs goes on.
    fs::write(&place.file, "listen = 7").expect("ours");
    let (code, said) = place.ctl(&["reload"]);
    assert!(code == Some(1) && said.contains("line 1"), "{said}");
    assert_eq!(size(&target), 64 << 20);
}

#[test]
fn a_file_that_cannot_be_replaced_changes_nothing() {
    let place = Place::new("read-only", "");
    let _target = Process::start(&mut place.command());
    let (before, tag) = (place.text(), place.get("/v1/config").tag);
    let mode = |mode| fs::set_permissions(&place.file, fs::Permissions::from_mode(mode)).expect("ours");
    mode(0o440);
    let refused = place.patch("/v1/limits", "{\"connections\":77}");
    assert_eq!(refused.status, 403, "{}", refused.body);
    assert_eq!((place.text(), place.get("/v1/config").tag), (before.clone(), tag));
    mode(0o600);

    // A link leads to the file.
    let real = place.file.with_file_name("real.toml");
    fs::rename(&place.file, &real).expect("ours");
    symlink(&real, &place.file).expect("a link");
    assert_eq!(place.patch("/v1/limits", "{\"connections\":77}").status, 200);
    assert!(fs::read_to_string(&real).expect("ours").contains("connections = 77"));
    assert!(place.file.symlink_metadata().expect("ours").is_symlink());

    // No regular file.
    fs::remove_file(&place.file).expect("ours");
    assert!(Command::new("mkfifo").arg(&place.file).status().expect("mkfifo(1) is everywhere").success());
    let refused = place.patch("/v1/limits", "{\"connections\":78}");
    assert!(refused.status == 409 && refused.body.contains("FIFO"), "{}", refused.body);
}

#[test]
fn a_full_disk_changes_neither_the_file_nor_the_target() {
    let place = Place::new("full", "");
    let mut limited = Command::new("sh");
    // Files of at most 8 blocks of 512 bytes.
    limited.args(["-c", "ulimit -f 8; exec \"$@\"", "sh"]);
    let command = place.command();
    limited.arg(command.get_program()).args(command.get_args());
    limited.envs(command.get_envs().map(|(name, value)| (name, value.expect("all are set"))));
    let target = Process::start(&mut limited);
    let before = place.text();
    let large = format!("{}# {}\n", before.replace("\"64M\"", "\"32M\""), "x".repeat(8 << 10));
    let tag = place.get("/v1/config").tag;
    let headers = [("If-Match", &*tag), ("Content-Type", "application/toml")];
    let refused = place.send("PUT", "/v1/config", &headers, &large);
    assert_eq!(refused.status, 507, "{}", refused.body);
    assert!(refused.body.contains("nothing has changed"), "{}", refused.body);
    assert_eq!(place.text(), before);
    assert_eq!(size(&target), 64 << 20);
    assert_eq!(place.patch("/v1/limits", "{\"connections\":77}").status, 200, "what fits is written");
}

#[test]
fn large_bodies_and_many_connections_are_refused() {
    let place = Place::new("bounds", "");
    let _target = Process::start(&mut place.command());
    let refused = place.send("PUT", "/v1/config", &[("If-Match", "\"x\"")], &" ".repeat(5 << 20));
    assert_eq!(refused.status, 413, "{}", refused.body);
    let mut held = Vec::new();
    for _ in 0..64 {
        let mut stream = UnixStream::connect(&place.socket).expect("the target listens");
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").expect("it reads");
        let mut status = String::new();
        BufReader::new(&stream).read_line(&mut status).expect("it answers");
        assert!(status.starts_with("HTTP/1.1 200"), "{status}");
        held.push(stream);
    }
    let mut stream = UnixStream::connect(&place.socket).expect("the target listens");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it answers without being asked");
    assert!(answer(&text).status == 503 && text.contains("Retry-After"), "{text}");
    drop(held);
}

#[test]
fn the_socket_of_a_live_target_is_not_taken_and_that_of_a_dead_one_is() {
    let place = Place::new("socket", "");
    let mut first = Process::start(&mut place.command());
    let second = place.command().output().expect("it was built");
    let said = String::from_utf8(second.stderr).expect("text");
    assert!(
        second.status.code() == Some(1) && said.contains("another target has the admin socket"),
        "{said}"
    );
    first.kill();
    assert!(place.socket.exists(), "it was killed");
    let mut second = Process::start(&mut place.command());
    assert_eq!(place.get("/healthz").status, 200);
    second.signal("-TERM");
    assert!(second.wait().success());
    assert!(!place.socket.exists());

    let flags = ["serve", "--device", "null", "--listen", "127.0.0.1:0", "--admin-socket"];
    let _flags = Process::start(gimbal().args(flags).arg(&place.socket));
    let refused = place.patch("/v1/limits", "{\"connections\":78}");
    assert!(refused.status == 409 && refused.body.contains("-c FILE"), "{}", refused.body);
    assert_eq!(place.get("/v1/config").status, 200);
}

/// A reload waits for a write that never ends: reads are answered meanwhile, and the change is in the file.
#[test]
fn reads_are_answered_while_a_change_waits_for_a_device() {
    let place = Place::new("hangs", "[[device.fault]]\nkind = \"hang\"\nop = \"write\"\n");
    let (target, mut log) = Process::start_with_log(&mut place.command());
    let client = Client::start(Backend::Auto, Bytes::mib(16)).expect("a client");
    let [subsystem, host] = [NQN, "nqn.2025-01.io.example:host"].map(|name| Nqn::new(name).expect("valid"));
    let options = ControllerOptions::new(target.address(), subsystem, host, HostId([7; 16]));
    let options = ControllerOptions { retry: RetryPolicy::Never, ..options };
    let controller = client.connect(options).wait().expect("connects");
    let buffer = controller.client().buffer(4096).expect("the client has memory to spare");
    let _never = controller
        .submit(Request::new(0, 1, Operation::Write { durable: false }, Lba(0), 1).with_buffer(buffer));
    log.await_line("the device hangs: IOs on it do not end");
    // The log has it first.
    while !place.get("/readyz").body.contains("device a does not answer") {}

    let path = format!("/v1/subsystems/{NQN}/namespaces/2");
    let tag = place.get("/v1/config").tag;
    let body = "{\"device\":\"a\",\"offset\":\"64M\",\"size\":\"1M\"}";
    assert_eq!(place.send("PUT", &path, &[("If-Match", &tag)], body).status, 200);
    let removed = thread::scope(|scope| {
        let tag = place.get("/v1/config").tag;
        let path = format!("/v1/subsystems/{NQN}/namespaces/1");
        let place = &place;
        let writer = scope.spawn(move || place.send("DELETE", &path, &[("If-Match", &tag)], ""));
        let mut reads = 0;
        while !writer.is_finished() {
            assert_eq!(place.get("/v1/config").status, 200);
            assert_eq!(place.get("/healthz").status, 200);
            reads += 1;
        }
        assert!(reads > 0);
        writer.join().expect("it does not panic")
    });
    assert_eq!(removed.status, 202, "{}", removed.body);
    assert!(
        removed.body.contains("its IOs have not ended") && removed.body.contains("/v1/operations/"),
        "{}",
        removed.body
    );
    assert!(!place.text().contains("nsid = 1"), "{}", place.text());
}

/// Random changes by the API and by hand, and a kill at a random moment of a change: after a restart, what was acknowledged last runs, or the
/// change that was under way.
#[test]
fn what_runs_after_a_kill_is_what_was_acknowledged() {
    const ROUNDS: u64 = 12;
    for seed in 0..ROUNDS {
        run_and_kill(seed);
    }
}

fn run_and_kill(seed: u64) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let place = Place::new("killed", "");
    let (mut target, mut log) = Process::start_with_log(&mut place.command());
    let path = format!("/v1/subsystems/{NQN}/namespaces/1");
    let mut acknowledged = place.text();
    for _ in 0..random.random_range(0..6) {
        let mib: u32 = random.random_range(1..1000);
        if random.random_bool(0.3) {
            let start = acknowledged.rfind("size = ").expect("it has one");
            acknowledged = format!("{}size = \"{mib}M\"\n", &acknowledged[..start]);
            fs::write(&place.file, &acknowledged).expect("ours");
            target.signal("-HUP");
            log.await_next("the configuration was reloaded");
        } else {
            let answer = place.patch(&path, &format!("{{\"size\":\"{mib}M\"}}"));
            assert_eq!(answer.status, 200, "seed {seed}: {}", answer.body);
            acknowledged = place.text();
        }
        assert_eq!(size(&target), mib_of(&acknowledged) << 20, "seed {seed}");
    }
    // The moment of the kill is the machine's; what is asserted holds for every moment.
    let under_way: u32 = random.random_range(1000..1020);
    let tag = place.get("/v1/config").tag;
    let body = format!("{{\"size\":\"{under_way}M\"}}");
    let mut stream = UnixStream::connect(&place.socket).expect("the target listens");
    let request = format!(
        "PATCH {path} HTTP/1.1\r\nHost: a\r\nIf-Match: {tag}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).expect("the target reads");
    for _ in 0..random.random_range(0..40_000) {
        std::hint::spin_loop();
    }
    target.kill();
    let text = place.text();
    let mib = mib_of(&text);
    assert!(mib == u64::from(under_way) || text == acknowledged, "seed {seed}: {text}\n{acknowledged}");
    let target = Process::start(&mut place.command());
    assert_eq!(size(&target), mib << 20, "seed {seed}");
    assert_eq!(place.patch("/v1/limits", "{\"connections\":77}").status, 200, "seed {seed}");
}

/// The size of the namespace in a text.
fn mib_of(text: &str) -> u64 {
    let (_, rest) = text.rsplit_once("size = \"").expect("it has one");
    rest.split_once('M').and_then(|(mib, _)| mib.parse().ok()).expect("MiB")
}
