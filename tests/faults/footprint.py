"""The resources of a process that lives through all rounds, and their limits.

- threads: never more than after the warm-up.
- descriptors: DESCRIPTORS more, as any round may add a second socket to another survivor, and a
  descriptor for the fast box of a busy connection. TCP connections close in the background, so
  the check is repeated for a while. The library says when UCX's part of a worker stays, for
  example of a group whose member was killed while all connected over TCP: what that has is
  counted apart. So are sockets that lead nowhere; UCX keeps them until the worker is destroyed.
  They belong to an endpoint that was closed by force with its socket full, or to a connection
  that the peer refused while UCX wanted to answer for a closed endpoint. The library itself opens
  none.
- segments (its own shared memory, of which UCX keeps descriptors) and mappings: MAPPINGS. UCX
  gets the chunks of its memory pools one by one and keeps them for the worker's life, and so does
  malloc. Which round reaches a new maximum is a matter of chance.
- attached (shared memory of other processes): ATTACHED. Only that of the other survivors may stay,
  a few chunks for each. Memory of dead processes is counted apart, with its resident part: UCX
  releases it only after everything it had to send has entered their queue, so never if that was
  full. A program that uses UCP alone has the same.
- memory: RESIDENT_KIB, for the pools again. 10,000 messages that nobody has received yet are 80
  MiB of UCX's receive buffers, once.

A leak grows in every round or in most, a new maximum in few. Therefore the median growth per round,
for each new process in it, may not exceed GROWTH. It is not 0, because over shared memory UCX keeps
something of each process until the worker is destroyed.
"""

import os
import statistics
import time
from collections import Counter

WARM_UP = 8  # rounds of one process
ENOUGH = 64  # rounds after that for a median: with fewer it was a matter of chance
DESCRIPTORS = 4
DESCRIPTORS_OF_A_WORKER = 12  # at most, in UCX
MAPPINGS = 64
ATTACHED = 8
RESIDENT_KIB = 256 * 1024
ALLOWED = {
    "descriptors": DESCRIPTORS,
    "mappings": MAPPINGS,
    "segments": MAPPINGS,
    "attached": ATTACHED,
    "resident_kib": RESIDENT_KIB,
}
GROWTH = {"resident_kib": 32, "mappings": 0, "segments": 0}
SETTLING = 5  # seconds; only a leak takes so long
QUANTITIES = ("resident_kib", "mappings", "segments", "attached", "descriptors", "threads")


class History:
    def __init__(self):
        self.seen = []
        self.processes = []  # new processes in that round

    def limit(self, quantity):
        """None before the warm-up is over."""
        if len(self.seen) < WARM_UP:
            return None
        most = max(sample[quantity] for sample in self.seen[:WARM_UP])
        return most + ALLOWED.get(quantity, 0)

    def excess(self, sample):
        over = []
        for quantity in QUANTITIES:
            limit = self.limit(quantity)
            if limit is not None and sample[quantity] > limit:
                over.append(f"{quantity} {sample[quantity]} > {limit:.0f}")
        for quantity, most in GROWTH.items():
            growth = self.growth(quantity)
            if growth is not None and growth > most:
                over.append(f"{quantity} grows by {growth:.1f} for each new process")
        return over

    def add(self, sample, processes):
        self.seen.append(sample)
        self.processes.append(processes)

    def growth(self, quantity):
        """Growth for each new process, as the median over the rounds; None before there is enough
        data.
        """
        values = [sample[quantity] for sample in self.seen[WARM_UP:]]
        if len(values) < ENOUGH:
            return None
        processes = self.processes[WARM_UP + 1 :]
        return statistics.median(
            (later - earlier) / new for earlier, later, new in zip(values, values[1:], processes)
        )

    def account(self):
        return (
            " ".join(f"{q}={self.seen[-1][q]} ({self.growth(q):+.1f})" for q in QUANTITIES)
            if self.growth("threads") is not None
            else None
        )


def measure(actor):
    return {key: int(value) for key, value in actor.call("footprint").items()}


