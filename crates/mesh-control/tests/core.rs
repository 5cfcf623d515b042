//! Both cores from outside: what each decides, case by case.

#[cfg(test)]
#[path = "core/agent.rs"]
mod agent;
#[cfg(test)]
#[path = "core/commands.rs"]
mod commands;
#[cfg(test)]
#[path = "core/enrolment.rs"]
mod enrolment;
#[cfg(test)]
#[path = "core/failover.rs"]
mod failover;
#[cfg(test)]
#[path = "core/hand.rs"]
mod hand;
#[cfg(test)]
#[path = "core/moving.rs"]
mod moving;
#[cfg(test)]
#[path = "core/outward.rs"]
mod outward;
#[cfg(test)]
#[path = "core/placing.rs"]
mod placing;
#[cfg(test)]
#[path = "core/reports.rs"]
mod reports;
#[cfg(test)]
#[path = "core/rig.rs"]
mod rig;
#[cfg(test)]
#[path = "core/rotation.rs"]
mod rotation;
#[cfg(test)]
#[path = "core/secrets.rs"]
mod secrets;
