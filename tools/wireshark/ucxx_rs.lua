-- SPDX-License-Identifier: BSD-3-Clause
-- Copyright (c) the ucxx_rs developers
--
-- A dissector for Wireshark and tshark: the messages of ucxx_rs in UCX's TCP connections, and the
-- meeting of a group over TCP. docs/wireshark.md explains how to use it, docs/wire-formats.md has
-- the formats.
--
-- Works with Wireshark 3.6 and later (Lua 5.2 to 5.4), and reads UCX 1.13 to 1.22 on little-endian
-- machines. UCX's own formats are in src/uct/tcp/tcp.h and src/ucp of its sources.
--
-- Captured bytes may be anything: every access is preceded by a check of the bounds.

-- ---------------------------------------------------------------- numbers
-- A line "--@ FILE" names the Rust file with the same constants, "--@ FILE NAME" an enumeration. A
-- comment behind an entry is its name there, if that differs. tests/wireshark compares them.

--@ src/engine/wire/header.rs
local H = { AM_ID = 1, VERSION = 1, HEADER = 24, PEER_FAILURE = 1, ANSWER = 2, REPLY = 4,
  WAITING = 8, ATOMIC = 16, HUB = 32, MEMORY = 8 }
--@ src/engine/wire/compact_header.rs
local C = { MESSAGE = 16, QUESTION = 20, ANSWER = 16, SHORT = 0x80 }
--@ src/engine/wire/address.rs
local A = { VERSION = 1, TRAILER = 80, MAGIC = "ucxxrsAd" }
--@ src/engine/wire/bootstrap.rs
local B = { MAGIC = "ucxxrsBs", VERSION = 1, SECRET_SIZE = 32, LONGEST_PART = 16777216,
  LONGEST_TEXT = 1024 }
--@ src/engine/wire/group.rs
local G = { VERSION = 1, LENGTH = 40 }
--@ src/engine/wire/window.rs
local W = { VERSION = 1, LENGTH = 64, PIECE = 16 }
--@ src/engine/wire/hub_stream.rs
local S = { LENGTH = 32, METADATA = 64 }
--@ src/engine/wire/multi_table.rs
local M = { PREFIX = 8, ENTRY = 8 }
--@ src/engine/wire/ucxx_multi.rs
local X = { FRAMES = 100, HEADER = 1209 }
--@ src/engine/wire/ucxx_am.rs
local Q = { UCXX_ID = 0, OWNER = 64 }
--@ src/engine/group/service.rs
local SERVICE = { AM_GROUP = 1, AM_EXTENSION = 2 }

--@ src/engine/wire/header.rs Kind
local KINDS = {
  [1] = "hello", [2] = "welcome", [3] = "refusal", [4] = "bye", [5] = "bye_ack", [6] = "ping",
  [7] = "pong", [8] = "message", [9] = "grant",
  [10] = "fetch", -- Ask
  [11] = "answer", [12] = "multi", [13] = "fast_box",
}
local MESSAGE, GRANT, FETCH, ANSWER, MULTI = 8, 9, 10, 11, 12
--@ src/engine/wire/group.rs What
local GROUP_KINDS = { [0] = "barrier", [1] = "allgather", [2] = "broadcast", [3] = "notice",
  [4] = "leave", [5] = "left" }
--@ src/engine/wire/hub_stream.rs Tells
local HUB_KINDS = { [1] = "open", [2] = "chunk", [3] = "credit", [4] = "end", [5] = "close" }
--@ src/engine/wire/window.rs What
local WINDOW_KINDS = {
  [0] = "put", [1] = "get", [2] = "accumulate", [3] = "fetch", [4] = "swap", [5] = "flush",
  [6] = "lock", [7] = "give_up", [8] = "took", [9] = "unlock", [10] = "posted", [11] = "completed",
  [12] = "round", [13] = "ended", [14] = "answer",
}
--@ src/engine/wire/element_type.rs Reduce
local REDUCTIONS = {
  [0] = "sum", [1] = "prod", [2] = "min", [3] = "max", [4] = "land", [5] = "lor", [6] = "lxor",
  [7] = "band", [8] = "bor", [9] = "bxor", [10] = "replace", [11] = "no_op", [12] = "minloc",
  [13] = "maxloc",
}
--@ src/engine/wire/element_type.rs ElementType
local ELEMENT_TYPES = {
  [0] = "byte", [1] = "int8", [2] = "uint8", [3] = "int16", [4] = "uint16", [5] = "int32",
  [6] = "uint32", [7] = "int64", [8] = "uint64", [9] = "float", [10] = "double",
  [11] = "complex_float", [12] = "complex_double", [13] = "bool", [14] = "float_int",
  [15] = "double_int", [16] = "int16_int", [17] = "int32_int", [18] = "int64_int",
  [19] = "long_double", [20] = "complex_long_double", [21] = "long_double_int",
}
--@ src/engine/wire/sync_constants.rs LockType
local LOCKS = { [1] = "shared", [2] = "exclusive" }
--@ src/engine/wire/bootstrap.rs Kind
local FRAMES = { [1] = "begin", [2] = "part", [3] = "all", [4] = "failure", [5] = "leave" }
local VERDICTS = { [0] = "welcome", [1] = "another secret", [2] = "rank taken",
  [3] = "another size", [4] = "no such rank" }
local ATOMICS = { [0] = "add", [1] = "and", [2] = "or", [3] = "xor", [4] = "swap",
  [5] = "compare_and_swap" }
--@ src/engine/ucx/memory_type.rs
local MEMORY_TYPES = { [0] = "auto", [1] = "host", [2] = "cuda", [3] = "cuda_managed", [4] = "rocm",
  [16] = "cuda_pinned", [127] = "dummy" }
local UCX_MEMORY_TYPES = { [0] = "host", [1] = "cuda", [2] = "cuda_managed", [3] = "rocm",
  [4] = "rocm_managed" }
--@ include/ucxx_rs.h UCXX_ERR_
local STATUS = {
  [0] = "OK", [-1] = "NO_MESSAGE", [-2] = "NO_RESOURCE", [-3] = "IO_ERROR", [-4] = "NO_MEMORY",
  [-5] = "INVALID_PARAM", [-6] = "UNREACHABLE", [-7] = "INVALID_ADDR", [-8] = "NOT_IMPLEMENTED",
  [-9] = "MESSAGE_TRUNCATED", [-11] = "BUFFER_TOO_SMALL", [-12] = "NO_ELEM", [-14] = "NO_DEVICE",
  [-15] = "BUSY", [-16] = "CANCELED", [-18] = "ALREADY_EXISTS", [-19] = "OUT_OF_RANGE",
  [-20] = "TIMED_OUT", [-21] = "EXCEEDS_LIMIT", [-22] = "UNSUPPORTED", [-23] = "REJECTED",
  [-24] = "NOT_CONNECTED", [-25] = "CONNECTION_RESET", [-80] = "ENDPOINT_TIMEOUT",
  [-201] = "RMA_SYNC", [-202] = "RMA_RANGE", [-203] = "RMA_ATTACH", [-204] = "RMA_FLAVOR",
  [-205] = "RMA_OP", [-206] = "RMA_POISONED", [-207] = "RMA_RANK", [-208] = "RMA_TYPE",
  [-209] = "RMA_LOCK_TYPE", [-210] = "PEER_FAILED", [-211] = "RMA_ASSERT", [-220] = "CLOSED",
  [-221] = "STARVED", [-230] = "FORKED", [-299] = "PANIC", [-1000] = "APPLICATION",
}
local TRUNCATED = -9

-- UCX's.
local UCX_MAGIC = "78563412bebafeca" -- 0xCAFEBABE12345678
local NEWEST_UCX = { 1, 22 }
local SEGMENT = 5 -- length of uct_tcp_am_hdr_t
local AM_SINGLE, AM_FIRST, AM_MIDDLE, AM_REPLY, AM_FIRST_PSN, AM_MIDDLE_PSN = 23, 24, 25, 26, 27, 28
local RTS, STREAM, TCP_CM, TCP_PUT = 9, 15, 32, 33
local WIREUP_TYPES = { [0] = "pre_request", [1] = "request", [2] = "reply", [3] = "ack",
  [4] = "ep_check", [5] = "ep_removed" }
