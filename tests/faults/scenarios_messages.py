"""A peer's process is killed or stopped, or a connection is closed, with active messages and
fetches in flight.
"""

import signal

from rounds import DEATH
from scenarios import scenario
from scenarios_close import CUT, close
from scenarios_kill import DIED

KEEPING = ("read", "keep", "pull", "mixed")
ANSWERING = ("now", "later", "never")


def between(r, **served):
    """A victim and the survivors connected to it: each (actor, its endpoint, the victim's endpoint,
    the group of its handlers' operations).
    """
    victim = r.guest("victim", r.take_part())
    places = []
    for actor in r.involve():
        here, there = r.join(actor, victim)
        places.append((actor, here, there, r.group()))
        actor.call("serve", group=places[-1][3], sender=actor.number, **served)
    victim.call("serve", group=500, sender=victim.number, **served)
    if r.choose("greeted", (True, True, False)):
        for actor, here, there, _ in places:
            r.greet_ends(actor, here, victim, there)
    return victim, places


def victims_turn(r, victim, places, verb, count, size):
    """The victim sends, and is killed meanwhile."""
    for actor, _, there, _ in places:
        r.flooded.append(actor)
        victim.post(
            verb,
            ep=there,
            count=count,
            size=size,
            mixed=r.choose("mixed", (0, 1)),
            group=501,
            sender=victim.number,
        )
    r.pause()
    killed = r.strike(victim, signal.SIGKILL)
    r.ended([(actor, here, group) for actor, here, _, group in places], killed, DIED, DEATH)


def survivors_turn(r, victim, places, verb, count, size, allowed=DIED):
    """The survivors send; the victim is killed before, while or after it handles that."""
    groups = []
    for actor, here, _, group in places:
        groups.append((actor, here, group, r.group()))
        actor.post(
            verb,
            ep=here,
            count=count,
            size=size,
            mixed=r.choose("mixed", (0, 1)),
            group=groups[-1][3],
            handle=r.handle(),
            sender=actor.number,
        )
    r.pause()
    killed = r.strike(victim, signal.SIGKILL)
    for actor, *_ in places:
        actor.result()
    r.ended(groups, killed, allowed, DEATH, statuses=DIED[1:])


@scenario()
def kill_active_sender(r):
    """SIGKILL of a peer that sends active messages, which survivors read, keep or pull."""
    count, size = r.load()
    victims_turn(r, *between(r, messages=r.choose("messages", KEEPING)), "active", count, size)


@scenario()
def kill_active_receiver(r):
    """SIGKILL of a peer that reads, keeps or pulls the survivors' active messages."""
    count, size = r.load()
    survivors_turn(r, *between(r, messages=r.choose("messages", KEEPING)), "active", count, size)


@scenario()
def kill_answerer(r):
    """SIGKILL of a peer that answers the survivors' fetches, at once, later or never."""
    count, size = r.load()
    victim, places = between(r, questions=r.choose("questions", ANSWERING))
    # Its replies may be what it was sending.
    r.flooded.extend(actor for actor, *_ in places)
    # A peer that never answers destroys the oldest fetch when it has too many.
    survivors_turn(
        r,
        victim,
        places,
        "fetch",
        count,
        size,
        (*DIED, "CANCELED") if r.parameters["questions"] == "never" else DIED,
    )


@scenario()
def kill_asker(r):
    """SIGKILL of a peer whose fetches survivors answer at once, later or never."""
    count, size = r.load()
    victims_turn(r, *between(r, questions=r.choose("questions", ANSWERING)), "fetch", count, size)


def both_turns(r, peer, places, count, size):
    """Messages and fetches from either side; each (sender, the group of what it sends)."""
    sent = []
    for actor, here, there, _ in places:
        for sender, endpoint in ((actor, here), (peer, there)):
            for verb in ("active", "fetch"):
                sent.append((sender, endpoint, r.group()))
                sender.post(
                    verb,
                    ep=endpoint,
                    count=count,
                    size=size,
                    mixed=r.choose("mixed", (0, 1)),
                    group=sent[-1][2],
                    handle=r.handle(),
                    sender=sender.number,
                )
        r.flooded.append(actor)
    return sent


@scenario()
def stopped_active(r):
    """SIGSTOP and SIGCONT of a peer with active messages and fetches: everything arrives."""
    count, size = r.load()
    peer, places = between(r, messages=r.choose("messages", ("read", "pull")), questions="now")
    sent = both_turns(r, peer, places, count, size)
    r.pause()
    r.hold_up(peer)
    for sender, *_ in sent:
        sender.result()
    for sender, _, group in sent:
        r.drained(sender, group)
    r.part([(actor, here) for actor, here, _, _ in places], peer)


@scenario()
def close_active(r):
    """A connection with active messages and fetches both ways is closed at either side.

    By flush or by force: each operation completes once.
    """
    count, size = r.load()
    peer, places = between(
        r, messages=r.choose("messages", KEEPING), questions=r.choose("questions", ("now", "later"))
    )
    how = r.choose("how", ("flush", "force"))
    sent = both_turns(r, peer, places, count, size)
    if how == "force":
        r.cut_short.update([500, *(group for *_, group in sent), *(group for *_, group in places)])
    r.pause()
    began = r.now(peer)
    closed = []
    for actor, here, there, _ in places:
        ends = [(actor, here, r.group()), (peer, there, r.group())]
        first = r.choose("closer", (0, 1))
        closed.append((ends[first], ends[1 - first]))
        close(r, *ends[first], how)
    for sender, *_ in sent:
        sender.result()
    allowed = (*CUT, "TIMED_OUT")
    for (closer, endpoint, group), (other, far, _) in closed:
        closer.result()
        r.closed(closer, endpoint, began, allowed=allowed, figure="closed")
        r.drained(closer, group, began, allowed=allowed, figure="complete")
        r.closed(other, far, allowed=("CONNECTION_RESET",))
        r.drop(closer, endpoint, 1.0)
        r.drop(other, far, 1.0)
    for sender, _, group in sent:
        r.drained(sender, group, allowed=allowed)
    r.leave(peer)
