"""Streams between hubs: the process at either end, or one in the middle, exits, is killed, stops or
closes, or one of its links or hubs is destroyed, while chunks are in flight.
"""

import signal

from actors import Violation
from rounds import DEATH, NANO
from scenarios import scenario
from scenarios_close import CUT, close
from scenarios_kill import DIED, receive
from scenarios_silence import SOON
from scenarios_window import LOST

WAYS = ("kill", "kill stopped", "quit", "destroy", "flush", "force")
WINDOWS = (1, 2, 4, 16)
SIZES = (8, 1000, 8192, 20000, 65536, 300000, 1 << 20)
RESET = ("CONNECTION_RESET", "PEER_FAILED")


class End:
    """A hub of an actor, with this side's connected link."""

    def __init__(self, r, actor, work, side, **at):
        self.r, self.actor, self.side = r, actor, side
        self.window = r.choose(f"window_{side}", WINDOWS)
        self.envelopes = min(
            r.choose(f"envelopes_{side}", (1, 2, 3, 8, 32)), max(1, (8 << 20) // work["size"])
        )
        self.id = actor.next_id()
        self.call(
            "open_hub",
            size=work["size"] * r.choose("longer", (1, 2) if side == "in" else (1,)),
            envelopes=self.envelopes,
            by_message=work.get("by_message", 0),
            **at,
        )

    def call(self, verb, **values):
        return self.actor.call(verb, hub=self.id, **values)

    def account(self):
        return {name: int(value) for name, value in self.call("hub").items()}

    def connect(self, endpoint, stream, side=None):
        """A stream that is ending keeps its number until it has ended."""

        def tried():
            self.status = self.call(
                "connect_hub",
                side=side or self.side,
                ep=endpoint,
                stream=stream,
                window=self.window,
            )["status"]
            return self.status != "ALREADY_EXISTS"

        self.r.poll(tried)
        if self.status != "OK":
            raise Violation("completion", f"{self.actor.name}: connect: {self.status}", self.actor)

    def settled(self, empty=False):
        """No chunk is leased any more, and every unsent chunk is there; returns the account."""

        def quiet():
            account = self.account()
            return account["leased"] == 0 and not (empty and account["length"])

        if not self.r.poll(quiet):
            raise Violation(
                "bound",
                f"{self.actor.name}: a hub keeps leases, or chunks: {self.account()}\n{self.r.why(self.actor)}",
                self.actor,
            )
        account = self.account()
        if account["produced"] != account["length"] + account["consumed"]:
            self.r.fail("completion", f"{self.actor.name}: chunks are missing: {account}")
        return account

    def tried(self, side=None):
        return self.call("try_hub", side=side or self.side)

    def drop(self):
        self.call("drop_hub", links_first=self.r.choose("links_first", (0, 1)))


class Flow:
    """A stream between a survivor and another process, over the two endpoints of a connection."""

    def __init__(self, r, work, actor, peer, *, sends, number=1):
        self.r, self.work, self.actor, self.peer, self.number = r, work, actor, peer, number
        self.group = r.group()
        here, there = (actor, peer) if sends == "survivor" else (peer, actor)
        self.sender = here.number
        self.source = End(r, here, work, "out", group=self.group)
        self.sink = End(
            r,
            there,
            work,
            "in",
            group=self.group,
            **{"from": self.sender},
            consumes=r.choose("consumes", (0, 1, 1)),
        )
        self.asked = None
        self.here = self.there = None

    def mine(self):
        """The survivor's end."""
        return self.source if self.source.actor is self.actor else self.sink

    def connect(self, here, there):
        self.here, self.there = here, there
        for end in self.r.random.sample((self.source, self.sink), 2):
            end.connect(here if end.actor is self.actor else there, self.number)

    def start(self, closes=1):
        # Posted as a command of its own; its answer is taken when needed.
        self.asked = self.source.actor.send(
            "produce",
            {
                "hub": self.source.id,
                "sender": self.sender,
                "most": self.work["count"],
                "closes": closes,
            },
        )

    def closes(self):
        """With the last chunk, if that was not announced yet."""
        self.source.call("produce", sender=self.sender, most=self.work["count"], closes=1)

    def started(self):
        self.source.actor.result(token=self.asked)

    def source_kept(self):
        """Unacknowledged chunks are offered again, first; returns how many were acknowledged."""
        self.started()
        account = self.source.settled()
        oldest = self.source.tried()
        if account["length"] and (
            oldest["status"] != "OK" or int(oldest["number"]) != account["consumed"]
        ):
            self.r.fail(
                "completion",
                f"{self.source.actor.name}: the oldest chunk that is offered is {oldest}, {account}",
            )
        return account["consumed"]

    def sink_has(self):
        """A prefix has arrived, and all of it is available; returns its length, and whether it is
        the whole stream.
        """
        self.sink.call("consume")
        account = self.sink.settled(empty=True)
        closed = self.sink.tried()["status"] == "CLOSED"
        if closed:
            self.over()
        if account["free"] != self.sink.envelopes:
            self.r.fail("completion", f"{self.sink.actor.name}: envelopes are missing: {account}")
        if account["next"] != account["consumed"] or (
            closed and account["next"] != self.work["count"]
        ):
            self.r.fail(
                "completion", f"{self.sink.actor.name}: no beginning: {account}, closed: {closed}"
            )
        return account["next"], closed

    def over(self):
        """The end of the stream arrives."""
        moving(
            self.r,
            self.sink,
            "came",
            lambda: self.sink.actor.wait("hub_over", hub=self.sink.id),
            "a stream does not end",
        )
        return self.sink.account()

    def arrived(self, first=0, again=0):
        """All chunks have arrived, from that one on."""
        account = self.over()
        count = self.work["count"]
        if (account["next"], account["came"], account["again"]) != (
            count,
            count - first + again,
            again,
        ):
            self.r.fail(
                "integrity",
                f"{self.sink.actor.name}: expected {count} from {first} on, {again} once more, got {account}",
            )

    def drained(self):
        moving(
            self.r,
            self.source,
            "consumed",
            lambda: self.r.poll(lambda: self.source.call("drained_hub")["status"] == "OK"),
            "a hub does not drain",
        )
        account = self.source.settled()
        if account["consumed"] != self.work["count"]:
            self.r.fail(
                "completion",
                f"{self.source.actor.name}: unsent chunks are not offered: {account}",
            )


def moving(r, end, figure, wait, what):
    """Waits for the condition. Fails if nothing arrived for the watchdog's time: thousands of
    chunks, one at a time, take long on a busy machine.
    """
    before = None
    while not wait():
        account = end.account()
        if account[figure] == before:
            stuck(r, end.actor, f"{what}: {account}")
        before = account[figure]


def stuck(r, actor, what):
    """Did a victim block the queue?"""
    group, late = r.exchange(
        [(one, endpoint, other) for one in r.survivors for other, endpoint in one.mesh.items()]
    )
    if late:
        r.silent(group, late)
    raise Violation("bound", f"{actor.name}: {what}\n{r.why(actor)}", actor)


def on_wire(r):
    return "delay_ms" in r.parameters


def count(r, size):
    # A wire that loses frames is slow.
    most, room = (200, 2 << 20) if on_wire(r) else (2000, 32 << 20)
    return max(8, min(r.choose("count", (20, 200, 2000)), most, room // size))


def begin(r, transports=None):
    transports = r.take_part(transports)
    size = r.choose("size", SIZES[:-1] if on_wire(r) else SIZES)
    return (
        r.survivors[0].transports,
        {"size": size, "count": count(r, size)},
        LOST if r.parameters.get("loss_percent") else 0.0,
    )


def meet(r, peer, actors, sends, work, kind=Flow):
    """A stream, or another kind of flow, between each of them and the peer, with unmatched receives
    beside it.
    """
    flows = []
    for actor in actors:
        here, there = r.join(actor, peer)
        if r.choose("greeted", (True, True, False)):
            r.greet_ends(actor, here, peer, there)
        flow = kind(r, work, actor, peer, sends=sends)
        receive(r, actor, here, flow.group, r.choose("beside", (0, 10)), 4096)
        flow.connect(here, there)
        r.flooded.append(actor)
        flows.append(flow)
    return flows


def strike(r, how, peer, flows, places=None, late=0.0):
    """Ends the connections; returns whether the peer still has a worker."""
    places = places or [(flow.actor, flow.here, flow.there, flow.group) for flow in flows]
    survivors = [(actor, here, group) for actor, here, _, group in places]
    died = DIED + ("CONNECTION_RESET",)
    if how.startswith("kill"):
        if how == "kill stopped":
            r.strike(peer, signal.SIGSTOP)
            r.rest(1)
        r.ended(survivors, r.strike(peer, signal.SIGKILL), DIED, DEATH + late)
        return False
    if how in ("quit", "destroy"):
        if how == "destroy":
            peer.post("destroy")
            r.took("destroy", int(peer.result()["took"]) * NANO, 3.0, peer)
            for _, _, there, _ in places:
                r.closed(peer, there, allowed=("OK", "CANCELED", "CLOSED"))
            kept(flows, peer)
        began = r.now(peer)
        peer.post("quit")
        r.ended(survivors, began, died, DEATH + late, statuses=RESET)
        return False
    if how == "force":
        r.cut_short.update(group for *_, group in places)
    # One of the two endpoints of each connection closes; the peer has no operations.
    closers, stayers = [], []
    for actor, here, there, group in places:
        ends = [(actor, here, group), (peer, there, group)]
        first = r.choose("closer", (0, 1))
        closers.append(ends[first])
        stayers.append(ends[1 - first])
    began = r.now(peer)
    for side in closers:
        close(r, *side, how)
    for actor, *_ in closers:
        actor.result()
    allowed = CUT + ("TIMED_OUT",)
    for actor, endpoint, group in closers:
        r.closed(actor, endpoint, began, allowed=allowed, figure="closed")
        r.drained(actor, group, began, allowed=allowed, figure="complete")
    for actor, endpoint, group in stayers:
        r.closed(actor, endpoint, allowed=("CONNECTION_RESET",))
        r.drained(actor, group, allowed=allowed)
    for actor, endpoint, _ in closers + stayers:
        r.drop(actor, endpoint, 1.0)
    return True


def kept(flows, actor):
    """For an actor with closed connections: what was not acknowledged, and what has arrived."""
    for flow in flows:
        if flow.source.actor is actor:
            flow.source_kept()
        else:
            flow.sink_has()


def ends(r, sends, transports=None, ways=WAYS, peer_of=None):
    """A successor of the peer gets the unacknowledged chunks, or brings its own; or the two
    continue over another connection.
    """
    transports, work, late = begin(r, transports)
    peer_of = peer_of or (lambda name: r.guest(name, transports))
    peer = peer_of("peer")
    flows = meet(r, peer, r.involve(), sends, work)
    closes = r.choose("closes", (1, 1, 0)) if sends == "peer" else 1
    for flow in flows:
        flow.start(closes)
    r.pause()
    lives = strike(r, r.choose("how", ways), peer, flows, late=late)
    again = lives and closes and r.choose("again", (0, 1))
    after = peer if again else peer_of("heir")
    places = []
    for flow in flows:
        here, there = r.join(flow.actor, after)
        places.append((flow.actor, here))
        go_on(r, flow, lives, again, after, here, there)
    for flow in flows:
        flow.mine().drop()
    r.part(places, after)
    if lives and not again:
        r.leave(peer)


def go_on(r, flow, lives, again, after, here, there):
    told = flow.source_kept() if lives or flow.source is flow.mine() else 0
    has, closed = flow.sink_has() if lives or flow.sink is flow.mine() else (0, False)
    if lives and not told <= has <= told + min(flow.source.window, flow.sink.window):
        r.fail(
            "completion",
            f"{has} chunks have arrived at {flow.sink.actor.name}, {told} are acknowledged at {flow.source.actor.name}",
        )
    if again:
        if not closed:
            flow.sink.call("consume", back=has - told)
            flow.connect(here, there)
            flow.arrived(again=has - told)
            flow.drained()
        return
    if flow.source is flow.mine():
        flow.sink = End(
            r,
            after,
            flow.work,
            "in",
            group=flow.group,
            **{"from": flow.sender},
            next=told,
            consumes=1,
        )
        flow.connect(here, there)
        flow.arrived(first=told)
        flow.drained()
    elif not closed:
        # Chunks of another sender, from the first one on.
        flow.sender, flow.work = (
            after.number,
            {"size": flow.work["size"], "count": count(r, flow.work["size"])},
        )
        flow.source = End(r, after, flow.work, "out", group=flow.group)
        flow.connect(here, there)
        flow.start()
        account = flow.over()
        if (account["from"], account["next"], account["came"]) != (
            flow.sender,
            flow.work["count"],
            has + flow.work["count"],
        ):
            r.fail(
                "integrity",
                f"{flow.sink.actor.name}: expected {flow.work['count']} of {flow.sender} after {has}, got {account}",
            )
        flow.started()


@scenario()
def hub_receiver_ends(r):
    """Survivors' hubs feed those of a process that is killed, exits or closes.

    Another process gets the rest, or the same process over a new connection.
    """
    ends(r, "survivor")


@scenario()
def hub_sender_ends(r):
    """A process whose hubs feed survivors' is killed, exits or closes.

    The survivors have a prefix, and receive another sender's chunks, or the rest of its.
    """
    ends(r, "peer")


@scenario()
def hub_stopped(r):
    """SIGSTOP and SIGCONT of a process with streams both ways: everything arrives, once."""
    transports, work, _ = begin(r)
    peer, flows, places = r.guest("peer", transports), [], []
    for actor in r.involve():
        here, there = r.join(actor, peer)
        places.append((actor, here))
        for sends in ("survivor", "peer"):
            flow = Flow(r, work, actor, peer, sends=sends)
            flow.connect(here, there)
            flows.append(flow)
    for flow in flows:
        flow.start()
    r.pause()
    r.hold_up(peer)
    for flow in flows:
        flow.started()
        flow.sink.call("consume")
    for flow in flows:
        flow.arrived()
        flow.drained()
        flow.mine().drop()
    r.part(places, peer)


@scenario()
def hub_unlinked(r):
    """A link or a hub at one end of a stream is destroyed while the connection stays.

    Its successor continues at the same point, and nothing arrives twice.
    """
    transports, work, _ = begin(r)
    peer, sends = r.guest("peer", transports), r.choose("sends", ("survivor", "peer"))
    flows = meet(r, peer, r.involve(), sends, work)
    goes = r.choose("goes", ("in link", "out link", "in hub", "in hub closed"))
    # A stream that has ended does not wait for a new hub; a link may be destroyed during the end.
    early = goes.endswith("link") and r.choose("closes", ("early", "late")) == "early"
    for flow in flows:
        flow.start(int(early))
    r.pause()
    for flow in flows:
        flow.started()
        end = flow.sink if goes.startswith("in") else flow.source
        ahead = 0
        if goes.endswith("link"):
            end.call("relink", side=end.side)
        else:
            if goes == "in hub closed":
                end.call("close_hub")
                end.call("consume")
                begins = flow.over()["next"]
            else:
                # Its received chunks are destroyed with it; the next one to arrive is the first
                # that was not received.
                begins, ahead = end.account()["next"], work["count"]
            end.drop()
            end = flow.sink = End(
                r, end.actor, work, "in", group=flow.group, **{"from": flow.sender}, next=begins
            )
        end.connect(flow.here if end.actor is flow.actor else flow.there, flow.number)
        flow.sink.call("consume", ahead=ahead)
        flow.closes()
    for flow in flows:
        account = flow.over()
        whole = account["came"] == work["count"] and account["next"] == work["count"]
        if account["again"] or not (
            whole
            if goes.endswith("link")
            else account["next"] == work["count"] or not account["came"]
        ):
            r.fail(
                "integrity",
                f"{flow.sink.actor.name}: expected all of {work['count']}, got {account}",
            )
        # A new link of a hub that has sent everything waits for another end.
        if not (early and goes == "out link"):
            flow.drained()
        flow.mine().drop()
    r.part([(flow.actor, flow.here) for flow in flows], peer)


@scenario()
def hub_relay_ends(r):
    """A process in the middle between two survivors' hubs ends.

    Only chunks that it had received and not passed on are missing; the two continue without it.
    """
    transports, work, _ = begin(r)
    first, last = r.random.sample(r.survivors, 2)
    relay = r.guest("relay", transports)
    joined = [(actor, *r.join(actor, relay)) for actor in (first, last)]
    flow = Flow(r, work, first, last, sends="survivor")
    between = End(r, relay, work, "in")
    (_, to_relay, from_first), (_, to_last, from_relay) = (
        joined[0],
        (last, joined[1][2], joined[1][1]),
    )
    for end, endpoint, number, side in r.random.sample(
        (
            (flow.source, to_relay, 1, "out"),
            (between, from_first, 1, "in"),
            (between, to_last, 2, "out"),
            (flow.sink, from_relay, 2, "in"),
        ),
        4,
    ):
        end.connect(endpoint, number, side)
    r.flooded.extend((first, last))
    flow.start()
    r.pause()
    groups = [flow.group, r.group()]
    places = [(actor, here, there, group) for (actor, here, there), group in zip(joined, groups)]
    lives = strike(
        r, r.choose("how", tuple(way for way in WAYS if way != "destroy")), relay, [], places
    )
    told, (has, closed) = flow.source_kept(), flow.sink_has()
    missing = told - has
    at_most = between.settled()["length"] if lives else between.envelopes
    if not -min(flow.source.window, between.window) <= missing <= at_most:
        r.fail(
            "completion",
            f"{first.name} got {told} acknowledged, {last.name} has {has}; the relay had {at_most}",
        )
    if not closed:
        flow.sink.call("consume", back=max(0, -missing), ahead=max(0, missing))
        flow.connect(first.mesh[last], last.mesh[first])
        account = flow.over()
        if account["next"] != (work["count"] if told < work["count"] else has):
            r.fail("integrity", f"{last.name}: expected all from {told} on, got {account}")
        flow.drained()
    for end in (flow.source, flow.sink):
        end.drop()
    if lives:
        r.leave(relay)


@scenario("hosts")
def hub_wire(r):
    """Between hosts, over a wire that delays and loses frames.

    A process at either end of a stream is killed, stops, exits or closes.
    """
    transports = f"hosts-{r.choose('places', ('aab', 'abc'))}"
    network = r.pools[transports].network
    network.disturb(r.choose("delay_ms", (0, 1, 5)), r.choose("loss_percent", (0, 0, 0.5, 2)))

    def peer_of(name):
        return r.guest(name, "hosts", prefix=network.prefix(r.choose("place", network.PLACES)))

    try:
        ends(r, r.choose("sends", ("survivor", "peer")), transports, peer_of=peer_of)
    finally:
        network.disturb(0, 0)


@scenario("link")
def hub_cut_link(r):
    """The network between two hosts is cut during streams both ways.

    The streams wait, or are given up with liveness_ns, and continue when it is back.
    """
    network = r.pools["link"].network
    transports, work, _ = begin(r, "link")
    peer = r.guest("peer", transports, prefix=network.prefix("far"))
    how, liveness = (
        r.choose("how", ("down", "loss", "one way")),
        r.choose("liveness", (0, 1.5, 3.0)),
    )
    flows, places = [], []
    for actor in r.involve():
        here, there = r.join(
            actor, peer, **({"liveness": int(liveness / NANO)} if liveness else {})
        )
        places.append((actor, here, there, r.group()))
        # Giving up a connection that is still being made takes its own time.
        r.greet_ends(actor, here, peer, there)
        peer.call("recv", group=places[-1][3], count=1, size=8, tag=8, **{"from": there})
        for sends in ("survivor", "peer"):
            flow = Flow(r, work, actor, peer, sends=sends)
            flow.connect(here, there)
            flows.append(flow)
    for flow in flows:
        flow.start()
    r.pause()
    network.cut(how)
    try:
        since = r.now(peer)
        for actor, here, _, group in places:
            # An operation is outstanding, whatever the streams wait for.
            actor.call(
                "send", ep=here, group=group, count=1, size=8, tag=8, sync=1, sender=actor.number
            )
        if liveness:
            r.ended(
                [(actor, here, group) for actor, here, _, group in places],
                since,
                ("OK", "TIMED_OUT"),
                1.5 * liveness + SOON,
            )
        else:
            r.rest(2)
    finally:
        network.restore(how)
    for actor, here, there, group in places:
        if liveness:
            r.closed(peer, there, allowed=("TIMED_OUT", *RESET))
            r.drained(peer, group, allowed=("OK", "TIMED_OUT", *RESET))
            r.drop(peer, there, 1.0)
        else:
            r.drained(actor, group)
            r.drained(peer, group)
    joined = {actor: (here, there) for actor, here, there, _ in places}
    if liveness:
        joined = {actor: r.join(actor, peer) for actor in joined}
    for flow in flows:
        flow.started()
        if liveness:
            go_on(r, flow, True, True, peer, *joined[flow.actor])
        else:
            flow.sink.call("consume")
            flow.arrived()
            flow.drained()
    for flow in flows:
        flow.mine().drop()
    r.part([(actor, here) for actor, (here, _) in joined.items()], peer)
