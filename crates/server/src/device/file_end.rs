//! The end of a regular file that another program cuts while it is served.
//!
//! Reads behind the new end fail by themselves. But the next write there makes the file long again, and from then on the lost blocks would
//! read as zeros, as if they had been written so. So the first sign of a cut is remembered: everything behind it fails until the device is
//! opened anew.
//!
//! ```text
//!   before   ├──────── data ────────┤
//!   cut      ├──── data ────┤
//!   then     ├──── data ────┤ hole ├w┤     a write that was under way has made it longer again
//!                           ▲
//!                           everything from here on fails
//! ```
//!
//! The length is looked at before each turn's first write, and before its first read if writes were given out since. A write that was given
//! out before the cut and done after it may hide where the cut was: then the walk back from the end passes holes and such writes.
//!
//! Not noticed: another program cuts the file and makes it long again between two looks.
//!
//! Holds: no block behind a cut is read or written again (`blocks_that_were_cut_off_stay_lost`, and `tests/replaced.rs` with a target).

use rustix::fs::{SeekFrom, seek};
use std::fs::File;
use std::io;
use std::ops::Range;
use tracing::error;
use units::Instant;

/// Upper bound for the holes that one look passes: the thread of the SSD waits meanwhile.
const HOLES_MAX: usize = 4096;

/// The length of one file.
pub(super) struct FileEnd {
    file: File,
    /// The device's name, for the log.
    name: String,
    /// The longest that it was found.
    length: u64,
    looked_at: Option<Instant>,
    /// Writes that were given out since the last look, or were not over then, by the caller's number.
    writes: Vec<(u64, Range<u64>)>,
    /// Everything from here on is lost.
    lost_from: Option<u64>,
}

impl FileEnd {
    /// The end of `file`, which has been opened just now for device `name`.
    pub(super) fn of(file: &File, name: &str) -> io::Result<FileEnd> {
        let (file, name) = (file.try_clone()?, name.to_owned());
        let length = file.metadata()?.len();
        Ok(FileEnd { file, name, length, looked_at: None, writes: Vec::new(), lost_from: None })
    }

