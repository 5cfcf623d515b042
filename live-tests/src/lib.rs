//! Tests against servers that are really there.
