// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// Zig: two processes send tag messages to each other. @cImport reads the C header.
//
//     zig build-exe ping_pong.zig -lc -I$PREFIX/include -L$PREFIX/lib -lucxx_rs
//     ./ping_pong           the server, which prints its port
//     ./ping_pong PORT      the client
//
// The server returns each message in callbacks. The client waits. The last answer is longer than
// its buffer, to show an error.
const std = @import("std");
const c = @cImport({
    @cInclude("stdio.h");
    @cInclude("ucxx_rs.h");
});

const ping = 1;
const pong = 2;
const all_bits = std.math.maxInt(u64);
const rounds = 1000;
const length = 4096;
const minute = 60 * std.time.ns_per_s;

const Arg = ?*anyopaque;
const Status = c.ucxx_status_t;
const Error = error{Ucxx};

/// Prints the text of an error. Call it directly after the function: the text is about the last
/// call of this thread.
fn check(status: Status) Error!void {
    if (status >= 0) return;
    std.debug.print("error: {s}\n", .{c.ucxx_error_text(status)});
    return error.Ucxx;
}

/// A parameter struct with its defaults.
fn defaults(comptime Params: type) Params {
    var params = std.mem.zeroes(Params);
    params.struct_size = @sizeOf(Params);
    return params;
}

const Server = struct {
    worker: *c.ucxx_worker_t,
    client: ?*c.ucxx_endpoint_t = null,
    buffer: [length]u8 = undefined,
    info: c.ucxx_recv_info_t = undefined,
    returned: u32 = 0,
    closed: bool = false,
    /// A callback returns nothing, so the loop returns its error.
    failure: Error!void = {},

    fn of(arg: Arg) *Server {
        return @ptrCast(@alignCast(arg));
    }

    fn keep(server: *Server, result: Error!void) void {
        if (server.failure) |_| server.failure = result else |_| {}
    }

    fn receive(server: *Server) Error!void {
        var params = defaults(c.ucxx_op_params_t);
        params.flags = c.UCXX_FLAG_ALWAYS_CALLBACK;
        params.callback = onReceived;
        params.callback_arg = server;
        params.recv_info = &server.info;
        params.source = server.client;
        const buffer = &server.buffer;
        try check(c.ucxx_tag_recv(server.worker, buffer, length, ping, all_bits, &params, null));
    }

    fn sendBack(server: *Server) Error!void {
        var params = defaults(c.ucxx_op_params_t);
        params.flags = c.UCXX_FLAG_ALWAYS_CALLBACK;
        params.callback = onSent;
        params.callback_arg = server;
        const sent = server.info.length;
        try check(c.ucxx_tag_send(server.client, &server.buffer, sent, pong, &params, null));
    }

    fn accept(server: *Server, request: ?*c.ucxx_conn_request_t) Error!void {
        defer c.ucxx_conn_request_destroy(request);
        var params = defaults(c.ucxx_endpoint_params_t);
        params.on_close = onClose;
        params.on_close_arg = server;
        try check(c.ucxx_endpoint_accept(request, &params, &server.client));
        try server.receive();
    }

    fn onConnect(arg: Arg, request: ?*c.ucxx_conn_request_t) callconv(.c) void {
        const server = of(arg);
        server.keep(server.accept(request));
    }

    fn onClose(arg: Arg, _: ?*c.ucxx_endpoint_t, status: Status) callconv(.c) void {
        const server = of(arg);
        if (status != c.UCXX_ERR_CONNECTION_RESET) server.keep(check(status));
        server.closed = true;
    }

    fn onReceived(arg: Arg, _: ?*c.ucxx_request_t, status: Status) callconv(.c) void {
        const server = of(arg);
        server.keep(if (check(status)) server.sendBack() else |err| err);
    }

    fn onSent(arg: Arg, _: ?*c.ucxx_request_t, status: Status) callconv(.c) void {
        const server = of(arg);
        server.returned += 1;
        server.keep(check(status));
        if (server.returned <= rounds) server.keep(server.receive());
    }
};

fn serve(context: *c.ucxx_context_t) !void {
    // The worker is destroyed first, and so no callback uses the server after its end.
    var server = Server{ .worker = undefined };
    var worker: ?*c.ucxx_worker_t = null;
    try check(c.ucxx_worker_create(context, null, &worker));
    defer c.ucxx_worker_destroy(worker);
    server.worker = worker.?;

    var params = defaults(c.ucxx_listener_params_t);
    params.host = "127.0.0.1";
    params.on_connect = Server.onConnect;
    params.on_connect_arg = &server;
    var listener: ?*c.ucxx_listener_t = null;
    try check(c.ucxx_listener_create(worker, &params, &listener));
    defer c.ucxx_listener_destroy(listener);
    _ = c.printf("%d\n", @as(c_int, c.ucxx_listener_port(listener)));
    _ = c.fflush(null);

    while (!server.closed) {
        try check(c.ucxx_worker_wait(worker, minute));
        try server.failure;
    }
    c.ucxx_endpoint_destroy(server.client);
    if (server.returned != rounds + 1) return error.MessagesAreMissing;
    _ = c.printf("server: %u messages returned\n", server.returned);
}

fn ask(context: *c.ucxx_context_t, port: u16) !void {
    var worker: ?*c.ucxx_worker_t = null;
    try check(c.ucxx_worker_create(context, null, &worker));
    defer c.ucxx_worker_destroy(worker);
    var server: ?*c.ucxx_endpoint_t = null;
    try check(c.ucxx_endpoint_connect(worker, "127.0.0.1", port, null, &server));
    defer c.ucxx_endpoint_destroy(server);

    var wait = defaults(c.ucxx_op_params_t);
    wait.flags = c.UCXX_FLAG_WAIT;
    wait.timeout_ns = minute;
    var sent: [length]u8 = undefined;
    var answer: [length]u8 = undefined;
    for (0..rounds) |round| {
        for (&sent, 0..) |*byte, at| byte.* = @truncate(at * 31 + round);
        try check(c.ucxx_tag_send(server, &sent, length, ping, &wait, null));
        try check(c.ucxx_tag_recv(worker, &answer, length, pong, all_bits, &wait, null));
        if (!std.mem.eql(u8, &sent, &answer)) return error.WrongAnswer;
    }
    _ = c.printf("client: %d answers are right\n", @as(c_int, rounds));

    try check(c.ucxx_tag_send(server, &sent, length, ping, &wait, null));
    const status = c.ucxx_tag_recv(worker, &answer, 8, pong, all_bits, &wait, null);
    if (status != c.UCXX_ERR_MESSAGE_TRUNCATED) return error.ExpectedTruncation;
    _ = c.printf("client: the error that was expected: %s\n", c.ucxx_error_text(status));
}

pub fn main() !void {
    var context: ?*c.ucxx_context_t = null;
    try check(c.ucxx_context_create(null, &context));
    defer c.ucxx_context_destroy(context);
    var arguments = std.process.args();
    _ = arguments.skip();
    if (arguments.next()) |port| {
        try ask(context.?, try std.fmt.parseInt(u16, port, 10));
    } else {
        try serve(context.?);
    }
}
