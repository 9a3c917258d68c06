#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Sends tensors of PyTorch and arrays of CuPy between two processes, by DLPack and by
`__cuda_array_interface__`, checks them, and trains a model on what a hub feeds to the GPU.

    python_gpu.py [--cpu]

--cpu: memory of the CPU also where there is a GPU; it takes its place where there is none, or where
UCX does not reach it. Prints one line for each check: name=NAME result=passed, or failed: WHY.
Status 1: one has failed. Status 77: neither PyTorch nor CuPy can be used.
"""

import subprocess
import sys
import threading
import time
import warnings

try:
    import ucxx_rs
except ImportError as problem:
    print(problem)
    sys.exit(77)

LIMIT_S = 10
# Elements: a short message, one of several fragments, and one with a rendezvous.
COUNTS = (1, 10_000, 2_000_000)
# A consumer's chunk is read-only, which PyTorch's tensors cannot be.
warnings.filterwarnings("ignore", message="The given buffer is not writable")


class Torch:
    name = "torch"
    types = ("float32", "bfloat16", "int64", "uint8")

    def __init__(self):
        import torch

        self.torch = torch
        self.version = torch.__version__
        self.has_cuda = torch.cuda.is_available()

    def empty(self, kind, count, place):
        device = "cuda" if place == "cuda" else "cpu"
        kind = getattr(self.torch, kind)
        return self.torch.empty(count, dtype=kind, device=device, pin_memory=place == "pinned")

    def numbers(self, kind, count, first, place):
        made = self.empty(kind, count, place)
        # Small whole numbers, which every type has.
        made.copy_((self.torch.arange(count) + first) % 100)
        return made

    def view(self, frame, kind):
        kind = getattr(self.torch, kind)
        if hasattr(frame, "__cuda_array_interface__"):
            return self.torch.as_tensor(frame, device="cuda").view(kind)
        return self.torch.frombuffer(frame, dtype=kind)

    def equal(self, one, other):
        return self.torch.equal(one.cpu(), other.cpu())

    def finish(self):
        if self.has_cuda:
            self.torch.cuda.synchronize()


class Cupy:
    name = "cupy"
    types = ("float32", "float16", "int64", "uint8")

    def __init__(self):
        import cupy

        self.cupy = cupy
        self.version = cupy.__version__
        self.has_cuda = cupy.cuda.is_available()

    def empty(self, kind, count, _place):
        return self.cupy.empty(count, dtype=kind)

    def numbers(self, kind, count, first, _place):
        return ((self.cupy.arange(count) + first) % 100).astype(kind)

    def view(self, frame, kind):
        return self.cupy.asarray(frame).view(kind)

    def equal(self, one, other):
        return bool((one == other).all())

    def finish(self):
        self.cupy.cuda.get_current_stream().synchronize()


class Dlpack:
    """An array by DLPack only."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)


class Interface:
    """An array of a GPU by `__cuda_array_interface__` only."""

    def __init__(self, array):
        self.array = array
        self.__cuda_array_interface__ = array.__cuda_array_interface__


def given(array, way):
    return {"dlpack": Dlpack, "interface": Interface, "plain": lambda same: same}[way](array)


class Tag:
    """One array goes there, and comes back with each number one larger."""

    def __init__(self, library, kind, way, here, there):
        self.library, self.kind, self.way = library, kind, way
        self.here, self.there = here, there
        self.name = f"{library.name}_tag_{way}_{kind}_{here}_to_{there}"

    def start(self, worker, endpoint, tag):
        library, wrong = self.library, []
        for count in COUNTS:
            sent = library.numbers(self.kind, count, 1, self.here)
            back = library.empty(self.kind, count, self.here)
            library.finish()
            received = worker.recv(given(back, self.way), tag, source=endpoint, timeout=LIMIT_S)
            endpoint.send(given(sent, self.way), tag, timeout=LIMIT_S).wait()
            received.wait()
            if not library.equal(back, sent + 1):
                wrong.append(count)
        if wrong:
            raise ValueError(f"came back wrong: arrays of {wrong} elements")

    def answer(self, worker, endpoint, tag):
        for count in COUNTS:
            array = self.library.empty(self.kind, count, self.there)
            self.library.finish()
            worker.recv(given(array, self.way), tag, source=endpoint, timeout=LIMIT_S).wait()
            array += 1
            self.library.finish()
            endpoint.send(given(array, self.way), tag, timeout=LIMIT_S).wait()


