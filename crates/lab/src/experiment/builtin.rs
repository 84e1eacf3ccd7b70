//! The experiments that come with the lab: the folders of `experiments/`, built in.

macro_rules! experiments {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../../experiments/", $name, "/experiment.toml")))),*]
    };
}

/// Name and text, in the order of the papers, and then those that go beyond them.
const BUILT_IN: &[(&str, &str)] = experiments![
    "g6",
    "g7a",
    "g7c",
    "g9",
    "g14",
    "g15",
    "g17",
    "g18",
    "p3",
    "p8",
    "weights",
    "guarantees",
    "arrivals",
    "crowd",
    "deaf",
    "devices",
];

/// The names of all, in the order of the papers, and then those that go beyond them.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, _)| *name)
}

pub(super) fn text(name: &str) -> Option<&'static str> {
    BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}
