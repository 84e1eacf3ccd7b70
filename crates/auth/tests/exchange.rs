//! Both ends of DH-HMAC-CHAP against each other, and against wrong keys, wrong messages and recorded ones.

use auth::exchange::{
    ControllerExchange, ControllerKeys, HostExchange, HostKeys, Names, Offer, Outcome, Randomness, Received,
};
use auth::psk::Version;
use auth::{Channel, Concatenation, DhKey, Explanation, Group, Hash, Message, Secret};

fn names() -> Names {
    Names {
        host: "nqn.2025-01.io.example:host".to_owned(),
        controller: "nqn.2025-01.io.example:a".to_owned(),
    }
}

fn key(hash: Option<Hash>, byte: u8) -> DhKey {
    let length = hash.map_or(32, Hash::length);
    DhKey::new(hash, Secret::new(vec![byte; length])).expect("of that length")
}

fn random(seed: u8) -> Randomness {
    let challenge = std::array::from_fn(|at| (at as u8).wrapping_mul(31) ^ seed);
    let exponent = (0..64).map(|at: u8| at.wrapping_mul(17).wrapping_add(seed)).collect();
    Randomness { challenge, sequence: 0x0100_0000 | u32::from(seed), exponent: Secret::new(exponent) }
}

fn offer(hash: Hash, group: Option<Group>) -> Offer {
    Offer { hashes: vec![hash], groups: vec![group] }
}

fn everything() -> Offer {
    Offer { hashes: Hash::ALL.to_vec(), groups: vec![None, Some(Group::Ffdhe2048)] }
}

/// Lets both ends talk until neither has anything to say. Returns what the host sent.
fn talk(host: &mut HostExchange, controller: &mut ControllerExchange) -> Vec<Vec<u8>> {
    let mut sent = Vec::new();
    loop {
        if let Some(message) = host.next_send() {
            if let Some(job) = controller.on_send(&message) {
                assert_eq!(controller.on_receive(), Received::Wait, "a job is under way");
                controller.on_computed(job.compute());
            }
            sent.push(message);
        } else if host.wants_receive() && host.outcome() == Outcome::Pending {
            let Received::Message(message) = controller.on_receive() else { panic!("no job is under way") };
            if let Some(job) = host.on_received(&message) {
                host.on_computed(job.compute());
            }
        } else {
            return sent;
        }
    }
}

fn ends(
    (ours, theirs): (Offer, Offer),
    host: HostKeys,
    controller: ControllerKeys,
) -> (HostExchange, ControllerExchange) {
    (
        HostExchange::new(theirs, names(), host, random(3), 7),
        ControllerExchange::new(ours, names(), controller, random(9)),
    )
}

#[test]
fn every_combination_proves_the_right_keys_and_no_others() {
    let hashes = Hash::ALL.map(Some).into_iter().chain([None]);
    let key_hashes: Vec<_> = hashes.collect();
    let groups: Vec<_> = Group::ALL.map(Some).into_iter().chain([None]).collect();
    let mut proved = 0;
    for hash in Hash::ALL {
        for &group in &groups {
            for &key_hash in &key_hashes {
                for is_two_way in [false, true] {
                    let right = key(key_hash, 1);
                    let own = is_two_way.then(|| key(key_hash, 2));
                    let both = || (offer(hash, group), offer(hash, group));
                    let host = HostKeys { host: right.clone(), controller: own.clone() };
                    // The key is the second of two, as after a rotation.
                    let keys = ControllerKeys { host: vec![key(None, 8), right], controller: own };
                    let (mut host, mut controller) = ends(both(), host, keys);
                    talk(&mut host, &mut controller);
                    let case = format!("{hash} {group:?} {key_hash:?} two-way {is_two_way}");
                    assert_eq!(
                        (host.outcome(), controller.outcome()),
                        (Outcome::Proved(0), Outcome::Proved(1)),
                        "{case}"
                    );
                    proved += 1;
                }
            }
        }
    }
    assert_eq!(proved, 3 * 6 * 4 * 2);
}

