# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""ucxx_rs.compat by itself, and under UCXX's asyncio layer in one process."""

import array
import asyncio
import gc
import pickle
import subprocess
import sys

import numpy as np
import pytest
import ucxx
from ucxx import exceptions
from ucxx._lib import libucxx as api
from ucxx._lib.arr import Array, asarray

MODES = ("polling", "blocking", "thread", "thread-polling")


def progress(*workers, until):
    for _ in range(1_000_000):
        if until():
            return
        for worker in workers:
            worker.progress()
    raise AssertionError("it did not end")


@pytest.fixture(params=[False, True], ids=["manual", "thread"])
def pair(request):
    """Two workers, with an endpoint from each to the other."""
    context = api.UCXContext({})
    one, two = (api.UCXWorker(context, enable_delayed_submission=request.param) for _ in range(2))
    if request.param:
        one.start_progress_thread()
        two.start_progress_thread()
    there = api.UCXEndpoint.create_from_worker_address(one, two.address, True)
    back = api.UCXEndpoint.create_from_worker_address(two, one.address, True)
    yield one, two, there, back
    there.close_blocking()
    back.close_blocking()


def end(pair, *requests):
    progress(*pair[:2], until=lambda: all(one.completed for one in requests))


def test_their_modules_are_ours():
    assert api.UCXWorker.__module__ == "ucxx_rs.compat._worker"
    assert Array.__module__ == "ucxx_rs.compat.arr"
    names = [name for name in dir(exceptions) if name.startswith("UCX")]
    assert len(names) == 35
    assert all(issubclass(getattr(exceptions, name), exceptions.UCXError) for name in names)
    assert exceptions.UCXCanceled is exceptions.UCXCanceledError
    assert ucxx.get_ucx_version() >= (1, 19)
    assert ucxx.get_config()["TLS"]
    assert any("tcp" in name for name in ucxx.get_active_transports())
    ucxx.reset()


@pytest.mark.parametrize(
    "buffer, shape, strides, c, f",
    [
        (b"abc", (3,), (1,), True, True),
        (array.array("d", [1, 2]), (2,), (8,), True, True),
        (np.zeros((3, 4)), (3, 4), (32, 8), True, False),
        (np.zeros((3, 4), order="F"), (3, 4), (8, 24), False, True),
        (np.zeros((3, 4))[:, ::2], (3, 2), (32, 16), False, False),
        (np.zeros(2, "M8[s]"), (2,), (8,), True, True),
    ],
)
def test_array(buffer, shape, strides, c, f):
    got = Array(buffer)
    assert (got.shape, got.strides, got.c_contiguous, got.f_contiguous) == (shape, strides, c, f)
    assert got.contiguous is (c or f)
    assert got.nbytes == got.itemsize * int(np.prod(shape))
    assert got.obj is buffer and not got.cuda and asarray(got) is got
    if c or f:
        assert got.ptr != 0


def test_array_of_a_device():
    class Device:
        __cuda_array_interface__ = {
            "shape": (2, 3), "typestr": "<f4", "data": (4096, False), "version": 3,
        }  # fmt: skip

    got = Array(Device())
    assert got.cuda and got.ptr == 4096 and got.nbytes == 24 and got.strides == (12, 4)


def test_address():
    worker = api.UCXWorker(api.UCXContext())
    address = worker.address
    again = api.UCXAddress.create_from_buffer(bytearray(address.tobytes()))
    assert hash(again) == hash(address) and again.length == len(bytes(address))
    buffers = []
    data = pickle.dumps(address, protocol=5, buffer_callback=buffers.append)
    assert pickle.loads(data, buffers=buffers).tobytes() == address.tobytes()
    with pytest.raises(TypeError):
        api.UCXAddress()


def test_features_are_needed():
    worker = api.UCXWorker(api.UCXContext(feature_flags=(api.Feature.STREAM,)))
    with pytest.raises(ValueError, match="Feature.TAG"):
        worker.tag_recv(Array(bytearray(1)), api.UCXXTag(0))


@pytest.mark.parametrize("size", [0, 8, 1 << 20])
def test_tags(pair, size):
    one, two, there, _ = pair
    data, into = np.random.default_rng(size).bytes(size), np.zeros(size, "u1")
    send = there.tag_send(Array(data), api.UCXXTag(3))
    receive = two.tag_recv(Array(into), api.UCXXTag(3))
    end(pair, send, receive)
    send.check_error()
    receive.check_error()
    assert into.tobytes() == data


