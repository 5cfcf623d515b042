//! The store window: how long a refused message is held.
