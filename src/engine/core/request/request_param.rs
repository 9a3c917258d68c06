//! The parameters of a UCP call: `ucp_request_param_t`. Only the fields in its mask are set.
//!
//! The struct has a dozen fields and is filled for every message: clearing the other fields would
//! cost more than all the rest.

use crate::engine::core::request::description;
use crate::engine::core::request::request::Slot;
use crate::sys;
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

#[repr(transparent)]
pub(crate) struct Param(MaybeUninit<sys::ucp_request_param_t>);

impl Param {
    /// With the slot as the request, and the callback of a send.
    #[inline(always)]
    pub(crate) fn new(slot: &Slot) -> Self {
        let mut param = Self::without_request();
        // SAFETY: writes to a field of our own struct.
        unsafe { (*param.0.as_mut_ptr()).request = std::ptr::from_ref(slot).cast_mut().cast() };
        param
    }

    /// The same, with the buffer's memory type, and whether it is a list of parts.
    #[inline(always)]
    pub(crate) fn of_buffer(
        slot: &Slot,
        memory_type: Option<sys::ucs_memory_type_t>,
        scattered: bool,
    ) -> Self {
        let mut param = Self::new(slot);
        param.memory_type(memory_type);
        param.scattered(scattered);
        param
    }

    #[inline(always)]
    fn without_request() -> Self {
        let mut param = Param(MaybeUninit::uninit());
        let place = param.0.as_mut_ptr();
        // SAFETY: writes to fields of our own struct.
        unsafe {
            (*place).op_attr_mask =
                sys::UCP_OP_ATTR_FIELD_REQUEST | sys::UCP_OP_ATTR_FIELD_CALLBACK;
            (*place).cb.send = Some(crate::engine::core::request::completion::on_sent);
        }
        param
    }

    #[inline(always)]
    fn add(&mut self, bits: u32) {
        // SAFETY: `without_request` has set the mask.
        unsafe { (*self.0.as_mut_ptr()).op_attr_mask |= bits };
    }

    /// With the callback of a receive instead. UCX 1.13 to 1.15 report nothing of a message that
    /// had already arrived, unless they are forced to call back.
    #[inline(always)]
    pub(crate) fn receive(&mut self, callback: sys::ucp_tag_recv_nbx_callback_t) {
        self.add(sys::UCP_OP_ATTR_FLAG_NO_IMM_CMPL);
        // SAFETY: writes to a field of our own struct.
        unsafe { (*self.0.as_mut_ptr()).cb.recv = callback };
    }

    /// With the callback of an active message's receive instead.
    pub(crate) fn pull(&mut self, callback: sys::ucp_am_recv_data_nbx_callback_t) {
        // SAFETY: writes to a field of our own struct.
        unsafe { (*self.0.as_mut_ptr()).cb.recv_am = callback };
    }

    #[inline(always)]
    pub(crate) fn memory_type(&mut self, memory_type: Option<sys::ucs_memory_type_t>) {
        if let Some(memory_type) = memory_type {
            self.add(sys::UCP_OP_ATTR_FIELD_MEMORY_TYPE);
            // SAFETY: writes to a field of our own struct.
            unsafe { (*self.0.as_mut_ptr()).memory_type = memory_type };
        }
    }

    pub(crate) fn flags(&mut self, flags: u32) {
        self.add(sys::UCP_OP_ATTR_FIELD_FLAGS);
        // SAFETY: writes to a field of our own struct.
        unsafe { (*self.0.as_mut_ptr()).flags = flags };
    }

    /// Whether the buffer is a list of parts.
    #[inline(always)]
    pub(crate) fn scattered(&mut self, scattered: bool) {
        if scattered {
            self.add(sys::UCP_OP_ATTR_FIELD_DATATYPE);
            // SAFETY: writes to a field of our own struct.
            unsafe { (*self.0.as_mut_ptr()).datatype = sys::DATATYPE_IOV };
        }
    }

    /// UCX allocates the request if the worker describes requests. Comes after `receive`.
    #[inline(always)]
    pub(crate) fn let_ucx_describe(&mut self, slot: &Slot) {
        if slot.description.is_some() {
            self.describe(slot);
        }
    }

    #[cold]
    #[inline(never)]
    fn describe(&mut self, slot: &Slot) {
        if !description::may_allocate(slot.kind.get()) {
            return;
        }
        // SAFETY: fields of our own struct; `without_request` has set the mask.
        unsafe {
            let place = self.0.as_mut_ptr();
            (*place).op_attr_mask &= !sys::UCP_OP_ATTR_FIELD_REQUEST;
            (*place).op_attr_mask |= sys::UCP_OP_ATTR_FIELD_USER_DATA;
            (*place).user_data = std::ptr::from_ref(slot).cast_mut().cast();
            if (*place).op_attr_mask & sys::UCP_OP_ATTR_FLAG_NO_IMM_CMPL != 0 {
                (*place).cb.recv = Some(description::on_received);
            } else {
                (*place).cb.send = Some(description::on_sent);
            }
        }
    }

    /// For UCP, which reads it during the call.
    #[inline(always)]
    pub(crate) fn as_ptr(&self) -> *const sys::ucp_request_param_t {
        self.0.as_ptr()
    }
}

/// The parameters of plain operations, made once: only the request differs between them.
pub(crate) struct Templates {
    /// For memory whose type UCP must detect, and for host memory.
    send: [UnsafeCell<Param>; 2],
    receive: [UnsafeCell<Param>; 2],
    /// For a short active message.
    message: UnsafeCell<Param>,
}

impl Templates {
    pub(crate) fn new() -> Self {
        let made = |receive: bool, memory_type| {
            let mut param = Param::without_request();
            if receive {
                param.receive(Some(crate::engine::core::request::completion::on_received));
            }
            param.memory_type(memory_type);
            UnsafeCell::new(param)
        };
        let both = |receive| [made(receive, None), made(receive, Some(sys::UCS_MEMORY_TYPE_HOST))];
        let mut message = Param::without_request();
        message.memory_type(Some(sys::UCS_MEMORY_TYPE_HOST));
        message.flags(sys::UCP_AM_SEND_FLAG_EAGER);
        Templates { send: both(false), receive: both(true), message: UnsafeCell::new(message) }
    }

    /// For a send with this slot; valid until the next one. `index`: 1 for host memory.
    #[inline(always)]
    pub(crate) fn send(&self, slot: &Slot, index: usize) -> *const sys::ucp_request_param_t {
        Self::filled(&self.send[index & 1], slot)
    }

    /// The same for a short active message.
    #[inline(always)]
    pub(crate) fn message(&self, slot: &Slot) -> *const sys::ucp_request_param_t {
        Self::filled(&self.message, slot)
    }

    /// The same for a receive.
    #[inline(always)]
    pub(crate) fn receive(&self, slot: &Slot, index: usize) -> *const sys::ucp_request_param_t {
        Self::filled(&self.receive[index & 1], slot)
    }

    #[inline(always)]
    fn filled(template: &UnsafeCell<Param>, slot: &Slot) -> *const sys::ucp_request_param_t {
        let place = template.get().cast::<sys::ucp_request_param_t>();
        // SAFETY: used only inside the gate; UCP keeps no pointer to it after its call.
        unsafe { (*place).request = std::ptr::from_ref(slot).cast_mut().cast() };
        place
    }
}
