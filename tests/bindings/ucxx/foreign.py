# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""A UCXX peer: tests/c/endpoint/foreign_raw.c with UCXX instead of UCP, controlled by
tests/c/endpoint/foreign_peer.c.

foreign.py peer|none
"""

import select
import sys

import ucxx._lib.libucxx as ucxx
from ucxx._lib.arr import Array


COMMANDS = (
    "listen",
    "connect",
    "address",
    "reach",
    "send",
    "recv",
    "send_multi",
    "recv_multi",
    "am_send",
    "am_recv",
    "close",
)


class Peer:
    def __init__(self, error_handling):
        self.error_handling = error_handling
        self.worker = ucxx.UCXWorker(
            ucxx.UCXContext(), enable_delayed_submission=False, enable_python_future=False
        )
        self.listener = None
        self.endpoint = None

    def progress(self):
        self.worker.progress()

    def listen(self):
        def on_request(request):
            self.endpoint = ucxx.UCXEndpoint.create_from_conn_request(
                self.listener, request, self.error_handling
            )

        self.listener = ucxx.UCXListener.create(self.worker, 0, on_request)
        return f"port {self.listener.port}"

    def connect(self, port):
        self.endpoint = ucxx.UCXEndpoint.create(
            self.worker, "127.0.0.1", int(port), self.error_handling
        )
        return "ok"

    def address(self):
        return "address " + ucxx.UCXAddress.create_from_worker(self.worker).tobytes().hex()

    def reach(self, hexadecimal):
        address = ucxx.UCXAddress.create_from_buffer(bytes.fromhex(hexadecimal))
        self.endpoint = ucxx.UCXEndpoint.create_from_worker_address(
            self.worker, address, self.error_handling
        )
        return "ok"

    def finish(self, request):
        while not request.completed:
            self.progress()
        request.check_error()

    @staticmethod
    def pattern(length, seed):
        period = bytes((seed + 7 * at) & 0xFF for at in range(256))
        return bytearray((period * (length // 256 + 1))[:length])

    def send(self, tag, length, seed):
        data = self.pattern(int(length), int(seed))
        self.finish(self.endpoint.tag_send(Array(data), ucxx.UCXXTag(int(tag))))
        return "ok"

    def recv(self, tag, length, seed):
        data = bytearray(int(length))
        self.finish(self.worker.tag_recv(Array(data), ucxx.UCXXTag(int(tag))))
        return "ok" if data == self.pattern(int(length), int(seed)) else "wrong"

    @classmethod
    def frames(cls, seed, lengths):
        return [
            cls.pattern(int(length), int(seed) + at) for at, length in enumerate(lengths.split(","))
        ]

    def send_multi(self, tag, seed, lengths):
        frames = tuple(Array(frame) for frame in self.frames(seed, lengths))
        self.finish(self.endpoint.tag_send_multi(frames, ucxx.UCXXTag(int(tag))))
        return "ok"

    def recv_multi(self, tag, seed, lengths):
        requests = self.endpoint.tag_recv_multi(ucxx.UCXXTag(int(tag)))
        self.finish(requests)
        frames = [bytes(buffer) for buffer in requests.py_buffers]
        return (
            "ok"
            if frames == [bytes(frame) for frame in self.frames(seed, lengths)]
            else f"wrong: {[len(frame) for frame in frames]}"
        )

    def am_send(self, length, seed):
        data = self.pattern(int(length), int(seed))
        self.finish(self.endpoint.am_send(Array(data)))
        return "ok"

    def am_recv(self, length, seed):
        request = self.endpoint.am_recv()
        self.finish(request)
        return (
            "ok"
            if bytes(request.recv_buffer) == bytes(self.pattern(int(length), int(seed)))
            else "wrong"
        )

    def close(self):
        self.endpoint.close_blocking()
        self.endpoint = None
        return "ok"


def main():
    peer = Peer(sys.argv[1] == "peer")
    commands = {name: getattr(peer, name) for name in COMMANDS}
    while True:
        while not select.select([sys.stdin], [], [], 0)[0]:
            peer.progress()
        line = sys.stdin.readline()
        if not line:
            return
        name, *arguments = line.split()
        try:
            answer = commands[name](*arguments)
        except Exception as error:  # the other side must get every error
            answer = f"{type(error).__name__}: {error}"
        print(answer, flush=True)


if __name__ == "__main__":
    main()
