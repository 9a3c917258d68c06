"""Windows of groups whose members appear to be on several hosts: namespaces on a wire that delays
and loses frames. A member dies or stops while all run epochs of all kinds.
"""

import secrets
import signal

from rounds import DEATH, NANO
from scenarios import scenario
from scenarios_group import COLLECTIVE, FOR_EVER, PARTING, Crew

# A lost frame is sent again after 200 ms at first, and later each time: the frames that report a
# death may be among them.
LOST = 2.0
# Waits during connection setup, whatever limit the group has set.
MEETING = 3.5


class Windows(Crew):
    """The survivors and a guest, in a group of four, with a window; and a window of the survivors
    alone.
    """

    def __init__(self, r, alone=False, losses=(0, 0, 0.5, 2), liveness=0):
        """`alone`: the only member on its host."""
        # pylint: disable=super-init-not-called
        self.r = r
        self.liveness = liveness
        places = "aab" if alone else r.choose("places", ("aab", "abc"))
        self.transports = r.take_part(f"hosts-{places}")
        self.network = r.pool.network
        self.delay = r.choose("delay_ms", (0, 1, 5))
        self.loss = r.choose("loss_percent", losses)
        self.network.disturb(self.delay, self.loss)
        self.place = "c" if alone else r.choose("place", sorted(set(places)))
        self.victim = r.guest("victim", "hosts", prefix=self.network.prefix(self.place))
        self.victim.place = self.place
        self.rank = r.choose("rank", range(len(r.survivors) + 1))
        self.members = list(r.survivors)
        self.members.insert(self.rank, self.victim)
        self.seed = r.random.getrandbits(60)
        self.join()
        self.all("make_rest", r.survivors, **{"except": self.rank})
        largest = r.choose("largest", (8, 4096, 40000, 300000))
        flavor = r.choose("flavor", ("allocate", "create", "dynamic"))
        self.all("open_window", flavor=flavor, largest=largest)
        self.all("open_window", r.survivors, which="rest", flavor=flavor, largest=largest)

    def join(self):
        # No other process listens in the namespace.
        root = (
            f"{self.network.address(self.members[0].place)}:{self.r.random.randrange(10000, 30000)}"
        )
        secret = secrets.token_hex(16)
        for rank, member in enumerate(self.members):
            limits = {"timeout": int(COLLECTIVE / NANO), "liveness": int(self.liveness / NANO)}
            member.post(
                "join_group", rank=rank, size=len(self.members), root=root, secret=secret, **limits
            )
        self.taken("join_group", self.members)

    def begin(self, rounds=FOR_EVER, victim_rounds=None, **_):
        for member in self.members:
            member.post("epochs", rounds=rounds, seed=self.seed)

    def told(self, since, bound=DEATH):
        """All survivors get an error that blames the victim, in time: that it has ended, or held a
        lock alone, or that a member that was notified has left.
        """
        answers = self.taken("epochs", self.r.survivors)
        ranks = {str(self.members.index(member)) for member, _ in answers}
        for member, values in answers:
            of_victim = values["blamed"] == str(self.rank) and values["left"] == "0"
            of_others = values["blamed"] in ranks and values["left"] == "1"
            if values["status"] != "RMA_POISONED" and not (
                values["status"] == "PEER_FAILED" and (of_victim or of_others)
            ):
                self.r.fail(
                    "completion",
                    f"{member.name}: expected PEER_FAILED by rank {self.rank}, got {values}\n{member.said()[-1000:]}",
                )
            else:
                self.r.took(
                    "told",
                    int(values["at"]) * NANO - since,
                    bound + (LOST if self.loss else 0),
                    member,
                )

        if all(values["left"] == "1" for _, values in answers):
            self.r.fail("completion", f"no error blames the victim: {answers}")

    def others_go_on(self):
        self.succeeded(
            self.all("epochs", self.r.survivors, which="rest", rounds=12, seed=self.seed)
        )

    def leave(self, bound=PARTING, members=None):
        together = members is not None
        members = members or self.r.survivors
        for which, those, closes in (
            ("whole", members, together),
            ("rest", self.r.survivors, True),
        ):
            for member, values in self.all(
                "close_window", those, which=which, together=int(closes)
            ):
                self.r.took("closed the window", int(values["took"]) * NANO, bound, member)
            self.all("release_window", those, which=which)
        self.network.disturb(0, 0)
        super().leave(bound, members)


@scenario("hosts")
def window_kill(r):
    """SIGKILL of a member on another host while all run epochs of a window.

    Over a wire that delays and loses; a window of the others keeps working.
    """
    crew = Windows(r)
    crew.begin()
    r.pause()
    killed = r.strike(crew.victim, signal.SIGKILL)
    crew.told(killed)
    crew.others_go_on()
    crew.leave()


@scenario("hosts")
def window_kill_stopped(r):
    """SIGKILL of a member that was stopped before, so that the others wait for its messages."""
    crew = Windows(r)
    crew.begin()
    r.pause()
    r.strike(crew.victim, signal.SIGSTOP)
    r.rest(1)
    killed = r.strike(crew.victim, signal.SIGKILL)
    crew.told(killed)
    crew.others_go_on()
    crew.leave()


@scenario("hosts")
def window_stopped(r):
    """SIGSTOP and SIGCONT of a member, over a wire that delays and loses.

    All wait for it, and every epoch succeeds.
    """
    crew = Windows(r)
    crew.begin(rounds=r.choose("rounds", (20, 60)))
    r.pause()
    r.hold_up(crew.victim)
    crew.succeeded(crew.taken("epochs", crew.members))
    crew.others_go_on()
    crew.leave(members=crew.members)
    r.leave(crew.victim)


@scenario("hosts")
def window_cut(r):
    """The host of a member is cut off while all run epochs of a window.

    The others, and the one that is cut off, get an error within the limit of
    ucxx_group_set_liveness; a window of the others keeps working.
    """
    liveness = r.choose("liveness", (1.5, 3))
    # Three liveness checks in a row must not be lost.
    crew = Windows(r, alone=True, losses=(0, 0, 0.5), liveness=liveness)
    crew.begin()
    r.pause()
    since = r.now(crew.victim)
    crew.network.disturb(crew.delay, crew.loss, cut="c")
    bound = max(liveness, MEETING) + DEATH
    crew.told(since, bound)
    values = crew.victim.result()
    if values["status"] not in ("PEER_FAILED", "RMA_POISONED"):
        r.fail("completion", f"the victim: expected PEER_FAILED of somebody, got {values}")
    else:
        r.took(
            "the victim was notified",
            int(values["at"]) * NANO - since,
            bound + (LOST if crew.loss else 0),
            crew.victim,
        )
    crew.others_go_on()
    crew.leave()
