use super::*;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// A folder that is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("helenus-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn files(&self) -> usize {
        fs::read_dir(&self.0).unwrap().count()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn measured_at(measured_unix_s: u64) -> Figures {
    Figures {
        measured_unix_s,
        append_sync_us_p50: 100.0,
        append_sync_us_p99: 900.0,
        append_syncs_per_second: 6_000.0,
        write_mib_per_second: 250.0,
        read_mib_per_second: 500.0,
        random_read_us_p50: 80.0,
        random_read_us_p99: 200.0,
        random_reads_per_second: 11_000.0,
        file_mib: 192,
        is_direct: true,
    }
}

#[test]
fn a_short_measurement_has_all_figures_and_leaves_no_file() {
    let folder = Folder::new("storage-short");
    let figures = probe::measure_for(&folder.0, 7, Duration::from_millis(30), 4 << 20).unwrap();
    assert!(
        figures.append_sync_us_p50 > 0.0
            && figures.append_sync_us_p99 >= figures.append_sync_us_p50
            && figures.append_syncs_per_second > 0.0
            && figures.write_mib_per_second > 0.0
            && figures.read_mib_per_second > 0.0
            && figures.random_read_us_p99 >= figures.random_read_us_p50
            && figures.random_reads_per_second > 0.0,
        "{figures:?}"
    );
    assert!((1..=4).contains(&figures.file_mib), "{figures:?}");
    assert_eq!(figures.measured_unix_s, 7);
    assert_eq!(folder.files(), 0);
}

#[test]
fn files_of_processes_that_have_died_are_removed_others_stay() {
    let folder = Folder::new("storage-leftovers");
    let leftover = format!(".helenus-storage-probe-{}-ThreadId(3)", u32::MAX);
    let alive = format!(".helenus-storage-probe-{}-other", std::process::id());
    for name in [&*leftover, &alive, "Data.db"] {
        fs::write(folder.0.join(name), "x").unwrap();
    }
    probe::measure_for(&folder.0, 7, Duration::ZERO, 1 << 20).unwrap();
    assert!(!folder.0.join(leftover).exists());
    assert_eq!(folder.files(), 2);
}

#[test]
fn what_cannot_be_measured_is_told_in_the_report() {
    let nowhere = Storage::of(Path::new("/nowhere/at/all"), None, Measure::IfOld);
    assert!(nowhere.figures.is_none());
    let why = nowhere.not_measured.clone().unwrap();
    assert!(why.contains("/nowhere/at/all"), "{why}");
    assert!(nowhere.describe()[1].1.contains(&why));
    let error = probe::measure_for(Path::new("/"), 7, Duration::ZERO, 1 << 60).unwrap_err();
    assert!(error.to_string().contains("MiB are free"), "{error}");
}

#[test]
fn figures_of_an_earlier_run_count_until_they_are_old() {
    let folder = Folder::new("storage-cache");
    // Its folder is made when it is needed.
    let cache = Cache::new(folder.0.join("deep/er"));
    let day = 86_400;
    let now_s = 100 * day;
    assert_eq!(cache.get("a", now_s), None);
    cache.put("a", measured_at(now_s), now_s).unwrap();
    cache.put("b", measured_at(now_s - 5), now_s).unwrap();
    assert_eq!(cache.get("a", now_s), Some(measured_at(now_s)));
    let last_s = now_s + AGE_DAYS_MAX * day;
    assert_eq!(cache.get("a", last_s), Some(measured_at(now_s)));
    assert_eq!(cache.get("b", last_s), None, "five seconds too old");
    assert_eq!(cache.get("a", now_s - 1), None, "from the future");
    let later_s = last_s + 1;
    cache.put("c", measured_at(later_s), later_s).unwrap();
    let text = fs::read_to_string(folder.0.join("deep/er/storage.json")).unwrap();
    assert!(!text.contains("\"a\""), "old ones go: {text}");
    fs::write(folder.0.join("deep/er/storage.json"), "{ broken").unwrap();
    assert_eq!(cache.get("c", later_s), None);
    cache.put("c", measured_at(later_s), later_s).unwrap();
    assert!(cache.get("c", later_s).is_some());
}

#[test]
fn cached_figures_are_not_measured_again_unless_that_is_asked_for() {
    let folder = Folder::new("storage-reuse");
    let cache = Cache::new(folder.0.join("cache"));
    let here = |measure| Storage::of(&folder.0, Some(&cache), measure);
    let first = here(Measure::Never);
    assert_eq!(first.not_measured.as_deref(), Some("not measured yet"));
    let yesterday = measured_at(now_s() - 86_400);
    cache.put(&first.device.key(), yesterday, now_s()).unwrap();
    for measure in [Measure::Never, Measure::IfOld] {
        assert_eq!(here(measure).figures, Some(yesterday), "{measure:?}");
    }
}

#[test]
fn a_report_says_what_was_measured_when_and_whether_it_was_cached() {
    let storage = Storage {
        device: Device {
            device: "/dev/sda1".into(),
            file_system: "ext4".into(),
            rotational: Some(true),
        },
        figures: Some(measured_at(1_785_369_600)),
        not_measured: None,
    };
    let text = format!("{:?}", storage.describe());
    for part in ["/dev/sda1", "p99 900 µs", "2026-07-30", "192 MiB\")"] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    let mut cached = storage.clone();
    cached.figures.as_mut().unwrap().is_direct = false;
    assert!(format!("{:?}", cached.describe()).contains("through the page cache"));
    let json = serde_json::to_string(&storage).unwrap();
    assert_eq!(serde_json::from_str::<Storage>(&json).unwrap(), storage);
    // Without what later versions may add.
    let bare = r#"{"device": "tmpfs", "file_system": "tmpfs", "rotational": null}"#;
    let bare: Storage = serde_json::from_str(bare).unwrap();
    assert!(bare.figures.is_none() && bare.device.device == "tmpfs");
}
