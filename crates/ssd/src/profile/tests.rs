use super::*;
use sched::{Cost, DeviceConstants};
use units::ByteRate;

fn dct983_with(field: &str, value: &str) -> Result<Profile, ProfileError> {
    let text = Profile::default().to_toml();
    let line =
        text.lines().find(|line| line.starts_with(&format!("{field} = "))).expect("the field is in the file");
    Profile::parse(&text.replacen(line, &format!("{field} = {value}"), 1), "mine.toml")
}

#[test]
fn built_in_profiles_round_trip() {
    for name in Profile::names() {
        let profile = Profile::named(name).unwrap_or_else(|refusal| panic!("{refusal}"));
        assert_eq!(profile.name, name);
        assert_eq!(Profile::parse(&profile.to_toml(), name).expect("what we wrote"), profile);
    }
}

#[test]
fn set_b_differs_from_set_a_only_in_how_writes_delay_reads() {
    let mut set_b = Profile::named("dct983-b").expect("built in");
    let set_a = Profile::default();
    assert_ne!(set_b.flash, set_a.flash);
    set_b.flash.suspend_slice = set_a.flash.suspend_slice;
    set_b.flash.suspend_overhead = set_a.flash.suspend_overhead;
    set_b.flash.reads_between_slices = set_a.flash.reads_between_slices;
    assert_eq!(set_b.memory, None);
    set_b.memory.clone_from(&set_a.memory);
    set_b.name.clone_from(&set_a.name);
    set_b.description.clone_from(&set_a.description);
    assert_eq!(set_b, set_a);
}

#[test]
fn an_unknown_name_is_answered_with_the_known_ones() {
    let message = Profile::named("dct984").expect_err("no such profile").to_string();
    assert!(
        message.contains("dct984") && message.contains("p3600, pm1725a, sn200, consumer-slc"),
        "{message}"
    );
}

#[test]
fn a_misspelt_field_is_refused_by_name_and_line() {
    let text = Profile::default().to_toml().replace("erase_us", "erase_ms");
    let message = Profile::parse(&text, "mine.toml").expect_err("no field has this name").to_string();
    assert!(
        message.contains("mine.toml") && message.contains("erase_ms") && message.contains("line"),
        "{message}"
    );
}

#[test]
fn a_value_out_of_range_is_refused_with_its_range() {
    let message = dct983_with("program_us", "0").expect_err("no flash is that fast").to_string();
    assert!(message.contains("flash.program_us is 0; it must be from 1 to 60000000"), "{message}");
}

#[test]
fn too_little_spare_flash_is_refused_before_it_stalls() {
    let message = dct983_with("capacity_mib", "512").expect_err("half a block of spare per die").to_string();
    assert!(message.contains("spare") && message.contains("raise geometry.spare_permille"), "{message}");
}

#[test]
fn a_missing_file_is_named() {
    let message = Profile::load(Path::new("/nowhere/mine.toml")).expect_err("no such file").to_string();
    assert!(message.starts_with("device profile /nowhere/mine.toml cannot be read"), "{message}");
}

#[test]
fn the_constants_of_the_default_profile_are_the_schedulers_own_for_that_device() {
    for name in ["dct983", "dct983-b"] {
        let profile = Profile::named(name).expect("built in");
        assert_eq!(DeviceConstants::from(&profile.switch), DeviceConstants::DCT983);
    }
}

#[test]
fn a_cost_is_read_exactly_or_refused() {
    for (text, thousandths) in [("1", 1000), ("1.0", 1000), ("2.5", 2500), ("1.333", 1333), ("8.999", 8999)] {
        let profile = dct983_with("write_cost_best", text).unwrap_or_else(|refusal| panic!("{refusal}"));
        assert_eq!(profile.switch.write_cost_best, Cost::ratio(thousandths, 1000), "{text}");
        let again = Profile::parse(&profile.to_toml(), "again").expect("what we wrote");
        assert_eq!(again.switch, profile.switch);
    }
    for (text, complaint) in [
        ("2.50001", "not a cost"),
        ("-1.5", "not a cost"),
        ("nan", "not a cost"),
        ("0.5", "must be from 1000"),
        ("9.5", "above switch.write_cost_worst"),
    ] {
        let message = dct983_with("write_cost_best", text).expect_err(text).to_string();
        assert!(message.contains(complaint), "{text}: {message}");
    }
}

#[test]
fn a_device_without_the_tables_of_memory_and_variation_has_neither() {
    let text = Profile::named("array").expect("built in").to_toml();
    let profile = Profile::parse(&text, "mine.toml").unwrap_or_else(|refusal| panic!("{refusal}"));
    assert_eq!((profile.memory, profile.variation), (None, VariationProfile::default()));
}

#[test]
fn a_firmware_that_does_nothing_but_housekeeping_is_refused() {
    let message =
        dct983_with("housekeeping_gap_us", "0").expect_err("it never handles a command").to_string();
    assert!(
        message.contains("variation.housekeeping_gap_us") && message.contains("raise the gap"),
        "{message}"
    );
}

#[test]
fn a_memory_that_moves_nothing_is_refused() {
    let mut profile = Profile::default();
    profile.memory.as_mut().expect("set A has one").write_rate = ByteRate(0);
    let message = profile.check("mine").expect_err("writes would take forever").to_string();
    assert!(message.contains("memory.write_mb_per_s is 0"), "{message}");
}

/// The output of `gimbal lab calibrate --profile ./mine.toml` and the others.
#[test]
fn a_profile_in_a_file_is_called_as_its_file() {
    let folder = std::env::temp_dir().join(format!("gimbal-profile-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the temporary folder is writable");
    let copied = Profile::named("dct983").expect("built in").to_toml();
    std::fs::write(folder.join("mine.toml"), copied).expect("the folder is writable");
    let found = Profile::find("./mine.toml", &folder).expect("a profile");
    std::fs::remove_dir_all(&folder).expect("it was just made");
    assert_eq!(found.name, "mine");
}
