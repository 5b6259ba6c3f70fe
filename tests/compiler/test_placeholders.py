"""The boundary of `{{...}}`: what becomes text, what becomes a slot, what stays as it is written.

The rules stand in docs/reference/placeholders.md.
"""

import json

import pytest
from making import agent, body, compiled, skill

from halo.errors import LayerError
from halo.records.targets import SkillTarget

SETTINGS = ".halo/settings.yaml"
GLOBAL = "secrets:settings.yaml"


def rendered(text, **files):
    """Compile `text` as the AGENT.md of `a`, which has the skill `s`; return its part of the prompt."""
    result = compiled_agent(text, **files)
    segment = next(s for s in result.manifest.segments if s.id == "agent")
    return result.prompt.encode()[segment.start : segment.end].decode()


def compiled_agent(text, **files):
    base = {
        ".halo/agents/a/agent.yaml": agent(name="Ada", skills=["s"]),
        ".halo/skills/s/SKILL.md": skill("x"),
        ".halo/skills/other/SKILL.md": skill("x"),
        ".halo/agents/a/AGENT.md": text,
        **files,
    }
    return compiled(base)


def rendered_skill(text, **files):
    result = compiled_skill(text, **files)
    return result.prompt.removeprefix("# Skill: s\n\n").removesuffix("\n")


def compiled_skill(text, **files):
    return compiled({".halo/skills/s/SKILL.md": skill(text), **files}, SkillTarget("s"))


def slots(result):
    """Name, origin and text of the slots, the environment's own left out."""
    data = result.prompt.encode()
    last = result.manifest.segments[-1]
    return [
        (slot.name, slot.origin, data[slot.start : slot.end].decode())
        for slot in result.manifest.slots
        if not (last.id == "environment" and slot.start >= last.start)
    ]


def warnings(result):
    return [d.message for d in result.manifest.diagnostics if d.code == "placeholder-literal"]


USER = {".halo/USER.md": "---\nuser_name: Bob  B.\nai_name: 'Otter'\n---\n"}


class TestNames:
    def test_names_become_text(self):
        text = rendered("{{agent_name}}, {{ user_name }}, {{ai_name}}", **USER)
        assert text == "Ada, Bob B., Otter"

    def test_a_name_that_nobody_gave_stays(self):
        result = compiled_agent("for {{user_name}}", **{".halo/USER.md": "no front matter"})
        assert "for {{user_name}}" in result.prompt
        assert len(warnings(result)) == 1

    def test_it_is_said_that_user_md_does_not_give_it(self):
        for files in ({}, {".halo/USER.md": "no front matter"}):
            (message,) = warnings(compiled_agent("for {{user_name}}", **files))
            assert message == "{{user_name}}: USER.md gives no user_name; it stays as it is"

    def test_a_parameter_of_nobody_is_told_from_one_that_is_closed(self):
        files = {".halo/skills/ledger/SKILL.md": skill("x"), ".halo/skills/s/SKILL.md": skill("x")}
        closed, nobody = warnings(compiled_agent("{{ledger.params.x}} {{legder.params.x}}", **files))
        assert closed == "{{ledger.params.x}}: the parameters of 'ledger' are not open to this text"
        assert nobody == "{{legder.params.x}}: there is no agent or skill 'legder'; did you mean 'ledger'?"

    def test_a_skill_learns_who_runs_it_from_the_session(self):
        result = compiled_skill("{{agent_name}} {{args}} {{channel.type}} {{user_name}}", **USER)
        assert slots(result) == [
            ("agent_name", "session", "{{agent_name}}"),
            ("args", "session", "{{args}}"),
            ("channel.type", "session", "{{channel.type}}"),
        ]
        assert "{{channel.type}} Bob B." in result.prompt

    def test_dollar_signs_are_text(self):
        """`awk '{print $1}'` survives; the reference blanked it."""
        text = r"awk '{print $1}' \$ $ARGUMENTS"
        assert rendered(text) == text
        assert rendered_skill(text) == text

    @pytest.mark.parametrize("name", ["constructor", "toString", "__class__", "__init__", "self", "args"])
    def test_nothing_else_has_a_name(self, name):
        """Names of the language, or of a skill's session, mean nothing in AGENT.md."""
        result = compiled_agent(f"a {{{{{name}}}}} b")
        assert f"a {{{{{name}}}}} b" in result.prompt
        assert len(warnings(result)) == 1
        assert slots(result) == []

    @pytest.mark.parametrize(
        "text", ["{{}}", "{{ }}", "{{a b}}", "{now}", "{{-}}", "{{.now}}", "{{now", "{{n ow}}"]
    )
    def test_what_is_no_placeholder_is_text(self, text):
        assert rendered(text) == text


