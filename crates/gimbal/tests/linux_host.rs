//! Real Linux hosts use the target: every walk on both kernels, and tests that need several processes.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod linux;

use linux::Kernel::{Linux6_1, Linux6_12, Newest};
use linux::{Guest, Kernel, Medium, NQN, Scratch, Target, Walk};

/// Runs a walk against its own target.
fn walk(kernel: Kernel, name: &str, medium: Medium, with: impl FnOnce(Walk) -> Walk) {
    let scratch = Scratch::new(&format!("{name}-{kernel:?}-{medium:?}"));
    let mut target = Target::start(&scratch, medium);
    with(Walk::new(kernel, name, target.address(), NQN)).run();
    target.stop();
}

#[test]
#[ignore = "minutes of emulation: Linux 6.12 does the same in every run"]
fn linux_6_1_has_every_command_answered() {
    walk(Linux6_1, "commands", Medium::File, |walk| walk);
}

#[test]
fn linux_6_12_has_every_command_answered() {
    walk(Linux6_12, "commands", Medium::File, |walk| walk);
}

#[test]
#[ignore = "minutes of emulation: Linux 6.12 does the same in every run"]
fn linux_6_1_discards_zeroes_compares_and_is_refused_past_the_end() {
    walk(Linux6_1, "block", Medium::File, |walk| walk);
}

#[test]
fn linux_6_12_discards_zeroes_compares_and_is_refused_past_the_end() {
    walk(Linux6_12, "block", Medium::Emulated, |walk| walk);
}

#[test]
fn linux_6_1_keeps_a_file_system_on_an_emulated_ssd() {
    walk(Linux6_1, "filesystem", Medium::Emulated, |walk| walk);
}

#[test]
fn linux_6_12_keeps_a_file_system_over_two_queues_with_digests_on() {
    walk(Linux6_12, "filesystem", Medium::File, |walk| {
        walk.processors(2).variable("CONNECT_ARGS", "--hdr-digest --data-digest")
    });
}

#[test]
fn linux_6_1_connects_in_every_way() {
    walk(Linux6_1, "connections", Medium::File, |walk| walk.processors(2));
}

#[test]
fn linux_6_12_connects_in_every_way() {
    walk(Linux6_12, "connections", Medium::File, |walk| walk.processors(2));
}

#[test]
fn linux_6_1_hosts_reserve_a_namespace() {
    walk(Linux6_1, "reservations", Medium::File, |walk| walk.kernel_argument("nvme_core.multipath=N"));
}

#[test]
fn linux_6_12_hosts_reserve_a_namespace() {
    walk(Linux6_12, "reservations", Medium::File, |walk| walk.kernel_argument("nvme_core.multipath=N"));
}

#[test]
#[ignore = "minutes of emulation: Linux 6.12 does the same in every run"]
fn linux_6_1_reserves_by_its_own_call_and_the_target_is_killed_meanwhile() {
    reserves_across_a_kill(Linux6_1);
}

#[test]
fn linux_6_12_reserves_by_its_own_call_and_the_target_is_killed_meanwhile() {
    reserves_across_a_kill(Linux6_12);
}

/// Linux's own call always asks for persistence through power loss.
fn reserves_across_a_kill(kernel: Kernel) {
    let scratch = Scratch::new(&format!("pr-{kernel:?}"));
    let mut target = Target::start(&scratch, Medium::File);
    let mut guest = Walk::new(kernel, "persistent-reservations", target.address(), NQN)
        .kernel_argument("nvme_core.multipath=N")
        .file(&linux::static_program("pr.c", &scratch), "/pr")
        .start();
    guest.wait_for("restart me");
    target.kill();
    guest.wait_for("--- the host noticed");
    target.restart();
    guest.finish();
    target.stop();
}

#[test]
#[ignore = "minutes of emulation: Linux 6.12 does the same in every run"]
fn linux_6_1_continues_after_the_target_was_stopped_and_started() {
    survives(Linux6_1, Target::stop);
}

#[test]
fn linux_6_12_continues_after_the_target_was_killed_and_started() {
    survives(Linux6_12, Target::kill);
}

#[test]
#[ignore = "minutes of emulation: Linux 6.12 does the same in every run"]
fn linux_6_1_sees_namespaces_added_changed_and_removed() {
    sees_namespaces_change(Linux6_1);
}

#[test]
fn linux_6_12_sees_namespaces_added_changed_and_removed() {
    sees_namespaces_change(Linux6_12);
}

