"""When did the machine stand still? A bound is on what the library takes, not on what else runs
here.

Two instruments: a thread that wants to wake every few milliseconds and notes when it could not (a
virtual machine that is held up stops everybody), and the kernel's own account of how long a process
waited for a processor.
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
        """Seconds of the interval."""
        return sum(max(0, min(end, to) - max(begin, start)) for start, to in list(self.stalls))


def waited(pid):
    """Seconds that the threads of a process were ready to run and did not, the longest of them; 0
    where the kernel does not tell."""
    longest = 0
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:
                longest = max(longest, int(file.read().split()[1]))
    except (OSError, IndexError):
        pass
    return longest / 1e9
