//! Values of variables as they are typed: no notation of ours reads anything into them.

use mesh_files::{SourceFile, assemble};

/// What a module of each notation is given as the variable `A`, for a command and for an image.
fn given(toml: &str, json: &str, yaml: &str) -> Vec<String> {
    let mut given = Vec::new();
    for (run, run_json) in [
        ("command = [\"m\"]", "\"command\": [\"m\"]"),
        ("image = \"m\"", "\"image\": \"m\""),
    ] {
        let run_yaml = run.replace(" = ", ": ");
        let head = "{\"version\": 1, \"module\": {\"name\": \"m\", \"release\": \"1\"}";
        for (path, text) in [
            (
                "modules/m.toml",
                format!(
                    "version = 1\n[module]\nname = \"m\"\nrelease = \"1\"\n[run]\n{run}\n[run.env]\nA = {toml}\n"
                ),
            ),
            (
                "modules/m.json",
                format!("{head}, \"run\": {{{run_json}, \"env\": {{\"A\": {json}}}}}}}"),
            ),
            (
                "modules/m.yaml",
                format!(
                    "version: 1\nmodule: {{name: m, release: \"1\"}}\nrun:\n  {run_yaml}\n  env:\n    A: {yaml}\n"
                ),
            ),
        ] {
            let file = |path: &str, text: &str| SourceFile {
                path: path.to_owned(),
                text: text.to_owned(),
            };
            let mesh = "version = 1\n[mesh]\nname = \"home\"\n";
            let declared = assemble(&[file("mesh.toml", mesh), file(path, &text)]);
            let modules = declared.map(|declared| declared.modules);
            let manifest = modules.unwrap().into_values().next().unwrap();
            given.push(manifest.env["A"].clone());
        }
    }
    assert_eq!(given.len(), 6);
    given
}

/// `$` in a value was taken for a variable, and a password cut.
/// <https://github.com/docker/compose/issues/11058>
#[test]
fn case_c_9b0a490_a_dollar_is_a_dollar() {
    for value in given("'abc$def'", "\"abc$def\"", "abc$def") {
        assert_eq!(value, "abc$def");
    }
    for value in given("'${A}$$'", "\"${A}$$\"", "'${A}$$'") {
        assert_eq!(value, "${A}$$");
    }
}

/// A value of several lines could not be handed over.
/// <https://github.com/moby/moby/issues/12997>
#[test]
fn case_c_bb7650b_the_ends_of_lines_are_kept() {
    let json = "\"-----BEGIN\\nline2\\n\"";
    for value in given(json, json, json) {
        assert_eq!(value, "-----BEGIN\nline2\n");
    }
    let block = "|\n      -----BEGIN\n      line2";
    for value in given("\"\"\"\n-----BEGIN\nline2\n\"\"\"", json, block) {
        assert_eq!(value, "-----BEGIN\nline2\n");
    }
}

/// A value with a space ended at it.
/// <https://github.com/docker/compose/issues/3240>
#[test]
fn case_c_48ab485_a_space_ends_nothing() {
    for value in given("'foo bar'", "\"foo bar\"", "foo bar") {
        assert_eq!(value, "foo bar");
    }
    for value in given(
        "' \"a\\b\" # é'",
        "\" \\\"a\\\\b\\\" # é\"",
        "' \"a\\b\" # é'",
    ) {
        assert_eq!(value, " \"a\\b\" # é");
    }
}
