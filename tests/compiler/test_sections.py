"""The builtin segments that settings switch on, the time zone and the runtime line (docs/reference/layers.md)."""

import re
from itertools import permutations

import pytest
from making import agent, compiled, prompt, skill

from halo.errors import LayerError

ORDER = ["safety", "documentation", "sandbox", "reasoning", "reply-tags", "heartbeats"]
ALL = [*(name.replace("-", "_") for name in ORDER), "runtime"]

FILES = {
    ".halo/agents/a/agent.yaml": agent(tools=["grep"], skills=["s"]),
    ".halo/agents/a/AGENT.md": "BODY",
    ".halo/agents/i/agent.yaml": agent(internal=True, tools=["grep"]),
    ".halo/agents/i/AGENT.md": "I-BODY",
    ".halo/USER.md": "USER",
    ".halo/prompts/all/a.md": "ALL",
    ".halo/skills/s/SKILL.md": skill("STEPS", name="Sums", description="adds"),
}


def having(*sections, **settings):
    """The same workspace with these sections, and other settings of `general.prompt`."""
    lines = [f"    sections: [{', '.join(sections)}]", *(f"    {k}: {v}" for k, v in settings.items())]
    return {**FILES, ".halo/settings.yaml": "\n".join(["general:", "  prompt:", *lines, ""])}


def segments(files, **options):
    return [s.id for s in compiled(files, **options).manifest.segments]


def text_of(files, name, **options):
    made = compiled(files, **options)
    (segment,) = (s for s in made.manifest.segments if s.id == name)
    return made.prompt.encode()[segment.start : segment.end].decode().strip("\n")


def test_nothing_is_there_unless_asked_for():
    assert segments(FILES) == ["user", "agent", "prompts/all/a.md", "skills", "tools", "environment"]
    assert prompt(having()) == prompt(FILES)


def test_they_stand_between_the_prompts_and_the_skills():
    assert segments(having(*ALL), access="readonly") == [
        *("user", "agent", "prompts/all/a.md"),
        *ORDER,
        *("skills", "tools", "environment"),
    ]


def test_the_order_is_fixed_whatever_the_settings_say():
    texts = {
        prompt(having(*order)) for order in permutations(["safety", "heartbeats", "reasoning", "safety"])
    }
    assert len(texts) == 1


@pytest.mark.parametrize("name", ORDER)
def test_each_comes_from_the_rules_of_composition(name):
    """Scope `halo`, every byte derived from `halo:compiler`, static, headed by its name."""
    made = compiled(having(name.replace("-", "_")), access="workspace")
    (segment,) = (s for s in made.manifest.segments if s.id == name)
    assert (segment.kind, segment.scope, segment.source) == (name, "halo", "halo:compiler")
    assert {(span.source, span.verbatim) for span in segment.spans} == {("halo:compiler", False)}
    assert segment.stability == "static"
    assert text_of(having(name.replace("-", "_")), name, access="workspace").startswith(
        f"## {name.capitalize().replace('-', ' ')}\n\n"
    )


def test_an_unknown_one_is_an_error_with_its_line():
    with pytest.raises(LayerError) as caught:
        compiled(having("safty"))
    assert (caught.value.file, caught.value.line) == ("workspace:.halo/settings.yaml", 3)


def test_an_internal_agent_gets_none():
    from halo.records.targets import AgentTarget

    everything = having(*ALL, time_zone="Europe/Oslo")
    assert prompt(everything, AgentTarget("i")) == prompt(FILES, AgentTarget("i"))


class TestSafety:
    def test_it_advises_against_power_for_oversight_and_for_stopping(self):
        text = text_of(having("safety"), "safety")
        for wanted in ("influence", "oversight", "told to stop", "Never work around a limit"):
            assert wanted in text
        assert len(text) < 700


class TestDocumentation:
    def test_it_names_the_commands_and_who_runs_them(self):
        text = text_of(having("documentation"), "documentation")
        assert "`halo --help`" in text
        assert "`halo doctor`" in text
        assert "yourself" in text
        assert "ask the user to run them only where you lack the access" in " ".join(text.split())
        assert "activate_skill" not in text

    def test_the_builtin_skill_is_named_to_an_agent_that_lists_it(self):
        listing = {
            **having("documentation"),
            ".halo/agents/a/agent.yaml": agent(skills=["halo"]),
            "builtin:skills/halo/SKILL.md": skill("ABOUT", description="about"),
        }
        assert "- the skill `halo`: load it with `activate_skill`\n" in text_of(listing, "documentation")
        assert "activate_skill" not in prompt(listing, mode="minimal")  # there it cannot be loaded


