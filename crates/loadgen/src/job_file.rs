//! Reads fio's job files.
//!
//! ```text
//!   ; a comment            # another one
//!   [global]               for the jobs below, until another [global] changes it
//!   bs=4k
//!   [reader]               a job and its name
//!   rw=randread
//!   size=${SIZE}           a variable of the environment
//!   norandommap            a switch
//! ```
//!
//! The options of jobs are those of the command line. An option that `gimbal bench` does not know is an error with file and line,
//! so no option is ignored silently. Options in `options::WITHOUT_EFFECT` are accepted and reported.

use crate::settings::{Origin, SettingError, Settings};
use ini_core::{Item, Parser};
use std::path::{Path, PathBuf};

/// The section that is not a job.
const GLOBAL: &str = "global";

/// A job file that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum JobFileError {
    /// The file cannot be read.
    #[error("cannot read the job file {file}: {1}", file = .0.display())]
    Read(PathBuf, std::io::Error),
    /// A line cannot be parsed: file, line, its text.
    #[error("{file}:{1}: `{2}` is neither [section] nor option=value", file = .0.display())]
    Syntax(PathBuf, u32, String),
    /// An option is above the first section.
    #[error("{file}:{1}: {2} is above the first section; put [{GLOBAL}] or [NAME] before it", file = .0.display())]
    NoSection(PathBuf, u32, String),
    /// A variable is not set: file, line, name.
    #[error("{file}:{1}: the environment variable {2} is not set", file = .0.display())]
    Variable(PathBuf, u32, String),
    /// An option is wrong.
    #[error("{0}")]
    Setting(SettingError),
    /// The file has no job.
    #[error("{} has no job; write [NAME] and below it the options of the job", .0.display())]
    NoJobs(PathBuf),
}

/// Reads the jobs of a file, each with the options of `[global]` above it.
pub(crate) fn read(path: &Path) -> Result<Vec<Settings>, JobFileError> {
    let text = files::read_text(path).map_err(|error| JobFileError::Read(path.to_owned(), error))?;
    parse(path, &text, |name| std::env::var(name).ok())
}

