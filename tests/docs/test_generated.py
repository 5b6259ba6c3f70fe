"""What is generated is up to date, and what is named exists."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from halo import errors
from halo.errors import HaloError
from halo.records.schemas import RECORDS, json_schema

REPOSITORY = Path(__file__).resolve().parents[2]
DOCS = REPOSITORY / "docs"
PAGES = sorted([REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *DOCS.rglob("*.md")])
GENERATED = ["docs/reference/cli.md", "docs/reference/errors.md", "docs/reference/formats.md"]

_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
_FENCED = re.compile(r"^(`{3,})[^\n]*\n.*?^\1$", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")


def generate():
    """docs/generate.py, which is no part of a package."""
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def relative(path):
    return str(path.relative_to(REPOSITORY))


def prose(page):
    """A page without fenced blocks and comments."""
    return _COMMENT.sub("", _FENCED.sub("", page.read_text(encoding="utf-8")))


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def test_generated_parts_are_up_to_date():
    command = [sys.executable, "-m", "cogapp", "--check", "-I", "docs", *GENERATED]
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, cwd=REPOSITORY, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\nrun: doit docs"


@pytest.mark.parametrize("record", sorted(RECORDS))
def test_a_schema_on_disk_is_the_one_in_the_code(record):
    module = generate()
    on_disk = (DOCS / "schemas" / f"{record}.json").read_bytes()
    assert on_disk == module.schema_text(record), "run: python docs/generate.py"
    assert json_schema(record)["$schema"].encode() in on_disk


def test_there_is_no_schema_of_a_record_that_is_gone():
    assert {p.stem for p in (DOCS / "schemas").iterdir()} == set(RECORDS)


def test_every_error_class_is_on_the_page_of_errors():
    page = (DOCS / "reference" / "errors.md").read_text(encoding="utf-8")
    classes = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, HaloError)]
    assert [c.__name__ for c in classes if f"`{c.__name__}`" not in page] == []


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_links_lead_somewhere(page):
    for target in _LINK.findall(_CODE.sub("", prose(page))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), f"{relative(page)} links to {target}"
        if anchor:
            assert anchor in anchors(found), f"{relative(page)} links to {target}: no such heading"


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_every_page_of_the_documentation_can_be_reached(page):
    if page.is_relative_to(DOCS) and page != DOCS / "index.md":
        name = page.relative_to(DOCS).as_posix()
        assert f"]({name})" in (DOCS / "index.md").read_text(encoding="utf-8"), (
            f"index.md does not link {name}"
        )


@pytest.mark.parametrize("page", [p for p in PAGES if p.name != "CONTRIBUTING.md"], ids=relative)
def test_lines_are_short_enough_to_review(page):
    """What commands print (fenced blocks) and tables are as wide as they are."""
    for line in prose(page).splitlines():
        assert len(line) <= 120 or line.startswith("|"), f"{relative(page)}: {len(line)} characters: {line}"
