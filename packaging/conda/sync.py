"""Makes an environment of these packages and what they need, or empties it without SPECs.

sync.py CHANNEL PREFIX [SPEC...]
"""

import asyncio
import os
import sys

import rattler


async def main():
    channel, prefix, *specs = sys.argv[1:]
    records = []
    if specs:
        records = await rattler.solve([channel], specs, platforms=["linux-64", "noarch"])
    await rattler.install(records, prefix, show_progress=False)
    for record in records:
        print("installed", record.name.normalized, record.version)


asyncio.run(main())
sys.stdout.flush()
# The threads of py-rattler 0.28.0 still run, and crash now and then while the interpreter ends.
os._exit(0)
