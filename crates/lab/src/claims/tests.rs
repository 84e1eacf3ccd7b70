use super::*;

#[test]
fn a_ratio_is_judged_by_direction_first_and_then_by_a_factor_of_two() {
    let judge = |ours| Compare::TimesMore.judge(ours, 2.4);
    assert_eq!(judge(0.99), Verdict::Differs);
    assert_eq!(judge(1.1), Verdict::Weaker);
    assert_eq!(judge(1.3), Verdict::Holds);
    assert_eq!(judge(4.7), Verdict::Holds);
    assert_eq!(judge(4.9), Verdict::Stronger);
}

#[test]
fn a_large_ratio_may_be_larger_but_not_half() {
    assert_eq!(Compare::TimesLess.judge(900.0, 184.2), Verdict::Holds);
    assert_eq!(Compare::TimesLess.judge(90.0, 184.2), Verdict::Weaker);
}

#[test]
fn a_ratio_below_one_is_judged_by_its_inverse() {
    assert_eq!(Compare::TimesMore.judge(0.3, 0.5), Verdict::Holds);
    assert_eq!(Compare::TimesMore.judge(0.2, 0.5), Verdict::Stronger);
    assert_eq!(Compare::TimesMore.judge(1.2, 0.5), Verdict::Differs);
}

#[test]
fn a_reduction_is_in_per_cent_of_the_other() {
    assert_eq!(Compare::PercentLess.apply(5.0, 20.0), 75.0);
    assert_eq!(Compare::PercentLess.judge(75.0, 48.6), Verdict::Holds);
    assert_eq!(Compare::PercentLess.judge(-3.0, 48.6), Verdict::Differs);
}

#[test]
fn a_bound_is_kept_or_not() {
    assert_eq!(Compare::PercentAtMost.judge(13.8, 13.8), Verdict::Holds);
    assert_eq!(Compare::PercentAtMost.judge(13.9, 13.8), Verdict::Differs);
    assert_eq!(Compare::AtMost.judge(51.1, 51.0), Verdict::Differs);
    assert_eq!(Compare::AtLeast.judge(285.0, 285.0), Verdict::Holds);
    assert_eq!(Compare::AtLeast.judge(284.9, 285.0), Verdict::Differs);
    assert_eq!(Compare::About.judge(0.91, 1.0), Verdict::Holds);
    assert_eq!(Compare::About.judge(0.89, 1.0), Verdict::Differs);
}

#[test]
fn nothing_over_something_is_no_verdict_in_favour() {
    assert_eq!(Compare::TimesMore.judge(Compare::TimesMore.apply(0.0, 5.0), 2.0), Verdict::Differs);
}

/// A claim of one kind about latencies.
fn claim(interval: bool) -> Claim {
    let text = format!(
        "id = 'c'\nwhat = 'w'\ncase = 'x'\nquantity = {{ worst-latency = {{}} }}\ncompare = 'times-at-most'\nwith = 'none'\ngoal = 1.02\ninterval = {interval}"
    );
    toml::from_str(&text).expect("a claim")
}

fn pair(mine: f64, beyond: f64) -> Option<Pair> {
    Some(Pair { mine, other: 1.0, beyond })
}

fn worst(claim: &Claim, pairs: &[Vec<Option<Pair>>]) -> Option<Judged> {
    claim.worst(claim.asked().expect("a goal"), pairs)
}

#[test]
fn the_worst_of_several_numbers_is_that_with_the_greatest_median_over_the_seeds() {
    let pairs = [
        vec![pair(1.0, 9.0), pair(1.1, 9.0), None],
        vec![pair(1.9, 9.0), pair(1.2, 9.0), None],
        vec![pair(1.0, 9.0), pair(1.3, 9.0), None],
    ];
    let ours = worst(&claim(false), &pairs).map(|judged| (judged.ours, judged.verdict));
    assert_eq!(ours, Some((Spread { median: 1.2, least: 1.1, greatest: 1.3 }, Verdict::Missed)));
    assert_eq!(worst(&claim(false), &[vec![None]]), None);
}

#[test]
fn a_percentile_of_too_few_ios_is_not_judged_by_an_interval() {
    let of = |beyond| worst(&claim(true), &[vec![pair(1.5, beyond)], vec![pair(1.5, beyond)]]);
    assert_eq!(of(49.0), None);
    assert_eq!(of(50.0).map(|judged| judged.verdict), Some(Verdict::Missed));
}

#[test]
fn what_chance_may_explain_is_open_and_worse_than_what_holds() {
    let far = [0.9, 1.2, 1.0].map(|ratio| vec![pair(1.01, 99.0), pair(ratio, 99.0)]);
    let judged = worst(&claim(true), &far).expect("measured");
    assert_eq!(judged.verdict, Verdict::Open);
    assert_eq!(judged.ours.median, 1.0, "of the second number, though its median is the lesser one");
    let near = [1.0, 1.03, 1.0].map(|ratio| vec![pair(ratio, 100.0)]);
    let sure = [1.05, 1.06, 1.055].map(|ratio| vec![pair(ratio, 99.0)]);
    assert_eq!(worst(&claim(true), &near).map(|judged| judged.verdict), Some(Verdict::Open));
    assert_eq!(worst(&claim(true), &sure).map(|judged| judged.verdict), Some(Verdict::Missed));
    assert_eq!(worst(&claim(true), &[near[0].clone()]).map(|judged| judged.verdict), Some(Verdict::Holds));
}
