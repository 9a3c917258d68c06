"""Connections by host and port that fail."""

import signal

from rounds import DEATH, NANO
from scenarios import scenario

OVER = ("tcp", "default")
NOBODY = ("REJECTED", "UNREACHABLE", "PEER_FAILED", "CONNECTION_RESET")


def clients(r, server, port, **params):
    """Survivors connect, with sends that wait for the connection."""
    places = []
    for actor in r.involve():
        endpoint, group = actor.next_id(), r.group()
        actor.call("connect", ep=endpoint, port=port, **params)
        places.append((actor, endpoint, group))
        for _ in range(r.choose("sends", (0, 1, 20))):
            actor.call(
                "send",
                ep=endpoint,
                group=group,
                count=1,
                size=1000,
                tag=8,
                handle=r.handle(),
                sender=actor.number,
            )
        if r.choose("receives", (True, False)):
            actor.call("recv", group=group, count=3, size=1000, tag=7, **{"from": endpoint})
    return places


def server_of(r, answer, **params):
    transports = r.take_part(r.choose("transports", OVER))
    server = r.guest("server", transports)
    port = server.call("listen", answer=answer, first=100)["port"]
    return server, clients(r, server, port, **params)


def asked(r, server, count):
    for number in range(count):
        server.wait("asked", n=number, limit=10)


@scenario()
def reject(r):
    """The listener rejects, in its callback or later."""
    later = r.choose("later", (True, False))
    server, places = server_of(r, "hold" if later else "reject")
    if later:
        asked(r, server, len(places))
        server.call("held", how=r.choose("how", ("reject", "destroy")))
    r.ended(places, None, ("OK", "REJECTED"), None, statuses=("REJECTED",))
    r.leave(server)


@scenario()
def unlisten(r):
    """A listener is destroyed with requests that nobody has answered."""
    server, places = server_of(r, "hold")
    asked(r, server, r.choose("asked", range(len(places) + 1)))
    server.call("unlisten")
    server.call("held", how="destroy")
    r.ended(places, None, ("OK",) + NOBODY, None, statuses=NOBODY)
    r.leave(server)


def let_in(r, server, first):
    """A survivor connects to a listening server, and they exchange messages; returns the survivor
    and both endpoints.
    """
    actor = r.survivors[r.choose(f"let_in_{first}", range(len(r.survivors)))]
    here = actor.next_id()
    port = r.let_in(server, first, actor, here)
    r.greet_ends(actor, here, server, first)
    return port, (actor, here, first)


@scenario()
def refused_port(r):
    """Nobody listens at a port any more.

    New connections are refused, and accepted ones keep working.
    """
    transports = r.take_part(r.choose("transports", OVER))
    server = r.guest("server", transports)
    port, before = let_in(r, server, 100)
    server.call("unlisten")
    began = r.now(server)
    r.ended(clients(r, server, port), began, ("UNREACHABLE",), DEATH, statuses=("UNREACHABLE",))
    connected = [before]
    if r.choose("listens_again", (True, False)):
        connected.append(let_in(r, server, 200)[1])
        server.call("unlisten")
    for actor, here, there in connected:
        r.greet_ends(actor, here, server, there)
    r.part([(actor, here) for actor, here, _ in connected], server)


@scenario()
def close_connecting(r):
    """Closing before the listener has answered."""
    server, places = server_of(r, "hold")
    r.pause()
    how = r.choose("how", ("flush", "force", "drop"))
    began = r.now(server)
    for actor, endpoint, group in places:
        if how == "drop":
            actor.post("drop", ep=endpoint)
        else:
            actor.post("close", ep=endpoint, group=group, how=how, handle=r.handle())
    for actor, endpoint, group in places:
        values = actor.result()
        if how == "drop":
            r.took("drop", int(values["took"]) * NANO, 4.0, actor)
        else:
            r.closed(
                actor, endpoint, began, allowed=("OK", "TIMED_OUT"), figure="closed", bound=4.0
            )
        r.drained(
            actor,
            group,
            began,
            allowed=("OK", "CANCELED", "CLOSED", "TIMED_OUT"),
            figure="complete",
            bound=4.0,
        )
        if how != "drop":
            r.drop(actor, endpoint, 1.0)
    server.call("held", how=r.choose("held", ("accept", "reject", "destroy")))
    r.leave(server)


@scenario()
def kill_listener(r):
    """The listening process is killed while clients connect."""
    server, places = server_of(r, r.choose("answer", ("hold", "accept")))
    r.pause()
    r.ended(places, r.strike(server, signal.SIGKILL), ("OK",) + NOBODY, DEATH, statuses=NOBODY)


@scenario()
def connect_timeout(r):
    """A listener whose process does not answer, and a connect timeout."""
    transports = r.take_part(r.choose("transports", OVER))
    server = r.guest("server", transports)
    port = server.call("listen", answer="hold")["port"]
    limit = r.choose("timeout", (0.05, 0.5))
    if r.choose("stopped", (True, False)):
        r.strike(server, signal.SIGSTOP)
    began = r.now(server)
    places = clients(r, server, port, timeout=int(limit / NANO))
    r.ended(places, began, ("OK", "TIMED_OUT"), limit + 2.0)
    r.strike(server, signal.SIGCONT)
    if r.choose("then", ("leave", "kill")) == "leave":
        r.leave(server)


@scenario()
def kill_client(r):
    """Clients of a survivor's listener are killed while they connect, and afterwards."""
    transports = r.take_part(r.choose("transports", OVER))
    server = r.involve(1)[0]
    first = server.next_id()
    server.ids += 16
    port = server.call("listen", answer="accept", first=first)["port"]
    victims = [
        r.guest(f"victim{number}", transports) for number in range(r.choose("victims", (1, 2, 3)))
    ]
    for victim in victims:
        victim.call("connect", ep=900, port=port)
        victim.post(
            "send",
            ep=900,
            count=r.choose("count", (1, 100)),
            size=r.choose("size", (8, 20000)),
            tag=7,
            sender=victim.number,
        )
    r.flooded.append(server)
    r.pause()
    killed = [r.strike(victim, signal.SIGKILL) for victim in victims]
    # Connection requests in flight are accepted after the death of the client, which the endpoint
    # then detects.
    r.rest(0.3)
    server.call("unlisten")
    for event in [
        event for event in server.events if event["what"] == "accepted" and event["status"] == "OK"
    ]:
        r.closed(
            server,
            event["ep"],
            killed[-1],
            allowed=("PEER_FAILED", "CONNECTION_RESET", "UNREACHABLE"),
            figure="closed",
            bound=DEATH,
        )
        r.drop(server, event["ep"], 1.0)
