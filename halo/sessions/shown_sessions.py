"""Sessions as other programs see them: a list in pages, and each as a document or as its header."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import msgspec

from halo.errors import UnknownNameError, UsageError
from halo.records.headers import Header
from halo.sessions.desk import Desk
from halo.sessions.exchange.exporting import Chosen, export
from halo.sessions.exchange.masking import Mask, masked
from halo.sessions.exchange.reading import read_whole
from halo.sessions.find import begun_here, find_session, sessions_folder
from halo.sessions.ids import is_session_id
from halo.sessions.index.lookup import listed
from halo.sessions.secrets import secret_mask

SCHEME = "halo://sessions/"
HEADER = "/header"
_PAGE = 100
_URI = re.compile(re.escape(SCHEME) + r"(?P<id>[^/?#]+)(?P<part>/header)?\Z")


class Row(NamedTuple):
    """A session in the list."""

    uri: str
    title: str
    about: str
    changed_at: str


class Page(NamedTuple):
    """Some rows, and where the next ones begin; empty behind the last."""

    rows: tuple[Row, ...]
    following: str


class Text(NamedTuple):
    """What a URI leads to."""

    media_type: str
    text: str


class ShownSessions:
    """The sessions of a workspace, without secrets that Halo knows."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._sessions = sessions_folder(desk.builder.places.halo)

    def page(self, begin: str = "") -> Page:
        """List sessions, newest first, behind the one that `begin` names. Archived ones are left out.

        Raises `UsageError` for a `begin` that came from no page.
        """
        if begin and not is_session_id(begin):
            raise UsageError("this is no place in the list of sessions")
        found = [*islice(self._headers(begin), _PAGE + 1)]
        mask = self._mask()
        rows = tuple(self._row(header, mask) for header in found[:_PAGE])
        return Page(rows, found[_PAGE - 1].id if len(found) > _PAGE else "")

    def read(self, uri: str) -> Text:
        """Return a session as Markdown, or its header as JSON. Raises `UnknownNameError` and `LogError`."""
        match = _URI.match(uri)
        if match is None:
            raise UnknownNameError(f"{uri!r} is no session", hint=f"{SCHEME}ID, or {SCHEME}ID{HEADER}")
        folder = find_session(self._sessions, match["id"])
        whole, mask = read_whole(folder), self._mask()
        if match["part"]:
            header = masked(msgspec.to_builtins(whole.header), mask)
            return Text("application/json", msgspec.json.format(msgspec.json.encode(header)).decode())
        return Text("text/markdown", export(whole, "markdown", Chosen(), mask).decode())

    def _headers(self, begin: str) -> Iterator[Header]:
        for found in listed(self._sessions):
            header = found.header
            if header is None or header.settings.get("archived") or (begin and found.id >= begin):
                continue
            yield header

    def _row(self, header: Header, mask: Mask) -> Row:
        here = begun_here(header, self._desk.builder.places.home)
        turns = "1 turn" if header.turns == 1 else f"{header.turns:,} turns"
        about = f"{turns} with {header.agent}" + ("" if here else ", begun elsewhere")
        return Row(f"{SCHEME}{header.id}", mask(header.title) or header.id, about, header.updated_at)

    def _mask(self) -> Mask:
        return secret_mask(self._desk.tree, self._desk.environ, self._desk.grants())
