"""`general.disabled`: what is switched off is nowhere to be seen, and refused where it is asked for."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from making import agent, compiled, prompt, skill, tree

from halo.build.targets import default_targets
from halo.errors import LayerError, UsageError
from halo.records.targets import AgentTarget, SkillTarget
from halo.workspace.settings.disabling import parse_entry
from halo.workspace.settings.editing import switch
from halo.workspace.yamldoc import load_yaml

FILES = {
    ".halo/agents/a/agent.yaml": agent(skills=["s", "t"], team=["b", "c"], description="leads"),
    ".halo/agents/a/AGENT.md": "BODY",
    ".halo/agents/b/agent.yaml": agent(description="codes"),
    "global:agents/b/agent.yaml": agent(description="codes elsewhere"),
    "global:agents/c/agent.yaml": agent(description="checks"),
    ".halo/skills/s/SKILL.md": skill("S-BODY", description="sums"),
    "global:skills/t/SKILL.md": skill("T-BODY", description="tides"),
}


def off(*, agents=(), skills=(), where=".halo/settings.yaml"):
    disabled = {"agents": list(agents), "skills": list(skills)}
    return {**FILES, where: json.dumps({"general": {"disabled": disabled}})}


class TestAnAgent:
    def test_vanishes_from_the_roster(self):
        assert "`b`" in prompt(FILES)
        result = compiled(off(agents=["b"]))
        assert "`b`" not in result.prompt
        assert [m.id for m in result.manifest.team] == ["c"]

    def test_the_last_one_takes_the_roster_along(self):
        assert "Your Team" not in prompt(off(agents=["b", "c"]))

    def test_is_not_compiled_and_says_how_to_switch_it_on(self):
        with pytest.raises(UsageError, match="'b' is disabled here") as caught:
            compiled(off(agents=["b"]), AgentTarget("b"))
        assert "halo agent enable b" in caught.value.hint
        names = {t.name for t in default_targets(tree(off(agents=["b"]))).targets}
        assert "a/root" in names
        assert not {n for n in names if n.startswith("b/")}

    def test_what_the_machine_switches_off_stays_off(self):
        """A workspace adds to the list of the machine and takes nothing from it."""
        files = off(agents=["b"], where="secrets:settings.yaml")
        assert "`b`" not in prompt(files)
        for text in ("general: {disabled: {agents: []}}", "general: {disabled: {agents: [c]}}"):
            assert "`b`" not in prompt(files | {".halo/settings.yaml": text})
        assert "`c`" not in prompt(files | {".halo/settings.yaml": text})


class TestASkill:
    def test_vanishes_from_the_list_and_from_the_schema(self):
        result = compiled(off(skills=["s"]))
        assert [s.id for s in result.manifest.skills] == ["t"]
        assert "sums" not in result.prompt
        activate = next(t for t in result.manifest.tools if t.name == "activate_skill")
        assert activate.parameters["properties"]["skill_id"]["enum"] == ["t"]

    def test_none_left_is_none_at_all(self):
        result = compiled(off(skills=["s", "t"]))
        assert "Your Skills" not in result.prompt
        assert "activate_skill" not in {t.name for t in result.manifest.tools}

    def test_is_not_compiled(self):
        with pytest.raises(UsageError, match="'s' is disabled here"):
            compiled(off(skills=["s"]), SkillTarget("s"))


class TestScopes:
    def test_an_entry_with_a_scope_is_about_that_scope_alone(self):
        """A disabled global agent does not take the workspace's own of the same name along."""
        assert "`b`" in prompt(off(agents=["global:b"]))
        assert "`c`" not in prompt(off(agents=["global:c"]))
        assert "`b`" not in prompt(off(agents=["workspace:b"]))

    @pytest.mark.parametrize("text", ["", "a b", "global:", "elsewhere:a", "../a", "global:../a"])
    def test_other_spellings_are_refused(self, text):
        with pytest.raises(UsageError):
            parse_entry(text)


SOURCE = "workspace:.halo/settings.yaml"
SETTINGS = [
    "",
    "# nothing yet\n",
    "general:\n",
    "general: {}\n",
    "s:\n  params: {k: 'v'}  # why\n",
    "# top\ngeneral:\n  # in between\n  prompt:\n    time_zone: 'local' # tail\ns:\n  params:\n    k: \"on\"\n    l: 012\n",
    "general:\n  disabled:\n    agents:\n      - x # an old one\n      - y\n",
    "general: {disabled: {agents: [x], skills: [b]}}\n",
    "---\ngeneral:\n  disabled: {skills: [b]}\n",
    "s:\r\n  params:\r\n    k: v\r\ngeneral:\r\n  disabled:\r\n    agents: [x]\r\n",
]


def without_empty(value):
    """A copy without empty maps and lists: switching on leaves an empty list behind."""
    if not isinstance(value, dict):
        return value
    found = {key: without_empty(below) for key, below in value.items()}
    return {key: below for key, below in found.items() if below not in (None, [], {})} or None


class TestEditing:
    @pytest.mark.parametrize("text", SETTINGS)
    def test_adds_and_removes_one_entry_and_nothing_else(self, text):
        added = switch(text.encode(), "agents", "b", off=True, source=SOURCE)
        value = load_yaml(added.decode(), SOURCE).value
        assert value["general"]["disabled"]["agents"][-1] == "b"
        for remark in ("# nothing yet", "# why", "# top", "# in between", "# tail", "# an old one"):
            assert (remark in text) == (remark in added.decode())
        assert (b"\r\n" in added) == ("\r\n" in text)
        assert added.count(b"\r") == (added.count(b"\n") if "\r\n" in text else 0)
        again = switch(added, "agents", "b", off=True, source=SOURCE)
        assert again == added
        before = load_yaml(text.replace("\r\n", "\n"), SOURCE).value
        removed = switch(added, "agents", "b", off=False, source=SOURCE).decode().replace("\r\n", "\n")
        assert without_empty(load_yaml(removed, SOURCE).value) == without_empty(before)

    @given(
        st.lists(
            st.tuples(st.sampled_from(["agents", "skills"]), st.sampled_from("abc"), st.booleans()),
            max_size=8,
        )
    )
    def test_any_order_of_switches_ends_where_a_set_would(self, steps):
        data, expected = SETTINGS[5].encode(), {"agents": set(), "skills": set()}
        for kind, entry, off_ in steps:
            data = switch(data, kind, entry, off=off_, source=SOURCE)
            (expected[kind].add if off_ else expected[kind].discard)(entry)
        disabled = load_yaml(data.decode(), SOURCE).value["general"].get("disabled") or {}
        assert {kind: set(disabled.get(kind) or ()) for kind in expected} == expected
        assert b'k: "on"\n    l: 012\n' in data

    @pytest.mark.parametrize("text", ["a: [", "- a\n", "general: [x]\n"])
    def test_a_broken_file_is_left_alone(self, text):
        with pytest.raises(LayerError):
            switch(text.encode(), "agents", "b", off=True, source=SOURCE)
