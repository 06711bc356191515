//! `helenus top` in a terminal, before a proxy that works.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use helenus_tests::proxy::{Options, Proxy, free_addresses, helenus};
use helenus_tests::raw::{Client, PATIENCE};
use helenus_wire::code;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::nodes::{Nodes, Reply, Spec};

const ALTERNATE_SCREEN: &str = "\u{1b}[?1049h";
const ORDINARY_SCREEN: &str = "\u{1b}[?1049l";
const CURSOR_SHOWN: &str = "\u{1b}[?25h";

/// The program in a terminal of its own.
struct Terminal {
    child: Child,
    keyboard: fs::File,
    /// Kept open, so that it can be looked at when the program has ended.
    inside: OwnedFd,
    shown: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    fn start(arguments: &[&str], columns: u16, lines: u16) -> Terminal {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let outside = openpt(flags).expect("a terminal");
        grantpt(&outside).expect("granted");
        unlockpt(&outside).expect("unlocked");
        let inside = ioctl_tiocgptpeer(&outside, flags).expect("its other end");
        let mut screen = fs::File::from(outside);
        let keyboard = screen.try_clone().expect("a second one");
        let end = || Stdio::from(inside.try_clone().expect("a second one"));
        let program = helenus(arguments).expect("the program");
        // The program's terminal, so that it hears of another size.
        let mut command = std::process::Command::new("setsid");
        command
            .arg("--ctty")
            .arg(program.get_program())
            .args(program.get_args());
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.env("TERM", "xterm").env_remove("NO_COLOR");
        let terminal = Terminal {
            child: command
                .stdin(end())
                .stdout(end())
                .stderr(end())
                .spawn()
                .expect("started"),
            keyboard,
            inside,
            shown: Arc::default(),
        };
        terminal.resize(columns, lines);
        let shown = terminal.shown.clone();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            loop {
                match screen.read(&mut bytes) {
                    Ok(0) => return,
                    Ok(read) => shown
                        .lock()
                        .expect("bytes")
                        .extend_from_slice(&bytes[..read]),
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    // Nobody is inside any more.
                    Err(_) => return,
                }
            }
        });
        terminal
    }

    fn resize(&self, columns: u16, lines: u16) {
        let size = Winsize {
            ws_col: columns,
            ws_row: lines,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&self.keyboard, size).expect("a size");
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("typed");
    }

    fn written(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().expect("bytes")).into_owned()
    }

    fn wait_until(&self, what: &str, is_so: impl Fn(&str) -> bool) {
        let begin = Instant::now();
        loop {
            let written = self.written();
            let screen = screen_of(&written).join("\n");
            if is_so(&written) || is_so(&screen) {
                return;
            }
            assert!(
                begin.elapsed() < PATIENCE,
                "{what:?} is not shown:\n{screen}"
            );
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the screen is so.
    fn wait_screen(&self, what: &str, is_so: impl Fn(&str) -> bool) {
        let begin = Instant::now();
        loop {
            let screen = screen_of(&self.written()).join("\n");
            if is_so(&screen) {
                return;
            }
            assert!(
                begin.elapsed() < PATIENCE,
                "{what:?} is not shown:\n{screen}"
            );
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the screen shows a text, or something was written.
    fn wait_for(&self, text: &str) {
        self.wait_until(text, |shown| shown.contains(text));
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a pid"), signal).expect("a signal");
    }

    fn is_raw(&self) -> bool {
        let modes = tcgetattr(&self.inside).expect("modes").local_modes;
        !modes.contains(LocalModes::ICANON) && !modes.contains(LocalModes::ECHO)
    }

    fn end(&mut self) -> ExitStatus {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a status") {
                self.wait_for(ORDINARY_SCREEN);
                self.wait_for(CURSOR_SHOWN);
                assert!(!self.is_raw(), "the terminal is as the program had it");
                return status;
            }
            assert!(begin.elapsed() < PATIENCE, "it does not end");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The lines of the screen after all that was written: text where the cursor was put, and what clears it.
fn screen_of(written: &str) -> Vec<String> {
    let mut cells: Vec<Vec<char>> = Vec::new();
    let (mut line, mut column) = (0, 0);
    let mut rest = written.chars();
    while let Some(char) = rest.next() {
        if char != '\u{1b}' {
            if cells.len() <= line {
                cells.resize(line + 1, Vec::new());
            }
            if cells[line].len() <= column {
                cells[line].resize(column + 1, ' ');
            }
            cells[line][column] = char;
            column += 1;
            continue;
        }
        let mut parameters = String::new();
        let end = rest.by_ref().skip_while(|c| *c == '[').find(|c| {
            parameters.push(*c);
            c.is_ascii_alphabetic()
        });
        match end {
            Some('H') => {
                let numbers = parameters.trim_end_matches('H').split(';');
                let mut numbers = numbers.map(|number| number.parse().unwrap_or(1_usize));
                line = numbers.next().unwrap_or(1) - 1;
                column = numbers.next().unwrap_or(1) - 1;
            }
            Some('J') => cells.clear(),
            _ => {}
        }
    }
    cells.into_iter().map(String::from_iter).collect()
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It says only that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn proxy(settings: &[&str]) -> Proxy {
    proxy_of(&Nodes::start(Spec::default()), settings)
}

fn proxy_of(nodes: &Nodes, settings: &[&str]) -> Proxy {
    let mut all = vec!["listen.workers=1"];
    all.extend(settings);
    Proxy::start(&nodes.addresses[..1], &all).expect("proxy")
}

#[test]
fn top_draws_takes_keys_and_leaves_the_terminal_as_it_was() {
    let proxy = proxy(&[]);
    let mut client = Client::ready(proxy.address, 5).expect("client");
    client.query("SELECT count(*) FROM ks.t").expect("a row");
    let admin = format!("http://{}", proxy.admin);
    let arguments = ["top", "--admin", &admin, "--every", "0.2"];
    let mut terminal = Terminal::start(&arguments, 80, 24);
    terminal.wait_for(ALTERNATE_SCREEN);
    terminal.wait_for("point p99");
    terminal.wait_for("3 of 3");
    assert!(terminal.is_raw());
    terminal.press("3");
    terminal.wait_for("1 connected");
    terminal.press("\r");
    terminal.wait_for("Esc ends this");
    // The last line goes where the terminal now ends.
    terminal.resize(100, 40);
    terminal.wait_until("line 40", |shown| {
        shown
            .lines()
            .nth(39)
            .is_some_and(|line| line.contains("help"))
    });
    // An Esc would be one key with what follows at once.
    terminal.press("q");
    terminal.wait_until("rows", |shown| {
        shown.contains("1 connected") && !shown.contains("Esc ends this")
    });
    terminal.press("q");
    assert!(terminal.end().success());

    for signal in [Signal::TERM, Signal::HUP] {
        let mut terminal = Terminal::start(&arguments, 80, 24);
        terminal.wait_for("3 of 3");
        terminal.signal(signal);
        assert!(terminal.end().success(), "{signal:?}");
    }
}

#[test]
fn top_shows_proxies_that_do_not_answer_and_goes_on() {
    let proxy = proxy(&[]);
    let admin = proxy.admin.to_string();
    let mut terminal = Terminal::start(&["top", "--admin", &admin, "--every", "0.2"], 120, 24);
    terminal.wait_for("ready");
    drop(proxy);
    terminal.wait_for("no answer");
    terminal.wait_for("refused");
    terminal.press("\u{3}");
    assert!(terminal.end().success());
}

#[test]
fn top_goes_on_with_a_proxy_that_comes_back_at_its_address() {
    let nodes = Nodes::start(Spec::default());
    let addresses = free_addresses("127.0.0.1").expect("addresses");
    let start = || {
        let mut proxy = Proxy::launch(&Options {
            contact_points: &nodes.addresses[..1],
            settings: &["listen.workers=1"],
            addresses: Some(addresses),
            ..Options::default()
        })
        .expect("proxy");
        proxy.wait_ready().expect("ready");
        proxy
    };
    let admin = addresses.1.to_string();
    // Before there is one.
    let mut terminal = Terminal::start(&["top", "--admin", &admin, "--every", "0.2"], 120, 24);
    terminal.wait_for("no answer");
    for _ in 0..2 {
        let proxy = start();
        terminal.wait_screen("3 of 3", |screen| {
            screen.contains("3 of 3") && screen.contains("ready") && !screen.contains("no answer")
        });
        // There is a tab for what has happened.
        terminal.wait_screen("Events", |screen| screen.contains("Events"));
        drop(proxy);
        terminal.wait_screen("no answer", |screen| screen.contains("no answer"));
    }
    terminal.press("q");
    assert!(terminal.end().success());
}

#[test]
fn top_says_that_a_token_is_not_accepted_and_stays() {
    let proxy = proxy(&["admin.token=\"s3cret\""]);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    fs::write(&file, "wrong").expect("written");
    let path = file.to_str().expect("a path").to_owned();
    let admin = proxy.admin.to_string();
    let arguments = [
        "top",
        "--admin",
        &admin,
        "--every",
        "0.2",
        "--admin-token-file",
        &path,
    ];
    let mut terminal = Terminal::start(&arguments, 200, 24);
    terminal.wait_screen("refused", |screen| {
        screen.contains(": refused")
            && screen.contains("does not accept the token of --admin-token-file")
    });
    terminal.press("3");
    terminal.wait_screen("Clients", |screen| {
        screen.contains("waiting for the answer")
    });
    terminal.press("q");
    assert!(terminal.end().success());
    let output = helenus(&[&arguments[..], &["--once"]].concat());
    let output = output.expect("the program").output().expect("its output");
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("does not accept the token"), "{said}");
}

/// Titles of windows, a cleared screen, marks of direction, joiners, another C1 control.
const EVIL: &str = "evil\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\u{202e}\u{200d}\u{301}\r\n漢字";
/// Clients' names for themselves are shown in one line: the proxy puts blanks in place of what controls something.
const HARMLESS: &str = "evil ]0;owned  [2J 31m\u{fffd}";
const OBEYED: [&str; 7] = [
    "]0;owned\u{7}",
    "\u{1b}[2Jevil",
    "\u{9b}",
    "\u{202e}",
    "\u{200d}",
    "\u{301}",
    "\r漢",
];

#[test]
fn what_clients_call_themselves_and_others_is_obeyed_by_no_terminal() {
    let nodes = Nodes::start(Spec::default());
    let proxy = proxy_of(&nodes, &[]);
    let mut client = Client::connect(proxy.address, 5).expect("client");
    let names = [
        "APPLICATION_NAME",
        "APPLICATION_VERSION",
        "DRIVER_NAME",
        "DRIVER_VERSION",
    ];
    client
        .hello(&names.map(|name| (name, EVIL)))
        .expect("ready");
    client.query("SELECT count(*) FROM ks.t").expect("a row");
    let text = format!("SELECT \"{EVIL}\" FROM \"{EVIL}\".\"{EVIL}\" WHERE \"{EVIL}\" = 1");
    nodes.follow(|_| Reply::Error(code::UNAUTHORIZED));
    client.query(&text).expect_err("no right to that");
    let admin = proxy.admin.to_string();
    let mut terminal = Terminal::start(&["top", "--admin", &admin, "--every", "0.2"], 200, 40);
    terminal.wait_for("3 of 3");
    terminal.press("3");
    terminal.wait_screen("evil", |screen| screen.contains(HARMLESS));
    terminal.press("\r");
    terminal.wait_screen("details", |screen| {
        screen.contains("Esc ends this") && screen.contains(HARMLESS)
    });
    terminal.press("qK");
    terminal.wait_screen("the question", |screen| {
        screen.contains("application “evil ]0;owned")
    });
    terminal.press("n6");
    terminal.wait_screen("errors", |screen| screen.contains("evil\u{fffd}"));
    terminal.press("q");
    assert!(terminal.end().success());
    let written = terminal.written();
    for obeyed in OBEYED {
        assert!(!written.contains(obeyed), "{obeyed:?} in {written:?}");
    }
    let mut commands = vec![vec!["top", "--admin", &admin, "--once", "--tab", "clients"]];
    commands.push(vec![
        "top", "--admin", &admin, "--once", "--json", "--tab", "clients",
    ]);
    commands.push(vec!["top", "--admin", &admin, "--once", "--keys"]);
    for what in ["clients", "errors", "statements", "slow", "pools", "keys"] {
        commands.push(vec!["ctl", "--admin", &admin, "show", what]);
        commands.push(vec!["ctl", "--admin", &admin, "show", what, "--json"]);
    }
    commands.push(vec!["ctl", "--admin", &admin, "kill", EVIL]);
    for command in commands {
        let printed = printed(&command);
        if command.contains(&"clients") {
            assert!(printed.contains("evil"), "{command:?}: {printed:?}");
        }
    }
}

/// The output of a command, which no terminal obeys.
fn printed(command: &[&str]) -> String {
    let output = helenus(command).expect("the program").output();
    let output = output.expect("its output");
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8(printed).expect("UTF-8");
    let is_obeyed = |c: char| (c.is_control() && c != '\n') || OBEYED.contains(&&*c.to_string());
    assert!(!printed.contains(is_obeyed), "{command:?}: {printed:?}");
    printed
}

#[test]
fn errors_that_quote_a_file_are_obeyed_by_no_terminal() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), EVIL).expect("written");
    let path = file.path().to_str().expect("a path in UTF-8");
    let admin = "http://127.0.0.1:1";
    let commands = [
        vec!["serve", "--config", path],
        vec!["check", "--config", path],
        vec!["health", "--config", path],
        vec![
            "top",
            "--admin",
            admin,
            "--admin-token-file",
            path,
            "--once",
        ],
    ];
    for command in commands {
        let printed = printed(&command);
        assert!(printed.contains("helenus: "), "{command:?}: {printed:?}");
    }
}

#[test]
fn top_fits_any_terminal() {
    let proxy = proxy(&[]);
    let admin = proxy.admin.to_string();
    let mut terminal = Terminal::start(&["top", "--admin", &admin, "--every", "0.2"], 80, 24);
    terminal.wait_for("3 of 3");
    for (columns, lines) in [(1, 1), (2, 3), (10, 4), (400, 2), (3, 200), (80, 24)] {
        terminal.resize(columns, lines);
        terminal.press("2?x3K");
        thread::sleep(Duration::from_millis(50));
    }
    terminal.press("1");
    terminal.wait_screen("3 of 3", |screen| screen.contains("3 of 3"));
    terminal.press("q");
    assert!(terminal.end().success());
}

#[test]
fn top_disconnects_a_client_with_the_token_that_may() {
    let settings = ["admin.token=\"s3cret\"", "admin.read_token=\"r3ad\""];
    let proxy = proxy(&settings);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    let path = file.to_str().expect("a path").to_owned();
    let admin = proxy.admin.to_string();
    let arguments = [
        "top",
        "--admin",
        &admin,
        "--admin-token-file",
        &path,
        "--tab",
        "clients",
    ];
    let mut client = Client::ready(proxy.address, 5).expect("client");
    for (token, is_allowed) in [("r3ad", false), ("s3cret", true)] {
        fs::write(&file, token).expect("written");
        let mut terminal = Terminal::start(&arguments, 80, 24);
        terminal.wait_for("1 connected");
        terminal.press("K");
        terminal.wait_for("Disconnect this client?");
        terminal.press("y");
        match is_allowed {
            false => terminal.wait_for("only reads"),
            true => terminal.wait_for("is disconnected"),
        }
        let answer = client.query("SELECT count(*) FROM ks.t");
        assert_eq!(answer.is_ok(), !is_allowed, "{token}");
        terminal.press("q");
        assert!(terminal.end().success());
    }
}

#[test]
fn top_prints_for_scripts_and_says_what_to_do_without_a_terminal() {
    let proxy = proxy(&[]);
    let admin = proxy.admin.to_string();
    let run = |arguments: &[&str]| {
        let all = [&["top", "--admin", &admin, "--every", "0.1"], arguments].concat();
        let output = helenus(&all)
            .expect("the program")
            .output()
            .expect("its output");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            output.status.success(),
            text(&output.stdout),
            text(&output.stderr),
        )
    };
    let (ok, _, said) = run(&[]);
    assert!(!ok && said.contains("--once"), "{said}");
    let (ok, printed, said) = run(&["--once"]);
    assert!(
        ok && printed.contains("reads_per_s") && printed.contains("127.0.0.3"),
        "{printed}{said}"
    );
    let (ok, printed, said) = run(&["--once", "--json", "--tab", "queues"]);
    assert!(ok, "{said}");
    let shown: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
    assert_eq!(
        (&shown["proxies"][0]["ready"], shown["rows"].is_array()),
        (&true.into(), true)
    );
    let (ok, printed, said) = run(&["--once", "--keys"]);
    assert!(ok && printed.contains("through 1 proxy"), "{printed}{said}");
    let (ok, printed, said) = run(&["--once", "--keys", "--json"]);
    assert!(
        ok && printed.starts_with("{\"proxies\":1,"),
        "{printed}{said}"
    );
    drop(proxy);
    for arguments in [&["--once"] as &[&str], &["--json"], &["--once", "--keys"]] {
        let (ok, printed, said) = run(arguments);
        assert!(
            !ok && printed.is_empty() && said.contains("cannot ask"),
            "{printed}{said}"
        );
    }
}
