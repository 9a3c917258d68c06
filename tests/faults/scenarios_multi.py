"""Multi-buffer transfers, in both forms, that a fault interrupts."""

import signal

from rounds import DEATH, FORCE
from scenarios import scenario
from scenarios_close import CUT
from scenarios_kill import DIED

DISPOSING = ("read", "keep", "take", "mixed")
MOST_BYTES = 32 << 20  # in flight on a connection, in one direction
MOST_FRAMES = 10000
SPREAD = 8  # tags of one sender, which a mask matches together
FORMS = ("tag", "message")


def load(r):
    """The number of messages, and the number and largest length of their frames."""
    frames = r.choose("frames", (3, 8, 20, 100, 101, 120))
    largest = r.choose("largest", (300, 8192, 65536, 1 << 20))
    # An eighth of the frames have any length up to the largest.
    most = max(1, min(MOST_FRAMES // frames, MOST_BYTES // (frames * (largest // 16 + 1500))))
    return {
        "count": r.choose("count", [min(most, count) for count in (1, 3, 10, 100, 1000)]),
        "frames": frames,
        "largest": largest,
    }


def starve(r):
    """The receiver's allocator sometimes fails: how often, and the statuses that this adds."""
    fails = r.choose("fails", (0, 0, 0, 3, 100))
    return fails, ("NO_MEMORY",) if fails else ()


def gather(r, actor, group, fails, **values):
    actor.call(
        "gather",
        group=group,
        fails=fails,
        how=r.choose("frames_are", DISPOSING),
        sender=actor.number,
        **values,
    )


class Flow:
    """Messages from one end of a connection to the other, in one form."""

    def __init__(self, r, form, left, here, right, there, group, far_group, work):
        self.r, self.form, self.sender, self.endpoint, self.receiver, self.its_end = (
            r,
            form,
            left,
            here,
            right,
            there,
        )
        self.group, self.far_group, self.work = group, far_group, work
        self.stream = r.group()
        self.spread = r.choose("spread", (1, SPREAD)) if form == "tag" else 1
        # No other connection or round has this tag.
        self.tag = 2 << 40 | left.number << 24 | self.stream << 8

    def post_receives(self, fails=0, **values):
        """By tag only; active messages go to their handler."""
        if self.form == "tag":
            self.receiver.post(
                "multi_recv",
                **{"from": self.its_end},
                group=self.far_group,
                tag=self.tag,
                spread=self.spread,
                stream=self.stream,
                fails=fails,
                **{"handle": self.r.handle(), **self.work, **values},
            )

    def receive(self, fails=0, **values):
        if self.form == "tag":
            self.post_receives(fails, **values)
            self.receiver.result()

    def post(self):
        self.sender.post(
            "multi_send",
            form=self.form,
            ep=self.endpoint,
            group=self.group,
            tag=self.tag,
            spread=self.spread,
            stream=self.stream,
            sender=self.sender.number,
            handle=self.r.handle(),
            protocol=self.r.choose("protocol", (0, 0, 1, 2)),
            reply=self.r.choose("reply", (0, 0, 1)),
            **self.work,
        )


def arrange(r):
    """A peer, and the processes connected to it: survivors, and sometimes one that leaves in good
    order afterwards, as a worker's buffers can be accounted for completely only after its
    destruction.
    """
    transports = r.take_part()
    peer = r.guest("victim", transports)
    witness = r.guest("witness", transports) if r.choose("witness", (0, 0, 1)) else None
    greeted, places = r.choose("greeted", (True, True, False)), []
    for actor in [*r.involve(), *([witness] if witness else [])]:
        here, there = r.join(actor, peer)
        places.append((actor, here, there, r.group()))
        if greeted:
            r.greet_ends(actor, here, peer, there)
    return peer, witness, places


def among_survivors(r):
    """The survivors still send each other such messages."""
    work = {"count": 3, "frames": 20, "largest": 300000}
    lines = [
        (actor, actor.mesh[other], other)
        for actor, other in zip(r.survivors, r.survivors[1:] + r.survivors[:1])
    ]
    carry(r, lines, work)


def carry(r, lines, work, flows=()):
    """Over each (from, endpoint, to), in both forms; and the given flows once more."""
    group = r.group()
    for *_, receiver in lines:
        gather(r, receiver, group, 0, expected=work["count"])
    again = [
        Flow(r, form, sender, endpoint, receiver, 0, group, group, work)
        for sender, endpoint, receiver in lines
        for form in FORMS
    ]
    for flow in flows:
        flow.group = flow.far_group = group
        flow.work = work
        again.append(flow)
    for flow in again:
        flow.post_receives()
        flow.post()
    for flow in again:
        flow.sender.result()
        if flow.form == "tag":
            flow.receiver.result()
    actors = list(dict.fromkeys(actor for flow in again for actor in (flow.sender, flow.receiver)))
    for actor in actors:
        actor.call("watch", group=group)
    late = [
        actor
        for actor in actors
        if not actor.wait("drained", group=group, limit=r.field.watchdog / 2)
    ]
    if late:
        # A blocked queue lets no other message through either.
        if r.exchange(
            [(actor, actor.mesh[other], other) for actor in r.survivors for other in actor.mesh]
        )[1]:
            r.silent(group, late)
        r.late(group, late, "no transfer")
    for actor in actors:
        account = actor.call("group", group=group)
        if set(r.ends(account)) != {"OK"} or account["refused"] != "0":
            r.fail("survivors", f"{actor.name} could not transfer: {account}")


def killed_sending(r, form):
    work, (fails, starved) = load(r), starve(r)
    victim, witness, places = arrange(r)
    flows = [
        Flow(r, form, victim, there, actor, here, 501, group, work)
        for actor, here, there, group in places
    ]
    for flow in flows:
        gather(r, flow.receiver, flow.far_group, fails)
        flow.receive(fails)
        r.flooded.append(flow.receiver)
    for flow in flows:
        flow.post()
    r.pause()
    killed = r.strike(victim, signal.SIGKILL)
    r.ended(
        [(actor, here, group) for actor, here, _, group in places],
        killed,
        DIED + starved,
        DEATH,
        statuses=DIED[1:],
    )
    afterwards(r, witness)


def killed_receiving(r, form):
    work, (fails, _) = load(r), starve(r)
    victim, witness, places = arrange(r)
    flows = [
        Flow(r, form, actor, here, victim, there, group, 500, work)
        for actor, here, there, group in places
    ]
    gather(r, victim, 500, fails)
    receives = r.choose("receives", (True, True, False))
    for flow in flows:
        # Credit updates and replies are sent back.
        r.flooded.append(flow.sender)
        if receives:
            flow.receive(fails)
    for flow in flows:
        flow.post()
    r.pause()
    killed = r.strike(victim, signal.SIGKILL)
    for actor, *_ in places:
        actor.result()
    r.ended([(actor, here, group) for actor, here, _, group in places], killed, DIED, DEATH)
    afterwards(r, witness)


def afterwards(r, witness):
    if witness:
        r.leave(witness)
    among_survivors(r)


@scenario()
def kill_multi_sender(r):
    """SIGKILL of a peer that sends multi-buffer messages by tag."""
    killed_sending(r, "tag")


@scenario()
def kill_multi_receiver(r):
    """SIGKILL of a peer to which survivors send multi-buffer messages by tag.

    It may receive them, or not.
    """
    killed_receiving(r, "tag")


@scenario()
def kill_multi_active_sender(r):
    """SIGKILL of a peer that sends multi-buffer active messages."""
    killed_sending(r, "message")


@scenario()
def kill_multi_active_receiver(r):
    """SIGKILL of a peer to which survivors send multi-buffer active messages."""
    killed_receiving(r, "message")


@scenario()
def close_multi(r):
    """One or both sides close during multi-buffer transfers, by force or by flush."""
    work, (fails, starved) = load(r), starve(r)
    peer, witness, places = arrange(r)
    forms = r.choose("forms", (("tag",), ("message",), FORMS))
    far, flows = r.group(), []
    # Handlers' receives have a group of their own.
    handled = {actor: r.group() for actor in [peer, *(actor for actor, *_ in places)]}
    for actor, group in handled.items():
        gather(r, actor, group, fails)
    for actor, here, there, group in places:
        for form in forms:
            flows.append(Flow(r, form, actor, here, peer, there, group, far, work))
            flows.append(Flow(r, form, peer, there, actor, here, far, group, work))
    r.cut_short.update([far, *handled.values(), *(group for *_, group in places)])
    for flow in flows:
        flow.receive(fails)
    for flow in flows:
        flow.post()
    r.pause()
    how, who = r.choose("closes", ("flush", "force")), r.choose("who", ("survivor", "peer", "both"))
    began = r.now(peer)
    ends = {
        "survivor": [(actor, here, group) for actor, here, _, group in places],
        "peer": [(peer, there, far) for _, _, there, _ in places],
    }
    closers = [end for side in ends if who in (side, "both") for end in ends[side]]
    stayers = [end for side in ends if who not in (side, "both") for end in ends[side]]
    for actor, endpoint, group in closers:
        actor.post("close", ep=endpoint, group=group, how=how, handle=r.handle())
    for flow in flows:
        flow.sender.result()
    for actor, *_ in closers:
        actor.result()
    bound = FORCE if how == "force" else None
    allowed = CUT + starved + (() if bound else ("TIMED_OUT",))
    for actor, endpoint, _ in closers:
        r.closed(
            actor,
            endpoint,
            began,
            allowed=CUT + ("TIMED_OUT",) if who == "both" else ("OK", "TIMED_OUT"),
            figure="closed",
            bound=bound,
        )
    for actor, endpoint, _ in stayers:
        r.closed(actor, endpoint, began, allowed=("CONNECTION_RESET",), figure="heard", bound=bound)
    for actor, group in dict.fromkeys(
        [*((actor, group) for actor, _, group in closers + stayers), *handled.items()]
    ):
        r.drained(actor, group, began, allowed=allowed, figure="complete", bound=bound)
    for actor, endpoint, _ in closers + stayers:
        r.drop(actor, endpoint, 1.0)
    r.leave(peer)
    afterwards(r, witness)


@scenario()
def cancel_multi(r):
    """Receives of multi-buffer messages by tag are cancelled, or time out.

    Then the tag is used again.
    """
    work = load(r)
    peer, witness, places = arrange(r)
    flows = [
        Flow(r, "tag", peer, there, actor, here, r.group(), group, work)
        for actor, here, there, group in places
    ]
    how = r.choose("how", ("cancel", "cancel", "timeout"))
    timeout = (
        {"timeout": r.choose("timeout", (1, 10, 50)) * 1000000}
        if how == "timeout"
        else {"handle": "keep"}
    )
    # Later receives match what the earlier ones left.
    most = r.choose("most", (1, 3, MOST_FRAMES))
    sends_first = r.choose("sends_first", (False, False, True))
    for flow in flows:
        steps = [flow.post, lambda flow=flow: flow.receive(in_order=0, **timeout)]
        for step in steps if sends_first else reversed(steps):
            step()
    r.pause()
    began = r.now(peer)
    for flow in flows if how == "cancel" else ():
        flow.receiver.post("cancel", group=flow.far_group, most=most)
    for flow in flows:
        flow.sender.result()
        if how == "cancel":
            flow.receiver.result()
    for flow in flows:
        # A receive takes a left-over message for a header, which it is not.
        r.drained(
            flow.receiver,
            flow.far_group,
            began,
            allowed=("OK", "CANCELED", "TIMED_OUT", "IO_ERROR"),
            figure="canceled",
        )
    for flow in flows:
        # What was left waits as separate messages, and so do their senders.
        peer.call("watch", group=flow.group)
        if not r.poll(
            lambda flow=flow: flow.receiver.call("sweep") and peer.find("drained", group=flow.group)
        ):
            r.late(flow.group, [peer], "sends do not complete")
        r.drained(peer, flow.group)
    for actor, here, there, _ in places:
        r.greet_ends(actor, here, peer, there)
        actor.call("sweep")
    carry(r, [], {**work, "count": 3}, flows)
    r.part([(actor, here) for actor, here, *_ in places], peer)
    afterwards(r, witness)
