//! Errors of work that is tried again and again: each is told once.

use anyhow::Result;
use helenus_console::cells::print_error;

/// The last one.
#[derive(Debug, Default)]
pub(super) struct Told(Option<String>);

impl Told {
    /// Tells an error of a table that is not the same as before, and that it has passed.
    pub(super) fn hear<T>(&mut self, of: &str, done: &Result<T>) {
        if let Some(line) = self.line(of, done) {
            print_error(&line);
        }
    }

    fn line<T>(&mut self, of: &str, done: &Result<T>) -> Option<String> {
        let begin = match of {
            "" => String::new(),
            of => format!("{of}: "),
        };
        match done {
            Ok(_) => {
                self.0.take()?;
                Some(format!("{begin}the sweep goes on"))
            }
            Err(error) => {
                let why = format!("{error:#}");
                if self.0.as_ref() == Some(&why) {
                    return None;
                }
                self.0 = Some(why.clone());
                Some(format!("{begin}{why}; this is tried again"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn an_error_is_told_once() {
        let mut told = Told::default();
        let mut line = |done: Result<()>| told.line("shop.orders", &done);
        assert_eq!(line(Ok(())), None);
        let first = line(Err(anyhow!("a node is away")));
        let first = first.expect("it is new");
        assert_eq!(first, "shop.orders: a node is away; this is tried again");
        assert_eq!(line(Err(anyhow!("a node is away"))), None);
        assert!(line(Err(anyhow!("another"))).is_some());
        let passed = line(Ok(()));
        assert_eq!(passed.as_deref(), Some("shop.orders: the sweep goes on"));
        assert_eq!(line(Ok(())), None);
        assert!(line(Err(anyhow!("another"))).is_some(), "it has come again");
    }
}
