//! All formats that another process reads: encode, decode and check, and nothing else.
//!
//! Uses `base` and `os`. Received bytes are untrusted until they are decoded here. Each decoder has
//! a fuzz target. Begin with `header`: the header of each message of the library's own channel.
//! docs/wire-formats.md has the tables.

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
