//! The SDK a module's author uses.
