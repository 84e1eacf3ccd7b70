use crate::{Broken, KEY_UPDATES_MAX, Read, Stream};
use auth::hello::{Collector, Keys, Psk};
use auth::psk::Derivation;
use auth::{Hash, Secret, TlsKey};

const NAMES: (&str, &str) = ("nqn.2025-01.io.example:host", "nqn.2025-01.io.example:disks");
const SECOND: u64 = 1_000_000_000;

fn key(hash: Hash, seed: u8) -> TlsKey {
    TlsKey::new(Some(hash), Secret::new(vec![seed; hash.length()])).expect("as long as the hash")
}

fn move_bytes(from: &mut Stream, to: &mut Stream) -> usize {
    let mut count = 0;
    from.take_outbound(|bytes| {
        count = bytes.len();
        to.on_bytes(bytes);
        bytes.clear();
    });
    count
}

/// The server for a ClientHello, by the choice of a target with these keys.
fn server_for(client: &mut Stream, keys: &[TlsKey]) -> Stream {
    let mut collector = Collector::default();
    client.take_outbound(|bytes| {
        assert_eq!(collector.take(bytes), Ok(true), "the ClientHello");
        bytes.clear();
    });
    let known = |_: &str, _: &str| Keys { configured: keys.to_vec(), generated: Vec::new(), are_known: true };
    let chosen = collector.hello().expect("it offers keys").choose(known).expect("one is right");
    let mut server = Stream::server(&chosen.psk).expect("memory");
    server.on_bytes(&collector.into_records());
    server
}

fn pair(hash: Hash, derivation: Derivation) -> (Stream, Stream) {
    let offered = Psk::of_host(&key(hash, 1), NAMES, derivation);
    let mut client = Stream::client(&offered).expect("memory");
    let mut server = server_for(&mut client, &[key(hash, 2), key(hash, 1)]);
    for _ in 0..4 {
        server.negotiate().expect("the keys are right");
        move_bytes(&mut server, &mut client);
        client.negotiate().expect("the keys are right");
        move_bytes(&mut client, &mut server);
    }
    assert!(client.is_up() && server.is_up());
    (client, server)
}

fn read_all(stream: &mut Stream, piece: usize) -> Vec<u8> {
    let (mut all, mut place) = (Vec::new(), vec![0; piece]);
    while let Read::Bytes(count) = stream.read(0, &mut place).expect("the records are right") {
        all.extend_from_slice(&place[..count]);
    }
    all
}

#[test]
fn what_is_written_is_read() {
    for hash in [Hash::Sha256, Hash::Sha384] {
        for derivation in Derivation::ALL {
            let (mut client, mut server) = pair(hash, derivation);
            for (count, piece) in [(1, 1), (72, 100), (4096, 17), (16_384, 4096), (300_001, 10_000)] {
                let sent: Vec<u8> = (0..count).map(|at: usize| (at * 7 + at / 251) as u8).collect();
                for part in sent.chunks(9_000) {
                    client.write(part).expect("it is up");
                }
                client.seal().expect("it is up");
                move_bytes(&mut client, &mut server);
                assert!(read_all(&mut server, piece) == sent, "{hash} {derivation:?}: {count} bytes");
                server.write(&sent).and_then(|()| server.seal()).expect("it is up");
                let records = move_bytes(&mut server, &mut client);
                let least = count.div_ceil(16 << 10);
                assert!(records <= count + 22 * (least + 1), "{records} bytes for {count}: too many records");
                assert!(read_all(&mut client, piece) == sent);
            }
            client.close();
            move_bytes(&mut client, &mut server);
            assert_eq!(server.read(0, &mut [0; 8]), Ok(Read::Closed));
        }
    }
}

#[test]
fn the_library_can_be_set_up() {
    assert_eq!([crate::prepare(), crate::prepare()], [Ok(()), Ok(())]);
}

#[test]
fn what_is_not_read_of_bytes_that_are_passed_is_kept() {
    let (mut client, mut server) = pair(Hash::Sha256, Derivation::Standard);
    let sent: Vec<u8> = (0..100_000).map(|at: usize| (at * 7 + at / 251) as u8).collect();
    client.write(&sent).and_then(|()| client.seal()).expect("it is up");
    let mut records = Vec::new();
    client.take_outbound(|bytes| records.append(bytes));
    let mut all = Vec::new();
    for (number, part) in records.chunks(7000).enumerate() {
        let inlet = server.inlet();
        // Nothing is read of some, and little of others.
        inlet.pass(part, || {
            for _ in 0..number % 3 {
                let mut place = [0; 3000];
                if let Read::Bytes(count) = server.read(0, &mut place).expect("the records are right") {
                    all.extend_from_slice(&place[..count]);
                }
            }
        });
    }
    all.extend(read_all(&mut server, 16_384));
    assert!(all == sent, "{} bytes of {}", all.len(), sent.len());
}

#[test]
fn a_changed_byte_ends_the_connection() {
    for at in [5, 20, 30] {
        let (mut client, mut server) = pair(Hash::Sha256, Derivation::Standard);
        client.write(b"some data").and_then(|()| client.seal()).expect("it is up");
        client.take_outbound(|bytes| {
            bytes[at] ^= 1;
            server.on_bytes(bytes);
            bytes.clear();
        });
        assert!(matches!(server.read(0, &mut [0; 64]), Err(Broken::Record(_))));
        assert!(server.read(0, &mut [0; 64]).is_err(), "for ever");
    }
}

#[test]
fn a_client_with_another_key_does_not_get_in() {
    let offered = Psk::of_host(&key(Hash::Sha256, 1), NAMES, Derivation::Standard);
    let mut client = Stream::client(&offered).expect("memory");
    let mut server =
        Stream::server(&Psk { secret: Secret::new(vec![9; 32]), ..offered[0].clone() }).expect("memory");
    move_bytes(&mut client, &mut server);
    assert!(matches!(server.negotiate(), Err(Broken::Handshake(_))), "the library checks the binder, too");
}

#[test]
fn updates_of_keys_are_bounded_in_a_minute() {
    let (mut client, mut server) = pair(Hash::Sha256, Derivation::Standard);
    let mut update = |now: u64| {
        client.update_keys();
        client.write(b"x").and_then(|()| client.seal()).expect("it is up");
        move_bytes(&mut client, &mut server);
        server.read(now, &mut [0; 8])
    };
    // The first read of a minute counts, too.
    for minute in [61, 122] {
        for _ in 0..KEY_UPDATES_MAX {
            assert_eq!(update(minute * SECOND), Ok(Read::Bytes(1)));
        }
    }
    assert_eq!(update(122 * SECOND), Err(Broken::KeyUpdates));
}

#[test]
fn a_connection_outlives_the_count_of_updates() {
    let (mut client, mut server) = pair(Hash::Sha256, Derivation::Standard);
    for update in 0..600 {
        client.update_keys();
        client.write(b"x").and_then(|()| client.seal()).expect("it is up");
        move_bytes(&mut client, &mut server);
        // Sixteen in each minute.
        let now = (1 + update / u64::from(KEY_UPDATES_MAX)) * 61 * SECOND;
        assert_eq!(server.read(now, &mut [0; 8]), Ok(Read::Bytes(1)), "update {update}");
    }
}
