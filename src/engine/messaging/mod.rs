//! Two-sided communication: tag messages, streams, active messages, and fetch. Uses `core` and the
//! floors below.

pub mod am;
pub mod fetch;
pub mod stream;
pub mod tag;
