"""Finds the addresses of links and pictures in Markdown."""

import re
from collections.abc import Iterator


def find_links(text: str) -> Iterator[tuple[str, int]]:
    """Yield each address, decoded, with its line (from 0); code is no link."""
    from urllib.parse import unquote

    from markdown_it import MarkdownIt

    for block in MarkdownIt("commonmark").parse(text):
        line = block.map[0] if block.map else 0
        for token in block.children or ():
            if token.type in ("softbreak", "hardbreak"):
                line += 1
            address = token.attrGet("href") or token.attrGet("src")
            if address:
                yield unquote(str(address)), line


_SCHEME = re.compile(r"[A-Za-z][\w+.-]*:")


def relative_path(address: str) -> str:
    """Return the path of a relative address, empty for an anchor, one with a scheme, and an absolute one."""
    path = address.partition("#")[0].partition("?")[0]
    return "" if path.startswith("/") or _SCHEME.match(path) else path
