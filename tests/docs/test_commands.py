"""Every command that the documentation shows is run here, and the output that it calls exact is compared.

How a document is written:

    ```console           `$ ` begins a command, all else is output, for the reader only
    ```console exact     the output is compared; a line `…` stands for any lines
    ```console ci        needs a fresh machine: the very command must stand in .ci/run
    ```console key       needs a provider's key: the command must exist (`--help` answers)
    ```yaml file=PATH    the block, of any language, is written to PATH before the next command runs

The commands of a document run in one bash script with `set -e`, in an empty folder with an empty HOME.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md")])

_FENCE = re.compile(r"^(?P<fence>`{3,})(?P<info>.*)$")
_MARK = "@@command "


class Block(NamedTuple):
    line: int
    language: str
    words: tuple[str, ...]
    text: str

    @property
    def file(self):
        return next((w.removeprefix("file=") for w in self.words if w.startswith("file=")), None)

    @property
    def commands(self):
        return [line.removeprefix("$ ") for line in self.text.splitlines() if line.startswith("$ ")]


def blocks(path):
    """The fenced blocks of a document, in order."""
    found, fence, opened, info, lines = [], "", 0, "", []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = _FENCE.match(line)
        if not fence and match:
            fence, opened, info, lines = match["fence"], number, match["info"].split(), []
        elif fence and line == fence:
            language, *words = info or [""]
            found.append(Block(opened, language, tuple(words), "".join(f"{x}\n" for x in lines)))
            fence = ""
        elif fence:
            lines.append(line)
    assert not fence, f"{path}:{opened}: this block is not closed"
    return found


def shown(kind):
    """All (document, block) pairs of console blocks with the word `kind`; without one for empty `kind`."""
    found = []
    for path in DOCUMENTS:
        for block in blocks(path):
            special = {"ci", "key"} & set(block.words)
            if block.language == "console" and (kind in special if kind else not special):
                found.append((path, block))
    return found


def name(value):
    return str(value.relative_to(REPOSITORY)) if isinstance(value, Path) else f"line {value.line}"


RUNNABLE = sorted({path for path, _ in shown("")})


@pytest.fixture(scope="session")
def shims(tmp_path_factory):
    """A folder with `halo`, `doit`, `pytest` and `python` that run this checkout."""
    folder = tmp_path_factory.mktemp("bin")
    for command in ("halo", "doit", "pytest"):
        script = folder / command
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m {command} "$@"\n')
        script.chmod(0o755)
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    return folder


def script(found):
    """The bash script of a document: files are written and commands run in the order in which they stand."""
    lines = ["set -euo pipefail", "exec 2>&1"]
    for number, block in enumerate(found):
        if block.file is not None:
            target = shlex.quote(block.file)
            lines.append(f'mkdir -p "$(dirname {target})"')
            lines.append(f"cat > {target} <<'END-OF-{number}'\n{block.text}END-OF-{number}")
        elif block.language == "console" and not {"ci", "key"} & set(block.words):
            for position, command in enumerate(block.commands):
                lines += [f"printf '%s\\n' '{_MARK}{number} {position}'", command]
    return "\n".join(lines) + "\n"


def outputs(text):
    """What each command printed, by (block, position)."""
    found = {}
    key = None
    for line in text.splitlines():
        if line.startswith(_MARK):
            block, position = line.removeprefix(_MARK).split(" ")
            key = (int(block), int(position))
            found[key] = []
        elif key is not None:
            found[key].append(line.rstrip())
    return found


def expected(block):
    """What a block says that each of its commands prints."""
    found = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append([])
        else:
            found[-1].append(line.rstrip())
    return found


def agrees(said, printed):
    """Compare line by line; `…` alone on a line stands for any lines. Empty lines at the end do not count."""
    pattern = "".join(r"(?:.*\n)*?" if line == "…" else re.escape(line) + "\n" for line in trimmed(said))
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in trimmed(printed))) is not None


def trimmed(lines):
    end = len(lines)
    while end and not lines[end - 1]:
        end -= 1
    return lines[:end]


def test_exact_output_is_compared_line_by_line():
    assert agrees(["a", "b"], ["a", "b", ""])
    assert agrees(["a", "…", "z"], ["a", "b", "c", "z"])
    assert agrees(["…"], [])
    assert agrees(["a", "…"], ["a", "b"])
    assert not agrees(["a", "b"], ["a", "", "b"])
    assert not agrees(["a.c"], ["abc"])
    assert not agrees([], ["a"])


@pytest.mark.parametrize("document", RUNNABLE, ids=name)
def test_the_commands_run_and_print_what_is_shown(document, shims, tmp_path, request):
    found = blocks(document)
    text = script(found)
    home = tmp_path / "home"
    folder = tmp_path / "empty"
    home.mkdir()
    folder.mkdir()
    environ = {
        "PATH": f"{shims}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(home),
        "PYTHONPATH": str(REPOSITORY),
        "PYTHONDONTWRITEBYTECODE": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "LANG": "C.UTF-8",
        "HALO_CACHE": str(home / "cache"),
    }
    if re.search(r"\bhalo (run|model)\b", text):
        environ["HALO_CACHE"] = str(request.getfixturevalue("shared_cache"))
    done = subprocess.run(
        ["bash", "-c", text],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    printed = outputs(done.stdout)
    assert done.returncode == 0, f"{name(document)}: {done.stdout[-3000:]}{done.stderr}"
    for number, block in enumerate(found):
        if block.language == "console" and "exact" in block.words:
            for position, said in enumerate(expected(block)):
                got = printed[number, position]
                where = f"{name(document)}:{block.line}: $ {block.commands[position]}"
                assert agrees(said, got), f"{where}\n" + "\n".join(got)


@pytest.mark.parametrize(("document", "block"), shown("ci"), ids=name)
def test_commands_for_a_fresh_machine_are_run_by_the_gate(document, block):
    gate = (REPOSITORY / ".ci" / "run").read_text(encoding="utf-8").replace("pip install -q ", "pip install ")
    for command in block.commands:
        assert command in gate, f"{name(document)}: .ci/run does not run: {command}"


@pytest.mark.parametrize(("document", "block"), shown("key"), ids=name)
def test_commands_that_need_a_key_exist(document, block, shims):
    for command in block.commands:
        words = shlex.split(command)
        assert words[0] == "halo", command
        done = subprocess.run(
            [shims / "halo", words[1], "--help"],
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        for option in (w for w in words[2:] if w.startswith("-")):
            assert re.search(rf"(?<!\S){re.escape(option)}\b", done.stdout), f"{command}: no option {option}"


def test_the_documentation_shows_commands():
    assert len(RUNNABLE) >= 5
