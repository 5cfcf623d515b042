//! What may be done about files that contradict one another.

use mesh_model::{EventName, MeshError, ModuleName};

use super::Assembly;
use crate::source::{did_you_mean, quoted};

impl Assembly<'_> {
    /// What may have been meant, or what would end a contradiction; nothing where the error itself says so.
    pub(super) fn remedy(&self, error: &MeshError) -> String {
        match error {
            MeshError::NobodyEmits { event, .. } => match self.modules.get(&event.module) {
                Some(file) => {
                    let emits = &file.manifest.emits;
                    let announced = EventName::announced();
                    let emits = emits.iter().filter(|event| **event != announced);
                    let names: Vec<&str> = emits.map(AsRef::as_ref).collect();
                    let listed = match names.as_slice() {
                        [] => "; it lists none".to_owned(),
                        names if names.len() > NAMED_LIMIT => String::new(),
                        names => format!("; it lists {}", names.join(", ")),
                    };
                    or(did_you_mean(event.event.as_str(), names), listed)
                }
                None => self.or_declare(&event.module),
            },
            MeshError::UnknownSeat { seat, .. } => {
                let seats = self.mesh.seats.keys().map(AsRef::as_ref);
                let name = quoted(seat.as_str());
                let add = format!("; add a seat with the name {name} to {}", self.source.file);
                or(did_you_mean(seat.as_str(), seats), add)
            }
            MeshError::CannotHold { module, .. } if !self.modules.contains_key(module) => {
                self.or_declare(module)
            }
            MeshError::CannotHold { seat, .. } => {
                let able = self.modules.iter();
                let able: Vec<&str> = able
                    .filter(|(_, file)| file.manifest.can_hold.contains(seat))
                    .map(|(module, _)| module.as_str())
                    .collect();
                match able.as_slice() {
                    [] => "; no module does".to_owned(),
                    able if able.len() > NAMED_LIMIT => String::new(),
                    able => format!("; those that do: {}", able.join(", ")),
                }
            }
            MeshError::UnknownPlaced { module: other } | MeshError::UnknownAfter { other, .. } => {
                self.or_declare(other)
            }
            MeshError::AfterCycle { .. } => {
                "; take one of them out of the after of another".to_owned()
            }
            MeshError::Manifest { .. }
            | MeshError::Misnamed { .. }
            | MeshError::Placement { .. } => String::new(),
        }
    }

    /// The declared module that may have been meant, or where one of this name would be declared.
    fn or_declare(&self, module: &ModuleName) -> String {
        let declared = self.modules.keys().map(ModuleName::as_str);
        let declare = format!("; declare it in modules/{module}.toml");
        or(did_you_mean(module.as_str(), declared), declare)
    }
}

fn or(hint: String, otherwise: String) -> String {
    if hint.is_empty() { otherwise } else { hint }
}

/// Names listed in one sentence.
const NAMED_LIMIT: usize = 8;
