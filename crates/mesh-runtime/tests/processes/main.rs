//! The process runtime against real processes of this host.

#[cfg(test)]
mod adopting;
#[cfg(test)]
mod converging;
#[cfg(test)]
mod hand;
#[cfg(test)]
mod host;
#[cfg(test)]
mod running;
#[cfg(test)]
mod supervising;
