//! How a process ended, and whether that is a reason to start it again.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use mesh_model::Restart;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// By itself.
    Exited(i32),
    /// By a signal.
    Killed(i32),
    /// Nobody who could have been told its status was there: it was adopted, or ended between two agents.
    Unknown,
}

impl Ending {
    /// Whether `restart` asks for another start after this.
    pub(crate) const fn starts_again(self, restart: Restart) -> bool {
        match restart {
            Restart::Always => true,
            Restart::OnFailure => !matches!(self, Self::Exited(0)),
            Restart::Never => false,
        }
    }
}

impl From<ExitStatus> for Ending {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Exited(code),
            (None, Some(signal)) => Self::Killed(signal),
            (None, None) => Self::Unknown,
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exited with status {code}"),
            Self::Killed(signal) => write!(f, "killed by signal {signal}"),
            Self::Unknown => f.write_str("ended with a status this agent could not learn"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_known_success_is_no_failure() {
        for (ending, always, on_failure) in [
            (Ending::Exited(0), true, false),
            (Ending::Exited(3), true, true),
            (Ending::Killed(9), true, true),
            (Ending::Unknown, true, true),
        ] {
            assert_eq!(ending.starts_again(Restart::Always), always, "{ending}");
            assert_eq!(
                ending.starts_again(Restart::OnFailure),
                on_failure,
                "{ending}"
            );
            assert!(!ending.starts_again(Restart::Never), "{ending}");
        }
    }
}
