//! Links between pages: each leads to a file that exists and, with `#`, to a heading of it.
//!
//! Pages that the code names exist too, and the index of docs/ names every page.

use crate::pages::{ROOT, files, pages, prose, text};
use std::path::Path;

/// Folders whose files may name pages, as in "docs/level.md".
const NAMING: [&str; 8] =
    ["calibrations", "crates", "examples", "experiments", "fuzz", "rocksdb", "tests", "docs/clauses"];

/// The targets of the links of a page.
fn links(page: &str) -> Vec<String> {
    let lines: Vec<&str> = prose(page).collect();
    lines
        .join("\n")
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.to_owned())
        .collect()
}

/// The anchors of a page's headings, as code hosts generate them.
fn anchors(page: &str) -> Vec<String> {
    let of = |heading: &str| {
        let kept = |of: &char| of.is_alphanumeric() || matches!(of, ' ' | '-' | '_');
        heading.trim().to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")
    };
    prose(page)
        .filter_map(|line| line.strip_prefix('#'))
        .map(|line| of(line.trim_start_matches('#')))
        .collect()
}

/// The reason why a link of a page leads nowhere.
fn broken(page: &Path, link: &str) -> Option<String> {
    if link.contains("://") {
        return None;
    }
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
    let target = match path {
        "" => page.to_owned(),
        path => page.parent().expect("a page lies in a folder").join(path),
    };
    if !target.exists() {
        return Some(format!("{}: {link}: no such file", page.display()));
    }
    let is_there = anchor.is_none_or(|anchor| anchors(&text(&target)).iter().any(|of| of == anchor));
    (!is_there).then(|| format!("{}: {link}: no such heading", page.display()))
}

#[test]
fn every_link_leads_to_a_page_and_its_heading() {
    let others = ["ARCHITECTURE.md", "CONTRIBUTING.md"].map(|name| format!("{ROOT}/{name}").into());
    let of_crates = files(Path::new(&format!("{ROOT}/crates")), &["md"]);
    let broken: Vec<String> = pages()
        .into_iter()
        .chain(others)
        .chain(of_crates)
        .flat_map(|page| links(&text(&page)).into_iter().filter_map(move |link| broken(&page, &link)))
        .collect();
    assert!(broken.is_empty(), "{} links lead nowhere:\n{}", broken.len(), broken.join("\n"));
}

#[test]
fn pages_that_the_code_names_exist() {
    let mut absent = Vec::new();
    for folder in NAMING {
        for file in files(Path::new(&format!("{ROOT}/{folder}")), &["rs", "sh", "toml", "txt", "cc"]) {
            let text = text(&file);
            for rest in text.split("docs/").skip(1) {
                let name = rest.split(|of: char| !(of.is_alphanumeric() || "-_/.".contains(of))).next();
                let name = name.unwrap_or_default().trim_end_matches('.');
                if name.ends_with(".md") && !Path::new(&format!("{ROOT}/docs/{name}")).exists() {
                    absent.push(format!("{} names docs/{name}", file.display()));
                }
            }
        }
    }
    assert!(absent.is_empty(), "{}", absent.join("\n"));
}

#[test]
fn the_index_names_every_page() {
    let index = format!("{ROOT}/docs/README.md");
    let named = links(&text(Path::new(&index)));
    let docs = format!("{ROOT}/docs/");
    let missing: Vec<String> = files(Path::new(&docs), &["md"])
        .iter()
        .filter_map(|page| page.to_str().and_then(|page| page.strip_prefix(&docs)).map(str::to_owned))
        .filter(|page| page != "README.md" && !named.contains(page))
        .collect();
    assert!(missing.is_empty(), "docs/README.md has no line for {missing:?}");
}

#[test]
fn links_and_anchors_are_found_outside_of_blocks() {
    let page =
        "# The `[[case]]`: a *situation*\n[one](a.md#b), [two\nlines](c.md)\n```\n# no [link](d.md)\n```\n";
    assert_eq!(links(page), ["a.md#b", "c.md"]);
    assert_eq!(anchors(page), ["the-case-a-situation"]);
}
