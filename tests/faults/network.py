"""Two network namespaces joined by a veth pair, whose link can be cut. Needs root and `ip`."""

import os
import shutil
import subprocess
import time

NOBODY = "02:00:00:00:00:99"


class Unavailable(Exception):
    pass


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unavailable(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


class Network:
    """Sides "near" and "far"; the device of each is called veth0."""

    SIDES = ("near", "far")

    def __init__(self):
        if os.geteuid() != 0:
            raise Unavailable("not root")
        if not shutil.which("ip"):
            raise Unavailable("no ip command")
        self.names = {side: f"ucxx-rs-{os.getpid()}-{side}" for side in self.SIDES}
        self.made = []
        try:
            for name in self.names.values():
                run("ip", "netns", "add", name)
                self.made.append(name)
            run("ip", "link", "add", "veth0", "netns", self.names["near"], "type", "veth", "peer", "name", "veth0", "netns", self.names["far"])
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
        """Waits until the link is up as UCX sees it: it leaves out devices that are not."""
        end = time.monotonic() + 10
        while "state UP" not in self.inside(side, "ip", "-o", "link", "show", "veth0"):
            if time.monotonic() > end:
                raise Unavailable("the link does not come up")
            time.sleep(0.01)

    def prefix(self, side):
        return ("ip", "netns", "exec", self.names[side])

    def lose(self, side):
        """What this side sends is lost from now on: it goes to a hardware address that nobody has. netem would do the same, where the kernel has it."""
        self.inside(side, "ip", "neigh", "replace", self.address(1 - self.SIDES.index(side)), "lladdr", NOBODY, "dev", "veth0", "nud", "permanent")

    def find_again(self, side):
        self.inside(side, "ip", "neigh", "del", self.address(1 - self.SIDES.index(side)), "dev", "veth0")

    @staticmethod
    def address(number):
        return f"192.0.2.{number + 1}"

    def cut(self, how):
        """The addresses of the near side stay: processes there go on talking to each other."""
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

    def close(self):
        for name in self.made:
            subprocess.run(("ip", "netns", "delete", name), capture_output=True, check=False)
        self.made = []
