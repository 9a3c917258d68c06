#!/usr/bin/env python3
"""Writes calls.h and calls.c: for every function that ucxx_rs.h declares, a call with random
arguments.

    tests/hostile/generate.py HEADER FOLDER

The generator for a parameter follows from its type and name (RULES), or is given for one function
(SPECIAL). A function with a parameter that neither covers fails the build, so none is forgotten. A
function that must not be called needs a reason (LEFT_OUT).
"""

import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "abi"))
import header as header_file  # noqa: E402

# Functions that are not called, and why.
LEFT_OUT = {
    "ucxx_worker_destroy_nb": "it ends on a thread that the end of a round would have to wait for; tests/c/worker/destroy_nb.c has it",
    "ucxx_tag_message_native": "nobody would receive the message: its sender would wait until the end; tests/c/worker/native.c has it",
}

# Weights; 100 for all others. Calls that take milliseconds or create threads are rare.
WEIGHTS = {
    "ucxx_context_create": 1,
    "ucxx_context_destroy": 1,
    "ucxx_context_visit_config": 2,
    "ucxx_config_visit": 2,
    "ucxx_worker_create": 2,
    "ucxx_worker_destroy": 2,
    "ucxx_worker_start_progress_thread": 8,
    "ucxx_worker_stop_progress_thread": 8,
    "ucxx_worker_dump": 5,
    "ucxx_context_dump": 2,
    "ucxx_context_metrics": 2,
    "ucxx_worker_metrics": 5,
    "ucxx_worker_fence": 10,
    "ucxx_worker_wait": 20,
    "ucxx_endpoint_create": 12,
    "ucxx_endpoint_connect": 6,
    "ucxx_endpoint_accept": 20,
    "ucxx_endpoint_close": 10,
    "ucxx_endpoint_destroy": 8,
    "ucxx_listener_create": 4,
    "ucxx_listener_destroy": 4,
    "ucxx_memory_register": 10,
    "ucxx_memory_allocate": 5,
    "ucxx_memory_destroy": 10,
    "ucxx_rkey_unpack": 20,
    "ucxx_rkey_destroy": 10,
    "ucxx_group_create": 1,
    "ucxx_group_destroy": 1,
    "ucxx_group_subset": 4,
    "ucxx_window_create": 4,
    "ucxx_window_allocate": 4,
    "ucxx_window_allocate_shared": 4,
    "ucxx_window_create_dynamic": 4,
    "ucxx_window_destroy": 12,
    "ucxx_window_close": 4,
    "ucxx_hub_create": 10,
    "ucxx_hub_destroy": 6,
    "ucxx_hub_close": 4,
    "ucxx_link_create": 30,
    "ucxx_link_destroy": 15,
    "ucxx_hub_add_envelopes": 20,
    "ucxx_hub_drain": 20,
    "ucxx_notifier_create": 20,
    "ucxx_notifier_stop": 8,
    "ucxx_notifier_destroy": 12,
    "ucxx_notifier_wait": 20,
    "ucxx_log_set_callback": 2,
    "ucxx_request_destroy": 900,
    "ucxx_request_cancel": 200,
    "ucxx_worker_cancel_all": 5,
    "ucxx_endpoint_cancel_all": 5,
    "ucxx_worker_progress": 200,
    "ucxx_am_message_destroy": 300,
    "ucxx_fetch_destroy": 200,
    "ucxx_tag_recv": 200,
    "ucxx_stream_recv": 60,
    "ucxx_am_queue_recv": 60,
    "ucxx_envelope_commit": 200,
    "ucxx_envelope_release": 200,
}

HANDLE = object()


def source(function, name, after):
    return f"size_t {after}; const void *{name} = source(c, &{after});"


def sink(function, name, after):
    return f"size_t {after}; void *{name} = sink(c, &{after});"


