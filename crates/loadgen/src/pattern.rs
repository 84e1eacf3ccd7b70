//! The data that `--verify` writes, and the check of the data that it reads back.
//!
//! Every 64-byte line contains its own address. So lines that were lost, torn, swapped or left from an earlier run are detected and
//! distinguished:
//!
//!   | line number in the namespace (8) | run (8) | 48 bytes derived from both |
//!
//! The run number differs from run to run, so data of an earlier run never passes the check.

use units::Bytes;

/// Bytes per line.
const LINE: usize = 64;
const WORD: usize = 8;

/// The contents found instead of the written data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Where, in bytes from the start of the namespace.
    pub at: Bytes,
    /// The contents of the line.
    pub found: Found,
}

/// The kind of a wrong line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Only zeroes: the write was lost, or the place was deallocated.
    Zeros,
    /// A line of this run that belongs at this byte.
    LineOf(Bytes),
    /// A line of this place from another run: the write of this run was lost.
    Stale,
    /// Neither.
    Garbage,
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "byte {}: ", self.at.get())?;
        match self.found {
            Found::Zeros => f.write_str("zeroes instead of the written data"),
            Found::LineOf(at) => write!(f, "data that was written to byte {}", at.get()),
            Found::Stale => f.write_str("data of an earlier run; this run's write was lost"),
            Found::Garbage => f.write_str("data that was never written there"),
        }
    }
}

/// Fills `buffer`, which goes to byte `offset` (a multiple of 64) of the namespace.
pub(crate) fn fill(buffer: &mut [u8], offset: Bytes, run: u64) {
    let first = offset.get() / LINE as u64;
    for (line, number) in buffer.chunks_exact_mut(LINE).zip(first..) {
        line.copy_from_slice(&line_of(number, run));
    }
}

/// Checks the data read from byte `offset`; the error is the first wrong line.
pub(crate) fn check(buffer: &[u8], offset: Bytes, run: u64) -> Result<(), Mismatch> {
    let first = offset.get() / LINE as u64;
    for (line, number) in buffer.chunks_exact(LINE).zip(first..) {
        if line != line_of(number, run) {
            return Err(Mismatch { at: Bytes(number * LINE as u64), found: diagnose(line, number, run) });
        }
    }
    Ok(())
}

fn line_of(number: u64, run: u64) -> [u8; LINE] {
    let mut line = [0; LINE];
    let mut word = mix(number ^ run.rotate_left(32));
    line[..WORD].copy_from_slice(&number.to_le_bytes());
    line[WORD..2 * WORD].copy_from_slice(&run.to_le_bytes());
    for chunk in line[2 * WORD..].chunks_exact_mut(WORD) {
        chunk.copy_from_slice(&word.to_le_bytes());
        word = mix(word);
    }
    line
}

fn diagnose(line: &[u8], number: u64, run: u64) -> Found {
    let word = |at: usize| u64::from_le_bytes(line[at..at + WORD].try_into().expect("eight bytes"));
    let (found_number, found_run) = (word(0), word(WORD));
    if line.iter().all(|&byte| byte == 0) {
        Found::Zeros
    } else if line != line_of(found_number, found_run) {
        Found::Garbage
    } else if found_run == run {
        Found::LineOf(Bytes(found_number.saturating_mul(LINE as u64)))
    } else if found_number == number {
        Found::Stale
    } else {
        Found::Garbage
    }
}

/// The finaliser of splitmix64: every input bit reaches every output bit.
fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(offset: u64, run: u64) -> Vec<u8> {
        let mut buffer = vec![0; 4096];
        fill(&mut buffer, Bytes(offset), run);
        buffer
    }

    #[test]
    fn what_was_written_passes() {
        assert_eq!(check(&written(8192, 7), Bytes(8192), 7), Ok(()));
    }

    #[test]
    fn a_wrong_line_is_found_and_named() {
        let found = |buffer: &[u8]| check(buffer, Bytes(8192), 7).map_err(|mismatch| mismatch.found);
        assert_eq!(found(&vec![0; 4096]), Err(Found::Zeros));
        assert_eq!(found(&written(4096, 7)), Err(Found::LineOf(Bytes(4096))));
        assert_eq!(found(&written(8192, 6)), Err(Found::Stale));
        for at in [0, 8, 100, 4095] {
            let mut buffer = written(8192, 7);
            buffer[at] ^= 1;
            let mismatch = check(&buffer, Bytes(8192), 7).expect_err("one bit was flipped");
            assert_eq!(mismatch, Mismatch { at: Bytes(8192 + (at as u64 & !63)), found: Found::Garbage });
        }
    }
}
