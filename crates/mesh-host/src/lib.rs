//! What every binary needs of its host: the clock, the environment, the log, and a signal to stop.
//!
//! Time, chance and the environment enter here and nowhere else; from here they travel as arguments.

mod clock;
mod log;
mod place;
mod stop;

pub use clock::{now, seed};
pub use log::{LogFormat, log_to_stderr};
pub use place::{Place, base_env, config_file, how_to_run, runtime_dir, search_path, state_dir};
pub use stop::{install_tls, stop_signal};