class TestSlots:
    @pytest.mark.parametrize("name", ["workspace_root", "working_dir", "now"])
    def test_what_differs_by_machine_or_moment_is_a_slot(self, name):
        result = compiled_agent(f"at {{{{ {name} }}}}!")
        assert slots(result) == [(name, "builtin", f"{{{{ {name} }}}}")]

    def test_a_slot_ends_the_static_prefix_there(self):
        result = compiled_agent("Hello {{now}} world", **{".halo/INDEX.md": "INDEX"})
        prefix = result.prompt.encode()[: result.manifest.static_prefix.bytes]
        assert prefix == b"Hello "
        assert [s.id for s in result.manifest.segments if s.stability == "volatile"] == [
            "agent",
            "environment",
        ]

    def test_without_a_slot_the_prefix_ends_at_the_environment(self):
        result = compiled_agent("Hello")
        assert result.prompt.encode()[result.manifest.static_prefix.bytes :] == b"{{workspace_root}}\n"


class TestParameters:
    def test_a_value_of_the_workspace_becomes_text(self):
        settings = {SETTINGS: "s: {params: {k: v}}\na: {params: {k: w}}\n"}
        assert rendered("{{s.params.k}} {{a.params.k}}", **settings) == "v w"

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            ("1", "1"),
            ("1.5", "1.5"),
            ("true", "true"),
            ("'true'", "true"),
            ("''", ""),
            ("2024-01-01", "2024-01-01"),
        ],
    )
    def test_scalars_are_written_as_in_yaml(self, value, text):
        assert rendered("<{{s.params.k}}>", **{SETTINGS: f"s: {{params: {{k: {value}}}}}"}) == f"<{text}>"

    @pytest.mark.parametrize("value", ["[a, b]", "{x: y}", "null", "[]"])
    def test_lists_maps_and_null_cannot_stand_in_text(self, value):
        result = compiled_agent("{{s.params.k}}", **{SETTINGS: f"s: {{params: {{k: {value}}}}}"})
        assert "{{s.params.k}}" in result.prompt
        assert len(warnings(result)) == 1

    def test_a_dotted_key_walks_into_maps(self):
        assert rendered("{{s.params.k.x-y}}", **{SETTINGS: "s: {params: {k: {x-y: deep}}}"}) == "deep"

    def test_a_value_of_the_global_settings_is_a_slot(self):
        """It belongs to the machine, so it may not stand in an artifact."""
        result = compiled_agent("{{s.params.k}}", **{GLOBAL: "s: {params: {k: MACHINE}}"})
        assert slots(result) == [("s.params.k", "settings", "{{s.params.k}}")]
        assert "MACHINE" not in result.prompt

    def test_the_workspace_wins_over_the_global_settings(self):
        files = {SETTINGS: "s: {params: {k: ws}}", GLOBAL: "s: {params: {k: MACHINE}}"}
        assert rendered("{{s.params.k}}", **files) == "ws"

    def test_a_declared_default_serves_where_there_is_no_value(self):
        config = {
            ".halo/skills/s/config.yaml": "params:\n- {key: k, default: 7}\n- {key: b, type: boolean, default: false}"
        }
        assert rendered("{{s.params.k}} {{s.params.b}}", **config) == "7 false"
        assert rendered("{{s.params.k}}", **config, **{SETTINGS: "s: {params: {k: 8}}"}) == "8"

    def test_without_value_and_default_it_stays(self):
        config = {".halo/skills/s/config.yaml": "params: [{key: k}]"}
        result = compiled_agent("{{s.params.k}}", **config)
        assert "{{s.params.k}}" in result.prompt
        assert len(warnings(result)) == 1

    def test_the_short_form_is_the_skills_own(self):
        settings = {SETTINGS: "s: {params: {k: v}}"}
        assert rendered_skill("{{params.k}} {{ params.k }} {{s.params.k}}", **settings) == "v v v"

    def test_the_short_form_means_nothing_in_an_agent_file(self):
        assert rendered("{{params.k}}", **{SETTINGS: "a: {params: {k: v}}"}) == "{{params.k}}"

    @pytest.mark.parametrize(
        "value", ["{{now}}", "{{s.params.other}}", "{{a.secrets.key}}", "{{agent_name}}", "$1 {{k}}"]
    )
    def test_what_was_filled_in_is_not_scanned_again(self, value):
        files = {SETTINGS: f"s: {{params: {{k: {json.dumps(value)}, other: x}}}}"}
        result = compiled_agent("<{{s.params.k}}>", **files)
        assert f"<{value}>" in result.prompt
        assert slots(result) == []

    def test_parts_do_not_join_to_a_placeholder(self):
        """Neither do two values side by side."""
        files = {SETTINGS: "s: {params: {x: '{{no', y: 'w}}'}}"}
        result = compiled_agent("{{s.params.x}}{{s.params.y}}", **files)
        assert "{{now}}" in result.prompt
        assert slots(result) == []


