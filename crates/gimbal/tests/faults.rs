//! Injected faults from the operator's point of view: warnings about the configuration, log lines, and the exit status.
//! The view of hosts is tested in `crates/server/tests/bad_devices`.

mod process;

use host::{
    Backend, Client, ClientError, Controller, ControllerOptions, HostId, IoError, Nqn, Operation, Outcome,
    Pending, Request, RetryPolicy,
};
use process::{Log, Process, gimbal, serve};
use std::net::SocketAddr;
use std::path::PathBuf;
use units::{Bytes, Lba};

const NQN: &str = "nqn.2025-01.io.example:bad";
const HOST: &str = "nqn.2025-01.io.example:host";
const BLOCK: usize = 4096;
/// The block that every fault of these tests affects.
const STRUCK: u64 = 3;

/// Writes a configuration whose only device has these `faults`; each is some lines of TOML.
fn config(name: &str, faults: &[&str]) -> PathBuf {
    let faults: String = faults
        .iter()
        .map(|fault| {
            format!("[[device.fault]]\noffset = {}\nsize = {BLOCK}\n{fault}\n", STRUCK * BLOCK as u64)
        })
        .collect();
    let text = format!(
        "[limits]\nhang_after = \"10ms\"\ndrain_timeout = \"50ms\"\n\
         [[device]]\nname = \"bad\"\nkind = \"null\"\nsize = \"1G\"\n{faults}\
         [[subsystem]]\nnqn = {NQN:?}\nallow_any_host = true\n\
         [[subsystem.namespace]]\nnsid = 1\ndevice = \"bad\"\n"
    );
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("faults-{name}.toml"));
    std::fs::write(&file, text).expect("cargo's folder for tests is writable");
    file
}

fn serving(name: &str, faults: &[&str]) -> (Process, Log) {
    Process::start_with_log(serve(&["--log", "info", "-c"]).arg(config(name, faults)))
}

/// A host of the target. It never retries.
fn connect(address: SocketAddr) -> Controller {
    let client = Client::start(Backend::Auto, Bytes::mib(16)).expect("a client");
    let [subsystem, host] = [NQN, HOST].map(|name| Nqn::new(name).expect("valid"));
    let options = ControllerOptions::new(address, subsystem, host, HostId([7; 16]));
    client.connect(ControllerOptions { retry: RetryPolicy::Never, ..options }).wait().expect("connects")
}

fn read(controller: &Controller, lba: u64) -> Pending<Outcome> {
    let buffer = controller.client().buffer(BLOCK).expect("the client has memory to spare");
    controller.submit(Request::new(0, 1, Operation::Read, Lba(lba), 1).with_buffer(buffer))
}

fn is_refused(outcome: &Outcome) -> bool {
    matches!(outcome.result, Err(ClientError::Failed(IoError::Status(_))))
}

const WARNING: &str = "device \"bad\" is made to fail on purpose (2 [[device.fault]]): for tests only";

#[test]
fn a_check_of_the_configuration_warns_of_faults_and_finds_nothing_wrong() {
    let file = config("checked", &["kind = \"error\"", "kind = \"gone\"\nskip = 9"]);
    let output = gimbal().args(["config", "check"]).arg(&file).output().expect("the binary was built");
    assert!(output.status.success());
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!(said, format!("{}: warning: {WARNING}\n", file.display()));
}

#[test]
fn the_start_warns_of_faults_and_repeated_errors_are_logged_less_often() {
    let (mut target, mut log) = serving("errors", &["kind = \"error\"", "kind = \"gone\"\nskip = 999"]);
    let controller = connect(target.address());
    for _ in 0..9 {
        assert!(is_refused(&read(&controller, STRUCK).wait()));
        assert!(read(&controller, STRUCK + 1).wait().result.is_ok());
    }
    target.signal("-TERM");
    assert!(target.wait().success(), "every command was answered");
    log.await_end();
    let warnings = log.saying("is made to fail on purpose");
    assert!(
        warnings.len() == 1 && warnings[0].contains("WARN") && warnings[0].contains(WARNING),
        "{warnings:?}"
    );
    let errors = log.saying("the device failed an IO");
    assert_eq!(errors.len(), 4, "{errors:#?}");
    for (line, count) in errors.iter().zip([1, 2, 4, 8]) {
        for what in ["home=bad", "op=Read", "lba=3", "nsid=1", &format!("count={count} ")] {
            assert!(line.contains(what), "{what:?} is not in {line:?}");
        }
    }
}

#[test]
fn a_hanging_device_is_logged_once_and_again_when_it_answers() {
    const RELEASE_AT: u64 = 20;
    let fault = format!("kind = \"hang\"\nrelease_at = {RELEASE_AT}");
    let (mut target, mut log) = serving("hangs", &[&fault]);
    let controller = connect(target.address());
    let stuck = read(&controller, STRUCK);
    log.await_line("the device hangs: IOs on it do not end");
    (0..RELEASE_AT).for_each(|_| assert!(read(&controller, 0).wait().result.is_ok()));
    assert!(stuck.wait().result.is_ok());
    log.await_line("the device answers again");
    target.signal("-TERM");
    assert!(target.wait().success(), "every command was answered");
    log.await_end();
    let told = log.saying("the device hangs");
    assert!(told.len() == 1 && told[0].contains("device=bad") && told[0].contains("ios=1"), "{told:?}");
    assert_eq!(log.saying("the device answers again").len(), 1);
}

#[test]
fn a_stop_does_not_wait_for_a_hanging_device_and_exits_with_status_1() {
    let (mut target, mut log) = serving("ended", &["kind = \"hang\""]);
    let controller = connect(target.address());
    let stuck = read(&controller, STRUCK);
    log.await_line("the device hangs: IOs on it do not end");
    target.signal("-TERM");
    assert_eq!(target.wait().code(), Some(1));
    log.await_end();
    let unanswered = log.saying("WARN unanswered ");
    assert_eq!(unanswered.len(), 1, "{unanswered:?}");
    for what in ["device=bad", HOST, "op=Read", "nsid=1", "lba=3"] {
        assert!(unanswered[0].contains(what), "{what:?} is not in {unanswered:?}");
    }
    assert_eq!(log.saying("the device still has IOs: it is not flushed").len(), 1);
    assert_eq!(log.saying("the target is stopped before everything was answered").len(), 1);
    assert!(stuck.wait().result.is_err());
}

/// A reload waits for a read that never ends; the second signal to stop does not wait with it.
#[test]
fn a_second_signal_stops_a_target_whose_reload_waits_for_a_device() {
    let (mut target, mut log) = serving("reload", &["kind = \"hang\""]);
    let controller = connect(target.address());
    let _never = read(&controller, STRUCK);
    log.await_line("hangs");
    let file = config("reload", &["kind = \"hang\""]);
    let text = std::fs::read_to_string(&file).expect("just written");
    std::fs::write(&file, text.replace("nsid = 1", "nsid = 2")).expect("as above");
    target.signal("-HUP");
    log.await_line("reloading the configuration");
    target.signal("-TERM");
    log.await_line("a signal to stop has come");
    target.signal("-TERM");
    assert!(!target.wait().success(), "a command was not answered");
    log.await_end();
    assert_eq!(log.saying("the target was stopped at once while it was changed").len(), 1);
    assert!(log.saying("the configuration was reloaded").is_empty());
}