# (type, name) -> a declaration of `name`; a function also declares the parameter that follows.
RULES = {
    ("const void *", "buffer"): source,
    ("const void *", "data"): source,
    ("void *", "buffer"): sink,
    ("void *", "reply_buffer"): sink,
    ("char *", "text"): lambda function, name, after: (
        f"size_t {after}; char *{name} = sink(c, &{after});"
    ),
    ("const void *", "header"): lambda function, name, after: (
        f"size_t {after}; const void *{name} = header_bytes(c, &{after});"
    ),
    ("const ucxx_buffer_t *", "buffers"): lambda function, name, after: (
        f"size_t {after}; const ucxx_buffer_t *{name} = list_of(c, {int('recv' in function)}, &{after});"
    ),
    ("const ucxx_buffer_t *", "reply_buffers"): lambda function, name, after: (
        f"size_t {after}; const ucxx_buffer_t *{name} = list_of(c, 1, &{after});"
    ),
    ("const uint32_t *", "ranks"): lambda function, name, after: (
        f"size_t {after}; const uint32_t *{name} = rank_list(c, &{after});"
    ),
    ("void *", "base"): lambda function, name, after: (
        f"size_t {after}; void *{name} = range(c, &{after});"
        if after in ("size", "length")
        else f"size_t length; void *{name} = range(c, &length);"
    ),
    ("void *", "stream"): "void *stream = one_in(c, 64) ? MARK : NULL;",
    ("const ucxx_op_params_t *", "params"): "const ucxx_op_params_t *params = op(c);",
    ("const ucxx_allocator_t *", "allocator"): "const ucxx_allocator_t *allocator_ = allocator(c);",
    (
        "const ucxx_layout_t *",
        "origin_layout",
    ): "const ucxx_layout_t *origin_layout = layout(c, 0);",
    (
        "const ucxx_layout_t *",
        "result_layout",
    ): "const ucxx_layout_t *result_layout = layout(c, 0);",
    (
        "const ucxx_layout_t *",
        "target_layout",
    ): "const ucxx_layout_t *target_layout = layout(c, 1);",
    ("const void *", "origin"): "const void *origin = source_middle(c);",
    ("void *", "origin"): "void *origin = sink_middle(c);",
    ("void *", "result"): "void *result = sink_middle(c);",
    ("const void *", "compare"): "const void *compare = word(c);",
    ("const void *", "operand"): "const void *operand = word(c);",
    (
        "int64_t",
        "disp",
    ): "int64_t disp = signed_number(c, one_in(c, 3) ? (int64_t)(intptr_t)sink_middle(c) : 512);",
    ("uint32_t", "disp_unit"): "uint32_t disp_unit = (uint32_t)number(c, 9);",
    ("uint32_t", "target"): "uint32_t target = one_in(c, 8) ? (uint32_t)number(c, 3) : 0;",
    ("uint32_t", "rank"): "uint32_t rank = one_in(c, 8) ? (uint32_t)number(c, 3) : 0;",
    ("uint32_t", "root"): "uint32_t root = one_in(c, 8) ? (uint32_t)number(c, 3) : 0;",
    ("uint32_t", "assertions"): "uint32_t assertions_ = assertions(c);",
    ("int32_t", "level"): "int32_t level = one_of(c, 0, 5);",
    ("int32_t", "progress_mode"): "int32_t progress_mode = one_of(c, 0, 3);",
    ("int32_t", "how"): "int32_t how = one_of(c, 0, 1);",
    ("int32_t", "op"): "int32_t op_ = one_of(c, 0, 13);",
    ("int32_t", "element_type"): "int32_t element_type = one_of(c, 0, 21);",
    ("int32_t", "lock_type"): "int32_t lock_type = one_of(c, 1, 2);",
    ("int32_t", "memory_type"): "int32_t memory_type_ = memory_type(c);",
    (
        "ucxx_status_t",
        "status",
    ): "ucxx_status_t status_ = one_in(c, 3) ? UCXX_ERR_APPLICATION - (int32_t)draw(c, 5) : one_of(c, -25, 1);",
    ("ucxx_memory_kind_t", "kind"): "ucxx_memory_kind_t kind = memory_kind(c);",
    ("uint64_t", "timeout_ns"): "uint64_t timeout_ns = some_time(c);",
    ("uint64_t", "tag"): "uint64_t tag = number(c, 8);",
    ("uint64_t", "stream_id"): "uint64_t stream_id = number(c, 3);",
    (
        "uint32_t",
        "window",
    ): "uint32_t window = one_in(c, 16) ? (uint32_t)number(c, 70000) : 1 + (uint32_t)draw(c, 4);",
    (
        "uint64_t",
        "tag_mask",
    ): "uint64_t tag_mask = one_in(c, 2) ? UINT64_MAX : one_in(c, 2) ? 0 : number(c, 16);",
    (
        "uint64_t",
        "offset",
    ): "uint64_t offset = number(c, 4096) & (one_in(c, 8) ? UINT64_MAX : ~UINT64_C(7));",
    ("uint64_t", "count"): "uint64_t count = number(c, 100);",
    ("uint64_t", "block_length"): "uint64_t block_length = number(c, 100);",
    ("int64_t", "stride"): "int64_t stride = signed_number(c, 100);",
    (
        "uint16_t",
        "id",
    ): "uint16_t id = one_in(c, 16) ? (uint16_t)draw(c, 65536) : (uint16_t)draw(c, 4);",
    ("uint16_t", "port"): "uint16_t port_ = port(c);",
    ("size_t", "index"): "size_t index = number(c, 4);",
    ("size_t", "struct_size"): "size_t struct_size = some_size(c);",
    (
        "const ucxx_am_queue_cover_t *",
        "cover",
    ): "const ucxx_am_queue_cover_t *cover = am_queue_cover(c);",
    ("const char *", "owner"): "const char *owner_ = owner(c);",
    ("uint64_t", "id"): "uint64_t id = number(c, 3);",
    (
        "uint64_t",
        "liveness_ns",
    ): "uint64_t liveness_ns = one_in(c, 2) ? some_time(c) : number(c, SECOND);",
    ("const char *", "host"): "const char *host_ = host(c);",
    (
        "ucxx_config_visitor_t",
        "visit",
    ): "ucxx_config_visitor_t visit = one_in(c, 16) ? NULL : on_variable;",
    (
        "void (*)(void *, const char *)",
        "line",
    ): "void (*line)(void *, const char *) = one_in(c, 16) ? NULL : on_line;",
    (
        "void (*)(void *)",
        "function",
    ): "void (*function)(void *) = one_in(c, 16) ? NULL : on_run; record_t *arg = c->record = new_record(c); arg->least = arg->most = 1;",
    (
        "ucxx_endpoint_callback_t",
        "callback",
    ): "ucxx_endpoint_callback_t callback = one_in(c, 4) ? NULL : on_writable; record_t *arg = c->record = new_record(c); arg->most = 1;",
    (
        "ucxx_am_handler_t",
        "handler",
    ): "ucxx_am_handler_t handler = one_in(c, 4) ? NULL : on_am; record_t *arg = c->record = new_record(c); arg->most = INT32_MAX;",
    (
        "ucxx_fetch_handler_t",
        "handler",
    ): "ucxx_fetch_handler_t handler = one_in(c, 4) ? NULL : on_fetch; record_t *arg = c->record = new_record(c); arg->most = INT32_MAX;",
    (
        "ucxx_multi_handler_t",
        "handler",
    ): "ucxx_multi_handler_t handler = one_in(c, 4) ? NULL : on_multi; record_t *arg = c->record = new_record(c); arg->most = INT32_MAX;",
    (
        "ucxx_destroy_arg_t",
        "destroy_arg",
    ): "ucxx_destroy_arg_t destroy_arg = one_in(c, 3) ? NULL : on_free; arg->frees = handler != NULL && destroy_arg != NULL;",
}
# A rule's variable name, if the parameter's own name is taken.
CALLED = {
    "allocator": "allocator_",
    "assertions": "assertions_",
    "op": "op_",
    "memory_type": "memory_type_",
    "status": "status_",
    "port": "port_",
    "host": "host_",
    "owner": "owner_",
}
PARAMS = ["context", "worker", "endpoint", "listener", "group", "window", "hub", "link"]
for each in PARAMS:
    RULES[(f"const ucxx_{each}_params_t *", "params")] = (
        f"const ucxx_{each}_params_t *params = {each}_params(c);"
    )

