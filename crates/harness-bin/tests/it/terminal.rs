//! `harness` at a terminal: a pseudo terminal with a test at its other end.
//!
//! `setsid --ctty` of util-linux makes it the terminal that Ctrl-C comes from.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};

use harness_testkit::DEADLINE;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use serde_json::{Value, json};

use crate::program::Place;

const CTRL_C: &str = "\x03";

struct Terminal {
    master: File,
    child: Child,
    output: Receiver<Vec<u8>>,
    /// Everything that has appeared and has not been waited for yet.
    screen: String,
    modes: LocalModes,
}

impl Terminal {
    /// Starts `harness` with a terminal of its own; `stdout` may be something else.
    fn start(place: &Place, args: &[&str], stdout: Option<Stdio>) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let size = Winsize {
            ws_row: 40,
            ws_col: 120,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&master, size).unwrap();
        let modes = tcgetattr(&master).unwrap().local_modes;
        let name = ptsname(&master, Vec::new()).unwrap();
        let end = || {
            let mut options = File::options();
            options.read(true).write(true);
            let file = options.open(name.to_str().unwrap()).unwrap();
            Stdio::from(file)
        };
        let child = Command::new("setsid")
            .arg("--ctty")
            .arg(env!("CARGO_BIN_EXE_harness"))
            .args(args)
            .env_clear()
            .envs(place.home.env())
            .env("TERM", "xterm")
            .env("NO_COLOR", "1")
            .current_dir(&place.workspace)
            .stdin(end())
            .stdout(stdout.unwrap_or_else(end))
            .stderr(end())
            .spawn()
            .unwrap();
        let master = File::from(master);
        let mut reader = master.try_clone().unwrap();
        let (appeared, output) = mpsc::channel();
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            // Linux says EIO when the other end is closed.
            while let Ok(read @ 1..) = reader.read(&mut chunk) {
                if appeared.send(chunk[..read].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self {
            master,
            child,
            output,
            screen: String::new(),
            modes,
        }
    }

    /// Waits until `text` has appeared, and returns what came before it.
    fn expect(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = self.screen.find(text) {
                let rest = self.screen.split_off(at + text.len());
                return std::mem::replace(&mut self.screen, rest);
            }
            match self.output.recv_timeout(DEADLINE) {
                Ok(bytes) => self.screen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(error) => panic!("no {text:?} ({error}) in {:?}", self.screen),
            }
        }
    }

    fn send(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).unwrap();
    }

    /// Waits until the line editor reads, which it does without the terminal's own editing.
    fn expect_editor(&mut self) {
        self.expect("› ");
        let began = std::time::Instant::now();
        while self.local_modes().contains(LocalModes::ICANON) {
            assert!(began.elapsed() < DEADLINE, "the editor does not read");
            std::thread::yield_now();
        }
    }

    fn local_modes(&self) -> LocalModes {
        tcgetattr(&self.master).unwrap().local_modes
    }

    /// Waits for the end and returns the exit code. The terminal must be as it was.
    fn end(mut self) -> Option<i32> {
        // Read on, so that nothing blocks, until nobody holds the other end.
        while let Ok(bytes) = self.output.recv_timeout(DEADLINE) {
            self.screen.push_str(&String::from_utf8_lossy(&bytes));
        }
        let code = self.child.wait().unwrap().code();
        assert_eq!(self.local_modes(), self.modes, "{:?}", self.screen);
        code
    }
}

fn command(line: &str) -> Value {
    json!({"name": "run_command", "args": {"CommandLine": line, "Cwd": "${workspace}"}})
}

#[test]
fn a_person_refuses_allows_and_allows_for_good() {
    let place = Place::new();
    let model = place.script(json!([
        {"calls": [command("touch one")]},
        {"expect": {"tool_results": ["denied"]}, "calls": [command("touch two")]},
        {"expect": {"tool_results": ["succeeded"]}, "calls": [command("touch three")]},
        {"expect": {"tool_results": ["succeeded"]}, "calls": [command("touch four")]},
        {"expect": {"tool_results": ["succeeded"]}, "text": "Enough."},
    ]));
    let mut terminal = Terminal::start(&place, &["chat", "--model", &model], None);
    terminal.expect("Asks before: create_file, edit_file and run_command.");
    terminal.expect_editor();
    terminal.send("go\r");
    terminal.expect("? run_command touch one");
    terminal.expect_editor();
    terminal.send("n\r");
    terminal.expect("✗ run_command touch one · the user refused the call");

    terminal.expect("? run_command touch two");
    terminal.expect_editor();
    terminal.send("d\r");
    terminal.expect("CommandLine: touch two");
    terminal.expect_editor();
    terminal.send("y\r");
    terminal.expect("✓ run_command touch two · exit code 0");

    terminal.expect("? run_command touch three");
    terminal.expect_editor();
    terminal.send("a\r");
    let between = terminal.expect("✓ run_command touch four · exit code 0");
    assert!(!between.contains("? run_command touch four"), "{between}");
    terminal.expect("Enough.");
    terminal.expect_editor();
    terminal.send("/quit\r");
    assert_eq!(terminal.end(), Some(0));
    let made = ["one", "two", "three", "four"].map(|name| place.workspace.join(name).exists());
    assert_eq!(made, [false, true, true, true]);
    assert_eq!(place.home.left_behind().unwrap().len(), 0);
}

