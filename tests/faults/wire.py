#!/usr/bin/env python3
"""A wire between network namespaces that delays frames and loses some: each namespace gets a device
wire0, and frames pass from one to another through this process. netem would do the same, if the
kernel has it. Run by network.py:

    wire.py SEED NAMESPACE NAMESPACE ...

Prints "ready" when the devices exist. Each line on stdin has a delay in milliseconds each way, a
loss in per cent, and the namespaces that are cut off from now on, by their index in the list;
frames in flight from and to them are dropped. The process exits at the end of stdin.
"""

import ctypes
import fcntl
import heapq
import itertools
import os
import random
import selectors
import struct
import sys
import time

CLONE_NEWNET = 0x40000000
TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
LONGEST = 65536


def tap(namespace):
    """Opens a device in that namespace, which this process enters."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{namespace}", encoding="ascii") as file:
        if libc.setns(file.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
    end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH22x", b"wire0", IFF_TAP | IFF_NO_PI))
    return end


class Wire:
    def __init__(self, seed, namespaces):
        self.random = random.Random(seed)
        self.ends = [tap(name) for name in namespaces]
        self.known = {}  # hardware address: end
        self.delay = self.loss = 0.0
        self.cut = set()
        self.under_way = []  # (when due, number, frame, to, from)
        self.numbers = itertools.count()
        self.selector = selectors.DefaultSelector()
        for end in self.ends:
            self.selector.register(end, selectors.EVENT_READ, self.take)
        self.selector.register(sys.stdin, selectors.EVENT_READ, self.obey)

    def obey(self, _):
        line = sys.stdin.readline()
        if not line:
            sys.exit(0)
        delay, loss, *cut = line.split()
        self.delay, self.loss = float(delay), float(loss)
        self.cut = {self.ends[int(place)] for place in cut}
        self.under_way = [
            carried
            for carried in self.under_way
            if carried[3] not in self.cut and carried[4] not in self.cut
        ]
        heapq.heapify(self.under_way)
        self.delay /= 1000
        self.loss /= 100
        print("set", flush=True)

    def take(self, end):
        for _ in range(64):
            try:
                frame = os.read(end, LONGEST)
            except OSError:
                return
            self.known[frame[6:12]] = end
            to = self.known.get(frame[:6])
            if self.random.random() < self.loss or end in self.cut:
                continue
            due = time.monotonic() + self.delay
            for other in self.ends if to is None else (to,):
                if other != end and other not in self.cut:
                    heapq.heappush(self.under_way, (due, next(self.numbers), frame, other, end))

    def deliver(self):
        while self.under_way and self.under_way[0][0] <= time.monotonic():
            _, _, frame, end, _ = heapq.heappop(self.under_way)
            try:
                os.write(end, frame)
            except OSError:
                pass  # a frame without room is lost, as on any wire

    def run(self):
        while True:
            limit = max(0, self.under_way[0][0] - time.monotonic()) if self.under_way else None
            for key, _ in self.selector.select(limit):
                key.data(key.fileobj)
            self.deliver()


if __name__ == "__main__":
    wire = Wire(sys.argv[1], sys.argv[2:])
    print("ready", flush=True)
    wire.run()