/// Ends of an exchange that makes a key for TLS. The controller has two keys of the host, of which the second one is right.
fn concatenating(
    (ours, theirs): (Offer, Offer),
    is_two_way: bool,
    (channel, concatenation): (Channel, Concatenation),
) -> (HostExchange, ControllerExchange) {
    let own = is_two_way.then(|| key(None, 2));
    let host = HostKeys { host: key(None, 1), controller: own };
    let keys = ControllerKeys { host: vec![key(None, 8), key(None, 1)], controller: Some(key(None, 2)) };
    (
        HostExchange::concatenating(channel, theirs, names(), host, random(3), 7),
        ControllerExchange::new(ours, names(), keys, random(9)).allowing(concatenation),
    )
}

#[test]
fn a_key_for_tls_is_made_with_every_hash_and_group() {
    for hash in [Hash::Sha256, Hash::Sha384] {
        for group in Group::ALL.map(Some) {
            for (is_two_way, channel, concatenation) in [
                (false, Channel::NewKey, Concatenation::New { is_due: false }),
                (true, Channel::NewKey, Concatenation::New { is_due: true }),
                (false, Channel::AnotherKey, Concatenation::Another),
            ] {
                let both = (offer(hash, group), offer(hash, group));
                let (mut host, mut controller) = concatenating(both, is_two_way, (channel, concatenation));
                assert!(controller.take_generated().is_none() && host.take_generated().is_none());
                talk(&mut host, &mut controller);
                let case = format!("{hash} {group:?} two-way {is_two_way}");
                assert_eq!(
                    (host.outcome(), controller.outcome()),
                    (Outcome::Proved(0), Outcome::Proved(1)),
                    "{case}"
                );
                let (ours, by) = controller.take_generated().expect("a key is made");
                let theirs = host.take_generated().expect("a key is made");
                assert_eq!(by, key(None, 1), "the key that proved the host");
                let names = names();
                let named = ours.retained(&names.host, &names.controller);
                for (ours, theirs) in named.iter().zip(theirs.retained(&names.host, &names.controller)) {
                    assert_eq!(ours.identity(Version::One), theirs.identity(Version::One), "{case}");
                    assert_eq!(ours.psk(Version::One), theirs.psk(Version::One), "{case}");
                }
                assert!(controller.take_generated().is_none(), "it is taken once");
            }
        }
    }
}

#[test]
fn no_key_for_tls_is_made_where_it_may_not_be() {
    let groups = |groups: &[Option<Group>]| Offer { hashes: Hash::ALL.to_vec(), groups: groups.to_vec() };
    let small = Some(Group::Ffdhe2048);
    let new = Concatenation::New { is_due: false };
    let outcome = |(ours, theirs), concatenation| {
        let (mut host, mut controller) =
            concatenating((ours, theirs), false, (Channel::NewKey, concatenation));
        talk(&mut host, &mut controller);
        let is_proved = controller.outcome() == Outcome::Proved(1);
        assert_eq!(controller.take_generated().is_some(), is_proved);
        assert_eq!(host.take_generated().is_some(), is_proved);
        controller.outcome()
    };
    let channel = Outcome::Failed(Explanation::SecureChannel);
    for refused in [Concatenation::Refused, Concatenation::Another] {
        assert_eq!(outcome((everything(), everything()), refused), channel, "{refused:?}");
    }
    // A group that is preferred is no reason to do without a key, and SHA-512 is not used for one.
    let ours = Offer { hashes: vec![Hash::Sha512, Hash::Sha256], groups: vec![None, small] };
    assert_eq!(outcome((ours, everything()), new), Outcome::Proved(1));
    let only_longest = Offer { hashes: vec![Hash::Sha512], groups: vec![small] };
    assert_eq!(outcome((only_longest, everything()), new), Outcome::Failed(Explanation::Hash));
    assert_eq!(
        outcome((groups(&[Some(Group::Ffdhe3072)]), groups(&[small])), new),
        Outcome::Failed(Explanation::Group)
    );
    // Without a group, and without a challenge: hosts of this project send neither.
    let keys = || ControllerKeys { host: vec![key(None, 1)], controller: None };
    let start = |ours| ControllerExchange::new(ours, names(), keys(), random(9)).allowing(new);
    let negotiate = |groups: &[u8]| {
        Message::Negotiate { secure_channel: 2, hashes: vec![1], groups: groups.to_vec() }.to_bytes(7)
    };
    let mut controller = start(everything());
    controller.on_send(&negotiate(&[0]));
    controller.on_receive();
    assert_eq!(controller.outcome(), channel);
    // A host that does not ask for a key where one is due.
    let host = HostKeys { host: key(None, 1), controller: None };
    let (mut host, mut controller) = (
        HostExchange::new(everything(), names(), host, random(3), 7),
        start(everything()).allowing(Concatenation::New { is_due: true }),
    );
    talk(&mut host, &mut controller);
    assert_eq!((host.outcome(), controller.outcome()), (channel, channel));
}

