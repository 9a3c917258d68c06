"""What a process holds that lives through all rounds, and when that is too much.

 - descriptors and threads: never more than after the warm-up. TCP connections are closed in the background, so it is looked at again for a while.
 - segments, its own shared memory (of which UCX keeps descriptors), and mappings: UCX gets the chunks of its memory pools one by one
   and keeps them for the worker's life, and so does malloc; which round reaches a new high is a matter of chance: MAPPINGS.
 - attached, shared memory of others: only that of the other survivors may stay, a few chunks for each of them: ATTACHED.
 - memory: the pools again. 10,000 messages that nobody has received yet are 80 MiB of UCX's receive buffers, once: RESIDENT_KIB.

A leak shows in every round or in most, a new high in few: so in addition the median of the growth from round to round may not
exceed GROWTH. It is not nothing, because every round makes connections, of which UCX keeps something until the worker goes.
"""

import os
import statistics
import time
from collections import Counter

WARM_UP = 8  # rounds of one process
ENOUGH = 16  # rounds after that, for a median
MAPPINGS = 64
ATTACHED = 8
RESIDENT_KIB = 256 * 1024
GROWTH = {"resident_kib": 96, "mappings": 0, "segments": 0}
SETTLING = 5  # seconds; only a leak reaches it
QUANTITIES = ("resident_kib", "mappings", "segments", "attached", "descriptors", "threads")


class History:
    def __init__(self):
        self.seen = []

    def limit(self, quantity):
        """None before the warm-up is over."""
        if len(self.seen) < WARM_UP:
            return None
        most = max(sample[quantity] for sample in self.seen[:WARM_UP])
        return most + {"mappings": MAPPINGS, "segments": MAPPINGS, "attached": ATTACHED, "resident_kib": RESIDENT_KIB}.get(quantity, 0)

    def excess(self, sample):
        over = []
        for quantity in QUANTITIES:
            limit = self.limit(quantity)
            if limit is not None and sample[quantity] > limit:
                over.append(f"{quantity} {sample[quantity]} > {limit:.0f}")
        for quantity, most in GROWTH.items():
            growth = self.growth(quantity)
            if growth is not None and growth > most:
                over.append(f"{quantity} grows by {growth} a round")
        return over

    def add(self, sample):
        self.seen.append(sample)

    def growth(self, quantity):
        """A round's, in the median; None before there is enough to tell."""
        values = [sample[quantity] for sample in self.seen[WARM_UP:]]
        if len(values) < ENOUGH:
            return None
        return statistics.median(later - earlier for earlier, later in zip(values, values[1:]))

    def account(self):
        return " ".join(f"{q}={self.seen[-1][q]} ({self.growth(q):+})" for q in QUANTITIES) if self.growth("threads") is not None else None


def measure(actor):
    return {key: int(value) for key, value in actor.call("footprint").items()}


def check(actor):
    """Looks again while something is still being closed; what is too much, in words."""
    history = actor.history
    sample = measure(actor)
    if history.excess(sample):
        end = time.monotonic() + SETTLING
        while history.excess(sample) and time.monotonic() < end:
            actor.field.pump(0.1)
            sample = measure(actor)
    over = history.excess(sample)
    if any(text.startswith("descriptors") for text in over):
        over.append(f"open: {descriptors(actor.process.pid)}")
    if any(text.startswith(("mappings", "attached")) for text in over):
        over.append(f"mapped: {mapped(actor.process.pid)}")
    history.add(sample)
    return over


def descriptors(pid):
    """What they lead to, each kind with its number."""
    kinds = Counter()
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            kinds[os.readlink(f"/proc/{pid}/fd/{name}").split(":[")[0]] += 1
        except OSError:
            pass
    return dict(kinds)


def mapped(pid):
    """What, each kind with its number and pages."""
    kinds = Counter()
    with open(f"/proc/{pid}/maps", encoding="ascii") as file:
        for line in file:
            words = line.split()
            begin, end = (int(text, 16) for text in words[0].split("-"))
            name = words[5] if len(words) > 5 else "none"
            kinds["/dev/shm" if name.startswith("/dev/shm") else f"{name} {words[1]} {(end - begin) >> 12} pages"] += 1
    return {name: count for name, count in kinds.items() if count > 2 or name.startswith(("none", "/dev/shm"))}