/// The host does not poll: the target notifies it.
fn sees_namespaces_change(kernel: Kernel) {
    const THIRD: &str = "\n[[subsystem.namespace]]\nnsid = 3\ndevice = \"ssd\"\noffset = \"128M\"\n";
    let scratch = Scratch::new(&format!("reload-{kernel:?}"));
    let mut target = Target::start(&scratch, Medium::File);
    let mut guest = Walk::new(kernel, "reload", target.address(), NQN).start();
    let third = |text: String, fields: &str| {
        let others = text.split(THIRD).next().expect("the first part").to_owned();
        let third = if fields.is_empty() { String::new() } else { format!("{THIRD}{fields}\n") };
        // The file grows once, and keeps that size.
        format!("{}{third}", others.replace("size = \"128M\"", "size = \"192M\""))
    };
    for _ in 0..2 {
        for (wish, fields) in [
            ("add", "size = \"32M\""),
            ("grow", "size = \"64M\""),
            ("shrink", "size = \"16M\""),
            ("protect", "size = \"16M\"\nread_only = true"),
            ("release", "size = \"16M\""),
            ("remove", ""),
        ] {
            guest.wait_for(&format!("{wish} namespace 3"));
            target.reload(|text| third(text, fields));
        }
    }
    guest.finish();
    target.stop();
}

#[test]
fn linux_6_12_uses_two_paths_and_follows_the_state_of_their_group() {
    let scratch = Scratch::new("paths");
    let group = |state: &str| {
        format!("group = \"left\"\n\n[[group]]\nname = \"left\"\nid = 5\nstate = \"{state}\"\n")
    };
    // The last namespace is in the group.
    let mut target = Target::listening(&scratch, Medium::File, &group("optimized"), 2);
    let mut guest = Walk::new(Linux6_12, "paths", target.address(), NQN)
        .variable("OTHER_PORT", target.addresses()[1].port())
        .start();
    for state in ["inaccessible", "optimized", "non-optimized", "optimized"] {
        guest.wait_for(&format!("make it {state}"));
        target.reload(|text| {
            let (before, _) = text.split_once("group = ").expect("the group is the end of the file");
            format!("{before}{}", group(state))
        });
    }
    guest.finish();
    target.stop();
}

/// The recipe of docs/high-availability.md: a mirror of the host's over two targets, one of which is killed three times.
#[test]
#[ignore = "minutes of emulation; run by make test-long"]
fn linux_6_12_mirrors_two_targets() {
    const OTHER: &str = "nqn.2024-06.io.gimbal:other";
    let (scratch, other_scratch) = (Scratch::new("mirror"), Scratch::new("mirror-other"));
    let mut target = Target::start(&scratch, Medium::File);
    let mut other = Target::named(&other_scratch, Medium::File, OTHER, "", 1);
    let mut guest = Walk::new(Linux6_12, "mirror", target.address(), NQN)
        .variable("OTHER_PORT", other.address().port())
        .variable("OTHER_NQN", OTHER)
        .start();
    for _ in 0..3 {
        guest.wait_for("kill the other");
        other.kill();
        guest.wait_for("start the other");
        other.restart();
    }
    guest.finish();
    other.stop();
    target.stop();
}

/// A host under load outlives the target's `end` and start.
fn survives(kernel: Kernel, end: impl FnOnce(&mut Target)) {
    let scratch = Scratch::new(&format!("restart-{kernel:?}"));
    let mut target = Target::start(&scratch, Medium::File);
    let mut guest = Walk::new(kernel, "restart", target.address(), NQN).start();
    guest.wait_for("restart me");
    end(&mut target);
    guest.wait_for("--- the host noticed");
    target.restart();
    guest.finish();
    target.stop();
}

#[test]
fn flushed_data_is_there_after_the_target_was_killed() {
    const PIECES_MIN: usize = 40;
    let scratch = Scratch::new("durable");
    let mut target = Target::start(&scratch, Medium::File);
    let mut writer = Walk::new(Linux6_12, "durable-write", target.address(), NQN).start();
    for _ in 0..PIECES_MIN {
        writer.wait_for("flushed ");
    }
    target.kill();
    let printed = writer.cut_off();
    let flushed: Vec<&str> =
        printed.iter().map(String::as_str).filter(|line| line.starts_with("flushed ")).collect();
    assert!(flushed.len() >= PIECES_MIN);
    let list = scratch.file("flushed");
    std::fs::write(&list, flushed.join("\n") + "\n").expect("the scratch folder is writable");

    target.restart();
    Walk::new(Linux6_1, "durable-check", target.address(), NQN).file(&list, "/flushed").run();
    target.stop();
}