def test_memory_that_cannot_be_used(pair):
    _, two, there, _ = pair
    with pytest.raises(ValueError, match="read-only"):
        two.tag_recv(Array(b"abc"), api.UCXXTag(3))
    with pytest.raises(ValueError, match="not contiguous"):
        there.tag_send(Array(np.zeros((3, 4))[:, ::2]), api.UCXXTag(3))
    with pytest.raises(RuntimeError):
        there.stream_send(Array(b""))


def test_a_message_that_is_too_long(pair):
    _, two, there, _ = pair
    send = there.tag_send(Array(bytes(100)), api.UCXXTag(4))
    receive = two.tag_recv(Array(bytearray(10)), api.UCXXTag(4))
    end(pair, send, receive)
    with pytest.raises(exceptions.UCXMsgTruncated):
        receive.check_error()


def test_a_dropped_receive_takes_no_message(pair):
    _, two, there, _ = pair
    dropped = two.tag_recv(Array(bytearray(1)), api.UCXXTag(5))
    assert not dropped.completed
    del dropped
    gc.collect()
    into = bytearray(1)
    receive = two.tag_recv(Array(into), api.UCXXTag(5))
    send = there.tag_send(Array(b"x"), api.UCXXTag(5))
    end(pair, send, receive)
    assert into == b"x"


def test_cancel_all(pair):
    _, two, _, _ = pair
    receive = two.tag_recv(Array(bytearray(1)), api.UCXXTag(6))
    assert two.cancel_inflight_requests() == 1
    end(pair, receive)
    with pytest.raises(exceptions.UCXCanceled):
        receive.check_error()


def test_probe(pair):
    one, two, there, _ = pair
    assert not two.tag_probe(api.UCXXTag(7)).matched
    end(pair, there.tag_send(Array(b"hello"), api.UCXXTag(7)))
    progress(one, two, until=lambda: two.tag_probe(api.UCXXTag(7)).matched)
    found = two.tag_probe(api.UCXXTag(7))
    assert (found.sender_tag, found.length, found.handle) == (7, 5, None)
    taken = two.tag_probe(api.UCXXTag(7), remove=True)
    assert taken.handle and not two.tag_probe(api.UCXXTag(7)).matched
    into = bytearray(5)
    receive = two.tag_recv_with_handle(Array(into), taken)
    end(pair, receive)
    assert into == b"hello"


def test_multi_buffer(pair):
    _, _, there, back = pair
    frames = (b"abc", np.arange(1000), b"")
    send = there.tag_send_multi(tuple(map(Array, frames)), api.UCXXTag(8))
    receive = back.tag_recv_multi(api.UCXXTag(8))
    assert not receive.all_completed or receive.requests
    end(pair, send, receive)
    send.check_error()
    for request in receive.requests:
        request.check_error()
    got = receive.py_buffers
    assert [part.tobytes() for part in got] == [bytes(memoryview(one)) for one in frames]
    assert len(receive.requests) == len(send.requests) == 3


def test_active_messages(pair):
    one, two, there, back = pair
    assert not back.am_probe()
    sends = [there.am_send(Array(bytes([n]) * n * 10_000)) for n in (1, 2, 3)]
    progress(one, two, until=back.am_probe)
    for n in (1, 2, 3):
        receive = back.am_recv()
        end(pair, receive)
        receive.check_error()
        assert receive.recv_buffer.tobytes() == bytes([n]) * n * 10_000
    end(pair, *sends)


def test_the_end_of_an_endpoint(pair):
    one, two, there, back = pair
    ends = []
    back.set_close_callback(ends.append, ("peer",))
    there.set_close_callback(ends.append, ("own",))
    receive = back.tag_recv(Array(bytearray(1)), api.UCXXTag(9))
    end(pair, there.tag_send(Array(b"kept"), api.UCXXTag(10)))
    while not receive.completed:
        there.close_blocking()
        progress(one, two, until=lambda: receive.completed or not back.alive)
    with pytest.raises(exceptions.UCXCanceledError):
        receive.check_error()
    progress(one, two, until=lambda: "peer" in ends)
    assert sorted(ends) == ["own", "peer"] and not there.alive and not back.alive
    there.raise_on_error()
    with pytest.raises(exceptions.UCXConnectionResetError):
        back.raise_on_error()
    # What has arrived can still be received, and nothing else.
    into = bytearray(4)
    late, never = (back.tag_recv(Array(into), api.UCXXTag(tag)) for tag in (10, 11))
    end(pair, late, never)
    assert into == b"kept" and late.status == 0 and never.status < 0


