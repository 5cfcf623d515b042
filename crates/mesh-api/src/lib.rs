//! The operator's HTTP surface and its typed client.
