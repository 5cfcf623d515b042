//! What an earlier agent left on the host: its records, and the processes they speak of.

use mesh_control::convergence::{Observed, Standing};
use mesh_model::{ModuleName, ModuleReport, ModuleState, Workload};

use crate::RuntimeError;
use crate::board;
use crate::ending::Ending;
use crate::host::Host;
use crate::proc::{self, Identity};
use crate::record::{Phase, Record};

/// An instance that is on the host and that nobody supervises.
#[derive(Debug)]
pub(crate) enum Found {
    /// Its record says what it is.
    Known(Box<Record>),
    /// Its record is gone or cannot be understood; these processes carry its mark.
    Unknown(Vec<Identity>),
}

impl Found {
    /// Looks for everything an earlier agent left.
    pub(crate) fn all(host: &Host) -> Result<Vec<(ModuleName, Self)>, RuntimeError> {
        let prefix = host.mark_prefix();
        let marked = proc::marked(&prefix);
        let mut modules = host.modules()?;
        modules.extend(marked.iter().filter_map(|(mark, _)| {
            let (module, _) = mark.strip_prefix(&prefix)?.split_once('/')?;
            module.parse().ok()
        }));
        modules.sort();
        modules.dedup();
        let mut all = vec![];
        for module in modules {
            if let Some(found) = Self::one(host, &module, &marked)? {
                all.push((module, found));
            }
        }
        Ok(all)
    }

    fn one(
        host: &Host,
        module: &ModuleName,
        marked: &[(String, Identity)],
    ) -> Result<Option<Self>, RuntimeError> {
        let Some(mut record) = host.read(module)? else {
            let prefix = host.marks_of(module);
            let strays: Vec<_> = marked
                .iter()
                .filter(|(mark, _)| mark.starts_with(&prefix))
                .map(|(_, process)| *process)
                .collect();
            return Ok((!strays.is_empty()).then_some(Self::Unknown(strays)));
        };
        // The agent ended between starting it and writing down which process it is.
        if let Phase::Starting { mark } = &record.phase
            && let Some(process) =
                bearer(marked, mark).or_else(|| bearer(&proc::marked(mark), mark))
        {
            record.phase = Phase::Running(process);
            host.write(&record)?;
        }
        Ok(Some(Self::Known(Box::new(record))))
    }

    pub(crate) fn observed(&self, module: &ModuleName) -> Observed {
        Observed {
            module: module.clone(),
            workload: self.workload().cloned(),
            standing: self.standing(),
            rejected: match self {
                Self::Known(record) => record
                    .rejected
                    .as_ref()
                    .map(|rejected| rejected.workload.clone()),
                Self::Unknown(_) => None,
            },
        }
    }

    fn workload(&self) -> Option<&Workload> {
        match self {
            Self::Known(record) => Some(&record.workload),
            Self::Unknown(_) => None,
        }
    }

    fn standing(&self) -> Standing {
        let Self::Known(record) = self else {
            return Standing::Held;
        };
        let over = !Ending::Unknown.starts_again(record.workload.restart);
        let held = match &record.phase {
            Phase::Ended { .. } => true,
            Phase::Running(process) => process.runs() || over,
            Phase::Gone => over,
            Phase::Starting { .. } => false,
        };
        if held { Standing::Held } else { Standing::Lost }
    }

    pub(crate) fn report(&self) -> ModuleReport {
        let record = match self {
            Self::Known(record) => record,
            Self::Unknown(strays) => {
                return ModuleReport {
                    pid: strays.first().map(|process| process.number()),
                    reason: Some("its record cannot be read, so it will be stopped".to_owned()),
                    ..board::idle("unknown", ModuleState::Running)
                };
            }
        };
        let lost = || Some(Ending::Unknown.to_string());
        let (state, pid, reason) = match (&record.phase, self.standing()) {
            (Phase::Running(process), _) if process.runs() => {
                let state = if record.good {
                    ModuleState::Running
                } else {
                    ModuleState::Starting
                };
                (state, Some(process.number()), None)
            }
            (Phase::Ended { reason }, _) => (ModuleState::Ended, None, Some(reason.clone())),
            (_, Standing::Held) => (ModuleState::Ended, None, lost()),
            (_, Standing::Lost) => (ModuleState::Backoff, None, lost()),
        };
        let rejected = record.rejected.as_ref();
        ModuleReport {
            pid,
            restarts: record.restarts,
            reason: reason.or_else(|| rejected.map(|rejected| rejected.reason.clone())),
            last_exit: record.last_exit.clone(),
            repairs: record.repairs,
            ..board::idle(&record.workload.release, state)
        }
    }
}

/// The process with this mark. Who finds none looks twice: one that is just becoming another program shows no mark.
fn bearer(marked: &[(String, Identity)], mark: &str) -> Option<Identity> {
    let (_, process) = marked.iter().find(|(found, _)| found == mark)?;
    Some(*process)
}
