//! What is said and what is kept, byte for byte.
