//! Under which bytes a fact is kept: a word, a slash, and what tells it from others of its kind.
//!
//! Within a kind, keys sort as what they name does. A name is ended by a zero byte where something follows it, since
//! zero sorts before every character of a name; numbers are big-endian.

use mesh_control::FactKey;

/// The key of a fact, at most 136 bytes.
pub fn fact_key(key: &FactKey) -> Vec<u8> {
    match key {
        FactKey::Mesh => b"mesh".to_vec(),
        FactKey::Module(module) => under("module", module.as_str()),
        FactKey::Seat(seat) => under("seat", seat.as_str()),
        FactKey::Placed(module) => under("placed", module.as_str()),
        FactKey::Assigned(seat) => under("assigned", seat.as_str()),
        FactKey::Node(node) => under("node", node.as_str()),
        FactKey::Token(token) => under("token", token.as_str()),
        FactKey::Instance(instance) => {
            let mut bytes = under("instance", instance.module.as_str());
            bytes.push(END);
            bytes.extend_from_slice(instance.node.as_str().as_bytes());
            bytes
        }
        FactKey::Secret(secret) => under("secret", secret.as_str()),
        FactKey::Declaration(node) => under("declaration", node.as_str()),
        FactKey::Report(id) => {
            let mut bytes = under("report", id.node.as_str());
            bytes.push(END);
            bytes.extend_from_slice(&id.generation.incarnation.to_be_bytes());
            bytes.extend_from_slice(&id.generation.counter.to_be_bytes());
            bytes.extend_from_slice(&id.seq.0.to_be_bytes());
            bytes
        }
        FactKey::Audit(revision) => {
            let mut bytes = b"audit/".to_vec();
            bytes.extend_from_slice(&revision.0.to_be_bytes());
            bytes
        }
    }
}

/// Ends a name that something follows.
const END: u8 = 0;

fn under(word: &str, name: &str) -> Vec<u8> {
    [word.as_bytes(), b"/", name.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use mesh_model::{Generation, InstanceRef, ReportId, Revision, Seq};

    use super::*;

    #[test]
    fn a_key_can_be_read_by_people_up_to_its_numbers() {
        let report = ReportId {
            node: "web-1".parse().unwrap(),
            generation: Generation {
                incarnation: 1,
                counter: 258,
            },
            seq: Seq(3),
        };
        let instance = InstanceRef {
            module: "mailer".parse().unwrap(),
            node: "web-1".parse().unwrap(),
        };
        for (key, expected) in [
            (FactKey::Mesh, "mesh"),
            (FactKey::Node("web-1".parse().unwrap()), "node/web-1"),
            (FactKey::Instance(instance), "instance/mailer\0web-1"),
            (
                FactKey::Report(report),
                "report/web-1\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\x01\x02\0\0\0\0\0\0\0\x03",
            ),
            (FactKey::Audit(Revision(9)), "audit/\0\0\0\0\0\0\0\x09"),
        ] {
            assert_eq!(fact_key(&key), expected.as_bytes(), "{key:?}");
        }
    }
}
