//! Values that each sector of an SSD may hold, by the IOs that its hosts have seen: a list of values with the times of their writes.

/// A write of one sector.
#[derive(Clone, Copy, Debug)]
struct Version {
    value: u64,
    began: u64,
    /// `None` while it is under way, and if it failed.
    ended: Option<u64>,
    is_durable: bool,
    id: u64,
}

/// All sectors.
pub(crate) struct History {
    sectors: Vec<Vec<Version>>,
}

/// Which values a crash may not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Those that were answered.
    Answered,
    /// Those that were flushed.
    Flushed,
}

impl History {
    pub(crate) fn new(values: impl Iterator<Item = u64>) -> History {
        let first = |value| vec![Version { value, began: 0, ended: Some(0), is_durable: true, id: 0 }];
        History { sectors: values.map(first).collect() }
    }

    pub(crate) fn begin(&mut self, sectors: std::ops::Range<usize>, value: u64, id: u64, now: u64) {
        for sector in &mut self.sectors[sectors] {
            sector.push(Version { value, began: now, ended: None, is_durable: false, id });
        }
    }

    pub(crate) fn end(&mut self, sectors: std::ops::Range<usize>, id: u64, now: u64, is_durable: bool) {
        for sector in &mut self.sectors[sectors] {
            let version = sector.iter_mut().find(|version| version.id == id).expect("it has begun");
            (version.ended, version.is_durable) = (Some(now), is_durable);
        }
    }

    /// A flush that began at `began` has succeeded.
    pub(crate) fn flush(&mut self, began: u64) {
        for version in self.sectors.iter_mut().flatten() {
            version.is_durable |= version.ended.is_some_and(|ended| ended < began);
        }
    }

    /// Whether a read from `began` to `now` may have found this.
    pub(crate) fn may_read(&self, sector: usize, value: u64, began: u64, now: u64) -> bool {
        let versions = &self.sectors[sector];
        versions.iter().filter(|version| version.value == value && version.began <= now).any(|version| {
            let replaces = |other: &Version| {
                version.ended.is_some_and(|ended| other.began > ended)
                    && other.ended.is_some_and(|ended| ended < began)
            };
            !versions.iter().any(replaces)
        })
    }

    /// Whether a crash may have left this.
    pub(crate) fn may_leave(&self, sector: usize, value: u64, kept: Kept) -> bool {
        let versions = &self.sectors[sector];
        versions.iter().filter(|version| version.value == value).any(|version| {
            let replaces = |other: &Version| {
                let counts = match kept {
                    Kept::Answered => other.ended.is_some(),
                    Kept::Flushed => other.is_durable,
                };
                counts && version.ended.is_some_and(|ended| other.began > ended)
            };
            !versions.iter().any(replaces)
        })
    }

    /// For messages.
    pub(crate) fn of(&self, sector: usize) -> String {
        let from = self.sectors[sector].len().saturating_sub(8);
        format!("{:?}", &self.sectors[sector][from..])
    }
}