#[test]
fn two_hosts_write_side_by_side_in_one_namespace() {
    tenants([(1, 0), (1, 16)]);
}

#[test]
fn two_hosts_write_to_a_namespace_each() {
    tenants([(1, 0), (2, 0)]);
}

/// Two hosts at the same time. Each fills 12 MiB of a namespace from an offset in MiB, as `parts` says.
fn tenants(parts: [(u32, u32); 2]) {
    const GATHER_AT: u32 = 60;
    let scratch = Scratch::new(&format!("tenants-{}", parts[1].0));
    let mut target = Target::start(&scratch, Medium::Emulated);
    let guests: Vec<Guest> = (0..)
        .zip([Linux6_1, Linux6_12])
        .zip(parts)
        .map(|((tenant, kernel), (nsid, offset))| {
            Walk::new(kernel, "tenant", target.address(), NQN)
                .variable("HOST_NQN", format!("nqn.2024-06.io.gimbal:tenant-{tenant}"))
                .variable("HOST_ID", format!("6f2a1d52-3c7b-4f0e-9a51-0b6d1c9e01{tenant:02}"))
                .variable("TENANT", tenant)
                .variable("TENANTS", parts.len())
                .variable("NSID", nsid)
                .variable("OFFSET", offset)
                .variable("GATHER_AT", GATHER_AT)
                .start()
        })
        .collect();
    guests.into_iter().for_each(Guest::finish);
    target.stop();
}

/// The keys of the walk "identity": of the host, the next one of the host, and of controllers.
struct Keys([String; 3]);

impl Keys {
    fn make(scratch: &Scratch) -> Keys {
        Keys(["key", "next", "ctrl"].map(|name| {
            let file = scratch.file(name);
            let made = linux::process::gimbal().args(["key", "gen"]).arg(&file).status();
            assert!(made.expect("the binary under test").success());
            std::fs::read_to_string(file).expect("just made").trim_end().to_owned()
        }))
    }

    /// The tables of the configuration, with these keys of the host.
    fn tables(scratch: &Scratch, of_host: &str) -> String {
        let (ctrl, file) = (scratch.file("ctrl"), |name| scratch.file(name));
        let own = match of_host {
            "both" => format!("dhchap_key = {:?}\ndhchap_key_next = {:?}", file("key"), file("next")),
            name => format!("dhchap_key = {:?}", file(name)),
        };
        format!(
            "# keys\n[security]\nauthentication = \"required\"\n\n[[host]]\nnqn = \"{GUEST_HOST}\"\n{own}\ndhchap_ctrl_key = {ctrl:?}\n"
        )
    }
}

#[test]
fn linux_6_12_encrypts_every_queue() {
    encrypts_every_queue(Linux6_12, "sha256", ", derived as libnvme before 1.16 does");
}

/// GnuTLS before 3.8.11 cannot make the binder of such a key.
#[test]
#[ignore = "it builds a guest of Debian testing; run by make test-long"]
fn the_newest_linux_encrypts_every_queue_with_sha_384() {
    encrypts_every_queue(Newest, "sha384", "");
    encrypts_every_queue(Newest, "sha256", "");
}

/// Linux has this since 6.16 or so. The hash of the exchange is the one of the key for TLS, and so says the cipher suite.
#[test]
#[ignore = "it builds a guest of Debian testing; run by make test-long"]
fn the_newest_linux_makes_its_key_for_tls() {
    for hash in ["sha384", "sha256"] {
        let scratch = Scratch::new("concatenated");
        let Keys([key, wrong, ctrl]) = Keys::make(&scratch);
        let tables = format!(
            "[security]\ntls = \"required\"\nconcat = true\ndhchap_hash = [\"sha512\", {hash:?}]\n\n\
             [[host]]\nnqn = \"{GUEST_HOST}\"\ndhchap_key = {:?}\ndhchap_ctrl_key = {:?}\n",
            scratch.file("key"),
            scratch.file("ctrl")
        );
        let mut target = Target::with(&scratch, Medium::File, &tables);
        let guest = Walk::new(Newest, "concatenated", target.address(), NQN)
            .processors(4)
            .variable("QUEUES_LEAST", 4)
            .variable("KEY", &key)
            .variable("WRONG_KEY", &wrong)
            .variable("CTRL_KEY", &ctrl)
            .start();
        guest.finish();
        target.stop();
        let log = target.log();
        for line in [
            "the host has made a key for TLS",
            "it connects without TLS, which its subsystem asks for, and wants no key for it",
            "its key is not the one of its [[host]] table",
            "the host has proved anew who it is",
        ] {
            assert!(log.contains(line), "{line}\n{log}");
        }
        assert!(!log.contains("reason=tls_"), "a key that was made is refused\n{log}");
        for key in [key, wrong, ctrl] {
            let secret = key.rsplit(':').nth(1).expect("its base64");
            assert!(!log.contains(secret), "a key is in the log");
        }
    }
}

