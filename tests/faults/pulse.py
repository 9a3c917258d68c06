"""When did the machine stand still? The bounds are for the library, not for other load.

Two instruments: a thread that tries to wake every few milliseconds and records when it could not (a
stopped virtual machine stops everything), and the kernel's account of how long a process waited for
a processor.
"""

import os
import threading
import time
from collections import deque

EVERY = 0.02
STALL = 0.05


class Pulse:
    def __init__(self):
        self.stalls = deque(maxlen=100000)  # (from, to)
        threading.Thread(target=self.beat, daemon=True).start()

    def beat(self):
        last = time.monotonic()
        while True:
            time.sleep(EVERY)
            now = time.monotonic()
            if now - last > EVERY + STALL:
                self.stalls.append((last + EVERY, now))
            last = now

    def stood_still(self, begin, end):
        """Seconds within the interval."""
        return sum(max(0, min(end, to) - max(begin, start)) for start, to in list(self.stalls))


def waited(pid):
    """Seconds that a process's threads were ready and did not run, the longest of them; 0 if the
    kernel does not tell.
    """
    longest = 0
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:
                longest = max(longest, int(file.read().split()[1]))
    except (OSError, IndexError):
        pass
    return longest / 1e9
