# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) the ucxx_rs developers
#
# Not run so far: there was no Julia where the examples were tested.
#
# Julia: two processes send tag messages to each other.
#
#     julia ping_pong.jl           the server, which prints its port
#     julia ping_pong.jl PORT      the client
#
# The server returns each message in callbacks. The client waits. The last answer is longer than
# its buffer, to show an error. The declarations are those of api.json that this program needs.
const lib = "libucxx_rs"
const Handle = Ptr{Cvoid}
const TRUNCATED, CONNECTION_RESET = Int32(-9), Int32(-25)
const ALWAYS_CALLBACK, WAIT = UInt64(1), UInt64(64)
const PING, PONG, ALL_BITS = UInt64(1), UInt64(2), typemax(UInt64)
const ROUNDS, LENGTH, MINUTE = 1000, 4096, UInt64(60_000_000_000)

Base.@kwdef struct OpParams
    struct_size::Csize_t = sizeof(OpParams)
    flags::UInt64 = 0
    memory_type::Int32 = 0
    reserved::UInt32 = 0
    timeout_ns::UInt64 = 0
    callback::Ptr{Cvoid} = C_NULL
    callback_arg::Ptr{Cvoid} = C_NULL
    notifier::Handle = C_NULL
    memory::Handle = C_NULL
    recv_info::Ptr{Cvoid} = C_NULL
    source::Handle = C_NULL
end

struct RecvInfo
    length::UInt64
    sender_tag::UInt64
    reserved::NTuple{2,UInt64}
end

Base.@kwdef struct EndpointParams
    struct_size::Csize_t = sizeof(EndpointParams)
    error_handling::Int32 = 0
    send_window_ops::UInt32 = 0
    send_window_bytes::UInt64 = 0
    send_queue_ops::UInt32 = 0
    send_queue_bytes::UInt64 = 0
    connect_timeout_ns::UInt64 = 0
    liveness_ns::UInt64 = 0
    local_address::Ptr{UInt8} = C_NULL
    on_open::Ptr{Cvoid} = C_NULL
    on_open_arg::Ptr{Cvoid} = C_NULL
    on_close::Ptr{Cvoid} = C_NULL
    on_close_arg::Ptr{Cvoid} = C_NULL
    notifier::Handle = C_NULL
end

Base.@kwdef struct ListenerParams
    struct_size::Csize_t = sizeof(ListenerParams)
    host::Ptr{UInt8} = C_NULL
    port::UInt16 = 0
    on_connect::Ptr{Cvoid} = C_NULL
    on_connect_arg::Ptr{Cvoid} = C_NULL
    notifier::Handle = C_NULL
end

struct UcxxError <: Exception
    status::Int32
    text::String
end
Base.showerror(io::IO, error::UcxxError) = print(io, error.text)

# Call it directly after the function: the text is about the last call of this thread.
function check(status::Int32)
    status >= 0 && return status
    throw(UcxxError(status, unsafe_string(@ccall lib.ucxx_error_text(status::Int32)::Cstring)))
end

function tag_send(endpoint, buffer, length, tag, params)
    check(@ccall lib.ucxx_tag_send(
        endpoint::Handle, buffer::Ptr{UInt8}, length::Csize_t, tag::UInt64,
        params::Ref{OpParams}, C_NULL::Ptr{Handle})::Int32)
end

function tag_recv(worker, buffer, length, tag, params)
    check(@ccall lib.ucxx_tag_recv(
        worker::Handle, buffer::Ptr{UInt8}, length::Csize_t, tag::UInt64, ALL_BITS::UInt64,
        params::Ref{OpParams}, C_NULL::Ptr{Handle})::Int32)
end

# The callbacks get its address. The collector does not move objects, and `serve` keeps this one.
mutable struct Server
    worker::Handle
    client::Handle
    buffer::Vector{UInt8}
    info::Base.RefValue{RecvInfo}
    returned::Int
    closed::Bool
    failure::Union{Nothing,Exception}
end

# An exception must not leave a callback. The loop throws it.
function caught(body, arg)
    server = unsafe_pointer_to_objref(arg)::Server
    try
        body(server)
    catch failure
        server.failure = something(server.failure, failure)
    end
    return nothing
end

on_connect(arg::Ptr{Cvoid}, request::Handle) = caught(arg) do server
    params = EndpointParams(
        on_close = @cfunction(on_close, Cvoid, (Ptr{Cvoid}, Handle, Int32)), on_close_arg = arg)
    endpoint = Ref{Handle}(C_NULL)
    check(@ccall lib.ucxx_endpoint_accept(
        request::Handle, params::Ref{EndpointParams}, endpoint::Ref{Handle})::Int32)
    @ccall lib.ucxx_conn_request_destroy(request::Handle)::Cvoid
    server.client = endpoint[]
    receive(server)
