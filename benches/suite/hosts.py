# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Two hosts: network namespaces of this machine, as the fault tests make them. The processes in
each count as processes of a separate host."""

import sys
from pathlib import Path

from . import Unavailable

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests" / "faults"))
import network  # noqa: E402

ENTER = Path(__file__).with_name("enter.sh")
DEVICE = "veth0"
PORT = 28500


class Hosts:
    """One process of a world on each host."""

    def __init__(self):
        try:
            self.network = network.Network()
        except network.Unavailable as reason:
            raise Unavailable(f"no namespaces: {reason}") from None

    def close(self):
        self.network.close()

    def names(self):
        return [self.network.names[side] for side in self.network.SIDES]

    def inside(self, rank):
        """The beginning of a command that runs on the host of this rank."""
        return [*self.network.prefix(self.network.SIDES[rank]), "env", f"UCXX_RS_HOST_ID={rank}"]

    def commands(self, command):
        """The commands of our processes: those of the other ranks, and the first one's."""
        settings = {
            "WORLD_SIZE": 2,
            "MASTER_ADDR": self.network.address(0),
            "MASTER_PORT": PORT,
            "UCXX_RS_GROUP_SECRET": "what keeps others out of the group",
        }
        both = [
            [
                *self.inside(rank),
                *(f"{key}={value}" for key, value in settings.items()),
                f"RANK={rank}",
                *command,
            ]
            for rank in (0, 1)
        ]
        return both[0], both[1:]