# The caller serialises the synchronisation of one window.
SERIAL = {
    f"ucxx_window_{each}"
    for each in "lock lock_nb unlock lock_all unlock_all post start complete wait test fence set_hints close query sync_type".split()
}
# One call at a time on one handle, or a call that may end the handle.
ALONE = {
    "ucxx_envelope_commit",
    "ucxx_envelope_abort",
    "ucxx_envelope_release",
    "ucxx_envelope_query",
    "ucxx_envelope_swap",
    "ucxx_link_arm",
}
ENDS = {"ucxx_envelope_commit", "ucxx_envelope_abort", "ucxx_envelope_release"}
# Borrowed handles: not to be destroyed.
LENT = {"ucxx_group_endpoint"}
# Destroyed at once: endpoints to such an address count as foreign, and would not notice its end.
NOT_KEPT = {"ucxx_address_from_ucp_bytes"}

# A result that is written whatever the status: the status is that of the request it names.
TELLS_ANYWAY = {"ucxx_request_wait_any"}

# "function parameter" -> a declaration that replaces the rule's.
SPECIAL = {
    "ucxx_window_allocate size": "size_t size = huge_or(c, 70000);",
    "ucxx_window_allocate_shared size": "size_t size = huge_or(c, 70000);",
    # It waits for sends that others may never receive: called only where it does not wait.
    "ucxx_worker_fence worker": "ucxx_worker_t *worker = c->depth > 0 ? take(c, KIND_worker) : NULL;",
    "ucxx_memory_allocate length": "size_t length = huge_or(c, 70000);",
    "ucxx_hub_add_envelopes count": "size_t count = one_in(c, 16) ? SIZE_MAX - draw(c, 3) : draw(c, 4);",
    "ucxx_envelope_commit length": "size_t length = number(c, 1024);",
    "ucxx_rma_atomic size": "size_t size = one_in(c, 8) ? number(c, 17) : one_in(c, 2) ? 4 : 8;",
    "ucxx_rma_atomic op": "int32_t op_ = one_of(c, 0, 5);",
    "ucxx_link_create link_type": "int32_t link_type = one_of(c, 1, 4);",
    "ucxx_layout_init_blocks blocks": "size_t block_count = draw(c, LIST + 1); const ucxx_block_t *blocks = c->blocks;",
    "ucxx_layout_init_blocks block_count": "",
    "ucxx_address_from_bytes data": "size_t length; const void *data = bytes_of(c, 0, &length);",
    # Bytes that are no address end the process, so only addresses are given.
    "ucxx_address_from_ucp_bytes data": "size_t length = 0; const void *data = one_in(c, 2) ? NULL : bytes_of(c, 1, &length);",
    "ucxx_rkey_unpack bytes": "size_t length; const void *bytes = bytes_of(c, 2, &length);",
    "ucxx_memory_pack bytes": "size_t room = one_in(c, 4) ? draw(c, 64) : SCRATCH; void *bytes = one_in(c, 4) ? NULL : scratch(c);",
    "ucxx_memory_pack length": "size_t *length = one_in(c, 32) ? NULL : &room;",
    "ucxx_am_message_memory_type message": HANDLE,
    "ucxx_request_am_header header": "const void *header_ = MARK; const void **header = one_in(c, 32) ? NULL : &header_;",
    "ucxx_log_set_callback callback": "ucxx_log_callback_t callback = one_in(c, 2) ? NULL : on_log;",
    "ucxx_hub_add_buffer data": "static uint8_t given[64][GIVEN_BYTES] __attribute__((aligned(64))); void *data = one_in(c, 16) ? NULL : given[__atomic_fetch_add(&given_count, 1, __ATOMIC_RELAXED) % 64];",
    "ucxx_hub_add_buffer deallocate": "void (*deallocate)(void *, void *) = one_in(c, 4) ? NULL : on_buffer_gone;",
    "ucxx_hub_set_flow links": "size_t count; ucxx_link_t *const *links = (ucxx_link_t *const *)handles(c, KIND_link, 0, &count);",
    "ucxx_link_lease_many links": "size_t count; ucxx_link_t *const *links = (ucxx_link_t *const *)handles(c, KIND_link, 0, &count);",
    "ucxx_link_lease_many envelopes": "ucxx_envelope_t *envelopes_[LIST * 10]; for (int at = 0; at < LIST * 10; at++) envelopes_[at] = MARK; ucxx_envelope_t **envelopes = one_in(c, 32) ? NULL : envelopes_;",
    "ucxx_request_wait_all requests": "size_t count; ucxx_request_t *const *requests = (ucxx_request_t *const *)handles(c, KIND_request, 0, &count);",
    "ucxx_request_wait_any requests": "size_t count; ucxx_request_t *const *requests = (ucxx_request_t *const *)handles(c, KIND_request, 0, &count);",
    "ucxx_notifier_poll completions": "ucxx_completion_t *completions = one_in(c, 32) ? NULL : scratch(c);",
    "ucxx_notifier_poll completion_size": "size_t completion_size = one_in(c, 32) ? draw(c, 65) : sizeof(ucxx_completion_t);",
    "ucxx_notifier_poll max": "size_t max = completions == NULL && one_in(c, 2) ? SIZE_MAX : draw(c, SCRATCH / sizeof(ucxx_completion_t) + 1);",
    # A group of one member: its own data is everything. A member that passes NULL for `mine` reads
    # it from `all`.
    "ucxx_group_allgather mine": "size_t length; void *all = sink(c, &length); const void *mine = one_in(c, 4) || length > SOURCE_BYTES ? NULL : source_middle(c); if (mine != NULL && length > MIDDLE / 2) length = MIDDLE / 2;",
    "ucxx_group_allgather length": "",
    "ucxx_group_allgather all": "",
    "ucxx_group_broadcast data": "size_t length; void *data = sink(c, &length);",
}
VARIABLES = {
    "ucxx_log_set_callback arg": "NULL",
    "ucxx_hub_add_buffer arg": "NULL",
    "ucxx_context_visit_config arg": "NULL",
    "ucxx_config_visit arg": "NULL",
    "ucxx_worker_dump arg": "NULL",
    "ucxx_context_dump arg": "NULL",
    "ucxx_context_metrics arg": "NULL",
    "ucxx_worker_metrics arg": "NULL",
    "ucxx_endpoint_metrics arg": "NULL",
    "ucxx_hub_metrics arg": "NULL",
    "ucxx_window_metrics arg": "NULL",
    "ucxx_group_metrics arg": "NULL",
    "ucxx_worker_set_am_notifier user_data": "NULL",
    "ucxx_worker_set_fetch_notifier user_data": "NULL",
}

