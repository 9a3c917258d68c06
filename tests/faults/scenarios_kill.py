"""A peer's process ends without a word."""

import signal
import time

from rounds import DEATH
from scenarios import scenario

DIED = ("OK", "PEER_FAILED")


@scenario
def kill_idle(r):
    """SIGKILL of a peer that has nothing under way."""
    transports = r.take_part()
    victim = r.guest("victim", transports)
    involved = r.involve()
    ends = [(actor, *r.connect(actor, victim)) for actor in involved]
    if r.choose("greeted", (True, True, False)):
        r.greet([(actor, here, victim) for actor, here, _ in ends] + [(victim, there, actor) for actor, _, there in ends])
    waiting = []
    for actor, here, _ in ends:
        group = r.group()
        actor.call("recv", group=group, count=r.choose("receives", (0, 1, 100)), size=4096, tag=7, **{"from": here})
        waiting.append((actor, here, group))
    r.pause()
    killed = victim.send_signal(signal.SIGKILL)
    r.ended(waiting, killed, DIED, DEATH)
