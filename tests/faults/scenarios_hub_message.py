"""Chunks are sent from hub to hub as tag messages, directly from envelopes and into them, while the
process at either end exits, stops or closes.
"""

from rounds import DEATH, NANO
from scenarios import scenario
from scenarios_close import CUT
from scenarios_hub import RESET, SIZES, WAYS, End, Flow, meet, moving, strike
from scenarios_kill import DIED

# Allowed statuses of operations in flight; of a destroyed worker, for its own side as well.
ENDS = {
    "kill": DIED,
    "kill stopped": DIED,
    "quit": DIED + RESET,
    "destroy": DIED + RESET + ("CANCELED", "CLOSED"),
    "flush": CUT + ("TIMED_OUT",),
    "force": CUT + ("TIMED_OUT",),
}
# And at the end of a round, when only receives are waiting.
LEFT = ("OK", "CANCELED", "CLOSED", *RESET)
# As in hubs.c: the number of a damaged chunk.
DAMAGED = 0xFFFFFF


class Mail(Flow):
    """Messages from one hub to another, over one connection after the other."""

    def __init__(self, r, work, actor, peer, *, sends):
        super().__init__(r, work, actor, peer, sends=sends)
        self.order = range(work["count"])  # the order in which they are sent over this connection
        self.allowed = LEFT

    def connect(self, here, there):
        self.here, self.there = here, there
        # A tag of its own: messages in flight over the previous connection may still arrive.
        self.mail = self.r.group()
        self.before = {end: end.account() for end in (self.source, self.sink)}
        for end in self.r.random.sample((self.source, self.sink), 2):
            end.call(
                "post_hub",
                side=end.side,
                ep=self.endpoint(end),
                tag=1 << 20 | self.mail,
                group=self.mail,
                handle=self.r.handle(),
                sender=self.sender,
            )

    def endpoint(self, end):
        return self.here if end.actor is self.actor else self.there

    def ended(self, end):
        """Checks every operation of a closed connection; the successful ones are chunks that were
        sent, or have arrived.
        """
        r, actor = self.r, end.actor
        account = r.drained(actor, self.mail, allowed=self.allowed)
        closed, refused = (
            actor.find(what, ep=self.endpoint(end)) for what in ("closed", "refused")
        )
        if closed:
            r.took("complete", (int(account["last"]) - int(closed["at"])) * NANO, DEATH, actor)
        if refused and refused["status"] not in self.allowed:
            r.fail(
                "completion",
                f"{actor.name}: refused with {refused['status']}, expected {self.allowed}",
            )
        figure = "produced" if end is self.sink else "consumed"
        now = end.settled()
        if now[figure] - self.before[end][figure] != r.ends(account).get("OK", 0):
            r.fail(
                "completion",
                f"{actor.name}: {account}, but of the hub {self.before[end]} before and {now} after",
            )
        return now

    def numbers(self, end, verb):
        text = end.call(verb)["numbers"]
        return [int(number) for number in text.split(",")] if text else []

    def source_kept(self):
        """Unsent chunks are offered again, whole and the oldest first, and every free envelope is
        filled; returns the unsent ones.
        """
        r, source = self.r, self.source
        self.started()
        self.ended(source)

        def full(account):
            return account["made"] == min(
                self.work["count"], account["consumed"] + source.envelopes
            )

        r.poll(lambda: full(source.account()))
        account, offered = source.settled(), self.numbers(source, "list_offered")
        if (
            not full(account)
            or len(offered) != account["length"]
            or account["free"] + len(offered) != source.envelopes
        ):
            r.fail(
                "completion",
                f"{source.actor.name}: of {source.envelopes} envelopes these are offered: {offered}, {account}",
            )
        if offered != sorted(set(offered)) or not set(offered) <= set(self.order):
            r.fail("integrity", f"{source.actor.name}: offers {offered}")
        return offered + list(range(account["made"], self.work["count"]))

    def sink_has(self):
        """Every envelope is free or holds what was sent."""
        r, sink = self.r, self.sink
        account = self.ended(sink)
        if account["free"] + account["length"] != sink.envelopes:
            r.fail("completion", f"{sink.actor.name}: of {sink.envelopes} envelopes: {account}")
        sink.call("consume")
        account = sink.settled(empty=True)
        if account["free"] != sink.envelopes or account["came"] != account["produced"]:
            r.fail("completion", f"{sink.actor.name}: of {sink.envelopes} envelopes: {account}")
        self.in_order()

    def in_order(self):
        """Checks the arrivals on this connection: none twice, and out of order only those that
        overtook messages that had an envelope already.
        """
        came = self.numbers(self.sink, "list_hub")[self.before[self.sink]["came"] :]
        turns = {number: turn for turn, number in enumerate(self.order)}
        # Its actor has reported a damaged chunk.
        wrong = [
            number
            for at, number in enumerate(came)
            if number != DAMAGED
            and turns.get(number, at + self.sink.envelopes) >= at + self.sink.envelopes
        ]
        whole = [number for number in came if number != DAMAGED]
        if wrong or len(set(whole)) != len(whole):
            self.r.fail(
                "integrity",
                f"{self.sink.actor.name}: {self.sink.envelopes} envelopes, wrong {wrong}, came {came}, sent {list(self.order)}",
            )
        return came

    def go_on(self, lives, again, after, here, there):
        """Over another connection, with the remaining process and a successor of the other: the
        rest is sent, or everything that another sender has.
        """
        r, rest, new = self.r, None, False
        if lives or self.source is self.mine():
            rest = self.source_kept()
        if lives or self.sink is self.mine():
            self.sink_has()
        if not again and self.source is self.mine():
            self.sink = End(r, after, self.work, "in", group=self.group, consumes=1)
        elif not again:
            self.sender, new = after.number, True
            self.source = End(r, after, self.work, "out", group=self.group)
        self.order = range(self.work["count"]) if new else rest
        self.connect(here, there)
        if new:
            self.start()

    def arrived(self):
        self.started()
        self.sink.call("consume")
        wanted = self.before[self.sink]["came"] + len(self.order)
        moving(
            self.r,
            self.sink,
            "came",
            lambda: self.r.poll(lambda: self.sink.account()["came"] >= wanted),
            "messages do not arrive",
        )
        came = self.in_order()
        if sorted(came) != sorted(self.order):
            self.r.fail(
                "integrity", f"{self.sink.actor.name}: expected {list(self.order)}, got {came}"
            )

    def leaves(self):
        """The survivor's hub, after its connection has closed."""
        self.allowed = LEFT
        if self.sink is self.mine():
            self.sink_has()
        self.mine().drop()


