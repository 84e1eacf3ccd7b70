//! Recognizes the contents of a device by the marks that file systems, partition tables, volume managers and others
//! leave on it.
//!
//! Only the first 256 KiB and the last 128 KiB are read. Contents that leave no mark there, such as a database on the
//! bare device, are not found.
//!
//! Holds: what `mkfs.ext4` and `mkswap` write is found (`tests/ssdtest.rs`).

/// Number of bytes that are read at the beginning, and at the end.
pub(super) const HEAD: usize = 256 << 10;
pub(super) const TAIL: usize = 128 << 10;

/// Name, place of the mark, and the mark. The places are those in the formats' own documentation (also in wipefs and
/// file).
const HEAD_MARKS: &[(&str, usize, &[u8])] = &[
    ("an ext2, ext3 or ext4 file system", 0x438, &[0x53, 0xef]),
    ("an XFS file system", 0, b"XFSB"),
    ("a btrfs file system", 0x1_0040, b"_BHRfS_M"),
    ("an F2FS file system", 0x400, &[0x10, 0x20, 0xf5, 0xf2]),
    ("a bcache device", 0x1018, &[0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca]),
    ("a bcachefs file system", 0x1018, &[0xc6, 0x85, 0x73, 0xf6, 0x66, 0xce, 0x90, 0xa9]),
    ("an NTFS file system", 3, b"NTFS    "),
    ("an exFAT file system", 3, b"EXFAT   "),
    ("a FAT file system", 0x36, b"FAT1"),
    ("a FAT file system", 0x52, b"FAT32"),
    ("a BitLocker volume", 3, b"-FVE-FS-"),
    ("an APFS container", 0x20, b"NXSB"),
    ("an HFS+ file system", 0x400, b"H+\x00\x04"),
    ("an HFS+ file system", 0x400, b"HX\x00\x05"),
    ("an EROFS file system", 0x400, &[0xe2, 0xe1, 0xf5, 0xe0]),
    ("a squashfs file system", 0, b"hsqs"),
    ("an ISO 9660 file system", 0x8001, b"CD001"),
    ("a UDF file system", 0x8001, b"BEA01"),
    ("a JFS file system", 0x8000, b"JFS1"),
    ("a ReiserFS file system", 0x1_0034, b"ReIsEr"),
    ("a GFS2 file system", 0x1_0000, &[0x01, 0x16, 0x19, 0x70]),
    ("an OCFS2 file system", 0x2000, b"OCFSV2"),
    ("swap", 4086, b"SWAPSPACE2"),
    ("swap", 4086, b"SWAP-SPACE"),
    ("swap", 65526, b"SWAPSPACE2"),
    ("a hibernated system", 4086, b"S1SUSPEND"),
    ("a LUKS volume", 0, b"LUKS\xba\xbe"),
    ("a LUKS volume", 0x4000, b"SKUL\xba\xbe"),
    ("an LVM physical volume", 0, b"LABELONE"),
    ("an LVM physical volume", 512, b"LABELONE"),
    ("an LVM physical volume", 1024, b"LABELONE"),
    ("an LVM physical volume", 1536, b"LABELONE"),
    ("a member of an md array", 0, &[0xfc, 0x4e, 0x2b, 0xa9]),
    ("a member of an md array", 4096, &[0xfc, 0x4e, 0x2b, 0xa9]),
    ("a Stratis pool", 0x208, b"!Stra0tis"),
    ("a VDO volume", 0, b"dmvdo001"),
    ("dm-integrity", 0, b"integrt\0"),
    ("dm-verity", 0, b"verity\0\0"),
    ("a Ceph BlueStore", 0, b"bluestore block device"),
    ("an Oracle ASM disk", 0x20, b"ORCLDISK"),
    ("an SPDK blobstore", 0, b"SPDKBLOB"),
    ("a GPT partition table", 512, b"EFI PART"),
    ("a GPT partition table", 4096, b"EFI PART"),
];

