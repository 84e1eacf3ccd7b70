use super::*;
use crate::experiment::names;
use crate::made_up;
use resvg::usvg::roxmltree::Document;

/// Every text that people write contains a character with a meaning in HTML.
const HOSTILE: &str = r#"
title = "<script>alert(1)</script>"
source = "a \"source\" & more"
about = "</section><b>"
profiles = ["dct983", "dct983-b"]
seeds = [1, 2]
warm_up = "10ms"
duration = "500ms"
interval = "50ms"
schedulers = ["none", "level"]
[[case]]
name = "a <case>"
condition = "clean"
groups = [{ name = "<group>", count = 2, rw = "randread", bs = "4k", iodepth = 8 }]
[[claim]]
id = "<id>"
what = "<what>"
case = "a <case>"
quantity = { f-util = "<group>" }
compare = "times-more"
with = "none"
paper = 9.0
why = "because <i>"
[[figure]]
name = "f-util"
kind = "bars"
of = "f-util"
see = "\"onload=\"<see>"
"#;

fn chapters(texts: &[&str]) -> Vec<Chapter> {
    let read = |(n, text): (usize, &&str)| {
        Experiment::parse(text, &format!("x{n}"), "x.toml").unwrap_or_else(|error| panic!("{error}"))
    };
    let findings = texts.iter().enumerate().map(read).map(made_up::findings);
    findings.map(Chapter::new).collect()
}

fn built_in() -> Vec<Chapter> {
    let named = |name| Experiment::named(name).unwrap_or_else(|error| panic!("{error}"));
    names().map(named).map(made_up::findings).map(Chapter::new).collect()
}

#[test]
fn every_claim_and_every_figure_is_on_the_page() {
    let chapters = built_in();
    let page = html(&chapters);
    let mut rows = 0;
    for chapter in &chapters {
        let experiment = &chapter.findings.experiment;
        for said in [&experiment.title, &experiment.source, &experiment.about] {
            assert!(page.contains(&escape(said)), "{} does not say: {said}", experiment.name);
        }
        for drawn in &chapter.figures {
            assert!(page.contains(&drawn.svg), "{} is missing", drawn.name);
            assert!(page.contains(&escape(&drawn.see)), "{} has no sentence", drawn.name);
        }
        for row in chapter.findings.rows() {
            rows += 1;
            let (id, what) = (escape(&row.id), escape(&row.what));
            assert!(page.contains(&format!("{id}</a>{what}</th>")), "{} is missing", row.id);
            let cells = format!("<td>{}</td><td class=\"text\">{}</td>", row.profile, row.scheduler);
            assert!(page.contains(&cells), "{} on {} is missing", row.id, row.profile);
        }
    }
    assert!(rows > 0, "the built-in experiments claim something");
    assert_eq!(page.matches("class=\"ours\"").count(), rows, "a line for each row and no more");
}

#[test]
fn claims_come_first() {
    let page = html(&built_in());
    assert!(page.find("class=\"claims\"") < page.find("<section"), "the claims come after an experiment");
}

#[test]
fn the_count_of_verdicts_for_each_scheduler_comes_before_the_rows() {
    let page = html(&built_in());
    let (tally, rows) = (page.find("class=\"tally\""), page.find("class=\"claims\""));
    assert!(tally.is_some() && tally < rows, "{tally:?} is not before {rows:?}");
}

#[test]
fn a_cause_is_said_once_however_many_rows_it_explains() {
    let two = HOSTILE
        .replace("schedulers = [\"none\", \"level\"]", "schedulers = [\"none\", \"gimbal\", \"level\"]");
    let chapters = chapters(&[&two]);
    let explained = chapters[0].findings.rows().iter().filter(|row| row.why.is_some()).count();
    assert!(explained > 1, "{explained} rows need the cause");
    assert_eq!(html(&chapters).matches("because &lt;i&gt;").count(), 1);
}

#[test]
fn words_are_wrapped_and_nothing_is_scrolled_sideways_but_the_numbers() {
    let page = html(&chapters(&[HOSTILE]));
    assert!(
        page.contains(".claims .claim th { text-align: left; white-space: normal;"),
        "the claims are wrapped"
    );
    assert!(!page.contains("min-width"), "nothing is wider than the window");
    assert_eq!(
        page.matches("overflow-x").count(),
        1,
        "only tables of numbers scroll, in windows narrower than they"
    );
}

#[test]
fn the_page_is_well_formed_and_words_stay_words() {
    let chapters = chapters(&[HOSTILE]);
    let page = html(&chapters);
    // Our pages close every element; these few cannot be closed.
    let xml = page.replace("<!doctype html>", "").replace("<br>", "");
    let xml =
        xml.replace("<meta charset=\"utf-8\">", "").replace("initial-scale=1\">", "initial-scale=1\"/>");
    let document = Document::parse(&xml).unwrap_or_else(|error| panic!("{error}"));
    for element in ["script", "b", "i", "group", "see", "case", "id", "what"] {
        let injected = document.descendants().any(|node| node.has_tag_name(element));
        assert!(!injected, "<{element}> came from an experiment's words");
    }
    assert!(document.descendants().all(|node| node.attribute("onload").is_none()));
    let text: String = document.descendants().filter_map(|node| node.text()).collect();
    for said in
        ["<script>alert(1)</script>", "a \"source\" & more", "because <i>", "<group>", "\"onload=\"<see>"]
    {
        assert!(text.contains(said), "{said} is not to be read");
    }
}

#[test]
fn nothing_is_loaded_from_anywhere() {
    let page = html(&built_in());
    for loads in [" src=", "<link", "@import", "url(", "<script"] {
        assert!(!page.contains(loads), "the page has {loads}");
    }
    // The name of SVG's vocabulary is not an address to be loaded.
    let addresses = page.matches("http").count();
    assert_eq!(addresses, page.matches("http://www.w3.org/2000/svg").count());
}

#[test]
fn other_profiles_are_there_but_folded() {
    let chapters = chapters(&[HOSTILE]);
    let page = html(&chapters);
    let folded = page.find("The same on dct983-b").expect("the second profile is there");
    let (first, second) = (&chapters[0].figures[0].svg, &chapters[0].figures[1].svg);
    assert!(page.find(first.as_str()) < Some(folded) && page.find(second.as_str()) > Some(folded));
}
