//! The mesh's controller.

fn main() {}
