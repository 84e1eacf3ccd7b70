//! The calibrations that come with the lab are what its command makes.

use lab::calibrate::calibrate;
use lab::runner::Images;
use ssd::Profile;

const MADE: [(&str, &str); 6] = [
    ("dct983", include_str!("../../../calibrations/dct983.toml")),
    ("dct983-b", include_str!("../../../calibrations/dct983-b.toml")),
    ("p3600", include_str!("../../../calibrations/p3600.toml")),
    ("pm1725a", include_str!("../../../calibrations/pm1725a.toml")),
    ("sn200", include_str!("../../../calibrations/sn200.toml")),
    ("consumer-slc", include_str!("../../../calibrations/consumer-slc.toml")),
];

#[test]
#[ignore = "measures six SSDs anew, eight minutes; run by `make test-long`"]
fn the_command_makes_the_same_bytes_again() {
    let images = Images::default();
    for (name, kept) in MADE {
        let profile = Profile::named(name).expect("a profile that comes with gimbal");
        let made = calibrate(&profile, &images, &|_| ()).unwrap_or_else(|broken| panic!("{broken}"));
        assert!(
            made.to_toml() == kept,
            "{name} has changed; make its calibration anew with `make calibrations`"
        );
    }
}
