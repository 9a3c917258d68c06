# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Dask's `distributed` over `ucxxrs://`: connections, clusters, and a worker that is killed."""

import asyncio
import os
import signal
import unittest

import numpy
import pandas
from distributed import Client, LocalCluster
from distributed.comm import CommClosedError, connect, listen
from distributed.protocol import to_serialize

import dask
import dask.dataframe

ANY_PORT = "ucxxrs://127.0.0.1:0"


class Connections(unittest.IsolatedAsyncioTestCase):
    """The rules of distributed's communication layer."""

    async def asyncSetUp(self):
        self.served = asyncio.Queue()
        self.release = asyncio.Event()

    async def serve(self, comm):
        await self.served.put(comm)
        await self.release.wait()

    async def pair(self, listener):
        client = await connect(listener.contact_address)
        return client, await self.served.get()

    async def test_a_message_arrives_as_it_was_in_both_directions(self):
        async with listen(ANY_PORT, self.serve) as listener:
            client, server = await self.pair(listener)
            array = numpy.arange(1_000_000)
            for sender, receiver in ((client, server), (server, client)):
                sending = asyncio.create_task(
                    sender.write({"op": "x", "data": to_serialize(array), "empty": b""})
                )
                message = await receiver.read()
                await sending
                self.assertEqual(message["op"], "x")
                numpy.testing.assert_array_equal(message["data"], array)
            self.release.set()
            await client.close()
            await server.close()

    async def test_messages_keep_their_order_and_arrive_before_the_close(self):
        async with listen(ANY_PORT, self.serve) as listener:
            client, server = await self.pair(listener)
            for number in range(100):
                await client.write({"number": number})
            await client.close()
            self.release.set()
            for number in range(100):
                self.assertEqual((await server.read())["number"], number)
            with self.assertRaises(CommClosedError):
                await server.read()
            self.assertTrue(server.closed())
            with self.assertRaises(CommClosedError):
                await server.write("nobody")

    async def test_a_read_ends_when_the_peer_closes_or_aborts(self):
        async with listen(ANY_PORT, self.serve) as listener:
            for end in ("close", "abort"):
                client, server = await self.pair(listener)
                reading = asyncio.create_task(server.read())
                await asyncio.sleep(0)
                if end == "close":
                    await client.close()
                else:
                    client.abort()
                with self.assertRaises(CommClosedError):
                    await asyncio.wait_for(reading, 30)
            self.release.set()

    async def test_an_own_close_ends_an_own_read(self):
        async with listen(ANY_PORT, self.serve) as listener:
            client, _server = await self.pair(listener)
            reading = asyncio.create_task(client.read())
            await asyncio.sleep(0)
            await client.close()
            with self.assertRaises(CommClosedError):
                await asyncio.wait_for(reading, 30)
            self.release.set()

    async def test_many_connections_do_not_mix_their_messages(self):
        async def echo(comm):
            try:
                while True:
                    await comm.write(await comm.read())
            except CommClosedError:
                pass

        async def talk(address, number):
            comm = await connect(address)
            for turn in range(20):
                data = numpy.full(turn * 1000, number)
                await comm.write({"number": number, "data": to_serialize(data)})
                answer = await comm.read()
                self.assertEqual(answer["number"], number)
                self.assertTrue(
                    (answer["data"].deserialize() == number).all()
                    if hasattr(answer["data"], "deserialize")
                    else (answer["data"] == number).all()
                )
            await comm.close()

        async with listen(ANY_PORT, echo, deserialize=False) as listener:
            await asyncio.gather(*(talk(listener.contact_address, one) for one in range(20)))

    async def test_nobody_listens(self):
        async with listen(ANY_PORT, self.serve) as listener:
            address = listener.contact_address
        with self.assertRaises(OSError):
            await connect(address, timeout=2)


class Clusters(unittest.TestCase):
    def cluster(self, workers):
        cluster = LocalCluster(
            n_workers=workers, threads_per_worker=1, protocol="ucxxrs", host="127.0.0.1",
            dashboard_address=None,
        )  # fmt: skip
        self.addCleanup(cluster.close)
        client = Client(cluster)
        self.addCleanup(client.close)
        self.assertTrue(cluster.scheduler_address.startswith("ucxxrs://"))
        return cluster, client

    def frame(self, rows):
        random = numpy.random.default_rng(7)
        frame = pandas.DataFrame(
            {"key": random.integers(0, 1000, rows), "value": random.random(rows)}
        )
        return frame, frame.groupby("key").value.sum().sort_index()

    def test_tasks_and_a_shuffle(self):
        _cluster, client = self.cluster(2)
        self.assertEqual(client.submit(numpy.arange, 1_000_000).result()[-1], 999_999)
        (ones,) = client.scatter([numpy.ones(100_000)], broadcast=True)
        sums = client.map(lambda number, array: number * array.sum(), range(8), array=ones)
        self.assertEqual(client.gather(sums), [number * 100_000.0 for number in range(8)])
        frame, expected = self.frame(200_000)
        shuffled = dask.dataframe.from_pandas(frame, npartitions=8).shuffle("key")
        result = shuffled.groupby("key").value.sum().compute().sort_index()
        numpy.testing.assert_allclose(result, expected)

    def test_a_worker_is_killed_in_a_shuffle(self):
        cluster, client = self.cluster(3)
        frame, expected = self.frame(2_000_000)
        shuffled = dask.dataframe.from_pandas(frame, npartitions=24).shuffle("key")
        future = client.compute(shuffled.groupby("key").value.sum())

        def begun(dask_scheduler):
            tasks = dask_scheduler.tasks.values()
            return sum("shuffle" in str(one.key) and one.state == "memory" for one in tasks)

        while client.run_on_scheduler(begun) < 3:
            self.assertFalse(future.done(), "the shuffle ended before the worker was killed")
        os.kill(next(iter(cluster.workers.values())).process.pid, signal.SIGKILL)
        numpy.testing.assert_allclose(future.result(timeout=120).sort_index(), expected)


if __name__ == "__main__":
    unittest.main()
