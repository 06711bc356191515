//! A node's throughput, by how many requests it has.

/// A measured load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Requests under way.
    pub clients: f64,
    pub ops_per_second: f64,
    pub latency_us_p50: f64,
    pub latency_us_p99: f64,
    /// How often it was measured.
    pub weight: f64,
}

/// Requests per second by requests under way: linear between measured loads and from nothing to the first,
/// and beyond the last as at the last.
///
/// A node's throughput rises to a peak and then falls, perhaps. Where measurements go up and down beside
/// that, it is noise, which would make simulated nodes get stuck where no real one would. So the curve is
/// the closest one (by least squares) with a single peak; see `single_peak`.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// As measured; by clients, strictly rising.
    points: Vec<Point>,
    /// Requests per second at these points.
    rates: Vec<f64>,
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
            let values = [point.clients, point.ops_per_second, point.weight];
            values.iter().all(|value| value.is_finite() && *value > 0.0)
        };
        points.sort_by(|one, other| one.clients.total_cmp(&other.clients));
        let is_rising = points.windows(2).all(|two| two[0].clients < two[1].clients);
        let is_good = points.len() >= 2 && is_rising && points.iter().all(is_usable);
        let sigma = sigma(&points);
        is_good.then(|| Curve {
            rates: single_peak(&points),
            points,
            sigma,
        })
    }

    /// As measured.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    pub fn sigma(&self) -> f64 {
        self.sigma
    }

    /// The greatest throughput.
    pub fn peak(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }

    /// Completed per second, with so many requests under way.
    pub fn rate(&self, requests: f64) -> f64 {
        let at = self
            .points
            .partition_point(|point| point.clients < requests);
        let between = |(x0, y0): (f64, f64), (x1, y1): (f64, f64)| {
            y0 + (y1 - y0) * (requests - x0) / (x1 - x0)
        };
        let place = |index: usize| (self.points[index].clients, self.rates[index]);
        match at {
            0 => between((0.0, 0.0), place(0)),
            at if at < self.points.len() => between(place(at - 1), place(at)),
            past => self.rates[past - 1],
        }
    }

    /// Of a request that is alone, in microseconds.
    pub fn alone_us(&self) -> f64 {
        1e6 / self.rate(1.0)
    }
}

/// The closest throughputs that rise up to some load and do not rise after it: for each load at which they
/// could turn, an increasing and a decreasing regression (pool adjacent violators; Barlow and others,
/// *Statistical Inference under Order Restrictions*, 1972), and of these the best.
fn single_peak(points: &[Point]) -> Vec<f64> {
    let fitted = (0..=points.len()).map(|turn| {
        let (up, down) = points.split_at(turn);
        let mut rates = rising(up.iter());
        let falling = rising(down.iter().rev());
        rates.extend(falling.into_iter().rev());
        let errors = points.iter().zip(&rates);
        let loss: f64 = errors
            .map(|(point, rate)| point.weight * (point.ops_per_second - rate).powi(2))
            .sum();
        (loss, rates)
    });
    let best = fitted.min_by(|(one, _), (other, _)| one.total_cmp(other));
    best.map_or_else(Vec::new, |(_, rates)| rates)
}

/// The closest throughputs that do not fall.
fn rising<'a>(points: impl Iterator<Item = &'a Point>) -> Vec<f64> {
    // Of neighbours that are pooled: mean, weight and number.
    let mut pools: Vec<(f64, f64, usize)> = Vec::new();
    for point in points {
        let mut pool = (point.ops_per_second, point.weight, 1);
        while let Some(before) = pools.pop_if(|before| before.0 > pool.0) {
            let weight = before.1 + pool.1;
            let mean = (before.0 * before.1 + pool.0 * pool.1) / weight;
            pool = (mean, weight, before.2 + pool.2);
        }
        pools.push(pool);
    }
    let pools = pools.into_iter();
    pools
        .flat_map(|(mean, _, count)| std::iter::repeat_n(mean, count))
        .collect()
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
            weight: 1.0,
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
    fn a_decline_is_kept_noise_is_not_and_what_was_measured_often_counts_more() {
        let rates = |points: &[Point]| {
            let curve = Curve::of_endpoint(points, 1).unwrap();
            points
                .iter()
                .map(|point| curve.rate(point.clients))
                .collect::<Vec<f64>>()
        };
        let decline = [point(4.0, 500.0), point(8.0, 600.0), point(16.0, 400.0)];
        assert_eq!(rates(&decline), [500.0, 600.0, 400.0]);
        let curve = Curve::of_endpoint(&decline, 1).unwrap();
        assert_eq!(curve.rate(1e6), 400.0, "as at the last");
        let dip = |weight| {
            [
                point(4.0, 500.0),
                Point {
                    weight,
                    ..point(8.0, 300.0)
                },
                point(16.0, 800.0),
                point(32.0, 700.0),
            ]
        };
        assert_eq!(rates(&dip(1.0)), [400.0, 400.0, 800.0, 700.0]);
        assert_eq!(rates(&dip(3.0)), [350.0, 350.0, 800.0, 700.0]);
        let curve = Curve::of_endpoint(&dip(1.0), 1).unwrap();
        assert_eq!(curve.points()[1].ops_per_second, 300.0, "as measured");
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
