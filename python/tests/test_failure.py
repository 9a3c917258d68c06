# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Failures become exceptions with status and text; the end of an endpoint ends its operations."""

import gc
import pickle
import unittest

import ucxx_rs
from case import Case, LoopCase, Pair, context
from ucxx_rs import _status

LARGE = 8 << 20


class Failure(LoopCase):
    async def test_a_message_too_long_for_its_buffer(self):
        async def test(worker, peer):
            received = worker.recv(bytearray(3), 1)
            await peer.ask("give", tag=1, size=4)
            error = await self.assert_fails(received, "MESSAGE_TRUNCATED")
            self.assertIsInstance(error, ucxx_rs.MessageTruncated)
            self.assertIn("4 bytes", str(error))
            self.assertEqual(error.length, 4)

        await self.over_everything(test)

    async def test_a_peer_that_dies_ends_its_operations(self):
        async def test(worker, peer):
            send = peer.endpoint.send(bytes(LARGE), 2)
            watched = worker.recv(bytearray(1), 3, source=peer.endpoint)
            anyone = worker.recv(bytearray(1), 3)
            # When the next message has arrived, the large message has been announced to the peer.
            await peer.endpoint.send(b"x", 1)
            await peer.ask("take", tag=1, size=1)
            peer.kill()
            for operation in (send, watched):
                error = await self.assert_fails(operation, "PEER_FAILED")
                self.assertNotEqual(str(error), "")
                self.assertIsInstance(error, ConnectionError)
            await self.assert_fails(self.call(peer.endpoint.send, b"late", 2), "PEER_FAILED")
            reason = await peer.endpoint.wait_closed()
            self.assertIsInstance(reason, ucxx_rs.PeerFailed)
            self.assertTrue(peer.endpoint.closed)
            self.assertFalse(anyone.done)
            anyone.cancel()
            await self.assert_fails(anyone, "CANCELED")

        await self.over_everything(test)

    @staticmethod
    async def call(function, *arguments):
        return await function(*arguments)

    async def test_an_endpoint_closed_by_force_ends_its_operations(self):
        async def test(worker, peer):
            await peer.ask("give", tag=1, size=1)
            await worker.recv(bytearray(1), 1)
            sends = [peer.endpoint.send(bytes(LARGE), 2) for _ in range(3)]
            watched = worker.recv(bytearray(1), 3, source=peer.endpoint)
            await peer.endpoint.close(force=True)
            for operation in (*sends, watched):
                await self.assert_fails(operation, "CANCELED CLOSED")
            self.assertEqual(worker.in_progress, 0)
            error = self.assert_raises("CLOSED", peer.endpoint.send, b"late", 2)
            self.assertIsInstance(error, ucxx_rs.Closed)

        await self.over_everything(test)

    async def test_an_orderly_close_lets_the_operations_end_well(self):
        async def test(worker, peer):
            taken = peer.ask("take", tag=1, size=LARGE)
            sent = peer.endpoint.send(b"\1" * LARGE, 1)
            await peer.endpoint.close(timeout=60)
            self.assertIsNone(await sent)
            self.assertEqual((await taken)[0], LARGE)
            self.assertIsNone(await peer.endpoint.wait_closed())

        await self.over_everything(test)

    async def test_the_end_of_a_worker_ends_every_operation(self):
        async def test(worker, peer):
            await peer.ask("give", tag=1, size=1)
            await worker.recv(bytearray(1), 1)
            receives = [worker.recv(bytearray(1), 3) for _ in range(1000)]
            send = peer.endpoint.send(bytes(LARGE), 2)
            worker.abort()
            for operation in (*receives, send):
                self.assertTrue(operation.done)
                await self.assert_fails(operation, "CANCELED")
            self.assert_raises("CLOSED", worker.recv, bytearray(1), 3)

        await self.over_everything(test)

    async def test_the_peers_close_is_reported_once(self):
        async def test(worker, peer):
            ends = []
            peer.endpoint.on_close = lambda endpoint, reason: ends.append((endpoint, reason))
            await peer.endpoint.send(b"x", 1)
            await peer.ask("take", tag=1, size=1)
            await peer.ask("close_endpoint")
            reason = await peer.endpoint.wait_closed()
            self.assertIsInstance(reason, ucxx_rs.ConnectionReset)
            self.assertIsInstance(reason, ConnectionResetError)
            self.assertEqual([each[0] for each in ends], [peer.endpoint])
            self.assertIsInstance(ends[0][1], ucxx_rs.ConnectionReset)
            self.assertTrue(peer.endpoint.ended and peer.endpoint.closed)
            await peer.endpoint.close()

        await self.over_everything(test)

    async def test_on_close_that_raises_is_reported(self):
        async def test(worker, peer):
            import asyncio

            caught = []
            loop = asyncio.get_running_loop()
            loop.set_exception_handler(lambda _, context: caught.append(context["exception"]))
            self.addCleanup(loop.set_exception_handler, None)
            peer.endpoint.on_close = lambda endpoint, reason: 1 / 0
            await peer.endpoint.send(b"x", 1)
            await peer.ask("take", tag=1, size=1)
            await peer.ask("close_endpoint")
            await peer.endpoint.wait_closed()
            self.assertEqual([type(each) for each in caught], [ZeroDivisionError])

        await self.over_everything(test, transports=["tcp"])


