"""Groups of processes: a member dies, stops for a while, or leaves, while all call collectives."""

import secrets
import signal

from actors import Violation
from free_port import free_port
from rounds import DEATH, NANO, FifoStopped
from scenarios import scenario

# At its end each group waits so long for members that do not answer (docs/groups.md), and its
# workers' closes wait a second.
PARTING = 4.0
# Only a blocked queue, or a hang, takes so long.
COLLECTIVE = 8.0
FOR_EVER = 1 << 60


class Crew:
    """The survivors and a guest, in a group of four."""

    def __init__(self, r):
        self.r = r
        self.transports = r.take_part()
        self.victim = r.guest("victim", self.transports)
        self.rank = r.choose("rank", range(len(r.survivors) + 1))
        self.members = list(r.survivors)
        self.members.insert(self.rank, self.victim)
        self.work = {
            "seed": r.random.getrandbits(60),
            "largest": r.choose("largest", (8, 4096, 65536, 300000, 1 << 20, 4 << 20)),
        }
        # Otherwise each keeps the group until all have been notified: a member that leaves at once
        # may do so before it has notified others.
        self.at_once = r.choose("leaves_at_once", (0, 1))
        self.join()
        if r.choose("meets", (0, 1)):
            self.all("meet")

    def join(self):
        root = f"127.0.0.1:{free_port()}"
        secret = secrets.token_hex(16)
        for rank, member in enumerate(self.members):
            member.post(
                "join_group",
                rank=rank,
                size=len(self.members),
                root=root,
                secret=secret,
                timeout=int(COLLECTIVE / NANO),
            )
        self.taken("join_group", self.members)

    def all(self, verb, members=None, **values):
        members = members or self.members
        for member in members:
            member.post(verb, **values)
        return self.taken(verb, members)

    def taken(self, verb, members):
        answers = [(member, member.result()) for member in members]
        for member, values in answers:
            if "failed" in values:
                raise Violation(
                    "survivors", f"{member.name}: {verb} failed before the fault: {values}", member
                )
        return answers

    def begin(self, rounds=FOR_EVER, victim_rounds=None, **victim_does):
        for member in self.members:
            mine = member is self.victim
            does = victim_does if mine else {"leaves": self.at_once if rounds == FOR_EVER else 0}
            member.post(
                "collectives",
                rounds=victim_rounds if mine and victim_rounds is not None else rounds,
                **self.work,
                **does,
            )

    def warm_up(self, always=False):
        """Sometimes all are connected before the fault."""
        if self.r.choose("greeted", (True, True, False)) or always:
            self.succeeded(self.all("collectives", rounds=20, **self.work))

    def succeeded(self, answers):
        for member, values in answers:
            if values["status"] != "OK":
                self.r.fail(
                    "survivors", f"{member.name}: collectives without a fault end with {values}"
                )

    def failed(self, since):
        """All survivors get an error that blames the victim, in time."""
        answers = self.taken("collectives", self.r.survivors)
        late = [member.name for member, values in answers if values["status"] == "TIMED_OUT"]
        if (
            late
            and self.transports != "tcp"
            and any(values["status"] == "PEER_FAILED" for _, values in answers)
        ):
            # A queue blocked by a victim is not the group's: others are notified through the same
            # queue.
            self.leave(DEATH + COLLECTIVE)
            raise FifoStopped(", ".join(late))
        for member, values in answers:
            if values["status"] != "PEER_FAILED" or values["blamed"] != str(self.rank):
                self.r.fail(
                    "completion",
                    f"{member.name}: expected PEER_FAILED by rank {self.rank}, got {values}\n{member.said()[-1000:]}",
                )
            else:
                self.r.took("told", int(values["at"]) * NANO - since, DEATH, member)

    def rest_succeeds(self):
        """A group without the victim keeps working."""
        answers = self.all("collectives", self.r.survivors, which="rest", rounds=20, **self.work)
        late = any(values.get("status") == "TIMED_OUT" for _, values in answers)
        if late and self.transports != "tcp":
            # Has the victim blocked a queue?
            self.r.flooded.extend(self.r.survivors)
            self.r.survivors_talk()
        self.succeeded(answers)

    def leave(self, bound=PARTING, members=None):
        for member, values in self.all("leave_group", members or self.r.survivors):
            self.r.took("left the group", int(values["took"]) * NANO, bound, member)


@scenario()
def group_kill(r):
    """SIGKILL of a group member while all call barriers, allgathers and broadcasts."""
    crew = Crew(r)
    crew.warm_up()
    crew.begin()
    r.pause()
    killed = r.strike(crew.victim, signal.SIGKILL)
    crew.failed(killed)
    crew.leave()


@scenario()
def group_kill_stopped(r):
    """SIGKILL of a group member that was stopped before, so that all others wait for it."""
    crew = Crew(r)
    crew.warm_up()
    crew.begin()
    r.pause()
    r.strike(crew.victim, signal.SIGSTOP)
    r.rest(1)
    killed = r.strike(crew.victim, signal.SIGKILL)
    crew.failed(killed)
    crew.leave()


@scenario()
def group_subset(r):
    """SIGKILL of a group member; an existing subset of the others keeps working."""
    crew = Crew(r)
    crew.all("make_rest", r.survivors, **{"except": crew.rank})
    crew.warm_up()
    crew.begin()
    r.pause()
    killed = r.strike(crew.victim, signal.SIGKILL)
    crew.failed(killed)
    crew.rest_succeeds()
    crew.leave()


@scenario()
def group_stopped(r):
    """SIGSTOP and SIGCONT of a group member: all wait, and every collective succeeds."""
    crew = Crew(r)
    crew.warm_up()
    crew.begin(rounds=r.choose("rounds", (20, 60)))
    r.pause()
    r.hold_up(crew.victim)
    crew.succeeded(crew.taken("collectives", crew.members))
    crew.leave(members=crew.members)
    r.leave(crew.victim)


@scenario()
def group_leaves(r):
    """A member leaves a group, or its process exits, during the others' collectives."""
    crew = Crew(r)
    how = r.choose("how", ("leaves", "quits"))
    # A connection to a destroyed worker of a live process may wait without end: see README.md.
    crew.warm_up(always=how == "leaves" and crew.transports == "default")
    crew.begin(victim_rounds=r.choose("rounds", (0, 1, 10, 100)), leaves=int(how == "leaves"))
    r.now()
    answers = crew.taken("collectives", [crew.victim])
    crew.succeeded(answers)
    if how == "quits":
        crew.victim.post("quit")
    # Before it left.
    crew.failed(int(answers[0][1]["at"]) * NANO)
    crew.leave()
    if how == "leaves":
        crew.leave(members=[crew.victim])
        r.leave(crew.victim)