/// As Linux does it: the controller is challenged without a sequence number, and without a response.
#[test]
fn a_key_for_tls_needs_a_challenge_of_the_host() {
    for is_challenged in [true, false] {
        let small = offer(Hash::Sha256, Some(Group::Ffdhe2048));
        let (mut host, mut controller) = concatenating(
            (small.clone(), small),
            false,
            (Channel::NewKey, Concatenation::New { is_due: false }),
        );
        let compute = |controller: &mut ControllerExchange, message: &[u8]| {
            let job = controller.on_send(message).expect("a job is due");
            controller.on_computed(job.compute());
            let Received::Message(message) = controller.on_receive() else { panic!("it is computed") };
            message
        };
        let negotiate = host.next_send().expect("it begins");
        let challenge = compute(&mut controller, &negotiate);
        let job = host.on_received(&challenge).expect("a job is due");
        host.on_computed(job.compute());
        let reply = host.next_send().expect("a reply");
        let (transaction, mut reply) = Message::parse(&reply, Some(Hash::Sha256)).expect("a reply");
        let Message::Reply { challenge, sequence, .. } = &mut reply else { panic!("{reply:?}") };
        assert!(challenge.is_some() && *sequence == 0);
        if !is_challenged {
            *challenge = None;
        }
        let answer = compute(&mut controller, &reply.to_bytes(transaction));
        let (_, answer) = Message::parse(&answer, Some(Hash::Sha256)).expect("an answer");
        if is_challenged {
            assert_eq!(answer, Message::Success1 { response: None, length: 32 });
            assert!(controller.take_generated().is_some());
        } else {
            assert_eq!(answer, Message::Failure1(Explanation::Payload));
            assert!(controller.take_generated().is_none());
        }
    }
}

#[test]
fn a_wrong_key_proves_nothing_at_either_end() {
    for group in [None, Some(Group::Ffdhe2048)] {
        let both = || (offer(Hash::Sha256, group), offer(Hash::Sha256, group));
        let wrong = HostKeys { host: key(None, 2), controller: None };
        let keys = || ControllerKeys { host: vec![key(None, 1)], controller: Some(key(None, 5)) };
        let (mut host, mut controller) = ends(both(), wrong, keys());
        talk(&mut host, &mut controller);
        let failed = Outcome::Failed(Explanation::Failed);
        assert_eq!((host.outcome(), controller.outcome()), (failed, failed));
        // The controller has another key than the host expects, or none.
        let host_keys = || HostKeys { host: key(None, 1), controller: Some(key(None, 6)) };
        let (mut host, mut controller) = ends(both(), host_keys(), keys());
        talk(&mut host, &mut controller);
        assert_eq!((host.outcome(), controller.outcome()), (failed, failed));
        let none = ControllerKeys { controller: None, ..keys() };
        let (mut host, mut controller) = ends(both(), host_keys(), none);
        talk(&mut host, &mut controller);
        assert_eq!((host.outcome(), controller.outcome()), (failed, failed));
        // The same key under another name.
        let (mut host, _) =
            ends(both(), HostKeys { host: key(Some(Hash::Sha256), 1), controller: None }, keys());
        let other = Names { host: "nqn.2025-01.io.example:other".to_owned(), ..names() };
        let keys = ControllerKeys { host: vec![key(Some(Hash::Sha256), 1)], controller: None };
        let mut controller = ControllerExchange::new(both().0, other, keys, random(9));
        talk(&mut host, &mut controller);
        assert_eq!(controller.outcome(), failed);
    }
}

