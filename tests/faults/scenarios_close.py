"""Endpoints and workers are closed with operations in flight."""

import signal

from rounds import DEATH, FORCE, NANO
from scenarios import scenario
from scenarios_kill import receive

# Three seconds without any progress, and one for the rest.
CLOSE = 4.0
# A receive that named the endpoint ends with CLOSED.
CUT = ("OK", "CANCELED", "CLOSED", "CONNECTION_RESET")


def traffic(r, places, peer, count, size):
    """Messages both ways between each (actor, here, there, group) and the peer."""
    for actor, here, there, group in places:
        receive(r, actor, here, group, count, size)
        receive(r, peer, there, group, count, size, tag=8)
        peer.post("send", ep=there, group=group, count=count, size=size, tag=7, sender=peer.number)
        actor.post(
            "send",
            ep=here,
            group=group,
            count=count,
            size=size,
            tag=8,
            handle=r.handle(),
            sender=actor.number,
        )


def link(r, transports, **params):
    peer = r.guest("peer", transports)
    places = []
    greeted = r.choose("greeted", (True, True, False))
    for actor in r.involve():
        here, there = r.join(actor, peer, **params)
        places.append((actor, here, there, r.group()))
        if greeted:
            r.greet_ends(actor, here, peer, there)
    return peer, places


def close(r, actor, endpoint, group, how):
    actor.post("close", ep=endpoint, group=group, how=how, handle=r.handle())


@scenario()
def close_both(r):
    """Both sides close at once, by flush or by force, with messages in flight."""
    transports = r.take_part()
    count, size = r.load()
    peer, places = link(r, transports)
    traffic(r, places, peer, count, size)
    how_here, how_there = (
        r.choose("how_here", ("flush", "force")),
        r.choose("how_there", ("flush", "force")),
    )
    if "force" in (how_here, how_there):
        r.cut_short.update(group for _, _, _, group in places)
    r.pause()
    began = r.now(peer)
    for actor, here, there, group in places:
        close(r, peer, there, group, how_there)
        close(r, actor, here, group, how_here)
    for actor, _, _, _ in places:
        for _ in range(2):
            actor.result()
            peer.result()
    allowed = CUT + ("TIMED_OUT",)
    for actor, here, there, group in places:
        for side, endpoint in ((actor, here), (peer, there)):
            r.closed(side, endpoint, began, allowed=allowed, figure="closed", bound=None)
            r.drained(side, group, began, allowed=allowed, figure="complete", bound=None)
            r.drop(side, endpoint, 1.0)