@pytest.mark.parametrize("thread", [False, True])
@pytest.mark.parametrize("deliver", [False, True])
def test_listener(thread, deliver):
    worker = api.UCXWorker(api.UCXContext())
    if thread:
        worker.start_progress_thread()
    got = []
    listener = api.UCXListener.create(
        worker, 0, lambda *arguments: got.append(arguments), (1,), deliver_endpoint=deliver
    )
    client = api.UCXEndpoint.create(worker, "127.0.0.1", listener.port, True)
    progress(worker, until=lambda: got)
    ((peer, one),) = got
    assert one == 1 and listener.ip == "0.0.0.0"
    if not deliver:
        peer = listener.create_endpoint_from_conn_request(peer, True)
        with pytest.raises(ValueError):
            listener.create_endpoint_from_conn_request(12345, True)
    into = bytearray(5)
    requests = [client.stream_send(Array(b"hello")), peer.stream_recv(Array(into))]
    progress(worker, until=lambda: all(request.completed for request in requests))
    assert into == b"hello"
    client.close_blocking()
    peer.close_blocking()


@pytest.mark.parametrize("blocking", [False, True])
def test_a_progress_mode_that_begins_later(blocking):
    async def main():
        worker = api.UCXWorker(api.UCXContext())
        there = api.UCXEndpoint.create_from_worker_address(worker, worker.address, True)
        into = bytearray(1)
        receive = there.tag_recv(Array(into), api.UCXXTag(1))
        if blocking:
            assert worker.epoll_file_descriptor > 0
        else:
            worker.start_progress_thread()
        waiting = asyncio.ensure_future(receive.wait())
        await asyncio.sleep(0.1)
        await there.tag_send(Array(b"x"), api.UCXXTag(1)).wait()
        await asyncio.wait_for(waiting, 10)
        assert into == b"x"

    asyncio.run(main())


# UCXX has Python futures in its thread modes only.
@pytest.mark.parametrize(
    "mode, futures",
    [*((mode, False) for mode in MODES), ("thread", True), ("thread-polling", True)],
)
def test_asyncio(mode, futures):
    async def serve(endpoint):
        number = np.empty(1, "u8")
        await endpoint.recv(number)
        await endpoint.send(number + 1)
        await endpoint.send_obj(await endpoint.recv_obj())
        await endpoint.send_multi(await endpoint.recv_multi())
        await endpoint.am_send(await endpoint.am_recv())
        try:
            await endpoint.recv(number)
        except exceptions.UCXError:
            served.set()

    async def main():
        ucxx.init(progress_mode=mode, enable_python_future=futures)
        listener = ucxx.create_listener(serve)
        endpoint = await ucxx.create_endpoint("127.0.0.1", listener.port)
        number = np.array([41], "u8")
        await endpoint.send(number)
        await endpoint.recv(number)
        assert number[0] == 42
        await endpoint.send_obj(b"object" * 100_000)
        assert await endpoint.recv_obj() == b"object" * 100_000
        await endpoint.send_multi([b"1", b"22", np.arange(5)])
        assert [len(part) for part in await endpoint.recv_multi()] == [1, 2, 40]
        await endpoint.am_send(b"active")
        assert bytes(await endpoint.am_recv()) == b"active"
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(endpoint.recv(bytearray(1), tag="nobody"), 0.05)
        await endpoint.close()
        await asyncio.wait_for(served.wait(), 10)
        listener.close()
        ucxx.stop_notifier_thread()

    served = asyncio.Event()
    asyncio.run(main())
    ucxx.reset()


def test_uninstall_and_install():
    python = [sys.executable, "-m", "ucxx_rs.compat"]
    # Without importing it: UCXX's own modules need its C++ library.
    code = (
        "import importlib.util as u, os;"
        "print(os.listdir(os.path.dirname(u.find_spec('ucxx').origin) + '/_lib'))"
    )

    def files():
        return subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE).stdout

    before = files()
    assert b"arr.py'" in before and b"arr.abi3.so.ucxx" in before
    assert subprocess.run([*python, "uninstall", sys.prefix]).returncode == 0
    assert b"arr.py'" not in files() and b"libucxx.abi3.so'" in files()
    assert subprocess.run([*python, "install", sys.prefix]).returncode == 0
    assert sorted(eval(files())) == sorted(eval(before))
    refused = subprocess.run([*python, "install", "/nonexistent"], capture_output=True, text=True)
    assert refused.returncode == 1 and "no virtual environment" in refused.stderr
