"""The arguments of bubblewrap that lay out what a command sees, in the order in which it mounts."""

import os


class Layout:
    """Mounts, one after the other: what comes later lies over what came before.

    `disputed` are the folders and files below a place that commands may write to. Another command that runs
    at this moment could put a link there just before bubblewrap looks it up, so they are looked at once more
    when everything is mounted (see `entering`).
    """

    def __init__(self) -> None:
        self.arguments: list[str] = []
        self.disputed: list[str] = []

    def add(self, *arguments: str) -> None:
        """Take arguments as they are."""
        self.arguments += arguments

    def bind(self, path: str, *, write: bool = False, disputed: bool = False) -> None:
        """Show a folder or file under its own path."""
        self.add("--bind" if write else "--ro-bind", path, path)
        if disputed:
            self.disputed.append(path)

    def memory(self, folder: str, size: int) -> None:
        """Put an empty folder there that holds at most `size` bytes."""
        self.add("--size", str(size), "--tmpfs", folder)

    def blank(self, path: str) -> None:
        """Put nothing in the place of a file or folder; what is a link, or not there, stays."""
        if os.path.islink(path):
            return
        if os.path.isdir(path):
            self.add("--tmpfs", path, "--remount-ro", path)
        elif os.path.exists(path):
            self.add("--ro-bind", os.devnull, path)
