//! The commands that a page shows: lines of fenced blocks that begin with a program, and code in the text that begins with one of ours.

/// Programs that mark a line of a fenced block as a command. All other lines there are files, outputs or pictures.
const PROGRAMS: [&str; 14] = [
    "gimbal", "make", "cargo", "nvme", "modprobe", "perf", "taskset", "db_bench", "ldb", "sst_dump", "kill",
    "fio", "git", "mount",
];
/// Programs that mark code within the text as a command.
const OURS: [&str; 3] = ["gimbal", "make", "cargo"];

/// All commands of a page, with single spaces between words.
pub(crate) fn commands(page: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut text = String::new();
    let mut is_block = false;
    for line in page.lines() {
        if line.starts_with("```") {
            is_block = !is_block;
        } else if is_block {
            commands.extend(of_line(line));
        } else {
            text.push_str(line);
            text.push('\n');
        }
    }
    for paragraph in text.split("\n\n") {
        let code = paragraph.split('`').skip(1).step_by(2).map(even);
        commands.extend(code.filter(|code| code.contains(' ') && begins_with(code, &OURS)));
    }
    commands
}

/// Splits a line of a block, which may contain several commands and a remark.
fn of_line(line: &str) -> impl Iterator<Item = String> {
    let line = line.split(" # ").next().unwrap_or(line);
    let parts = line.split(" & ").flat_map(|part| part.split("; "));
    let is_command = !line.starts_with(' ');
    parts.map(even).filter(move |part| is_command && begins_with(part, &PROGRAMS))
}

fn begins_with(command: &str, programs: &[&str]) -> bool {
    let first = command.split(' ').next().unwrap_or("");
    programs.contains(&first) || first.starts_with("target/release/") || first.ends_with(".sh")
}

fn even(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The words of a command, split as by a shell, up to the redirection of its output.
pub(crate) fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    for character in command.chars() {
        match character {
            '"' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(String::new()),
            _ => words.last_mut().expect("it begins with one").push(character),
        }
    }
    words.into_iter().take_while(|word| word != ">").collect()
}

#[test]
fn commands_are_lines_of_blocks_and_code_of_ours() {
    let page = "Use `gimbal\nserve` or `gimbal.toml`.\n\n```\ngimbal bench  --rw read   # a remark\n gimbal 1.2\nkey = 1\n\
                gimbal serve --device null & nvme list\n```\n`ls -l`, `make\ntest`";
    let expected =
        ["gimbal bench --rw read", "gimbal serve --device null", "nvme list", "gimbal serve", "make test"];
    assert_eq!(commands(page), expected);
    assert_eq!(words("a \"b c\" d > e"), ["a", "b c", "d"]);
}