# After the call: keeps account of results.
AFTER = {
    "ucxx_notifier_poll": "if (status == UCXX_OK && completions != NULL && count != NULL) polled(completions, *count);",
    "ucxx_link_lease_many": "for (size_t at = 0; envelopes != NULL && at < LIST * 10; at++) { if (status >= 0 && at < count) keep(c, KIND_envelope, envelopes[at]); else unwritten(c, envelopes[at] != MARK); }",
    "ucxx_buffers_take": "if (status == UCXX_OK && buffer->data != NULL) free_taken(buffer->data);",
    "ucxx_window_post": 'exposure_changed(serial, "post", status, count, 0);',
    "ucxx_window_start": 'exposure_changed(serial, "start", status, count, 0);',
    "ucxx_window_complete": 'exposure_changed(serial, "complete", status, 0, 0);',
    "ucxx_window_wait": 'exposure_changed(serial, "wait", status, 0, 0);',
    "ucxx_window_test": 'exposure_changed(serial, "test", status, 0, status == UCXX_OK && *done);',
}
# Before the call: leaves out waits that could never end.
BEFORE = {
    "ucxx_window_start": "if (serial == NULL || !may_start(serial, count)) { leave(c); return; }",
    "ucxx_window_wait": "if (serial != NULL && !may_wait(serial)) { leave(c); return; }",
}


