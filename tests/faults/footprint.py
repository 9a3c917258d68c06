"""What a process that lives through all rounds holds, and when that is too much.

Allowances, all over what the process held after its warm-up:

 - descriptors and threads: none. TCP connections are closed in the background, so it is looked at again for a while.
 - mappings: MAPPINGS. UCX gets its memory pools' chunks one by one and keeps them for the worker's life, and so does malloc; which
   round reaches a new high is a matter of chance.
 - memory: the same pools again, RESIDENT_KIB at once for those highs (10,000 operations under way at the same time are a few MiB)
   and RESIDENT_KIB_A_ROUND for what UCX keeps of each connection until its worker goes.
"""

import statistics
import time

WARM_UP = 8  # rounds of one process
MAPPINGS = 24
MAPPINGS_A_ROUND = 0.25
RESIDENT_KIB = 24 * 1024
RESIDENT_KIB_A_ROUND = 64
SETTLING = 5  # seconds; only a leak reaches it
QUANTITIES = ("resident_kib", "mappings", "descriptors", "threads")


class History:
    def __init__(self):
        self.seen = []

    def limit(self, quantity):
        """None before the warm-up is over."""
        if len(self.seen) < WARM_UP:
            return None
        most = max(sample[quantity] for sample in self.seen[:WARM_UP])
        rounds = len(self.seen) - WARM_UP
        if quantity == "mappings":
            return most + MAPPINGS + MAPPINGS_A_ROUND * rounds
        if quantity == "resident_kib":
            return most + RESIDENT_KIB + RESIDENT_KIB_A_ROUND * rounds
        return most

    def excess(self, sample):
        over = []
        for quantity in QUANTITIES:
            limit = self.limit(quantity)
            if limit is not None and sample[quantity] > limit:
                over.append(f"{quantity} {sample[quantity]} > {limit:.0f}")
        return over

    def add(self, sample):
        self.seen.append(sample)

    def slopes(self):
        """Growth a round after the warm-up, by least squares; None before there is enough to tell."""
        samples = self.seen[WARM_UP:]
        if len(samples) < WARM_UP:
            return None
        rounds = range(len(samples))
        return {q: statistics.linear_regression(rounds, [s[q] for s in samples]).slope for q in QUANTITIES}


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
    history.add(sample)
    return over