end

on_close(arg::Ptr{Cvoid}, _::Handle, status::Int32) = caught(arg) do server
    status == CONNECTION_RESET || error("not the normal end: $status")
    server.closed = true
end

function receive(server)
    tag_recv(server.worker, server.buffer, LENGTH, PING, OpParams(
        flags = ALWAYS_CALLBACK,
        callback = @cfunction(on_received, Cvoid, (Ptr{Cvoid}, Handle, Int32)),
        callback_arg = pointer_from_objref(server),
        recv_info = Base.unsafe_convert(Ptr{RecvInfo}, server.info),
        source = server.client))
end

on_received(arg::Ptr{Cvoid}, _::Handle, status::Int32) = caught(arg) do server
    check(status)
    tag_send(server.client, server.buffer, server.info[].length, PONG, OpParams(
        flags = ALWAYS_CALLBACK,
        callback = @cfunction(on_sent, Cvoid, (Ptr{Cvoid}, Handle, Int32)),
        callback_arg = arg))
end

on_sent(arg::Ptr{Cvoid}, _::Handle, status::Int32) = caught(arg) do server
    check(status)
    server.returned += 1
    server.returned <= ROUNDS && receive(server)
end

function serve(worker)
    server = Server(worker, C_NULL, zeros(UInt8, LENGTH), Ref(RecvInfo(0, 0, (0, 0))), 0, false,
        nothing)
    host = "127.0.0.1"
    listener = Ref{Handle}(C_NULL)
    GC.@preserve server host try
        params = ListenerParams(
            host = pointer(host),
            on_connect = @cfunction(on_connect, Cvoid, (Ptr{Cvoid}, Handle)),
            on_connect_arg = pointer_from_objref(server))
        check(@ccall lib.ucxx_listener_create(
            worker::Handle, params::Ref{ListenerParams}, listener::Ref{Handle})::Int32)
        println(Int(@ccall lib.ucxx_listener_port(listener[]::Handle)::UInt16))
        flush(stdout)
        while !server.closed
            check(@ccall lib.ucxx_worker_wait(worker::Handle, MINUTE::UInt64)::Int32)
            server.failure === nothing || throw(server.failure)
        end
        server.returned == ROUNDS + 1 || error("messages are missing")
        println("server: $(server.returned) messages returned")
    finally
        @ccall lib.ucxx_endpoint_destroy(server.client::Handle)::Cvoid
        @ccall lib.ucxx_listener_destroy(listener[]::Handle)::Cvoid
        # No callback runs any more after this.
        @ccall lib.ucxx_worker_destroy(worker::Handle)::Cvoid
    end
end

function ask(worker, port)
    server = Ref{Handle}(C_NULL)
    check(@ccall lib.ucxx_endpoint_connect(
        worker::Handle, "127.0.0.1"::Cstring, port::UInt16, C_NULL::Ptr{Cvoid},
        server::Ref{Handle})::Int32)
    wait = OpParams(flags = WAIT, timeout_ns = MINUTE)
    answer = zeros(UInt8, LENGTH)
    for _ in 1:ROUNDS
        sent = rand(UInt8, LENGTH)
        tag_send(server[], sent, LENGTH, PING, wait)
        tag_recv(worker, answer, LENGTH, PONG, wait)
        answer == sent || error("the answer is not what was sent")
    end
    println("client: $ROUNDS answers are right")

    tag_send(server[], answer, LENGTH, PING, wait)
    try
        tag_recv(worker, answer, 8, PONG, wait)
        error("expected a truncated message")
    catch failure
        failure isa UcxxError && failure.status == TRUNCATED || rethrow()
        println("client: the error that was expected: ", failure.text)
    end
    @ccall lib.ucxx_endpoint_destroy(server[]::Handle)::Cvoid
    @ccall lib.ucxx_worker_destroy(worker::Handle)::Cvoid
end

function main()
    context, worker = Ref{Handle}(C_NULL), Ref{Handle}(C_NULL)
    check(@ccall lib.ucxx_context_create(C_NULL::Ptr{Cvoid}, context::Ref{Handle})::Int32)
    check(@ccall lib.ucxx_worker_create(
        context[]::Handle, C_NULL::Ptr{Cvoid}, worker::Ref{Handle})::Int32)
    isempty(ARGS) ? serve(worker[]) : ask(worker[], parse(UInt16, ARGS[1]))
    @ccall lib.ucxx_context_destroy(context[]::Handle)::Cvoid
end

main()
