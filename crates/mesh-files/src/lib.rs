//! What an operator writes: TOML read strictly, with line, column and the nearest key.
