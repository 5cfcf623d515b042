//! From the records: every stream, consumer and grant.
