//! The mesh's enrol.

fn main() {}
