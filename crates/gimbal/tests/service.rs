//! `gimbal serve` under a service manager: what it reports by systemd's protocol.

mod process;

use process::{Process, serve};
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;

/// The longest time without a sign of life, in microseconds.
const PERIOD: &str = "100000";

/// The service manager's end of the reports.
struct Manager {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Manager {
    fn new(name: &str) -> Manager {
        // Not in cargo's folder, whose name may be longer than that of a socket.
        let path = std::env::temp_dir().join(format!("gimbal-{name}-{}", std::process::id()));
        let _ = fs::remove_file(&path);
        Manager { socket: UnixDatagram::bind(&path).expect("a socket"), path }
    }

    /// A target that reports to it.
    fn start(&self, watchdog: &[(&str, &str)]) -> Process {
        let mut command = serve(&["--log", "warn", "--device", "null"]);
        command.env("NOTIFY_SOCKET", &self.path).envs(watchdog.iter().copied());
        Process::start(&mut command)
    }

    fn next(&self) -> String {
        let mut message = [0; 256];
        let length = self.socket.recv(&mut message).expect("the target reports");
        String::from_utf8(message[..length].to_vec()).expect("text")
    }

    /// The next report that is no sign of life.
    fn next_state(&self) -> String {
        std::iter::repeat_with(|| self.next()).find(|message| message != "WATCHDOG=1\n").expect("endless")
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// systemd's clock for reloads, in microseconds.
fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
}

#[test]
fn a_service_manager_hears_of_start_life_reload_and_stop() {
    let manager = Manager::new("notify");
    let mut target = manager.start(&[("WATCHDOG_USEC", PERIOD)]);
    assert_eq!(manager.next(), "READY=1\n", "before every other report");
    for _ in 0..3 {
        assert_eq!(manager.next(), "WATCHDOG=1\n");
    }
    let before = monotonic();
    target.signal("-HUP");
    let reloading = manager.next_state();
    let at = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").expect("a reload begins").trim();
    let at: u64 = at.parse().expect("microseconds");
    assert!(before <= at && at <= monotonic(), "{before} {at}");
    assert_eq!(manager.next_state(), "READY=1\n");
    assert_eq!(manager.next(), "WATCHDOG=1\n", "signs of life go on");
    target.signal("-TERM");
    assert_eq!(manager.next_state(), "STOPPING=1\n");
    assert!(target.wait().success());
    manager.socket.set_nonblocking(true).expect("a socket");
    assert!(manager.socket.recv(&mut [0; 256]).is_err(), "STOPPING is the last report");
}

#[test]
fn a_watchdog_of_another_process_or_none_hears_nothing() {
    for watchdog in [&[("WATCHDOG_USEC", PERIOD), ("WATCHDOG_PID", "1")][..], &[]] {
        let manager = Manager::new("other");
        let mut target = manager.start(watchdog);
        assert_eq!(manager.next(), "READY=1\n");
        target.signal("-TERM");
        assert_eq!(manager.next(), "STOPPING=1\n", "a sign of life is sent at once, if at all");
        assert!(target.wait().success());
    }
}
