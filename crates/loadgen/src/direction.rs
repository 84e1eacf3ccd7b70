//! The work of a job, in fio's terms, and the direction of its IOs.

use serde::Serialize;

/// The work of a job.
#[allow(clippy::enum_variant_names, reason = "`rw` is fio's word for a mix, and its name for the option")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Rw {
    /// Reads one block after the other.
    Read,
    /// Writes one block after the other.
    Write,
    /// Reads anywhere.
    RandRead,
    /// Writes anywhere.
    RandWrite,
    /// Reads and writes, each one block after the other.
    Rw,
    /// Reads and writes anywhere.
    RandRw,
    /// Deallocates one block after the other.
    Trim,
    /// Deallocates anywhere.
    RandTrim,
    /// Deallocates a block, then writes it; one block after the other.
    TrimWrite,
    /// Deallocates a block, then writes it; anywhere.
    RandTrimWrite,
}

impl Rw {
    /// All kinds.
    pub const ALL: [Rw; 10] = [
        Rw::Read,
        Rw::Write,
        Rw::RandRead,
        Rw::RandWrite,
        Rw::Rw,
        Rw::RandRw,
        Rw::Trim,
        Rw::RandTrim,
        Rw::TrimWrite,
        Rw::RandTrimWrite,
    ];

    /// Parses fio's name.
    pub fn parse(text: &str) -> Result<Rw, String> {
        let text = if text == "readwrite" { "rw" } else { text };
        Rw::ALL
            .into_iter()
            .find(|rw| rw.name() == text)
            .ok_or_else(|| format!("write one of {}", Rw::ALL.map(Rw::name).join(", ")))
    }

    /// Blocks are picked at random.
    pub fn is_random(self) -> bool {
        matches!(self, Rw::RandRead | Rw::RandWrite | Rw::RandRw | Rw::RandTrim | Rw::RandTrimWrite)
    }

    /// Each block is deallocated and then written.
    pub fn writes_after_trims(self) -> bool {
        matches!(self, Rw::TrimWrite | Rw::RandTrimWrite)
    }

    /// The directions of its IOs.
    pub fn directions(self) -> &'static [Direction] {
        match self {
            Rw::Read | Rw::RandRead => &[Direction::Read],
            Rw::Write | Rw::RandWrite => &[Direction::Write],
            Rw::Rw | Rw::RandRw => &[Direction::Read, Direction::Write],
            Rw::Trim | Rw::RandTrim => &[Direction::Trim],
            Rw::TrimWrite | Rw::RandTrimWrite => &[Direction::Trim, Direction::Write],
        }
    }

    /// Some IOs write.
    pub fn writes(self) -> bool {
        self.directions().contains(&Direction::Write)
    }

    /// Some IOs deallocate.
    pub fn trims(self) -> bool {
        self.directions().contains(&Direction::Trim)
    }

    /// fio's name.
    pub fn name(self) -> &'static str {
        match self {
            Rw::Read => "read",
            Rw::Write => "write",
            Rw::RandRead => "randread",
            Rw::RandWrite => "randwrite",
            Rw::Rw => "rw",
            Rw::RandRw => "randrw",
            Rw::Trim => "trim",
            Rw::RandTrim => "randtrim",
            Rw::TrimWrite => "trimwrite",
            Rw::RandTrimWrite => "randtrimwrite",
        }
    }
}

/// The direction of an IO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Data from the target.
    Read,
    /// Data to the target.
    Write,
    /// No data: the blocks are deallocated.
    Trim,
}

/// Number of directions.
pub const DIRECTIONS: usize = Direction::ALL.len();

impl Direction {
    /// All, in the order of results and of fio's values with commas.
    pub const ALL: [Direction; 3] = [Direction::Read, Direction::Write, Direction::Trim];

    /// The direction as an index into arrays of [`DIRECTIONS`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Direction::Read => "read",
            Direction::Write => "write",
            Direction::Trim => "trim",
        }
    }
}

/// Parses values for reads, writes and trims: `8k` is for all, `8k,64k` for reads and for the rest; an empty value is the default.
pub(crate) fn per_direction<T: Clone>(
    text: &str,
    mut read: impl FnMut(&str) -> Result<T, String>,
) -> Result<[Option<T>; DIRECTIONS], String> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    if parts.len() > DIRECTIONS {
        return Err("write at most three values, for reads, writes and trims".to_owned());
    }
    let mut values = parts
        .iter()
        .map(|part| if part.is_empty() { Ok(None) } else { read(part).map(Some) })
        .collect::<Result<Vec<_>, _>>()?;
    let last = values.last().cloned().flatten();
    values.resize(DIRECTIONS, last);
    Ok(std::array::from_fn(|direction| values[direction].clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_with_commas_mean_what_fio_says() {
        let read = |text| per_direction(text, |part| part.parse::<u8>().map_err(|error| error.to_string()));
        assert_eq!(read("8"), Ok([Some(8); 3]));
        assert_eq!(read("8,32"), Ok([Some(8), Some(32), Some(32)]));
        assert_eq!(read("8,32,64"), Ok([Some(8), Some(32), Some(64)]));
        assert_eq!(read(",8"), Ok([None, Some(8), Some(8)]));
        assert_eq!(read(",8,"), Ok([None, Some(8), None]));
        assert_eq!(read("8,"), Ok([Some(8), None, None]));
        assert!(read("1,2,3,4").is_err() && read("x").is_err());
    }

    #[test]
    fn every_kind_has_one_name() {
        for rw in Rw::ALL {
            assert_eq!(Rw::parse(rw.name()), Ok(rw));
        }
        assert_eq!(Rw::parse("readwrite"), Ok(Rw::Rw));
        assert!(Rw::parse("random").expect_err("no kind").contains("write one of read, "));
    }
}
