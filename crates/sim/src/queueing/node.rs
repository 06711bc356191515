//! A node: which requests it has, and when it is done with them.

use super::setup::{Service, Setup};
use crate::dice::Dice;
use crate::sharing::Sharing;
use crate::threads::Threads;

/// A number for a request.
pub(super) type RequestId = usize;

/// A request as a node gets it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Work {
    pub id: RequestId,
    /// How much of the request's work is this node's.
    pub share: f64,
}

pub(super) struct Node<'a> {
    setup: &'a Setup,
    /// Service times as multiples of what they should be.
    pub factor: f64,
    stalled_until_us: u64,
    serving: Serving,
    counted_us: u64,
    /// How long it was busy since it was asked last, and when that was.
    busy_us: f64,
    asked_us: u64,
    /// Requests that came since the count was taken last.
    came: u64,
}

enum Serving {
    Lanes(Threads<Work>),
    /// The work of a request is 1 on average. The number is that of the plan for the next end; earlier ones are void.
    Shared(Sharing<RequestId>, u64),
}

/// Something that a node is to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Due {
    /// A lane is done with a request.
    Served(Work),
    /// The next of the requests that progress alike ends, unless the plan has changed.
    Ends(u64),
}

/// What is due, in so many microseconds.
pub(super) type Plan = (u64, Due);

impl Node<'_> {
    pub(super) fn new(setup: &Setup, factor: f64) -> Node<'_> {
        Node {
            setup,
            factor,
            stalled_until_us: 0,
            serving: match &setup.service {
                Service::Lanes { lanes, .. } => Serving::Lanes(Threads::new(*lanes)),
                Service::Shared(_) => Serving::Shared(Sharing::new(), 0),
            },
            counted_us: 0,
            busy_us: 0.0,
            asked_us: 0,
            came: 0,
        }
    }

    pub(super) fn on_request(&mut self, now_us: u64, work: Work, dice: &mut Dice) -> Option<Plan> {
        self.count(now_us);
        self.came += 1;
        match &mut self.serving {
            Serving::Lanes(lanes) => {
                let work = lanes.enter(work)?;
                Some(self.serve(now_us, work, dice))
            }
            Serving::Shared(jobs, _) => {
                let noise = dice.log_normal(self.setup.service.sigma());
                jobs.enter(jobs.attained + work.share * self.factor * noise, work.id);
                self.next_end(now_us)
            }
        }
    }

    /// The request that it is done with, and what is due next.
    pub(super) fn on_due(
        &mut self,
        now_us: u64,
        due: Due,
        dice: &mut Dice,
    ) -> (Option<RequestId>, Option<Plan>) {
        self.count(now_us);
        let stalled_us = self.stalled_us(now_us);
        match (&mut self.serving, due) {
            (Serving::Lanes(_), Due::Served(_)) if stalled_us > 0 => {
                (None, Some((stalled_us, due)))
            }
            (Serving::Lanes(lanes), Due::Served(work)) => {
                let next = lanes.leave();
                let plan = next.map(|next| self.serve(now_us, next, dice));
                (Some(work.id), plan)
            }
            (Serving::Shared(jobs, plan), Due::Ends(of)) if of == *plan => {
                (jobs.leave(), self.next_end(now_us))
            }
            _ => (None, None),
        }
    }

    /// Does nothing until then. What is due next, if that changes.
    pub(super) fn stall(&mut self, now_us: u64, until_us: u64) -> Option<Plan> {
        self.count(now_us);
        self.stalled_until_us = until_us;
        self.next_end(now_us)
    }

    /// For how long it does nothing.
    pub(super) fn stalled_us(&self, now_us: u64) -> u64 {
        self.stalled_until_us.saturating_sub(now_us)
    }

    /// A lane begins with a request.
    fn serve(&self, now_us: u64, work: Work, dice: &mut Dice) -> Plan {
        let service = &self.setup.service;
        let noise = dice.log_normal(service.sigma());
        let us = service.alone_us() * work.share * self.factor * noise;
        let in_us = (us as u64).max(1) + self.stalled_us(now_us);
        (in_us, Due::Served(work))
    }

    /// The next end of those that progress alike: anew after each change.
    fn next_end(&mut self, now_us: u64) -> Option<Plan> {
        let stalled_us = self.stalled_us(now_us);
        let Serving::Shared(jobs, plan) = &mut self.serving else {
            return None;
        };
        *plan += 1;
        let us = (jobs.left()? / speed(&self.setup.service, jobs.len())).round();
        Some((us as u64 + stalled_us, Due::Ends(*plan)))
    }

    /// Goes on to this time.
    fn count(&mut self, now_us: u64) {
        let from_us = std::mem::replace(&mut self.counted_us, now_us);
        match &mut self.serving {
            Serving::Lanes(lanes) => self.busy_us += lanes.used() * (now_us - from_us) as f64,
            Serving::Shared(jobs, _) if jobs.len() > 0 => {
                let worked_us = now_us.saturating_sub(from_us.max(self.stalled_until_us)) as f64;
                jobs.attained += worked_us * speed(&self.setup.service, jobs.len());
                self.busy_us += (now_us - from_us) as f64;
            }
            Serving::Shared(..) => {}
        }
    }

    /// The share of its lanes, or of its time if it has none, that was in use since this was asked last.
    pub(super) fn take_use(&mut self, now_us: u64) -> f32 {
        self.count(now_us);
        let passed_us = now_us - std::mem::replace(&mut self.asked_us, now_us);
        (std::mem::take(&mut self.busy_us) / passed_us.max(1) as f64) as f32
    }

    /// Requests that came since this was asked last.
    pub(super) fn take_came(&mut self) -> u64 {
        std::mem::take(&mut self.came)
    }

    pub(super) fn present(&self) -> usize {
        match &self.serving {
            Serving::Lanes(lanes) => lanes.len(),
            Serving::Shared(jobs, _) => jobs.len(),
        }
    }

    pub(super) fn waiting(&self) -> usize {
        match &self.serving {
            Serving::Lanes(lanes) => lanes.waiting(),
            Serving::Shared(..) => 0,
        }
    }
}

