//! How a host is brought to what is declared: which steps, and when a step has succeeded.
//!
//! [`plan`] says what is to happen to each module, [`Rollout`] whether a start of one was good, and [`fallback`] what
//! comes back when it was not. Whoever runs modules carries this out and decides nothing; it is the same for processes
//! and for containers.

mod plan;
mod pulse;
mod rollout;

pub use plan::{Observed, Standing, Step, declared_as, fallback, plan, predecessors, step};
pub use pulse::{Pulse, UNHEALTHY, every};
pub use rollout::{Input, Rollout, Verdict};