/// The same, with the distance of the mark from the end.
const TAIL_MARKS: &[(&str, usize, &[u8])] = &[
    ("a GPT partition table", 512, b"EFI PART"),
    ("a GPT partition table", 4096, b"EFI PART"),
    ("a member of a firmware RAID", 1024, b"Intel Raid ISM Cfg Sig. "),
    ("a member of a firmware RAID", 512, &[0xde, 0x11, 0xde, 0x11]),
];

const ZFS: &str = "a ZFS pool";
/// The marks of ZFS are anywhere in a ring of blocks.
const ZFS_RING: std::ops::Range<usize> = 128 << 10..256 << 10;
const ZFS_STEP: usize = 1 << 10;
const ZFS_MARK: [u8; 8] = 0x00ba_b10c_u64.to_le_bytes();
const MD: &str = "a member of an md array";
const MD_MARK: [u8; 4] = 0xa92b_4efc_u32.to_le_bytes();
/// Checked last, because many file systems have this mark too.
const BOOT: &str = "a partition table or a boot sector";
const BOOT_MARK: (usize, [u8; 2]) = (510, [0x55, 0xaa]);

/// Names the contents of a device of `size` bytes; `head` are its first bytes, `tail` its last ones.
pub(super) fn found(head: &[u8], tail: &[u8], size: u64) -> Vec<&'static str> {
    let has =
        |bytes: &[u8], at: usize, mark: &[u8]| bytes.get(at..).is_some_and(|rest| rest.starts_with(mark));
    let from_end = |distance: u64, mark: &[u8]| {
        let at = (tail.len() as u64).checked_sub(distance);
        at.is_some_and(|at| has(tail, at as usize, mark))
    };
    let in_head = HEAD_MARKS.iter().filter(|(_, at, mark)| has(head, *at, mark)).map(|row| row.0);
    let in_tail = TAIL_MARKS.iter().filter(|(_, at, mark)| from_end(*at as u64, mark)).map(|row| row.0);
    let mut names: Vec<&str> = in_head.chain(in_tail).collect();
    if ZFS_RING.step_by(ZFS_STEP).any(|at| has(head, at, &ZFS_MARK)) {
        names.push(ZFS);
    }
    // md: version 0.90 is in the last whole 64 KiB but one, version 1.0 at 8 KiB before the end, at a multiple of 4 KiB.
    let places =
        [size.saturating_sub(size % (64 << 10) + (64 << 10)), size.saturating_sub(8 << 10) / 4096 * 4096];
    if places.into_iter().any(|at| from_end(size - at, &MD_MARK)) {
        names.push(MD);
    }
    if names.is_empty() && has(head, BOOT_MARK.0, &BOOT_MARK.1) {
        names.push(BOOT);
    }
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = (1 << 30) + 12 * 4096;

    /// Names found on a device with these bytes at this place.
    fn with(at: u64, mark: &[u8]) -> Vec<&'static str> {
        let (mut head, mut tail) = (vec![0; HEAD], vec![0; TAIL]);
        if at < HEAD as u64 {
            head[at as usize..][..mark.len()].copy_from_slice(mark);
        } else {
            tail[(at - (SIZE - TAIL as u64)) as usize..][..mark.len()].copy_from_slice(mark);
        }
        found(&head, &tail, SIZE)
    }

    #[test]
    fn every_mark_is_found_where_it_is() {
        for (name, at, mark) in HEAD_MARKS {
            assert_eq!(with(*at as u64, mark), [*name]);
        }
        for (name, at, mark) in TAIL_MARKS {
            assert_eq!(with(SIZE - *at as u64, mark), [*name]);
        }
        assert_eq!(with(130 << 10, &ZFS_MARK), [ZFS]);
        assert_eq!(with(SIZE / 65536 * 65536 - 65536, &MD_MARK), [MD]);
        assert_eq!(with(SIZE - 8192, &MD_MARK), [MD]);
        assert_eq!(with(510, &[0x55, 0xaa]), [BOOT]);
    }

    #[test]
    fn a_blank_device_and_a_tiny_one_carry_nothing() {
        assert!(found(&[0; HEAD], &[0; TAIL], SIZE).is_empty());
        assert!(found(&[0; 4096], &[0; 4096], 4096).is_empty());
        assert!(found(&[], &[], 0).is_empty());
    }
}
