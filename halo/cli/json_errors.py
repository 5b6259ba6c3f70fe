"""Errors as JSON, for programs that read stdout."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import click

from halo.errors import HaloError

FORMAT = 1


@contextmanager
def errors_as_json(*, wanted: bool) -> Iterator[None]:
    """If `wanted`, print what is raised as a JSON object (docs/reference/errors.md) and raise it.

    Where the reader of stdout is gone, and at Ctrl-C, nothing is printed.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except (HaloError, OSError) as error:
        if wanted:
            click.echo(_object(error))
        raise


def _object(error: HaloError | OSError) -> str:
    import msgspec

    document = {"format": FORMAT, "error": {"kind": type(error).__name__, **_known(error)}}
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def _known(error: HaloError | OSError) -> dict[str, str | int]:
    """Return what is known of an error, without the rest."""
    if isinstance(error, HaloError):
        fields = {"message": error.message, "file": error.file, "line": error.line, "hint": error.hint}
    else:
        named = error.filename
        file = os.fsdecode(named) if isinstance(named, (str, bytes)) else None
        fields = {"message": error.strerror or str(error), "file": file}
    return {
        name: _encodable(value) if isinstance(value, str) else value
        for name, value in fields.items()
        if value is not None
    }


def _encodable(text: str) -> str:
    """Return a text that can be UTF-8: the name of a file may hold any bytes."""
    return text.encode("utf-8", "backslashreplace").decode()
