"""What an access level and a skill's own front matter take away from an agent, and that nothing else changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from making import agent, compiled, prompt

from halo.records.artifacts import SkillCommand
from halo.records.targets import permits
from halo.records.tools import BUILTIN_TOOLS, LISTABLE_TOOLS

LEVELS = ("readonly", "workspace", "full")
CHANGING = {"file_write", "file_edit", "shell_exec", "web_fetch"}


def names(result):
    return [tool.name for tool in result.manifest.tools]


def skill(*front):
    return "\n".join(["---", "description: does it", *front, "---", "", "BODY"])


def layers(**skills):
    """An agent with every tool, a team, and these skills; a keyword is an id, its value front matter."""
    return {
        ".halo/agents/a/agent.yaml": agent(tools=list(LISTABLE_TOOLS), skills=list(skills), team=["a"]),
        ".halo/agents/a/AGENT.md": "BODY",
        **{f".halo/skills/{name}/SKILL.md": skill(*front) for name, front in skills.items()},
    }


def test_what_each_tool_needs():
    """What changes files, runs programs or reaches out is not for reading alone."""
    assert {tool.name for tool in BUILTIN_TOOLS if tool.access != "readonly"} == CHANGING


@pytest.mark.parametrize("access", LEVELS)
def test_readonly_keeps_what_reads(access):
    result = compiled(layers(s=()), access=access)
    every = names(compiled(layers(s=())))
    kept = [name for name in every if access != "readonly" or name not in CHANGING]
    assert names(result) == kept
    assert set(every) >= CHANGING
    assert {"file_read", "view_image", "file_list", "grep", "glob", "draft", "activate_skill"} <= set(kept)
    assert "start_session" in kept
    assert f"Your available tools: {', '.join(kept)}. Only" in result.prompt
    assert result.manifest.runtime.access == access


def test_an_agent_that_only_changes_things_is_left_with_its_status_when_it_may_only_read():
    only = {".halo/agents/a/agent.yaml": agent(tools=sorted(CHANGING))}
    assert "available tools: session_status." in prompt(only, access="readonly")


def test_tools_in_the_schema_of_replies_are_the_same():
    """A model without a tool protocol is told of no other tools."""
    model = {"provider": "local", "id": "m", "tool_mode": "schema"}
    both = {".halo/agents/a/agent.yaml": agent(tools=["grep", "shell_exec"], model=model)}
    assert "- shell_exec" in prompt(both)
    assert "- shell_exec" not in prompt(both, access="readonly")
    assert "- grep" in prompt(both, access="readonly")


@given(st.sampled_from(LEVELS), st.sampled_from(LEVELS))
def test_levels_are_ranked(access, needed):
    assert permits(access, needed) is (LEVELS.index(access) >= LEVELS.index(needed))


@pytest.mark.parametrize("key", ["requires-access", "requiresAccess"])
@pytest.mark.parametrize("access", LEVELS)
def test_a_skill_that_requires_more_is_not_visible(key, access):
    skills = {level: (f"{key}: {level}",) for level in LEVELS} | {"any": ()}
    result = compiled(layers(**skills), access=access)
    visible = [level for level in LEVELS if permits(access, level)] + ["any"]
    assert [s.id for s in result.manifest.skills] == visible
    assert [f"<id>{name}</id>" in result.prompt for name in skills] == [name in visible for name in skills]
    (activate,) = [tool for tool in result.manifest.tools if tool.name == "activate_skill"]
    assert activate.parameters["properties"]["skill_id"]["enum"] == sorted(visible)


@pytest.mark.parametrize("key", ["disable-model-invocation", "disableModelInvocation"])
def test_a_skill_for_users_alone_is_not_visible_to_the_model(key):
    result = compiled(layers(s=(f"{key}: true",), t=()))
    assert [s.id for s in result.manifest.skills] == ["t"]
    assert "<id>s</id>" not in result.prompt


@pytest.mark.parametrize(
    "options",
    [
        {"access": "readonly"},
        {"access": "workspace"},
        {"mode": "minimal"},
        {"role": "sub", "access": "readonly"},
    ],
)
def test_without_a_visible_skill_there_is_no_section_and_no_tool(options):
    result = compiled(layers(s=("requires-access: full",)), **options)
    assert "## Your Skills" not in result.prompt
    assert "activate_skill" not in result.prompt
    assert "activate_skill" not in names(result)


def test_what_is_left_out_is_no_remark():
    """It is how the target is meant."""
    full = compiled(layers(s=("requires-access: full",)))
    assert compiled(layers(s=("requires-access: full",)), access="readonly").manifest.diagnostics == (
        full.manifest.diagnostics
    )


def test_nothing_else_of_the_prompt_changes():
    plain = {**layers(), ".halo/agents/a/agent.yaml": agent(tools=["grep"]), ".halo/INDEX.md": "INDEX"}
    assert prompt(plain, access="readonly") == prompt(plain, access="workspace") == prompt(plain)


class TestCommands:
    """What `/<id>` does is part of the artifact, so that a turn needs no layer for it."""

    def commands(self, access="full", more=(), **skills):
        result = compiled({**layers(**skills), **dict(more)}, access=access)
        return {c.id: c.refused for c in result.manifest.commands}

    def test_every_listed_skill_is_one(self):
        result = compiled({**layers(s=()), "global:skills/t/SKILL.md": skill()})
        assert result.manifest.commands == (SkillCommand("s", "workspace"),)

    def test_one_that_the_model_may_not_invoke_is_for_users(self):
        assert self.commands(s=("disable-model-invocation: true",)) == {"s": ""}

    def test_one_that_is_not_for_users_is_refused(self):
        assert "not for users" in self.commands(s=("user-invocable: false",))["s"]

    def test_one_that_requires_more_is_refused(self):
        found = self.commands(access="workspace", s=("requires-access: full",))
        assert found["s"] == "it requires full access, and this is workspace"

    def test_one_that_is_disabled_is_refused(self):
        settings = {".halo/settings.yaml": "general: {disabled: {skills: [s]}}\n"}
        found = self.commands(more=settings, s=(), t=())
        assert found == {"s": "it is disabled here", "t": ""}
