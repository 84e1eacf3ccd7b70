//! The size of a volume within the bounds of a request.

use crate::messages::CapacityRange;
use tonic::Status;
use units::Bytes;

/// Sizes are multiples of this, which every file system and partition table can use whole.
const UNIT: Bytes = Bytes::mib(1);
/// The size of a volume that no bound is given for.
const DEFAULT: Bytes = Bytes::gib(1);
/// The largest namespace in a directory.
pub(crate) const MOST: Bytes = Bytes::gib(32 << 10);

/// The bounds of a request, in bytes; `None` above is no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    least: Bytes,
    most: Option<Bytes>,
}

impl Bounds {
    /// Reads the bounds of a request.
    pub(crate) fn of(range: Option<CapacityRange>) -> Result<Bounds, Status> {
        let CapacityRange { required_bytes, limit_bytes } = range.unwrap_or_default();
        let bytes = |number: i64, name: &str| {
            let wrong = || Status::invalid_argument(format!("{name} is {number}; write 0 or more"));
            u64::try_from(number).map(Bytes).map_err(|_| wrong())
        };
        let least = bytes(required_bytes, "required_bytes")?;
        let most = Some(bytes(limit_bytes, "limit_bytes")?).filter(|most| *most > Bytes::ZERO);
        if most.is_some_and(|most| most < least) {
            return Err(Status::invalid_argument(format!(
                "limit_bytes {limit_bytes} is less than required_bytes {required_bytes}"
            )));
        }
        Ok(Bounds { least, most })
    }

    /// Whether a size is within them.
    pub(crate) fn contain(self, size: Bytes) -> bool {
        size >= self.least && self.most.is_none_or(|most| size <= most)
    }

    /// The size of a new volume that is at least as large as `origin`.
    pub(crate) fn choose(self, origin: Bytes) -> Result<Bytes, Status> {
        let size = match self.least.max(origin) {
            Bytes::ZERO => self.most.map_or(DEFAULT, |most| cut(most).min(DEFAULT)),
            wanted => Bytes(wanted.get().checked_next_multiple_of(UNIT.get()).unwrap_or(u64::MAX)),
        };
        if size > MOST || size == Bytes::ZERO || !self.contain(size) {
            let most = self.most.unwrap_or(MOST).min(MOST);
            return Err(Status::out_of_range(format!(
                "sizes are multiples of {UNIT} up to {MOST}, and none of them is from {} to {most}{}",
                self.least,
                if origin > Bytes::ZERO {
                    format!(" with room for the {origin} of its origin")
                } else {
                    String::new()
                }
            )));
        }
        Ok(size)
    }
}

/// The largest size that is not more than this.
fn cut(size: Bytes) -> Bytes {
    Bytes(size.get() / UNIT.get() * UNIT.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(required: i64, limit: i64, origin: u64) -> Result<u64, tonic::Code> {
        let range = CapacityRange { required_bytes: required, limit_bytes: limit };
        let size = Bounds::of(Some(range)).and_then(|bounds| bounds.choose(Bytes(origin)));
        size.map(Bytes::get).map_err(|status| status.code())
    }

    #[test]
    fn a_size_is_rounded_up_and_keeps_its_limit() {
        let mib = 1 << 20;
        assert_eq!(chosen(0, 0, 0), Ok(1 << 30));
        assert_eq!(chosen(1, 0, 0), Ok(mib));
        assert_eq!(chosen(mib as i64 + 1, 0, 0), Ok(2 * mib));
        assert_eq!(chosen(mib as i64 + 1, 2 * mib as i64 - 1, 0), Err(tonic::Code::OutOfRange));
        assert_eq!(chosen(0, 5 * mib as i64 + 7, 0), Ok(5 * mib));
        assert_eq!(chosen(0, 7, 0), Err(tonic::Code::OutOfRange));
        assert_eq!(chosen(5, 4, 0), Err(tonic::Code::InvalidArgument));
        assert_eq!(chosen(-5, 0, 0), Err(tonic::Code::InvalidArgument));
        assert_eq!(chosen(1, 0, 3 * mib), Ok(3 * mib), "a copy is as large as its origin");
        assert_eq!(chosen(1, 2 * mib as i64, 3 * mib), Err(tonic::Code::OutOfRange));
        assert_eq!(chosen(i64::MAX, 0, 0), Err(tonic::Code::OutOfRange));
    }
}
