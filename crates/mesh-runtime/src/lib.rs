//! Carries out a plan on a host.