class Multi:
    """Many arrays and a header in one message, into memory that the receiver's library makes."""

    def __init__(self, library, place):
        self.library, self.place = library, place
        self.name = f"{library.name}_multi_{place}"
        # Enough for two headers on the wire.
        self.kinds = [library.types[at % len(library.types)] for at in range(120)]

    def arrays(self, first):
        return [
            self.library.numbers(kind, COUNTS[at % 2] if at else COUNTS[2], at + first, self.place)
            for at, kind in enumerate(self.kinds)
        ]

    def received(self, worker, endpoint, tag):
        header, *frames = worker.recv_multi(tag, source=endpoint, timeout=LIMIT_S).wait()
        if bytes(header) != b"header" or len(frames) != len(self.kinds):
            raise ValueError(f"{len(frames)} arrays, header {bytes(header)!r}")
        for frame in frames:
            if hasattr(frame, "__cuda_array_interface__") != (self.place == "cuda"):
                raise ValueError(f"an array came in memory of another kind: {type(frame)}")
        return [self.library.view(*pair) for pair in zip(frames, self.kinds)]

    def start(self, worker, endpoint, tag):
        sent = self.arrays(1)
        self.library.finish()
        endpoint.send_multi([b"header", *sent], tag, timeout=LIMIT_S).wait()
        wanted = [array + 1 for array in sent]
        if not all(map(self.library.equal, self.received(worker, endpoint, tag), wanted)):
            raise ValueError("an array came back wrong")

    def answer(self, worker, endpoint, tag):
        arrays = self.received(worker, endpoint, tag)
        for array in arrays:
            array += 1
        self.library.finish()
        endpoint.send_multi([b"header", *arrays], tag, timeout=LIMIT_S).wait()


class Pace:
    """Half the time of a message there and one back."""

    def __init__(self, library, place, size, times):
        self.library, self.place, self.size, self.times = library, place, size, times
        self.name = f"{library.name}_pingpong_{place}_{size}"

    def start(self, worker, endpoint, tag):
        array = self.library.numbers("uint8", self.size, 0, self.place)
        self.library.finish()
        for number in range(2 * self.times):
            if number == self.times:
                began = time.perf_counter()
            received = worker.recv(array, tag, source=endpoint, timeout=LIMIT_S)
            endpoint.send(array, tag, timeout=LIMIT_S).wait()
            received.wait()
        return f"half_round_trip_ns={(time.perf_counter() - began) / self.times / 2 * 1e9:.0f}"

    def answer(self, worker, endpoint, tag):
        array = self.library.empty("uint8", self.size, self.place)
        for _ in range(2 * self.times):
            worker.recv(array, tag, source=endpoint, timeout=LIMIT_S).wait()
            endpoint.send(array, tag, timeout=LIMIT_S).wait()


class Training:
    """Linear regression on batches that a hub copies from pinned memory to the GPU meanwhile."""

    ROWS, COLUMNS, BATCHES, STEPS = 4096, 64, 100, 2

    def __init__(self, torch, on_gpu):
        self.torch, self.on_gpu = torch, on_gpu
        self.device = torch.device("cuda" if on_gpu else "cpu")
        if not on_gpu:
            # The other processors are for the producer.
            torch.set_num_threads(1)
        self.truth = torch.linspace(-1, 1, self.COLUMNS)
        self.batches = []
        for seed in range(4):
            x = torch.randn(self.ROWS, self.COLUMNS, generator=torch.Generator().manual_seed(seed))
            self.batches.append(torch.cat([x, (x @ self.truth)[:, None]], dim=1).flatten())
        self.weights = torch.zeros(self.COLUMNS, device=self.device)

    def step(self, batch):
        batch = batch.view(self.ROWS, self.COLUMNS + 1)
        x, y = batch[:, :-1], batch[:, -1]
        for _ in range(self.STEPS):
            self.weights -= x.T @ (x @ self.weights - y) * (0.5 / self.ROWS)

    def seconds(self, work):
        """Of all batches, without a hub."""
        began = time.perf_counter()
        for number in range(self.BATCHES):
            work(number)
        if self.on_gpu:
            self.torch.cuda.synchronize()
        return time.perf_counter() - began

    def produce(self, hub, producer):
        try:
            for number in range(self.BATCHES):
                with producer.lease_wait(LIMIT_S) as envelope:
                    into = self.torch.frombuffer(envelope.data, dtype=self.torch.float32)
                    into.copy_(self.batches[number % 4])
                    envelope.metadata[0] = number
                    envelope.length = envelope.capacity
        finally:
            hub.end()

    def consume(self, consumer, stream):
        for number in range(self.BATCHES):
            with consumer.lease_wait(LIMIT_S) as envelope:
                if envelope.metadata[0] != number:
                    raise ValueError(f"batch {envelope.metadata[0]} instead of {number}")
                if stream is None:
                    self.step(self.torch.frombuffer(envelope.data, dtype=self.torch.float32))
                    continue
                envelope.use_stream(stream)
                with self.torch.cuda.stream(stream):
                    batch = self.torch.as_tensor(envelope.data, device=self.device)
                    self.step(batch.view(self.torch.float32))

    def run(self):
        """Returns the figures. An overlap of 1: all took as long as the longest part alone."""
        torch = self.torch
        place, device = ("pinned", 0) if self.on_gpu else (None, None)
        size = self.batches[0].nbytes
        memory = torch.empty_like(self.batches[0], pin_memory=self.on_gpu)
        filling = self.seconds(lambda number: memory.copy_(self.batches[number % 4]))
        resident = self.batches[0].to(self.device)
        copying = self.seconds(lambda _: resident.copy_(memory, non_blocking=True))
        self.step(resident)
        stepping = self.seconds(lambda _: self.step(resident))
        self.weights.zero_()
        stream = None
        if self.on_gpu:
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
        with ucxx_rs.Hub(ucxx_rs.Context(), size) as hub:
            hub.add(4, place)
            if self.on_gpu:
                hub.add(4, device)
            with hub.produce(place) as producer, hub.consume(device) as consumer:
                thread = threading.Thread(target=self.produce, args=(hub, producer))
                began = time.perf_counter()
                thread.start()
                try:
                    self.consume(consumer, stream)
                finally:
                    thread.join()
                if self.on_gpu:
                    torch.cuda.synchronize()
                whole = time.perf_counter() - began
        worst = float((self.weights.cpu() - self.truth).abs().max())
        if worst > 1e-3:
            raise ValueError(f"a weight is wrong by {worst}")
        return (
            f"batches_per_second={self.BATCHES / whole:.0f} bytes={size} "
            f"overlap={max(filling, copying, stepping) / whole:.2f}"
        )


