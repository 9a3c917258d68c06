# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Several buffers in one message, with number and sizes unknown to the receiver, arrive whole."""

import asyncio
import gc
import random
import types
import unittest
import unittest.mock
import weakref
import zlib

import ucxx_rs
from case import Buffer, LoopCase
from peer import content
from ucxx_rs import _frames
from ucxx_rs._native import lib

# A header announces a hundred frames.
COUNTS = [0, 1, 99, 101]
SIZES = [0, 1, 8, 1000, 4096, 65536]
LARGE = 1 << 20


class Destroyed(types.SimpleNamespace):
    """The library, with a count of the calls of ucxx_buffers_destroy."""

    def __init__(self):
        super().__init__(count=0)

    def __getattr__(self, name):
        return getattr(lib, name)

    def ucxx_buffers_destroy(self, buffers):
        self.count += 1
        lib.ucxx_buffers_destroy(buffers)


class Multi(LoopCase):
    def watch_destroyed(self):
        destroyed = Destroyed()
        patch = unittest.mock.patch.object(_frames, "lib", destroyed)
        patch.start()
        self.addCleanup(patch.stop)
        return destroyed

    async def test_every_number_of_frames_comes_back_as_it_was(self):
        seed = random.randrange(2**32)
        print(f"seed {seed}")
        generator = random.Random(seed)

        async def test(worker, peer):
            for tag, count in enumerate(COUNTS):
                sizes = generator.choices(SIZES, k=count)
                # With enough frames, the longest and an empty one at either end.
                sizes[:2] = sizes[-2:] = [LARGE, 0][:count]
                sent = [generator.randbytes(size) for size in sizes]
                echoed = peer.ask("echo_multi", tag=tag)
                received = worker.recv_multi(tag)
                self.assertIsNone(await peer.endpoint.send_multi(sent, tag))
                back = await received
                self.assertEqual(len(back), count)
                self.assertTrue(
                    all(isinstance(frame, memoryview) and not frame.readonly for frame in back)
                )
                self.assertEqual([bytes(frame) for frame in back], sent)
                await echoed
            self.assertEqual(worker.in_progress, 0)

        await self.over_everything(test)

    async def test_receives_in_flight_get_one_message_each(self):
        count = 100

        async def test(worker, peer):
            receives = [worker.recv_multi(0x10, mask=0xF0) for _ in range(count)]
            echoed = peer.ask("echo_multi", tag=0x10, count=count)
            sent = [[content(at % 3 * 100, at), content(at, at + 1)] for at in range(count)]
            for message in sent:
                peer.endpoint.send_multi(message, 0x10)
            for at, received in enumerate(await asyncio.gather(*receives)):
                self.assertEqual([bytes(frame) for frame in received], sent[at])
            await echoed

        await self.over_everything(test)

    async def test_the_frames_live_as_long_as_a_view_of_one(self):
        destroyed = self.watch_destroyed()

        async def test(worker, peer):
            before = destroyed.count
            given = peer.ask("give_multi", tag=1, sizes=[LARGE, 0, 3, 100], seed=7)
            received = await worker.recv_multi(1)
            await given
            await peer.endpoint.close(timeout=60)
            await worker.aclose()
            gc.collect()
            self.assertEqual(
                [bytes(frame) for frame in received],
                [content(size, 7 + at) for at, size in enumerate([LARGE, 0, 3, 100])],
            )
            part = received[3][10:20].cast("H")
            del received
            gc.collect()
            self.assertEqual(destroyed.count, before)
            self.assertEqual(bytes(part), content(100, 10)[10:20])
            del part
            gc.collect()
            self.assertEqual(destroyed.count, before + 1)

        await self.over_everything(test)

    async def test_a_message_without_frames_leaves_nothing_to_free(self):
        destroyed = self.watch_destroyed()

        async def test(worker, peer):
            before = destroyed.count
            given = peer.ask("give_multi", tag=1, sizes=[0, 0], seed=0)
            received = await worker.recv_multi(1)
            await given
            self.assertEqual([bytes(frame) for frame in received], [b"", b""])
            self.assertEqual(destroyed.count, before + 1)

        await self.over_everything(test, modes=["blocking"])

    async def test_a_cancelled_receive_takes_nothing(self):
        async def test(worker, peer):
            received = worker.recv_multi(1)
            received.cancel()
            await self.assert_fails(received, "CANCELED")
            stats = worker.stats()
            self.assertEqual((worker.in_progress, stats["canceled"], stats["in_flight"]), (0, 1, 0))
            given = peer.ask("give_multi", tag=1, sizes=[5, 50_000], seed=3)
            after = await worker.recv_multi(1)
            self.assertEqual([bytes(frame) for frame in after], [content(5, 3), content(50_000, 4)])
            await given

        await self.over_everything(test)

    async def test_cancelling_the_first_of_several_lets_the_next_one_have_the_message(self):
        async def test(worker, peer):
            first, second = worker.recv_multi(1), worker.recv_multi(1)
            first.cancel()
            given = peer.ask("give_multi", tag=1, sizes=[5], seed=3)
            self.assertEqual([bytes(frame) for frame in await second], [content(5, 3)])
            await self.assert_fails(first, "CANCELED")
            await given

        await self.over_everything(test)

    async def test_frames_that_come_after_a_cancelled_receive_are_messages(self):
        async def test(worker, peer):
            received = worker.recv_multi(1)
            # The message sent after the header has arrived, so the header has.
            announced = peer.ask("announce", tag=1, sizes=[50, LARGE], after=2)
            await worker.recv(bytearray(1), 2)
            await announced
            self.assertFalse(received.done)
            received.cancel()
            await self.assert_fails(received, "CANCELED")
            given = peer.ask("give", tag=1, size=50)
            self.assertEqual((await worker.recv(bytearray(100), 1)).length, 50)
            await given

        await self.over_everything(test)

    async def test_a_peer_that_dies_amid_its_frames_ends_the_receive(self):
        async def test(worker, peer):
            received = worker.recv_multi(1, source=peer.endpoint)
            announced = peer.ask("announce", tag=1, sizes=[50, LARGE], after=2)
            await worker.recv(bytearray(1), 2)
            await announced
            peer.kill()
            await self.assert_fails(received, "PEER_FAILED")
            self.assertEqual(worker.in_progress, 0)

        await self.over_everything(test)

    async def test_a_receive_whose_result_nobody_wants_frees_its_frames(self):
        destroyed = self.watch_destroyed()

        async def test(worker, peer):
            before = destroyed.count
            worker.recv_multi(1)
            gc.collect()
            await peer.ask("give_multi", tag=1, sizes=[5, LARGE], seed=3)
            while worker.in_progress:
                await asyncio.sleep(0)
            gc.collect()
            self.assertEqual(destroyed.count, before + 1)

        await self.over_everything(test)

    async def test_the_buffers_live_until_the_send_is_complete(self):
        async def test(worker, peer):
            buffers = [Buffer(content(8 * LARGE, 1)), Buffer(content(100, 2))]
            expected = [[len(buffer), zlib.crc32(buffer)] for buffer in buffers]
            watched = [weakref.ref(buffer) for buffer in buffers]
            # The first frame waits here, as nobody receives it yet.
            sent = peer.endpoint.send_multi(buffers, 1)
            del buffers
            gc.collect()
            self.assertFalse(sent.done)
            self.assertTrue(all(each() is not None for each in watched))
            self.assertEqual(await peer.ask("take_multi", tag=1), expected)
            await sent
            gc.collect()
            self.assertTrue(all(each() is None for each in watched))

        await self.over_everything(test)

    async def test_what_is_no_multi_buffer_message_fails_the_receive(self):
        async def test(worker, peer):
            received = worker.recv_multi(1)
            await peer.ask("give", tag=1, size=3)
            error = await self.assert_fails(received, "IO_ERROR")
            self.assertNotEqual(str(error), "")

        await self.over_everything(test)

    async def test_a_receive_that_names_its_source_ends_with_it(self):
        async def test(worker, peer):
            # The connection to the peer is established.
            await peer.ask("give_multi", tag=1, sizes=[1], seed=0)
            await worker.recv_multi(1, source=peer.endpoint)
            watched, anyone = worker.recv_multi(2, source=peer.endpoint), worker.recv_multi(3)
            peer.kill()
            await self.assert_fails(watched, "PEER_FAILED")
            with self.assertRaises(ucxx_rs.Error) as caught:
                await peer.endpoint.send_multi([bytes(LARGE)], 4)
            self.assertEqual(caught.exception.status, lib.UCXX_ERR_PEER_FAILED)
            self.assertFalse(anyone.done)
            worker.abort()
            await self.assert_fails(anyone, "CANCELED")

        await self.over_everything(test)

    async def test_any_contiguous_buffers_will_do_and_no_other(self):
        async def test(worker, peer):
            for wrong in (
                [b"one", memoryview(b"every other one")[::2]],
                [b"one", "text"],
                [b"one", None],
            ):
                with self.assertRaises((BufferError, TypeError, ValueError)):
                    peer.endpoint.send_multi(wrong, 1)
            self.assertEqual(worker.in_progress, 0)
            taken = peer.ask("take_multi", tag=1)
            await peer.endpoint.send_multi(
                (buffer for buffer in (b"one", memoryview(bytearray(2)))), 1
            )
            self.assertEqual(await taken, [[3, zlib.crc32(b"one")], [2, zlib.crc32(bytes(2))]])

        await self.over_everything(test, modes=["blocking"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