/// Work that each of so many requests gets in a microsecond.
fn speed(service: &Service, present: usize) -> f64 {
    service.rate(present as f64) / present as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::super::curve::{Curve, Point};
    use super::super::setup::Demand;
    use super::*;

    fn work(id: RequestId) -> Work {
        Work { id, share: 1.0 }
    }

    /// 1,000 per second alone, 1,600 of two, each as much work as any other.
    fn shared() -> Setup {
        let point = |clients, ops_per_second| Point {
            clients,
            ops_per_second,
            latency_us_p50: 1.0,
            latency_us_p99: 1.0,
            weight: 1.0,
        };
        let points = [point(1.0, 1_000.0), point(2.0, 1_600.0)];
        let curve = Curve::of_endpoint(&points, 1).unwrap();
        crate::capacity::setup(curve, Demand::Clients(1))
    }

    #[test]
    fn requests_share_what_the_node_completes() {
        let (setup, dice) = (shared(), &mut Dice::new(1));
        let mut node = Node::new(&setup, 1.0);
        let alone = node.on_request(0, work(7), dice).unwrap();
        assert_eq!(alone.0, 1_000);
        // Half of the first is done when the second comes; then each gets 800 per second.
        let first = node.on_request(500, work(8), dice).unwrap();
        assert_eq!(first.0, 625);
        assert_eq!(node.on_due(1_000, alone.1, dice), (None, None), "void");
        // Half of the second is left, alone.
        let (ended, second) = node.on_due(1_125, first.1, dice);
        let second = second.unwrap();
        assert_eq!((ended, second.0), (Some(7), 500));
        assert_eq!(node.on_due(1_625, second.1, dice), (Some(8), None));
        let came = [(); 2].map(|()| node.take_came());
        assert_eq!((node.present(), came), (0, [2, 0]));
    }

    #[test]
    fn a_node_that_stalls_does_nothing_meanwhile() {
        let (setup, dice) = (shared(), &mut Dice::new(1));
        let mut node = Node::new(&setup, 1.0);
        let before = node.on_request(0, work(7), dice).unwrap();
        let after = node.stall(400, 5_400).unwrap();
        assert_eq!(after.0, 5_600);
        assert_eq!(node.on_due(1_000, before.1, dice), (None, None), "void");
        assert_eq!(node.on_due(6_000, after.1, dice), (Some(7), None));
    }

    /// What a lane should have done meanwhile is done when the stall is over.
    #[test]
    fn a_lane_that_stalls_goes_on_later() {
        let dice = &mut Dice::new(1);
        let setup = Setup {
            service: Service::Lanes {
                lanes: 1,
                work_us: 1_000,
                sigma: 0.0,
            },
            ..shared()
        };
        let mut node = Node::new(&setup, 1.0);
        let first = node.on_request(0, work(7), dice).unwrap();
        assert_eq!((first.0, node.stall(400, 5_400)), (1_000, None));
        assert_eq!(node.on_request(500, work(8), dice), None);
        let stalled = node.on_due(1_000, first.1, dice);
        assert_eq!(stalled, (None, Some((4_400, first.1))));
        let next = (1_000, Due::Served(work(8)));
        assert_eq!(node.on_due(5_400, first.1, dice), (Some(7), Some(next)));
        assert_eq!(node.take_use(10_800), 1.0);
    }
}
