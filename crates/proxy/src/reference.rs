//! The configuration reference, made from the settings' own types and comments.

use std::fmt::Write;

use serde_json::Value;

use crate::config::Config;

/// JSON schema of the settings.
pub fn schema() -> Value {
    schemars::schema_for!(Config).to_value()
}

/// The reference page in Markdown.
pub fn markdown() -> String {
    let schema = schema();
    let defaults = serde_json::to_value(Config::default()).unwrap_or_default();
    let mut page = String::from(
        "# Configuration\n\n\
         `helenus serve -c helenus.toml`. Every key is also an environment variable \
         (`HELENUS_LINKS__PER_NODE=4`) and a flag (`--set links.per_node=4`); later ones win: file, \
         environment, flags. Unknown keys are refused. `helenus check --print-config` shows what is \
         in force. SIGHUP reads all of them again: what can change while the proxy runs changes at \
         once, what cannot is named in the log, and settings that cannot be used change nothing. Files \
         of certificates and secrets are also read again when they change. Passwords and tokens are \
         never printed.\n\n\
         <!-- Made by `helenus reference`; do not edit. -->\n",
    );
    section(&mut page, &schema, &schema, &defaults, "");
    page
}

fn section(page: &mut String, root: &Value, schema: &Value, defaults: &Value, path: &str) {
    let Some(properties) = schema["properties"].as_object() else {
        return;
    };
    let mut nested = Vec::new();
    let mut rows = String::new();
    for (name, property) in properties {
        let target = resolve(root, property);
        let key = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        if target["properties"].is_object() {
            nested.push((key, target, &defaults[name]));
            continue;
        }
        let default = match &defaults[name] {
            Value::Null => "not set".to_owned(),
            value => format!("`{value}`"),
        };
        let text = property["description"]
            .as_str()
            .unwrap_or_default()
            .replace('\n', " ");
        // Writing to a string cannot fail.
        let _ = writeln!(rows, "| `{key}` | {default} | {text} |");
    }
    if !rows.is_empty() {
        let text = schema["description"].as_str().unwrap_or_default();
        let _ = write!(
            page,
            "\n## `[{path}]`\n\n{text}\n\n| key | default | meaning |\n|---|---|---|\n{rows}"
        );
    }
    for (key, target, defaults) in nested {
        section(page, root, target, defaults, &key);
    }
}

/// Follows `$ref`, also through `anyOf` with null (an optional section).
fn resolve<'a>(root: &'a Value, property: &'a Value) -> &'a Value {
    let reference = property["$ref"].as_str().or_else(|| {
        property["anyOf"]
            .as_array()?
            .iter()
            .find_map(|option| option["$ref"].as_str())
    });
    match reference.and_then(|r| r.strip_prefix('#')) {
        Some(pointer) => root.pointer(pointer).unwrap_or(property),
        None => property,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_committed_page_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        let committed = std::fs::read_to_string(path).expect("docs/configuration.md");
        assert!(
            committed == super::markdown(),
            "docs/configuration.md is not up to date: run `helenus reference > docs/configuration.md`"
        );
    }
}
