//! Contexts.

use crate::api::opaque;
use crate::engine::base::status::{Error, Result};
use crate::engine::ucx::context::{self, feature, ContextParams};
use std::ffi::CString;
use std::sync::Arc;

/// UCX, set up once. Workers and hubs are made from a context, and keep it alive.
///
/// Clones are the same context. Any thread may use it. In a forked child it can only be dropped.
#[derive(Clone)]
pub struct Context(pub(crate) Arc<context::Context>);

/// What a context is for, besides the defaults: see [`ContextBuilder::feature`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Feature {
    /// Remote memory: put and get.
    Rma,
    /// Atomic operations on remote memory.
    Atomic,
}

/// Makes a [`Context`].
#[derive(Default)]
pub struct ContextBuilder {
    params: ContextParams,
    name: Option<String>,
}

impl Context {
    /// A context for tag messages, active messages and streams, on all networks that UCX finds.
    ///
    /// Create it before you start threads: if another one allocates or frees meanwhile, UCX can,
    /// rarely, damage the heap.
    ///
    /// # Errors
    ///
    /// What UCX could not set up; `UNSUPPORTED` for a UCX older than 1.13.
    pub fn new() -> Result<Self> {
        Self::builder().build()
    }

    /// A context with other properties.
    pub fn builder() -> ContextBuilder {
        ContextBuilder::default()
    }

    /// Can messages be sent from, and received into, the memory of a CUDA device?
    pub fn has_cuda(&self) -> bool {
        self.0.has_cuda()
    }
}

impl ContextBuilder {
    /// Adds a feature. A feature lets peers reach memory that you give away a key to.
    pub fn feature(mut self, feature: Feature) -> Self {
        let bit = match feature {
            Feature::Rma => feature::RMA,
            Feature::Atomic => feature::ATOMIC,
        };
        self.params.features |= bit;
        self
    }

    /// Sets a variable of UCX by its name without `UCX_`, for example `"TLS"` to `"tcp"`. It has
    /// precedence over the environment.
    pub fn config(mut self, name: &str, value: &str) -> Self {
        self.params.config.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Only this host: loopback and shared memory.
    pub fn local(mut self) -> Self {
        self.params.local_network = true;
        self
    }

    /// A name for UCX's own output.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Makes the context.
    ///
    /// # Errors
    ///
    /// As [`Context::new`], and `INVALID_PARAM` for a variable that UCX does not know.
    pub fn build(mut self) -> Result<Context> {
        self.params.features |= feature::DEFAULT;
        self.params.name = self.name.map(|name| text(name, "name")).transpose()?;
        Ok(Context(context::Context::new(&self.params)?))
    }
}

/// Refuses text with a zero byte.
pub(crate) fn text(text: String, argument: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::invalid(format!("{argument}: has a zero byte")))
}

opaque! { Context ContextBuilder }