def libraries():
    for kind in (Torch, Cupy):
        try:
            yield kind()
        except Exception as problem:
            print(f"{kind.name} cannot be used: {problem!r}", file=sys.stderr)


def exchanges(found, on_gpu):
    """The same list in both processes. CuPy has no memory of the CPU."""
    for library in found:
        gpu = on_gpu and library.has_cuda
        pairs = [("cuda", "cuda")] if gpu else []
        if library.name == "torch":
            pairs += [("pinned", "cuda"), ("cuda", "cpu")] if gpu else [("cpu", "cpu")]
        for here, there in pairs:
            ways = ("plain", "dlpack", "interface") if here == there == "cuda" else ("plain",)
            if not gpu:
                ways = ("plain", "dlpack")
            for way in ways:
                for kind in library.types:
                    yield Tag(library, kind, way, here, there)
        for place in sorted({place for pair in pairs for place in pair} - {"pinned"}):
            yield Multi(library, place)
            yield Pace(library, place, 8, 500)
            yield Pace(library, place, 1 << 20, 50)


def peer(on_gpu):
    found = list(libraries())
    with ucxx_rs.Worker() as worker:
        print(worker.address.hex(), flush=True)
        endpoint = worker.connect(bytes.fromhex(sys.stdin.readline()))
        for tag, each in enumerate(exchanges(found, on_gpu)):
            try:
                each.answer(worker, endpoint, tag)
            except Exception as problem:
                print(f"peer: {each.name}: {problem!r}", file=sys.stderr)
        # The other one has everything.
        sys.stdin.read()


failed = False


def check(name, call, *arguments):
    global failed
    result = "passed"
    more = None
    try:
        more = call(*arguments)
    except Exception as problem:
        failed = True
        result = f"failed: {problem!r}"
    print(f"name={name} result={result}" + (f" {more}" if more else ""), flush=True)


def main():
    found = list(libraries())
    if not any(each.name == "torch" or each.has_cuda for each in found):
        print("neither PyTorch nor CuPy with a GPU is here")
        return 77
    has_gpu = "--cpu" not in sys.argv and any(library.has_cuda for library in found)
    on_gpu = has_gpu and ucxx_rs.Context().has_cuda
    print("libraries=" + ", ".join(f"{each.name} {each.version}" for each in found))
    print(f"memory={'cuda' if on_gpu else 'cpu'}")
    command = [sys.executable, __file__, "--peer", "gpu" if on_gpu else "cpu"]
    with (
        ucxx_rs.Worker() as worker,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as other,
    ):
        try:
            other.stdin.write(worker.address.hex() + "\n")
            other.stdin.flush()
            endpoint = worker.connect(bytes.fromhex(other.stdout.readline()))
            for tag, each in enumerate(exchanges(found, on_gpu)):
                check(each.name, each.start, worker, endpoint, tag)
            other.stdin.close()
            other.wait(LIMIT_S)
        finally:
            other.kill()
    for library in found:
        if library.name == "torch":
            training = Training(library.torch, has_gpu and library.has_cuda)
            check(f"torch_hub_training_{training.device.type}", training.run)
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peer"]:
        peer(sys.argv[2] == "gpu")
    else:
        sys.exit(main())
