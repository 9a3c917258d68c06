"""One round: its participants, the operations in flight, and the four invariants afterwards."""

import random
import signal
import time

import footprint
import pulse
from actors import KnownAbort, Violation, parse

DEATH = 2.0  # seconds within which a peer's death must be detected
# A close by force waits a second for its peer, and three more while UCX transfers something.
FORCE = 5.0
# A process that is not scheduled detects nothing: extra seconds for a machine with other load.
NOISE = 0.5
MODES = ("single", "multi", "thread")
DRIVES = ("sleep", "spin")
NANO = 1e-9
# A multi-buffer receive whose buffers are partly filled, and whose rest will never arrive.
BUFFERS = "buffers of a multi-buffer receive"


class FifoStopped(Exception):
    """A limit of UCX: a process killed between reserving a slot in a shared-memory FIFO and filling
    it blocks that FIFO for good.
    """


class Unheard(Exception):
    """A limit of UCX: over TCP, a close by force may cut a message that its peer does not read. The
    peer does not learn of the end; the library warns.
    """


class Pool:
    """The survivors for one choice of transports: three processes that live through all rounds,
    each connected to the others.
    """

    def __init__(self, field, transports, network=None, places=None, **worker):
        self.field = field
        self.transports = transports
        self.worker = worker  # worker parameters of this pool
        self.network = network
        # The side of the network of each.
        self.places = places or ("near",) * 3
        self.prefix = network.prefix(self.places[0]) if network else ()
        self.actors = []

    def ready(self):
        """The three survivors, replaced after a round in which one was lost."""
        if any(actor.ended for actor in self.actors):
            self.retire()
        if not self.actors:
            for mode, place in zip(MODES, self.places):
                prefix = self.network.prefix(place) if self.network else ()
                actor = self.field.start(
                    f"survivor-{self.transports}-{mode}",
                    self.transports,
                    prefix,
                    mode=mode,
                    queue=16384,
                    **self.worker,
                )
                actor.place = place
                self.actors.append(actor)
            for actor in self.actors:
                actor.history = footprint.History()
                actor.mesh = {}
            for actor in self.actors:
                for other in self.actors:
                    if other is not actor:
                        actor.mesh[other] = actor.next_id()
                        actor.call("ep", ep=actor.mesh[other], address=other.address)
        return self.actors

    def retire(self):
        for actor in self.actors:
            self.field.remove(actor)
        self.actors = []


