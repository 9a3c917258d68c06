"""A peer's process ends without closing anything."""

import signal

from actors import Violation
from rounds import DEATH
from scenarios import scenario

DIED = ("OK", "PEER_FAILED")
ENDPOINTS = 500


def receive(r, actor, endpoint, group, count, size, tag=7):
    """Receives that end with their endpoint."""
    if count > 0:
        actor.call(
            "recv",
            group=group,
            count=count,
            size=size,
            tag=tag,
            handle=r.handle(),
            **{"from": endpoint},
        )


def flood(r, victim, there, actor, here, group, count, size):
    """The victim sends to a survivor, and is killed meanwhile."""
    receive(r, actor, here, group, count, size)
    r.flooded.append(actor)
    victim.post("send", ep=there, count=count, size=size, tag=7, group=501, sender=victim.number)


@scenario()
def kill_idle(r):
    """SIGKILL of a peer with nothing in flight."""
    transports = r.take_part()
    victim = r.guest("victim", transports)
    places = []
    for actor in r.involve():
        here, there = r.join(actor, victim, drop_on_close=r.choose("drop_on_close", (0, 0, 1)))
        places.append((actor, here, r.group()))
        if r.choose("greeted", (True, True, False)):
            r.greet_ends(actor, here, victim, there)
        receive(r, actor, here, places[-1][2], r.choose("receives", (0, 1, 100)), 4096)
    r.pause()
    r.ended(places, r.strike(victim, signal.SIGKILL), DIED, DEATH)


@scenario()
def kill_sender(r):
    """SIGKILL of a peer that sends to survivors."""
    transports = r.take_part()
    victim = r.guest("victim", transports)
    count, size = r.load()
    places = []
    greeted = r.choose("greeted", (True, True, False))
    for actor in r.involve():
        here, there = r.join(actor, victim)
        places.append((actor, here, r.group()))
        if greeted:
            r.greet_ends(actor, here, victim, there)
        flood(r, victim, there, actor, here, places[-1][2], count, size)
    r.pause()
    r.ended(places, r.strike(victim, signal.SIGKILL), DIED, DEATH)


@scenario()
def kill_receiver(r):
    """SIGKILL of a peer to which survivors send; it may receive, or leave everything waiting."""
    transports = r.take_part()
    victim = r.guest("victim", transports)
    count, size = r.load()
    places = []
    greeted, receives = (
        r.choose("greeted", (True, True, False)),
        r.choose("receives", (True, True, False)),
    )
    for actor in r.involve():
        here, there = r.join(actor, victim, drop_on_close=r.choose("drop_on_close", (0, 0, 1)))
        places.append((actor, here, r.group()))
        if greeted:
            r.greet_ends(actor, here, victim, there)
        if receives:
            victim.post("recv", count=count, size=size, tag=7, group=500)
    for actor, here, group in places:
        actor.post(
            "send",
            ep=here,
            count=count,
            size=size,
            tag=7,
            group=group,
            handle=r.handle(),
            sync=r.choose("sync", (0, 0, 1)),
            sender=actor.number,
        )
    r.pause()
    killed = r.strike(victim, signal.SIGKILL)
    for actor, _, _ in places:
        actor.result()
    r.ended(places, killed, DIED, DEATH)


@scenario()
def kill_both_ways(r):
    """SIGKILL during messages both ways, with flushes in flight."""
    transports = r.take_part()
    victim = r.guest("victim", transports)
    count, size = r.load(1 << 20)
    places = []
    for actor in r.involve():
        here, there = r.join(actor, victim)
        places.append((actor, here, r.group(), r.group(), r.group()))
        victim.call("recv", count=count, size=size, tag=8, group=500)
        flood(r, victim, there, actor, here, places[-1][2], count, size)
    for actor, here, _, sends, flushes in places:
        actor.post(
            "send",
            ep=here,
            count=count,
            size=size,
            tag=8,
            group=sends,
            handle=r.handle(),
            sender=actor.number,
        )
        actor.post("flush", ep=here, group=flushes, handle=r.handle())
    r.pause()
    killed = r.strike(victim, signal.SIGKILL)
    for actor, *_ in places:
        actor.result()
        actor.result()
    r.ended(places, killed, DIED, DEATH)


@scenario()
def exit_open(r):
    """A peer's process exits by itself, with everything open and in flight."""
    transports = r.take_part()
    victim = r.guest("victim", transports)
    count, size = r.load(1 << 20)
    places = []
    for actor in r.involve():
        here, there = r.join(actor, victim)
        places.append((actor, here, r.group()))
        receive(r, actor, here, places[-1][2], count, size)
        victim.call(
            "send", ep=there, count=count, size=size, tag=7, group=501, sender=victim.number
        )
    began = r.now(victim)
    victim.post("quit")
    r.ended(places, began, DIED, DEATH, statuses=("PEER_FAILED", "CONNECTION_RESET"))


