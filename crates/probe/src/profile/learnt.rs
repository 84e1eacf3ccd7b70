//! Facts from a profile for Level before it has served the SSD: the prices of reads and of writes.

use super::{Kind, Profile};
use sched::{Learnt, LearntPrice, ReadsPart};
use units::{Bytes, Nanos};

impl Profile {
    /// The prices of IOs and the size of the buffer, as a belief for [`sched::Level`].
    ///
    /// Level does not tell random IOs from sequential ones, so a size that was probed in both ways has the mean of both.
    pub fn learnt(&self) -> Learnt {
        let mut sizes: Vec<u32> = self.cost.iter().map(|cost| cost.size_kib).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let price = |reads: ReadsPart, kinds: [Kind; 2], size_kib: u32| {
            let of = self.cost.iter().filter(|cost| cost.size_kib == size_kib && kinds.contains(&cost.kind));
            let (sum, count) = of.fold((0.0, 0.0), |(sum, count), cost| (sum + cost.ns, count + 1.0));
            let size = Bytes::kib(u64::from(size_kib));
            (count > 0.0).then(|| LearntPrice { reads, size, time: Nanos(((sum / count) as u64).max(1)) })
        };
        let prices = sizes.into_iter().flat_map(|size| {
            let reads = price(ReadsPart::All, [Kind::RandomRead, Kind::SequentialRead], size);
            let writes = price(ReadsPart::None, [Kind::RandomWrite, Kind::SequentialWrite], size);
            reads.into_iter().chain(writes)
        });
        let buffer = self.buffer.as_ref().map(|buffer| Bytes((buffer.size_mib * f64::from(1 << 20)) as u64));
        Learnt { prices: prices.collect(), buffer, ..Learnt::default() }
    }
}
