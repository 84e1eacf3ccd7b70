use super::*;
use crate::experiment::{Experiment, names};
use crate::made_up;
use crate::scheduler::Scheduler;
use resvg::tiny_skia::Pixmap;
use resvg::usvg::roxmltree::Document;

/// Every kind of figure, over cases of every sort.
const ALL_KINDS: &str = r#"
title = "t <b>"
source = "s"
about = "a"
profiles = ["dct983"]
seeds = [1, 2, 3]
warm_up = "10ms"
duration = "500ms"
interval = "50ms"
schedulers = ["none", "gimbal", "level"]
[[case]]
name = "steady"
condition = "clean"
groups = [
    { name = "readers & co", count = 2, rw = "randread", bs = "4k", iodepth = 8 },
    { name = "writers", count = 2, rw = "write", bs = "128k", iodepth = 4 },
]
[[case]]
name = "mixed"
condition = "clean"
sweep = { over = "rwmixread", values = [0, 50, 100] }
groups = [{ name = "mix", rw = "randrw", bs = "4k", iodepth = 8 }]
[[case]]
name = "sizes"
condition = "clean"
sweep = { over = "bs", values = [4, 64, 256] }
groups = [{ name = "mix", rw = "randrw", bs = "4k", iodepth = 8 }]

[[figure]]
name = "bars"
kind = "bars"
of = "f-util"
cases = ["steady"]
marks = [{ group = "writers", scheduler = "level", value = 1.2 }]
see = "x"

[[figure]]
name = "slow"
kind = "bars"
of = { latency = { statistic = "p99" } }
scale = "log"
cases = ["steady"]
see = "x"

[[figure]]
name = "sweep"
kind = "sweep"
of = "bandwidth"
cases = ["mixed"]
schedulers = ["level"]
marks = [{ x = 50, value = 300.0 }]
see = "x"

[[figure]]
name = "time-series"
kind = "time-series"
of = { latency = { statistic = "mean" } }
cases = ["steady"]
marks = [{ from = "100ms", to = "300ms", value = 70.0 }]
see = "x"

[[figure]]
name = "cost"
kind = "time-series"
of = "write-cost"
cases = ["steady"]
see = "x"

[[figure]]
name = "threshold"
kind = "threshold"
way = "read"
cases = ["steady"]
see = "x"

[[figure]]
name = "tradeoff"
kind = "tradeoff"
of = { latency = { statistic = "mean" } }
cases = ["steady"]
see = "x"
"#;

fn parsed(text: &str) -> Experiment {
    Experiment::parse(text, "x", "x.toml").unwrap_or_else(|error| panic!("{error}"))
}

fn drawn(text: &str) -> Vec<Drawn> {
    made_up::findings(parsed(text)).figures()
}

fn texts(svg: &str) -> Vec<String> {
    let document = Document::parse(svg).unwrap_or_else(|error| panic!("{error}\n{svg}"));
    let letters = document.descendants().filter(|node| node.has_tag_name("text"));
    letters.filter_map(|node| node.text()).map(|text| text.trim().to_owned()).collect()
}

/// Well-formed, not blank, as large as it says.
fn is_a_picture(drawn: &Drawn) {
    let document = Document::parse(&drawn.svg).unwrap_or_else(|error| panic!("{}: {error}", drawn.name));
    let root = document.root_element();
    let size = |name: &str| root.attribute(name).and_then(|size| size.parse::<u32>().ok()).expect("a size");
    let png = Pixmap::decode_png(&drawn.png()).unwrap_or_else(|error| panic!("{}: {error}", drawn.name));
    assert_eq!((png.width(), png.height()), (size("width"), size("height")), "{}", drawn.name);
    let inked = png.pixels().iter().filter(|pixel| pixel.red() < 128).count();
    assert!(inked > 5000, "{} has {inked} dark pixels", drawn.name);
}

#[test]
fn every_kind_of_figure_is_drawn() {
    let figures = drawn(ALL_KINDS);
    let names: Vec<&str> = figures.iter().map(|figure| figure.figure.as_str()).collect();
    assert_eq!(names, ["bars", "slow", "sweep", "time-series", "cost", "threshold", "tradeoff"]);
    figures.iter().for_each(is_a_picture);
}

