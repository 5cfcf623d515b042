//! The simulator, real servers on their own ports, folders and cases.

pub mod rabbitmq;
pub mod sim;
