"""A peer that is connected and sends nothing."""

import signal

from rounds import NANO
from scenarios import scenario

# A close by force may wait a second for the other side's answer.
SOON = 1.5


@scenario()
def stopped(r):
    """SIGSTOP and SIGCONT without liveness_ns: everything waits, nothing is lost."""
    transports = r.take_part()
    peer = r.guest("peer", transports)
    count, size = r.load(8 << 20)
    places = []
    for actor in r.involve():
        here, there = r.join(actor, peer)
        group = r.group()
        places.append((actor, here, there, group))
        r.greet_ends(actor, here, peer, there)
        actor.call("recv", group=group, count=count, size=size, tag=7, **{"from": here})
        peer.call("recv", group=group, count=count, size=size, tag=8)
        peer.call("send", ep=there, group=group, count=count, size=size, tag=7, sender=peer.number)
    for actor, here, _, group in places:
        actor.post("send", ep=here, group=group, count=count, size=size, tag=8, sender=actor.number)
    r.pause()
    r.hold_up(peer)
    for actor, _, _, group in places:
        actor.result()
        r.drained(actor, group)
        r.drained(peer, group)
    r.part([(actor, here) for actor, here, _, _ in places], peer)


@scenario()
def stopped_liveness(r):
    """SIGSTOP with liveness_ns: the endpoint is given up with TIMED_OUT.

    SIGCONT afterwards is harmless.
    """
    transports = r.take_part()
    peer = r.guest("peer", transports)
    count, size = r.load(8 << 20)
    liveness = r.choose("liveness", (1.5, 2.0, 3.0))
    places = []
    for actor in r.involve():
        here, there = r.join(actor, peer, liveness=int(liveness / NANO))
        group = r.group()
        places.append((actor, here, group))
        r.greet_ends(actor, here, peer, there)
        peer.call("recv", group=500, count=count, size=size, tag=8)
    # A message announced to it may still be read when it continues.
    r.cut_short.add(500)
    r.pause()
    since = r.strike(peer, signal.SIGSTOP)
    for actor, here, group in places:
        # A synchronous send: outstanding on every transport.
        actor.call(
            "send",
            ep=here,
            group=group,
            count=count,
            size=size,
            tag=8,
            handle=r.handle(),
            sync=1,
            sender=actor.number,
        )
    r.ended(places, since, ("OK", "TIMED_OUT"), 1.5 * liveness + SOON)
    r.strike(peer, signal.SIGCONT)
    r.leave(peer)


@scenario("link")
def cut_link(r):
    """The network between two hosts is cut.

    Without liveness_ns everything waits, and arrives if the link is back before TCP gives up.
    """
    network, transports = r.pools["link"].network, r.take_part("link")
    peer = r.guest("peer", transports, prefix=network.prefix("far"))
    how = r.choose("how", ("down", "loss", "one way"))
    liveness = r.choose("liveness", (0, 1.5, 3.0))
    count, size = r.load(1 << 20)
    places = []
    for actor in r.involve():
        here, there = r.join(
            actor, peer, **({"liveness": int(liveness / NANO)} if liveness else {})
        )
        group = r.group()
        places.append((actor, here, there, group))
        r.greet_ends(actor, here, peer, there)
        peer.call("recv", group=group, count=count, size=size, tag=8, **{"from": there})
    network.cut(how)
    try:
        since = r.now(peer)
        for actor, here, _, group in places:
            actor.post(
                "send",
                ep=here,
                group=group,
                count=count,
                size=size,
                tag=8,
                handle=r.handle(),
                sync=1,
                sender=actor.number,
            )
        for actor, _, _, _ in places:
            actor.result()
        if liveness:
            r.ended(
                [(actor, here, group) for actor, here, _, group in places],
                since,
                ("OK", "TIMED_OUT"),
                1.5 * liveness + SOON,
            )
        else:
            r.rest(2)
        # During the cut the processes on this side exchange messages.
        r.greet(r.among())
    finally:
        network.restore(how)
    for actor, here, there, group in places:
        if liveness:
            # The peer's side is notified when packets arrive again, by TCP at least, or has given
            # up itself.
            r.closed(peer, there, allowed=("TIMED_OUT", "PEER_FAILED", "CONNECTION_RESET"))
            r.drained(peer, group, allowed=("OK", "TIMED_OUT", "PEER_FAILED", "CONNECTION_RESET"))
        else:
            r.drained(actor, group)
            r.drained(peer, group)
    if liveness:
        r.leave(peer)
    else:
        r.part([(actor, here) for actor, here, _, _ in places], peer)
