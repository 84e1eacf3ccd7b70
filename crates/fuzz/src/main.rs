//! `cargo run -p fuzz -- ...`: lists the targets, and replays inputs.
//!
//! ```text
//!   fuzz                      the targets, one per line
//!   fuzz TARGET FILE...       runs the inputs in these files (of these folders)
//!   fuzz TARGET --seed N [M]  runs the input of seed N (of seeds N to M), as a short run makes it
//!   fuzz TARGET --write N FILE  writes that input to a file
//! ```

use fuzz::{Target, generate};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            eprintln!("fuzz: {wrong}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Result<(), String> {
    let [name, rest @ ..] = words else {
        fuzz::TARGETS.iter().for_each(|target| println!("{:<16} {}", target.name, target.about));
        return Ok(());
    };
    let target = fuzz::target(name).ok_or_else(|| format!("there is no target {name:?}"))?;
    match rest {
        ["--seed", first] => seeds(target, number(first)?, number(first)?),
        ["--seed", first, last] => seeds(target, number(first)?, number(last)?),
        ["--write", seed, file] => {
            std::fs::write(file, seeded(target, number(seed)?))
                .map_err(|error| format!("{file}: {error}"))?;
        }
        [] => return Err("no input: name files or folders, or give --seed N".to_owned()),
        files => {
            for file in files {
                replay(target, Path::new(file))?;
            }
        }
    }
    Ok(())
}

fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("{word:?} is not a seed"))
}

fn seeded(target: &Target, seed: u64) -> Vec<u8> {
    let corpus: Vec<Vec<u8>> = target.corpus().into_iter().map(|(_, bytes)| bytes).collect();
    generate::input(seed, &corpus, target.length_max)
}

fn seeds(target: &Target, first: u64, last: u64) {
    let corpus: Vec<Vec<u8>> = target.corpus().into_iter().map(|(_, bytes)| bytes).collect();
    for seed in first..=last {
        (target.run)(&generate::input(seed, &corpus, target.length_max));
    }
    println!("{}: {} inputs passed", target.name, last - first + 1);
}

fn replay(target: &Target, path: &Path) -> Result<(), String> {
    let wrong = |error| format!("{}: {error}", path.display());
    if path.is_dir() {
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(path).map_err(wrong)? {
            paths.push(entry.map_err(wrong)?.path());
        }
        paths.sort();
        return paths.iter().try_for_each(|path| replay(target, path));
    }
    let bytes = std::fs::read(path).map_err(wrong)?;
    (target.run)(&bytes);
    println!("{}: {}: passed", target.name, path.display());
    Ok(())
}
