//! The way round, where modules wait for one another.

use mesh_model::ModuleName;

use super::Assembly;

impl Assembly<'_> {
    /// The way from a module by each one's `after` back to it, that one first and last; nothing when there is none. Those
    /// that never start are asked, of which some only wait for a circle and are in none.
    pub(super) fn circle<'m>(&self, stuck: &'m [ModuleName]) -> Vec<&'m ModuleName> {
        let mut way: Vec<&ModuleName> = Vec::new();
        let mut next = stuck.first();
        // Each of them waits for another of them, so going on from one to the next comes round.
        while let Some(module) = next {
            if let Some(begun) = way.iter().position(|met| *met == module) {
                let mut circle = way.split_off(begun);
                return closed(&mut circle);
            }
            way.push(module);
            let after = self.modules.get(module).map(|file| &file.manifest.after);
            next = stuck
                .iter()
                .find(|it| *it != module && after.is_some_and(|after| after.contains(*it)));
        }
        Vec::new()
    }
}

/// A circle from its first name on, and back to that.
fn closed<'m>(circle: &mut Vec<&'m ModuleName>) -> Vec<&'m ModuleName> {
    let least = circle.iter().enumerate().min_by_key(|(_, name)| **name);
    let least = least.map_or(0, |(at, _)| at);
    circle.rotate_left(least);
    circle.extend(circle.first().copied());
    std::mem::take(circle)
}

/// A circle, told.
pub(super) fn sentence(circle: &[&ModuleName]) -> String {
    let names: Vec<&str> = circle.iter().map(|name| name.as_str()).collect();
    format!(
        "after goes round, so none of these ever starts: {}",
        names.join(" → ")
    )
}
