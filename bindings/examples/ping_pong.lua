-- SPDX-License-Identifier: BSD-3-Clause
-- Copyright (c) the ucxx_rs developers
--
-- LuaJIT: two processes send tag messages to each other. Its ffi reads the C header.
--
--     luajit ping_pong.lua           the server, which prints its port
--     luajit ping_pong.lua PORT      the client
--
-- UCXX_RS_HEADER is the path of ucxx_rs.h. The server returns each message in callbacks. The client
-- waits. The last answer is longer than its buffer, to show an error.
local ffi = require("ffi")
-- A compiled trace must not call a C function that calls back.
require("jit").off(true, true)

local header = assert(os.getenv("UCXX_RS_HEADER"), "UCXX_RS_HEADER is not set")
-- ffi knows the types of the two standard headers, and not the attribute.
local preprocessed =
  io.popen("sed '/#include </d' '" .. header .. "' | cc -E -P -x c -DUCXX_NODISCARD= -")
ffi.cdef(preprocessed:read("*a"))
preprocessed:close()
local C = ffi.load("ucxx_rs")

local PING, PONG, ALL_BITS = 1, 2, -1ULL
local ROUNDS, LENGTH = 1000, 4096
local MINUTE = 60000000000ULL

local function check(status)
  if status < 0 then error(ffi.string(C.ucxx_error_text(status)), 2) end
  return status
end

-- A struct with its size and the values of a table. Pointers in it do not keep what they lead to:
-- the caller does.
local function struct(name, values)
  local made = ffi.new(name)
  made.struct_size = ffi.sizeof(name)
  for key, value in pairs(values) do made[key] = value end
  return made
end

-- Calls a function that returns a handle through its last argument.
local function create(type, make, ...)
  local out = ffi.new(type .. " *[1]")
  local arguments = { ... }
  arguments[select("#", ...) + 1] = out
  check(make(unpack(arguments, 1, select("#", ...) + 1)))
  return out[0]
end

local context = create("ucxx_context_t", C.ucxx_context_create, nil)
local worker = create("ucxx_worker_t", C.ucxx_worker_create, context, nil)

local function serve()
  local buffer, info = ffi.new("char[?]", LENGTH), ffi.new("ucxx_recv_info_t")
  local client, returned, closed, failure = nil, 0, false, nil

  -- An error must not leave a callback, so it is kept for the loop below. The callback itself is
  -- kept in this table as long as the worker lives.
  local kept = {}
  local function callback(type, body)
    local pointer = ffi.cast(type, function(...)
      local good, message = pcall(body, ...)
      if not good then failure = failure or message end
    end)
    table.insert(kept, pointer)
    return pointer
  end

  local receive
  local on_sent = callback("ucxx_request_callback_t", function(_, _, status)
    check(status)
    returned = returned + 1
    if returned <= ROUNDS then receive() end
  end)
  local on_received = callback("ucxx_request_callback_t", function(_, _, status)
    check(status)
    local params =
      struct("ucxx_op_params_t", { flags = C.UCXX_FLAG_ALWAYS_CALLBACK, callback = on_sent })
    check(C.ucxx_tag_send(client, buffer, info.length, PONG, params, nil))
  end)
  function receive()
    local params = struct("ucxx_op_params_t", {
      flags = C.UCXX_FLAG_ALWAYS_CALLBACK, callback = on_received, recv_info = info,
      source = client,
    })
    check(C.ucxx_tag_recv(worker, buffer, LENGTH, PING, ALL_BITS, params, nil))
  end
  local on_close = callback("ucxx_endpoint_callback_t", function(_, _, status)
    assert(status == C.UCXX_ERR_CONNECTION_RESET, "not the normal end")
    closed = true
  end)
  local on_connect = callback("ucxx_listener_callback_t", function(_, conn_request)
    local params = struct("ucxx_endpoint_params_t", { on_close = on_close })
    client = create("ucxx_endpoint_t", C.ucxx_endpoint_accept, conn_request, params)
    C.ucxx_conn_request_destroy(conn_request)
    receive()
  end)

  local host = "127.0.0.1"
  local params = struct("ucxx_listener_params_t", { host = host, on_connect = on_connect })
  local listener = create("ucxx_listener_t", C.ucxx_listener_create, worker, params)
  print(C.ucxx_listener_port(listener))
  io.stdout:flush()
  while not closed do
    check(C.ucxx_worker_wait(worker, MINUTE))
    if failure then error(failure) end
  end
  assert(returned == ROUNDS + 1, "messages are missing")
  print("server: " .. returned .. " messages returned")
  C.ucxx_endpoint_destroy(client)
  C.ucxx_listener_destroy(listener)
end

local function ask(port)
  local server =
    create("ucxx_endpoint_t", C.ucxx_endpoint_connect, worker, "127.0.0.1", port, nil)
  local wait = struct("ucxx_op_params_t", { flags = C.UCXX_FLAG_WAIT, timeout_ns = MINUTE })
  local buffer = ffi.new("char[?]", LENGTH)
  for round = 1, ROUNDS do
    local text = ("message %d "):format(round):rep(100)
    check(C.ucxx_tag_send(server, text, #text, PING, wait, nil))
    ffi.fill(buffer, LENGTH)
    check(C.ucxx_tag_recv(worker, buffer, LENGTH, PONG, ALL_BITS, wait, nil))
    assert(ffi.string(buffer) == text, "the answer is not what was sent")
  end
  print("client: " .. ROUNDS .. " answers are right")

  check(C.ucxx_tag_send(server, buffer, LENGTH, PING, wait, nil))
  local good, message = pcall(function()
    check(C.ucxx_tag_recv(worker, buffer, 8, PONG, ALL_BITS, wait, nil))
  end)
  assert(not good and message:find("UCXX_ERR_MESSAGE_TRUNCATED"), "expected a truncated message")
  print("client: the error that was expected: " .. message)
  C.ucxx_endpoint_destroy(server)
end

if arg[1] then ask(tonumber(arg[1])) else serve() end
C.ucxx_worker_destroy(worker)
C.ucxx_context_destroy(context)
