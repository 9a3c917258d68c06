// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//! Rust, by bindgen's view of the C header: two processes send tag messages to each other.
//!
//!     cd tests/bindings/rust
//!     UCXX_RS_PREFIX=... cargo run --example ping_pong             the server, prints its port
//!     UCXX_RS_PREFIX=... cargo run --example ping_pong -- PORT     the client
//!
//! The server returns each message in callbacks. The client waits. The last answer is longer than
//! its buffer, to show an error. A program in Rust has a Rust interface as well, the crate itself.
//! This is for one that loads the installed library.
use std::cell::{Cell, RefCell};
use std::ffi::{c_void, CStr};
use std::io::Write;
use std::mem::{size_of, zeroed};
use std::{env, error, fmt, ptr};
use ucxx_rs_bindings_test::*;

const PING: u64 = 1;
const PONG: u64 = 2;
const ROUNDS: u32 = 1000;
const LENGTH: usize = 4096;
const MINUTE: u64 = 60_000_000_000;

#[derive(Debug)]
struct Error {
    status: ucxx_status_t,
    text: String,
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl error::Error for Error {}

/// Call it directly after the function: the text is about the last call of this thread.
fn check(status: ucxx_status_t) -> Result<(), Error> {
    if status >= 0 {
        return Ok(());
    }
    // SAFETY: the text is never NULL, and valid until the next call of this thread.
    let text = unsafe { CStr::from_ptr(ucxx_error_text(status)) };
    Err(Error { status, text: text.to_string_lossy().into_owned() })
}

/// The handle that a function returns through its last argument.
fn created<T>(make: impl FnOnce(*mut *mut T) -> ucxx_status_t) -> Result<*mut T, Error> {
    let mut handle = ptr::null_mut();
    check(make(&mut handle))?;
    Ok(handle)
}

/// Ends a handle. Later ones are dropped first, so children end before their parents.
struct Owned<T>(*mut T, unsafe extern "C" fn(*mut T));

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: the handle is used only inside its owner's scope.
        unsafe { self.1(self.0) }
    }
}

/// What the callbacks share. All run on the thread that waits.
struct Server {
    worker: *mut ucxx_worker_t,
    client: Cell<*mut ucxx_endpoint_t>,
    buffer: RefCell<Vec<u8>>,
    info: Cell<ucxx_recv_info_t>,
    returned: Cell<u32>,
    closed: Cell<bool>,
    /// Neither an error nor a panic may leave a callback. So the first one is kept for the loop.
    failure: RefCell<Option<Error>>,
}

impl Server {
    fn keep(&self, result: Result<(), Error>) {
        if let Err(error) = result {
            self.failure.borrow_mut().get_or_insert(error);
        }
    }

    fn params(&self, callback: ucxx_request_callback_t) -> ucxx_op_params_t {
        // SAFETY: zero is the default of every member.
        let mut params: ucxx_op_params_t = unsafe { zeroed() };
        params.struct_size = size_of::<ucxx_op_params_t>();
        params.flags = UCXX_FLAG_ALWAYS_CALLBACK as u64;
        params.callback = callback;
        params.callback_arg = ptr::from_ref(self).cast_mut().cast();
        params
    }

    fn receive(&self) -> Result<(), Error> {
        let mut params = self.params(Some(on_received));
        params.recv_info = self.info.as_ptr();
        params.source = self.client.get();
        let mut buffer = self.buffer.borrow_mut();
        // SAFETY: the buffer does not move, and is used next when the message is sent back.
        check(unsafe {
            let (data, length) = (buffer.as_mut_ptr().cast(), buffer.len());
            ucxx_tag_recv(self.worker, data, length, PING, u64::MAX, &params, ptr::null_mut())
        })
    }

    fn send_back(&self) -> Result<(), Error> {
        let params = self.params(Some(on_sent));
        let (data, length) = (self.buffer.borrow().as_ptr().cast(), self.info.get().length);
        let client = self.client.get();
        // SAFETY: as above.
        check(unsafe {
            ucxx_tag_send(client, data, length as usize, PONG, &params, ptr::null_mut())
        })
    }
}

/// # Safety
/// `arg` is the server, which lives longer than its worker.
unsafe fn server<'a>(arg: *mut c_void) -> &'a Server {
    unsafe { &*arg.cast::<Server>() }
}

unsafe extern "C" fn on_connect(arg: *mut c_void, request: *mut ucxx_conn_request_t) {
    let server = unsafe { server(arg) };
    let request = Owned(request, ucxx_conn_request_destroy);
    let accepted = created(|endpoint| unsafe {
        let mut params: ucxx_endpoint_params_t = zeroed();
        params.struct_size = size_of::<ucxx_endpoint_params_t>();
        params.on_close = Some(on_close);
        params.on_close_arg = arg;
        ucxx_endpoint_accept(request.0, &params, endpoint)
    });
    server.keep(accepted.and_then(|endpoint| {
        server.client.set(endpoint);
        server.receive()
    }));
}