def end(r, how, peer, flows, transports):
    """Ends the connections, and makes others in their place; returns those, their peers, and
    whether the peer must leave as well.
    """
    for flow in flows:
        flow.allowed = ENDS[how]
    lives = strike(r, how, peer, flows)
    again = lives and r.choose("again", (0, 1))
    after = peer if again else r.guest("heir", transports)
    places = []
    for flow in flows:
        here, there = r.join(flow.actor, after)
        places.append((flow.actor, here))
        flow.go_on(lives, again, after, here, there)
    return places, after, lives and not again


@scenario()
def hub_message(r):
    """Chunks are sent from hub to hub; a process at one end is killed, stops, exits or closes.

    Unsent chunks are offered again, and another process gets them.
    """
    transports = r.take_part()
    size = r.choose("size", SIZES)
    work = {
        "size": size,
        "count": max(8, min(r.choose("count", (20, 200, 1000)), (32 << 20) // size)),
        "by_message": 1,
    }
    peer = r.guest("peer", transports)
    flows = meet(r, peer, r.involve(), r.choose("sends", ("survivor", "peer")), work, Mail)
    how = r.choose("how", (*WAYS, "stop"))
    for flow in flows:
        flow.start()
    r.pause()
    if how == "stop":
        r.hold_up(peer)
        places, after, leaves = [(flow.actor, flow.here) for flow in flows], peer, False
    else:
        places, after, leaves = end(r, how, peer, flows, transports)
    for flow in flows:
        flow.arrived()
        flow.drained()
    # A hub that is destroyed first leaves receives into its envelopes in flight.
    goes = r.choose("goes", ("hub", "connection"))
    for flow in flows:
        if goes == "hub":
            flow.mine().drop()
        else:
            flow.mine().call("post_hub", side=flow.mine().side)
    r.part(places, after)
    if goes == "connection":
        for flow in flows:
            flow.leaves()
    if leaves:
        r.leave(peer)
