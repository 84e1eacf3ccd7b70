//! A target without free file descriptors: it logs this, keeps its connections, and accepts new ones as soon as it can.

mod process;

use process::Process;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

/// Limit of open files of the target: more than it needs for itself, fewer than the connections of this test.
const DESCRIPTORS: usize = 64;
/// ICReq: type, flags, HLEN, PDO, PLEN; the rest is zero.
const IC_REQ_HEAD: [u8; 8] = [0x00, 0, 128, 0, 128, 0, 0, 0];
const IC_SIZE: usize = 128;

/// A connection on which ICReq was sent. The kernel establishes it even while the target cannot accept.
fn greeting(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("the target listens");
    let mut request = [0; IC_SIZE];
    request[..8].copy_from_slice(&IC_REQ_HEAD);
    stream.write_all(&request).expect("the system takes it");
    stream
}

fn is_answered(mut stream: &TcpStream) -> bool {
    stream.read_exact(&mut [0; IC_SIZE]).is_ok()
}

/// Number of times the thread that accepts connections has woken up.
fn turns_of_the_acceptor(process: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).expect("Linux, and it is alive");
    let status = tasks
        .map(|task| {
            std::fs::read_to_string(task.expect("readable").path().join("status")).unwrap_or_default()
        })
        .find(|status| status.starts_with("Name:\tacceptor\n"))
        .expect("the acceptor is a thread");
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.expect("every thread has it").trim().parse().expect("a number")
}

#[test]
fn a_target_without_descriptors_says_so_once_and_accepts_again_when_some_are_free() {
    for backend in ["auto", "epoll"] {
        let script = format!(
            "ulimit -n {DESCRIPTORS}; exec \"$0\" serve --device null --listen 127.0.0.1:0 --backend {backend} --log info"
        );
        let mut shell = Command::new("sh");
        let (mut target, mut log) =
            Process::start_with_log(shell.args(["-c", &script, env!("CARGO_BIN_EXE_gimbal")]));
        let mut crowd: Vec<TcpStream> = (0..DESCRIPTORS).map(|_| greeting(target.address())).collect();
        assert!(is_answered(&crowd[0]));
        log.await_line("no connection can be accepted for now");
        // No host connects or disconnects, so only its own retries wake the thread.
        let before = turns_of_the_acceptor(target.id());
        while turns_of_the_acceptor(target.id()) < before + 3 {
            std::thread::yield_now();
        }
        drop(crowd.remove(0));
        log.await_line("connection ended: closed by the host");
        let told = log.saying("no connection can be accepted for now");
        assert!(told.len() == 1 && told[0].contains("Too many open files"), "{backend}: {told:?}");

        let last = crowd.pop().expect("it was among the last");
        drop(crowd);
        assert!(is_answered(&last), "{backend}: a waiting connection is accepted");
        assert!(is_answered(&greeting(target.address())), "{backend}: and so is a new one");
        target.signal("-TERM");
        assert!(target.wait().success(), "{backend}");
        log.await_end();
        assert!(!log.saying("connections are accepted again").is_empty());
    }
}
