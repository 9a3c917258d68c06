//! rust-bindgen's bindings of ucxx_rs.h, and a message sent through them. The bindings' own layout
//! tests run as well.
#![allow(dead_code, non_camel_case_types, non_upper_case_globals, missing_docs)]

include!(concat!(env!("OUT_DIR"), "/ucxx_rs.rs"));

#[cfg(test)]
mod tests {
    use super::*;
    use std::{ffi::CStr, mem::size_of, ptr};

    fn text(value: *const std::ffi::c_char) -> String {
        // SAFETY: the library's strings are never NULL and end with a zero byte.
        unsafe { CStr::from_ptr(value) }.to_string_lossy().into_owned()
    }

    fn ok(status: ucxx_status_t) {
        // SAFETY: neither call takes a pointer.
        let said = unsafe { (text(ucxx_status_name(status)), text(ucxx_last_error_message())) };
        assert!(status >= 0, "{}: {}", said.0, said.1);
    }

    #[test]
    fn statuses_are_plain_integers() {
        let name = |status| text(unsafe { ucxx_status_name(status) });
        assert_eq!(name(UCXX_OK as i32), "UCXX_OK");
        assert_eq!(name(UCXX_ERR_CANCELED as i32), "UCXX_ERR_CANCELED");
        assert_eq!(size_of::<ucxx_status_t>(), 4);
    }

    #[test]
    fn an_initialiser_fills_in_the_size_that_bindgen_computed() {
        let mut params =
            ucxx_context_params_t { struct_size: 0, features: 7, ..unsafe { std::mem::zeroed() } };
        unsafe { ucxx_context_params_init(&mut params, size_of::<ucxx_context_params_t>()) };
        assert_eq!(params.struct_size, size_of::<ucxx_context_params_t>());
        assert_eq!(params.features, 0);
    }

    #[test]
    fn a_message_to_oneself_arrives() {
        let (mut context, mut worker, mut address, mut endpoint) =
            (ptr::null_mut(), ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        let sent = *b"through bindgen";
        let mut received = [0u8; 15];
        // SAFETY: each handle is used between its creation and its destruction; the buffers outlive
        // the requests.
        unsafe {
            ok(ucxx_context_create(ptr::null(), &mut context));
            ok(ucxx_worker_create(context, ptr::null(), &mut worker));
            ok(ucxx_worker_address(worker, &mut address));
            ok(ucxx_endpoint_create(worker, address, ptr::null(), &mut endpoint));

            let (mut receive, mut send) = (ptr::null_mut(), ptr::null_mut());
            ok(ucxx_tag_recv(
                worker,
                received.as_mut_ptr().cast(),
                received.len(),
                5,
                u64::MAX,
                ptr::null(),
                &mut receive,
            ));
            ok(ucxx_tag_send(
                endpoint,
                sent.as_ptr().cast(),
                sent.len(),
                5,
                ptr::null(),
                &mut send,
            ));
            for request in [send, receive] {
                if !request.is_null() {
                    assert_eq!(ucxx_request_wait(request, u64::MAX), UCXX_OK as i32);
                }
                ucxx_request_destroy(request);
            }

            ucxx_endpoint_destroy(endpoint);
            ucxx_address_destroy(address);
            ucxx_worker_destroy(worker);
            ucxx_context_destroy(context);
        }
        assert_eq!(received, sent);
    }
}
