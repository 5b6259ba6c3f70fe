"""Reads a SKILL.md whatever the editor made of it: this is the one place that says where its body starts.

Nothing here raises. What had to be read in another way than it is written is a remark with its line; what is
read as the specification has it gives none. The strict rules are in `skill_rules`.
"""

import codecs
import re
from typing import Any, NamedTuple

from halo.errors import LayerError
from halo.files.canonical import canonical_text
from halo.workspace.yamldoc import load_yaml


class Remark(NamedTuple):
    """What was read in another way than it is written, and where."""

    line: int
    message: str


class SkillFile(NamedTuple):
    """A SKILL.md: its text, the values of its front matter, the line of each key, and the body.

    `body` has no blank edges and starts on `line`. Name and description are text or None, if they are there.
    """

    text: str
    values: dict[str, Any]
    lines: dict[str, int]
    body: str
    line: int
    remarks: tuple[Remark, ...]


class _Head(NamedTuple):
    """Front matter, and the index of the first line behind it."""

    values: dict[str, Any]
    lines: dict[str, int]
    end: int


_FENCE = "---"
_LARGEST = 65_536  # characters of front matter; it says what a skill is, it does not hold the skill
_KEY = re.compile(r"""(["']?)([A-Za-z_][\w.-]*)\1[ \t]*:(?=[ \t]|$)""")
_BLOCK_SCALAR = re.compile(r"[|>][-+0-9]{0,2}[ \t]*(?:#.*)?$")


def read_skill_file(data: bytes) -> SkillFile:
    """Read the bytes of a SKILL.md."""
    text, remarks = _decode(data)
    lines = text.split("\n")
    head = _head(lines, remarks) or _Head({}, {}, 0)
    rest = lines[head.end :]
    blank = next((i for i, line in enumerate(rest) if line.strip()), 0)
    body = "\n".join(rest[blank:]).rstrip()
    # The first line may be indented; its own blanks go as they do in every layer.
    return SkillFile(
        text, head.values, head.lines, body.lstrip(), head.end + blank + 1, tuple(sorted(remarks))
    )


def _decode(data: bytes) -> tuple[str, list[Remark]]:
    """Decode as `canonical_text` does; what is no text becomes U+FFFD, because a guess could be wrong."""
    remarks: list[Remark] = []
    while True:
        try:
            return canonical_text(data, ""), remarks
        except LayerError as error:
            if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                remarks.append(Remark(1, "the file is UTF-16; save it as UTF-8"))
                data = data.decode("utf-16", "replace").encode()
            else:
                remarks.append(Remark(error.line or 1, f"{error.message}; it is read as U+FFFD"))
                mended = data.decode("utf-8", "replace").encode()
                data = mended if mended != data else data.replace(b"\0", "\ufffd".encode())


def _head(lines: list[str], remarks: list[Remark]) -> _Head | None:
    """Find and read the front matter; None where the file begins with its body."""
    first = next((i for i, line in enumerate(lines) if line.strip()), None)
    if first is None:
        return None
    if lines[first].rstrip() != _FENCE:
        return _unfenced(lines, first, remarks)
    start = first + 1
    close = next((i for i in range(start, len(lines)) if lines[i].rstrip() == _FENCE), None)
    head = _unclosed(lines, start, remarks) if close is None else _closed(lines, start, close, remarks)
    if head is not None:
        if first:
            remarks.append(Remark(start, "blank lines stand before the front matter"))
        fences = [i for i in (first, close) if i is not None and i < head.end]
        remarks += [Remark(i + 1, "blanks stand behind ---") for i in fences if lines[i] != _FENCE]
    return head


def _closed(lines: list[str], start: int, close: int, remarks: list[Remark]) -> _Head | None:
    """Read what stands between two `---`; None when it is prose between two rules."""
    try:
        found = _mapping(lines, start, close, remarks)
    except LayerError as error:
        broken = error
    else:
        return _Head(*found, close + 1) if found is not None else None
    stop = _run(lines, start, close, closed=True)
    if stop == start:
        return None
    said: list[Remark] = []
    values, places = _entries(lines, start, stop, said)
    if stop == close:
        head = _Head(values, places, close + 1)
    elif _tells(values):
        # The next rule is one of the body's: the front matter was never closed.
        said.append(Remark(stop, f"the front matter ends here, without ---: {broken.message}"))
        head = _Head(values, places, stop)
    else:
        return None
    remarks += said
    return head


def _unclosed(lines: list[str], start: int, remarks: list[Remark]) -> _Head | None:
    """Read front matter that no line `---` ends: an indented one does, else the first line of other text."""
    indented = next((i for i in range(start, len(lines)) if lines[i].strip() == _FENCE), None)
    if indented is not None:
        said: list[Remark] = []
        try:
            found = _mapping(lines, start, indented, said)
        except LayerError:
            found = None
        if found is not None and _tells(found[0]):
            remarks += [*said, Remark(indented + 1, "the --- behind the front matter is indented")]
            return _Head(*found, indented + 1)
    return _open_run(lines, start, remarks, "no line --- ends the front matter")


def _unfenced(lines: list[str], first: int, remarks: list[Remark]) -> _Head | None:
    """Read front matter without any `---`: only where both a name and a description stand there."""
    key = _KEY.match(lines[first])
    if key is None or key[2] not in ("name", "description"):
        return None
    said: list[Remark] = []
    head = _open_run(lines, first, said, "no lines --- stand around the front matter")
    if head is None or not head.values.keys() >= {"name", "description"}:
        return None
    remarks += said
    return head


