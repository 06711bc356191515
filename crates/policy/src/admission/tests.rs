use super::*;
use crate::dice::for_seeds;

#[test]
fn urgent_classes_go_first_and_each_class_in_order() {
    let mut door = Admission::new(1, [2; Class::COUNT]);
    assert_eq!(door.offer("first", Class::Scan), Offer::Dispatch("first"));
    for (item, class) in [
        ("other", Class::Other),
        ("scan 1", Class::Scan),
        ("point 1", Class::Point),
        ("point 2", Class::Point),
        ("write", Class::Write),
        ("system", Class::System),
    ] {
        assert_eq!(door.offer(item, class), Offer::Queued);
    }
    assert_eq!(
        door.offer("point 3", Class::Point),
        Offer::Refused("point 3")
    );
    assert_eq!(door.queued_in(Class::Point), 2);
    let order: Vec<_> = std::iter::from_fn(|| door.on_done()).collect();
    assert_eq!(
        order,
        ["system", "point 1", "point 2", "write", "scan 1", "other"]
    );
    assert_eq!((door.in_flight(), door.dispatched()), (0, 7));
}

#[test]
fn a_stream_of_points_does_not_starve_scans() {
    let mut door = Admission::new(1, [1; Class::COUNT]);
    assert_eq!(
        door.offer(Class::Point, Class::Point),
        Offer::Dispatch(Class::Point)
    );
    assert_eq!(door.offer(Class::Scan, Class::Scan), Offer::Queued);
    for _ in 0..PASSES_MAX {
        assert_eq!(door.offer(Class::Point, Class::Point), Offer::Queued);
        assert_eq!(door.on_done(), Some(Class::Point));
    }
    assert_eq!(door.offer(Class::Point, Class::Point), Offer::Queued);
    assert_eq!(door.on_done(), Some(Class::Scan));
}

#[test]
fn the_window_opens_and_closes() {
    let mut door = Admission::new(0, [9; Class::COUNT]);
    for item in 0..5 {
        assert_eq!(door.offer(item, Class::Write), Offer::Queued);
    }
    assert_eq!(door.set_window(3), [0, 1, 2]);
    assert_eq!(door.set_window(1), []);
    assert_eq!(door.on_done(), None);
    assert_eq!(door.on_done(), None);
    assert_eq!((door.in_flight(), door.window()), (1, 1));
    assert_eq!(door.on_done(), Some(3));
    assert_eq!(door.drain(), [4]);
    assert_eq!((door.queued(), door.in_flight()), (0, 1));
}

#[test]
#[should_panic(expected = "done without anything in flight")]
fn more_done_than_dispatched_is_a_mistake() {
    let _ = Admission::<()>::new(1, [1; Class::COUNT]).on_done();
}

/// The rule as one list: each waiting item knows its class and its arrival.
#[derive(Default)]
struct Model {
    window: usize,
    in_flight: usize,
    waiting: Vec<(Class, u64)>,
    passed_over: [u32; Class::COUNT],
}

impl Model {
    fn take_next(&mut self) -> Option<u64> {
        if self.in_flight >= self.window || self.waiting.is_empty() {
            return None;
        }
        let waits = |class: &Class| self.waiting.iter().any(|item| item.0 == *class);
        let starved = |class: &Class| self.passed_over[*class as usize] >= 32;
        let mut classes = Class::ALL.into_iter().filter(waits);
        let class = match classes.clone().filter(starved).max() {
            Some(starved) => starved,
            None => classes.next()?,
        };
        for other in Class::ALL {
            let passed = &mut self.passed_over[other as usize];
            let waits = self.waiting.iter().any(|item| item.0 == other);
            *passed = if waits && other != class {
                *passed + 1
            } else {
                0
            };
        }
        let at = self.waiting.iter().position(|item| item.0 == class)?;
        self.in_flight += 1;
        Some(self.waiting.remove(at).1)
    }
}

#[test]
fn random_sequences_agree_with_the_model() {
    for_seeds(300, |_, dice| {
        let items_max = std::array::from_fn(|_| dice.below(6));
        let window = dice.below(5);
        // Biased so that some seeds overload the door for long and others idle.
        let offers_in_ten = 3 + dice.below(6);
        let mut door = Admission::new(window, items_max);
        let mut model = Model {
            window,
            ..Model::default()
        };
        for item in 0..600u64 {
            match dice.below(10) {
                draw if draw < offers_in_ten => {
                    let class = Class::ALL[dice.below(Class::COUNT)];
                    let waiting = model.waiting.iter().filter(|i| i.0 == class).count();
                    let expect = if model.in_flight < model.window {
                        model.in_flight += 1;
                        Offer::Dispatch(item)
                    } else if waiting < items_max[class as usize] {
                        model.waiting.push((class, item));
                        Offer::Queued
                    } else {
                        Offer::Refused(item)
                    };
                    assert_eq!(door.offer(item, class), expect);
                }
                9 if dice.below(20) == 0 => {
                    model.waiting.sort();
                    let expect: Vec<u64> = model.waiting.drain(..).map(|i| i.1).collect();
                    model.passed_over = [0; Class::COUNT];
                    assert_eq!(door.drain(), expect);
                }
                9 => {
                    model.window = dice.below(6);
                    let expect: Vec<u64> = std::iter::from_fn(|| model.take_next()).collect();
                    assert_eq!(door.set_window(model.window), expect);
                }
                _ if model.in_flight > 0 => {
                    model.in_flight -= 1;
                    assert_eq!(door.on_done(), model.take_next());
                }
                _ => {}
            }
            assert_eq!(door.in_flight(), model.in_flight);
            assert_eq!(door.queued(), model.waiting.len());
            assert!(door.queued() == 0 || door.in_flight() >= door.window());
        }
    });
}
