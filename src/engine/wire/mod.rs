//! Every format that another process reads, and nothing else: encode, decode, check.
//!
//! Uses `base` and `os`. What comes in is hostile until it is decoded here; each decoder has a fuzz
//! target. Begin with `header`: the head of each message of the library's own channel. docs/wire-
//! formats.md has the tables.

pub mod address;
pub mod bootstrap;
pub mod compact_header;
pub(crate) mod credit;
pub mod element_type;
pub mod group;
pub mod header;
pub mod hub_stream;
pub mod multi_table;
pub mod sync_constants;
pub mod ucxx_am;
pub mod ucxx_multi;
pub mod window;
