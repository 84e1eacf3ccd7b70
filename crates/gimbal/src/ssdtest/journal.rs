//! The journal of a probe in a file: the results so far, so that an interrupted probe can continue.
//!
//! ```text
//!  {"begin": {format, device, config}}     one line: the device and the options of the probe
//!  {"entry": {task, results}}              one line for each task that ended
//!  "end"                                   the probe is complete
//! ```
//!
//! A process that is killed leaves at most the last line incomplete; its task is repeated. The journal need not survive
//! a crash of the machine: it is not synced, because that would disturb the device under test.
//!
//! Holds: a journal of another device or of other options is refused, with the difference
//!        (`a_journal_of_something_else_is_refused`);
//!        a line that was cut off is left out (`a_line_that_was_cut_off_is_done_again`).

use anyhow::{Context, Result, bail};
use probe::{Config, Entry};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The version of the format. A probe of another version may ask different questions.
const FORMAT: u32 = 1;

/// The device and the options of a probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Begin {
    format: u32,
    /// Identifies the device.
    device: String,
    config: Config,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Begin(Begin),
    Entry(Entry),
    End,
}

/// An open journal.
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    written: usize,
}

impl Begin {
    pub(super) fn new(device: String, config: Config) -> Begin {
        Begin { format: FORMAT, device, config }
    }

    /// Describes the difference to another probe.
    fn difference(&self, wanted: &Begin) -> Option<String> {
        if self.format != wanted.format {
            return Some(format!("it has format {}, and this gimbal writes {}", self.format, wanted.format));
        }
        if self.device != wanted.device {
            return Some("it is of another device".to_owned());
        }
        let (found, wanted) = (&self.config, &wanted.config);
        (found != wanted)
            .then(|| format!("it is of a probe with other options ({found}); this one: {wanted}"))
    }
}

impl Journal {
    /// Starts a new journal.
    ///
    /// # Errors
    /// The file is the journal of a probe that was not completed, or cannot be written.
    pub(super) fn create(path: &Path, begin: Begin) -> Result<Journal> {
        if let Some((_, entries, false)) = read(path)?.lines {
            bail!(
                "{}: an interrupted probe left its journal here ({entries} tasks are done); to continue it: --resume; to start again, \
                 remove the file or name another folder: --out",
                path.display(),
                entries = entries.len()
            );
        }
        let file = File::create(path).with_context(|| format!("{} cannot be written", path.display()))?;
        let mut journal = Journal { path: path.to_owned(), file, written: 0 };
        journal.line(&Line::Begin(begin))?;
        Ok(journal)
    }

    /// Continues a journal. Returns its entries.
    ///
    /// # Errors
    /// There is no journal, it is of another device or of other options, or the file cannot be written.
    pub(super) fn resume(path: &Path, begin: &Begin) -> Result<(Journal, Vec<Entry>)> {
        let Read { lines, good_bytes } = read(path)?;
        let Some((found, entries, _)) = lines else {
            bail!(
                "{}: no probe to continue: there is no journal; leave out --resume to start one",
                path.display()
            );
        };
        if let Some(difference) = found.difference(begin) {
            bail!(
                "{}: the probe cannot be continued: {difference}; give the options of the first start, or leave out --resume, \
                 remove the file and start again",
                path.display()
            );
        }
        let open = || {
            let mut file = OpenOptions::new().write(true).open(path)?;
            file.set_len(good_bytes)?;
            file.seek(SeekFrom::End(0)).map(|_| file)
        };
        let file = open().with_context(|| format!("{} cannot be written", path.display()))?;
        Ok((Journal { path: path.to_owned(), file, written: entries.len() }, entries))
    }

    /// Appends the entries that are not in the journal yet.
    pub(super) fn keep(&mut self, entries: &[Entry]) -> Result<()> {
        for entry in &entries[self.written.min(entries.len())..] {
            self.line(&Line::Entry(entry.clone()))?;
            self.written += 1;
        }
        Ok(())
    }

    /// Marks the probe as complete.
    pub(super) fn end(mut self) -> Result<()> {
        self.line(&Line::End)
    }

    fn line(&mut self, line: &Line) -> Result<()> {
        let mut text = serde_json::to_string(line).context("cannot make JSON of the journal")?;
        text.push('\n');
        self.file.write_all(text.as_bytes()).with_context(|| {
            format!("{} cannot be written; make room, then continue with --resume", self.path.display())
        })
    }
}

