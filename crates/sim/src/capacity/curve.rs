//! What a node completes, by how many requests it has.

/// A measured load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Requests under way.
    pub clients: f64,
    pub ops_per_second: f64,
    pub latency_us_p50: f64,
    pub latency_us_p99: f64,
}

/// Requests per second by requests under way: linear between measured loads and from nothing to the first,
/// and beyond the last as it declined at the end, if it did, but never below half of the greatest.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// By clients, strictly rising.
    points: Vec<Point>,
    /// Of the logarithm of a request's work.
    sigma: f64,
}

/// Of the standard normal distribution.
const NORMAL_P99: f64 = 2.326;
/// A log-normal distribution with more is hardly sampled by a run.
const SIGMA_MAX: f64 = 2.0;

impl Curve {
    /// Of one node, from loads measured over `nodes` that share them evenly. None unless there are two
    /// different loads at least, all above 0.
    pub fn of_endpoint(points: &[Point], nodes: u16) -> Option<Curve> {
        let share = f64::from(nodes.max(1));
        let mut points: Vec<Point> = points
            .iter()
            .map(|point| Point {
                clients: point.clients / share,
                ops_per_second: point.ops_per_second / share,
                ..*point
            })
            .collect();
        let is_usable = |point: &Point| {
            let values = [point.clients, point.ops_per_second];
            values.iter().all(|value| value.is_finite() && *value > 0.0)
        };
        points.sort_by(|one, other| one.clients.total_cmp(&other.clients));
        let is_rising = points.windows(2).all(|two| two[0].clients < two[1].clients);
        let is_good = points.len() >= 2 && is_rising && points.iter().all(is_usable);
        let sigma = sigma(&points);
        is_good.then_some(Curve { points, sigma })
    }

    pub fn points(&self) -> &[Point] {
        &self.points
    }

    pub fn sigma(&self) -> f64 {
        self.sigma
    }

    /// The greatest measured throughput.
    pub fn peak(&self) -> f64 {
        let rates = self.points.iter().map(|point| point.ops_per_second);
        rates.fold(0.0, f64::max)
    }

    /// Completed per second, with so many requests under way.
    pub fn rate(&self, requests: f64) -> f64 {
        let at = self
            .points
            .partition_point(|point| point.clients < requests);
        let between = |(x0, y0): (f64, f64), (x1, y1): (f64, f64)| {
            y0 + (y1 - y0) * (requests - x0) / (x1 - x0)
        };
        let place = |index: usize| {
            let point = &self.points[index];
            (point.clients, point.ops_per_second)
        };
        let last = self.points.len() - 1;
        match at {
            0 => between((0.0, 0.0), place(0)),
            at if at <= last => between(place(at - 1), place(at)),
            _ => {
                let (before, end) = (place(last - 1), place(last));
                match before.1 > end.1 {
                    true => between(before, end).max(self.peak() / 2.0).min(end.1),
                    false => end.1,
                }
            }
        }
    }

    /// Of a request that is alone, in microseconds.
    pub fn alone_us(&self) -> f64 {
        1e6 / self.rate(1.0)
    }
}

/// With n clients each request takes its work times the same factor, so the ratio of percentiles is that of
/// the work. The median over the loads.
fn sigma(points: &[Point]) -> f64 {
    let mut sigmas: Vec<f64> = points
        .iter()
        .map(|point| (point.latency_us_p99 / point.latency_us_p50).ln() / NORMAL_P99)
        .filter(|sigma| sigma.is_finite() && *sigma >= 0.0)
        .collect();
    sigmas.sort_by(f64::total_cmp);
    let middle = sigmas.get(sigmas.len() / 2);
    middle.copied().unwrap_or(0.0).min(SIGMA_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(clients: f64, ops_per_second: f64) -> Point {
        Point {
            clients,
            ops_per_second,
            latency_us_p50: 1_000.0,
            latency_us_p99: 1_000.0 * (0.5_f64 * NORMAL_P99).exp(),
        }
    }

    #[test]
    fn between_measured_loads_it_is_linear_and_beyond_them_it_does_not_grow() {
        let points = [point(8.0, 600.0), point(2.0, 300.0), point(4.0, 500.0)];
        let curve = Curve::of_endpoint(&points, 1).unwrap();
        let rates = [0.0, 1.0, 2.0, 3.0, 8.0, 1e9].map(|requests| curve.rate(requests));
        assert_eq!(rates, [0.0, 150.0, 300.0, 400.0, 600.0, 600.0]);
        assert_eq!((curve.peak(), curve.alone_us()), (600.0, 1e6 / 150.0));
        assert!((curve.sigma() - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_decline_goes_on_but_not_to_nothing() {
        let points = [point(4.0, 500.0), point(8.0, 400.0)];
        let curve = Curve::of_endpoint(&points, 1).unwrap();
        assert_eq!(curve.rate(10.0), 350.0);
        assert_eq!(curve.rate(1e6), 250.0);
    }

    #[test]
    fn several_nodes_share_the_load() {
        let points = [point(4.0, 500.0), point(8.0, 800.0)];
        let curve = Curve::of_endpoint(&points, 2).unwrap();
        assert_eq!((curve.rate(2.0), curve.rate(4.0)), (250.0, 400.0));
    }

    #[test]
    fn what_is_no_curve_is_refused() {
        for points in [
            vec![],
            vec![point(4.0, 500.0)],
            vec![point(4.0, 500.0), point(4.0, 501.0)],
            vec![point(4.0, 500.0), point(8.0, 0.0)],
            vec![point(4.0, 500.0), point(8.0, f64::NAN)],
        ] {
            assert_eq!(Curve::of_endpoint(&points, 1), None, "{points:?}");
        }
    }
}
