//! Programs that the node runs, each with a time.

use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;
use tokio::runtime::Handle;
use tonic::Status;

/// The time of a program; mkfs of a large volume takes longest.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest output of a program in an error, in characters.
const SAID_MAX: usize = 2000;

/// The output of a program, and its exit code.
pub(super) struct Ended {
    pub(super) code: i32,
    pub(super) stdout: String,
    stderr: String,
    line: String,
}

/// Runs a program that is found by `PATH`.
///
/// # Errors
/// It is not there, does not end in time, or was killed.
pub(super) fn run(program: &str, arguments: &[&str]) -> Result<Ended, Status> {
    let line = format!("{program} {}", arguments.join(" "));
    let mut command = Command::new(program);
    command.args(arguments).env("LC_ALL", "C").stdin(Stdio::null()).kill_on_drop(true);
    let output = async { tokio::time::timeout(PATIENCE, command.output()).await };
    let output = match Handle::current().block_on(output) {
        Err(_) => {
            return Err(Status::deadline_exceeded(format!("{line}: not over after {PATIENCE:?}; repeat it")));
        }
        Ok(Err(error)) => {
            let package = package_of(program);
            return Err(Status::failed_precondition(format!(
                "{line}: {error}; install {package} on the node"
            )));
        }
        Ok(Ok(output)) => output,
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    let code = output.status.code().ok_or_else(|| Status::internal(format!("{line}: {}", output.status)))?;
    Ok(Ended { code, stdout, stderr, line })
}

/// Runs a program that has to succeed, and returns its output.
pub(super) fn done(program: &str, arguments: &[&str]) -> Result<String, Status> {
    let ended = run(program, arguments)?;
    match ended.code {
        0 => Ok(ended.stdout),
        _ => Err(Status::internal(ended.said())),
    }
}

impl Ended {
    /// The command with its exit code and its messages, for an error.
    pub(super) fn said(&self) -> String {
        let said: String =
            [self.stderr.as_str(), self.stdout.as_str()].join(" ").chars().take(SAID_MAX).collect();
        format!("{}: exit code {}: {}", self.line, self.code, said.trim())
    }
}

fn package_of(program: &str) -> &'static str {
    match program {
        "nvme" => "nvme-cli",
        "mkfs.ext4" | "resize2fs" => "e2fsprogs",
        "mkfs.xfs" | "xfs_growfs" => "xfsprogs",
        _ => "util-linux (and mount)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_fails_or_is_not_there_is_told() {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
        let of = |program: &'static str, arguments: &'static [&'static str]| {
            let ran = runtime.spawn_blocking(move || done(program, arguments));
            runtime.block_on(ran).expect("no panic")
        };
        assert_eq!(of("echo", &["a"]).expect("it is everywhere"), "a");
        let failed = of("sh", &["-c", "echo why >&2; exit 3"]).expect_err("it fails");
        assert!(failed.message().ends_with("exit code 3: why"), "{}", failed.message());
        let absent = of("gimbal-csi-no-such-program", &[]).expect_err("it is not there");
        assert_eq!(absent.code(), tonic::Code::FailedPrecondition);
    }
}