local CM_EVENTS = { [1] = "request", [2] = "acknowledgement", [3] = "acknowledgement with request",
  [4] = "fin" }
local OPCODES = { [0] = "tag", [1] = "active message", [2] = "remote memory" }

-- ---------------------------------------------------------------- fields

local ucxx = Proto("ucxx_rs", "ucxx_rs over UCX TCP")
local fields, by_name = {}, {}

local function field(name, make, ...)
  if by_name[name] == nil then
    by_name[name] = make("ucxx_rs." .. name, ...)
    fields[#fields + 1] = by_name[name]
  end
  return by_name[name]
end

local UINT = { [1] = ProtoField.uint8, [2] = ProtoField.uint16, [4] = ProtoField.uint32,
  [8] = ProtoField.uint64 }
-- A layout is a list of { name, offset, bytes, title, values or "hex" or "signed" }. Its fields are
-- called ucxx_rs.PREFIX.name.
local function layout(prefix, list)
  for _, entry in ipairs(list) do
    local name, size, title, extra = prefix .. "." .. entry[1], entry[3], entry[4], entry[5]
    if extra == "signed" then
      entry.field = field(name, ProtoField.int32, title, base.DEC, STATUS)
    elseif extra == "hex" then
      entry.field = field(name, UINT[size], title, base.HEX)
    elseif UINT[size] then
      entry.field = field(name, UINT[size], title, base.DEC, extra)
    else
      entry.field = field(name, ProtoField.bytes, title)
    end
  end
  list.length = 0
  for _, entry in ipairs(list) do list.length = math.max(list.length, entry[2] + entry[3]) end
  return list
end

-- Where a layout belongs to a Rust file, its names and offsets are those of decode() there.
--@ src/engine/wire/header.rs layout
local HEADER = layout("header", {
  { "version", 0, 1, "Version" }, { "kind", 1, 1, "Kind", KINDS }, { "id", 2, 2, "Id" },
  { "user_header", 4, 2, "Length of the user's header" }, { "flags", 6, 2, "Flags", "hex" },
  { "connection", 8, 4, "Connection (the receiver's number)" },
  { "sequence", 12, 4, "Place in the order" }, { "messages", 16, 2, "Taken in: messages" },
  { "units", 18, 2, "Taken in: units" }, { "sender", 20, 4, "The sender's number, or the price" },
})
local SHORT_MESSAGE = layout("header", {
  { "user_header", 1, 1, "Length of the user's header" }, { "id", 2, 2, "Id" },
  { "connection", 4, 4, "Connection" }, { "sequence", 8, 2, "Place in the order" },
  { "flags", 10, 2, "Flags" }, { "messages", 12, 2, "" }, { "units", 14, 2, "" },
})
local SHORT_QUESTION = layout("header", {
  { "user_header", 1, 1, "" }, { "id", 2, 2, "" }, { "connection", 4, 4, "" },
  { "sequence", 8, 2, "" }, { "room", 10, 2, "Room for the answer" },
})
local SHORT_ANSWER = layout("header", {
  { "memory", 1, 1, "Memory type", MEMORY_TYPES }, { "connection", 4, 4, "" },
  { "messages", 12, 2, "" }, { "units", 14, 2, "" },
})
--@ src/engine/wire/group.rs layout
local GROUP = layout("group", {
  { "version", 0, 2, "Version" }, { "kind_number", 2, 1, "Kind" },
  { "step", 4, 4, "Round, or root" }, { "group", 8, 8, "Group", "hex" },
  { "sequence", 16, 4, "Number of the collective" }, { "from", 20, 4, "Sender's rank" },
  { "length", 24, 8, "Length of the call" }, { "blamed", 32, 4, "Rank that is the cause" },
  { "status", 36, 4, "Status", "signed" },
})
--@ src/engine/wire/hub_stream.rs layout
local STREAM_HEADER = layout("hub", {
  { "kind_number", 0, 1, "Kind" }, { "mark", 1, 1, "Mark" }, { "device", 2, 1, "On a device" },
  { "window", 4, 4, "Window" }, { "to", 8, 4, "Receiver's end" }, { "from", 12, 4, "Sender's end" },
  { "count", 16, 8, "Number, or place" }, { "last", 24, 8, "Size, credit or status" },
})
--@ src/engine/wire/window.rs layout
local WINDOW = layout("window", {
  { "version", 0, 2, "Version" }, { "kind_number", 2, 1, "Kind" },
  { "op", 3, 1, "Operation", REDUCTIONS },
  { "kind_of_element", 4, 1, "Element type", ELEMENT_TYPES }, { "how", 5, 1, "Lock", LOCKS },
  { "has_extent", 6, 1, "Extent" }, { "from", 8, 4, "Sender's rank" },
  { "pieces", 12, 4, "Pieces" }, { "window", 16, 8, "Window", "hex" },
  { "token", 24, 8, "Token", "hex" }, { "at", 32, 8, "At (offset, address or count)" },
  { "bytes", 40, 8, "Bytes" }, { "offset", 48, 8, "Offset in the request" },
  { "status", 56, 4, "Status", "signed" }, { "number", 60, 4, "Round, rank or took" },
})
local ATOMIC = layout("atomic", {
  { "operation", 0, 1, "Operation", ATOMICS }, { "size", 1, 1, "Size" },
  { "memory", 8, 8, "Number of the memory" }, { "offset", 16, 8, "Offset" },
  { "operand", 24, 8, "Operand" }, { "expected", 32, 8, "Expected" },
})
local FAST_BOX = layout("fast_box", {
  { "pid", 0, 4, "Process" }, { "fd", 4, 4, "Descriptor" }, { "control", 8, 8, "Control bytes" },
  { "data", 16, 8, "Data bytes" }, { "nonce", 24, 16, "Nonce" },
})
local TRAILER = layout("address", {
  { "ucp_length", 0, 4, "Length of UCP's address" }, { "ucx_major", 4, 2, "UCX, major" },
  { "ucx_minor", 6, 2, "UCX, minor" }, { "ucx_patch", 8, 2, "UCX, patch" },
  { "boot_id", 12, 16, "Boot id" }, { "pid_namespace", 28, 8, "Pid namespace" },
  { "start_time", 36, 8, "Start time" }, { "worker", 44, 8, "Worker" }, { "pid", 52, 4, "Process" },
  { "checksum", 64, 4, "CRC-32", "hex" }, { "version", 68, 2, "Version" },
  { "length", 70, 2, "Length of the trailer" }, { "magic", 72, 8, "Magic", "hex" },
})
local CHALLENGE = layout("bootstrap", {
  { "version", 8, 2, "Version" }, { "nonce", 16, 32, "Nonce" },
})
local CLAIM = layout("bootstrap", {
  { "version", 8, 2, "Version" }, { "rank", 16, 4, "Rank" }, { "size", 20, 4, "Size" },
  { "nonce", 24, 32, "Nonce" }, { "proof", 56, 32, "Proof" },
})
local VERDICT = layout("bootstrap", {
  { "verdict", 8, 4, "Verdict", VERDICTS }, { "size", 12, 4, "Size" }, { "proof", 16, 32, "Proof" },
})

-- UCP's messages, by their id: what they are called, and what precedes their data.
local REQUEST = { { "ep_id", 8 }, { "req_id", 8 } }
local UCP = {
  [1] = { "wireup", { "wireup_type", 1 }, { "err_mode", 1 }, { "conn_sn", 2 }, { "src_ep_id", 8 },
    { "dst_ep_id", 8 } },
  [2] = { "eager_only", { "tag", 8 } },
  [3] = { "eager_first", { "tag", 8 }, { "total_length", 8 }, { "msg_id", 8 } },
  [4] = { "eager_middle", { "msg_id", 8 }, { "offset", 8 } },
  [6] = { "eager_sync_only", { "tag", 8 }, REQUEST[1], REQUEST[2] },
  [7] = { "eager_sync_first", { "tag", 8 }, { "total_length", 8 }, { "msg_id", 8 }, REQUEST[1],
    REQUEST[2] },
  [8] = { "eager_sync_ack", { "req_id", 8 }, { "status", 1 } },
  [RTS] = { "rndv_rts", { "hdr", 8 }, REQUEST[1], REQUEST[2], { "address", 8 }, { "size", 8 },
    { "opcode", 1 } },
  [10] = { "rndv_ats", { "req_id", 8 }, { "status", 1 } },
  [11] = { "rndv_rtr", { "sreq_id", 8 }, { "rreq_id", 8 }, { "address", 8 }, { "size", 8 },
    { "offset", 8 } },
  [12] = { "rndv_data", { "req_id", 8 }, { "offset", 8 } },
  [14] = { "offload_sync_ack", { "tag", 8 }, { "ep_id", 8 } },
  [STREAM] = { "stream_data", { "ep_id", 8 } },
  [16] = { "rndv_atp", { "req_id", 8 }, { "status", 1 } },
  [17] = { "put", { "address", 8 }, { "ep_id", 8 }, { "mem_type", 4 } },
  [18] = { "get_req", { "address", 8 }, { "size", 8 }, REQUEST[1], REQUEST[2], { "mem_type", 4 } },
  [19] = { "get_rep", { "req_id", 8 }, { "offset", 8 } },
  [20] = { "atomic_req", { "address", 8 }, REQUEST[1], REQUEST[2], { "atomic_size", 1 },
    { "atomic_opcode", 1 } },
  [21] = { "atomic_rep", { "req_id", 8 } },
  [22] = { "cmpl", { "ep_id", 8 } },
  [AM_SINGLE] = { "am_single", { "am_id", 2 }, { "am_flags", 2 }, { "header_length", 4 } },
  [AM_FIRST] = { "am_first", { "am_id", 2 }, { "am_flags", 2 }, { "header_length", 4 } },
  [AM_MIDDLE] = { "am_middle", { "offset", 8 } },
  [AM_REPLY] = { "am_single_reply", { "am_id", 2 }, { "am_flags", 2 }, { "header_length", 4 } },
  [AM_FIRST_PSN] = { "am_first_psn", { "am_id", 2 }, { "am_flags", 2 }, { "header_length", 4 } },
  [AM_MIDDLE_PSN] = { "am_middle_psn", { "offset", 8 } },
  [TCP_CM] = { "tcp_cm", { "cm_event", 4 } },
  [TCP_PUT] = { "tcp_put", { "address", 8 }, { "put_length", 8 }, { "put_sn", 4 } },
  [34] = { "tcp_put_ack", { "put_sn", 4 } },
  [35] = { "tcp_keepalive" },
}
-- Bytes at the end of a message, behind the user's header.
local FOOTER = { [AM_MIDDLE] = 16, [AM_MIDDLE_PSN] = 16, [AM_FIRST] = 24, [AM_FIRST_PSN] = 24,
  [AM_REPLY] = 8 }
local FOOTER_FIELDS = { { "msg_id", 8 }, { "ep_id", 8 }, { "total_length", 8 } }
-- Messages of UCP that are a user's message, or its first piece; library messages have kinds of
-- their own.
local USER_KINDS = {
  [2] = "tag", [3] = "tag", [6] = "tag", [7] = "tag", [STREAM] = "stream", [17] = "put",
  [TCP_PUT] = "put", [18] = "get", [20] = "atomic",
}
local UCP_VALUES = {
  wireup_type = WIREUP_TYPES, mem_type = UCX_MEMORY_TYPES, cm_event = CM_EVENTS, opcode = OPCODES,
}
local SEGMENT_NAMES = {}
for id, message in pairs(UCP) do
  SEGMENT_NAMES[id] = message[1]
  message.length = 0
  for at = 2, #message do
    local name, size = message[at][1], message[at][2]
    local counts = size < 8 or name == "size" or name == "offset" or name:find("_length$")
    if name ~= "tag" then
      local shown = counts and base.DEC or base.HEX
      field("ucp." .. name, UINT[size], "UCP " .. name, shown, UCP_VALUES[name])
    end
    message.length = message.length + size
  end
end

local f = {
  kind = field("kind", ProtoField.string, "Kind"),
  tag = field("tag", ProtoField.uint64, "Tag", base.HEX),
  length = field("length", ProtoField.uint64, "Length of the data", base.DEC),
  id = field("id", ProtoField.uint16, "The user's id", base.DEC),
  user_header = field("user_header", ProtoField.bytes, "The user's header"),
  data = field("data", ProtoField.bytes, "Data"),
  compact = field("compact", ProtoField.bool, "Compact header"),
  segment_id = field("uct.am_id", ProtoField.uint8, "UCX message", base.DEC, SEGMENT_NAMES),
  segment_length = field("uct.length", ProtoField.uint32, "Length", base.DEC),
  magic = field("uct.magic", ProtoField.uint64, "UCX's magic number", base.HEX),
  skipped = field("skipped", ProtoField.bytes, "Rest of an earlier message"),
  unsynchronised = field("unsynchronised", ProtoField.bytes, "Not at the beginning of a message"),
  number = field("fetch.number", ProtoField.uint64, "Number of the question", base.DEC),
  room = field("fetch.room", ProtoField.uint64, "Room for the answer", base.DEC),
  full_length = field("fetch.full_length", ProtoField.uint64, "Full length of the answer",
    base.DEC),
  answer_in = field("fetch.answer_in", ProtoField.framenum, "Answer in", base.NONE,
    frametype.RESPONSE),
  question_in = field("fetch.question_in", ProtoField.framenum, "Question in", base.NONE,
    frametype.REQUEST),
  time = field("fetch.time", ProtoField.relative_time, "Time since the question"),
  status = field("status", ProtoField.int32, "Status", base.DEC, STATUS),
  price = field("price", ProtoField.uint32, "Price in units", base.DEC),
  endpoint = field("endpoint", ProtoField.uint32,
    "The sender's endpoint, of those to this receiver", base.DEC),
  memory = field("header.memory", ProtoField.uint8, "Memory type", base.DEC, MEMORY_TYPES),
  group_kind = field("group.kind", ProtoField.string, "Kind"),
  hub_kind = field("hub.kind", ProtoField.string, "Kind"),
  window_kind = field("window.kind", ProtoField.string, "Kind"),
  metadata = field("hub.metadata", ProtoField.bytes, "Metadata of the chunk"),
  frames = field("multi.frames", ProtoField.uint32, "Frames", base.DEC),
  in_data = field("multi.table_in_data", ProtoField.uint32, "Table at the beginning of the data",
    base.DEC),
  frame_length = field("multi.frame_length", ProtoField.uint64, "Length of a frame", base.DEC),
  frame_memory = field("multi.memory_type", ProtoField.uint8, "Memory type", base.DEC,
    MEMORY_TYPES),
  frame_device = field("multi.device", ProtoField.uint32, "CUDA memory", base.DEC),
  more = field("multi.more", ProtoField.uint8, "Another header follows", base.DEC),
  queue_memory = field("queue.memory_type", ProtoField.uint32, "UCX's memory type", base.DEC,
    UCX_MEMORY_TYPES),
  queue_named = field("queue.named", ProtoField.uint8, "A callback is named", base.DEC),
  queue_owner = field("queue.owner", ProtoField.string, "Owner of the callback"),
  queue_callback = field("queue.callback", ProtoField.uint64, "Number of the callback", base.DEC),
  queue_refuse = field("queue.refuse", ProtoField.uint8, "Refuse without such memory", base.DEC),
  queue_header = field("queue.user_header", ProtoField.uint64, "Length of the user's header",
    base.DEC),
  ucx = field("address.ucx", ProtoField.string, "UCX"),
  boot = field("bootstrap.kind", ProtoField.string, "Kind"),
  boot_length = field("bootstrap.length", ProtoField.uint64, "Length of the payload", base.DEC),
  boot_payload = field("bootstrap.payload", ProtoField.bytes, "Payload"),
  boot_seal = field("bootstrap.seal", ProtoField.bytes, "Seal"),
  boot_members = field("bootstrap.members", ProtoField.uint32, "Members", base.DEC),
  boot_part = field("bootstrap.part", ProtoField.uint32, "Length of a part", base.DEC),
  boot_text = field("bootstrap.text", ProtoField.string, "Text"),
  cm_length = field("sockcm.length", ProtoField.uint64, "Length of the private data", base.DEC),
  cm_status = field("sockcm.status", ProtoField.int8, "Status", base.DEC),
}
local FLAG_BITS = {}
for _, bit in ipairs({
  { "peer_failure", H.PEER_FAILURE, "Failure detection" },
  { "answer", H.ANSWER, "Wants an answer" },
  { "reply", H.REPLY, "May be answered" }, { "waiting", H.WAITING, "Answer must be a rendezvous" },
  { "atomic", H.ATOMIC, "Atomic operation" }, { "hub", H.HUB, "Stream between hubs" },
}) do
  FLAG_BITS[#FLAG_BITS + 1] = field("flag." .. bit[1], ProtoField.bool, bit[3], 16, nil, bit[2])
end
FLAG_BITS[#FLAG_BITS + 1] = field("flag.memory", ProtoField.uint16, "Memory type", base.DEC,
  MEMORY_TYPES, 127 * 2 ^ H.MEMORY)
ucxx.fields = fields

local e = {
  malformed = ProtoExpert.new("ucxx_rs.malformed", "Malformed", expert.group.MALFORMED,
    expert.severity.ERROR),
  version = ProtoExpert.new("ucxx_rs.other_version", "Another version of the library",
    expert.group.PROTOCOL, expert.severity.WARN),
  newer = ProtoExpert.new("ucxx_rs.newer_ucx", "A newer UCX than this dissector knows",
    expert.group.PROTOCOL, expert.severity.NOTE),
  lost = ProtoExpert.new("ucxx_rs.lost", "Lost: not at the beginning of a message",
    expert.group.SEQUENCE, expert.severity.NOTE),
  cut = ProtoExpert.new("ucxx_rs.cut", "Not captured completely", expert.group.UNDECODED,
    expert.severity.NOTE),
  status = ProtoExpert.new("ucxx_rs.failed", "A status that is an error",
    expert.group.RESPONSE_CODE, expert.severity.NOTE),
}
ucxx.experts = { e.malformed, e.version, e.newer, e.lost, e.cut, e.status }

ucxx.prefs.ports = Pref.range("TCP ports", "",
  "Ports that are UCX's although a capture does not show the beginning of their connections", 65535)
ucxx.prefs.longest = Pref.uint("Longest message", 16777216,
  "A longer message of UCX's is taken for a loss of synchronisation")
ucxx.prefs.service = Pref.bool("Groups and windows", true,
  "Take messages with the ids 1 and 2 for those of groups and windows, if they have their form")

-- ---------------------------------------------------------------- access to bytes
-- `stop` is where something ends according to its length. The captured bytes may end before.

local function has(tvb, at, bytes) return at >= 0 and bytes >= 0 and at + bytes <= tvb:len() end
local function number(tvb, at, bytes)
  if bytes == 8 then return tvb(at, 8):le_uint64():tonumber() end
  return tvb(at, bytes):le_uint()
end
local function bit_set(value, bit) return math.floor(value / bit) % 2 == 1 end
local function text(value) return string.format("%.0f", value) end
-- The captured part of these bytes, or nil.
local function part(tvb, at, stop)
  local bytes = math.min(stop, tvb:len()) - at
  if bytes > 0 then return tvb(at, bytes) end
end

-- Adds the fields of a layout, and returns their values by name. If bytes are missing it notes
-- that, and returns nil.
local function show(list, tvb, at, stop, tree)
  if at + list.length > stop then
    tree:add_proto_expert_info(e.malformed, "A header that is too short")
    return nil
  end
  if not has(tvb, at, list.length) then
    tree:add_proto_expert_info(e.cut)
    return nil
  end
  local values = {}
  for _, entry in ipairs(list) do
    local name, place, bytes = entry[1], at + entry[2], entry[3]
    if UINT[bytes] then
      values[name] = entry[5] == "signed" and tvb(place, bytes):le_int()
        or number(tvb, place, bytes)
    end
    tree:add_le(entry.field, tvb(place, bytes))
  end
  return values
end

local function malformed(tree, why)
  tree:add_proto_expert_info(e.malformed, "Malformed: " .. why)
end

-- What the packet's Info column says of a message.
local function note(c, ...) c.notes[#c.notes + 1] = string.format(...) end
local function kind(c, tree, range, name, length)
  tree:add(f.kind, range, name):set_generated()
  if length then
    local upper = math.floor(length / 4294967296) % 4294967296
    tree:add(f.length, range, UInt64.new(length % 4294967296, upper)):set_generated()
  end
end

-- ---------------------------------------------------------------- the library's messages

-- A worker's address with its trailer, at the end of these bytes.
local function address(tvb, at, stop, tree)
  local place = stop - A.TRAILER
  if place < at then return malformed(tree, "an address without a trailer") end
  if not has(tvb, place, A.TRAILER) then return tree:add_proto_expert_info(e.cut) end
  if tvb(stop - 8, 8):string() ~= A.MAGIC then
    return malformed(tree, "an address without a trailer")
  end
  local sub = tree:add(ucxx, tvb(at, stop - at), "Worker address")
  local t = show(TRAILER, tvb, place, stop, sub)
  if t.version ~= A.VERSION or t.length ~= A.TRAILER then
    return sub:add_proto_expert_info(e.version, "A trailer of another version")
  end
  local release = string.format("%.0f.%.0f.%.0f", t.ucx_major, t.ucx_minor, t.ucx_patch)
  sub:add(f.ucx, tvb(place + 4, 6), release):set_generated()
  local worker = tostring(tvb(place + 44, 8):le_uint64())
  sub:append_text(string.format(", process %.0f, worker %s", t.pid, worker))
  if t.ucp_length ~= place - at then malformed(sub, "the length of UCP's address") end
  if t.ucx_major > NEWEST_UCX[1]
    or (t.ucx_major == NEWEST_UCX[1] and t.ucx_minor > NEWEST_UCX[2]) then
    sub:add_proto_expert_info(e.newer)
  end
end

-- The links between questions and answers. A connection of the library uses one TCP connection in
-- both directions; questions are numbered by their sender.
local function asked(c, tree, range, key_of_number, shown)
  tree:add(f.number, range, shown)
  local key = c.stream .. (c.forward and ">" or "<") .. key_of_number
  local question = c.questions[key]
  if not c.pinfo.visited and question == nil then
    question = { frame = c.pinfo.number, time = c.pinfo.rel_ts }
    c.questions[key] = question
  end
  if question and question.answer then tree:add(f.answer_in, question.answer):set_generated() end
end
local function answered(c, tree, range, key_of_number, shown)
  tree:add(f.number, range, shown)
  local question = c.questions[c.stream .. (c.forward and "<" or ">") .. key_of_number]
  if question == nil then return end
  if question.answer == nil then
    question.answer, question.after = c.pinfo.number, c.pinfo.rel_ts - question.time
  end
  tree:add(f.question_in, question.frame):set_generated()
  local nanoseconds = math.floor(question.after * 1e9 + 0.5)
  local seconds = math.floor(nanoseconds / 1e9)
  tree:add(f.time, NSTime.new(seconds, nanoseconds - seconds * 1e9)):set_generated()
end
local function number_text(upper, lower) return text(upper * 4294967296 + lower) end
local function u64(upper, lower) return UInt64.new(lower, upper) end

local function atomic(tvb, at, stop, tree)
  local sub = tree:add(ucxx, part(tvb, at, stop) or tvb(0, 0), "Atomic operation")
  if stop - at ~= ATOMIC.length then
    return malformed(sub, "an atomic operation of the wrong length")
  end
  local a = show(ATOMIC, tvb, at, stop, sub)
  if a and (ATOMICS[a.operation] == nil or (a.size ~= 4 and a.size ~= 8)) then
    malformed(sub, "no such operation")
  end
end

local function hub(tvb, at, stop, tree)
  local sub = tree:add(ucxx, part(tvb, at, stop) or tvb(0, 0), "Stream between hubs")
  local h = show(STREAM_HEADER, tvb, at, stop, sub)
  if h == nil then return "hub" end
  local name = HUB_KINDS[h.kind_number]
  if name == nil then
    malformed(sub, "a hub's message of an unknown kind")
    return "hub"
  end
  sub:add(f.hub_kind, tvb(at, 1), name)
  sub:append_text(": " .. name)
  local open, chunk, close = name == "open", name == "chunk", name == "close"
  local status = close and tvb(at + 24, 4):le_int() or 0
  if close then sub:add_le(f.status, tvb(at + 24, 4)) end
  local expected = S.LENGTH + (chunk and S.METADATA or 0)
  if stop - at ~= expected or h.device > (open and 1 or 0)
    or h.mark > ((open or name == "end") and 1 or 0) or tvb(at + 3, 1):uint() ~= 0
    or open ~= (h.window > 0) or h.from == 0 or (h.to == 0 and not (open or close))
    or (open and h.last == 0) or (name == "credit" and h.last < h.count)
    or ((chunk or name == "end") and h.last ~= 0)
    or (close and (h.last > 4294967295 or status > 0)) then
    malformed(sub, "a hub's message whose fields contradict each other")
  end
  if chunk and has(tvb, at + S.LENGTH, S.METADATA) then
    sub:add(f.metadata, tvb(at + S.LENGTH, S.METADATA))
  end
  return "hub", "hub " .. name
end

-- Does a message with this id and header have the form of a group's or a window's?
local function group(tvb, at, stop, tree)
  if stop - at ~= G.LENGTH or not has(tvb, at, G.LENGTH) or number(tvb, at, 2) ~= G.VERSION then
    return
  end
  local name = GROUP_KINDS[number(tvb, at + 2, 1)]
  if name == nil or number(tvb, at + 3, 1) ~= 0 then return end
  local sub = tree:add(ucxx, tvb(at, G.LENGTH), "Group: " .. name)
  sub:add(f.group_kind, tvb(at + 2, 1), name)
  local g = show(GROUP, tvb, at, stop, sub)
  if (name == "notice") ~= (g.status < 0) then
    malformed(sub, "a group's message whose fields contradict each other")
  end
  return "group", "group " .. name
end
local function window(tvb, at, stop, tree)
  if stop - at ~= W.LENGTH or not has(tvb, at, W.LENGTH) or number(tvb, at, 2) ~= W.VERSION then
    return
  end
  local name = WINDOW_KINDS[number(tvb, at + 2, 1)]
  if name == nil or number(tvb, at + 7, 1) ~= 0 then return end
  local sub = tree:add(ucxx, tvb(at, W.LENGTH), "Window: " .. name)
  sub:add(f.window_kind, tvb(at + 2, 1), name)
  local w = show(WINDOW, tvb, at, stop, sub)
  if w.status > 0 or w.has_extent > 1 or REDUCTIONS[w.op] == nil
    or ELEMENT_TYPES[w.kind_of_element] == nil
    or LOCKS[w.how] == nil or ((w.pieces > 0 or w.has_extent == 1) and w.kind_number > 4) then
    malformed(sub, "a window's message whose fields contradict each other")
  end
  return "window", "window " .. name
end

-- The frames of a table, of which `size` bytes each are read by `of(place)`.
local MOST_FRAMES = 4096
local function frames(tree, count, size, tvb, at, of)
  for index = 0, math.min(count, MOST_FRAMES) - 1 do
    local place = at + index * size
    if not has(tvb, place, size) then return tree:add_proto_expert_info(e.cut) end
    of(place)
  end
  if count > MOST_FRAMES then
    tree:append_text(string.format(", of which %d are shown", MOST_FRAMES))
  end
end

-- Returns where the user's header begins.
local function multi(tvb, at, stop, data_at, data_length, tree)
  if stop - at < M.PREFIX then
    malformed(tree, "a multi-buffer message without a table")
    return stop
  end
  if not has(tvb, at, M.PREFIX) then return stop end
  local count, in_data = number(tvb, at, 4), number(tvb, at + 4, 4)
  local table_at, behind = at + M.PREFIX, at + M.PREFIX
  if in_data == 0 then behind = behind + count * M.ENTRY else table_at = data_at end
  local sub = tree:add(ucxx, part(tvb, at, math.min(behind, stop)), "Frames: " .. text(count))
  sub:add_le(f.frames, tvb(at, 4))
  sub:add_le(f.in_data, tvb(at + 4, 4))
  if in_data > 1 or behind > stop or (in_data == 1 and count * M.ENTRY > data_length) then
    malformed(sub, "a multi-buffer message with an impossible table")
    return math.min(behind, stop)
  end
  if table_at == nil then return behind end
  local total = 0
  frames(sub, count, M.ENTRY, tvb, table_at, function(place)
    local length = number(tvb, place, 4) + (number(tvb, place + 4, 4) % 16777216) * 4294967296
    total = total + length
    sub:add(f.frame_length, tvb(place, 7),
      UInt64.new(length % 4294967296, math.floor(length / 4294967296)))
    sub:add(f.frame_memory, tvb(place + 7, 1))
  end)
  if in_data == 0 and count <= MOST_FRAMES and total ~= data_length then
    malformed(sub, "a multi-buffer message whose frames are not its data")
  end
  return behind
end

-- Notes fields that a kind does not have.
local function check_kind(h, number_of_kind, packed, tree)
  local user = number_of_kind == MESSAGE or number_of_kind >= FETCH and number_of_kind <= MULTI
  local flags = h.flags
  if user then flags = flags - math.floor(flags / 2 ^ H.MEMORY) % 128 * 2 ^ H.MEMORY end
  for _, bit in ipairs(user and { H.REPLY, H.WAITING, H.ATOMIC, H.HUB }
    or { H.PEER_FAILURE, H.ANSWER }) do
    if bit_set(flags, bit) then flags = flags - bit end
  end
  if flags ~= 0
    or (not user and (h.id ~= 0 or h.user_header ~= 0))
    or (not user and h.sequence ~= 0 and number_of_kind ~= 1)
    or (not user and number_of_kind ~= GRANT and (h.messages ~= 0 or h.units ~= 0)) then
    malformed(tree, "fields that its kind does not have")
  end
  if packed and not user then
    malformed(tree, "a packed message of a kind that is never packed")
  end
end

-- The user's header and data: the library's own headers in it, and what the message is called.
local function content(tvb, at, stop, data_at, data_length, h, number_of_kind, tree, c)
  local name, told = KINDS[number_of_kind], nil
  if number_of_kind == MULTI then at = multi(tvb, at, stop, data_at, data_length, tree) end
  if number_of_kind == MESSAGE and bit_set(h.flags, H.HUB) then
    name, told = hub(tvb, at, stop, tree)
  elseif number_of_kind == FETCH and bit_set(h.flags, H.ATOMIC) then
    atomic(tvb, at, stop, tree)
    name = "atomic"
  elseif number_of_kind == MESSAGE and ucxx.prefs.service
    and (h.id == SERVICE.AM_GROUP or h.id == SERVICE.AM_EXTENSION) then
    local of_group, its_note = (h.id == SERVICE.AM_GROUP and group or window)(tvb, at, stop, tree)
    if of_group then name, told = of_group, its_note end
  end
  local range = part(tvb, at, stop)
  if range and (name == KINDS[number_of_kind]) and number_of_kind ~= ANSWER then
    tree:add(f.user_header, range)
  end
  if data_at then
    local data = part(tvb, data_at, math.min(data_at + data_length, c.data_stop))
    if data then tree:add(f.data, data) end
  end
  return name, told
end

-- A message with the full header at `at`, whose user's header ends at `stop`. The data of
-- `data_length` bytes begins at `data_at`, or is elsewhere. With `packed` all is in one piece that
-- ends at `stop`.
local function long(tvb, at, stop, packed, data_at, data_length, tree, c)
  local range = part(tvb, at, stop)
  local sub = tree:add(ucxx, range or tvb(0, 0), "ucxx_rs")
  if stop - at >= 2 and has(tvb, at, 2) and number(tvb, at, 1) ~= H.VERSION then
    if stop - at >= H.HEADER and has(tvb, at, H.HEADER) then show(HEADER, tvb, at, stop, sub) end
    sub:add_proto_expert_info(e.version)
    note(c, "message of version %.0f", number(tvb, at, 1))
    return
  end
  local h = show(HEADER, tvb, at, stop, sub)
  if h == nil then return end
  local name = KINDS[h.kind]
  if name == nil then return malformed(sub, "an unknown kind") end
  for _, bit in ipairs(FLAG_BITS) do sub:add_le(bit, tvb(at + 6, 2)) end
  check_kind(h, h.kind, packed, sub)
  local user_at, user_stop = at + H.HEADER, at + H.HEADER + h.user_header
  if packed then
    data_at, data_length = user_stop, stop - user_stop
  end
  if user_stop > stop or (not packed and user_stop ~= stop) then
    return malformed(sub, "a header of the wrong length")
  end
  local told
  if h.kind == FETCH then
    if h.user_header < 16 then return malformed(sub, "a question that is too short") end
    if has(tvb, user_at, 16) then
      sub:add_le(f.room, tvb(user_at, 8))
      local upper = number(tvb, user_at + 12, 4)
      if upper > 65535 then malformed(sub, "a question with a number that is too large") end
      asked(c, sub, tvb(user_at + 8, 8), number_text(upper, number(tvb, user_at + 8, 4)),
        tvb(user_at + 8, 8):le_uint64())
    end
    user_at = user_at + 16
  elseif h.kind == ANSWER then
    answered(c, sub, tvb(at + 20, 4), number_text(h.id, h.sender), u64(h.id, h.sender))
    local status = tvb(at + 12, 4):le_int()
    sub:add_le(f.status, tvb(at + 12, 4))
    local truncated = status == TRUNCATED
    if status > 0 or h.user_header ~= (truncated and 8 or 0) then
      malformed(sub, "an answer whose status does not match its length")
    elseif truncated and has(tvb, user_at, 8) then
      sub:add_le(f.full_length, tvb(user_at, 8))
    end
    if status < 0 then sub:add_proto_expert_info(e.status) end
  elseif h.kind == 1 then
    sub:add_le(f.endpoint, tvb(at + 12, 4))
  end
  if h.kind == MESSAGE or h.kind == FETCH or h.kind == MULTI then
    sub:add_le(f.price, tvb(at + 20, 4))
    sub:add_le(f.id, tvb(at + 2, 2))
  end
  if (h.kind == 1 or h.kind == 2) and data_at and data_at + data_length <= c.data_stop then
    address(tvb, data_at, data_at + data_length, sub)
  elseif h.kind == 13 and data_at then
    show(FAST_BOX, tvb, data_at, data_at + data_length, sub)
  else
    name, told = content(tvb, user_at, user_stop, data_at, data_length, h, h.kind, sub, c)
  end
  kind(c, sub, tvb(at + 1, 1), name, data_length)
  sub:append_text(": " .. (told or name))
  if h.kind == MESSAGE or h.kind >= FETCH and h.kind <= MULTI then
    note(c, "%s%s, %.0f bytes", told or name, (told or h.kind == ANSWER) and ""
      or string.format(" id=%.0f", h.id), data_length)
  else
    note(c, "%s", name)
  end
end

-- A piece whose first byte has the highest bit: a compact header.
local function compact(tvb, at, stop, tree, c)
  local sub = tree:add(ucxx, part(tvb, at, stop), "ucxx_rs")
  local mark = number(tvb, at, 1) - C.SHORT
  local list = mark == MESSAGE and SHORT_MESSAGE or mark == FETCH and SHORT_QUESTION
    or mark == ANSWER and SHORT_ANSWER
  if not list then return malformed(sub, "a short message whose header is not valid") end
  sub:add(f.compact, tvb(at, 1), true)
  sub:add(by_name["header.kind"], tvb(at, 1), mark)
  local length = mark == FETCH and C.QUESTION or C.MESSAGE
  if stop - at < length then return malformed(sub, "a header that is too short") end
  if not has(tvb, at, length) then return sub:add_proto_expert_info(e.cut) end
  local h = show(list, tvb, at, stop, sub)
  h.flags, h.id = h.flags or 0, h.id or 0
  if h.connection == 0 then malformed(sub, "a short message without a connection") end
  local data_at = at + length + (mark == ANSWER and 0 or h.user_header)
  if data_at > stop then return malformed(sub, "a header that is cut off") end
  if mark == FETCH then
    local lower, upper = number(tvb, at + 12, 4), number(tvb, at + 16, 4)
    if upper > 65535 then malformed(sub, "a question with a number that is too large") end
    asked(c, sub, tvb(at + 12, 8), number_text(upper, lower), u64(upper, lower))
    sub:add(f.room, tvb(at + 10, 2), UInt64.new(h.room))
  elseif mark == ANSWER then
    local upper, lower = number(tvb, at + 2, 2), number(tvb, at + 8, 4)
    answered(c, sub, tvb(at + 2, 10), number_text(upper, lower), u64(upper, lower))
    sub:add(f.status, tvb(at, 1), 0):set_generated()
    if h.memory > 127 then malformed(sub, "fields that its kind does not have") end
  else
    for _, bit in ipairs(FLAG_BITS) do sub:add_le(bit, tvb(at + 10, 2)) end
    check_kind(h, mark, true, sub)
  end
  local name, told = content(tvb, at + length, data_at, data_at, stop - data_at, h, mark, sub, c)
  if mark ~= ANSWER then sub:add_le(f.id, tvb(at + 2, 2)) end
  kind(c, sub, tvb(at, 1), name, stop - data_at)
  sub:append_text(": " .. (told or name))
  note(c, "%s%s, %.0f bytes", told or name, (told or mark == ANSWER) and ""
    or string.format(" id=%.0f", h.id), stop - data_at)
end

-- UCXX's header of a message to a queue.
local function queue(tvb, at, stop, data_at, data_length, tree, c)
  local sub = tree:add(ucxx, part(tvb, at, stop) or tvb(0, 0), "UCXX active message")
  if stop - at < 4 then return malformed(sub, "a header that is too short") end
  -- Missing bytes at the end count as zero.
  local place, last = at, math.min(stop, tvb:len())
  local function take(it, bytes)
    if place + bytes > last then place = last return 0 end
    if it then sub:add_le(it, tvb(place, bytes)) end
    place = place + bytes
    return bytes <= 8 and number(tvb, place - bytes, bytes) or 1
  end
  take(f.queue_memory, 4)
  local named = take(f.queue_named, 1)
  if named > 1 then malformed(sub, "a byte that is neither 0 nor 1") end
  if named == 1 and take(f.queue_owner, Q.OWNER) ~= 0 then take(f.queue_callback, 8) end
  take(f.queue_refuse, 1)
  if take(f.queue_header, 8) > 0 and place < last then
    sub:add(f.user_header, tvb(place, last - place))
  end
  kind(c, sub, part(tvb, at, stop) or tvb(0, 0), "queue", data_length)
  local data = data_at and part(tvb, data_at, math.min(data_at + data_length, c.data_stop))
  if data then sub:add(f.data, data) end
  note(c, "queue, %.0f bytes", data_length)
end

-- ---------------------------------------------------------------- UCP's messages

-- An active message of UCP: its header, and data of this length. What is here of the data begins at
-- data_at, and ends at c.data_stop.
local function active_message(tvb, id, header_at, header_stop, data_at, length, tree, c)
  if id == Q.UCXX_ID then return queue(tvb, header_at, header_stop, data_at, length, tree, c) end
  if id ~= H.AM_ID then return note(c, "foreign active message id=%.0f, %.0f bytes", id, length) end
  if header_stop > header_at then
    return long(tvb, header_at, header_stop, false, data_at, length, tree, c)
  end
  if data_at == nil or not has(tvb, data_at, 1) then
    return tree:add_proto_expert_info(data_at and length > 0 and e.cut or e.malformed)
  end
  if number(tvb, data_at, 1) >= C.SHORT then
    return compact(tvb, data_at, data_at + length, tree, c)
  end
  long(tvb, data_at, data_at + length, true, nil, nil, tree, c)
end

-- A tag message with the length of a header of multi-buffer transfer.
local function frames_by_tag(tvb, at, stop, tree)
  if stop - at ~= X.HEADER or not has(tvb, at, X.HEADER) then return false end
  local more, count = number(tvb, at, 1), number(tvb, at + 1, 8)
  if more > 1 or count > X.FRAMES or (more == 1 and count < X.FRAMES) then return false end
  local sub = tree:add(ucxx, tvb(at, X.HEADER),
    "Multi-buffer transfer: " .. text(count) .. " frames")
  sub:add(f.more, tvb(at, 1))
  sub:add_le(f.frames, tvb(at + 1, 4))
  for index = 0, count - 1 do
    sub:add_le(f.frame_length, tvb(at + 409 + 8 * index, 8))
    sub:add_le(f.frame_device, tvb(at + 9 + 4 * index, 4))
  end
  return true
end

local function ucp_message(tvb, id, at, stop, tree, c)
  local message, place = UCP[id], at
  if stop - at < message.length then
    return malformed(tree, "a message of UCP's that is too short")
  end
  if not has(tvb, at, message.length) then return tree:add_proto_expert_info(e.cut) end
  local v = {}
  for index = 2, #message do
    local name, size = message[index][1], message[index][2]
    v[name] = number(tvb, place, size)
    tree:add_le(name == "tag" and f.tag or by_name["ucp." .. name], tvb(place, size))
    place = place + size
  end
  local footer = FOOTER[id] or 0
  if stop - place < footer then return malformed(tree, "a message of UCP's without its footer") end
  local body_stop = stop - footer
  if footer > 0 and has(tvb, body_stop, footer) then
    local first = footer == 8 and 2 or 1
    for index = first, first + footer / 8 - 1 do
      local entry = FOOTER_FIELDS[index]
      v[entry[1]] = number(tvb, body_stop + 8 * (index - first), 8)
      tree:add_le(by_name["ucp." .. entry[1]], tvb(body_stop + 8 * (index - first), 8))
    end
  end
  local user_kind = USER_KINDS[id]
  if id == AM_SINGLE or id == AM_REPLY or id == AM_FIRST or id == AM_FIRST_PSN then
    local here = body_stop - place - v.header_length
    if here < 0 then return malformed(tree, "a user's header that is longer than the message") end
    c.data_stop = place + here
    -- The footer of the first piece of several has the length of all.
    active_message(tvb, v.am_id, body_stop - v.header_length, body_stop, place,
      v.total_length or here, tree, c)
  elseif id == RTS then
    if v.opcode == 1 then
      local am_id, header_length = number(tvb, at, 2), number(tvb, at + 4, 4)
      if stop - place < header_length then
        return malformed(tree, "a user's header that is longer than the message")
      end
      active_message(tvb, am_id, stop - header_length, stop, nil, v.size, tree, c)
    elseif v.opcode == 0 then
      tree:add_le(f.tag, tvb(at, 8))
      kind(c, tree, tvb(at, 8), "tag", v.size)
      note(c, "tag %s, %.0f bytes, rendezvous", tostring(tvb(at, 8):le_uint64():tohex()), v.size)
    end
  elseif user_kind then
    local length = v.total_length or v.put_length or (id == 18 and v.size)
      or (id == 20 and v.atomic_size) or stop - place
    -- UCX flushes by a put of nothing.
    if id == TCP_PUT and length == 0 then user_kind = "flush" end
    kind(c, tree, tvb(at, message.length), user_kind, length)
    local tag = v.tag and " " .. tostring(tvb(at, 8):le_uint64():tohex()) or ""
    note(c, "%s%s, %.0f bytes", user_kind, tag, length)
    local data = part(tvb, place, stop)
    if data and not (v.tag and frames_by_tag(tvb, place, stop, tree)) then
      tree:add(f.data, data)
    end
  else
    note(c, "UCX %s", message[1])
    local data = part(tvb, place, body_stop)
    if data then tree:add(f.data, data) end
  end
end

-- ---------------------------------------------------------------- UCX's TCP connections

-- What is known of each TCP connection, and of each of its directions; the state at each call; and
-- the questions. Wireshark dissects the packets in their order once, and any of them again later.
local directions, calls, questions, streams, noted = {}, {}, {}, {}, nil
function ucxx.init() directions, calls, questions, streams, noted = {}, {}, {}, {}, nil end

local tcp_stream, tcp_lost = Field.new("tcp.stream"), Field.new("tcp.analysis.lost_segment")

local function last_value(extractor)
  local found = { extractor() }
  if #found > 0 then return found[#found].value end
end

-- The state at the beginning of this call: as it was left by the call before, in the first pass.
local function begin(tvb, pinfo)
  local stream = tostring(last_value(tcp_stream) or -1)
  local way = stream .. "/" .. tostring(pinfo.src) .. "/" .. tostring(pinfo.src_port)
  streams[stream] = streams[stream] or { first = way }
  local call = string.format("%d/%d/%d", pinfo.number, tvb:offset(), tvb:len())
  local direction = directions[way] or { skip = 0, synchronised = false, handshakes = 0 }
  directions[way] = direction
  if not pinfo.visited then
    if last_value(tcp_lost) ~= nil then direction.skip, direction.synchronised = 0, false end
    calls[call] = { skip = direction.skip, synchronised = direction.synchronised,
      handshakes = direction.handshakes }
  end
  local state = calls[call] or { skip = 0, synchronised = false, handshakes = 0 }
  return {
    pinfo = pinfo, notes = {}, questions = questions, call = state,
    stream = stream, of_stream = streams[stream], direction = direction,
    forward = streams[stream].first == way,
    skip = state.skip, synchronised = state.synchronised, handshakes = state.handshakes,
  }
end

local function finish(c)
  if not c.pinfo.visited then
    local direction = c.direction
    direction.skip, direction.synchronised, direction.handshakes =
      c.skip, c.synchronised, c.handshakes
  end
  c.pinfo.cols.protocol = "UCXX_RS"
  local shown = table.concat(c.notes, "; ", 1, math.min(#c.notes, 4))
  if #c.notes > 4 then shown = shown .. string.format("; and %d more", #c.notes - 4) end
  if shown == "" then return end
  -- Wireshark keeps what earlier calls for the same packet wrote.
  if not c.pinfo.visited then
    c.call.follows, noted = noted == c.pinfo.number, c.pinfo.number
  end
  c.pinfo.cols.info = (c.call.follows and "; " or "") .. shown
end

-- More bytes are needed from `at` on: returns true if the next call will have them.
local function wait_for(c, at, bytes)
  if c.pinfo.can_desegment <= 0 then return false end
  c.pinfo.desegment_offset = math.floor(at)
  c.pinfo.desegment_len = math.floor(bytes or DESEGMENT_ONE_MORE_SEGMENT)
  return true
end

local function is_magic(tvb, at)
  return has(tvb, at, 8) and tostring(tvb(at, 8):bytes()):lower() == UCX_MAGIC
end

-- Can a message of UCX's begin here? Its id, its length, and the least length of this id.
local function plausible(tvb, at)
  if not has(tvb, at, SEGMENT) then return false end
  local message, length = UCP[number(tvb, at, 1)], number(tvb, at + 1, 4)
  return message ~= nil and length >= message.length and length <= ucxx.prefs.longest
end

-- Bytes that are no beginning of a message: shown, and the next segment is tried again.
local function lose(tvb, at, stop, tree, c)
  local range = part(tvb, at, stop)
  if range then
    local item = tree:add(f.unsynchronised, range)
    item:add_proto_expert_info(e.lost)
  end
  note(c, "not at the beginning of a message")
  c.synchronised = false
end

local function ucx_stream(tvb, tree, c)
  local stop = tvb:reported_len()
  local at = math.min(c.skip, stop)
  if at > 0 then
    local range = part(tvb, 0, at)
    if range then tree:add(f.skipped, range) end
    c.skip = c.skip - at
    note(c, "%.0f bytes of a message", at)
  end
  while at < stop do
    local magic = is_magic(tvb, at)
    if magic then
      tree:add_le(f.magic, tvb(at, 8))
      note(c, "UCX's connection")
      at, c.synchronised = at + 8, true
    end
    if stop - at < SEGMENT then
      if at < stop and not wait_for(c, at) then lose(tvb, at, stop, tree, c) end
      return
    end
    if not plausible(tvb, at) then return lose(tvb, at, stop, tree, c) end
    local id, length = number(tvb, at, 1), number(tvb, at + 1, 4)
    local behind = at + SEGMENT + length
    if behind > stop and wait_for(c, at, behind - stop) then return end
    c.synchronised = true
    local title = string.format("UCX %s, %.0f bytes", SEGMENT_NAMES[id], length)
    local sub = tree:add(ucxx, part(tvb, at, behind), title)
    sub:add(f.segment_id, tvb(at, 1))
    sub:add_le(f.segment_length, tvb(at + 1, 4))
    ucp_message(tvb, id, at + SEGMENT, behind, sub, c)
    if behind > stop or behind > tvb:len() then sub:add_proto_expert_info(e.cut) end
    -- The data of a put follows it without a header.
    if id == TCP_PUT and length >= 20 and has(tvb, at + SEGMENT + 8, 8) then
      local data = number(tvb, at + SEGMENT + 8, 8)
      local range = part(tvb, behind, math.min(stop, behind + data))
      if range then sub:add(f.data, range) end
      behind = behind + data
    end
    c.skip = math.max(0, behind - stop)
    at = math.min(behind, stop)
  end
end

-- ---------------------------------------------------------------- the meeting of a group

local function contribution(tvb, at, stop, tree)
  if stop - at < 22 + 2 * A.TRAILER or not has(tvb, at, stop - at) or number(tvb, at, 2) ~= 1 then
    return
  end
  local middle = at + 22 + number(tvb, at + 18, 4)
  if middle - at < 22 + A.TRAILER or stop - middle < A.TRAILER
    or tvb(middle - 8, 8):string() ~= A.MAGIC then
    return
  end
  address(tvb, at + 22, middle, tree)
  address(tvb, middle, stop, tree)
end

local function frame_payload(tvb, name, at, stop, tree)
  local length = stop - at
  if name == "part" then
    if length > B.LONGEST_PART then return malformed(tree, "a part that is too long") end
    contribution(tvb, at, stop, tree)
  elseif name == "failure" then
    if length < 4 or length > 4 + B.LONGEST_TEXT then
      return malformed(tree, "a failure of the wrong length")
    end
    tree:add_le(f.status, tvb(at, 4))
    if length > 4 then tree:add(f.boot_text, tvb(at + 4, length - 4)) end
  elseif name == "all" then
    if length < 4 then return malformed(tree, "parts without their number") end
    local count = number(tvb, at, 4)
    tree:add_le(f.boot_members, tvb(at, 4))
    local place = at + 4 + 4 * count
    if place > stop then return malformed(tree, "a table of parts that is cut off") end
    frames(tree, count, 4, tvb, at + 4, function(entry)
      local bytes = number(tvb, entry, 4)
      tree:add_le(f.boot_part, tvb(entry, 4))
      if place + bytes <= stop then contribution(tvb, place, place + bytes, tree) end
      place = place + bytes
    end)
    if count <= MOST_FRAMES and place ~= stop then
      malformed(tree, "parts that are longer or shorter than their table says")
    end
  elseif length > 0 then
    malformed(tree, "a frame of a kind that has no payload")
  end
end

-- The name and the layout of the next message of the handshake. Rank 0 sends the first one.
local function handshake(c)
  local way = c.direction
  if c.of_stream.root == nil then c.of_stream.root = way end
  if c.of_stream.root ~= way then return "claim", CLAIM end
  if c.handshakes == 0 then return "challenge", CHALLENGE end
  return "verdict", VERDICT
end

local function group_meeting(tvb, tree, c)
  local at, stop = 0, tvb:len()
  while at < stop do
    if stop - at < 16 then
      if not wait_for(c, at) then lose(tvb, at, stop, tree, c) end
      return
    end
    if tvb(at, 8):string() == B.MAGIC then
      local name, list = handshake(c)
      if stop - at < list.length then
        if not wait_for(c, at, list.length - (stop - at)) then lose(tvb, at, stop, tree, c) end
        return
      end
      local sub = tree:add(ucxx, tvb(at, list.length), "Group's meeting: " .. name)
      sub:add(f.boot, tvb(at, 8), name)
      sub:add(f.kind, tvb(at, 8), "bootstrap"):set_generated()
      local h = show(list, tvb, at, stop, sub)
      if name == "verdict" then
        if VERDICTS[h.verdict] == nil then malformed(sub, "a verdict of an unknown kind") end
      elseif h.version ~= B.VERSION then
        sub:add_proto_expert_info(e.version)
      end
      local more = name == "claim" and string.format(" rank %.0f of %.0f", h.rank, h.size)
        or name == "verdict" and ": " .. (VERDICTS[h.verdict] or "?") or ""
      note(c, "group %s%s", name, more)
      c.handshakes = c.handshakes + 1
      at = at + list.length
    else
      local length, name = number(tvb, at, 8), FRAMES[number(tvb, at + 8, 1)]
      local zeros = tostring(tvb(at + 9, 7):bytes()) == "00000000000000"
      if name == nil or length > 65536 * B.LONGEST_PART or not zeros then
        return lose(tvb, at, stop, tree, c)
      end
      local whole = 16 + length + B.SECRET_SIZE
      if stop - at < whole then
        if length > ucxx.prefs.longest or not wait_for(c, at, whole - (stop - at)) then
          lose(tvb, at, stop, tree, c)
        end
        return
      end
      local sub = tree:add(ucxx, tvb(at, whole), "Group's meeting: " .. name)
      sub:add(f.boot, tvb(at + 8, 1), name)
      sub:add(f.kind, tvb(at + 8, 1), "bootstrap"):set_generated()
      sub:add_le(f.boot_length, tvb(at, 8))
      if length > 0 then sub:add(f.boot_payload, tvb(at + 16, length)) end
      frame_payload(tvb, name, at + 16, at + 16 + length, sub)
      sub:add(f.boot_seal, tvb(at + 16 + length, B.SECRET_SIZE))
      note(c, "group %s, %.0f bytes", name, length)
      at = at + whole
    end
  end
end

-- ---------------------------------------------------------------- registration

local function is_meeting(tvb) return has(tvb, 0, 8) and tvb(0, 8):string() == B.MAGIC end
-- The private data of UCX's connection manager, on the port of a listener.
local function is_sockcm(tvb)
  return tvb:len() > 24 and tvb:len() == tvb:reported_len() and number(tvb, 0, 8) == tvb:len() - 16
end

function ucxx.dissector(tvb, pinfo, tree)
  if tvb:len() == 0 then return 0 end
  local c = begin(tvb, pinfo)
  local of_stream = c.of_stream
  if is_meeting(tvb) then of_stream.meeting = true end
  local root = tree:add(ucxx, tvb())
  if of_stream.meeting then
    group_meeting(tvb, root, c)
  elseif not c.synchronised and is_sockcm(tvb) then
    root:add_le(f.cm_length, tvb(0, 8))
    root:add(f.cm_status, tvb(8, 1))
    root:add(f.data, tvb(16))
    note(c, "UCX connection manager")
  else
    ucx_stream(tvb, root, c)
  end
  finish(c)
  return tvb:len()
end

-- Takes a connection by the first bytes of UCX's or of a group's meeting, or by its port. In the
-- middle of a connection it needs a message of this library with a sound header.
local function sound(tvb, at, behind)
  local id = number(tvb, at, 1)
  if id ~= AM_SINGLE and id ~= AM_REPLY or not has(tvb, at + SEGMENT, 8) then return false end
  local body = at + SEGMENT
  local header_length = number(tvb, body + 4, 4)
  local place = header_length > 0 and behind - (FOOTER[id] or 0) - header_length or body + 8
  if number(tvb, body, 2) ~= H.AM_ID or place < body + 8 or not has(tvb, place, H.HEADER) then
    return false
  end
  local first, second = number(tvb, place, 1), number(tvb, place + 1, 1)
  if header_length > 0 then
    return first == H.VERSION and KINDS[second] ~= nil
      and number(tvb, place + 4, 2) == header_length - H.HEADER
  end
  return first == H.VERSION and (second == MESSAGE or second >= FETCH and second <= MULTI)
    or first > C.SHORT and (first - C.SHORT == MESSAGE or first - C.SHORT == FETCH
      or first - C.SHORT == ANSWER)
end
local function is_given(port)
  for first, last in ucxx.prefs.ports:gmatch("(%d+)%-?(%d*)") do
    if port >= tonumber(first) and port <= tonumber(last ~= "" and last or first) then return true end
  end
  return false
end
local function recognise(tvb, pinfo, tree)
  local found = is_magic(tvb, 0) or is_meeting(tvb)
    or is_given(pinfo.src_port) or is_given(pinfo.dst_port)
  local at = 0
  while not found and plausible(tvb, at) do
    local behind = at + SEGMENT + number(tvb, at + 1, 4)
    found = behind <= tvb:len() and sound(tvb, at, behind)
    at = behind
  end
  if not found then return false end
  pinfo.conversation = ucxx
  ucxx.dissector(tvb, pinfo, tree)
  return true
end

DissectorTable.get("tcp.port"):add_for_decode_as(ucxx)
ucxx:register_heuristic("tcp", recognise)