def stem(type_text):
    return type_text.replace("const", "").replace("*", "").strip()


class Writer:
    def __init__(self, header):
        self.header = header
        self.kinds = [name.removeprefix("ucxx_") for name in header.opaque]
        self.structs = {f"{name}_t" for name in header.structs}

    def kind(self, type_text):
        name = stem(type_text).removeprefix("ucxx_").removesuffix("_t")
        return name if name in self.kinds and stem(type_text).startswith("ucxx_") else None

    def declare(self, function, at):
        """(declaration, argument, code after the call) for one parameter."""
        each = function.parameters[at]
        after = function.parameters[at + 1].name if at + 1 < len(function.parameters) else None
        key = f"{function.name} {each.name}"
        kind = self.kind(each.type)
        said = SPECIAL.get(key)
        if said is not None and said is not HANDLE:
            return (
                said,
                each.name if f"{CALLED.get(each.name)} = " not in said else CALLED[each.name],
                "",
            )
        if key in VARIABLES:
            return "", VARIABLES[key], ""
        if kind and each.type.endswith("**"):
            return self.out_handle(function, each, kind)
        if kind and each.type.endswith("*const *"):
            return None
        if kind:
            how = "take"
            if function.name == f"ucxx_{kind}_destroy" or function.name in ALONE:
                how = "take_alone"
            elif function.name in SERIAL:
                how = "take_serial"
            text = f"{stem(each.type)} *{each.name} = {how}(c, KIND_{kind});"
            if how == "take_serial":
                text += (
                    f" slot_t *serial = {each.name} != NULL ? last_taken(c) : NULL; (void)serial;"
                )
            ends = (
                f"if ({each.name} != NULL) gone(c);"
                if function.name == f"ucxx_{kind}_destroy"
                else ""
            )
            if function.name in ENDS:
                ends = f"if (status == UCXX_OK && {each.name} != NULL) gone(c);"
            return text, each.name, ends
        rule = RULES.get((each.type, each.name))
        if rule is not None:
            return (
                (rule(function.name, each.name, after) if callable(rule) else rule),
                CALLED.get(each.name, each.name),
                "",
            )
        if each.name == "arg" and each.type == "void *":
            return "", "arg", ""
        if (
            each.type.rstrip(" *") in self.structs
            and not each.type.startswith("const")
            and each.type.endswith("*")
        ):
            return self.out_struct(function, each)
        if each.type in ("size_t *", "uint32_t *", "int32_t *", "int *", "void **"):
            base = each.type[:-1].strip()
            mark = "MARK" if base == "void *" else "0x5a5a5a5a"
            return (
                f"{base} {each.name}_ = {mark}; {each.type}{each.name} = one_in(c, 32) ? NULL : &{each.name}_;",
                each.name,
                ""
                if function.result != "ucxx_status_t" or function.name in TELLS_ANYWAY
                else f"if (status < 0) unwritten(c, {each.name}_ != {mark});",
            )
        return None

    def out_handle(self, function, each, kind):
        odds = 6 if kind == "request" else 2 if each.name == "message" else 40
        text = f"ucxx_{kind}_t *{each.name}_ = MARK; ucxx_{kind}_t **{each.name} = one_in(c, {odds}) ? NULL : &{each.name}_;"
        if function.name in LENT:
            return text, each.name, f"if (status < 0) unwritten(c, {each.name}_ != MARK);"
        if function.name in NOT_KEPT:
            return (
                text,
                each.name,
                f"if (status == UCXX_OK && {each.name} != NULL) destroy_handle(KIND_{kind}, {each.name}_); else unwritten(c, {each.name}_ != MARK);",
            )
        # Only operations return INPROGRESS with a handle.
        failed = "status < 0" if kind == "request" else "status != UCXX_OK"
        return (
            text,
            each.name,
            (
                f"if ({failed} || {each.name} == NULL) unwritten(c, {each.name}_ != MARK); "
                f'else {{ if ({each.name}_ == MARK) FAIL("{function.name}: %s, and no handle written", ucxx_status_name(status)); keep(c, KIND_{kind}, {each.name}_); }}'
            ),
        )

    def out_struct(self, function, each):
        base = each.type[:-1].strip()
        if function.name.endswith("_init") or "_layout_init" in function.name:
            return f"{base} *{each.name} = one_in(c, 16) ? NULL : scratch(c);", each.name, ""
        grows = self.header.structs[base.removesuffix("_t")][0].name == "struct_size"
        value = f"out_struct(c, sizeof({base}))" if grows else "scratch(c)"
        return f"{base} *{each.name} = one_in(c, 32) ? NULL : {value};", each.name, ""

    def call(self, function):
        declarations, arguments, afterwards, skip = [], [], [], set()
        for at, each in enumerate(function.parameters):
            if each.name in skip:
                arguments.append(each.name)
                continue
            found = self.declare(function, at)
            if found is None:
                sys.exit(
                    f"hostile: {function.name}: no rule for `{each.type} {each.name}`: add a rule in tests/hostile/generate.py, or a reason in LEFT_OUT"
                )
            text, argument, after = found
            declarations.append(text)
            arguments.append(argument)
            if after:
                afterwards.append(after)
            if at + 1 < len(function.parameters):
                following = function.parameters[at + 1].name
                if (
                    f"size_t {following};" in text
                    or f"size_t {following} =" in text
                    or following == "all"
                    and "*all =" in text
                ):
                    skip.add(following)
            for other in function.parameters[at + 1 :]:
                if f"*{other.name} = " in text or f"size_t {other.name};" in text:
                    skip.add(other.name)
        lines = [f'  begin(c, "{function.name}");']
        lines += [f"  {text}" for text in declarations if text]
        if function.name in BEFORE:
            lines.append(f"  {BEFORE[function.name]}")
        call = f"{function.name}({', '.join(arguments)})"
        if function.result == "ucxx_status_t" or function.result == "int32_t":
            lines += [f"  ucxx_status_t status = {call};", "  judge(c, status);"]
        elif function.result == "void":
            lines.append(f"  {call};")
        elif function.result == "const char *":
            lines += [
                f"  const char *text = {call};",
                "  CHECK(text != NULL && strlen(text) < 100000);",
            ]
        else:
            lines.append(f"  (void){call};")
        lines += [f"  {text}" for text in afterwards]
        if function.name in AFTER:
            lines.append(f"  {AFTER[function.name]}")
        return "\n".join(
            [f"static void call_{function.name}(caller_t *c) {{", *lines, "  leave(c);", "}", ""]
        )

    def write(self, folder):
        kinds = "\n".join(f"  KIND_{kind}," for kind in self.kinds)
        (folder / "calls.h").write_text(
            f"/* Made by generate.py. */\n#ifndef CALLS_H\n#define CALLS_H\ntypedef enum kind {{\n{kinds}\n  KINDS\n}} kind_t;\n#endif\n",
            encoding="utf-8",
        )
        called = [function for function in self.header.functions if function.name not in LEFT_OUT]
        destroys = "\n".join(
            f"  case KIND_{kind}: ucxx_{kind}_destroy(handle); break;"
            for kind in self.kinds
            if kind != "envelope"
        )
        rows = "\n".join(
            f'  {{"{function.name}", {WEIGHTS.get(function.name, 100)}, call_{function.name}}},'
            for function in called
        )
        text = [
            "/* Made by generate.py. */",
            '#include "hostile.h"',
            "",
            "static unsigned given_count;",
            "",
            *(self.call(function) for function in called),
            f"const call_t calls[] = {{\n{rows}\n}};",
            "const unsigned call_count = sizeof calls / sizeof *calls;",
            "",
            "void destroy_handle(kind_t kind, void *handle) {",
            "  switch (kind) {",
            destroys,
            '  case KIND_envelope: while (ucxx_envelope_abort(handle, NULL) != UCXX_OK) FAIL("an envelope that cannot be aborted"); break;',
            "  case KINDS: break;",
            "  }",
            "}",
            "",
        ]
        (folder / "calls.c").write_text("\n".join(text), encoding="utf-8")
        left_out = "".join(f"; {name} is skipped: {why}" for name, why in LEFT_OUT.items())
        print(f"hostile: {len(called)} of {len(self.header.functions)} functions{left_out}")


if __name__ == "__main__":
    Writer(header_file.read(sys.argv[1])).write(Path(sys.argv[2]))
