//! A namespace of another target as a device (`kind = "nvme-tcp"`): the same bytes as on the other target, also over restarts of it, and never
//! those of another namespace.

mod common;

use auth::{DhKey, Hash, Secret};
use common::back_ends::{BLOCKS, GROUP, MIDDLE, again, behind, middle, of_file};
use common::*;
use host::KeyFiles;
use nvme::spec::Status;
use nvme::spec::opcode::nvm;
use server::Server;
use server::config::{
    BackEndConfig, DEFAULT_NQN, FaultConfig, FaultKind, FaultOp, FaultRelease, HostConfig, offered,
};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use units::{Bytes, Nanos};

const AMPLE: Duration = Duration::from_secs(60);

/// Numbers from a seed.
fn dice(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |sides| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 33) % sides
    }
}

/// Random commands, compared with a plain list of what each block has; `None` after a deallocation.
fn compare_with_a_list(client: &mut Client, seed: u64, commands: u32, longest: u64) {
    let mut roll = dice(seed);
    let mut plain: HashMap<u64, Option<Vec<u8>>> = HashMap::new();
    for number in 0..commands {
        let (lba, blocks) = (roll(512), 1 + roll(longest));
        let range = lba..lba + blocks;
        match roll(8) {
            0..=2 => {
                let bytes = pattern(u64::from(number) << 8 | seed, blocks as usize * BLOCK);
                assert_eq!(client.write(1, lba, &bytes), Status::SUCCESS);
                plain.extend(range.zip(bytes.chunks(BLOCK).map(|block| Some(block.to_vec()))));
            }
            3 => {
                assert_eq!(client.simple(nvm::WRITE_ZEROES, 1, lba, blocks as usize), Status::SUCCESS);
                plain.extend(range.map(|lba| (lba, Some(vec![0; BLOCK]))));
            }
            4 => {
                assert_eq!(client.deallocate(1, &[(lba, blocks as u32)]), Status::SUCCESS);
                plain.extend(range.map(|lba| (lba, None)));
            }
            5 => assert_eq!(client.flush(1), Status::SUCCESS),
            _ => {
                let read = client.read(1, lba, blocks as usize).expect("readable");
                for (lba, block) in range.zip(read.chunks(BLOCK)) {
                    let zeros = Some(vec![0; BLOCK]);
                    let expected = plain.get(&lba).unwrap_or(&zeros);
                    assert!(
                        expected.as_ref().is_none_or(|expected| expected == block),
                        "seed {seed}, command {number}: block {lba} differs"
                    );
                }
            }
        }
    }
}

#[test]
fn random_commands_under_every_scheduler_find_what_a_plain_list_says() {
    let calibration = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../calibrations/dct983.toml");
    for (seed, policy) in offered().enumerate() {
        let folder = Folder::new("back-end-schedulers");
        let behind_it = start(of_file(&folder, any_port()));
        let is_fenced = seed % 2 == 0;
        let behind =
            BackEndConfig { digests: !is_fenced, fenced: is_fenced, ..behind(behind_it.addresses()[0]) };
        let mut config = middle(behind);
        config.devices[0].scheduler.policy = policy;
        config.devices[0].scheduler.calibration = policy.needs_calibration().then(|| calibration.clone());
        let mut server = start(config);
        if is_fenced {
            server.take_over(GROUP, 1).expect("nobody else wants it");
        }
        compare_with_a_list(&mut Client::connect(server.addresses()[0]), seed as u64, 200, 16);
        assert_eq!(server.shutdown(AMPLE), server::Shutdown::Complete, "{}", policy.name);
    }
}

#[test]
fn what_is_longer_than_the_other_target_takes_goes_in_pieces() {
    let folder = Folder::new("back-end-pieces");
    let mut small = of_file(&folder, any_port());
    small.limits.transfer_max = Bytes::kib(16);
    let behind_it = start(small);
    let server = start(middle(behind(behind_it.addresses()[0])));
    compare_with_a_list(&mut Client::connect(server.addresses()[0]), 77, 300, 64);
    // The other target has the same bytes at the same places.
    let written = pattern(5, 64 * BLOCK);
    let mut client = Client::connect(server.addresses()[0]);
    assert_eq!(client.write(1, 100, &written), Status::SUCCESS);
    let mut other = Client::connect(behind_it.addresses()[0]);
    for (place, blocks) in written.chunks(4 * BLOCK).enumerate() {
        assert!(other.read(1, 100 + 4 * place as u64, 4).expect("readable") == blocks, "piece {place}");
    }
}

