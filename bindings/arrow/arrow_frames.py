"""Arrow record batches as the frames of one multi-buffer message.

A batch is taken apart into what the Arrow C Data Interface has: a tree of schema nodes, a tree of
array nodes, and buffers. The trees travel as JSON in the first frame, and each buffer is a frame of
its own, sent from where it is. The receiver builds the same trees over the frames, and imports
them: no column is copied, at either end. Metadata of the schema does not travel.

https://arrow.apache.org/docs/format/CDataInterface.html
"""

import json

import cffi
import pyarrow

ffi = cffi.FFI()
# The structures of the specification.
ffi.cdef("""
struct ArrowSchema {
  const char *format; const char *name; const char *metadata; int64_t flags; int64_t n_children;
  struct ArrowSchema **children; struct ArrowSchema *dictionary;
  void (*release)(struct ArrowSchema *); void *private_data;
};
struct ArrowArray {
  int64_t length; int64_t null_count; int64_t offset; int64_t n_buffers; int64_t n_children;
  const void **buffers; struct ArrowArray **children; struct ArrowArray *dictionary;
  void (*release)(struct ArrowArray *); void *private_data;
};
""")
NULLABLE = 2
# What a peer may make this process build.
MOST_NODES = 100_000


def frames_of(batch):
    """The frames that `tree_of` the batch needs, with the tree in the first."""
    schema, array = ffi.new("struct ArrowSchema *"), ffi.new("struct ArrowArray *")
    batch._export_to_c(int(ffi.cast("uintptr_t", array)), int(ffi.cast("uintptr_t", schema)))
    frames = []
    try:
        tree = [
            _node(schema.children[at], array.children[at], batch.column(at), frames)
            for at in range(array.n_children)
        ]
    finally:
        # The batch itself keeps the buffers.
        array.release(array)
        schema.release(schema)
    text = json.dumps({"rows": batch.num_rows, "columns": tree}).encode()
    return [text, *frames]


def _node(schema, array, column, frames):
    """Describes one node and what is below it; appends its buffers to `frames`.

    The interface has addresses without lengths, so the lengths are those of pyarrow's buffers. They
    come in the same order: a node's own, then its children's.
    """
    rest = iter(column.buffers())
    node = _walk(schema, array, rest, frames)
    if array.dictionary != ffi.NULL:
        node["dictionary"] = _node(schema.dictionary, array.dictionary, column.dictionary, frames)
    return node


def _walk(schema, array, rest, frames):
    node = {
        "format": ffi.string(schema.format).decode(),
        "name": ffi.string(schema.name).decode() if schema.name != ffi.NULL else "",
        "flags": schema.flags,
        "length": array.length,
        "nulls": array.null_count,
        "offset": array.offset,
        "buffers": [],
    }
    if node["format"][0] == "v":
        raise TypeError(f"{node['name']}: views are not sent; cast to string or binary first")
    # pyarrow counts a bitmap for these that the interface does not have.
    if node["format"] == "n" or node["format"].startswith("+u"):
        next(rest)
    for at in range(array.n_buffers):
        buffer = next(rest)
        if array.buffers[at] == ffi.NULL or buffer is None:
            node["buffers"].append(None)
        else:
            node["buffers"].append(buffer.size)
            frames.append(buffer)
    node["children"] = [
        _walk(schema.children[at], array.children[at], rest, frames)
        for at in range(array.n_children)
    ]
    return node


class _Built:
    """The C structures of one batch. pyarrow releases each node once; then nothing needs them, nor
    the frames.
    """

    alive = {}

    def __init__(self, frames):
        self.kept = [frames]
        self.unreleased = 0
        self.nodes = 0
        _Built.alive[id(self)] = self

    def keep(self, thing):
        self.kept.append(thing)
        return thing

    def fill(self, struct):
        """Room for a node, which counts until it is released."""
        self.nodes += 1
        self.unreleased += 1
        if self.nodes > 2 * MOST_NODES:
            raise ValueError("the description has too many nodes")
        struct.private_data = ffi.cast("void *", id(self))
        return struct

    def schema(self, node, struct):
        self.fill(struct)
        struct.format = self.keep(ffi.new("char[]", str(node["format"]).encode()))
        struct.name = self.keep(ffi.new("char[]", str(node.get("name", "")).encode()))
        struct.flags = node.get("flags", NULLABLE)
        self._below(node, struct, "struct ArrowSchema", self.schema)
        struct.release = _release_schema

    def array(self, node, struct, frames):
        self.fill(struct)
        struct.length, struct.null_count = node["length"], node["nulls"]
        struct.offset = node.get("offset", 0)
        buffers = self.keep(ffi.new("const void *[]", max(1, len(node["buffers"]))))
        for at, size in enumerate(node["buffers"]):
            if size is None:
                continue
            frame = next(frames, None)
            if frame is None or frame.nbytes != size:
                raise ValueError("the frames are not those that the description names")
            buffers[at] = self.keep(ffi.from_buffer(frame)) if size else _NOTHING
        struct.buffers, struct.n_buffers = buffers, len(node["buffers"])
        self._below(node, struct, "struct ArrowArray", lambda n, s: self.array(n, s, frames))
        struct.release = _release_array

    def _below(self, node, struct, kind, build):
        children = node.get("children", [])
        list_of = self.keep(ffi.new(f"{kind} *[]", max(1, len(children))))
        for at, child in enumerate(children):
            list_of[at] = self.keep(ffi.new(f"{kind} *"))
            build(child, list_of[at])
        struct.children, struct.n_children = list_of, len(children)
        if "dictionary" in node:
            struct.dictionary = self.keep(ffi.new(f"{kind} *"))
            build(node["dictionary"], struct.dictionary)

    def released(self):
        self.unreleased -= 1
        if self.unreleased == 0:
            _Built.alive.pop(id(self), None)


_NOTHING = ffi.new("char[64]")


def _release(struct):
    """As the specification wants it: what is below that was not moved away is released, too."""
    owner = _Built.alive.get(int(ffi.cast("uintptr_t", struct.private_data)))
    below = [struct.children[at] for at in range(struct.n_children)]
    if struct.dictionary != ffi.NULL:
        below.append(struct.dictionary)
    for each in below:
        if each.release != ffi.NULL:
            each.release(each)
    struct.release = ffi.NULL
    if owner is not None:
        owner.released()


@ffi.callback("void(struct ArrowSchema *)")
def _release_schema(struct):
    _release(struct)


@ffi.callback("void(struct ArrowArray *)")
def _release_array(struct):
    _release(struct)


def batch_from(frames):
    """The batch whose columns are in the frames. It keeps them alive.

    Buffers come from another process: `validate(full=True)` of the result checks their contents
    before a program trusts offsets in them.
    """
    frames = iter(frames)
    description = json.loads(bytes(next(frames, b"")))
    columns = description["columns"]
    top = {"format": "+s", "flags": 0, "children": columns}
    top |= {"length": description["rows"], "nulls": 0, "buffers": [None]}
    built = _Built(frames)
    schema, array = built.keep(ffi.new("struct ArrowSchema *")), ffi.new("struct ArrowArray *")
    built.keep(array)
    try:
        built.schema(top, schema)
        built.array(top, array, frames)
    except BaseException:
        _Built.alive.pop(id(built), None)
        raise
    return pyarrow.RecordBatch._import_from_c(
        int(ffi.cast("uintptr_t", array)), int(ffi.cast("uintptr_t", schema))
    )
