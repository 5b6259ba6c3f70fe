"""Which file serves, over generated workspaces: nothing of a hidden one reaches a prompt, and all of a serving one.

Every layer ends in a mark of its own, so that a prompt tells by itself what it is made of.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from generated import AGENTS, FEW, SKILLS, all_targets, workspaces
from hostile import Child, Job
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from making import tree

from halo.build.targets import default_targets
from halo.compiler.compile import compile_target
from halo.errors import UnknownNameError, UsageError
from halo.files.canonical import readable_json
from halo.records.targets import AgentTarget, SkillTarget
from halo.workspace.agents import read_agent

ROOTS = ("workspace:.halo/", "global:", "builtin:")
MARK = re.compile(r"mark-\d+-end")


class Marked:
    """A workspace whose layers are marked: `mark` of a path, and what a compile of a target holds."""

    def __init__(self, files):
        self.files = dict(files)
        self.mark = {}
        for number, path in enumerate(sorted(files)):
            if path.endswith(".md"):
                self.files[path] = f"{files[path]}\n\nmark-{number}-end\n"
                self.mark[path] = f"mark-{number}-end"
            elif path.endswith("agent.yaml"):
                described = re.sub(r"(?m)^description: .*", f'description: "mark-{number}-end"', files[path])
                self.files[path] = described
                self.mark[path] = f"mark-{number}-end"
        self.tree = tree(self.files)

    def found(self, target):
        """The paths whose marks are in the prompt, the descriptions of tools and everything else of it."""
        compiled = compile_target(self.tree, target)
        text = compiled.prompt + readable_json(compiled.manifest).decode()
        present = set(MARK.findall(text))
        return {path for path, mark in self.mark.items() if mark in present}

    def serving(self, kind, name):
        """The folder that serves an agent or skill: the first root that has any file of it."""
        folders = (f"{root}{kind}/{name}/" for root in ROOTS)
        return next(f for f in folders if any(path.startswith(f) for path in self.files))

    def first(self, *paths):
        return next((path for path in paths if path in self.files), None)

    def targets(self):
        for target in all_targets(self.tree):
            try:
                compile_target(self.tree, target)
            except UnknownNameError:
                continue  # rules of a directory that are blank
            yield target


@st.composite
def layered(draw):
    """A generated workspace in which ids and prompts are defined in several scopes at once."""
    files = draw(workspaces())
    for kind, names, own in (("agents", AGENTS, "AGENT.md"), ("skills", SKILLS, "SKILL.md")):
        for name in names:
            first = next(p for p in files if f"{kind}/{name}/" in p)
            defining = {p.rpartition("/")[2]: text for p, text in files.items() if f"{kind}/{name}/" in p}
            for root in ROOTS:
                folder = f"{root}{kind}/{name}/"
                if first.startswith(folder) or not draw(st.booleans()):
                    continue
                if kind == "agents":
                    files[f"{folder}agent.yaml"] = defining["agent.yaml"]
                if kind == "skills" or draw(st.booleans()):
                    files[folder + own] = "---\ndescription: other\n---\nOTHER"
    for scope in ("bootstrap", "all", "root"):
        for name in ("B.md", "a.md", "z.md"):
            if draw(st.booleans()):
                files[f"builtin:prompts/{scope}/{name}"] = "PACKAGED"
    return Marked(files)


def agent_targets(marked):
    return [t for t in marked.targets() if isinstance(t, AgentTarget)]


@FEW
@given(layered())
def test_a_folder_that_serves_hides_the_others_whole(marked):
    """Agents and skills: no byte of a hidden folder, not even of a file that the serving one lacks."""
    hidden = {
        path
        for kind, names in (("agents", AGENTS), ("skills", SKILLS))
        for name in names
        for path in marked.mark
        if f"{kind}/{name}/" in path and not path.startswith(marked.serving(kind, name))
    }
    for target in marked.targets():
        assert not hidden & marked.found(target), target
        if isinstance(target, AgentTarget) and target.mode == "full":
            folder = marked.serving("agents", target.agent)
            own = marked.first(f"{folder}AGENT.md")
            assert own is None or own in marked.found(target)
        if isinstance(target, SkillTarget):
            assert marked.found(target) == {marked.serving("skills", target.id) + "SKILL.md"}


@FEW
@given(layered())
def test_a_prompt_scope_comes_from_one_folder(marked):
    """Directory-level override: the first folder that exists serves alone, with its variants for the platform."""
    for target in agent_targets(marked):
        found = marked.found(target)
        agent = read_agent(marked.tree, target.agent)
        user = marked.first("workspace:.halo/USER.md", "global:USER.md")
        for scope in ("bootstrap", "all", "root"):
            folders = [f"{root}prompts/{scope}/" for root in ROOTS]
            serving = next((f for f in folders if any(p.startswith(f) for p in marked.files)), None)
            there = {p for p in found for f in folders if p.startswith(f)}
            shown = not agent.config.internal and target.mode != "none"
            shown &= scope == "all" or target.role == "root"
            shown &= scope != "bootstrap" or user is None
            if not shown or serving is None:
                assert there == set(), (target, scope)
                continue
            names = {p.removeprefix(serving) for p in marked.mark if p.startswith(serving)}
            windows = "a.windows.md" in names
            if target.platform == "windows":
                names -= {"a.md"} if windows else set()
            else:
                names -= {"a.windows.md"}
            assert there == {serving + name for name in names}, (target, scope)


@FEW
@given(layered())
def test_the_layers_of_the_place(marked):
    """USER.md and INSTRUCTIONS.md: the workspace's, else the global one. INDEX.md: of the workspace alone."""
    for target in agent_targets(marked):
        found = marked.found(target)
        internal = read_agent(marked.tree, target.agent).config.internal
        root = target.role == "root"
        shared = {p for p in found if p.endswith((".halo/USER.md", ":USER.md"))}
        user = marked.first("workspace:.halo/USER.md", "global:USER.md")
        assert shared == ({user} if user and root and target.mode == "full" and not internal else set())
        rules = {p for p in found if re.search(r"(^workspace:\.halo/|^global:)INSTRUCTIONS\.md", p)}
        instructions = marked.first("workspace:.halo/INSTRUCTIONS.md", "global:INSTRUCTIONS.md")
        assert rules == ({instructions} if instructions and not internal else set())
        index = {p for p in found if p.endswith("INDEX.md")}
        assert index == ({"workspace:.halo/INDEX.md"} & set(marked.mark) if not internal else set())
        parts = target.directory.split("/") if target.directory else []
        chain = {f"workspace:{'/'.join(parts[: i + 1])}/.halo/INSTRUCTIONS.md" for i in range(len(parts))}
        below = {p for p in found if re.match(r"workspace:(pkg|docs)/", p)}
        assert below == (chain & set(marked.mark) if not internal else set())


