//! The live view in a terminal: keys, questions to proxies and the passing of time go to the state, and it is
//! drawn.

use std::io::{self, IsTerminal, stdout};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use helenus_console::terminal::{stopped, wants_colours};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEvent};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, enable_raw_mode};
use rustix::process::{Signal, getpid, kill_process};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::app::{App, Input, Wish};
use super::asking::{self, Servers, now_ms};
use super::draw::{Theme, draw};

/// Events that are not yet taken: keys that somebody leans on, answers of many proxies.
const HAPPENINGS_MAX: usize = 256;
/// How often the thread that reads keys looks whether it is still needed.
const KEYS_PATIENCE: Duration = Duration::from_millis(200);

/// An event.
enum Happened {
    Key(KeyEvent),
    Input(Input),
    /// There is no terminal any more.
    Gone,
}

impl From<Input> for Happened {
    fn from(input: Input) -> Happened {
        Happened::Input(input)
    }
}

/// Fails if there is no terminal to draw on.
///
/// # Errors
/// Why not, and what to do.
pub(super) fn ensure_terminal() -> Result<()> {
    ensure!(
        stdout().is_terminal() && io::stdin().is_terminal(),
        "this is not a terminal: --once prints once, --json prints one JSON document a line"
    );
    if std::env::var_os("TERM").is_some_and(|term| term == "dumb") {
        bail!("this terminal cannot be drawn on (TERM=dumb): use --once or --json");
    }
    Ok(())
}

/// The terminal as it is while something is drawn; as it was before when this is dropped, and when the program
/// panics.
struct Screen(DefaultTerminal);

impl Screen {
    fn enter() -> Result<Screen> {
        let terminal = ratatui::try_init();
        Ok(Screen(terminal.context("the terminal cannot be drawn on")?))
    }

    /// Lets the shell have it until it continues this program.
    fn suspend(&mut self) -> Result<()> {
        ratatui::try_restore()?;
        kill_process(getpid(), Signal::TSTP)?;
        // It goes on here.
        enable_raw_mode()?;
        execute!(stdout(), EnterAlternateScreen)?;
        self.0.clear()?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Shows until somebody quits, or SIGTERM, SIGINT or SIGHUP arrives.
pub(super) async fn run(mut app: App, servers: Servers) -> Result<()> {
    let theme = Theme {
        has_colours: wants_colours(),
    };
    let mut hang_up = signal(SignalKind::hangup())?;
    let mut stop = std::pin::pin!(stopped());
    let (sender, mut happenings) = mpsc::channel(HAPPENINGS_MAX);
    let mut screen = Screen::enter()?;
    let size = screen.0.size()?;
    app.update(Input::Resized(size.width, size.height), now_ms());
    app.wants_past = true;
    let keys = sender.clone();
    std::thread::Builder::new()
        .name("keys".to_owned())
        .spawn(move || read_keys(&keys))?;
    loop {
        for ask in app.due(now_ms()) {
            asking::ask(&servers, ask, sender.clone());
        }
        screen.0.draw(|frame| draw(&app, theme, frame))?;
        let pause = app.next_ms().map_or(Duration::MAX, |next_ms| {
            Duration::from_millis(next_ms.saturating_sub(now_ms()))
        });
        let mut next = tokio::select! {
            happened = happenings.recv() => happened,
            () = tokio::time::sleep(pause), if pause < Duration::MAX => continue,
            stopped = &mut stop => return stopped,
            _ = hang_up.recv() => return Ok(()),
        };
        // All that has come together is drawn once.
        while let Some(happened) = next {
            let wish = match happened {
                Happened::Key(key) => app.on_key(key, now_ms()),
                Happened::Input(input) => {
                    app.update(input, now_ms());
                    None
                }
                Happened::Gone => return Ok(()),
            };
            match wish {
                None => {}
                Some(Wish::Quit) => return Ok(()),
                Some(Wish::Redraw) => screen.0.clear()?,
                Some(Wish::Suspend) => screen.suspend()?,
                Some(Wish::Kill { proxy, id }) => {
                    asking::kill(&servers, proxy, id, sender.clone());
                }
            }
            next = happenings.try_recv().ok();
        }
    }
}

/// Sends keys and sizes of the terminal until nobody takes them.
fn read_keys(happenings: &mpsc::Sender<Happened>) {
    while !happenings.is_closed() {
        let happened = match event::poll(KEYS_PATIENCE) {
            Ok(false) => continue,
            Ok(true) => match event::read() {
                Ok(Event::Key(key)) => Happened::Key(key),
                Ok(Event::Resize(width, height)) => Input::Resized(width, height).into(),
                Ok(_) => continue,
                Err(_) => Happened::Gone,
            },
            Err(_) => Happened::Gone,
        };
        let is_last = matches!(happened, Happened::Gone);
        if happenings.blocking_send(happened).is_err() || is_last {
            return;
        }
    }
}
