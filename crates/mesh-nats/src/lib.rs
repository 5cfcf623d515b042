//! The mesh over NATS JetStream.