class TestBoundary:
    """What never enters a prompt."""

    @pytest.mark.parametrize("where", [SETTINGS, GLOBAL])
    @pytest.mark.parametrize(
        ("name", "settings"),
        [
            ("s.secrets.k", "s: {secrets: {k: LEAK}}"),
            ("a.secrets.k", "a: {secrets: {k: LEAK}}"),
            ("general.prompt.persona", "general: {prompt: {persona: LEAK}}"),
            ("general.models.aliases.k.id", "general: {models: {aliases: {k: {provider: local, id: LEAK}}}}"),
            ("s.k", "s: {params: {k: LEAK}}"),
            ("other.params.k", "other: {params: {k: LEAK}}"),
            ("openai.params.k", "openai: {params: {k: LEAK}}"),
            ("s.params", "s: {params: {k: LEAK}}"),
            ("s.params.k.l", "s: {params: {k: LEAK}}"),
        ],
    )
    def test_secrets_general_and_foreign_namespaces_never_resolve(self, where, name, settings):
        for render in (compiled_agent, compiled_skill):
            if render is compiled_skill and name == "other.params.k":
                continue
            result = render(f"{{{{{name}}}}}", **{where: settings})
            assert f"{{{{{name}}}}}" in result.prompt
            assert slots(result) == []
            assert warnings(result)

    def test_a_skill_uses_its_own_parameters_only(self):
        settings = {SETTINGS: "a: {params: {k: LEAK}}\nother: {params: {k: LEAK}}"}
        assert "LEAK" not in rendered_skill("{{a.params.k}} {{other.params.k}}", **settings)

    @pytest.mark.parametrize("where", [SETTINGS, GLOBAL])
    @pytest.mark.parametrize("value", ["LEAK", '"<<NAME>>"', '"x <<NAME>>"'])
    def test_a_parameter_declared_secret_keeps_its_placeholder(self, where, value):
        """A tool substitutes it when it runs; no slot, and no remark either, for that is how it is meant.

        The short form is spelt out, so that the tool knows whose parameter it is.
        """
        files = {
            ".halo/skills/s/config.yaml": "params: [{key: k, secret: true, default: LEAK}]",
            where: f"s: {{params: {{k: {value}}}}}",
        }
        for result, text in (
            (compiled_agent("{{s.params.k}}", **files), "{{s.params.k}}"),
            (compiled_skill("{{params.k}}", **files), "{{s.params.k}}"),
        ):
            assert text in result.prompt
            assert slots(result) == []
            assert not warnings(result)

    def test_a_secret_default_stays_out_too(self):
        config = {".halo/skills/s/config.yaml": "params: [{key: k, secret: true, default: LEAK}]"}
        assert rendered("{{s.params.k}}", **config) == "{{s.params.k}}"

    def test_what_lies_inside_a_secret_is_secret(self):
        """A dotted key does not reach around the declaration of the map that holds it."""
        files = {
            ".halo/skills/s/config.yaml": "params: [{key: db, secret: true}]",
            SETTINGS: "s: {params: {db: {password: LEAK}}}",
        }
        assert rendered("{{s.params.db.password}}", **files) == "{{s.params.db.password}}"

    def test_a_value_that_names_the_environment_counts_as_secret(self):
        result = compiled_agent("{{s.params.k}}", **{SETTINGS: 's: {params: {k: "a <<NAME>> b"}}'})
        assert "{{s.params.k}}" in result.prompt
        assert slots(result) == []

    def test_unless_it_is_declared_not_secret(self):
        """Then it is a slot that keeps the unexpanded value."""
        files = {
            ".halo/skills/s/config.yaml": "params: [{key: k, secret: false}]",
            SETTINGS: 's: {params: {k: "a <<NAME>> b"}}',
        }
        result = compiled_agent("{{s.params.k}}", **files)
        assert slots(result) == [("s.params.k", "environment", "{{s.params.k}}")]
        assert result.manifest.slots[0].template == "a <<NAME>> b"

    def test_a_declaration_without_secret_decides_nothing(self):
        files = {
            ".halo/skills/s/config.yaml": "params: [{key: k}]",
            SETTINGS: 's: {params: {k: "<<NAME>>"}}',
        }
        assert rendered("{{s.params.k}}", **files) == "{{s.params.k}}"

    def test_the_global_settings_may_name_the_environment_only_if_not_secret(self):
        """A slot whose value is looked up in memory; without the declaration no slot at all."""
        files = {GLOBAL: 's: {params: {k: "<<NAME>>"}}'}
        assert slots(compiled_agent("{{s.params.k}}", **files)) == []
        files[".halo/skills/s/config.yaml"] = "params: [{key: k, secret: false}]"
        assert slots(compiled_agent("{{s.params.k}}", **files)) == []  # not for the workspace to open
        files["global:skills/s/config.yaml"] = "params: [{key: k, secret: false}]"
        result = compiled_agent("{{s.params.k}}", **files)
        assert slots(result) == [("s.params.k", "settings", "{{s.params.k}}")]
        assert "NAME" not in json.dumps([s.template for s in result.manifest.slots])

    def test_the_environment_is_never_read_nor_scanned_for(self, monkeypatch):
        """`<<NAME>>` in a layer is text; only settings name variables."""
        monkeypatch.setenv("NAME", "LEAK")
        assert rendered("<<NAME>> {{NAME}}") == "<<NAME>> {{NAME}}"
        files = {
            SETTINGS: 's: {params: {k: "<<NAME>>"}}',
            ".halo/skills/s/config.yaml": "params: [{key: k, secret: false}]",
        }
        result = compiled_agent("{{s.params.k}}", **files)
        assert "LEAK" not in result.prompt + repr(result.manifest)

    @pytest.mark.parametrize(
        ("secret", "other"), [(".halo/skills", "global:skills"), ("global:skills", ".halo/skills")]
    )
    def test_what_any_scope_declares_secret_is_secret(self, secret, other):
        """A folder that comes with a workspace cannot open what the user's own declares secret."""
        files = {
            f"{secret}/s/config.yaml": "params: [{key: k, secret: true}]",
            f"{other}/s/config.yaml": "params: [{key: k, secret: false}]",
            SETTINGS: "s: {params: {k: LEAK}}",
        }
        assert rendered("{{s.params.k}}", **files) == "{{s.params.k}}"

    def test_an_agent_and_a_skill_of_one_name_share_their_secrets(self):
        files = {
            ".halo/skills/a/SKILL.md": "x",
            ".halo/skills/a/config.yaml": "params: [{key: k, secret: true}]",
            ".halo/agents/a/agent.yaml": agent(skills=["a"]),
            ".halo/agents/a/AGENT.md": "{{a.params.k}}",
            SETTINGS: "a: {params: {k: LEAK}}",
        }
        assert "LEAK" not in compiled(files).prompt

    @pytest.mark.parametrize(
        ("declaration", "value"),
        [
            ("type: int", "many"),
            ("type: int", "true"),
            ("type: float", "x"),
            ("type: boolean", "1"),
            ("type: enum, options: [metric, imperial]", "furlong"),
        ],
    )
    def test_a_value_that_does_not_fit_its_declaration_is_an_error(self, declaration, value):
        files = {
            ".halo/skills/s/config.yaml": f"params: [{{key: k, {declaration}}}]",
            SETTINGS: f"\ns:\n  params:\n    k: {value}\n",
        }
        with pytest.raises(LayerError) as caught:
            compiled_agent("{{s.params.k}}", **files)
        assert (caught.value.file, caught.value.line) == (f"workspace:{SETTINGS}", 4)

    def test_one_of_the_machine_is_not_repeated_by_the_error(self):
        """What an error says ends up in a pointer, where no value of the global settings may stand."""
        files = {
            **body("{{a.params.port}}"),
            ".halo/agents/a/config.yaml": "params: [{key: port, type: int}]\n",
            "secrets:settings.yaml": "a: {params: {port: hunter2}}\n",
        }
        with pytest.raises(LayerError) as caught:
            compiled(files)
        assert str(caught.value) == "secrets:settings.yaml:1: a.params.port is not a whole number"


def test_a_literal_placeholder_is_told_with_file_and_line():
    result = compiled(body("one\n\nthree {{nothing}}\n"))
    (found,) = result.manifest.diagnostics[-1:]
    places = [d for d in result.manifest.diagnostics if d.code == "placeholder-literal"]
    assert [(d.source, d.line) for d in places] == [("workspace:.halo/agents/a/AGENT.md", 3)]
    assert found.severity == "warning"


def test_an_entry_of_secrets_is_secret_wherever_its_value_stands():
    """Somebody who put a declared secret below `params` by mistake does not see it in a prompt."""
    files = {
        ".halo/skills/s/config.yaml": "secrets: [{key: token}]",
        SETTINGS: "s: {params: {token: LEAK, token2: fine}}",
    }
    text = compiled_skill("{{params.token}} {{params.token2}}", **files).prompt
    assert "{{s.params.token}} fine" in text