#[test]
fn ctrl_c_halts_the_turn_and_a_second_one_leaves() {
    let place = Place::new();
    let model = place.script(json!([
        {"text": "Begun.", "calls": [command("touch begun; sleep 1000")]},
        {"text": "Back."},
    ]));
    let args = ["chat", "--yes", "--model", &model];
    let mut terminal = Terminal::start(&place, &args, None);
    terminal.expect_editor();
    terminal.send("go\r");
    terminal.expect("Begun.");
    // The spinner: it appears only where nothing else happens, and tells of the command.
    terminal.expect("s · run_command: touch begun; sleep 1000");
    assert!(!terminal.local_modes().contains(LocalModes::ECHO));
    terminal.send(CTRL_C);
    terminal.expect("halted; Ctrl-C again leaves");
    // The conversation goes on.
    terminal.expect_editor();
    terminal.send("again\r");
    terminal.expect("Back.");
    terminal.expect_editor();
    terminal.send(CTRL_C);
    terminal.expect("Ctrl-C again leaves");
    terminal.expect_editor();
    terminal.send(CTRL_C);
    assert_eq!(terminal.end(), Some(130));
}

#[test]
fn ctrl_c_at_a_question_refuses_and_halts() {
    let place = Place::new();
    let model = place.script(json!([{"calls": [command("touch one")]}, {"text": "Not said."}]));
    let mut terminal = Terminal::start(&place, &["run", "--model", &model, "go"], None);
    terminal.expect("? run_command touch one");
    terminal.expect_editor();
    terminal.send(CTRL_C);
    assert_eq!(terminal.end(), Some(130));
    assert!(!place.workspace.join("one").exists());
}

#[test]
fn a_question_of_the_agent_is_put_to_the_person() {
    let place = Place::new();
    let ask = json!({"name": "ask_question", "args": {"questions": [
        {"question": "Which colour?", "options": ["red", "blue"]},
    ]}});
    let model = place.script(json!([
        {"calls": [ask]},
        {"expect": {"tool_result_contains": "blue"}, "text": "Blue it is."},
    ]));
    let mut terminal = Terminal::start(&place, &["run", "--model", &model, "go"], None);
    terminal.expect("? Which colour?");
    terminal.expect("2 blue");
    terminal.expect_editor();
    terminal.send("2\r");
    terminal.expect("Blue it is.");
    assert_eq!(terminal.end(), Some(0));
}

#[test]
fn the_person_is_asked_when_stdout_is_a_file() {
    let place = Place::new();
    let model = place.script(json!([
        {"calls": [command("touch one")]},
        {"text": "In the file."},
    ]));
    let path = place.home.root().join("answer.txt");
    let file = File::create(&path).unwrap();
    let args = ["run", "--model", &model, "go"];
    let mut terminal = Terminal::start(&place, &args, Some(file.into()));
    terminal.expect("? run_command touch one");
    terminal.expect_editor();
    terminal.send("y\r");
    terminal.expect("✓ run_command touch one");
    assert_eq!(terminal.end(), Some(0));
    assert_eq!(std::fs::read_to_string(path).unwrap(), "In the file.\n");
}

#[test]
fn a_signal_at_the_prompt_leaves_the_terminal_as_it_was() {
    let place = Place::new();
    let model = place.script(json!([]));
    let mut terminal = Terminal::start(&place, &["chat", "--model", &model], None);
    terminal.expect_editor();
    // `setsid` becomes the program, as it does not lead a process group itself.
    kill_process(Pid::from_child(&terminal.child), Signal::TERM).unwrap();
    assert_eq!(terminal.end(), Some(130));
}
