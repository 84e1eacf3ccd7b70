//! Two targets before one back-end: one at a time writes, whatever happened to the other.

mod common;

use common::back_ends::{BLOCKS, GROUP, again, behind, middle, of_file};
use common::*;
use nvme::spec::Status;
use nvme::spec::opcode::nvm;
use nvme::tcp::Transfer;
use server::config::{AccessState, BackEndConfig, Config, DeviceConfig, DeviceKind, NamespaceConfig};
use server::{Server, ServerHandle, TakeoverError};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use units::Nanos;

/// The names of the two targets as hosts.
const LEFT: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-0000000000aa";
const RIGHT: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-0000000000bb";

/// One of the two targets.
fn of_host(host: &str, address: SocketAddr) -> Config {
    middle(BackEndConfig { host: host.to_owned(), fenced: true, ..behind(address) })
}

fn client(server: &ServerHandle) -> Client {
    Client::connect(server.addresses()[0])
}

/// Waits until hosts are told that they cannot use the namespace here.
fn await_inaccessible(client: &mut Client) {
    until(|| client.read(1, 0, 1) == Err(Status::ANA_INACCESSIBLE));
}

/// A relay whose way to the back-end can be held back, as for a target that is stopped with bytes on their way.
struct Relay {
    address: SocketAddr,
    state: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Default)]
struct State {
    is_held: bool,
    /// Bytes that wait.
    waiting: usize,
    sockets: Vec<TcpStream>,
}

