//! `gimbal lab report`: runs experiments and writes the results into a folder.
//!
//! ```text
//!  DIR/index.html        claims, figures and numbers on one page that needs no other file
//!  DIR/figures/*.svg     every figure on every profile; *.png the same as pixels
//!  DIR/records.jsonl     a record for each run
//!  DIR/claims.jsonl      a row for each claim, profile and scheduler
//! ```

use super::run::conduct;
use super::select::Selection;
use crate::output::{self, Destination};
use ::lab::report::{Chapter, html};
use ::lab::runner::Images;
use anyhow::{Context, Result, anyhow};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `gimbal lab report`.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    selection: Selection,
    /// The folder to write; created if it does not exist
    #[arg(long, value_name = "DIR", default_value = "gimbal-lab")]
    out: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    args.selection.refuse_racks()?;
    let experiments = args.selection.experiments()?;
    let mut folder = Folder::open(&args.out)?;
    let images = Images::default();
    let mut chapters = Vec::new();
    for experiment in experiments {
        let chapter = Chapter::new(conduct(experiment, &images)?);
        folder.add(&chapter)?;
        chapters.push(chapter);
    }
    folder.close(&html(&chapters))?;
    Ok(ExitCode::SUCCESS)
}

/// The page until the report is complete.
const UNFINISHED: &str = "<!doctype html><title>Unfinished report</title><p>This report is still being made, or its making was \
                          interrupted: run <code>gimbal lab report</code> again.</p>";

/// The folder of a report in progress.
struct Folder {
    path: PathBuf,
    records: Destination,
    claims: Destination,
    written: Written,
}

#[derive(Default)]
struct Written {
    records: usize,
    claims: usize,
    figures: usize,
}

impl Folder {
    /// Opens all files, so that a folder that cannot be written is reported before the work and not after it.
    fn open(path: &Path) -> Result<Folder> {
        let figures = path.join("figures");
        fs::create_dir_all(&figures).with_context(|| {
            format!("the folder {} cannot be made; name another place with --out", figures.display())
        })?;
        // Each figure is a file of its own, so check with one that new files can be created.
        let trial = figures.join(".trial");
        create(&trial)?;
        fs::remove_file(&trial).with_context(|| format!("removing {}", trial.display()))?;
        let mut page = create(&page_of(path))?;
        page.line(UNFINISHED)?;
        page.close()?;
        Ok(Folder {
            path: path.to_owned(),
            records: create(&path.join("records.jsonl"))?,
            claims: create(&path.join("claims.jsonl"))?,
            written: Written::default(),
        })
    }

    fn add(&mut self, chapter: &Chapter) -> Result<()> {
        for record in &chapter.findings.records {
            self.records.line(&serde_json::to_string(record)?)?;
            self.written.records += 1;
        }
        for row in chapter.findings.rows() {
            self.claims.line(&serde_json::to_string(&row)?)?;
            self.written.claims += 1;
        }
        for figure in &chapter.figures {
            let at = |end: &str| self.path.join("figures").join(format!("{}.{end}", figure.name));
            for (path, bytes) in [(at("svg"), figure.svg.as_bytes()), (at("png"), &figure.png())] {
                output::write_file(&path, bytes)?;
            }
            self.written.figures += 1;
        }
        Ok(())
    }

    fn close(self, page: &str) -> Result<()> {
        for lines in [self.records, self.claims] {
            lines.close()?;
        }
        output::write_file(&page_of(&self.path), format!("{page}\n").as_bytes())?;
        let Written { records, claims, figures } = self.written;
        output::line(format_args!(
            "{}: {claims} rows of claims, {figures} figures",
            page_of(&self.path).display()
        ))?;
        output::line(format_args!(
            "{}: {figures} figures as SVG and PNG",
            self.path.join("figures").display()
        ))?;
        output::line(format_args!("{}: {records} runs", self.path.join("records.jsonl").display()))?;
        output::line(format_args!("{}: {claims} rows", self.path.join("claims.jsonl").display()))?;
        Ok(())
    }
}

/// Opens a file of the folder.
fn create(path: &Path) -> Result<Destination> {
    Destination::create(path).map_err(|error| anyhow!("{error:#}; name another place with --out"))
}

fn page_of(folder: &Path) -> PathBuf {
    folder.join("index.html")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_cannot_be_written_is_refused_before_the_work() {
        let scratch = std::env::temp_dir().join(format!("gimbal-report-{}", std::process::id()));
        fs::create_dir_all(&scratch).expect("a scratch folder");
        let in_the_way = scratch.join("file");
        fs::write(&in_the_way, "x").expect("a file");
        let error = format!("{:#}", Folder::open(&in_the_way).err().expect("a file is no folder"));
        assert!(error.contains("file") && error.contains("--out"), "{error}");
        let taken = scratch.join("taken");
        fs::create_dir_all(taken.join("index.html")).expect("a folder where the page would be");
        let error = format!("{:#}", Folder::open(&taken).err().expect("the page cannot be written"));
        assert!(error.contains("index.html") && error.contains("--out"), "{error}");
        fs::remove_dir_all(&scratch).expect("the scratch folder goes");
    }

    #[test]
    fn a_report_that_was_interrupted_says_so_and_a_finished_one_does_not() {
        let scratch = std::env::temp_dir().join(format!("gimbal-unfinished-{}", std::process::id()));
        let page = || fs::read_to_string(page_of(&scratch)).expect("a page");
        let folder = Folder::open(&scratch).expect("a place that can be written");
        assert!(page().contains("interrupted"), "{}", page());
        folder.close("<p>claims</p>").expect("a place that can be written");
        assert_eq!(page(), "<p>claims</p>\n");
        fs::remove_dir_all(&scratch).expect("the scratch folder goes");
    }
}