@scenario()
def force_in_transfer(r):
    """One side closes by force during large messages; the other one stays."""
    transports = r.take_part()
    size = r.choose("size", (262144, 1 << 20, 8 << 20, 64 << 20))
    count = min(r.choose("count", (1, 4, 20)), (128 << 20) // size)
    peer, places = link(r, transports)
    traffic(r, places, peer, count, size)
    r.cut_short.update(group for _, _, _, group in places)
    r.pause()
    began = r.now(peer)
    closers, stayers = [], []
    for actor, here, there, group in places:
        sides = [(actor, here, group), (peer, there, group)]
        first = r.choose("closer", (0, 1))
        closers.append(sides[first])
        stayers.append(sides[1 - first])
        close(r, *sides[first], "force")
    for actor, here, there, group in places:
        peer.result()
        actor.result()
    for actor, _, _ in closers:
        actor.result()
    for actor, endpoint, group in closers:
        r.closed(actor, endpoint, began, allowed=CUT, figure="closed", bound=FORCE)
        r.drained(actor, group, began, allowed=CUT, figure="complete", bound=FORCE)
        r.drop(actor, endpoint, 1.0)
    for actor, endpoint, group in stayers:
        r.closed(actor, endpoint, began, allowed=("CONNECTION_RESET",), figure="heard", bound=FORCE)
        r.drained(actor, group, began, allowed=CUT, figure="heard", bound=FORCE)
    for actor, endpoint, _ in stayers:
        r.drop(actor, endpoint, 1.0)


@scenario()
def close_in_callback(r):
    """The callback of a receive closes its endpoint, with more in flight."""
    transports = r.take_part()
    count, size = r.load(1 << 20)
    peer, places = link(r, transports)
    how = r.choose("how", ("flush", "force"))
    r.cut_short.update(group for *_, group in places)
    began = r.now(peer)
    for actor, here, there, group in places:
        actor.call(
            "recv",
            group=group,
            count=count,
            size=size,
            tag=7,
            always=1,
            closing=how,
            handle=r.handle(),
            **{"from": here},
        )
        receive(r, peer, there, group, count, size, tag=8)
        actor.call(
            "send",
            ep=here,
            group=group,
            count=count,
            size=size,
            tag=8,
            handle=r.handle(),
            sender=actor.number,
        )
    for _, _, there, group in places:
        peer.call("send", ep=there, group=group, count=count, size=size, tag=7, sender=peer.number)
    for actor, here, there, group in places:
        r.closed(actor, here, began, allowed=("OK", "TIMED_OUT"), figure="closed")
        r.closed(peer, there, began, allowed=("CONNECTION_RESET",), figure="heard")
        r.drained(actor, group, began, allowed=CUT, figure="complete")
        r.drained(peer, group, began, allowed=CUT, figure="complete")
        r.drop(actor, here, 1.0)
        r.drop(peer, there, 1.0)


@scenario()
def close_unserved(r):
    """Closing while the peer never progresses: bounded, and harmless when it resumes."""
    transports = r.take_part()
    count, size = r.load(8 << 20)
    peer, places = link(r, transports)
    peer.call("drive", how="idle")
    idle = peer.mode != "thread"
    for actor, here, _, group in places:
        receive(r, actor, here, group, r.choose("receives", (0, 10)), 4096)
        actor.call(
            "send",
            ep=here,
            group=group,
            count=count,
            size=size,
            tag=8,
            handle=r.handle(),
            sender=actor.number,
        )
    r.cut_short.update(group for _, _, _, group in places)
    how = r.choose("how", ("flush", "force", "drop"))
    began = r.now(peer)
    for actor, here, _, group in places:
        if how == "drop":
            actor.post("drop", ep=here)
        else:
            close(r, actor, here, group, how)
    for actor, here, _, group in places:
        if how == "drop":
            r.took("drop", int(actor.result()["took"]) * NANO, CLOSE if idle else None, actor)
        else:
            actor.result()
            r.closed(
                actor,
                here,
                began,
                allowed=("OK", "TIMED_OUT", "CONNECTION_RESET"),
                figure="closed",
                bound=CLOSE if idle else None,
            )
        r.drained(
            actor,
            group,
            began,
            allowed=CUT + ("TIMED_OUT",),
            figure="complete",
            bound=CLOSE if idle else None,
        )
        if how != "drop":
            r.drop(actor, here, 1.0)
    if idle:
        peer.call("drive", how="spin")
    # A longer message arrives in pieces. A receive that matched one whose rest never arrives is
    # lost in UCX, unless it names its endpoint: see docs/known-issues.md.
    if r.choose("receives_late", (True, False)) and size <= 4096:
        for _, _, there, group in places:
            peer.call("recv", group=group, count=count, size=size, tag=8)
        for _, _, there, group in places:
            peer.call("cancel", group=group)
            r.drained(peer, group, allowed=CUT + ("TIMED_OUT", "PEER_FAILED"))
    r.leave(peer)


@scenario()
def destroy_worker(r):
    """A worker is destroyed with everything in flight."""
    transports = r.take_part()
    count, size = r.load()
    peer, places = link(r, transports)
    traffic(r, places, peer, count, size)
    r.cut_short.update(group for _, _, _, group in places)
    r.pause()
    peer.post("destroy")
    for actor, _, _, _ in places:
        peer.result()
    r.took("destroy", int(peer.result()["took"]) * NANO, 3.0, peer)
    began = r.now(peer)
    for actor, _, there, group in places:
        actor.result()
        r.closed(peer, there, allowed=("OK", "CANCELED", "CLOSED"))
        r.drained(peer, group, allowed=CUT)
    how = r.choose("then", ("quit", "leave"))
    peer.post(how)
    if how == "leave":
        r.left(peer)
    died = ("OK", "CONNECTION_RESET", "PEER_FAILED")
    r.ended(
        [(actor, here, group) for actor, here, _, group in places],
        began,
        died,
        2.0,
        statuses=("PEER_FAILED", "CONNECTION_RESET"),
    )


@scenario()
def close_and_again(r):
    """Many short connections one after the other."""
    transports = r.take_part()
    peer = r.guest("peer", transports)
    for _ in range(r.choose("times", (3, 10))):
        actor = r.involve(1)[0]
        here, there = r.join(actor, peer)
        if r.choose("greeted", (True, False)):
            r.greet_ends(actor, here, peer, there)
        r.part([(actor, here)], peer, [there])
    r.leave(peer)


@scenario()
def unnoticed(r):
    """Endpoints without error handling detect no death.

    The worker's destruction completes their operations, in bounded time.
    """
    transports = r.take_part()
    count, size = r.load(8 << 20)
    witness, victim = r.guest("witness", transports), r.guest("victim", transports)
    here, there = witness.next_id(), victim.next_id()
    witness.call("ep", ep=here, address=victim.address, errors="none")
    victim.call("ep", ep=there, address=witness.address, errors="none")
    group = r.group()
    if r.choose("greeted", (True, True, False)):
        r.greet_ends(witness, here, victim, there)
    receive(r, witness, here, group, count, size)
    witness.post(
        "send",
        ep=here,
        group=group,
        count=count,
        size=size,
        tag=8,
        handle=r.handle(),
        sender=witness.number,
    )
    r.pause()
    if r.choose("killed", (True, False)):
        r.strike(victim, signal.SIGKILL)
    witness.result()
    witness.post("destroy")
    r.took("destroy", int(witness.result()["took"]) * NANO, 3.0, witness)
    # TCP reports a death all the same.
    r.closed(witness, here, allowed=("OK", "CANCELED", "CLOSED", "PEER_FAILED"))
    r.drained(witness, group, allowed=CUT + ("PEER_FAILED",))


@scenario()
def ok_and_gone(r):
    """A peer is killed as soon as a call that promises delivery has returned OK.

    Everything that it sent must have arrived.
    """
    transports = r.take_part()
    count, size = r.load(1 << 20)
    peer, places = link(r, transports)
    # Over TCP the kernel drops unread data when a process exits that has not read all of its own: a
    # flush needs a close.
    how = r.choose(
        "told_by", ("close", "drop", "flush") if transports == "shm" else ("close", "drop")
    )
    told = r.group()
    for actor, here, there, group in places:
        receive(r, actor, here, group, count, size)
        peer.call(
            "send",
            ep=there,
            group=told,
            count=count,
            size=size,
            tag=7,
            handle=r.handle(),
            sender=peer.number,
        )
    for _, _, there, _ in places:
        if how == "drop":
            peer.call("drop", ep=there)
        else:
            peer.call(
                how,
                ep=there,
                group=told,
                handle=r.handle(),
                **({"how": "flush"} if how == "close" else {}),
            )
    r.drained(peer, told)
    gone = r.strike(peer, signal.SIGKILL)
    for actor, here, _, group in places:
        r.drained(actor, group, gone, figure="complete")
        r.closed(
            actor,
            here,
            gone,
            allowed=("CONNECTION_RESET", "PEER_FAILED"),
            figure="closed",
            bound=DEATH,
        )
        r.drop(actor, here, 1.0)