@FEW
@given(layered())
def test_an_internal_agent_holds_nothing_of_the_workspace(marked):
    """Only its own folder, and the names of the skills that it lists."""
    for target in agent_targets(marked):
        if read_agent(marked.tree, target.agent).config.internal:
            folder = marked.serving("agents", target.agent)
            skills = {marked.serving("skills", name) + "SKILL.md" for name in SKILLS}
            strange = {p for p in marked.found(target) if not p.startswith(folder)} - skills
            assert strange == set(), target


@FEW
@given(layered(), st.data())
def test_what_is_disabled_vanishes_from_every_artifact(marked, data):
    """From rosters, skills blocks, tools and targets; asked for, it is refused. Another scope's stays."""
    entries = {}
    for kind, names in (("agents", AGENTS), ("skills", SKILLS)):
        forms = [f"{scope}{name}" for name in names for scope in ("", "workspace:", "global:", "builtin:")]
        entries[kind] = data.draw(st.lists(st.sampled_from(forms), max_size=3))
    path = "workspace:.halo/settings.yaml"
    settings = json.loads(marked.files.get(path, "{}"))
    settings.setdefault("general", {})["disabled"] = entries
    marked = Marked({**marked.files, path: json.dumps(settings, indent=1)})

    def off(kind, name):
        scope = marked.serving(kind, name).partition(":")[0]
        return name in entries[kind] or f"{scope}:{name}" in entries[kind]

    gone = {
        path
        for kind, names in (("agents", AGENTS), ("skills", SKILLS))
        for name in names
        if off(kind, name)
        for path in marked.mark
        if f"{kind}/{name}/" in path
    }
    names = {target.name for target in default_targets(marked.tree).targets}
    for name in AGENTS:
        target = AgentTarget(name)
        assert (target.name in names) == (not off("agents", name))
        if off("agents", name):
            with pytest.raises(UsageError, match="disabled"):
                compile_target(marked.tree, target)
            continue
        manifest = compile_target(marked.tree, target).manifest
        listed = read_agent(marked.tree, name).config
        assert {m.id for m in manifest.team} == {
            m
            for m in listed.team
            if not off("agents", m) and not read_agent(marked.tree, m).config.internal and not listed.internal
        }
        assert {s.id for s in manifest.skills} == {s for s in listed.skills if not off("skills", s)}
        assert not gone & marked.found(target)
    for name in SKILLS:
        assert (f"skills/{name}" in names) == (not off("skills", name))
        if off("skills", name):
            with pytest.raises(UsageError, match="disabled"):
                compile_target(marked.tree, SkillTarget(name))


