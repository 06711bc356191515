//! Every input of the corpora, once.

use std::path::Path;

use helenus_fuzz::targets::{ALL, Target};

fn replay(name: &str, run: Target) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(name);
    let entries = folder.read_dir().expect("a corpus");
    let mut inputs = 0;
    for entry in entries {
        let path = entry.expect("an entry").path();
        let bytes = std::fs::read(&path).expect("an input");
        eprintln!("{}", path.display());
        run(&bytes);
        inputs += 1;
    }
    assert!(inputs >= 5, "{name}: {inputs} inputs");
}

macro_rules! corpora {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                let name = stringify!($name);
                let (_, run) = ALL.into_iter().find(|(of, _)| *of == name).expect(name);
                replay(name, run);
            }
        )*

        #[test]
        fn each_target_is_replayed() {
            let names = [$(stringify!($name)),*];
            assert!(ALL.iter().all(|(name, _)| names.contains(name)));
        }
    };
}

corpora!(cql_facts engine payload request_views wire_decoder);