#[test]
fn every_experiment_of_the_lab_has_figures_and_they_are_drawn_for_every_profile() {
    for name in names() {
        let experiment = Experiment::named(name).unwrap_or_else(|error| panic!("{error}"));
        let (figures, ssds) = (experiment.figures.len(), experiment.ssds.len());
        assert!(figures > 0, "{name} has no figure");
        let drawn = made_up::findings(experiment).figures();
        assert_eq!(drawn.len(), figures * ssds, "{name}");
        drawn.iter().for_each(is_a_picture);
    }
}

#[test]
fn labels_name_units_groups_and_what_lines_mean() {
    for (figure, wanted) in [
        (
            "bars",
            &["f-Util", "readers & co", "writers", "none", "level", "fair share", "the source's value"][..],
        ),
        ("slow", &["p99 latency, µs", "200", "500", "1000"]),
        ("sweep", &["bandwidth, MB/s", "reads, per cent", "mix, reads", "mix, writes", "mix, both"]),
        ("time-series", &["mean latency, µs", "time, s", "gimbal", "x: t <b>", "dct983, seed 1"]),
        ("cost", &["price of a written byte, read bytes"]),
        ("threshold", &["mean latency in the SSD, µs", "threshold"]),
        ("tradeoff", &["bandwidth, MB/s", "steady: writers"]),
    ] {
        let figures = drawn(ALL_KINDS);
        let svg = &figures.iter().find(|drawn| drawn.figure == figure).expect("it is drawn").svg;
        let texts = texts(svg);
        for wanted in wanted {
            assert!(texts.iter().any(|text| text == wanted), "{figure} does not say {wanted}: {texts:?}");
        }
    }
}

#[test]
fn fragmentation_is_drawn_of_the_schedulers_that_look_for_it() {
    let drawn = made_up::findings(Experiment::named("g9").expect("it comes with the lab")).figures();
    let svg = |name: &str| &drawn.iter().find(|drawn| drawn.figure == name).expect("it is drawn").svg;
    let shown = |name: &str, scheduler: &str| texts(svg(name)).iter().any(|text| text == scheduler);
    assert!(shown("fragmentation", "level-calibrated") && !shown("fragmentation", "level"));
    assert!(shown("write-cost", "level-calibrated") && shown("write-cost", "level"));
}

#[test]
fn a_png_has_letters_without_any_font_of_the_machine() {
    let figures = drawn(ALL_KINDS);
    let silent = Document::parse(&figures[0].svg).expect("well-formed");
    let mut svg = figures[0].svg.clone();
    // The same drawing without its letters, last one first.
    for node in silent.descendants().filter(|node| node.has_tag_name("text")).collect::<Vec<_>>().iter().rev()
    {
        svg.replace_range(node.range(), "");
    }
    let inked = |png: &[u8]| {
        let pixels = Pixmap::decode_png(png).expect("a PNG");
        pixels.pixels().iter().filter(|pixel| pixel.red() < 128).count()
    };
    let (with, without) = (inked(&figures[0].png()), inked(&raster::png(&svg)));
    assert!(with > without + 1000, "{with} dark pixels with letters, {without} without");
}

#[test]
fn the_same_findings_give_the_same_bytes() {
    let bytes = || -> Vec<(String, Vec<u8>)> {
        drawn(ALL_KINDS).into_iter().map(|drawn| (drawn.svg.clone(), drawn.png())).collect()
    };
    assert!(bytes() == bytes(), "two drawings of the same findings differ");
}

#[test]
fn schedulers_look_different_without_colours() {
    let mut looks: Vec<_> = (0..8).map(look::Look::of).collect();
    while let Some(one) = looks.pop() {
        for other in &looks {
            let grey = |look: &look::Look| {
                let (red, green, blue) = (look.colour.0, look.colour.1, look.colour.2);
                0.299 * f64::from(red) + 0.587 * f64::from(green) + 0.114 * f64::from(blue)
            };
            let told_apart = one.hatch != other.hatch || (grey(&one) - grey(other)).abs() > 80.0;
            assert!(told_apart, "bars {one:?} and {other:?}");
            assert!(one.dash != other.dash && one.marker != other.marker, "lines {one:?} and {other:?}");
        }
    }
}

