"""Memory that peers access with keys: its owner or a user exits, is killed or closes during puts,
gets and additions.
"""

import signal

from rounds import DEATH, FORCE, NANO
from scenarios import scenario
from scenarios_close import CUT
from scenarios_kill import DIED

NUMBERS = 4096  # bytes: the number that all users share, and one for each
AREA = 8 << 20  # bytes of each user's puts, and of the data to get
ADDITIONS = 5000  # of a user; an actor keeps account of 65536 to one number
VERBS = (
    ("put",),
    ("get",),
    ("add",),
    ("put", "get", "add"),
    ("add", "get", "put"),
    ("add", "put", "add", "get"),
)
WAYS = ("allocated", "registered")


def load(r):
    size = r.choose("size", (8, 64, 4096, 8192, 65536, 262144, 1 << 20))
    most = max(1, min(2000, AREA // size))
    return {
        "size": size,
        "count": r.choose("count", [min(most, count) for count in (1, 10, 100, 2000)]),
    }


class Memory:
    """Memory of an actor, with room for so many users."""

    def __init__(self, r, owner, how, work, users):
        self.r, self.owner, self.how, self.work, self.users = r, owner, how, work, []
        self.id = owner.next_id()
        self.bytes = work["size"] * work["count"]
        self.key = owner.call(
            "expose",
            memory=self.id,
            how=how,
            length=NUMBERS + self.bytes * (1 + users),
            at=NUMBERS,
            sender=owner.number,
            **work,
        )["bytes"]

    def number(self, at):
        return int(self.owner.call("number", memory=self.id, at=at)["value"])

    def check(self, exact=False):
        """The numbers contain what was reported done, and nothing that nobody submitted. A user
        that cannot be asked any more may have done any part of its orders.
        """
        low = high = 0
        for user in self.users:
            counted = user.counted()
            low, high = low + counted["shared_done"], high + counted["shared_asked"]
            self.between(
                user.actor.name,
                self.number(user.number),
                counted["own_done"],
                counted["own_done" if exact else "own_asked"],
            )
        self.between("all", self.number(0), low, low if exact else high)

    def between(self, who, value, low, high):
        if not low <= value <= high:
            self.r.fail(
                "integrity",
                f"{self.owner.name}, {self.how}: what {who} added is {value}; {low} reported done, {high} possible",
            )

    def arrived(self, user, exact):
        """Data that a user put; all of it after a flush."""
        account = self.owner.call("audit", memory=self.id, at=user.at, **self.work)
        if exact and account["intact"] != str(self.work["count"]):
            self.r.fail(
                "integrity",
                f"{self.owner.name}, {self.how}: of what {user.actor.name} put and flushed there is {account}",
            )


class User:
    """A process with a key to the memory."""

    def __init__(self, r, actor, endpoint, memory):
        self.r, self.actor, self.endpoint, self.memory = r, actor, endpoint, memory
        memory.users.append(self)
        place = len(memory.users)
        self.number, self.at = 64 * place, NUMBERS + place * memory.bytes
        self.group, self.posted, self.added = r.group(), 0, 0
        self.key = actor.next_id()
        self.seen = actor.call("unpack", key=self.key, ep=endpoint, bytes=memory.key)["seen"] == "1"

    def post(self, verbs, flushes=True, by_ucx=(0, 0, 1)):
        """`by_ucx`: even what could be done inside the call is left to UCX."""
        for verb in verbs:
            work = dict(self.memory.work)
            if verb == "add":
                work["count"] = min(ADDITIONS, 10 * work["count"])
                self.added += work["count"]
            self.actor.post(
                verb,
                key=self.key,
                at=NUMBERS if verb == "get" else self.at,
                number=self.number,
                group=self.group,
                handle=self.r.handle(),
                always=self.r.choose("always", by_ucx),
                sender=self.actor.number,
                **work,
            )
        if flushes:
            self.actor.post("flush", ep=self.endpoint, group=self.group, handle=self.r.handle())
        self.posted += len(verbs) + flushes

    def results(self):
        for _ in range(self.posted):
            self.actor.result()
        self.posted = 0

    def counted(self):
        if self.actor.ended or self.actor.killed:
            return {
                "own_done": 0,
                "shared_done": 0,
                "own_asked": self.added,
                "shared_asked": self.added,
            }
        return {name: int(value) for name, value in self.actor.call("added", key=self.key).items()}


def begin(r, features="rma"):
    return r.take_part(features=features), load(r), r.choose("verbs", VERBS)


def others(r, owner, memory):
    """Survivors that use it as well, over connections that are not part of the fault."""
    among = [actor for actor in r.survivors if actor is not owner]
    return [
        User(r, actor, actor.mesh[owner], memory)
        for actor in r.random.sample(among, r.choose("others", (0, 1, 2)))
    ]


def settled(r, users):
    for user in users:
        user.results()
    r.survivors_talk()
    for user in users:
        r.drained(user.actor, user.group)


def undisturbed(r, users):
    settled(r, users)
    for user in users:
        user.memory.arrived(user, exact=True)


def lose(r, actors):
    """Keys are destroyed before the memory or after it."""
    if r.choose("keys_go", ("first", "last")) == "first":
        for actor in dict.fromkeys(actors):
            actor.call("lose")


def afterwards(r):
    """Survivors use each other's memory as before."""
    work = {"size": 20000, "count": 10}
    for how in WAYS:
        owner, *rest = r.random.sample(r.survivors, len(r.survivors))
        memory = Memory(r, owner, how, work, len(rest))
        users = [User(r, actor, actor.mesh[owner], memory) for actor in rest]
        for user in users:
            user.post(("put", "get", "add"))
        undisturbed(r, users)
        memory.check(exact=True)


@scenario()
def kill_memory_owner(r):
    """SIGKILL of a process whose memory survivors use."""
    transports, work, verbs = begin(r)
    victim, users = r.guest("victim", transports), []
    ways = r.choose("how", (WAYS[:1], WAYS[1:], WAYS))
    actors = r.involve()
    memories = [Memory(r, victim, how, work, len(actors)) for how in ways]
    for actor in actors:
        here, there = r.join(actor, victim)
        if r.choose("greeted", (True, True, False)):
            r.greet_ends(actor, here, victim, there)
        users.append([User(r, actor, here, memory) for memory in memories])
        # It sends acknowledgements and replies.
        r.flooded.append(actor)
    for each in users:
        for user in each:
            user.post(verbs, flushes=r.choose("flushes", (False, True)))
    r.pause()
    killed = r.strike(victim, signal.SIGKILL)
    for each in users:
        for user in each:
            user.results()
    lose(r, actors)
    r.ended(
        [(each[0].actor, each[0].endpoint, *(user.group for user in each)) for each in users],
        killed,
        DIED,
        DEATH,
    )
    afterwards(r)


@scenario()
def kill_memory_user(r):
    """SIGKILL of a process that uses survivors' memory, which other survivors use as well."""
    transports, work, verbs = begin(r)
    victim, places, bystanders = r.guest("victim", transports), [], []
    for owner in r.involve():
        here, there = r.join(owner, victim)
        if r.choose("greeted", (True, True, False)):
            r.greet_ends(owner, here, victim, there)
        memory = Memory(r, owner, r.choose("how", WAYS), work, 3)
        places.append((owner, here, User(r, victim, there, memory), memory))
        bystanders.extend(others(r, owner, memory))
        r.flooded.append(owner)
    for *_, user, _ in places:
        user.post(verbs)
    for user in bystanders:
        user.post(verbs)
    r.pause()
    killed = r.strike(victim, signal.SIGKILL)
    r.ended([(owner, here) for owner, here, *_ in places], killed, DIED, DEATH)
    (undisturbed if "put" in verbs else settled)(r, bystanders)
    for *_, memory in places:
        memory.check()
    afterwards(r)


@scenario()
def force_in_memory(r):
    """A connection is closed by force, or the peer's worker destroyed, during one-sided access."""
    transports, work, verbs = begin(r)
    peer, places, bystanders = r.guest("peer", transports), [], []
    how = r.choose("how", WAYS)
    owns = r.choose("owns", ("peer", "survivor"))
    ends = r.choose("ends", ("user", "owner", "both", "worker"))
    actors = r.involve()
    joined = [(actor, *r.join(actor, peer)) for actor in actors]
    mine = Memory(r, peer, how, work, len(actors)) if owns == "peer" else None
    for actor, here, there in joined:
        if r.choose("greeted", (True, True, False)):
            r.greet_ends(actor, here, peer, there)
        if mine:
            places.append((User(r, actor, here, mine), actor, here, peer, there))
        else:
            memory = Memory(r, actor, how, work, 3)
            places.append((User(r, peer, there, memory), peer, there, actor, here))
            bystanders.extend(others(r, actor, memory))
    for user, *_ in places:
        user.post(verbs)
    for user in bystanders:
        user.post(verbs)
    r.pause()
    began = r.now(peer)
    closers, stayers = [], []
    for user, actor, endpoint, owner, its_end in places:
        sides = {"user": (actor, endpoint, user.group), "owner": (owner, its_end, r.group())}
        for name, side in sides.items():
            closing = ends in (name, "both") or (ends == "worker" and side[0] is peer)
            (closers if closing else stayers).append(side)
    if ends == "worker":
        peer.post("destroy")
    else:
        for actor, endpoint, group in closers:
            actor.post("close", ep=endpoint, group=group, how="force", handle=r.handle())
    for user, *_ in places:
        user.results()
    if ends == "worker":
        r.took("destroy", int(peer.result()["took"]) * NANO, 3.0, peer)
    else:
        for actor, *_ in closers:
            actor.result()
    lose(r, [user.actor for user, *_ in places])
    for actor, endpoint, group in closers:
        r.closed(actor, endpoint, began, allowed=CUT, figure="closed", bound=FORCE)
        r.drained(actor, group, began, allowed=CUT, figure="complete", bound=FORCE)
    for actor, endpoint, group in stayers:
        r.closed(actor, endpoint, began, allowed=("CONNECTION_RESET",), figure="heard", bound=FORCE)
        r.drained(actor, group, began, allowed=CUT, figure="heard", bound=FORCE)
    (undisturbed if "put" in verbs else settled)(r, bystanders)
    if r.parameters["keys_go"] == "last":
        for memory in dict.fromkeys(user.memory for user, *_ in places):
            memory.check()
    for actor, endpoint, _ in [*closers, *stayers]:
        if not (ends == "worker" and actor is peer):
            r.drop(actor, endpoint, 1.0)
    afterwards(r)
    r.leave(peer)


@scenario()
def unregister_in_use(r):
    """The owner deregisters memory while others use their keys.

    Operations by message are refused, and others are harmless, as the memory stays mapped.
    """
    transports, work, verbs = begin(r)
    how = r.choose("how", WAYS)
    peer = r.guest("peer", transports)
    actors = r.involve()
    memory, users = Memory(r, peer, how, work, len(actors)), []
    for actor in actors:
        here, there = r.join(actor, peer)
        if r.choose("greeted", (True, True, False)):
            r.greet_ends(actor, here, peer, there)
        users.append((User(r, actor, here, memory), there))
    # If UCX writes for a peer into unmapped memory, that is an invalid access of the owner, or ends
    # the connection: programs must not do that.
    lasts = how == "registered" or all(user.seen for user, _ in users)
    for user, _ in users:
        user.post(verbs if lasts else ("add",), by_ucx=(0, 0, 1) if how == "registered" else (0,))
    r.pause()
    peer.post("unregister", memory=memory.id)
    for user, _ in users:
        user.results()
    peer.result()
    for user, _ in users:
        r.drained(user.actor, user.group, allowed=("OK", "NO_ELEM"))
    if how == "registered":
        memory.check(exact=True)
    # The connections still work.
    again = Memory(r, peer, how, work, len(users))
    fresh = [User(r, user.actor, user.endpoint, again) for user, _ in users]
    for user in fresh:
        user.post(("put", "get", "add"))
    undisturbed(r, fresh)
    again.check(exact=True)
    lose(r, actors)
    r.part([(user.actor, user.endpoint) for user, _ in users], peer, [there for _, there in users])
    r.leave(peer)
    afterwards(r)


@scenario()
def unnoticed_in_memory(r):
    """Owner or user is killed, unnoticed, over endpoints without error handling.

    The destruction of the other's worker completes its operations, in bounded time.
    """
    transports, work, verbs = begin(r)
    how, dies = r.choose("how", WAYS), r.choose("dies", ("owner", "user", "nobody"))
    owner, user = r.guest("owner", transports), r.guest("user", transports)
    here, there = r.connect(user, owner, errors="none")
    if r.choose("greeted", (True, True, False)):
        r.greet_ends(user, here, owner, there)
    memory = Memory(r, owner, how, work, 1)
    key = User(r, user, here, memory)
    if how == "registered" and transports != "tcp" and r.field.ucx.startswith("1.13"):
        # It asserts when a worker is destroyed with unacknowledged puts: documented.
        verbs = tuple(verb for verb in verbs if verb != "put") or ("get",)
    key.post(verbs, flushes=False)
    r.pause()
    if dies == "owner":
        r.strike(owner, signal.SIGKILL)
    elif dies == "user":
        r.strike(user, signal.SIGKILL)
    if dies != "user":
        key.results()
        user.post("destroy")
        r.took("destroy", int(user.result()["took"]) * NANO, 3.0, user)
        # TCP reports a death all the same.
        r.closed(user, here, allowed=("OK", "CANCELED", "CLOSED", "PEER_FAILED"))
        r.drained(user, key.group, allowed=CUT + ("PEER_FAILED",))
    if dies != "owner":
        memory.check()
        owner.post("destroy")
        r.took("destroy", int(owner.result()["took"]) * NANO, 3.0, owner)
    afterwards(r)
