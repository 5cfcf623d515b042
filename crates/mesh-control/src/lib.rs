//! Both ends of the conversation, without I/O.
