//! What went wrong in other people's production with values of variables: on our wire and disk they are bytes.

use mesh_control::Fact;
use mesh_model::{Manifest, Workload};
use mesh_wire::{decode_declaration, encode_declaration, fact_entry, read_fact};

use crate::later;

/// That a container's variable has this value after it was kept by the controller, and after it was told to a node.
fn arrives(value: &str) {
    let env = [("A".to_owned(), value.to_owned())];
    let manifests = later::facts().into_iter().filter_map(|fact| match fact {
        Fact::Module(manifest) => Some(manifest),
        _ => None,
    });
    for manifest in manifests {
        let manifest = Manifest {
            env: env.clone().into(),
            ..manifest
        };
        let kept = fact_entry(&Fact::Module(manifest.clone()));
        let read = read_fact(&kept.key, kept.kind, kept.version, &kept.body);
        assert_eq!(read, Ok(Fact::Module(manifest)));
    }
    for mut declaration in later::declarations() {
        declaration.workloads = declaration
            .workloads
            .into_iter()
            .map(|workload| Workload {
                env: env.clone().into(),
                ..workload
            })
            .collect();
        let told = decode_declaration(&encode_declaration(&declaration)).unwrap();
        assert!(told.workloads.iter().all(|it| it.env["A"] == value));
        assert_eq!(told, declaration);
    }
}

/// <https://github.com/docker/compose/issues/11058>
#[test]
fn case_c_9b0a490_a_dollar_arrives() {
    arrives("abc$def");
    arrives("${A}$$");
}

/// <https://github.com/moby/moby/issues/12997>
#[test]
fn case_c_bb7650b_the_ends_of_lines_arrive() {
    arrives("-----BEGIN\nline2\n");
    arrives("\r\n\u{1b}[2J");
}

/// <https://github.com/docker/compose/issues/3240>
#[test]
fn case_c_48ab485_spaces_arrive() {
    arrives("foo bar");
    arrives(" 'é' \"b\" ");
}
