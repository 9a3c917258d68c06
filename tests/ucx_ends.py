"""The one list of places where UCX itself ends a process, with any library on top of it: for the
faults, the tools, the C tests and the stress.

Each entry names the exact line in UCX, and the releases in which it was seen. Such ends are counted
apart, with a limit, and reported. Anything else that ends a process is a fault of this library or
of the test.
"""

import re

ANSWERS_THE_KILLED = r"ucp_request\.inl:\d+ +Fatal: unexpected error: Endpoint timeout"
# Assertions and fatal errors: a pattern in the dying process's output.
ABORTS = {
    r"ucp_request\.c:684": ("1.13",),
    r"ucp_ep\.inl:215": ("1.13",),
    # A close by force meets a message whose data is arriving in pieces.
    r"ucp_ep\.c:3318": ("1.13",),
    r"tcp_ep\.c:939": ("1.13",),
    # Two workers connect to each other at the same time, and one of them is destroyed.
    r"tcp_ep\.c:478": ("1.13",),
    # The keepalive's own count of the endpoints it has checked.
    r"ucp_worker\.c:3241": ("1.13",),
    r"tcp_cm\.c:557": ("1.13",),
    # An event on a rejected request's descriptor reaches the next request, whose descriptor has the
    # same number.
    r"tcp_sockcm_ep\.c:416": ("1.13",),
    r"wireup_ep\.c:241": ("1.13",),
    # Like the last one, but reported by the socket.
    r"tcp_iface\.c:307": ("1.13",),
    # Like the crashes below: an endpoint that is already freed.
    r"iovec\.c:62": ("1.13",),
    r"stubs\.c:96": ("1.13",),
    r"stubs\.c:102": ("1.13",),
    # A TCP connection that was refused too often is taken down while messages wait for it.
    r"UCX_TCP_MAX_CONN_RETRIES[\s\S]*stubs\.c:107": ("1.21",),
    # Over TCP the owner of memory answers puts and gets of a killed process whose connection has
    # just failed. The library does not avoid it yet: a process that may use the memory can end its
    # owner.
    ANSWERS_THE_KILLED: ("1.13", "1.21", "1.22"),
}
# Invalid accesses: the stack of the thread that made them, from the innermost frame on.
CRASHES = {
    # UCX still waits on the descriptor of an endpoint that was closed by force with its socket
    # full.
    "TCP events of a freed endpoint": (
        r"(#\d+ .* uct_tcp_iface_handle_events|#1 .*\n#\d+ .* ucs_event_set_wait).*\n(#.*\n){0,2}#\d+ .* uct_tcp_iface_progress",
        ("1.13", "1.21", "1.22"),
    ),
    "flush of a freed endpoint": (
        r"#0 .* ucp_ep_num_lanes .*\n(#.*\n)?#\d+ .* ucp_ep_flush_progress",
        ("1.21", "1.22"),
    ),
    # Like the last one in ABORTS.
    "answer to a get of a process that was killed": (
        r"#0 .* ucp_request_dt_dereg .*\n(#.*\n){0,3}#\d+ .* ucp_request_send_state_ff",
        ("1.21", "1.22"),
    ),
}
# The same for aborts whose output is too short to identify them.
ABORTED_AT = {
    # Both events of one endpoint at once: the first, a refused connection, has taken it down.
    "TCP events of a freed endpoint": (
        r"#\d+ .* (__GI___libc_free|ucs_empty_function_do_assert|ucs_arbiter_cleanup) .*\n(#\d+ .* ?uct_tcp_iface_handle_events .*\n){1,2}#\d+ .* ucs_event_set_wait",
        ("1.21", "1.22"),
    ),
}

# Those of ABORTS that happen in tests without a killed process and without a close by force, and
# the names of the tests that use TCP.
IN_TESTS = {
    # A worker is destroyed while UCX 1.13 still connects.
    r"ucp_request\.c:684": r"[._](tcp|default|hosts|mixed|asked)$|_valgrind_tcp$",
}
# And those of a tool whose peer is killed just after the connection.
IN_TOOLS = {
    pattern + " +Assertion": ABORTS[pattern]
    for pattern in (r"ucp_request\.c:684", r"tcp_iface\.c:307", r"wireup_ep\.c:241")
}
# And while it puts.
IN_TOOLS[ANSWERS_THE_KILLED] = ABORTS[ANSWERS_THE_KILLED]


def abort(said, ucx, known=ABORTS):
    """The line in UCX at which a process aborted, from its output; None if it is not known for this
    release.
    """
    for pattern, releases in known.items():
        if ucx.startswith(releases) and re.search(pattern, said):
            return pattern.replace("\\", "")
    return None


def crash(stack, ucx, aborted=False):
    """The name of the known crash, from the stack of the thread that crashed or aborted; None if it
    is not known.
    """
    for name, (pattern, releases) in (ABORTED_AT if aborted else CRASHES).items():
        if ucx.startswith(releases) and re.search(pattern, stack):
            return name
    return None


# Output of a test that has found something itself, or hangs, and of the instruments that observe
# it.
COMPLAINTS = re.compile(
    r"^  step: |hangs in step|Sanitizer|runtime error:|panicked|Invalid (read|write)|uninitialised|(definitely|indirectly) lost"
    r"|ended with status (124|137)",
    re.MULTILINE,
)
# Except for a launcher's report that a member aborted.
MEMBER_ABORTED = re.compile(r"^.*rank \d+ ended with 0x[08]?6\n  step: .*\n", re.MULTILINE)


def in_test(name, said, ucx):
    """The line in UCX that ended a test, if known for it; None if the test failed for any other
    reason.
    """
    if COMPLAINTS.search(MEMBER_ABORTED.sub("", said)):
        return None
    for pattern, tests in IN_TESTS.items():
        found = re.search(r"^\[.*\] +(%s) +Assertion" % pattern, said, re.MULTILINE)
        if found and ucx.startswith(ABORTS[pattern]) and re.search(tests, name):
            return found.group(1)
    return None


def in_tool(said, ucx):
    """The line in UCX that ended a tool, if known for it; otherwise None."""
    return abort(said, ucx, IN_TOOLS)
