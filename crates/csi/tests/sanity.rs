//! csi-sanity, the tests of the interface's own project, against a controller with a real target, and a node with fakes.

mod bed;

use bed::{Bed, csi_sanity};
use std::process::Command;

#[test]
#[ignore = "long: builds csi-sanity with Go, about 3 minutes the first time"]
fn csi_sanity_passes() {
    let program = csi_sanity();
    let bed = Bed::new("sanity");
    let controller = bed.controller("controller.sock", &bed.admin());
    let node = bed.node();
    let ran = Command::new(program)
        .arg(format!("--csi.endpoint={}", node.driver.socket.display()))
        .arg(format!("--csi.controllerendpoint={}", controller.socket.display()))
        .arg(format!("--csi.stagingdir={}", bed.folder.join("staging").display()))
        .arg(format!("--csi.mountdir={}", bed.folder.join("target").display()))
        .arg("--ginkgo.no-color")
        .output()
        .expect("it was built");
    let said = String::from_utf8_lossy(&ran.stdout);
    let counts: Vec<&str> =
        said.lines().filter(|line| line.contains(" Passed") || line.starts_with("Ran ")).collect();
    println!("{}", counts.join("\n"));
    assert!(ran.status.success(), "{said}");
    assert!(counts.iter().any(|line| line.contains("0 Failed")), "{said}");
    assert_eq!(
        bed.files(),
        bed.files_wanted(),
        "csi-sanity has cleaned up after itself, and so has the driver"
    );
}
