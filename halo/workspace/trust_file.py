"""The file that trust is recorded in: what the user allowed each workspace, as digests."""

import os
from collections.abc import Mapping

import yaml

from halo.errors import LayerError
from halo.files.atomic import replace_file
from halo.files.canonical import canonical_text
from halo.files.locks import hold
from halo.workspace.yamldoc import load_yaml

FORMAT = 1


def trust_file(home: str) -> str:
    """Return where trust is recorded."""
    return os.path.join(home, "trust.yaml")


Trust = dict[str, dict[str, str]]


def read_trust(home: str) -> Trust:
    """Read the digests of what was trusted, by the workspace (`name_of`) and kind of demand.

    Raises `LayerError` for a damaged file: trust is never guessed.
    """
    path = trust_file(home)
    try:
        with open(path, "rb") as file:
            text = canonical_text(file.read(), path)
    except FileNotFoundError:
        return {}
    document = load_yaml(text, path)
    match document.value:
        case {"format": 1, "workspaces": dict(entries)} if all(
            isinstance(kinds, dict) for kinds in entries.values()
        ):
            return entries
        case None:
            return {}
    raise LayerError("not a trust file of this version", file=path, hint="move it away and trust anew")


def render_trust(entries: Trust) -> bytes:
    """Write the trust file."""
    return yaml.safe_dump({"format": FORMAT, "workspaces": dict(sorted(entries.items()))}).encode()


def record_trust(home: str, workspace: str, digests: Mapping[str, str] | None) -> None:
    """Record what the user allowed a workspace, in the place of what was; None takes all of it back."""
    path = trust_file(home)
    os.makedirs(home, exist_ok=True)
    with hold(f"{path}.lock", what="the trust file", timeout=10):
        entries = read_trust(home)
        entries.pop(name_of(workspace), None)
        if digests is not None:
            entries[name_of(workspace)] = dict(digests)
        replace_file(path, render_trust(entries), mode=0o600)


def name_of(workspace: str) -> str:
    """Return what a workspace is recorded under: its real path, its bytes where that is no Unicode."""
    path = os.path.realpath(workspace)
    try:
        path.encode()
    except UnicodeEncodeError:
        return f"bytes {os.fsencode(path).hex()}"
    return path