#[test]
fn the_first_of_our_order_is_chosen_and_nothing_else_than_what_is_offered() {
    let keys = || ControllerKeys { host: vec![key(None, 1)], controller: None };
    let host_keys = || HostKeys { host: key(None, 1), controller: None };
    let ours = Offer {
        hashes: vec![Hash::Sha384, Hash::Sha256],
        groups: vec![Some(Group::Ffdhe3072), Some(Group::Ffdhe2048)],
    };
    let all = Offer {
        hashes: Hash::ALL.to_vec(),
        groups: [None].into_iter().chain(Group::ALL.map(Some)).collect(),
    };
    let (mut host, mut controller) = ends((ours.clone(), all), host_keys(), keys());
    let job =
        controller.on_send(&host.next_send().expect("Negotiate")).expect("a group needs a public value");
    assert_eq!(job.group(), Group::Ffdhe3072);
    controller.on_computed(job.compute());
    let Received::Message(challenge) = controller.on_receive() else { panic!("it is computed") };
    let read = Message::parse(&challenge, None).expect("a challenge");
    assert!(matches!(read, (7, Message::Challenge { hash: Hash::Sha384, .. })), "{read:?}");
    for (theirs, explanation) in [
        (offer(Hash::Sha512, Some(Group::Ffdhe2048)), Explanation::Hash),
        (offer(Hash::Sha256, None), Explanation::Group),
    ] {
        let (mut host, mut controller) = ends((ours.clone(), theirs), host_keys(), keys());
        talk(&mut host, &mut controller);
        let failed = Outcome::Failed(explanation);
        assert_eq!((host.outcome(), controller.outcome()), (failed, failed));
    }
    // A controller that chooses what the host did not offer is a downgrade.
    let (mut host, _) = ends((ours.clone(), ours), host_keys(), keys());
    host.next_send();
    let weak = Message::Challenge { hash: Hash::Sha256, group: None, sequence: 1, challenge: vec![1; 32] };
    assert!(host.on_received(&weak.to_bytes(7)).is_none());
    host.next_send();
    assert_eq!(host.outcome(), Outcome::Failed(Explanation::Group));
}

#[test]
fn a_recorded_exchange_replayed_fails() {
    for group in [None, Some(Group::Ffdhe2048)] {
        let both = || (offer(Hash::Sha256, group), offer(Hash::Sha256, group));
        let keys = || ControllerKeys { host: vec![key(None, 1)], controller: None };
        let (mut host, mut controller) =
            ends(both(), HostKeys { host: key(None, 1), controller: None }, keys());
        let recorded = talk(&mut host, &mut controller);
        assert_eq!(controller.outcome(), Outcome::Proved(0));
        // Another exchange has another challenge.
        let mut controller = ControllerExchange::new(both().0, names(), keys(), random(10));
        for message in recorded {
            if let Some(job) = controller.on_send(&message) {
                controller.on_computed(job.compute());
            }
            controller.on_receive();
        }
        assert_eq!(controller.outcome(), Outcome::Failed(Explanation::Failed));
    }
}