def _open_run(lines: list[str], start: int, remarks: list[Remark], message: str) -> _Head | None:
    stop = _run(lines, start, len(lines), closed=False)
    if stop == start:
        return None
    said: list[Remark] = []
    try:
        found = _mapping(lines, start, stop, said)
    except LayerError:
        found = None
    values, places = found if found is not None else _entries(lines, start, stop, said)
    if not _tells(values):
        return None
    remarks += [*said, Remark(start + 1, message)]
    return _Head(values, places, stop)


def _tells(values: dict[str, Any]) -> bool:
    return "name" in values or "description" in values


def _mapping(
    lines: list[str], start: int, stop: int, remarks: list[Remark]
) -> tuple[dict[str, Any], dict[str, int]] | None:
    """Parse lines as YAML; None when they are no mapping. Raises `LayerError`."""
    block = "\n".join(lines[start:stop]) + "\n"
    if len(block) > _LARGEST:
        raise LayerError("the front matter is too long")
    document = load_yaml(block, "", first_line=start + 1)
    if document.value is None:
        return {}, {}
    if not isinstance(document.value, dict):
        return None
    values = {str(key): value for key, value in document.value.items()}
    places = {str(path[0]): line for path, line in document.lines.items() if len(path) == 1}
    starts = sorted({*places.values(), stop + 1})
    for key, value in values.items():
        if key.lower() not in ("name", "description") or value is None or isinstance(value, str):
            continue
        at = places.get(key, start + 1)  # what a merge key brings in has no line of its own
        group = lines[at - 1 : next(line for line in starts if line > at) - 1]
        match = _KEY.match(group[0])
        values[key] = _plain(group) if match is not None and match[2] == key else str(value)
        if isinstance(value, list | dict):
            remarks.append(Remark(at, f"{key} is a {type(value).__name__}; it is taken as text"))
    return values, places


def _run(lines: list[str], start: int, limit: int, *, closed: bool) -> int:
    """Return where the keys that begin at `start` end, `start` itself when there are none.

    They end at a blank line with something behind it that is no key: in a block that is not `closed` that is
    a heading too, which YAML would take for a remark.
    """
    i = start
    while i < limit and (not lines[i].strip() or lines[i].startswith("#")):
        i += 1
    if i == limit or not _KEY.match(lines[i]):
        return start
    scalar = False
    while i < limit:
        line = lines[i]
        if line.strip():
            key = _KEY.match(line)
            if key is not None:
                scalar = _BLOCK_SCALAR.match(line[key.end() :].strip()) is not None
            elif line.startswith("#") and not closed:
                return i
            i += 1
            continue
        after = i
        while after < limit and (not lines[after].strip() or (closed and lines[after].startswith("#"))):
            after += 1
        if after < limit and not _goes_on(lines[after], closed=closed, scalar=scalar):
            return i
        i = after
    return limit


def _goes_on(line: str, *, closed: bool, scalar: bool) -> bool:
    """Tell whether a line behind a blank one is still front matter."""
    if line[0] in " \t":
        return closed or scalar
    key = _KEY.match(line)
    return key is not None and (closed or key[2][0].islower())


def _entries(
    lines: list[str], start: int, stop: int, remarks: list[Remark]
) -> tuple[dict[str, Any], dict[str, int]]:
    """Read each key by itself; a value that is not YAML is taken as the text that it looks like."""
    values: dict[str, Any] = {}
    places: dict[str, int] = {}
    starts = [i for i in range(start, stop) if _KEY.match(lines[i])]
    read = 0
    for at, end in zip(starts, [*starts[1:], stop], strict=True):
        group = lines[at:end]
        read += sum(len(line) + 1 for line in group)
        if read > _LARGEST:
            remarks.append(Remark(at + 1, f"front matter beyond {_LARGEST:,} characters is not read"))
            break
        match = _KEY.match(group[0])
        assert match is not None  # noqa: S101  # `starts` holds nothing else
        key = match[2]
        if key in values:
            remarks.append(Remark(at + 1, f"the key {key!r} stands twice; the first one counts"))
            continue
        try:
            values[key] = _value(group)
        except LayerError as error:
            values[key] = _plain(group)
            remarks.append(Remark(at + 1, f"{key} is taken as text, put it into quotes: {error.message}"))
        places[key] = at + 1
    return values, places


def _value(group: list[str]) -> Any:
    """Parse the lines of one key. Raises `LayerError`."""
    document = load_yaml("\n".join(group) + "\n", "")
    if not isinstance(document.value, dict) or len(document.value) != 1:
        raise LayerError("not a value")
    ((key, value),) = document.value.items()
    text = str(key).lower() in ("name", "description")
    return _plain(group) if text and not isinstance(value, str | None) else value


def _plain(group: list[str]) -> str:
    """Return the text of a key's lines as a reader would: on one line, without the quotes around it."""
    match = _KEY.match(group[0])
    assert match is not None  # noqa: S101  # a group begins with its key
    lead = group[0][match.end() :].strip()
    if _BLOCK_SCALAR.match(lead):
        lead = ""
    more = (line.strip() for line in group[1:] if not line.startswith("#"))
    text = " ".join(part for part in (lead, *more) if part)
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    return text