class Wrong(Case):
    """What cannot be started raises at once, and leaves nothing behind."""

    def test_what_cannot_be_made(self):
        wrong = ucxx_rs.Context({"NO_SUCH_VARIABLE": "1"})
        self.assert_raises("INVALID_PARAM", ucxx_rs.Worker, wrong)
        with self.assertRaises(ValueError):
            ucxx_rs.Context(features=["tags"])
        with self.assertRaises(ValueError):
            ucxx_rs.Context(network="nowhere")
        with self.assertRaises(ValueError):
            ucxx_rs.Worker(context(), "notifier")
        with ucxx_rs.Worker(context()) as worker:
            error = self.assert_raises("INVALID_ADDR", worker.connect, b"not an address at all")
            self.assertIsInstance(error, ValueError)
            self.assertNotEqual(str(error), "")
            for peer, options in (
                ("localhost", {}),
                (worker.address, {"no_such_option": 1}),
                (worker.address, {"send_window_ops": "many"}),
                (None, {}),
            ):
                with self.assertRaises(TypeError):
                    worker.connect(peer, **options)
            self.assertEqual((worker.in_progress, worker.traffic._targets), (0, {}))

    def test_wrong_arguments_leave_no_operation(self):
        with Pair() as pair:
            for wrong, call in (
                (TypeError, lambda: pair.there.send("text")),
                (TypeError, lambda: pair.there.send(None)),
                (OverflowError, lambda: pair.there.send(b"", -1)),
                (OverflowError, lambda: pair.there.send(b"", 1 << 64)),
                (TypeError, lambda: pair.there.send(b"", "tag")),
                (TypeError, lambda: pair.there.send(b"", 1, no_such_option=1)),
                (TypeError, lambda: pair.there.send(b"", 1, timeout="long")),
                (TypeError, lambda: pair.there.send_multi([b"", None])),
                (TypeError, lambda: pair.there.send_multi(5)),
                (OverflowError, lambda: pair.there.message(-1)),
                (OverflowError, lambda: pair.there.message(65536)),
                (TypeError, lambda: pair.there.message(1, b"", "header")),
                (ValueError, lambda: pair.there.fetch(1, b"", bytearray(1), data=b"x")),
                (OverflowError, lambda: pair.one.on_fetch(65536, print)),
                (OverflowError, lambda: pair.one.on_message(-1, print)),
            ):
                with self.subTest(wrong=wrong), self.assertRaises(wrong):
                    call()
            self.assertEqual((pair.one.in_progress, pair.other.in_progress), (0, 0))
            self.assertFalse(any(pair.one.traffic._table))
            # What was refused has not changed the next operation.
            received = pair.other.recv(bytearray(5), 1)
            pair.there.send(b"right", 1).wait()
            self.assertEqual(received.wait(), ucxx_rs.Received(5, 1))

    def test_a_feature_that_the_context_lacks(self):
        with ucxx_rs.Worker(
            ucxx_rs.Context({"TLS": "tcp,self"}, features=["tag", "wakeup"])
        ) as worker:
            endpoint = worker.connect(worker.address)
            error = self.assert_raises("UNSUPPORTED INVALID_PARAM", endpoint.stream_send, b"x")
            self.assertIn("stream", str(error).lower())


