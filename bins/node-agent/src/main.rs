//! The mesh's node-agent.

fn main() {}
