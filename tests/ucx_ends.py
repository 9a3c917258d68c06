"""Where UCX itself ends a process, whatever library is on top of it: the one list, for the faults,
the tools, the C tests and the stress.

Each entry names the exact line of UCX's, and the release or releases in which it was seen. What
ends so is counted apart, with a bound, and told; anything else that ends a process is a fault of
this library's or of the test's.
"""

import re

# Assertions and fatal errors: a pattern in what the dying process wrote.
ABORTS = {
    r"ucp_request\.c:684": ("1.13",),
    r"ucp_ep\.inl:215": ("1.13",),
    # A close by force meets a message whose data is on its way in pieces.
    r"ucp_ep\.c:3318": ("1.13",),
    r"tcp_ep\.c:939": ("1.13",),
    # Two connect to each other at the same time, and one of them goes.
    r"tcp_ep\.c:478": ("1.13",),
    # The keepalive's own account of the endpoints that it has looked at.
    r"ucp_worker\.c:3241": ("1.13",),
    r"tcp_cm\.c:557": ("1.13",),
    # An event of a rejected request's descriptor reaches the next request, whose descriptor has the
    # same number.
    r"tcp_sockcm_ep\.c:416": ("1.13",),
    r"wireup_ep\.c:241": ("1.13",),
    # As the last one, where the socket reports it.
    r"tcp_iface\.c:307": ("1.13",),
    # As the crashes below: an endpoint that is freed already.
    r"iovec\.c:62": ("1.13",),
    r"stubs\.c:96": ("1.13",),
    r"stubs\.c:102": ("1.13",),
    # A TCP connection that was refused too often is taken down with messages that wait for it.
    r"UCX_TCP_MAX_CONN_RETRIES[\s\S]*stubs\.c:107": ("1.21",),
    # Over TCP the owner of memory answers puts and gets of a process that was killed, whose
    # connection has failed the moment before. Not avoided by the library yet: whoever may use the
    # memory can end its owner.
    r"ucp_request\.inl:\d+ +Fatal: unexpected error: Endpoint timeout": ("1.13", "1.21", "1.22"),
}
# Invalid accesses: what is on the stack of the thread that did it, from the innermost on.
CRASHES = {
    # The descriptor of an endpoint that was closed by force, with its socket full, is still waited
    # at.
    "TCP events of a freed endpoint": (
        r"(#\d+ .* uct_tcp_iface_handle_events|#1 .*\n#\d+ .* ucs_event_set_wait).*\n(#.*\n){0,2}#\d+ .* uct_tcp_iface_progress",
        ("1.13", "1.21", "1.22"),
    ),
    "flush of a freed endpoint": (
        r"#0 .* ucp_ep_num_lanes .*\n(#.*\n)?#\d+ .* ucp_ep_flush_progress",
        ("1.21", "1.22"),
    ),
    # As the last one of those above.
    "answer to a get of a process that was killed": (
        r"#0 .* ucp_request_dt_dereg .*\n(#.*\n){0,3}#\d+ .* ucp_request_send_state_ff",
        ("1.21", "1.22"),
    ),
}
# The same for aborts that say too little of themselves.
ABORTED_AT = {
    # Both events of one endpoint at once: the first one, a connection that was refused, has taken
    # it down.
    "TCP events of a freed endpoint": (
        r"#\d+ .* (__GI___libc_free|ucs_empty_function_do_assert|ucs_arbiter_cleanup) .*\n(#\d+ .* ?uct_tcp_iface_handle_events .*\n){1,2}#\d+ .* ucs_event_set_wait",
        ("1.21", "1.22"),
    ),
}

# Those of ABORTS that meet tests in which no process is killed and no endpoint closed by force, and
# the names of the tests that go over TCP.
IN_TESTS = {
    # A worker is destroyed while UCX 1.13 still connects.
    r"ucp_request\.c:684": r"[._](tcp|default|hosts|mixed|asked)$|_valgrind_tcp$",
}
# And those of a tool whose peer is killed just after it has been connected to.
IN_TOOLS_RELEASES = ("1.13",)
IN_TOOLS = r"(ucp_request\.c:684|tcp_iface\.c:307|wireup_ep\.c:241) +Assertion"


def abort(said, ucx):
    """The line of UCX's at which a process aborted, by what it wrote; None where it is none of
    those known in this release."""
    for pattern, releases in ABORTS.items():
        if ucx.startswith(releases) and re.search(pattern, said):
            return pattern.replace("\\", "")
    return None


def crash(stack, ucx, aborted=False):
    """The name of the known crash, by the stack of the thread that crashed, or that aborted; None
    where it is none."""
    for name, (pattern, releases) in (ABORTED_AT if aborted else CRASHES).items():
        if ucx.startswith(releases) and re.search(pattern, stack):
            return name
    return None


# What a test says when it has found something itself, or hangs, and what those say that look on.
COMPLAINTS = re.compile(
    r"^  step: |hangs in step|Sanitizer|runtime error:|panicked|Invalid (read|write)|uninitialised|(definitely|indirectly) lost"
    r"|ended with status (124|137)",
    re.MULTILINE,
)
# But for a launcher's word that a member aborted.
MEMBER_ABORTED = re.compile(r"^.*rank \d+ ended with 0x[08]?6\n  step: .*\n", re.MULTILINE)


def in_test(name, said, ucx):
    """The line of UCX's that ended a test, of those known for it; None where the test has failed by
    anything else."""
    if COMPLAINTS.search(MEMBER_ABORTED.sub("", said)):
        return None
    for pattern, tests in IN_TESTS.items():
        found = re.search(r"^\[.*\] +(%s) +Assertion" % pattern, said, re.MULTILINE)
        if found and ucx.startswith(ABORTS[pattern]) and re.search(tests, name):
            return found.group(1)
    return None


def in_tool(said, ucx):
    """The line of UCX's that ended a tool, of those known for it; None where that is another
    one."""
    found = re.search(IN_TOOLS, said)
    return found.group(1) if found and ucx.startswith(IN_TOOLS_RELEASES) else None