@scenario()
def kill_many(r):
    """Several peers at once, over endpoints of one worker, while another keeps working."""
    transports = r.take_part()
    victims = [
        r.guest(f"victim{number}", transports) for number in range(r.choose("victims", (2, 3, 4)))
    ]
    actor = r.involve(1)[0]
    count, size = r.load(1 << 20)
    places = []
    for victim in victims:
        here, _ = r.join(actor, victim)
        places.append((actor, here, r.group()))
        actor.call(
            "send",
            ep=here,
            count=min(count, 1000),
            size=size,
            tag=9,
            group=places[-1][2],
            handle=r.handle(),
            sender=actor.number,
        )
        receive(r, actor, here, places[-1][2], 10, 4096)
    other, endpoint = next(iter(actor.mesh.items()))
    going_on = r.group()
    other.call("recv", count=200, size=4096, tag=77, group=going_on)
    actor.call(
        "send", ep=endpoint, count=200, size=4096, tag=77, group=going_on, sender=actor.number
    )
    r.pause()
    killed = [r.strike(victim, signal.SIGKILL) for victim in victims]
    r.ended(places, killed[-1], DIED, DEATH)
    r.drained(actor, going_on)
    r.drained(other, going_on)


@scenario()
def kill_half(r):
    """Half of the peers on five hundred endpoints of one worker are killed at once.

    The others exchange messages meanwhile.
    """
    transports = r.take_part()
    actor = r.involve(1)[0]
    peers = [
        r.guest(f"peer{number}", transports) for number in range(r.choose("peers", (6, 8, 10)))
    ]
    back = r.choose("back", (0, 1))
    r.parameters["endpoints"] = ENDPOINTS
    places = {peer: [] for peer in peers}
    groups = {peer: r.group() for peer in peers}
    for number in range(ENDPOINTS):
        peer = peers[number % len(peers)]
        places[peer].append(actor.next_id())
        actor.post("ep", ep=places[peer][-1], address=peer.address)
        if back:
            # Otherwise the peer's library keeps these endpoints to itself.
            peer.post("ep", ep=peer.next_id(), address=actor.address)
    for number in range(ENDPOINTS):
        for side in [actor] + ([peers[number % len(peers)]] if back else []):
            if "failed" in (answer := side.result()):
                raise Violation("survivors", f"{side.name}: no endpoint: {answer}", side)
    r.greet(
        [
            (actor, endpoint, peer)
            for peer in peers
            for endpoint in (places[peer][0], places[peer][-1])
        ]
    )
    dead, alive = peers[::2], peers[1::2]
    size, count = r.choose("size", (8, 8192, 262144)), r.choose("count", (1, 4))
    for peer in dead:
        # Synchronous sends that nobody receives.
        for endpoint in places[peer]:
            actor.post(
                "send",
                ep=endpoint,
                count=count,
                size=size,
                tag=9,
                sync=1,
                group=groups[peer],
                handle=r.handle(),
                sender=actor.number,
            )
            actor.post(
                "recv",
                count=1,
                size=8,
                tag=10,
                group=groups[peer],
                handle=r.handle(),
                **{"from": endpoint},
            )
    for peer in dead:
        for _ in range(2 * len(places[peer])):
            actor.result()
    for peer in alive:
        peer.call("recv", count=len(places[peer]), size=4096, tag=7, group=1)
    r.pause()
    killed = [r.strike(peer, signal.SIGKILL) for peer in dead]
    for peer in alive:
        for endpoint in places[peer]:
            actor.post(
                "send",
                ep=endpoint,
                count=1,
                size=4096,
                tag=7,
                group=groups[peer],
                sender=actor.number,
            )
    r.ended(
        [(actor, endpoint) for peer in dead for endpoint in places[peer]], killed[-1], DIED, DEATH
    )
    for peer in dead:
        r.drained(
            actor,
            groups[peer],
            killed[-1],
            allowed=("PEER_FAILED",),
            figure="complete",
            bound=DEATH,
        )
    for peer in alive:
        for endpoint in places[peer]:
            actor.result()
        r.drained(actor, groups[peer])
        r.drained(peer, 1)
        for endpoint in places[peer]:
            if actor.call("status", ep=endpoint)["status"] != "OK":
                r.fail("survivors", f"{actor.name}: an endpoint to a live peer has closed")
    for peer in alive:
        r.part([(actor, endpoint) for endpoint in places[peer]], peer)