def check(actor, processes):
    """Checks after a round with so many new processes. Repeats while something is still being
    closed; returns each excess as a text.
    """
    history = actor.history
    sample = measure(actor)
    if history.excess(sample):
        end = time.monotonic() + SETTLING
        while history.excess(sample) and time.monotonic() < end:
            actor.field.pump(0.1)
            sample = measure(actor)
    over = history.excess(sample)
    if any(text.startswith("descriptors") for text in over):
        sockets = nowhere(actor.process.pid)
        workers = actor.said().count("UCX's part stays")
        sample["descriptors"] -= sockets + workers * DESCRIPTORS_OF_A_WORKER
        actor.kept.update(["its part of a worker that has ended"] * bool(workers))
        actor.kept.update(["the socket of a closed connection"] * bool(sockets))
    if any(text.startswith(("mappings", "attached", "resident_kib")) for text in over):
        memory, resident = left_by_the_dead(actor)
        sample["mappings"] -= memory
        sample["attached"] = max(0, sample["attached"] - memory)
        sample["resident_kib"] -= resident
        actor.kept.update(["the memory of a process that ended with its queue full"] * bool(memory))
    over = history.excess(sample)
    if any(text.startswith("descriptors") for text in over):
        over.append(f"open: {descriptors(actor.process.pid)}")
    if any(text.startswith(("mappings", "attached")) for text in over):
        over.append(f"mapped: {mapped(actor.process.pid)}")
    history.add(sample, processes)
    return over


# As in /proc/net/tcp.
TCP_STATES = (
    "",
    "established",
    "syn sent",
    "syn received",
    "fin wait 1",
    "fin wait 2",
    "time wait",
    "closed",
    "close wait",
    "last ack",
    "listening",
    "closing",
)


def descriptors(pid):
    """The descriptors' targets, each kind with its count; TCP sockets with their state, peer (as
    the kernel writes it), unsent and unread bytes.
    """
    states = {}
    for line in listed(pid, ("tcp", "tcp6")):
        words = line.split()
        queued, unread = (int(number, 16) for number in words[4].split(":"))
        states[f"socket:[{words[9]}]"] = (
            f"socket, {TCP_STATES[int(words[3], 16)]}, to {words[2]}, {queued} queued, {unread} unread"
        )
    kinds = Counter()
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue
        kinds[states.get(target, target.split(":[")[0])] += 1
    return dict(kinds)


def listed(pid, protocols):
    """The kernel's lines about sockets in the process's network namespace."""
    for protocol in protocols:
        try:
            with open(f"/proc/{pid}/net/{protocol}", encoding="ascii", errors="replace") as file:
                yield from list(file)[1:]
        except OSError:
            pass


def nowhere(pid):
    """Sockets that are neither connected nor listening: the kernel does not list them."""
    known = set()
    for protocols, column in ((("tcp", "tcp6", "udp", "udp6", "netlink"), 9), (("unix",), 6)):
        known.update(f"socket:[{line.split()[column]}]" for line in listed(pid, protocols))
    count = 0
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue
        count += target.startswith("socket:[") and target not in known
    return count


def left_by_the_dead(actor):
    """Mappings of shared memory that no living actor created, and their resident part: POSIX
    segments by their descriptors, System V ones by their creator.
    """
    living = [each.process.pid for each in actor.field.actors if each.process.poll() is None]
    owned = set()
    for pid in living:
        for name in os.listdir(f"/proc/{pid}/fd"):
            try:
                owned.add(os.stat(f"/proc/{pid}/fd/{name}").st_ino)
            except OSError:
                pass
    with open("/proc/sysvipc/shm", encoding="ascii") as file:
        segments = [line.split() for line in list(file)[1:]]
    owned.update(int(words[1]) for words in segments if int(words[4]) in living)
    count = resident = 0
    left = False
    with open(f"/proc/{actor.process.pid}/smaps", encoding="ascii") as file:
        for line in file:
            words = line.split()
            if "-" in words[0]:
                left = (" /dev/shm/ucx_" in line or " /SYSV" in line) and int(words[4]) not in owned
                count += left
            elif left and words[0] == "Rss:":
                resident += int(words[1])
    return count, resident


def mapped(pid):
    """The mappings, each kind with its count and pages."""
    kinds = Counter()
    with open(f"/proc/{pid}/maps", encoding="ascii") as file:
        for line in file:
            words = line.split()
            begin, end = (int(text, 16) for text in words[0].split("-"))
            name = words[5] if len(words) > 5 else "none"
            kinds[
                "/dev/shm"
                if name.startswith("/dev/shm")
                else f"{name} {words[1]} {(end - begin) >> 12} pages"
            ] += 1
    return {
        name: count
        for name, count in kinds.items()
        if count > 2 or name.startswith(("none", "/dev/shm"))
    }
