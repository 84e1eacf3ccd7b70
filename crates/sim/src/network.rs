//! The network between a client and the switch: a delay per message, and a link that carries one message at a
//! time.
//!
//! Each host has its own full-duplex link to the switch. A message occupies the link for its bytes, then
//! travels for the delay. Messages in one direction of one link arrive in the order in which they were sent.

use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use units::{ByteRate, Bytes, Instant, Nanos};

/// Header bytes of a command or its completion (a 72-byte capsule, a 24-byte PDU).
const HEADER: Bytes = Bytes(72);

/// The same for all hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// One-way delay, without the transmission time of the bytes.
    pub delay: Nanos,
    /// Maximum random addition to the delay, evenly distributed.
    pub jitter: Nanos,
    /// Bandwidth of one link.
    pub rate: ByteRate,
}

impl Network {
    /// RDMA-class: 9 µs one way, 100 Gb/s (the testbed of Gimbal §5.1, with which the SSD model was
    /// calibrated).
    pub const RDMA_100G: Network =
        Network { delay: Nanos::micros(9), jitter: Nanos::ZERO, rate: ByteRate(12_500_000_000) };
}

/// One direction of one link.
#[derive(Clone, Debug, Default)]
pub(crate) struct Link {
    free_at: Instant,
    last_arrival: Instant,
}

impl Link {
    /// When a message with `payload` arrives if it is sent now.
    pub(crate) fn send(
        &mut self,
        network: &Network,
        now: Instant,
        payload: Bytes,
        random: &mut Xoshiro256PlusPlus,
    ) -> Instant {
        let occupied = network.rate.time_to_earn(payload + HEADER).expect("a network carries something");
        self.free_at = self.free_at.max(now) + occupied;
        let jitter = match network.jitter {
            Nanos::ZERO => Nanos::ZERO,
            Nanos(most) => Nanos(random.random_range(0..=most)),
        };
        self.last_arrival = self.last_arrival.max(self.free_at + network.delay + jitter);
        self.last_arrival
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn messages_of_one_link_arrive_in_order() {
        let network = Network { jitter: Nanos::micros(50), ..Network::RDMA_100G };
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        let (mut link, mut last) = (Link::default(), Instant::ZERO);
        for n in 0..1000 {
            let arrival = link.send(&network, Instant(n * 100), Bytes(4096), &mut random);
            assert!(arrival >= last, "message {n} overtook the one before it");
            last = arrival;
        }
    }

    #[test]
    fn a_link_carries_one_message_at_a_time() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        let mut link = Link::default();
        let payload = Bytes::kib(128);
        let first = link.send(&Network::RDMA_100G, Instant::ZERO, payload, &mut random);
        let second = link.send(&Network::RDMA_100G, Instant::ZERO, payload, &mut random);
        let occupied = Network::RDMA_100G.rate.time_to_earn(payload + HEADER).expect("the rate is not zero");
        assert_eq!(second.since(first), occupied);
    }
}
