//! Keeps lines of the log for those who ask the proxy for them.

use std::fmt::{Debug, Write};
use std::sync::Arc;
use std::time::SystemTime;

use helenus_proxy::{LogLine, LogLines};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

pub(crate) struct LogLayer(pub(crate) Arc<LogLines>);

impl<S: Subscriber> Layer<S> for LogLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut text = Text::default();
        event.record(&mut text);
        let metadata = event.metadata();
        self.0.push(LogLine {
            at: SystemTime::now(),
            level: metadata.level().as_str(),
            target: metadata.target(),
            text: text.message + &text.fields,
        });
    }
}

/// As the log has it: the message, then `name=value` of each field.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Writing to a String cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[test]
    fn lines_have_their_message_and_fields() {
        let lines = Arc::new(LogLines::default());
        let subscriber = tracing_subscriber::registry().with(LogLayer(lines.clone()));
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(clients = 7, peer = %"10.0.0.1", "too many");
        });
        let kept = format!("{lines:?}");
        assert!(kept.contains("too many clients=7 peer=10.0.0.1"), "{kept}");
        assert!(
            kept.contains("WARN") && kept.contains("log_layer"),
            "{kept}"
        );
    }
}
