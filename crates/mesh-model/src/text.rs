//! Types that are a text which was looked at once: how each is read and written.

/// Types that are a text. Each has a `new` of its own, which is the only way to one: so it is read by that from text and
/// from serde, and written as it is.
macro_rules! texts {
    ($($(#[$doc:meta])* $name:ident or $error:ty;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Deserialize)]
        #[serde(try_from = "String")]
        pub struct $name(std::sync::Arc<str>);

        impl $name {
            /// It as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = $error;
            fn try_from(text: String) -> Result<Self, $error> {
                Self::new(text)
            }
        }

        impl std::str::FromStr for $name {
            type Err = $error;
            fn from_str(text: &str) -> Result<Self, $error> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(it: $name) -> Self {
                it.0.as_ref().to_owned()
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(&self.0, f)
            }
        }
    )*};
}

pub(crate) use texts;

#[cfg(test)]
mod tests {
    use std::fmt::{Debug, Display};
    use std::str::FromStr;

    use serde::Serialize;
    use serde::de::DeserializeOwned;

    use crate::{
        BoxPublicKey, EventName, Filter, MeshName, ModuleName, NodeName, PublicKey, QueueGroup,
        SeatName, StreamName, Subject, TokenId,
    };

    /// The text in every form, and another text in none.
    fn is_read_and_written<T>(text: &str, wrong: &str)
    where
        T: FromStr<Err: Debug> + TryFrom<String, Error: Debug> + Into<String> + AsRef<str>,
        T: Display + Debug + PartialEq + Clone + Serialize + DeserializeOwned,
    {
        let it: T = text.parse().unwrap();
        assert_eq!(T::try_from(text.to_owned()).unwrap(), it);
        let json = serde_json::to_string(&it).unwrap();
        assert_eq!(json, format!("{text:?}"));
        assert_eq!(serde_json::from_str::<T>(&json).unwrap(), it);
        assert_eq!((it.to_string().as_str(), it.as_ref()), (text, text));
        assert_eq!(format!("{it:?}"), format!("{text:?}"));
        assert_eq!(it.into(), text);
        assert!(wrong.parse::<T>().is_err(), "{wrong:?}");
        assert!(T::try_from(wrong.to_owned()).is_err(), "{wrong:?}");
        let json = serde_json::to_string(wrong).unwrap();
        assert!(serde_json::from_str::<T>(&json).is_err(), "{json}");
    }

    #[test]
    fn each_is_read_and_written_as_its_text() {
        let (user, curve) = (
            PublicKey::from_raw([7; 32]),
            BoxPublicKey::from_raw([7; 32]),
        );
        is_read_and_written::<MeshName>("home", "Home");
        is_read_and_written::<NodeName>("web-1", "controller");
        is_read_and_written::<ModuleName>("shop", "shop.a");
        is_read_and_written::<SeatName>("mail", "");
        is_read_and_written::<EventName>("order.placed", "order..placed");
        is_read_and_written::<TokenId>("t1", "-t1");
        is_read_and_written::<Subject>("a.b", "a.*");
        is_read_and_written::<Filter>("a.*.>", "a.>.b");
        is_read_and_written::<StreamName>("SEAT-mail", "SEAT.mail");
        is_read_and_written::<QueueGroup>("mail", "mail 1");
        is_read_and_written::<PublicKey>(user.as_str(), curve.as_str());
        is_read_and_written::<BoxPublicKey>(curve.as_str(), user.as_str());
    }
}
