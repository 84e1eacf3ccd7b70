//! The contents of a block: its number, its version, bytes derived from both, and a checksum.

use super::model::Version;

/// Bytes of a block.
pub(crate) const BLOCK: usize = 4096;
const WORD: usize = 8;
/// Marks a block that was written by this workload.
const MAGIC: u64 = 0x6769_6d62_616c_2e76;

/// Fills a block. Version 0 is a block that was never written: zeroes.
pub(super) fn fill(bytes: &mut [u8], seed: u64, lba: u64, version: Version) {
    let words = bytes.chunks_exact_mut(WORD);
    let last = words.len() - 1;
    let mut state = seed ^ lba.rotate_left(32) ^ version.0;
    let mut sum = 0u64;
    for (index, word) in words.enumerate() {
        state = mix(state);
        let value = match index {
            0 => MAGIC ^ seed,
            1 => lba,
            2 => version.0,
            _ if index == last => sum,
            _ => state,
        };
        sum = mix(sum ^ value);
        word.copy_from_slice(&value.to_le_bytes());
    }
}

/// The version of a block, or a description of the damage.
pub(super) fn read(bytes: &[u8], seed: u64, lba: u64) -> Result<Version, String> {
    if bytes.iter().all(|&byte| byte == 0) {
        return Ok(Version(0));
    }
    let word = |index: usize| {
        u64::from_le_bytes(bytes[index * WORD..][..WORD].try_into().expect("a word is eight bytes"))
    };
    if word(0) != MAGIC ^ seed {
        return Err(format!("block {lba} contains data that was never written: {:016x}…", word(0)));
    }
    if word(1) != lba {
        return Err(format!("block {lba} contains block {}, version {}", word(1), word(2)));
    }
    let version = Version(word(2));
    let mut expected = vec![0; bytes.len()];
    fill(&mut expected, seed, lba, version);
    match bytes.iter().zip(&expected).position(|(found, expected)| found != expected) {
        None => Ok(version),
        Some(at) => Err(format!("block {lba} of version {} is wrong from byte {at} on", version.0)),
    }
}

/// One step of SplitMix64.
fn mix(state: u64) -> u64 {
    let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let state = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ state >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ state >> 31
}

#[test]
fn a_block_of_another_place_another_run_or_with_a_wrong_byte_is_detected() {
    let mut bytes = vec![0; BLOCK];
    assert_eq!(read(&bytes, 1, 7), Ok(Version(0)));
    fill(&mut bytes, 1, 7, Version(3));
    assert_eq!(read(&bytes, 1, 7), Ok(Version(3)));
    assert!(read(&bytes, 1, 8).is_err() && read(&bytes, 2, 7).is_err());
    for at in [16, 24, BLOCK / 2, BLOCK - 1] {
        bytes[at] ^= 1;
        assert!(read(&bytes, 1, 7).is_err(), "byte {at}");
        bytes[at] ^= 1;
    }
}
