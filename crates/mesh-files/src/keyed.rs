//! A table that is read by its keys and by nothing else.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

/// A form out of a table. What serde derives takes an array as well, by position: `module = ["a", "1"]`.
#[derive(Debug, Default)]
pub(crate) struct Keyed<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Keyed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let form = deserializer.deserialize_map(ByKey(PhantomData))?;
        Ok(Self(form))
    }
}

struct ByKey<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ByKey<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}