class TestSandbox:
    def test_there_is_nothing_to_say_of_full_access(self):
        assert prompt(having("sandbox")) == prompt(FILES)

    def test_workspace_access_reads_and_changes_the_workspace_alone(self):
        text = text_of(having("sandbox"), "sandbox", access="workspace")
        assert "access level is `workspace`" in text
        assert "read and change files of the workspace" in text

    def test_readonly_access_changes_nothing(self):
        text = " ".join(text_of(having("sandbox"), "sandbox", access="readonly").split())
        assert "access level is `readonly`" in text
        assert "You can change nothing" in text
        assert "run no commands" in text


class TestProtocols:
    def test_reply_tags_explain_both_forms(self):
        text = text_of(having("reply_tags"), "reply-tags")
        assert "`[[reply_to_current]]`" in text
        assert "`[[reply_to:<id>]]`" in text

    def test_a_heartbeat_that_needs_nothing_is_answered_by_one_word(self):
        text = text_of(having("heartbeats"), "heartbeats")
        assert "exactly `HEARTBEAT_OK` and nothing else" in text

    def test_reasoning_says_where_thinking_goes(self):
        assert "thinking is kept apart from your answer" in text_of(having("reasoning"), "reasoning")


class TestTimeZone:
    def test_a_name_of_the_workspace_is_text_that_leads_to_its_line(self):
        made = compiled(having(time_zone="America/Argentina/Buenos_Aires"))
        assert made.prompt.endswith("\nTime zone: America/Argentina/Buenos_Aires\n")
        assert ("workspace:.halo/settings.yaml", 4) in {
            (span.source, span.line) for span in made.manifest.segments[-1].spans
        }
        assert [slot.name for slot in made.manifest.slots] == ["workspace_root"]

    @pytest.mark.parametrize(
        "settings",
        [
            {".halo/settings.yaml": "general: {prompt: {time_zone: local}}\n"},
            {"secrets:settings.yaml": "general: {prompt: {time_zone: local}}\n"},
            {"secrets:settings.yaml": "general: {prompt: {time_zone: Europe/Oslo}}\n"},
        ],
    )
    def test_what_belongs_to_the_machine_is_a_slot(self, settings):
        """A zone that the user's own settings name is no more a part of the artifact than that of the clock."""
        made = compiled({**FILES, **settings})
        assert made.prompt.endswith(
            "The project workspace is at: {{workspace_root}}\nTime zone: {{time_zone}}\n"
        )
        assert [(slot.name, slot.origin) for slot in made.manifest.slots] == [
            ("workspace_root", "builtin"),
            ("time_zone", "builtin"),
        ]
        assert "Oslo" not in made.prompt

    def test_the_workspace_decides(self):
        machine = {"secrets:settings.yaml": "general: {prompt: {time_zone: Asia/Tokyo}}\n"}
        assert "Time zone: Europe/Oslo\n" in prompt({**having(time_zone="Europe/Oslo"), **machine})

    @pytest.mark.parametrize("zone", ["12:30", "Europe/", "/etc/passwd", "../x", "Europe Oslo", "a" * 200])
    def test_what_cannot_be_a_zone_is_an_error_with_its_line(self, zone):
        with pytest.raises(LayerError) as caught:
            compiled(having(time_zone=f'"{zone}"'))
        assert (caught.value.file, caught.value.line) == ("workspace:.halo/settings.yaml", 4)
        assert "Europe/Oslo" in caught.value.hint

    def test_no_clock_is_asked(self, monkeypatch):
        import time

        for name in ("time", "time_ns", "localtime", "gmtime"):
            monkeypatch.setattr(time, name, None)
        assert "Time zone" in prompt(having(*ALL, time_zone="local"))


class TestRuntime:
    def test_agent_and_model_are_text_and_the_machine_is_a_slot(self):
        made = compiled(having("runtime"))
        assert made.prompt.endswith("\nRuntime: agent a, model openai/m, {{runtime}}\n")
        assert [slot.name for slot in made.manifest.slots] == ["workspace_root", "runtime"]
        sources = {span.source for span in made.manifest.segments[-1].spans}
        assert sources == {"halo:compiler", "workspace:.halo/agents/a/agent.yaml"}

    def test_the_folder_of_a_model_file_is_not_told(self):
        local = {
            **having("runtime"),
            ".halo/agents/a/agent.yaml": agent(
                model={"provider": "local", "id": "/home/mira/models/x.gguf"}, tools=[]
            ),
        }
        made = prompt(local)
        assert "model local/x.gguf, " in made
        assert "mira" not in made

    def test_it_stays_behind_all_that_is_stable(self):
        """Zone and runtime cost no byte of the cached prefix."""
        plain, more = compiled(FILES), compiled(having("runtime", time_zone="local"))
        assert plain.manifest.static_prefix == more.manifest.static_prefix


def test_no_section_holds_a_placeholder_or_a_blank_edge():
    text = prompt(having(*ALL), access="workspace")
    assert re.findall(r"\{\{.*?\}\}", text) == ["{{workspace_root}}", "{{runtime}}"]
    assert "\n\n\n" not in text