unsafe extern "C" fn on_close(arg: *mut c_void, _: *mut ucxx_endpoint_t, status: ucxx_status_t) {
    let server = unsafe { server(arg) };
    if status != UCXX_ERR_CONNECTION_RESET {
        server.keep(check(status));
    }
    server.closed.set(true);
}

unsafe extern "C" fn on_received(arg: *mut c_void, _: *mut ucxx_request_t, status: ucxx_status_t) {
    let server = unsafe { server(arg) };
    server.keep(check(status).and_then(|()| server.send_back()));
}

unsafe extern "C" fn on_sent(arg: *mut c_void, _: *mut ucxx_request_t, status: ucxx_status_t) {
    let server = unsafe { server(arg) };
    server.returned.set(server.returned.get() + 1);
    let more = server.returned.get() <= ROUNDS;
    server.keep(check(status).and_then(|()| if more { server.receive() } else { Ok(()) }));
}

fn serve(worker: Owned<ucxx_worker_t>) -> Result<(), Box<dyn error::Error>> {
    let server = Server {
        worker: worker.0,
        client: Cell::new(ptr::null_mut()),
        buffer: RefCell::new(vec![0; LENGTH]),
        // SAFETY: zero is a value of every member.
        info: Cell::new(unsafe { zeroed() }),
        returned: Cell::new(0),
        closed: Cell::new(false),
        failure: RefCell::new(None),
    };
    // Dropped before the server, also after an error: then no callback runs any more.
    let worker = worker;
    let listener = created(|listener| unsafe {
        let mut params: ucxx_listener_params_t = zeroed();
        params.struct_size = size_of::<ucxx_listener_params_t>();
        params.host = c"127.0.0.1".as_ptr();
        params.on_connect = Some(on_connect);
        params.on_connect_arg = ptr::from_ref(&server).cast_mut().cast();
        ucxx_listener_create(worker.0, &params, listener)
    })?;
    let listener = Owned(listener, ucxx_listener_destroy);
    println!("{}", unsafe { ucxx_listener_port(listener.0) });
    std::io::stdout().flush()?;
    while !server.closed.get() {
        check(unsafe { ucxx_worker_wait(worker.0, MINUTE) })?;
        if let Some(failure) = server.failure.take() {
            return Err(failure.into());
        }
    }
    drop(Owned(server.client.get(), ucxx_endpoint_destroy));
    if server.returned.get() != ROUNDS + 1 {
        return Err("messages are missing".into());
    }
    println!("server: {} messages returned", server.returned.get());
    Ok(())
}

fn ask(worker: *mut ucxx_worker_t, port: u16) -> Result<(), Box<dyn error::Error>> {
    let host = c"127.0.0.1".as_ptr();
    let server =
        created(|out| unsafe { ucxx_endpoint_connect(worker, host, port, ptr::null(), out) })?;
    let server = Owned(server, ucxx_endpoint_destroy);
    // SAFETY: zero is the default of every member.
    let mut wait: ucxx_op_params_t = unsafe { zeroed() };
    wait.struct_size = size_of::<ucxx_op_params_t>();
    wait.flags = UCXX_FLAG_WAIT as u64;
    wait.timeout_ns = MINUTE;
    // SAFETY, of both: the call waits until the buffer is free.
    let send = |buffer: &[u8]| {
        let (data, length) = (buffer.as_ptr().cast(), buffer.len());
        check(unsafe { ucxx_tag_send(server.0, data, length, PING, &wait, ptr::null_mut()) })
    };
    let receive = |buffer: &mut [u8]| {
        let (data, length) = (buffer.as_mut_ptr().cast(), buffer.len());
        check(unsafe {
            ucxx_tag_recv(worker, data, length, PONG, u64::MAX, &wait, ptr::null_mut())
        })
    };
    let mut answer = [0; LENGTH];
    for round in 0..ROUNDS {
        let sent: Vec<u8> = (0..LENGTH).map(|at| (at as u32 * 31 + round) as u8).collect();
        send(&sent)?;
        receive(&mut answer)?;
        if answer[..] != sent {
            return Err("the answer is not what was sent".into());
        }
    }
    println!("client: {ROUNDS} answers are right");

    send(&answer)?;
    match receive(&mut answer[..8]) {
        Err(error) if error.status == UCXX_ERR_MESSAGE_TRUNCATED => {
            println!("client: the error that was expected: {error}");
            Ok(())
        }
        other => Err(format!("expected a truncated message, got {other:?}").into()),
    }
}

fn main() -> Result<(), Box<dyn error::Error>> {
    let context = created(|context| unsafe { ucxx_context_create(ptr::null(), context) })?;
    let context = Owned(context, ucxx_context_destroy);
    let worker = created(|worker| unsafe { ucxx_worker_create(context.0, ptr::null(), worker) })?;
    let worker = Owned(worker, ucxx_worker_destroy);
    match env::args().nth(1) {
        Some(port) => ask(worker.0, port.parse()?),
        None => serve(worker),
    }
}