    /// Checks that all of `range` exists. `is_over` says of an earlier write whether it has ended.
    pub(super) fn expect(
        &mut self,
        now: Instant,
        range: &Range<u64>,
        changes: bool,
        is_over: impl Fn(u64) -> bool,
    ) -> io::Result<()> {
        if self.looked_at != Some(now) && (changes || !self.writes.is_empty()) {
            self.look(None);
            self.looked_at = Some(now);
            self.writes.retain(|(number, _)| !is_over(*number));
        }
        match self.lost_from {
            Some(lost) if range.end > lost => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Notes that a write was given out that may make the file longer.
    pub(super) fn on_write(&mut self, number: u64, range: Range<u64>) {
        self.writes.push((number, range));
    }

    /// Notes that a read of `range` has met the end of the file.
    #[cold]
    pub(super) fn on_short_read(&mut self, range: &Range<u64>) {
        self.look(Some(range.start));
    }

    /// Compares the length with the longest known one. `short` is the place of a read that met the end.
    fn look(&mut self, short: Option<u64>) {
        // An error of the system says nothing of the length; reads and writes will have it too.
        let Ok(metadata) = self.file.metadata() else { return };
        let length = metadata.len();
        if length >= self.length && short.is_none() {
            self.length = length;
            return;
        }
        let cut = self.walk_back(length).min(short.unwrap_or(length));
        if self.lost_from.is_none_or(|lost| cut < lost) {
            error!(
                device = %self.name, cut_at = cut, length = self.length,
                "another program has cut the file of this device: what was behind that byte is lost, and every IO there fails until \
                 the device is opened anew; restore the file and start the target again"
            );
            self.lost_from = Some(cut);
        }
    }

    /// The lowest place where the file may have been cut: everything from there to `end` is holes and writes of this target.
    fn walk_back(&self, end: u64) -> u64 {
        let mut at = end;
        for _ in 0..=2 * self.writes.len() {
            let write =
                self.writes.iter().map(|(_, range)| range).find(|range| range.contains(&(at.max(1) - 1)));
            match write {
                Some(range) => at = range.start,
                // Only writes of this target can have left a hole behind a cut.
                None if at < end => match self.hole_before(at) {
                    Some(start) if start < at => at = start,
                    _ => break,
                },
                None => break,
            }
        }
        at
    }

    /// The start of the hole that ends at `at`. In a file of more than [`HOLES_MAX`] holes, the end of the last one that was looked at.
    fn hole_before(&self, at: u64) -> Option<u64> {
        let mut from = 0;
        for _ in 0..HOLES_MAX {
            let start = seek(&self.file, SeekFrom::Hole(from)).ok().filter(|start| *start < at)?;
            let end = seek(&self.file, SeekFrom::Data(start)).unwrap_or(u64::MAX);
            if end >= at {
                return Some(start);
            }
            from = end;
        }
        Some(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    const MIB: u64 = 1 << 20;

    struct Image(std::path::PathBuf, File);

    impl Image {
        /// A file of 8 MiB, full of data.
        fn new(name: &str) -> Image {
            let path = std::env::temp_dir().join(format!("gimbal-cut-{name}-{}", std::process::id()));
            std::fs::write(&path, vec![7; 8 * MIB as usize]).expect("temporary files can be written");
            let file = File::options().read(true).write(true).open(&path).expect("just made");
            Image(path, file)
        }
    }

    impl Drop for Image {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn at(mib: u64) -> Range<u64> {
        mib * MIB..mib * MIB + 4096
    }

    #[test]
    fn blocks_that_were_cut_off_stay_lost() {
        let image = Image::new("lost");
        let mut end = FileEnd::of(&image.1, "a").expect("a file");
        assert!(end.expect(Instant(1), &at(7), true, |_| true).is_ok());
        image.1.set_len(4 * MIB).expect("it can be cut");
        assert!(end.expect(Instant(2), &at(7), true, |_| true).is_err(), "a write would make it long again");
        assert!(end.expect(Instant(2), &at(3), true, |_| true).is_ok());
        image.1.set_len(8 * MIB).expect("it can be extended");
        for (now, changes) in [(3, true), (4, false)] {
            assert!(end.expect(Instant(now), &at(4), changes, |_| true).is_err(), "its data is lost");
        }
    }

    #[test]
    fn a_read_that_meets_the_end_is_a_sign() {
        let image = Image::new("read");
        let mut end = FileEnd::of(&image.1, "a").expect("a file");
        image.1.set_len(4 * MIB).expect("it can be cut");
        assert!(end.expect(Instant(1), &at(6), false, |_| true).is_ok(), "reads alone are not looked at");
        end.on_short_read(&at(6));
        assert!(end.expect(Instant(1), &at(4), false, |_| true).is_err());
        assert!(end.expect(Instant(1), &at(3), false, |_| true).is_ok());
    }

    #[test]
    fn writes_that_were_under_way_do_not_hide_a_cut() {
        let image = Image::new("late");
        let mut end = FileEnd::of(&image.1, "a").expect("a file");
        for (number, mib) in [(1, 7), (2, 6), (3, 2)] {
            end.expect(Instant(1), &at(mib), true, |_| true).expect("it is whole");
            end.on_write(number, at(mib));
        }
        image.1.set_len(4 * MIB).expect("it can be cut");
        for mib in [7, 6, 2] {
            image.1.write_all_at(&[9; 4096], at(mib).start).expect("there is room");
        }
        assert!(end.expect(Instant(2), &at(5), false, |_| true).is_err(), "a hole that was data");
        assert!(end.expect(Instant(2), &at(4), false, |_| true).is_err());
        assert!(end.expect(Instant(2), &at(3), false, |_| true).is_ok(), "in front of the cut");
        assert!(end.expect(Instant(2), &at(2), false, |_| true).is_ok());
    }
}