fn parse(
    path: &Path,
    text: &str,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Vec<Settings>, JobFileError> {
    let mut global = Settings::default();
    let mut jobs: Vec<Settings> = Vec::new();
    // Whether the current section is a job; `None` above the first section.
    let mut is_job = None;
    let mut parser = Parser::new(text).auto_trim(true);
    while let Some(item) = parser.next() {
        let line = parser.line();
        let (name, value) = match item {
            Item::Blank | Item::Comment(_) | Item::SectionEnd => continue,
            // The parser knows only one comment character, and only at the very start of a line.
            Item::Property(name, _) if name.starts_with(['#', ';']) => continue,
            Item::Section(name) => {
                begin(name, path, line, &global, &mut jobs, &mut is_job)?;
                continue;
            }
            // The parser does not accept spaces around the brackets; fio does.
            Item::Error(text) | Item::Property(text, None) if is_section(text) => {
                let text = text.trim();
                begin(&text[1..text.len() - 1], path, line, &global, &mut jobs, &mut is_job)?;
                continue;
            }
            Item::Error(text) => return Err(JobFileError::Syntax(path.to_owned(), line, text.to_owned())),
            Item::Property(name, value) => (name, value),
        };
        let value = value.map(without_comment).map(|value| {
            expand(value, &variable).map_err(|name| JobFileError::Variable(path.to_owned(), line, name))
        });
        let value = value.transpose()?;
        let section = match is_job {
            None => return Err(JobFileError::NoSection(path.to_owned(), line, name.to_owned())),
            Some(false) => &mut global,
            Some(true) => jobs.last_mut().expect("a job has begun"),
        };
        let mut own = Settings::default();
        own.set(name, value.as_deref(), Origin::Line(path.to_owned(), line))
            .map_err(JobFileError::Setting)?;
        *section = section.overlaid(&own);
    }
    if jobs.is_empty() { Err(JobFileError::NoJobs(path.to_owned())) } else { Ok(jobs) }
}

/// The value without a comment behind it: fio takes `;` and `#` for the start of one after a space.
fn without_comment(value: &str) -> &str {
    let begins = |at: &usize| value[..*at].ends_with([' ', '\t']);
    let comment = value.match_indices(['#', ';']).map(|(at, _)| at).find(begins);
    comment.map_or(value, |at| value[..at].trim_end())
}

fn is_section(text: &str) -> bool {
    text.trim().starts_with('[') && text.trim().ends_with(']')
}

fn begin(
    name: &str,
    path: &Path,
    line: u32,
    global: &Settings,
    jobs: &mut Vec<Settings>,
    is_job: &mut Option<bool>,
) -> Result<(), JobFileError> {
    let name = name.trim();
    if name.is_empty() || name.starts_with('[') {
        return Err(JobFileError::Syntax(path.to_owned(), line, format!("[{name}]")));
    }
    *is_job = Some(name != GLOBAL);
    if name != GLOBAL {
        let mut job = global.clone();
        job.set("name", Some(name), Origin::Line(path.to_owned(), line)).map_err(JobFileError::Setting)?;
        jobs.push(job);
    }
    Ok(())
}

/// Replaces `${NAME}`. The error is the name of a variable that is not set.
fn expand(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let (mut expanded, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, behind)) = after.split_once('}') else { break };
        expanded += before;
        expanded += &variable(name).ok_or_else(|| name.to_owned())?;
        rest = behind;
    }
    Ok(expanded + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jobs(text: &str) -> Result<Vec<Settings>, JobFileError> {
        parse(Path::new("a.fio"), text, |name| (name == "SIZE").then(|| "64m".to_owned()))
    }

    fn text(job: &Settings, name: &'static str) -> Option<String> {
        job.read(name, |text| Ok(text.to_owned())).expect("any text will do")
    }

    #[test]
    fn a_job_file_of_fio_is_read_as_it_is() {
        let jobs = jobs(
            "; made for an SSD\n# by hand\n[global]\nioengine=libaio\ndirect=1\nbs = 4k\ngroup_reporting\n\n[ reader ]\nrw=randread\n  ; inside\nsize=${SIZE}\nfilename=/dev/nvme0n1\n[global]\nbs=64k\r\n[writer] \nreadwrite=write\nnorandommap\n",
        )
        .expect("fio reads it");
        let all: Vec<_> = ["name", "rw", "bs", "size", "norandommap", "group_reporting"]
            .into_iter()
            .map(|name| (text(&jobs[0], name), text(&jobs[1], name)))
            .collect();
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            all,
            [
                (some("reader"), some("writer")),
                (some("randread"), some("write")),
                (some("4k"), some("64k")),
                (some("64m"), None),
                (None, some("1")),
                (some("1"), some("1")),
            ]
        );
        let idle: Vec<&str> = jobs[0].without_effect().collect();
        assert_eq!(idle, ["ioengine", "direct", "filename"]);
    }

    #[test]
    fn a_mistake_is_named_with_its_line() {
        let message = |text| jobs(text).expect_err("it is wrong").to_string();
        assert!(message("[a]\nrw=read\nthinktime=5\n").starts_with("a.fio:3: `thinktime` is not an option"));
        assert!(
            message("[a]\n\n; x\nsize=${LENGTH}\n")
                .starts_with("a.fio:4: the environment variable LENGTH is not set")
        );
        assert!(message("bs=4k\n[a]\n").starts_with("a.fio:1: bs is above the first section"));
        assert!(message("[a\nrw=read\n").starts_with("a.fio:1: `[a` is neither"));
        assert!(message("[[job]]\nrw=read\n").starts_with("a.fio:1: `[[job]"), "{}", message("[[job]]\n"));
        assert!(message("[a]\niodepth\n").starts_with("a.fio:2: iodepth has no value"));
        assert!(message("[global]\nbs=4k\n").contains("has no job"));
    }
}
