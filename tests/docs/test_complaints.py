"""`docs/complaints.md`: every complaint is answered by a test that exists, or says why there is none."""

import ast
import re
from functools import cache

from making import REPOSITORY

PAGE = (REPOSITORY / "docs" / "complaints.md").read_text(encoding="utf-8")
ROW = re.compile(r"^(\d+)\. (.*?)(?=^\d+\. |^## |\Z)", re.MULTILINE | re.DOTALL)
ROWS = {int(number): text for number, text in ROW.findall(PAGE)}
WITHOUT = {63, 64, 65, 66}  # git: Halo commits nothing yet


@cache
def nodes_of(path):
    """The node ids of a file of tests, without parameters."""

    def names(body, before):
        for node in body:
            if isinstance(node, ast.ClassDef):
                yield from names(node.body, f"{before}::{node.name}")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield f"{before}::{node.name}"

    file = REPOSITORY / path
    return {*names(ast.parse(file.read_text(encoding="utf-8")).body, path)} if file.exists() else set()


def test_every_row_is_there_once_and_in_order():
    assert [int(number) for number, _ in ROW.findall(PAGE)] == list(range(1, 68))


def test_every_test_that_is_named_exists():
    named = re.findall(r"`(tests/\S+)`", PAGE)
    assert len(named) > 67
    missing = [name for name in named if "::" in name and name not in nodes_of(name.partition("::")[0])]
    assert missing == []


def test_every_row_names_a_test_or_says_why_not():
    without = {number for number, text in ROWS.items() if "::" not in text}
    assert without == WITHOUT
    assert all("evolution" in ROWS[number] for number in WITHOUT)


def test_what_a_test_says_that_it_answers_is_told_there():
    """A test that calls itself an answer to a complaint, by its name, is one."""
    said = {}
    for path in sorted((REPOSITORY / "tests").rglob("test_*.py")):
        for name in re.findall(r"def (test_\w+_row_(?:\d+))\(", path.read_text(encoding="utf-8")):
            said.setdefault(int(name.rpartition("_")[2]), []).append(name)
    assert said
    for number, names in said.items():
        assert any(name in ROWS[number] for name in names), (number, names)
