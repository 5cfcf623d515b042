//! Following a module's log over the bus: the controller asks, the node says, nobody keeps.
//!
//! Whoever reads gives the node room, and more as it reads on; what does not fit the node leaves out and counts. So neither
//! end holds more than the room of a reading, however much a module writes and however slowly it is read. A reading ends by
//! itself when nobody renews it.

mod answering;
mod desk;
mod outgoing;
mod reading;

use std::time::Duration;

pub use answering::{LogLines, LogSource, NoLog, answer_asks};
pub use desk::{LogDesk, TooManyReadings};
pub use reading::{Read, ReadEnd, Reading};

/// Bytes of a line that are passed on; what is longer is cut.
pub const LOG_LINE: usize = 16 << 10;

/// What a node may say before somebody has read it, as [`LogSaid::cost`](mesh_wire::LogSaid::cost) counts.
const ROOM: u64 = 256 << 10;
/// What is said in one part at most, by the same count; one line always fits.
const PART: u64 = 32 << 10;
/// Bytes of a part that a controller looks at: more than any part is encoded to.
const PART_BYTES: usize = 64 << 10;
/// How long a node goes on without hearing that somebody still reads.
const LEASE: Duration = Duration::from_secs(30);
/// How often it is told.
const RENEWED_EACH: Duration = Duration::from_secs(10);
/// How old an ask may be, or how far in the future: clocks differ, and a host whose clock differs by more cannot enrol.
const FRESH: Duration = Duration::from_mins(15);
