"""A free port for a program that is about to listen."""

import random
import socket


def free_port():
    """It is below the ports that the kernel gives away, so that no other program gets it first."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        lowest = int(file.read().split()[0])
    for _ in range(1000):
        port = random.randrange(max(1024, lowest // 3), lowest)
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError(f"no port below {lowest} is free")