#[test]
fn schedulers_of_one_experiment_look_different() {
    for name in names() {
        let experiment = Experiment::named(name).unwrap_or_else(|error| panic!("{error}"));
        for (n, scheduler) in experiment.schedulers.iter().enumerate() {
            let alike = |other: &&Scheduler| view::look(**other).colour == view::look(*scheduler).colour;
            let other = experiment.schedulers[..n].iter().find(alike);
            assert_eq!(other, None, "{name}: {} looks the same", scheduler.name());
        }
    }
}

#[test]
fn a_figure_without_anything_to_show_is_not_drawn() {
    let mut experiment = parsed(ALL_KINDS);
    experiment.schedulers.retain(|scheduler| scheduler.name() == "none");
    let drawn = made_up::findings(experiment).figures();
    let names: Vec<&str> = drawn.iter().map(|drawn| drawn.figure.as_str()).collect();
    assert_eq!(names, ["bars", "slow", "time-series", "tradeoff"]);
}

#[test]
fn a_figure_of_cases_that_were_left_out_is_not_drawn() {
    for (case, expected) in [("mixed", vec!["sweep"]), ("sizes", Vec::new())] {
        let mut experiment = parsed(ALL_KINDS);
        experiment.cases.retain(|known| known.name == case);
        let drawn = made_up::findings(experiment).figures();
        let names: Vec<&str> = drawn.iter().map(|drawn| drawn.figure.as_str()).collect();
        assert_eq!(names, expected, "{case}");
    }
}

#[test]
fn what_is_wrong_with_a_figure_is_said_with_its_place() {
    for (from, to, said) in [
        (
            "cases = [\"steady\"]\nmarks",
            "cases = [\"stdy\"]\nmarks",
            "figure bars: cases: the experiment has no case stdy",
        ),
        (
            "cases = [\"steady\"]\nmarks",
            "cases = [\"sizes\"]\nmarks",
            "figure bars: cases: case sizes is swept",
        ),
        ("cases = [\"mixed\"]", "cases = [\"steady\"]", "figure sweep: cases: case steady is not swept"),
        (
            "cases = [\"mixed\"]",
            "cases = [\"mixed\", \"sizes\"]",
            "figure sweep: cases: they are swept over different",
        ),
        (
            "of = \"f-util\"",
            "of = \"f-util\"\ngroups = [\"them\"]",
            "figure bars: groups: case steady has no group them",
        ),
        (
            "schedulers = [\"level\"]",
            "schedulers = [\"parda\"]",
            "figure sweep: schedulers: the experiment does not run parda",
        ),
        ("group = \"writers\"", "group = \"them\"", "figure bars: marks: case steady has no group them"),
        (
            "scheduler = \"level\",",
            "scheduler = \"bfq\",",
            "figure bars: marks: the experiment does not run bfq",
        ),
        ("scheduler = \"level\",", "", "figure bars: marks: scheduler is missing"),
        ("{ x = 50, value", "{ value", "figure sweep: marks: a sweep's mark needs x"),
        ("way = \"read\"", "", "figure threshold: way: is missing"),
        ("of = \"f-util\"", "", "figure bars: of: is missing"),
        ("of = \"f-util\"", "of = \"write-cost\"", "figure bars: of: is known over time only"),
        ("of = \"write-cost\"", "of = \"deviation\"", "figure cost: of: a time-series shows"),
        (
            "of = \"write-cost\"",
            "of = { latency = { statistic = \"p99\" } }",
            "figure cost: of: over time only the mean",
        ),
        ("name = \"slow\"", "name = \"bars\"", "figure bars: name: there are two of it"),
        ("name = \"slow\"", "name = \"a/b\"", "figure a/b: name: names files"),
        ("kind = \"tradeoff\"", "kind = \"pie\"", "pie"),
    ] {
        let text = ALL_KINDS.replace(from, to);
        assert_ne!(text, ALL_KINDS, "{from} is not there");
        let error = Experiment::parse(&text, "x", "x.toml").expect_err("this is no experiment").to_string();
        assert!(error.contains(said), "{from} -> {to} says: {error}");
        assert!(error.contains("x.toml"), "{error}");
    }
}
