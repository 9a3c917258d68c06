//! A program of a user of the crate: sends a message through C's surface, from one worker to
//! another one.
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use ucxx_rs::ffi::{
    address::*, context::*, endpoint::*, request::*, tag::*, worker::*, worker_progress::*,
};

fn main() {
    let sent = *b"from crate to crate";
    let mut received = [0; 19];
    let mut context = null_mut();
    let (mut from, mut to) = (null_mut(), null_mut());
    let (mut address, mut endpoint) = (null_mut(), null_mut());
    let (mut send, mut receive) = (null_mut(), null_mut());
    // SAFETY: all places are local, handles are used between create and destroy, and the buffers
    // outlive the requests.
    unsafe {
        assert!(ucxx_context_create(null(), &mut context) >= 0);
        assert!(ucxx_worker_create(context, null(), &mut from) >= 0);
        assert!(ucxx_worker_create(context, null(), &mut to) >= 0);
        assert!(ucxx_worker_address(to, &mut address) >= 0);
        assert!(ucxx_endpoint_create(from, address, null(), &mut endpoint) >= 0);
        let place: *mut c_void = received.as_mut_ptr().cast();
        assert!(ucxx_tag_recv(to, place, 19, 7, u64::MAX, null(), &mut receive) >= 0);
        assert!(ucxx_tag_send(endpoint, sent.as_ptr().cast(), 19, 7, null(), &mut send) >= 0);
        // Positive: in progress.
        while ucxx_request_status(receive) > 0 {
            assert!(ucxx_worker_progress(from, null_mut()) >= 0);
            assert!(ucxx_worker_progress(to, null_mut()) >= 0);
        }
        ucxx_request_destroy(send);
        ucxx_request_destroy(receive);
        ucxx_endpoint_destroy(endpoint);
        ucxx_address_destroy(address);
        ucxx_worker_destroy(from);
        ucxx_worker_destroy(to);
        ucxx_context_destroy(context);
    }
    assert_eq!(sent, received);
    println!("{}", String::from_utf8_lossy(&received));
}
