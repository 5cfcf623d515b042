//! The mesh's meshctl.

fn main() {}
