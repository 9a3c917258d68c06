//! Replaces `cuda_driver` in builds without the feature `cuda`. It finds no GPU, so the types of
//! things on a GPU have no values.

use crate::engine::base::status::{Error, Result, Status};
use std::ffi::c_void;
use std::sync::Arc;

type Faulty<T> = std::result::Result<T, Fault>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fault;
pub(crate) enum Gpu {}
pub(crate) enum Event {}
pub(crate) enum Stream {}

#[derive(Clone, Copy)]
#[allow(dead_code)] // There is no GPU that anybody would look at.
pub(crate) enum Side<'a> {
    Host,
    Device(&'a Gpu),
}

fn none<T>() -> Result<T> {
    Err(Fault.into_error("CUDA"))
}

pub(crate) fn check_device(_number: i32) -> Result<()> {
    none()
}

pub(crate) fn gpu(_number: i32) -> Result<Arc<Gpu>> {
    none()
}

pub(crate) fn gpu_of(_stream: *mut c_void) -> Result<Arc<Gpu>> {
    none()
}

pub(crate) fn gpu_of_thread() -> Result<Arc<Gpu>> {
    none()
}

pub(crate) fn find(_data: *const c_void) -> Option<(i32, i32)> {
    None
}

/// The process may have a driver nevertheless, from the program or UCX.
pub(crate) fn may_be_on_device(_data: *const c_void) -> bool {
    true
}

pub(crate) fn is_on_device(_data: *const c_void) -> bool {
    false
}

/// # Safety
/// None is needed.
pub(crate) unsafe fn put(_target: *mut c_void, _from: *const c_void, _bytes: usize) -> Result<()> {
    none()
}

impl Fault {
    pub(crate) fn status(self) -> Status {
        Status::NO_DEVICE
    }

    pub(crate) fn into_error(self, what: impl std::fmt::Display) -> Error {
        Error::new(self.status(), format!("{what}: {self}"))
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("this library was built without it")
    }
}

impl Gpu {
    pub(crate) fn number(&self) -> i32 {
        match *self {}
    }

    pub(crate) fn allocate(&self, _bytes: usize) -> Faulty<*mut u8> {
        match *self {}
    }

    /// # Safety
    /// None is needed.
    pub(crate) unsafe fn free(&self, _data: *mut u8) {
        match *self {}
    }

    pub(crate) fn allocate_pinned(&self, _bytes: usize) -> Faulty<*mut u8> {
        match *self {}
    }

    /// # Safety
    /// None is needed.
    pub(crate) unsafe fn free_pinned(&self, _data: *mut u8) {
        match *self {}
    }
}

impl Event {
    /// # Safety
    /// None is needed.
    pub(crate) unsafe fn record<'a>(
        gpu: &Arc<Gpu>,
        _stream: *mut c_void,
        _after: impl Iterator<Item = &'a Event>,
    ) -> Faulty<Self> {
        match **gpu {}
    }

    pub(crate) fn handle(&self) -> *mut c_void {
        match *self {}
    }

    pub(crate) fn query(&self) -> Faulty<bool> {
        match *self {}
    }
}

impl Stream {
    pub(crate) fn new(gpu: &Arc<Gpu>) -> Faulty<Self> {
        match **gpu {}
    }

    /// # Safety
    /// None is needed.
    pub(crate) unsafe fn copy<'a>(
        &self,
        _from: (*mut u8, Side<'_>),
        _to: (*mut u8, Side<'_>),
        _bytes: usize,
        _after: impl Iterator<Item = &'a Event>,
    ) -> Faulty<Event> {
        match *self {}
    }
}
