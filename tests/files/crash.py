"""A disk that loses what was not synced: rebuilds what a crash would leave from recorded operations."""

import os
from collections.abc import Iterable, Mapping
from contextlib import contextmanager

from halo.files import ops
from halo.files.ops import Op


class _File:
    def __init__(self, data=b""):
        self.live = bytearray(data)
        self.durable = data


class _Dir:
    def __init__(self):
        self.live = {}
        self.durable = {}


@contextmanager
def recording():
    """Yield the list to which every operation of floor 0 is appended."""
    recorded: list[Op] = []
    token = ops.RECORDER.set(recorded)
    try:
        yield recorded
    finally:
        ops.RECORDER.reset(token)


def replay(
    recorded: Iterable[Op],
    base: str,
    into: str,
    *,
    drop_data: bool,
    drop_names: bool,
    initial: Mapping[str, bytes] | None = None,
) -> None:
    """Build in the empty directory `into` what is left of `base` after `recorded`.

    `drop_data` loses the bytes written since a file's last fsync, `drop_names` the names made, changed and
    removed since a directory's last fsync; neither is what `kill -9` does. `initial` was safely there
    before.
    """
    root = _Dir()
    for rel, data in (initial or {}).items():
        *above, name = rel.split("/")
        directory = root
        for part in above:
            directory = directory.live.setdefault(part, _Dir())
        directory.live[name] = _File(data)
    _settle(root)
    for op in recorded:
        _apply(op, root, base)
    _materialise(root, into, drop_data=drop_data, drop_names=drop_names)


def _settle(directory):
    directory.durable = dict(directory.live)
    for node in directory.live.values():
        if isinstance(node, _Dir):
            _settle(node)


def _apply(op, root, base):
    def holder(path):
        *above, name = os.path.relpath(path, base).split(os.sep)
        directory = root
        for part in above:
            directory = directory.live[part]
        return directory.live, name

    def node_of(path):
        if os.path.relpath(path, base) == ".":
            return root
        names, name = holder(path)
        return names[name]

    match op.name:
        case "create":
            names, name = holder(op.path)
            names[name] = _File()
        case "write":
            node_of(op.path).live += op.data
        case "fsync":
            node = node_of(op.path)
            node.durable = bytes(node.live)
        case "fsync_dir":
            node = node_of(op.path)
            node.durable = dict(node.live)
        case "mkdir":
            names, name = holder(op.path)
            names[name] = _Dir()
        case "rename" | "link":
            names, name = holder(op.path)
            targets, target = holder(op.target)
            targets[target] = names[name] if op.name == "link" else names.pop(name)
        case "unlink" | "rmdir":
            names, name = holder(op.path)
            del names[name]


def _materialise(directory, into, *, drop_data, drop_names):
    for name, node in (directory.durable if drop_names else directory.live).items():
        path = os.path.join(into, name)
        if isinstance(node, _Dir):
            os.mkdir(path)
            _materialise(node, path, drop_data=drop_data, drop_names=drop_names)
        else:
            with open(path, "wb") as file:
                file.write(node.durable if drop_data else node.live)


def every_crash(recorded):
    """Yield (number of operations done, what is lost) for every moment and kind of crash."""
    for upto in range(len(recorded) + 1):
        for drop_data in (False, True):
            for drop_names in (False, True):
                yield upto, {"drop_data": drop_data, "drop_names": drop_names}