class Statuses(unittest.TestCase):
    BUILTIN = {
        "IOFailure": OSError,
        "OutOfMemory": MemoryError,
        "InvalidParam": ValueError,
        "Unreachable": ConnectionError,
        "InvalidAddress": ValueError,
        "NotImplementedByUCX": NotImplementedError,
        "BufferTooSmall": BufferError,
        "NoElement": LookupError,
        "OutOfRange": ValueError,
        "TimedOut": TimeoutError,
        "ExceedsLimit": ValueError,
        "Unsupported": NotImplementedError,
        "Rejected": ConnectionRefusedError,
        "NotConnected": ConnectionError,
        "ConnectionReset": ConnectionResetError,
        "EndpointTimeout": ConnectionError,
        "PeerFailed": ConnectionError,
        "RmaRange": ValueError,
        "RmaOp": ValueError,
        "RmaRank": ValueError,
        "RmaType": TypeError,
        "RmaLockType": ValueError,
        "RmaAssert": ValueError,
    }

    def test_every_status_of_the_header_has_its_exception(self):
        lib = _status.lib
        statuses = {
            getattr(lib, name): name
            for name in dir(lib)
            if name.startswith("UCXX_ERR_") and name != "UCXX_ERR_APPLICATION"
        }
        self.assertTrue(statuses)
        for status, name in statuses.items():
            error = _status.error(status)
            self.assertEqual((error.status, error.name), (status, name))
            self.assertIsNot(type(error), ucxx_rs.Error)
            self.assertTrue(str(error))
            self.assertIs(getattr(ucxx_rs, type(error).__name__), type(error))
            builtin = self.BUILTIN.get(type(error).__name__)
            if builtin is not None:
                self.assertIsInstance(error, builtin)
            else:
                self.assertFalse(isinstance(error, (OSError, ValueError, LookupError)))

    def test_the_programs_own_statuses(self):
        error = _status.error(-1234)
        self.assertIsInstance(error, ucxx_rs.ApplicationError)
        self.assertEqual(error.status, -1234)

    def test_all_that_is_exported_exists(self):
        for name in ucxx_rs.__all__:
            self.assertTrue(hasattr(ucxx_rs, name), name)
        self.assertEqual(sorted(ucxx_rs.__all__), sorted(set(ucxx_rs.__all__)))

    def test_an_exception_survives_a_process_pool(self):
        error = _status.error(-20, "its text")
        copied = pickle.loads(pickle.dumps(error))
        self.assertEqual((type(copied), str(copied), copied.status), (type(error), "its text", -20))

    def test_versions_and_configuration(self):
        version, ucx = ucxx_rs.version()
        self.assertGreaterEqual((len(version), ucx), (3, (1, 13, 0)))
        self.assertIn("TLS", ucxx_rs.config())
        own = ucxx_rs.Context({"TLS": "tcp,self"}, name="named")
        self.assertEqual(own.config["TLS"], "tcp,self")
        self.assertTrue(own.dump())
        self.assertIsInstance(own.has_cuda, bool)
        gc.collect()


if __name__ == "__main__":
    unittest.main(verbosity=2)
