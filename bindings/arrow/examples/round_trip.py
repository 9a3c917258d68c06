"""Batches of many types through arrow_frames, within one process: equal, and released."""

import gc

import arrow_frames
import pyarrow


def through(batch):
    return arrow_frames.batch_from([memoryview(frame) for frame in arrow_frames.frames_of(batch)])


union = pyarrow.UnionArray.from_sparse(
    pyarrow.array([0, 1, 0, 1], pyarrow.int8()),
    [pyarrow.array([1, 2, 3, 4]), pyarrow.array(["a", "b", "c", "d"])],
)
parts = [pyarrow.nulls(4), pyarrow.array([1, 2, 3, 4]), union]
batch = pyarrow.record_batch(
    {
        "number": pyarrow.array([1, 2, None, 4], pyarrow.int64()),
        "text": pyarrow.array(["a", None, "ccc", ""]),
        "list": pyarrow.array([[1, 2], [], None, [3]]),
        "dictionary": pyarrow.array(["x", "y", "x", None]).dictionary_encode(),
        "bits": pyarrow.array([True, False, None, True]),
        "nothing": pyarrow.nulls(4),
        "fixed": pyarrow.array([b"1", b"2", b"3", b"4"], pyarrow.binary(1)),
        "struct": pyarrow.StructArray.from_arrays(parts, ["nothing", "number", "union"]),
    }
)
for each in (batch, batch.slice(1, 2), batch.slice(0, 0)):
    received = through(each)
    received.validate(full=True)
    assert received.equals(each), received
    del received
    gc.collect()
    assert not arrow_frames._Built.alive, "not released"

# What does not fit together is refused.
frames = [bytes(frame) for frame in arrow_frames.frames_of(batch)]
for bad in ([], frames[:1], frames[:-1], [frames[0]] + [b""] * (len(frames) - 1)):
    try:
        arrow_frames.batch_from([memoryview(frame) for frame in bad])
    except ValueError:
        pass
    else:
        raise AssertionError("accepted")
assert not arrow_frames._Built.alive, "not released"
print("batches of many types are equal after the way, and released")
