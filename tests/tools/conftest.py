"""A workspace, a skill folder outside it, and a toolbox in them."""

import asyncio
import errno
import json
import os

import pytest
from tool_specs import SPECS

from halo.files.roots import ConfinedRoot
from halo.records.messages import ToolCall
from halo.tools.base import Surroundings
from halo.tools.toolbox import Toolbox


class Bench:
    """What the tests of tools work at."""

    def __init__(self, folder):
        self.root = folder / "ws"
        self.root.mkdir()
        self.skill = folder / "skills" / "notes"
        self.skill.mkdir(parents=True)
        self.secret = folder / "secret.txt"
        self.secret.write_text("top secret\n")
        self.skills = {"notes": "# Skill: notes\n"}
        self.around = Surroundings(
            workspace=ConfinedRoot(str(self.root)),
            skills={"notes": ConfinedRoot(str(self.skill))},
            load_skill=lambda skill, _arguments: self.skills.get(skill),
        )
        self.toolbox = Toolbox(SPECS, self.around)

    def restrict(self, access):
        """Go on with this access."""
        self.around = self.around._replace(access=access)
        self.toolbox = Toolbox(SPECS, self.around)

    def write(self, files):
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())

    def call(self, name, /, **arguments):
        result = asyncio.run(self.toolbox.run(ToolCall("c1", name, json.dumps(arguments))))
        # For every call of every test: nothing names the machine's folders, and it can be sent and logged.
        assert str(self.root.parent) not in result.text
        result.text.encode()
        return result

    def text(self, name, /, **arguments):
        result = self.call(name, **arguments)
        assert not result.is_error, result.text
        return result.text

    def refusal(self, name, /, **arguments):
        result = self.call(name, **arguments)
        assert result.is_error, result.text
        return result.text


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


@pytest.fixture
def broken(monkeypatch):
    """Make the system refuse paths below a root: `broken("a/b", errno.EACCES)`. Tests may run as root."""
    refused = {}

    def refusing(method):
        def wrapped(self, rel, *args, **kwargs):
            if rel in refused:
                # As the system does where a path is not opened step by step: with the whole path.
                raise OSError(refused[rel], os.strerror(refused[rel]), f"{self.path}/{rel}")
            return method(self, rel, *args, **kwargs)

        return wrapped

    for name in ("open", "entries"):
        monkeypatch.setattr(ConfinedRoot, name, refusing(getattr(ConfinedRoot, name)))

    def refuse(rel, number=errno.EACCES):
        refused[rel] = number

    return refuse
