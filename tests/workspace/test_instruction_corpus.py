"""130 `*.instructions.md` files as editors use them: each loads, is for all files or not, and loses no text."""

import gzip
import json
import re

import pytest
from making import REPOSITORY, body, compiled

CORPUS = REPOSITORY.parent / "shared" / "corpus" / "instructions.jsonl.gz"
pytestmark = pytest.mark.skipif(not CORPUS.is_file(), reason=f"the corpus is not at {CORPUS.parent}")

SETTINGS = {".halo/settings.yaml": "general: {prompt: {instruction_files: {copilot: true}}}\n"}


def load():
    """The files by name, as bytes."""
    if not CORPUS.is_file():
        return {}
    with gzip.open(CORPUS, "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    return {record["file"]: record["bytes_latin1"].encode("latin-1") for record in records}


FILES = load()


def simply_read(data):
    """Whether a file is for all files, and its body: a reading that knows only the shapes of this corpus."""
    text = data.decode().removeprefix("\ufeff").replace("\r\n", "\n")
    match = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)
    if match is None:
        return False, text.strip()
    line = re.search(r"^applyTo:(.*)$", match[1], re.MULTILINE)
    globs = re.sub(r"\{.*?\}", "", line[1] if line else "").strip(" []").split(",")
    return any(glob.strip("'\" ") in ("*", "**", "**/*") for glob in globs), text[match.end() :].strip()


def test_the_corpus_has_both():
    kinds = [simply_read(data)[0] for data in FILES.values()]
    assert len(kinds) == 130
    assert (kinds.count(True), kinds.count(False)) == (COUNTED, 130 - COUNTED)


COUNTED = 27  # files for all files: 22 say `**`, 2 say `*`, 3 say `["*"]`


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_file_alone(name):
    """In the prompt with its whole body, or named as one that stays out."""
    always, text = simply_read(FILES[name])
    path = f".github/instructions/{name}"
    result = compiled(body("BODY", **SETTINGS, **{path: FILES[name]}))
    segments = {segment.id: segment for segment in result.manifest.segments}
    assert (path in segments) is always
    remarks = [d.message for d in result.manifest.diagnostics if d.code == "path-scoped-rules"]
    if always:
        segment = segments[path]
        prompt = result.prompt.encode()[segment.start : segment.end].decode()
        assert prompt.partition(f"## Instructions from {path}\n\n")[2].strip() == text
        assert remarks == []
    else:
        assert remarks[0].startswith(f"1 of 1 rules stay out: {name} (")


def test_all_together():
    """Each that is for all files has a section, in the order of the names; one remark says how many have not."""
    files = {f".github/instructions/{name}": data for name, data in FILES.items()}
    result = compiled(body("BODY", **SETTINGS, **files))
    found = [segment.id for segment in result.manifest.segments if segment.id in files]
    assert found == sorted(path for path, data in files.items() if simply_read(data)[0])
    (remark,) = [d for d in result.manifest.diagnostics if d.source == "workspace:.github/instructions"]
    assert remark.code == "path-scoped-rules"
    assert remark.message.startswith(f"{130 - len(found)} of 130 rules stay out: ")
