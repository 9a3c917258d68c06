"""Network namespaces: two joined by a veth pair, whose link can be cut, or three on a wire that
delays and loses frames. Needs root and `ip`.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

NOBODY = "02:00:00:00:00:99"


class Unavailable(Exception):
    pass


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unavailable(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def check():
    if os.geteuid() != 0:
        raise Unavailable("not root")
    if not shutil.which("ip"):
        raise Unavailable("no ip command")


class Hosts:
    """Three namespaces on a wire (wire.py); their processes count as those of three hosts."""

    PLACES = ("a", "b", "c")

    def __init__(self, seed):
        check()
        self.names = {place: f"ucxx-rs-{os.getpid()}-{place}" for place in self.PLACES}
        self.made = []
        self.wire = None
        try:
            for name in self.names.values():
                run("ip", "netns", "add", name)
                self.made.append(name)
            command = (
                sys.executable,
                str(Path(__file__).with_name("wire.py")),
                seed,
                *self.names.values(),
            )
            self.wire = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            self.hear("ready")
            for place in self.PLACES:
                self.inside(place, "ip", "addr", "add", f"{self.address(place)}/24", "dev", "wire0")
                self.inside(place, "ip", "link", "set", "lo", "up")
                self.inside(place, "ip", "link", "set", "wire0", "txqueuelen", "5000", "up")
        except Unavailable:
            self.close()
            raise

    def hear(self, word):
        if self.wire.stdout.readline().strip() != word:
            raise Unavailable(f"no wire: {self.wire.stderr.read().strip()[-300:]}")

    def inside(self, place, *command):
        return run("ip", "netns", "exec", self.names[place], *command)

    def prefix(self, place):
        return ("ip", "netns", "exec", self.names[place], "env", f"UCXX_RS_HOST_ID={place}")

    def address(self, place):
        return f"198.51.100.{self.PLACES.index(place) + 1}"

    def disturb(self, delay_ms, loss_percent, cut=""):
        """From now on delays each frame, loses this percentage, and drops everything from and to
        the places that are cut off.
        """
        self.wire.stdin.write(
            f"{delay_ms} {loss_percent} {' '.join(str(self.PLACES.index(place)) for place in cut)}\n"
        )
        self.wire.stdin.flush()
        self.hear("set")

    def close(self):
        if self.wire is not None:
            self.wire.stdin.close()
            self.wire.wait()
            self.wire = None
        for name in self.made:
            subprocess.run(("ip", "netns", "delete", name), capture_output=True, check=False)
        self.made = []


class Network:
    """Sides "near" and "far"; each has a device veth0."""

    SIDES = ("near", "far")

    def __init__(self):
        check()
        self.names = {side: f"ucxx-rs-{os.getpid()}-{side}" for side in self.SIDES}
        self.made = []
        try:
            for name in self.names.values():
                run("ip", "netns", "add", name)
                self.made.append(name)
            run(
                "ip",
                "link",
                "add",
                "veth0",
                "netns",
                self.names["near"],
                "type",
                "veth",
                "peer",
                "name",
                "veth0",
                "netns",
                self.names["far"],
            )
            for number, side in enumerate(self.SIDES):
                self.inside(side, "ip", "addr", "add", f"{self.address(number)}/24", "dev", "veth0")
                self.inside(side, "ip", "link", "set", "lo", "up")
                self.inside(side, "ip", "link", "set", "veth0", "up")
            for side in self.SIDES:
                self.carried(side)
        except Unavailable:
            self.close()
            raise

    def inside(self, side, *command):
        return run("ip", "netns", "exec", self.names[side], *command)

    def carried(self, side):
        """Waits until the link is up for UCX, which ignores devices that are not."""
        end = time.monotonic() + 10
        while "state UP" not in self.inside(side, "ip", "-o", "link", "show", "veth0"):
            if time.monotonic() > end:
                raise Unavailable("the link stays down")
            time.sleep(0.01)

    def prefix(self, side):
        return ("ip", "netns", "exec", self.names[side])

    def lose(self, side):
        """Loses everything that this side sends from now on: it is addressed to a nonexistent
        hardware address. netem would do the same, if the kernel has it.
        """
        self.inside(
            side,
            "ip",
            "neigh",
            "replace",
            self.address(1 - self.SIDES.index(side)),
            "lladdr",
            NOBODY,
            "dev",
            "veth0",
            "nud",
            "permanent",
        )

    def find_again(self, side):
        self.inside(
            side, "ip", "neigh", "del", self.address(1 - self.SIDES.index(side)), "dev", "veth0"
        )

    @staticmethod
    def address(number):
        return f"192.0.2.{number + 1}"

    def cut(self, how):
        """The near side keeps its addresses, so its processes can still reach each other."""
        if how == "down":
            self.inside("far", "ip", "link", "set", "veth0", "down")
        else:
            for side in self.SIDES if how == "loss" else ("far",):
                self.lose(side)

    def restore(self, how):
        if how == "down":
            self.inside("far", "ip", "link", "set", "veth0", "up")
            for side in self.SIDES:
                self.carried(side)
        else:
            for side in self.SIDES if how == "loss" else ("far",):
                self.find_again(side)
        for side in self.SIDES:
            # A side that could not resolve the other's hardware address during the cut stops trying
            # after a while, and fails all connections begun by then.
            self.inside(side, "ip", "neigh", "flush", "dev", "veth0")

    def close(self):
        for name in self.made:
            subprocess.run(("ip", "netns", "delete", name), capture_output=True, check=False)
        self.made = []