/// The walk "secured", with keys of this hash, of which the host derives others by the rule that the log names.
fn encrypts_every_queue(kernel: linux::Kernel, hash: &str, derived: &str) {
    let scratch = Scratch::new("secured");
    let make = |name: &str| {
        let file = scratch.file(name);
        let made = linux::process::gimbal()
            .args(["key", "gen", "--kind", "tls", "--hash", hash])
            .arg(&file)
            .status();
        assert!(made.expect("the binary under test").success());
        std::fs::read_to_string(file).expect("just made").trim_end().to_owned()
    };
    let [key, next, wrong] = ["key", "next", "wrong"].map(make);
    let tables = format!(
        "[security]\ntls = \"required\"\n\n[[host]]\nnqn = \"{GUEST_HOST}\"\ntls_key = [{:?}, {:?}]\n",
        scratch.file("key"),
        scratch.file("next")
    );
    let mut target = Target::with(&scratch, Medium::File, &tables);
    let guest = Walk::new(kernel, "secured", target.address(), NQN)
        .processors(4)
        .variable("QUEUES_LEAST", 4)
        .variable("KEY", &key)
        .variable("NEXT_KEY", &next)
        .variable("WRONG_KEY", &wrong)
        .start();
    guest.finish();
    target.stop();
    let log = target.log();
    let second = format!("the host proves itself with key 2 of tls_key{derived} ");
    for line in ["reason=tls_wrong_key", "it connects without TLS", &second] {
        assert!(log.contains(line), "{line}\n{log}");
    }
    for key in [key, next, wrong] {
        let secret = key.rsplit(':').nth(1).expect("its base64");
        assert!(!log.contains(secret), "a key is in the log");
    }
}

/// The NQN of the guest's host.
const GUEST_HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:6f2a1d52-3c7b-4f0e-9a51-0b6d1c9e0001";

#[test]
fn linux_6_12_proves_who_it_is_and_its_key_is_rotated_under_load() {
    let scratch = Scratch::new("identity");
    let keys = Keys::make(&scratch);
    let tables = |of_host| Keys::tables(&scratch, of_host);
    let before_keys = |text: &str| text.split("# keys").next().expect("a text has a beginning").to_owned();
    let mut target = Target::with(&scratch, Medium::File, &tables("key"));
    let Keys([key, next, ctrl]) = &keys;
    let mut guest = Walk::new(Linux6_12, "identity", target.address(), NQN)
        .processors(4)
        .variable("QUEUES_LEAST", 4)
        .variable("KEY", key)
        .variable("NEXT_KEY", next)
        .variable("CTRL_KEY", ctrl)
        .start();
    let small =
        |text: String| text.replace("offset = \"64M\"\nsize = \"64M\"", "offset = \"64M\"\nsize = \"32M\"");
    let large =
        |text: String| text.replace("offset = \"64M\"\nsize = \"32M\"", "offset = \"64M\"\nsize = \"64M\"");
    guest.wait_for("add the next key");
    target.reload(|text| small(before_keys(&text)) + &tables("both"));
    guest.wait_for("remove the old key");
    target.reload(|text| large(before_keys(&text)) + &tables("next"));
    guest.finish();
    target.stop();
    let log = target.log();
    for line in [
        "its key is not the one of its [[host]] table",
        "it did not finish the proof",
        "the host has proved anew who it is",
    ] {
        assert!(log.contains(line), "{line}\n{log}");
    }
    for key in &keys.0 {
        let secret = key.rsplit(':').nth(1).expect("its base64");
        assert!(!log.contains(secret), "a key is in the log");
    }
}