#[test]
fn messages_out_of_turn_fail() {
    let keys = || ControllerKeys { host: vec![key(None, 1)], controller: None };
    let start = || ControllerExchange::new(everything(), names(), keys(), random(9));
    let negotiate =
        |secure_channel| Message::Negotiate { secure_channel, hashes: vec![1], groups: vec![0] }.to_bytes(7);
    let reply = Message::Reply { response: vec![1; 32], challenge: None, sequence: 0, public: vec![] };
    let failure = |controller: &mut ControllerExchange| {
        let Received::Message(message) = controller.on_receive() else { panic!("nothing is computed") };
        let again = controller.on_receive();
        assert_eq!(again, Received::Message(message.clone()), "a failure stays");
        Message::parse(&message, Some(Hash::Sha256)).expect("a failure").1
    };
    // A receive, a reply, a success before anything else.
    assert_eq!(failure(&mut start()), Message::Failure1(Explanation::Message));
    for message in [Message::Success2, Message::Failure2(Explanation::Failed)] {
        let mut controller = start();
        controller.on_send(&message.to_bytes(7));
        assert_eq!(failure(&mut controller), Message::Failure1(Explanation::Message), "{message:?}");
    }
    let mut controller = start();
    controller.on_send(&reply.to_bytes(7));
    assert_eq!(failure(&mut controller), Message::Failure1(Explanation::Payload), "its hash is unknown");
    // Twice, without hearing the challenge, in another transaction.
    for (message, explanation) in [
        (negotiate(0), Explanation::Message),
        (reply.to_bytes(7), Explanation::Message),
        (Message::Success2.to_bytes(7), Explanation::Message),
        (reply.to_bytes(8), Explanation::Message),
        (vec![], Explanation::Payload),
        (vec![1; 5], Explanation::Payload),
        (vec![9; 64], Explanation::Message),
    ] {
        let mut controller = start();
        controller.on_send(&negotiate(0));
        controller.on_send(&message);
        assert_eq!(failure(&mut controller), Message::Failure1(explanation), "{message:?}");
        assert_eq!(controller.outcome(), Outcome::Failed(explanation));
        controller.on_send(&negotiate(0));
        assert_eq!(controller.outcome(), Outcome::Failed(explanation), "the end");
    }
    let mut controller = start();
    controller.on_send(&negotiate(2));
    assert_eq!(failure(&mut controller), Message::Failure1(Explanation::SecureChannel));
    // A public value where there is no group.
    let mut controller = start();
    controller.on_send(&negotiate(0));
    controller.on_receive();
    let public = Message::Reply { response: vec![1; 32], challenge: None, sequence: 0, public: vec![2; 256] };
    controller.on_send(&public.to_bytes(7));
    assert_eq!(failure(&mut controller), Message::Failure1(Explanation::Payload));
    // After a proof, nothing more is answered but with a failure.
    let mut controller = start();
    let mut host = HostExchange::new(
        everything(),
        names(),
        HostKeys { host: key(None, 1), controller: None },
        random(3),
        7,
    );
    talk(&mut host, &mut controller);
    assert_eq!(controller.outcome(), Outcome::Proved(0));
}

#[test]
fn a_public_value_that_gives_the_secret_away_fails() {
    let both = offer(Hash::Sha256, Some(Group::Ffdhe2048));
    let keys = ControllerKeys { host: vec![key(None, 1)], controller: None };
    for public in [vec![0; 256], [vec![0; 255], vec![1]].concat(), vec![0xff; 256], vec![], vec![3; 255]] {
        let mut controller = ControllerExchange::new(both.clone(), names(), keys.clone(), random(9));
        let negotiate = Message::Negotiate { secure_channel: 0, hashes: vec![1], groups: vec![1] };
        let job = controller.on_send(&negotiate.to_bytes(7)).expect("a public value is due");
        controller.on_computed(job.compute());
        controller.on_receive();
        let reply = Message::Reply { response: vec![1; 32], challenge: None, sequence: 0, public };
        let job = controller.on_send(&reply.to_bytes(7)).expect("a shared secret is due");
        controller.on_computed(job.compute());
        let Received::Message(_) = controller.on_receive() else { panic!("it is computed") };
        assert_eq!(controller.outcome(), Outcome::Failed(Explanation::Payload));
    }
}