/// The contents of a journal.
struct Read {
    /// The first line, the entries, and whether the probe is complete. `None`: there is no file, or not even a whole
    /// first line.
    lines: Option<(Begin, Vec<Entry>, bool)>,
    /// The length of the whole lines, without the line for the end.
    good_bytes: u64,
}

fn read(path: &Path) -> Result<Read> {
    let text = match files::read_text(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).with_context(|| format!("{} cannot be read", path.display())),
    };
    let mut read = Read { lines: None, good_bytes: 0 };
    for line in text.split_inclusive('\n') {
        let number = read.lines.as_ref().map_or(1, |(_, entries, _)| entries.len() + 2);
        let parsed = serde_json::from_str(line);
        let parsed = match parsed {
            Ok(parsed) if line.ends_with('\n') => parsed,
            // The process was killed while it wrote this line.
            _ if !line.ends_with('\n') => break,
            parsed => parsed.with_context(|| {
                format!(
                    "{}: line {number} is not of a journal; remove the file and start again",
                    path.display()
                )
            })?,
        };
        match (parsed, &mut read.lines) {
            (Line::Begin(begin), lines @ None) => *lines = Some((begin, Vec::new(), false)),
            (Line::Entry(entry), Some((_, entries, _))) => entries.push(entry),
            (Line::End, Some((_, _, ended))) => {
                *ended = true;
                break;
            }
            _ => bail!(
                "{}: line {number} is not of a journal; remove the file and start again",
                path.display()
            ),
        }
        read.good_bytes += line.len() as u64;
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Bytes;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            Scratch(std::env::temp_dir().join(format!("gimbal-journal-{name}-{}", std::process::id())))
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn begin(device: &str) -> Begin {
        Begin::new(device.to_owned(), Config::quick(Bytes::gib(1), 4096))
    }

    /// A probe of a simulated SSD that reads only, up to its first few tasks.
    fn entries() -> Vec<Entry> {
        let profile = ssd::Profile::named("dct983").expect("built in");
        let mut device = probe::Simulated::new(ssd::Ssd::new(&profile, ssd::Condition::Clean, 1));
        let config = Config::quick(device.size(), 4096).read_only();
        let mut prober = probe::Prober::new(config).expect("valid");
        let Ok(()) = probe::drive(&mut prober, &mut device, |_, _| Ok(()));
        prober.journal()[..3].to_vec()
    }

    #[test]
    fn a_line_that_was_cut_off_is_done_again() {
        let scratch = Scratch::new("cut");
        let entries = entries();
        let mut journal = Journal::create(&scratch.0, begin("one")).expect("new");
        journal.keep(&entries).expect("room");
        drop(journal);
        let text = std::fs::read(&scratch.0).expect("written");
        std::fs::write(&scratch.0, &text[..text.len() - 10]).expect("room");
        let (mut journal, found) = Journal::resume(&scratch.0, &begin("one")).expect("the same");
        assert_eq!(found, entries[..2]);
        journal.keep(&entries).expect("room");
        journal.end().expect("room");
        let (_, found) = Journal::resume(&scratch.0, &begin("one")).expect("the same");
        assert_eq!(found, entries, "nothing is left of the line that was cut off");
    }

    #[test]
    fn a_journal_of_something_else_is_refused() {
        let scratch = Scratch::new("other");
        let refused = |begin: &Begin| {
            let error = Journal::resume(&scratch.0, begin).err().expect("refused");
            format!("{error:#}")
        };
        assert!(refused(&begin("one")).contains("there is no journal"));
        drop(Journal::create(&scratch.0, begin("one")).expect("new"));
        assert!(refused(&begin("two")).contains("of another device"));
        let other = Begin::new("one".to_owned(), Config::quick(Bytes::gib(1), 4096).read_only());
        let said = refused(&other);
        assert!(said.contains("other options (overwrites") && said.contains("writes nothing"), "{said}");
        std::fs::write(&scratch.0, "no journal\n").expect("room");
        assert!(refused(&begin("one")).contains("line 1 is not of a journal"));
    }

    #[test]
    fn an_interrupted_probe_is_not_overwritten_and_a_complete_one_is() {
        let scratch = Scratch::new("again");
        let journal = Journal::create(&scratch.0, begin("one")).expect("new");
        let error = Journal::create(&scratch.0, begin("one")).err().expect("refused").to_string();
        assert!(error.contains("--resume") && error.contains("0 tasks"), "{error}");
        journal.end().expect("room");
        drop(Journal::create(&scratch.0, begin("one")).expect("complete"));
    }
}