#[test]
fn nothing_that_was_answered_is_lost_while_the_other_target_is_cut_off_again_and_again() {
    let folder = Folder::new("back-end-restarts");
    let mut config = of_file(&folder, any_port());
    let mut behind_it = Some(start(config.clone()));
    let address = behind_it.as_ref().expect("it runs").addresses()[0];
    config.listen = vec![address.into()];
    let server = start(middle(behind(address)));
    let front = server.addresses()[0];
    let (answered, has_ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let writer = {
        let (answered, has_ended) = (Arc::clone(&answered), Arc::clone(&has_ended));
        thread::spawn(move || {
            let mut client = Client::connect(front);
            let mut number = 0;
            while !has_ended.load(Ordering::Relaxed) {
                let bytes = pattern(number, BLOCK);
                assert_eq!(client.write(1, number % BLOCKS, &bytes), Status::SUCCESS, "write {number}");
                if number % 16 == 0 {
                    assert_eq!(client.flush(1), Status::SUCCESS, "after write {number}");
                }
                number += 1;
                answered.store(number, Ordering::Relaxed);
            }
            number
        })
    };
    for _ in 0..5 {
        let before = answered.load(Ordering::Relaxed);
        until(|| writer.is_finished() || answered.load(Ordering::Relaxed) > before + 50);
        // It is not shut down in order: connections and IOs are cut off.
        drop(behind_it.take());
        behind_it = Some(again(&config));
    }
    has_ended.store(true, Ordering::Relaxed);
    let written = writer.join().expect("every write and flush succeeds");
    let mut client = Client::connect(front);
    for number in written.saturating_sub(BLOCKS)..written {
        let read = client.read(1, number % BLOCKS, 1).expect("readable");
        assert!(read == pattern(number, BLOCK), "write {number} of {written}");
    }
}

/// The other target loses its cache with its end: what it was not told to keep is gone.
#[test]
fn what_was_answered_without_a_flush_survives_the_loss_of_the_other_targets_cache() {
    let folder = Folder::new("back-end-volatile");
    let mut config = of_file(&folder, any_port());
    config.devices[0].faults = vec![FaultConfig::new(FaultKind::Volatile)];
    let behind_it = start(config.clone());
    let address = behind_it.addresses()[0];
    config.listen = vec![address.into()];
    let server = start(middle(behind(address)));
    let mut client = Client::connect(server.addresses()[0]);
    assert_eq!(client.write(1, 0, &pattern(1, 32 * BLOCK)), Status::SUCCESS);
    assert_eq!(client.simple(nvm::WRITE_ZEROES, 1, 8, 8), Status::SUCCESS);
    let mut direct = Client::connect(address);
    assert_eq!(direct.write(1, 100, &pattern(2, BLOCK)), Status::SUCCESS);
    drop(behind_it);
    let behind_it = again(&config);
    let mut expected = pattern(1, 32 * BLOCK);
    expected[8 * BLOCK..16 * BLOCK].fill(0);
    assert!(client.read(1, 0, 32).expect("readable") == expected);
    let mut direct = Client::connect(behind_it.addresses()[0]);
    assert!(
        direct.read(1, 100, 1).expect("readable") == vec![0; BLOCK],
        "this test loses what is not durable"
    );
}

#[test]
fn ios_wait_for_the_other_target_only_so_long_and_then_the_path_is_at_fault() {
    let folder = Folder::new("back-end-away");
    let mut config = of_file(&folder, any_port());
    let behind_it = start(config.clone());
    let address = behind_it.addresses()[0];
    config.listen = vec![address.into()];
    let server = start(middle(BackEndConfig { timeout: Nanos::secs(1), ..behind(address) }));
    let mut client = Client::connect(server.addresses()[0]);
    assert_eq!(client.write(1, 3, &pattern(1, BLOCK)), Status::SUCCESS);
    drop(behind_it);
    for _ in 0..2 {
        assert_eq!(client.write(1, 4, &pattern(2, BLOCK)), Status::INTERNAL_PATH_ERROR);
        assert_eq!(client.read(1, 3, 1), Err(Status::INTERNAL_PATH_ERROR));
        assert_eq!(client.flush(1), Status::INTERNAL_PATH_ERROR);
    }
    let _behind_it = again(&config);
    until(|| client.read(1, 3, 1).is_ok());
    assert!(client.read(1, 3, 1).expect("readable") == pattern(1, BLOCK));
    assert_eq!(client.write(1, 4, &pattern(2, BLOCK)), Status::SUCCESS);
    assert_eq!(client.flush(1), Status::SUCCESS, "a lost path is no lost write");
}

#[test]
fn an_io_that_the_other_target_never_answers_ends() {
    let mut config = simple(fast_ssd(), any_port());
    config.devices[0].faults = vec![FaultConfig {
        op: FaultOp::Read,
        ..FaultConfig::new(FaultKind::Hang(FaultRelease::AtIo(1_000_000)))
    }];
    let behind_it = start(config);
    let server = start(middle(BackEndConfig { timeout: Nanos::secs(1), ..behind(behind_it.addresses()[0]) }));
    let mut client = Client::connect(server.addresses()[0]);
    assert_eq!(client.read(1, 0, 1), Err(Status::INTERNAL_PATH_ERROR));
}

#[test]
fn another_namespace_in_the_same_place_is_never_served() {
    for changed in ["uuid", "size"] {
        let folder = Folder::new(&format!("back-end-replaced-{changed}"));
        let mut config = of_file(&folder, any_port());
        let behind_it = start(config.clone());
        let address = behind_it.addresses()[0];
        config.listen = vec![address.into()];
        let server = start(middle(behind(address)));
        let mut client = Client::connect(server.addresses()[0]);
        assert_eq!(client.write(1, 3, &pattern(1, BLOCK)), Status::SUCCESS);
        drop(behind_it);
        let right = config.clone();
        let namespace = &mut config.subsystems[0].namespaces[0];
        match changed {
            "uuid" => namespace.uuid = Some([7; 16]),
            _ => namespace.size = Some(Bytes(BLOCKS / 2 * BLOCK as u64)),
        }
        let other = again(&config);
        let refused = client.read(1, 3, 1).expect_err(changed);
        assert_eq!(refused, Status::INTERNAL_ERROR.do_not_retry(), "{changed}");
        assert_eq!(client.write(1, 3, &pattern(2, BLOCK)), refused, "{changed}");
        drop(other);
        let right = again(&right);
        assert_eq!(client.write(1, 3, &pattern(2, BLOCK)), refused, "{changed}: it has stopped for good");
        let mut direct = Client::connect(right.addresses()[0]);
        assert!(direct.read(1, 3, 1).expect("readable") == pattern(1, BLOCK), "{changed}");
    }
}

#[test]
fn a_target_starts_only_with_the_key_that_the_other_target_knows() {
    let folder = Folder::new("back-end-keys");
    let file = |seed: u8| {
        let key = DhKey::new(Some(Hash::Sha256), Secret::new(vec![seed; 32])).expect("the length fits");
        folder.write(&format!("{seed}.dhchap"), &key.to_text())
    };
    let mut config = of_file(&folder, any_port());
    config.hosts = vec![HostConfig {
        nqn: MIDDLE.to_owned(),
        dhchap_key: Some(file(1)),
        dhchap_key_next: None,
        dhchap_ctrl_key: None,
        tls_key: Vec::new(),
    }];
    let behind_it = start(config);
    let with = |key| {
        let keys = KeyFiles { dhchap: key, ..KeyFiles::default() };
        let timeout = Nanos::secs(5);
        Server::start(middle(BackEndConfig { keys, timeout, ..behind(behind_it.addresses()[0]) }))
    };
    for wrong in [None, Some(file(2)), Some(folder.0.join("missing"))] {
        let error = with(wrong.clone()).err().unwrap_or_else(|| panic!("{wrong:?} is no key")).to_string();
        assert!(
            error.contains(&format!("namespace 1 of {DEFAULT_NQN} at {}", behind_it.addresses()[0])),
            "{error}"
        );
    }
    let server = with(Some(file(1))).unwrap_or_else(|error| panic!("{error}"));
    compare_with_a_list(&mut Client::connect(server.addresses()[0]), 3, 50, 8);
}

#[test]
fn a_namespace_that_is_not_there_is_refused() {
    let behind_it = serve(fast_ssd());
    let absent = BackEndConfig { nsid: 7, ..behind(behind_it.addresses()[0]) };
    let error = Server::start(middle(absent)).err().expect("there is no namespace 7").to_string();
    assert!(error.contains("namespace 7 of") && error.contains("there is no namespace 7"), "{error}");
}
