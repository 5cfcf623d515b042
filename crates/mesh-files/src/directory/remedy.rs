//! What may be done about files that contradict one another.

use mesh_model::{EventName, EventRef, MeshError, ModuleName};

use super::{Assembly, ModuleFile};
use crate::manifest::Said;
use crate::source::{did_you_mean, nearest, quoted};

impl Assembly<'_> {
    /// What may have been meant, or what would end a contradiction; nothing where the error itself says so.
    pub(super) fn remedy(&self, error: &MeshError) -> String {
        match error {
            MeshError::NobodyEmits { event, .. } => match self.modules.get(&event.module) {
                Some(file) => emitted(file, event),
                None => self.or_declare_emitter(event),
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
                "; take one of these out of the after of the one before it".to_owned()
            }
            MeshError::Manifest { .. }
            | MeshError::Misnamed { .. }
            | MeshError::Placement { .. } => String::new(),
        }
    }

    /// The declared module that may have been meant, or where one of this name would be declared.
    fn or_declare(&self, module: &ModuleName) -> String {
        if let Some(passed_over) = self.passed_over.may_declare(module) {
            return passed_over;
        }
        let declared = self.modules.keys().map(ModuleName::as_str);
        let declare = format!("; declare it in modules/{module}.toml");
        or(did_you_mean(module.as_str(), declared), declare)
    }

    /// The same for an event's module: what is offered is an event, if that module has it.
    fn or_declare_emitter(&self, event: &EventRef) -> String {
        let declared = self.modules.iter();
        let emitters = declared.filter(|(_, file)| file.manifest.emits.contains(&event.event));
        let meant = nearest(
            event.module.as_str(),
            emitters.map(|(module, _)| module.as_str()),
        );
        match meant {
            Some(module) if self.passed_over.may_declare(&event.module).is_none() => format!(
                "; did you mean {}?",
                quoted(&format!("{module}.{}", event.event))
            ),
            _ => self.or_declare(&event.module),
        }
    }
}

/// What a module emits that may have been meant by an event it does not; as a follower writes it.
fn emitted(file: &ModuleFile<'_>, event: &EventRef) -> String {
    let EventRef { module, event } = event;
    let prefixed = EventName::new(format!("{module}.{event}")).ok();
    let prefixed = prefixed.filter(|prefixed| file.manifest.emits.contains(prefixed));
    if let Some(prefixed) = prefixed {
        return format!(
            "; {module} lists it with its own name before it: write {} at {}",
            quoted(event.as_str()),
            file.source.place(file.at(&Said::Emits(prefixed)))
        );
    }
    let announced = EventName::announced();
    let emits = file.manifest.emits.iter();
    let emits = emits.filter(|event| **event != announced);
    let names: Vec<&str> = emits.map(AsRef::as_ref).collect();
    if let Some(meant) = nearest(event.as_str(), names.iter().copied()) {
        return format!("; did you mean {}?", quoted(&format!("{module}.{meant}")));
    }
    match names.as_slice() {
        [] => "; it lists none".to_owned(),
        names if names.len() > NAMED_LIMIT => String::new(),
        names => format!("; it lists {}", names.join(", ")),
    }
}

fn or(hint: String, otherwise: String) -> String {
    if hint.is_empty() { otherwise } else { hint }
}

/// Names listed in one sentence.
const NAMED_LIMIT: usize = 8;