impl Relay {
    fn start(to: SocketAddr) -> Relay {
        let listener = TcpListener::bind(any_port()).expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let state = Arc::new((Mutex::new(State::default()), Condvar::new()));
        let relay = Relay { address, state: Arc::clone(&state) };
        // It ends with the test.
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let Ok(far) = TcpStream::connect(to) else { continue };
                let both = [near.try_clone().expect("a socket"), far.try_clone().expect("a socket")];
                state.0.lock().expect("no panic").sockets.extend(both);
                let (back_near, back_far) =
                    (near.try_clone().expect("a socket"), far.try_clone().expect("a socket"));
                let state = Arc::clone(&state);
                thread::spawn(move || pass(near, far, Some(&state)));
                thread::spawn(move || pass(back_far, back_near, None));
            }
        });
        relay
    }

    fn hold(&self, is_held: bool) {
        self.state.0.lock().expect("no panic").is_held = is_held;
        self.state.1.notify_all();
    }

    /// Holds everything back, and sends write 2 of block 5: when this returns, it waits here.
    fn hold_back_a_write(&self, client: &mut Client) {
        self.hold(true);
        client.io.submit(rw(nvm::WRITE, 1, 5, 1), Transfer::ToController(pattern(2, BLOCK), BLOCK as u32));
        until(|| self.state.0.lock().expect("no panic").waiting > BLOCK);
    }

    /// Ends all connections.
    fn cut(&self) {
        for socket in self.state.0.lock().expect("no panic").sockets.drain(..) {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, gate: Option<&(Mutex<State>, Condvar)>) {
    let mut bytes = vec![0; 65536];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if let Some((state, changed)) = gate {
            let mut state = state.lock().expect("no panic");
            state.waiting += count;
            while state.is_held {
                state = changed.wait(state).expect("no panic");
            }
            state.waiting -= count;
        }
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

/// A write of the left target that arrives at the back-end after the right one has taken over and written. Returns its status, and the block.
fn late_write(name: &str, is_fenced: bool) -> (Status, Vec<u8>) {
    let folder = Folder::new(name);
    let back_end = start(of_file(&folder, any_port()));
    let relay = Relay::start(back_end.addresses()[0]);
    let target = |host: &str, address| {
        middle(BackEndConfig { host: host.to_owned(), fenced: is_fenced, ..behind(address) })
    };
    let mut left = start(target(LEFT, relay.address));
    let mut right = start(target(RIGHT, back_end.addresses()[0]));
    if is_fenced {
        left.take_over(GROUP, 1).expect("it is free");
    }
    let mut at_left = client(&left);
    assert_eq!(at_left.write(1, 5, &pattern(1, BLOCK)), Status::SUCCESS);
    relay.hold_back_a_write(&mut at_left);
    if is_fenced {
        right.take_over(GROUP, 2).expect("it is newer");
    }
    let mut at_right = client(&right);
    assert_eq!(at_right.write(1, 5, &pattern(3, BLOCK)), Status::SUCCESS);
    relay.hold(false);
    let (late, _) = at_left.io.next().expect("it is answered");
    let block = at_right.read(1, 5, 1).expect("readable");
    if is_fenced {
        await_inaccessible(&mut at_left);
        assert_eq!(left.remote().takeover(GROUP), Ok(None));
        assert_eq!(right.remote().takeover(GROUP), Ok(Some(2)));
    }
    (late.status(), block)
}

#[test]
fn a_late_write_of_the_former_holder_is_refused_and_without_the_fence_it_lands() {
    let (status, block) = late_write("takeover-late", true);
    assert_eq!(status, Status::INTERNAL_PATH_ERROR, "no error of the data: another path has the namespace");
    assert!(block == pattern(3, BLOCK), "the late write landed");
    let (status, block) = late_write("takeover-late-unfenced", false);
    assert_eq!(status, Status::SUCCESS);
    assert!(block == pattern(2, BLOCK), "this test cannot show a late write");
}

/// The former holder comes back on another connection, when nobody holds the namespace any more.
#[test]
fn a_former_holder_that_connects_again_writes_nothing() {
    let folder = Folder::new("takeover-again");
    let back_end = start(of_file(&folder, any_port()));
    let relay = Relay::start(back_end.addresses()[0]);
    let mut left = start(of_host(LEFT, relay.address));
    let mut right = start(of_host(RIGHT, back_end.addresses()[0]));
    left.take_over(GROUP, 1).expect("it is free");
    let mut at_left = client(&left);
    assert_eq!(at_left.write(1, 5, &pattern(1, BLOCK)), Status::SUCCESS);
    relay.hold_back_a_write(&mut at_left);
    right.take_over(GROUP, 2).expect("it is newer");
    let mut at_right = client(&right);
    assert_eq!(at_right.write(1, 5, &pattern(3, BLOCK)), Status::SUCCESS);
    right.release(GROUP).expect("it is held");
    assert_eq!(at_right.write(1, 5, &pattern(4, BLOCK)), Status::ANA_INACCESSIBLE);
    relay.cut();
    relay.hold(false);
    let (late, _) = at_left.io.next().expect("it is answered");
    assert_eq!(late.status(), Status::INTERNAL_PATH_ERROR);
    await_inaccessible(&mut at_left);
    right.take_over(GROUP, 3).expect("it is newer");
    assert!(at_right.read(1, 5, 1).expect("readable") == pattern(3, BLOCK), "the late write landed");
    // And back.
    left.take_over(GROUP, 4).expect("it is newer");
    assert_eq!(at_left.write(1, 5, &pattern(5, BLOCK)), Status::SUCCESS);
    await_inaccessible(&mut at_right);
}

#[test]
fn an_older_generation_is_refused_and_the_same_one_repeated() {
    let folder = Folder::new("takeover-order");
    let mut config = of_file(&folder, any_port());
    let mut back_end = start(config.clone());
    let address = back_end.addresses()[0];
    config.listen = vec![address.into()];
    let (mut left, mut right) = (start(of_host(LEFT, address)), start(of_host(RIGHT, address)));
    let refused = |asked, registered, is_own| {
        let device = "ssd".to_owned();
        Err(TakeoverError::NotNewer { device, asked, registered, is_own })
    };
    let mut at_left = client(&left);
    assert_eq!(at_left.read(1, 0, 1), Err(Status::ANA_INACCESSIBLE), "nobody has taken it over");
    assert_eq!(left.take_over(GROUP, 5), Ok(()));
    assert_eq!(left.take_over(GROUP, 5), Ok(()), "a repeat");
    assert_eq!(left.take_over(GROUP, 4), refused(4, 5, true));
    for asked in [4, 5] {
        assert_eq!(right.take_over(GROUP, asked), refused(asked, 5, false));
        assert_eq!(right.check_takeover(GROUP, asked), refused(asked, 5, false));
    }
    assert_eq!(at_left.write(1, 0, &pattern(1, BLOCK)), Status::SUCCESS, "refusals change nothing");
    assert_eq!(left.take_over(GROUP, 6), Ok(()), "a newer one of the holder");
    assert_eq!(at_left.write(1, 0, &pattern(2, BLOCK)), Status::SUCCESS);
    // The back-end keeps what is registered, also when its process is cut off.
    drop(back_end);
    back_end = again(&config);
    assert_eq!(right.take_over(GROUP, 6), refused(6, 6, false));
    assert_eq!(at_left.write(1, 0, &pattern(3, BLOCK)), Status::SUCCESS, "it is still held");
    // A target that was started again has to be told.
    drop(left);
    left = start(of_host(LEFT, address));
    at_left = client(&left);
    assert_eq!(at_left.read(1, 0, 1), Err(Status::ANA_INACCESSIBLE));
    assert_eq!(left.take_over(GROUP, 6), Ok(()));
    assert!(at_left.read(1, 0, 1).expect("readable") == pattern(3, BLOCK));
    // Release is harmless twice; the back-end stays reserved.
    assert_eq!((left.release(GROUP), left.release(GROUP)), (Ok(()), Ok(())));
    assert_eq!(right.take_over(GROUP, 6), refused(6, 6, false));
    let mut stranger = Client::connect(back_end.addresses()[0]);
    assert_eq!(stranger.write(1, 0, &pattern(4, BLOCK)), Status::RESERVATION_CONFLICT);
    assert_eq!(right.take_over(GROUP, 7), Ok(()));
}

#[test]
fn a_group_whose_back_end_is_away_for_too_long_is_inaccessible_until_it_is_back() {
    let folder = Folder::new("takeover-away");
    let mut config = of_file(&folder, any_port());
    let back_end = start(config.clone());
    let address = back_end.addresses()[0];
    config.listen = vec![address.into()];
    let with_timeout = BackEndConfig { timeout: Nanos::secs(1), fenced: true, ..behind(address) };
    let mut target = start(middle(with_timeout));
    target.take_over(GROUP, 1).expect("it is free");
    let mut host = client(&target);
    assert_eq!(host.write(1, 5, &pattern(1, BLOCK)), Status::SUCCESS);
    drop(back_end);
    await_inaccessible(&mut host);
    assert_eq!(target.remote().takeover(GROUP), Ok(None));
    let back_end = again(&config);
    until(|| target.remote().takeover(GROUP) == Ok(Some(1)));
    // A back-end that is drained keeps what it knows: the look of each second is refused, and that is no loss.
    back_end.remote().drain(true);
    assert_eq!(host.write(1, 5, &pattern(7, BLOCK)), Status::INTERNAL_PATH_ERROR);
    let (began, look) = (std::time::Instant::now(), std::time::Duration::from_millis(1500));
    until(|| began.elapsed() > look);
    back_end.remote().drain(false);
    assert_eq!(target.remote().takeover(GROUP), Ok(Some(1)));
    until(|| host.read(1, 5, 1).is_ok());
    assert!(host.read(1, 5, 1).expect("readable") == pattern(1, BLOCK));
    // Not so if another target has taken over meanwhile.
    drop(back_end);
    await_inaccessible(&mut host);
    let _back_end = again(&config);
    let mut other = start(of_host(RIGHT, address));
    // Either before this target has looked, or after.
    other.take_over(GROUP, 2).expect("it is newer");
    let mut at_other = client(&other);
    assert_eq!(at_other.write(1, 5, &pattern(2, BLOCK)), Status::SUCCESS);
    await_inaccessible(&mut host);
    until(|| target.remote().takeover(GROUP) == Ok(None));
    assert_eq!(host.write(1, 5, &pattern(3, BLOCK)), Status::ANA_INACCESSIBLE);
}

#[test]
fn what_cannot_be_fenced_is_refused_and_nothing_changes() {
    let folder = Folder::new("takeover-refusals");
    let volatile = start(Config { state_dir: None, ..of_file(&folder, any_port()) });
    let mut target = start(of_host(LEFT, volatile.addresses()[0]));
    let why = |result: Result<(), TakeoverError>| result.expect_err("refused").to_string();
    assert!(why(target.take_over(GROUP, 1)).contains("do not outlast a power loss"));
    assert!(why(target.take_over(GROUP, 0)).contains("not a number from 1"));
    assert!(why(target.take_over(GROUP, u64::MAX)).contains("not a number from 1"));
    assert_eq!(target.take_over("other", 1), Err(TakeoverError::NoGroup("other".to_owned())));
    assert_eq!(target.release("other"), Err(TakeoverError::NoGroup("other".to_owned())));
    let mut at_target = client(&target);
    assert_eq!(at_target.read(1, 0, 1), Err(Status::ANA_INACCESSIBLE));
    assert_eq!(at_target.identify(0x00, 1)[31], 0, "RESCAP: hosts cannot reserve what may move");
    drop((volatile, target));

    // Its back-end is away.
    let back_end = start(of_file(&folder, any_port()));
    let address = back_end.addresses()[0];
    let back_end_config = BackEndConfig { timeout: Nanos::secs(1), fenced: true, ..behind(address) };
    let mut target = start(middle(back_end_config.clone()));
    drop(back_end);
    let away = why(target.take_over(GROUP, 1));
    assert!(away.contains("within 1.00 s"), "{away}");

    // A group that is not on fenced devices.
    let mut plain = Config { state_dir: None, ..of_file(&folder, any_port()) };
    plain.groups = middle(back_end_config).groups;
    plain.subsystems[0].namespaces[0].group = Some(GROUP.to_owned());
    let mut plain = start(plain);
    assert_eq!(plain.take_over(GROUP, 1), Err(TakeoverError::NotFenced(GROUP.to_owned())));
}

/// Writes go where the group is, and every one that was answered is there in the end.
#[test]
fn a_writer_follows_the_group_from_target_to_target() {
    let folder = Folder::new("takeover-writer");
    let back_end = start(of_file(&folder, any_port()));
    let address = back_end.addresses()[0];
    let mut targets = [start(of_host(LEFT, address)), start(of_host(RIGHT, address))];
    targets[0].take_over(GROUP, 1).expect("it is free");
    let fronts: Vec<SocketAddr> = targets.iter().map(|target| target.addresses()[0]).collect();
    let written = Arc::new(Mutex::new((0u64, false)));
    let writer = thread::spawn({
        let written = Arc::clone(&written);
        move || {
            let mut paths: Vec<Client> = fronts.iter().map(|front| Client::connect(*front)).collect();
            let mut path = 0;
            for number in 0.. {
                loop {
                    match paths[path].write(1, number % BLOCKS, &pattern(number, BLOCK)) {
                        Status::SUCCESS => break,
                        Status::ANA_INACCESSIBLE | Status::INTERNAL_PATH_ERROR => path = 1 - path,
                        other => panic!("write {number}: {other:?}"),
                    }
                }
                let mut written = written.lock().expect("no panic");
                written.0 = number + 1;
                if written.1 {
                    return number + 1;
                }
            }
            unreachable!("it goes on until it is told to end")
        }
    });
    for round in 0..20 {
        let before = written.lock().expect("no panic").0;
        until(|| writer.is_finished() || written.lock().expect("no panic").0 > before + 20);
        let (from, to) = (round % 2, (round + 1) % 2);
        if round % 4 < 2 {
            targets[from].release(GROUP).expect("it is held");
        }
        targets[to].take_over(GROUP, 2 + round as u64).expect("it is newer");
    }
    written.lock().expect("no panic").1 = true;
    let count = writer.join().expect("no write fails");
    let mut client = client(&targets[0]);
    for number in count.saturating_sub(BLOCKS)..count {
        assert!(
            client.read(1, number % BLOCKS, 1).expect("readable") == pattern(number, BLOCK),
            "write {number}"
        );
    }
}

/// While a group is held, the configuration changes.
#[test]
fn a_reload_keeps_a_group_that_has_the_same_devices() {
    let folder = Folder::new("takeover-reload");
    let back_end = start(of_file(&folder, any_port()));
    let mut config = of_host(LEFT, back_end.addresses()[0]);
    config.subsystems[0].namespaces[0].size = Some(units::Bytes::mib(4));
    let mut target = start(config.clone());
    target.take_over(GROUP, 1).expect("it is free");
    let mut host = client(&target);
    assert_eq!(host.write(1, 0, &pattern(1, BLOCK)), Status::SUCCESS);
    // Another namespace in the group, and another subsystem.
    let mut more = config.clone();
    let new = |nsid: u32, mib| NamespaceConfig {
        offset: units::Bytes::mib(mib),
        size: Some(units::Bytes::mib(4)),
        group: Some(GROUP.to_owned()),
        ..NamespaceConfig::whole(nsid, "ssd")
    };
    more.subsystems[0].namespaces.push(new(2, 4));
    more.subsystems.push(subsystem(FAR, vec![new(1, 8)]));
    target.reload(more.clone(), std::time::Duration::from_secs(60)).expect("possible");
    assert_eq!(host.write(1, 0, &pattern(2, BLOCK)), Status::SUCCESS);
    assert_eq!(host.write(2, 0, &pattern(3, BLOCK)), Status::SUCCESS);
    let far = Options { subsystem: FAR.to_owned(), ..Options::default() };
    let mut at_far = Client::with(target.addresses()[0], &far);
    assert_eq!(at_far.write(1, 0, &pattern(3, BLOCK)), Status::SUCCESS);
    let state = |target: &ServerHandle| target.stats().groups[0].1;
    assert_eq!(state(&target), AccessState::Optimized);
    // A device more: it was not taken over, so the group is not held.
    let folder = Folder::new("takeover-reload-more");
    let mut other = of_file(&folder, any_port());
    other.subsystems[0].nqn = FAR.to_owned();
    let second = start(other);
    let back_end = BackEndConfig { fenced: true, subsystem: FAR.to_owned(), ..behind(second.addresses()[0]) };
    let kind = DeviceKind::NvmeTcp(back_end);
    let mut wider = more;
    wider.devices.push(DeviceConfig::new("second", kind));
    let third = NamespaceConfig { group: Some(GROUP.to_owned()), ..NamespaceConfig::whole(3, "second") };
    wider.subsystems[0].namespaces.push(third);
    target.reload(wider, std::time::Duration::from_secs(60)).expect("possible");
    await_inaccessible(&mut host);
    assert_eq!(state(&target), AccessState::Inaccessible);
    target.take_over(GROUP, 2).expect("all its devices");
    assert_eq!(host.write(1, 0, &pattern(4, BLOCK)), Status::SUCCESS);
    assert_eq!(host.write(3, 0, &pattern(5, BLOCK)), Status::SUCCESS);
    target.reload(config, std::time::Duration::from_secs(60)).expect("possible");
    assert_eq!(host.write(1, 0, &pattern(6, BLOCK)), Status::SUCCESS, "fewer devices are held, too");
}

#[test]
fn a_configuration_with_a_fence_that_does_not_hold_is_refused() {
    let folder = Folder::new("takeover-config");
    let back_end = start(of_file(&folder, any_port()));
    let right = of_host(LEFT, back_end.addresses()[0]);
    let refused = |change: &dyn Fn(&mut Config)| {
        let mut config = right.clone();
        change(&mut config);
        Server::start(config).err().expect("refused").to_string()
    };
    let accessible = refused(&|config| config.groups[0].state = AccessState::Optimized);
    assert!(
        accessible.contains("group[0].state") && accessible.contains("gimbal ctl takeover"),
        "{accessible}"
    );
    let alone = refused(&|config| config.subsystems[0].namespaces[0].group = None);
    assert!(alone.contains("namespace[0].group"), "{alone}");
    let wiped = refused(&|config| config.subsystems[0].namespaces[0].wipe_on_remove = true);
    assert!(wiped.contains("wipe_on_remove"), "{wiped}");
    let mixed = refused(&|config| {
        config.devices.push(DeviceConfig::new("plain", fast_ssd()));
        let plain = NamespaceConfig { group: Some(GROUP.to_owned()), ..NamespaceConfig::whole(2, "plain") };
        config.subsystems[0].namespaces.push(plain);
    });
    assert!(mixed.contains("is not fenced"), "{mixed}");
    let split = refused(&|config| {
        config
            .groups
            .push(server::config::GroupConfig { name: "other".to_owned(), ..config.groups[0].clone() });
        config.subsystems[0].namespaces[0].size = Some(units::Bytes::mib(1));
        let other = NamespaceConfig {
            group: Some("other".to_owned()),
            offset: units::Bytes::mib(1),
            ..NamespaceConfig::whole(2, "ssd")
        };
        config.subsystems[0].namespaces.push(other);
    });
    assert!(split.contains("already"), "{split}");
}
