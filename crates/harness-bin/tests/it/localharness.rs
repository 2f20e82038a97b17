//! The program `localharness` as a person meets it, under both of its names.

use std::process::{Command, Stdio};

use crate::program::{Said, said};

fn run(program: &std::path::Path, args: &[&str]) -> Said {
    let mut command = Command::new(program);
    command.args(args).env_clear().stdin(Stdio::null());
    said(command.output().unwrap())
}

/// The program itself, and `harness` called by its name.
fn both() -> (tempfile::TempDir, [std::path::PathBuf; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("localharness");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_harness"), &link).unwrap();
    (folder, [env!("CARGO_BIN_EXE_localharness").into(), link])
}

#[test]
fn help_and_version_answer() {
    let (_folder, programs) = both();
    for program in programs {
        assert_eq!(
            run(&program, &["--version"]),
            Said {
                code: Some(0),
                stdout: format!("localharness {}\n", env!("CARGO_PKG_VERSION")),
                stderr: String::new(),
            }
        );
        let help = run(&program, &["--help"]);
        assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""));
        for what in ["ANTIGRAVITY_HARNESS_PATH", "harness run", "HARNESS_LOG"] {
            assert!(help.stdout.contains(what), "{}", help.stdout);
        }
    }
}

#[test]
fn an_unknown_argument_is_refused() {
    let (_folder, programs) = both();
    for program in programs {
        assert_eq!(
            run(&program, &["serve"]),
            Said {
                code: Some(2),
                stdout: String::new(),
                stderr: "localharness: unknown argument \"serve\"; localharness takes none (see \
                         --help)\n"
                    .into(),
            }
        );
    }
}

#[test]
fn somebody_who_starts_it_at_a_terminal_is_told_what_it_is() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let (_folder, programs) = both();
    for program in programs {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap();
        let end = std::fs::File::options()
            .read(true)
            .open(name.to_str().unwrap())
            .unwrap();
        let output = Command::new(program)
            .env_clear()
            .stdin(end)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let said = said(output);
        assert_eq!((said.code, said.stdout.as_str()), (Some(2), ""));
        assert!(said.stderr.contains("`harness run`"), "{}", said.stderr);
    }
}