class Round:
    def __init__(self, field, pools, number, seed, options):
        self.field = field
        self.pools = pools
        self.number = number
        self.random = random.Random(f"{seed}:{number}")
        self.options = options
        self.parameters = {}
        self.figures = {}  # name: seconds
        self.known = []  # known events, which are counted apart
        self.violations = []
        self.guests = []  # processes of this round only
        self.survivors = []
        self.pool = None  # their pool
        self.groups = 0
        self.waited = {}  # how long each had waited for a processor before the fault
        self.cut_short = (
            set()
        )  # groups whose sender may close by force while the receiver reads: documented
        self.flooded = []  # survivors to which a victim was sending when it was killed

    # ---------------------------------------------------------------- choices

    def choose(self, name, among):
        value = self.random.choice(among)
        self.parameters[name] = value
        return value

    def uniform(self, name, low, high):
        value = round(self.random.uniform(low, high), 4)
        self.parameters[name] = value
        return value

    def load(self, largest=64 << 20):
        """How many messages of what size; at most 128 MiB in flight."""
        size = self.choose(
            "size",
            [
                s
                for s in (8, 64, 1000, 4096, 8192, 20000, 65536, 262144, 1 << 20, 8 << 20, 64 << 20)
                if s <= largest
            ],
        )
        most = max(1, min(10000, (128 << 20) // size))
        count = self.choose("count", [min(most, c) for c in (1, 1, 3, 10, 100, 1000, 10000)])
        return count, size

    def take_part(self, transports=None, drives=DRIVES, features=None):
        """Picks the survivors; each progresses in a way of this round."""
        transports = transports or self.choose("transports", ("shm", "tcp", "default"))
        self.pool = self.pools[f"{transports}-{features}" if features else transports]
        self.survivors = self.pool.ready()
        for actor in self.survivors:
            if actor.mode != "thread":
                actor.call("drive", how=self.choose(f"drive_{actor.mode}", drives))
        return transports

    def guest(self, name, transports, **worker):
        if "mode" not in worker:
            worker["mode"] = self.choose(f"mode_{name}", MODES)
        if "drive" not in worker and worker["mode"] != "thread":
            worker["drive"] = self.choose(f"drive_{name}", DRIVES)
        actor = self.field.start(
            f"r{self.number}-{name}",
            transports,
            worker.pop("prefix", ()),
            queue=16384,
            **{**self.pool.worker, **worker},
        )
        self.guests.append(actor)
        return actor

    def handle(self):
        """What becomes of an operation's request: kept, not requested, or destroyed while in
        progress.
        """
        return self.random.choice(("keep", "none", "early"))

    def group(self):
        self.groups += 1
        return self.groups

    def involve(self, at_most=3):
        return self.random.sample(self.survivors, self.choose("involved", range(1, at_most + 1)))

    # ---------------------------------------------------------------- actions

    def connect(self, left, right, **params):
        """Creates endpoints both ways by address; returns the ids."""
        here, there = left.next_id(), right.next_id()
        left.call("ep", ep=here, address=right.address, **params)
        right.call("ep", ep=there, address=left.address, **params)
        return here, there

    def join(self, left, right, **params):
        """As `connect`, or through a listener on either side."""
        by = self.choose(
            "by", ("address", "listener") if left.transports in ("tcp", "default") else ("address",)
        )
        if by == "address":
            drop = params.pop("drop_on_close", 0)
            here, there = left.next_id(), right.next_id()
            left.call("ep", ep=here, address=right.address, drop_on_close=drop, **params)
            right.call("ep", ep=there, address=left.address, **params)
        else:
            here, there = left.next_id(), right.next_id()
            server, accepted, client, asking = (
                (right, there, left, here)
                if self.choose("listens", (0, 1))
                else (left, here, right, there)
            )
            drop = params.pop("drop_on_close", 0) if client is left else 0
            params.pop("drop_on_close", 0)
            listened = {"liveness": params["liveness"]} if "liveness" in params else {}
            self.let_in(server, accepted, client, asking, listened, drop_on_close=drop, **params)
            server.call("unlisten")
        if drop:
            left.dropping.add(here)
        return here, there

    def let_in(self, server, accepted, client, asking, listened=None, **params):
        """The server listens, the client connects, and both endpoints open; returns the port."""
        port = server.call("listen", answer="accept", first=accepted, **(listened or {}))["port"]
        client.call("connect", ep=asking, port=port, **params)
        for actor, what, endpoint in ((server, "accepted", accepted), (client, "opened", asking)):
            event = actor.wait(what, ep=endpoint)
            if event is None or event["status"] != "OK":
                raise Violation(
                    "survivors",
                    f"no connection: {actor.name} {event} {actor.events[-3:]}\n{self.why(actor)}",
                    actor,
                )
        return port

    def exchange(self, lines, sizes=(8, 4096, 300000)):
        """Sends messages over each (from, endpoint, to) at once; the receivers check the contents.
        Returns the lines that failed.
        """
        group, waiting = self.group(), []
        for number, (sender, endpoint, receiver) in enumerate(lines):
            for part, size in enumerate(sizes):
                tag = 1 << 32 | group << 16 | number << 4 | part
                receiver.post("recv", group=group, size=size, tag=tag, count=1)
                sender.post(
                    "send",
                    group=group,
                    size=size,
                    tag=tag,
                    count=1,
                    ep=endpoint,
                    sender=sender.number,
                )
        for sender, endpoint, receiver in lines:
            for _ in sizes:
                receiver.result()
                sender.result()
        for actor in dict.fromkeys(actor for line in lines for actor in (line[0], line[2])):
            actor.call("watch", group=group)
            waiting.append(actor)
        late = [
            actor
            for actor in waiting
            if not actor.wait("drained", group=group, limit=self.field.watchdog / 2)
        ]
        for actor in waiting:
            account = actor.call("group", group=group)
            if actor not in late and (
                set(self.ends(account)) != {"OK"} or account["refused"] != "0"
            ):
                self.fail("survivors", f"{actor.name} could not communicate: {account}")
        return group, late

    def greet(self, lines):
        """Before any fault, so no message may be late."""
        group, late = self.exchange(lines)
        if late:
            self.late(group, late, "no communication before the fault")

    def greet_ends(self, actor, here, other, there):
        """Both ways over the two endpoints of a connection."""
        self.greet([(actor, here, other), (other, there, actor)])

    def late(self, group, actors, what):
        accounts = {actor.name: actor.call("group", group=group) for actor in actors}
        raise Violation(
            "survivors",
            f"{what}: {accounts}\n" + "\n".join(self.why(actor) for actor in actors),
            actors[0],
        )

    @staticmethod
    def ends(account):
        return {
            name: int(count)
            for name, count in (end.split(":") for end in account["ends"].split(",") if end)
        }

    def drained(
        self, actor, group, since=None, limit=None, allowed=("OK",), figure=None, bound=None
    ):
        """Waits until a group has completed; checks the statuses, and the time of the last one
        since `since`.
        """
        actor.call("watch", group=group)
        event = actor.wait("drained", group=group, limit=limit or self.field.watchdog)
        account = actor.call("group", group=group)
        if event is None:
            self.check_heard(actor)
            raise Violation(
                "bound",
                f"{actor.name} never completes group {group}: {account}\n{self.why(actor)}",
                actor,
            )
        others = {name: count for name, count in self.ends(account).items() if name not in allowed}
        if others:
            self.fail(
                "completion", f"{actor.name} group {group} ended with {others}, expected {allowed}"
            )
        if since is not None and account["last"] != "0":
            self.took(figure, int(account["last"]) * NANO - since, bound, actor)
        return account

    def closed(
        self, actor, endpoint, since=None, limit=None, allowed=("OK",), figure=None, bound=None
    ):
        """Waits for on_close."""
        event = actor.wait("closed", ep=endpoint, limit=limit or self.field.watchdog)
        if event is None:
            self.check_heard(actor)
            raise Violation(
                "bound",
                f"{actor.name}: no on_close of endpoint {endpoint}\n{self.why(actor)}",
                actor,
            )
        if event["status"] not in allowed:
            self.fail(
                "completion", f"{actor.name}: on_close with {event['status']}, expected {allowed}"
            )
        if since is not None:
            self.took(figure, int(event["at"]) * NANO - since, bound, actor)
        return event

    def check_heard(self, actor):
        """Raises if a peer has cut a message to this one."""
        place = f"peer process {actor.process.pid} "
        for other in [*self.survivors, *self.guests]:
            said = other.said().splitlines()
            if any("may not hear of it" in line and place in line for line in said):
                raise Unheard(f"{actor.name} of {other.name}")

    def took(self, figure, seconds, bound, actor):
        if bound is not None and seconds > bound:
            now = time.monotonic()
            stalled = (
                self.field.pulse.stood_still(now - seconds - 1, now)
                + pulse.waited(actor.process.pid)
                - self.waited.get(actor, 0)
            )
            self.figures["machine stood still"] = max(
                stalled, self.figures.get("machine stood still", 0)
            )
            seconds -= stalled
            if seconds > bound + NOISE:
                self.fail(
                    "bound",
                    f"{actor.name}: {figure} took {seconds:.2f} s, bound {bound} s, and {stalled:.2f} s without a processor",
                )
        self.figures[figure] = max(seconds, self.figures.get(figure, 0))

    def why(self, actor):
        """For a process that waits in vain: its worker's dump, and its threads' backtraces."""
        try:
            actor.post("dump")
            actor.result(5)
        except (Violation, KnownAbort):
            pass
        return actor.backtrace()

    def fail(self, invariant, text):
        self.violations.append((invariant, text))

    def pause(self):
        """The moment of the fault is random: this pause is a part of the fault, and no check
        depends on it.
        """
        end = time.monotonic() + self.uniform(
            "delay", 0, self.choose("delay_up_to", (0.001, 0.02, 0.2))
        )
        self.field.until(lambda: False, end - time.monotonic())

    def rest(self, up_to):
        self.field.until(lambda: False, self.uniform("rest", 0, up_to))

    def strike(self, actor, number):
        """Sends a signal; returns the time."""
        self.waited = {other: pulse.waited(other.process.pid) for other in self.survivors}
        return actor.send_signal(number)

    def hold_up(self, actor):
        """Stops the process for a while."""
        self.strike(actor, signal.SIGSTOP)
        self.rest(self.choose("stopped_up_to", (0.1, 1.5, 3)))
        self.strike(actor, signal.SIGCONT)

    def now(self, *others):
        """The time of a request to these actors."""
        self.waited = {
            actor: pulse.waited(actor.process.pid) for actor in [*self.survivors, *others]
        }
        return time.monotonic()

    def part(self, places, peer, theirs=()):
        """The peer leaves or closes those endpoints, while the actors close theirs."""
        for endpoint in theirs:
            peer.post("drop", ep=endpoint)
        if not theirs:
            peer.post("leave")
        for actor, here in places:
            actor.post("drop", ep=here)
        for actor, _ in places:
            self.took("drop", int(actor.result()["took"]) * NANO, 4.0, actor)
        for _ in theirs:
            self.took("drop", int(peer.result()["took"]) * NANO, 4.0, peer)
        if not theirs:
            self.left(peer)

    def leave(self, peer):
        peer.post("leave")
        self.left(peer)

    def ended(self, places, since, allowed, bound, statuses=None):
        """Checks the end of each (actor, endpoint, group, ...): on_close, every completion, and
        that more is refused; then drops the endpoint.
        """
        for actor, endpoint, *groups in places:
            self.closed(
                actor,
                endpoint,
                since,
                allowed=statuses or allowed[1:],
                figure="closed",
                bound=bound,
            )
            for group in groups:
                self.drained(actor, group, since, allowed=allowed, figure="complete", bound=bound)
            if endpoint in actor.dropping:
                continue
            if actor.call("status", ep=endpoint)["status"] == "OK":
                self.fail("completion", f"{actor.name}: a closed endpoint has the status OK")
        for actor, endpoint, *_ in places:
            self.drop(actor, endpoint, 1.0)

    def drop(self, actor, endpoint, bound):
        if endpoint in actor.dropping:
            actor.dropping.remove(endpoint)
            return
        took = int(actor.call("drop", ep=endpoint)["took"]) * NANO
        self.took("drop", took, bound, actor)

    # ---------------------------------------------------------------- after the fault

    def afterwards(self):
        """Checks the invariants for every process that is left."""
        self.unharmed()
        self.talk()
        for actor in self.survivors:
            # Messages that arrived and nobody received.
            actor.call("sweep")
            self.counted(actor)
            actor.events.clear()
        for actor in self.survivors:
            if actor.mode != "thread":
                actor.call("drive", how="sleep")
            over = footprint.check(actor, len(self.guests))
            self.known.extend(f"UCX keeps {what}" for what in sorted(actor.kept))
            if over:
                self.fail(
                    "leak", f"{actor.name}: {', '.join(over)}; before: {actor.history.seen[-3:-1]}"
                )
        for actor in self.survivors:
            if BUFFERS in actor.kept:
                # When its worker is destroyed the last of them is freed, or it is a leak.
                self.leave(actor)

    def unharmed(self):
        for actor in self.survivors:
            for other, endpoint in actor.mesh.items():
                status = actor.call("status", ep=endpoint)["status"]
                if status != "OK":
                    # A crash of the other one explains it.
                    other.call("status", ep=next(iter(other.mesh.values())))
                    raise Violation(
                        "survivors",
                        f"{actor.name}: its endpoint to {other.name} has closed with {status}",
                        actor,
                    )

    def among(self):
        return [
            (actor, endpoint, other)
            for actor in self.survivors
            for other, endpoint in actor.mesh.items()
        ]

    def survivors_talk(self):
        """Before they wait for each other's replies, which a blocked FIFO would hold back."""
        group, late = self.exchange(self.among(), sizes=(8,))
        if late:
            self.silent(group, late)

    def talk(self):
        """Among survivors, and with a new process."""
        transports = self.survivors[0].transports
        fresh = self.guest("fresh", transports, prefix=self.pool.prefix)
        pairs = [(actor, *self.connect(actor, fresh)) for actor in self.survivors]
        lines = [(actor, here, fresh) for actor, here, _ in pairs] + [
            (fresh, there, actor) for actor, _, there in pairs
        ]
        began = time.monotonic()
        group, late = self.exchange(self.among() + lines)
        if late:
            self.silent(group, late)
        self.figures["talk"] = time.monotonic() - began
        fresh.post("leave")
        for actor, here, _ in pairs:
            actor.post("drop", ep=here)
        for actor, _, _ in pairs:
            took = int(actor.result()["took"]) * NANO
            self.took("drop", took, 3.0, actor)
        self.left(fresh)

    def left(self, actor):
        """Takes the answer to a posted `leave`, and waits until the process has exited itself."""
        values = actor.result()
        self.took("leave", int(values["took"]) * NANO, None, actor)
        if values["left"] != "0":
            self.fail(
                "completion",
                f"{actor.name} left with {values['left']} operations that had not completed",
            )
        if not self.field.until(lambda: actor.ended):
            raise Violation("bound", f"{actor.name} does not exit\n{actor.backtrace()}", actor)
        if actor.process.wait() != 0:
            raise actor.gone("leave")

    def silent(self, group, late):
        """Some do not communicate: did the victim block a FIFO?"""
        # A survivor with a blocked FIFO receives nothing, so messages of its peers stay in flight
        # as well; those that were not flooded still communicate.
        suspects = [actor for actor in self.survivors if actor in self.flooded and actor in late]
        others = [actor for actor in self.survivors if actor not in suspects]
        if suspects and self.survivors[0].transports != "tcp":
            lines = [(a, a.mesh[b], b) for a in others for b in others if a is not b]
            if not lines or not self.exchange(lines)[1]:
                raise FifoStopped(", ".join(actor.name for actor in suspects))
        self.late(group, late, "no communication")

    def counted(self, actor):
        """Every submitted operation has completed, once; the library's counters agree."""
        forgotten = actor.call("forget")
        counts = {key: int(value) for key, value in actor.call("counters").items()}
        if forgotten["operations"] != "0":
            self.fail(
                "completion",
                f"{actor.name}: {forgotten['operations']} operations have not completed",
            )
        elif (
            counts["submitted"] != counts["inside"] + counts["called_back"]
            or counts["in_flight"] != 0
        ):
            self.fail("completion", f"{actor.name}: {counts}")
        if counts["lent"] and not self.given_back(actor):
            actor.kept.add(BUFFERS)
        if int(forgotten["endpoints"]) != len(actor.mesh):
            self.fail(
                "completion",
                f"{actor.name}: {forgotten['endpoints']} endpoints are left, expected {len(actor.mesh)}",
            )

    def given_back(self, actor):
        """Objects that belong to a destroyed request are freed in a pass."""
        return self.poll(lambda: actor.call("counters")["lent"] == "0", footprint.SETTLING)

    def poll(self, condition, limit=None):
        """Waits for a condition that no event reports; returns whether it held in time."""
        end = time.monotonic() + (limit or self.field.watchdog)
        while not condition():
            if time.monotonic() > end:
                return False
            self.field.pump(0.02)
        return True

    def finish(self):
        """Cleans up after the round in any case, and reports violations that actors found
        themselves.
        """
        for actor in [*self.survivors, *self.guests]:
            if actor.crashed():
                # A crash often explains another process's complaint.
                why = actor.gone("this round")
                if isinstance(why, KnownAbort):
                    self.known.append(why.label())
                    self.violations.clear()
                else:
                    self.violations.insert(0, (why.invariant, str(why)))
            for text in actor.violations:
                values = parse(text.split())
                if (
                    values["invariant"] == "integrity"
                    and int(values.get("group", 0)) in self.cut_short
                    and "verdict" in values
                ):
                    self.known.append(
                        f"documented: {values['verdict']} message received from a buffer that was cut short by force"
                    )
                else:
                    self.fail(values["invariant"], text)
            actor.violations = []
        for actor in self.guests:
            self.field.remove(actor)
