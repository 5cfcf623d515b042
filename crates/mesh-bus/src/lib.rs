//! The seam: what a bus must do, the two loops over it, the loopback and the conformance suite.
