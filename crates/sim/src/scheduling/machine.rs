//! The processors of one machine, shared by the threads that want to run.
//!
//! Time is divided as by an operating system that is fair to processes first (a group for each session, as
//! Linux makes them) and to their threads second. A process never gets more cores than it has threads that
//! want to run; what it does not take goes to the others.

use crate::sharing::Sharing;

/// Work in nanoseconds of a core, so that its order is one of whole numbers.
const NS: f64 = 1_000.0;
/// Rounding errors are smaller than this, and nobody sees it.
const SLACK_NS: f64 = 2.0;

/// `J`: what a thread does, as its owner knows it.
#[derive(Debug)]
pub(super) struct Machine<J> {
    cores: f64,
    processes: Vec<Process<J>>,
    updated_us: u64,
    /// Changes with everything that begins or ends.
    pub generation: u64,
}

#[derive(Debug)]
struct Process<J> {
    /// In nanoseconds of a core, for each thread.
    running: Sharing<J>,
    busy_us: f64,
}

impl<J> Machine<J> {
    pub(super) fn new(cores: u32, processes: usize) -> Self {
        let process = || Process {
            running: Sharing::new(),
            busy_us: 0.0,
        };
        Machine {
            cores: f64::from(cores),
            processes: (0..processes).map(|_| process()).collect(),
            updated_us: 0,
            generation: 0,
        }
    }

    /// A thread of a process wants to run for so long.
    pub(super) fn start(&mut self, now_us: u64, process: usize, work_us: f64, job: J) {
        self.advance(now_us);
        let running = &mut self.processes[process].running;
        let end_ns = (running.attained + work_us * NS).round();
        running.enter(end_ns, job);
        self.generation += 1;
    }

    /// When the next thread has had all that it wants, if nothing changes.
    pub(super) fn next_end_us(&self, now_us: u64) -> Option<u64> {
        let rates = self.rates();
        let ends = self.processes.iter().zip(rates).filter_map(|(of, rate)| {
            let left_ns = of.running.left()?;
            Some((left_ns / NS / rate).ceil() as u64)
        });
        ends.min().map(|left_us| now_us + left_us)
    }

    /// A thread that has had all that it wants.
    pub(super) fn poll_end(&mut self, now_us: u64) -> Option<J> {
        self.advance(now_us);
        let mut processes = self.processes.iter_mut();
        let job = processes.find_map(|of| {
            let attained_ns = of.running.attained.floor() + SLACK_NS;
            (of.running.next_end()? <= attained_ns).then(|| of.running.leave())?
        })?;
        self.generation += 1;
        Some(job)
    }

    /// Processor time of a process so far, in microseconds.
    pub(super) fn busy_us(&self, process: usize) -> f64 {
        self.processes[process].busy_us
    }

    fn advance(&mut self, now_us: u64) {
        let passed_us = (now_us - self.updated_us) as f64;
        self.updated_us = now_us;
        if passed_us == 0.0 {
            return;
        }
        let rates = self.rates();
        for (of, rate) in self.processes.iter_mut().zip(rates) {
            if of.running.len() > 0 {
                of.running.attained += passed_us * NS * rate;
                of.busy_us += passed_us * rate * of.running.len() as f64;
            }
        }
    }

    /// How fast each thread of each process runs, 1 being a core of its own.
    fn rates(&self) -> Vec<f64> {
        let threads = |of: &Process<J>| of.running.len() as f64;
        let mut rates = vec![0.0; self.processes.len()];
        let mut hungry: Vec<usize> = (0..rates.len())
            .filter(|at| self.processes[*at].running.len() > 0)
            .collect();
        let mut left = self.cores;
        while !hungry.is_empty() {
            let share = left / hungry.len() as f64;
            let (content, rest): (Vec<usize>, Vec<usize>) = hungry
                .iter()
                .partition(|at| threads(&self.processes[**at]) <= share);
            if content.is_empty() {
                for at in rest {
                    rates[at] = share / threads(&self.processes[at]);
                }
                break;
            }
            for at in content {
                rates[at] = 1.0;
                left -= threads(&self.processes[at]);
            }
            hungry = rest;
        }
        rates
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When each job of (process, work in µs) ends, if all begin at once.
    fn ends(cores: u32, jobs: &[(usize, f64)]) -> Vec<u64> {
        let mut machine = Machine::new(cores, 3);
        for (at, (process, work_us)) in jobs.iter().enumerate() {
            machine.start(0, *process, *work_us, at);
        }
        let mut ends = vec![0; jobs.len()];
        let mut now_us = 0;
        while let Some(next_us) = machine.next_end_us(now_us) {
            now_us = next_us;
            while let Some(job) = machine.poll_end(now_us) {
                ends[job] = now_us;
            }
        }
        let busy: f64 = (0..3).map(|process| machine.busy_us(process)).sum();
        let work: f64 = jobs.iter().map(|(_, work_us)| work_us).sum();
        assert!((busy - work).abs() < 5.0, "{busy} of {work}");
        ends
    }

    #[test]
    fn up_to_as_many_threads_as_cores_run_at_full_speed() {
        assert_eq!(ends(2, &[(0, 100.0), (0, 300.0)]), [100, 300]);
    }

    #[test]
    fn threads_of_a_process_share_alike() {
        assert_eq!(ends(1, &[(0, 100.0), (0, 300.0)]), [200, 400]);
        assert_eq!(ends(2, &[(0, 100.0); 4]), [200; 4]);
    }

    #[test]
    fn processes_share_alike_whatever_their_threads() {
        // One thread against four on two cores: it has a core of its own.
        let jobs = [(0, 100.0), (1, 100.0), (1, 100.0), (1, 100.0), (1, 100.0)];
        assert_eq!(ends(2, &jobs), [100, 250, 250, 250, 250]);
        // Half a core for each of two processes.
        assert_eq!(ends(1, &[(0, 100.0), (1, 100.0)]), [200, 200]);
    }

    #[test]
    fn work_of_no_length_ends_at_once() {
        assert_eq!(ends(1, &[(0, 0.0), (1, 10.0)]), [0, 10]);
    }
}
