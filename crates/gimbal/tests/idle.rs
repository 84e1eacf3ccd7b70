//! An idle switch costs nothing: while connected hosts send no commands, its threads sleep.
//!
//! The test measures CPU time, which hardly depends on how busy or fast the machine is.

mod process;

use host::{Backend, Client, ControllerOptions, HostId, Nqn, TransportType};
use process::{Process, serve};
use std::fs;
use std::thread;
use std::time::Duration;
use units::Bytes;

/// Controllers connected, each with an admin queue and an IO queue.
const HOSTS: u128 = 16;
/// Time for which the CPU time is measured.
const WATCHED: Duration = Duration::from_secs(5);
/// The limit, in thousandths of one CPU.
const LIMIT_PERMILLE: u64 = 10;
/// Resolution of `/proc/PID/stat`: USER_HZ is 100 on every Linux that we know.
const TICK: Duration = Duration::from_millis(10);

/// CPU time of a process so far.
fn processor_time(process: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("Linux, and the process is alive");
    // The name, in parentheses, may contain anything. utime and stime are fields 14 and 15, counted from 1.
    let after_name = &stat[stat.rfind(')').expect("the name ends") + 2..];
    let ticks: Vec<u32> =
        after_name.split(' ').skip(11).take(2).map(|field| field.parse().expect("a count")).collect();
    TICK * ticks.iter().sum()
}

#[test]
fn an_idle_switch_with_sixteen_hosts_uses_less_than_a_hundredth_of_a_processor() {
    for device in ["null", "emulated"] {
        let server = Process::start(&mut serve(&["--log", "warn", "--device", device]));
        let address = server.address();
        let client = Client::start(Backend::Auto, Bytes::mib(16)).expect("a client");
        let name = Nqn::new("nqn.2025-01.test:idle").expect("valid");
        let found = host::discover(
            Backend::Auto,
            (TransportType::Tcp, address),
            (&name, HostId([9; 16])),
            host::Keys::default(),
        )
        .expect("the switch answers");
        let subsystem = found[0].subsystem.clone();
        let controllers: Vec<_> = (0..HOSTS)
            .map(|n| {
                let host = Nqn::new(&format!("nqn.2025-01.test:idle-{n}")).expect("valid");
                let options =
                    ControllerOptions::new(address, subsystem.clone(), host, HostId(n.to_le_bytes()));
                client.connect(options).wait().expect("connects")
            })
            .collect();
        for controller in &controllers {
            controller.read_blocking(1, units::Lba(0), 1).expect("reads");
        }
        let before = processor_time(server.id());
        thread::sleep(WATCHED);
        let used = processor_time(server.id()) - before;
        let limit = WATCHED * LIMIT_PERMILLE as u32 / 1000;
        assert!(used < limit, "{device}: {used:?} of CPU time in {WATCHED:?}, the limit is {limit:?}");
        println!("{device}: {used:?} of CPU time in {WATCHED:?} with {HOSTS} hosts");
    }
}
