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

#[test]
fn the_worst_of_several_numbers_is_that_with_the_greatest_median_over_the_seeds() {
    let numbers = [
        vec![Some(1.0), Some(1.1), None],
        vec![Some(1.9), Some(1.2), None],
        vec![Some(1.0), Some(1.3), None],
    ];
    assert_eq!(worst(&numbers), Some(Spread { median: 1.2, least: 1.1, greatest: 1.3 }));
    assert_eq!(worst(&[vec![None]]), None);
}