LINES = (
    *("build", "prompt -a a", "prompt -a a --layers", "prompt -a a --blame", "why a rules", "why a zzz"),
    *("check", "check --global", "check --global --format json", "check --format sarif", "settings"),
    *("diff", "diff --format json", "agent list", "skill list", "trust --show"),
)

SECRETS = st.text("bcdfghjkmnpqrstvwxyzBCDFGHJKLMNPQRSTVWXYZ0123456789+/=-", min_size=16, max_size=40)


def with_secret(files, secret):
    """Put a secret wherever one may stand, and ask for each in a text."""
    files = {
        path: text for path, text in files.items() if not path.endswith(("settings.yaml", "config.yaml"))
    }
    declared = {
        "params": [
            {"key": "hidden", "secret": True, "default": secret},
            {"key": "number", "type": "int", "secret": True},
        ],
        "secrets": [{"key": "key"}],
    }
    folder = next(path for path in files if path.endswith("agents/a/agent.yaml")).rpartition("/")[0]
    files[f"{folder}/config.yaml"] = json.dumps(declared)
    block = {"params": {"hidden": secret, "env": "<<NAME>>"}, "secrets": {"key": secret}}
    files["workspace:.halo/settings.yaml"] = json.dumps({"a": block, "nobody": block}, indent=1)
    machine = {"a": block, "openai": {"secrets": {"api_key": secret}}, "gone": {"params": {"x": secret}}}
    files["secrets:settings.yaml"] = json.dumps(machine, indent=1)
    names = ("a.params.hidden", "a.params.env", "a.secrets.key", "openai.secrets.api_key", "gone.params.x")
    asked = " ".join(f"{{{{{name}}}}}" for name in names)
    files[f"{folder}/AGENT.md"] = f"rules {asked} <<NAME>>\n"
    files["workspace:.halo/INSTRUCTIONS.md"] = asked
    return files


@hypothesis_settings(max_examples=int(os.environ.get("HALO_EXAMPLES", "4")))
@given(workspaces(), SECRETS, st.sampled_from(["", "model: 3\n", "misfit", "syntax"]))
def test_no_command_shows_a_secret(files, secret, broken):
    """On disk, through the commands themselves, sound and with something broken beside it."""
    files = with_secret(files, secret)
    if broken.startswith("model"):
        files["workspace:.halo/agents/broken/agent.yaml"] = broken
    if broken == "misfit":
        text = files["workspace:.halo/settings.yaml"]
        files["workspace:.halo/settings.yaml"] = text.replace('"hidden"', '"number"')
        folder = next(path for path in files if path.endswith("agents/a/AGENT.md"))
        files[folder] += "{{a.params.number}}\n"
    if broken == "syntax":
        files["workspace:.halo/settings.yaml"] += f"\n  - {secret}: [\n"
    with TemporaryDirectory() as top:
        root, home = Path(top) / "ws", Path(top) / "user" / ".halo"
        places = {"workspace": root, "global": home / "global", "secrets": home / "secrets"}
        for path, text in files.items():
            name, _, relative = path.partition(":")
            target = places[name] / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8", newline="")
        if shutil.which("git"):
            subprocess.run(["git", "init", "-q"], cwd=root, check=True)
            identity = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
            commit = ["git", *identity, "commit", "-q", "--allow-empty", "-m", "x"]
            subprocess.run(commit, cwd=root, check=True)
        with Child(environ={"NAME": secret}) as child:
            for line in LINES:
                said = child.run(Job(root, home, tuple(line.split())))
                assert said.well, said
                assert secret not in said.text, said
        for folder in ("artifacts", "build"):
            for file in (root / ".halo" / folder).rglob("*"):
                assert not file.is_file() or secret.encode() not in file.read_bytes(), file
