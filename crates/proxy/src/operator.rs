//! Operators' requests to a running proxy, by signals and through the admin server.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;
use helenus_engine::snapshot::Snapshot;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Interval;

use crate::control::Control;
use crate::control::first_contact::first_control;
use crate::handover::Successor;
use crate::process::{Action, LogChange, Process};
use crate::reload::last::Reloaded;
use crate::reload::{FILES_INTERVAL, Program, Reloader};
use crate::system::service_manager::{ServiceManager, State};

/// Why a proxy stops.
pub(crate) enum End {
    /// An operator wants it: by a signal, or through the admin server.
    Asked { by_signal: bool },
    /// Another proxy serves its clients.
    Replaced(Box<Successor>),
}

enum Wish {
    Reload(Option<oneshot::Sender<Result<Reloaded, String>>>),
    Stop { by_signal: bool },
}

/// Waits for what operators ask, and looks after files meanwhile.
pub(crate) struct Operator {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    actions: mpsc::Receiver<Action>,
    files: Interval,
    reloader: Reloader,
    /// While something else was waited for.
    wants_drain: bool,
}

impl Operator {
    pub(crate) fn new(
        program: Program,
        common: &Arc<Process>,
        actions: mpsc::Receiver<Action>,
    ) -> Result<Operator> {
        Ok(Operator {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            actions,
            files: tokio::time::interval(FILES_INTERVAL),
            reloader: Reloader::new(program, common.clone()),
            wants_drain: false,
        })
    }

    /// True if a drain was asked for during [`Operator::meanwhile`]: a proxy that goes on after that must not.
    pub(crate) fn wants_drain(&self) -> bool {
        self.wants_drain
    }

    /// The next wish.
    async fn wish(&mut self) -> Wish {
        loop {
            tokio::select! {
                _ = self.hangup.recv() => return Wish::Reload(None),
                Some(action) = self.actions.recv() => return match action {
                    Action::Reload(done) => Wish::Reload(Some(done)),
                    Action::Drain => Wish::Stop { by_signal: false },
                    Action::Log(LogChange { wanted, done }) => {
                        let changed = self.reloader.change_log(wanted);
                        let _ = done.send(changed.map_err(|e| format!("{e:#}")));
                        continue;
                    }
                },
                _ = self.files.tick() => {
                    self.reloader.watch_files().await;
                    self.reloader.look_at_log();
                }
                _ = self.terminate.recv() => return Wish::Stop { by_signal: true },
                _ = self.interrupt.recv() => return Wish::Stop { by_signal: true },
            }
        }
    }

    fn reload(&mut self, done: Option<oneshot::Sender<Result<Reloaded, String>>>) {
        // The error is in the log.
        let reloaded = self.reloader.reload().map_err(|e| format!("{e:#}"));
        if let Some(done) = done {
            let _ = done.send(reloaded);
        }
    }

    /// Looks for the cluster; `None` if the proxy is to stop before it is found.
    pub(crate) async fn until_connected(
        &mut self,
        common: &Process,
        manager: &ServiceManager,
    ) -> Result<Option<(Control, Snapshot)>> {
        let mut contact = pin!(first_control(common, manager));
        loop {
            tokio::select! {
                found = &mut contact => return found.map(Some),
                wish = self.wish() => match wish {
                    Wish::Reload(done) => {
                        self.reload(done);
                        // At once, because the change may be what makes the contact points usable.
                        contact.set(first_control(common, manager));
                    }
                    Wish::Stop { .. } => return Ok(None),
                },
            }
        }
    }

    /// Until the proxy is to stop. `serving`: what the service manager is told of it.
    pub(crate) async fn until_end(
        &mut self,
        manager: &ServiceManager,
        serving: &str,
        mut successor: Pin<Box<dyn Future<Output = Successor>>>,
    ) -> End {
        manager.tell(State::Ready(serving));
        loop {
            tokio::select! {
                successor = &mut successor => return End::Replaced(Box::new(successor)),
                wish = self.wish() => match wish {
                    Wish::Reload(done) => {
                        manager.tell(State::Reloading);
                        self.reload(done);
                        manager.tell(State::Ready(serving));
                    }
                    Wish::Stop { by_signal } => return End::Asked { by_signal },
                },
            }
        }
    }

    /// Until the workers have ended, or the operator does not want to wait for them.
    pub(crate) async fn until_drained(&mut self, workers: &[JoinHandle<()>], patience: &mut u32) {
        // A panic of a worker has been reported already.
        let drained = async {
            while workers.iter().any(|worker| !worker.is_finished()) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        self.meanwhile(drained, patience).await;
    }

    /// Waits for a part of the proxy's end; `None` if the operator does not want to wait for it and says so
    /// by a signal. `patience`: how many signals may come before.
    pub(crate) async fn meanwhile<T>(
        &mut self,
        part: impl Future<Output = T>,
        patience: &mut u32,
    ) -> Option<T> {
        let mut part = pin!(part);
        loop {
            tokio::select! {
                done = &mut part => return Some(done),
                wish = self.wish() => match wish {
                    Wish::Reload(done) => self.reload(done),
                    Wish::Stop { by_signal: false } => self.wants_drain = true,
                    Wish::Stop { by_signal: true } if *patience > 0 => *patience -= 1,
                    Wish::Stop { by_signal: true } => return None,
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::bail;
    use rustix::process::{Signal as SignalProcess, getpid, kill_process};

    use super::*;

    fn operator() -> (Operator, mpsc::Sender<Action>) {
        let config = crate::config::from_toml("").expect("settings");
        let common = Arc::new(crate::testing::process(config));
        let program = Program {
            load: Box::new(|| bail!("there is none")),
            set_log_filter: Box::new(|_| Ok(())),
            log: Arc::default(),
        };
        let (sender, actions) = mpsc::channel(4);
        let operator = Operator::new(program, &common, actions).expect("signals");
        (operator, sender)
    }

    #[tokio::test]
    async fn an_operator_drains_once_and_is_no_signal_and_a_signal_ends_it() {
        let (mut operator, sender) = operator();
        let (done, reloaded) = oneshot::channel();
        for action in [Action::Drain, Action::Drain, Action::Reload(done)] {
            sender.try_send(action).expect("there is room");
        }
        let manager = ServiceManager::of_environment();
        let never = Box::pin(std::future::pending());
        let end = operator.until_end(&manager, "serving", never).await;
        assert!(matches!(end, End::Asked { by_signal: false }));
        assert!(!operator.wants_drain());
        // The second is no reason not to wait, and settings can be read again.
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let workers = [std::thread::spawn(move || {
            let _ = ends.recv();
        })];
        let mut patience = 1;
        let answered = async {
            let reloaded = reloaded.await;
            end.send(()).expect("the worker waits");
            reloaded
        };
        let (reloaded, ()) =
            tokio::join!(answered, operator.until_drained(&workers, &mut patience));
        assert!(reloaded.is_ok_and(|reloaded| reloaded.is_err()));
        assert!(operator.wants_drain());
        assert!(workers.iter().all(JoinHandle::is_finished));
        a_signal_ends_what_is_not_to_be_waited_for(&mut operator).await;
    }

    /// Not beside other tests: all operators of a process hear of a signal.
    async fn a_signal_ends_what_is_not_to_be_waited_for(operator: &mut Operator) {
        kill_process(getpid(), SignalProcess::TERM).expect("sent");
        let never = std::future::pending::<()>();
        assert!(operator.meanwhile(never, &mut 0).await.is_none());
    }
}
