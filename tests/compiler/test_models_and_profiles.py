"""Which model an artifact is bound to: the catalogue's figures, aliases, profiles."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from making import agent, compiled, prompt, tree

from halo.compiler.compile import compile_target
from halo.errors import LayerError, UnknownNameError
from halo.files.tree import RecordingTree
from halo.records.artifacts import Capabilities
from halo.records.targets import AgentTarget
from halo.workspace.settings.files import GLOBAL_SETTINGS, WORKSPACE_SETTINGS
from halo.workspace.settings.general import read_general, read_general_of

SETTINGS = ".halo/settings.yaml"
AGENT = ".halo/agents/a/agent.yaml"
BIG = {"provider": "openai", "id": "big"}
TINY = {"provider": "local", "id": "tiny", "tool_mode": "schema", "seed": 7}
CATALOGUES = {
    "builtin:models/openai.yaml": (
        "name: O\nmodels:\n"
        "  big:\n    as_of: 2026-01-01\n    window: 100000\n    max_output: 64000\n    min_cacheable: 1024\n"
        "    capabilities: {images: true}\n    api: responses\n"
        "  short: {as_of: 2026-01-01, max_output: 100}\n"
    ),
    "builtin:models/local.yaml": (
        "name: L\nmodels:\n  tiny: {as_of: 2026-01-01, window: 2048, capabilities: {images: false}}\n"
    ),
}


def models(**block):
    """A settings.yaml with this `general.models`."""
    return json.dumps({"general": {"models": block}})


def runtime(files, name="a", **options):
    return compiled({**CATALOGUES, **files}, AgentTarget(name, **options)).manifest.runtime


def bound(files, name="a", **options):
    """provider/id of the model that an agent is bound to."""
    binding = runtime(files, name, **options).binding
    return f"{binding.provider}/{binding.model}"


def failure(files, kind=LayerError, **options):
    with pytest.raises(kind) as caught:
        compiled({**CATALOGUES, **files}, **options)
    return caught.value


class TestFiguresOfTheCatalogue:
    def test_they_stand_in_the_artifact(self):
        found = runtime({AGENT: agent(model=BIG)})
        assert found.context_tokens == 100_000
        assert found.min_cacheable_tokens == 1024
        assert found.capabilities == Capabilities(images=True)

    def test_a_model_that_no_catalogue_has_is_compiled_as_before(self):
        for provider, window in (("openai", 200_000), ("anthropic", 200_000), ("local", 8192)):
            found = compiled({**CATALOGUES, AGENT: agent(model={"provider": provider, "id": "new"})}).manifest
            assert found.runtime.context_tokens == window
            assert found.runtime.binding.max_tokens == 4096
            assert (found.runtime.capabilities, found.runtime.min_cacheable_tokens) == (Capabilities(), None)
            assert [d.code for d in found.diagnostics if "model" in d.message] == []

    @pytest.mark.parametrize(
        ("model", "api"),
        [
            (BIG, "responses"),
            ({**BIG, "api": "chat"}, "chat"),
            ({**BIG, "endpoint": "http://127.0.0.1:1/v1"}, "chat"),  # of another server nothing is known
            ({**BIG, "id": "short"}, "chat"),
            ({**BIG, "id": "new"}, "chat"),
            ({**BIG, "id": "new", "api": "responses"}, "responses"),
        ],
    )
    def test_the_protocol_that_a_model_wants(self, model, api):
        assert runtime({AGENT: agent(model=model)}).binding.api == api

    def test_agent_yaml_has_the_last_word(self):
        found = runtime({AGENT: agent(model={**BIG, "max_tokens": 90_000}, context={"max_tokens": 300_000})})
        assert (found.context_tokens, found.binding.max_tokens) == (300_000, 90_000)

    @pytest.mark.parametrize(("model", "reply"), [("big", 4096), ("short", 100)])
    def test_a_reply_is_bounded_by_4096_tokens_or_the_models_own_limit(self, model, reply):
        assert runtime({AGENT: agent(model={**BIG, "id": model})}).binding.max_tokens == reply

    def test_a_broken_catalogue_is_an_error_at_its_line(self):
        error = failure({AGENT: agent(model=BIG), ".halo/models/openai.yaml": "name: O\nmodels:\n  x: {}\n"})
        assert (error.file, error.line) == ("workspace:.halo/models/openai.yaml", 3)

    def test_of_another_provider_it_does_no_harm(self):
        files = {AGENT: agent(model=BIG), ".halo/models/anthropic.yaml": "nonsense: ["}
        assert bound(files) == "openai/big"

    def test_prices_and_other_models_are_no_input(self):
        """An edit there leaves the agent fresh."""
        files = {AGENT: agent(model=BIG), **CATALOGUES}
        edited = files["builtin:models/openai.yaml"].replace("100}", "200}")
        edited += "  # prices\n  n:\n    as_of: 2026-01-01\n    prices:\n"
        edited += "      - {from: 2026-01-01, currency: USD, input: 1, output: 2}\n"
        assert self.inputs(files) == self.inputs({**files, "builtin:models/openai.yaml": edited})
        smaller = files["builtin:models/openai.yaml"].replace("100000", "90000")
        assert self.inputs(files) != self.inputs({**files, "builtin:models/openai.yaml": smaller})

    def inputs(self, files):
        recording = RecordingTree(tree(files), lambda: 0)
        compile_target(recording, AgentTarget("a"))
        return [(i.path, i.part, i.digest) for i in recording.inputs()]


SEEING = {AGENT: "name: A\nmodel: {provider: local, id: tiny}\ntools:\n  - grep\n  - view_image\n"}


class TestModelsWithoutEyes:
    def test_view_image_is_left_out_and_said_so(self):
        found = compiled({**CATALOGUES, **SEEING})
        assert [spec.name for spec in found.manifest.tools] == ["grep", "session_status"]
        assert "available tools: grep, session_status." in found.prompt
        remark = next(d for d in found.manifest.diagnostics if d.code == "tool-without-images")
        assert (remark.severity, remark.source, remark.line) == ("info", f"workspace:{AGENT}", 5)
        assert "view_image" in remark.message
        assert "tiny" in remark.message

    @pytest.mark.parametrize("model", ["{provider: openai, id: big}", "{provider: openai, id: new}"])
    def test_not_where_it_sees_or_nobody_knows(self, model):
        text = SEEING[AGENT].replace("{provider: local, id: tiny}", model)
        found = compiled({**CATALOGUES, AGENT: text})
        assert [spec.name for spec in found.manifest.tools] == ["view_image", "grep", "session_status"]
        assert not [d for d in found.manifest.diagnostics if d.code == "tool-without-images"]

    def test_alone_it_leaves_the_status_tool(self):
        found = compiled({**CATALOGUES, AGENT: "model: {provider: local, id: tiny}\ntools: [view_image]\n"})
        assert "available tools: session_status." in found.prompt


ALIASED = {AGENT: "name: A\nmodel: fast\n", SETTINGS: models(aliases={"fast": BIG, "slow": TINY})}


class TestAliases:
    def test_an_alias_is_the_model_that_it_stands_for(self):
        own = runtime({AGENT: agent(name="A", model=BIG)})
        assert runtime(ALIASED) == own

    def test_the_prompt_does_not_tell_them_apart(self):
        plain = compiled({**CATALOGUES, AGENT: agent(name="A", model=BIG)})
        assert compiled({**CATALOGUES, **ALIASED}).manifest.fingerprint == plain.manifest.fingerprint

    def test_the_window_is_agent_yamls_when_it_says_one(self):
        files = {**ALIASED, AGENT: "model: fast\ncontext: {max_tokens: 500000}\n"}
        assert runtime(files).context_tokens == 500_000

    @pytest.mark.parametrize(
        ("name", "hint"),
        [("fsat", "did you mean 'fast'?"), ("", "known: fast, slow"), ("big", "known: fast, slow")],
    )
    def test_an_unknown_alias_is_an_error_at_its_line(self, name, hint):
        error = failure({**ALIASED, AGENT: f"name: A\nmodel: '{name}'\n"})
        assert (error.file, error.line, error.hint) == (f"workspace:{AGENT}", 2, hint)
        assert error.message == f"unknown model alias {name!r}"

    def test_without_any_alias_it_says_where_they_stand(self):
        error = failure({AGENT: "model: fast\n"})
        assert error.hint.endswith("general.models.aliases in settings.yaml has no names")

    def test_an_alias_is_no_alias_of_an_alias(self):
        files = {**ALIASED, SETTINGS: models(aliases={"fast": "slow", "slow": TINY})}
        assert "models.aliases.fast: expected a map" in failure(files).message

    def test_those_of_the_machine_serve_too_and_the_workspaces_win(self):
        machine = {"secrets:settings.yaml": models(aliases={"fast": TINY, "mine": TINY})}
        assert bound({**ALIASED, **machine}) == "openai/big"
        assert bound({**ALIASED, **machine, AGENT: "model: mine\n"}) == "local/tiny"

    def test_a_model_is_one_value(self):
        """The endpoint of the machine's settings never gets the provider and the key of the workspace's."""
        machine = {**TINY, "provider": "anthropic", "endpoint": "https://gateway"}
        files = {**ALIASED, "secrets:settings.yaml": models(aliases={"fast": machine})}
        binding = runtime(files).binding
        assert (binding.provider, binding.model, binding.endpoint, binding.seed) == (
            "openai",
            "big",
            "",
            None,
        )

    def test_other_agents_of_a_team_are_not_resolved(self):
        """A roster needs no models."""
        files = {
            AGENT: agent(model=BIG, team=["b"]),
            ".halo/agents/b/agent.yaml": "model: nowhere\ndescription: helps\n",
        }
        assert "`b` — b: helps" in prompt({**CATALOGUES, **files})
        assert "nowhere" in failure(files, target=AgentTarget("b")).message

    def test_the_format_of_calls_leads_to_where_it_was_chosen(self):
        text = "general:\n  models:\n    aliases:\n      slow:\n        provider: local\n        id: tiny\n"
        text += "        tool_mode: schema\n"
        files = {**CATALOGUES, AGENT: "model: slow\ntools: [grep]\n", SETTINGS: text}
        segment = next(s for s in compiled(files).manifest.segments if s.kind == "call-format")
        assert segment.source == f"workspace:{SETTINGS}"
        assert {(s.source, s.line) for s in segment.spans} == {(f"workspace:{SETTINGS}", 7)}


LINES = """\
general:
  models:
    aliases:
      fast: {provider: openai, id: big}
    profiles:
      ci:
        default: fast
        agents:
          a:
            provider: openai
            id: big
"""


class TestFaultsInSettings:
    """Aliases and profiles are checked as agent.yaml is, in the file in which they stand."""

    @pytest.mark.parametrize("source", [WORKSPACE_SETTINGS, GLOBAL_SETTINGS])
    @pytest.mark.parametrize(
        ("old", "new", "line", "message"),
        [
            ("fast: {provider: openai", "fast: {provider: opnai", 4, "unknown provider 'opnai'"),
            ("            provider: openai", "            provider: opnai", 10, "unknown provider 'opnai'"),
            ("            id: big", "            id: ''", 11, "model needs a provider and an id"),
            ("            id: big", "            id: big\n            endpoint: 'http://a b'", 12, "ASCII"),
            ("            id: big", "            id: big\n            temp: 1", 12, "unknown key 'temp'"),
            ("            id: big", "            name: big", 11, "unknown key 'name'"),
            ("            id: big\n", "", 9, "the key 'id' is missing"),
            ("default: fast", "defualt: fast", 7, "unknown key 'defualt'"),
            ("      ci:", "      CI:", 6, "'CI' is not a name for a profile"),
            ("      ci:", "      a.b:", 6, "'a.b' is not a name for a profile"),
            ("fast: {", "'fast\\n': {", 4, "is not a name for an alias"),
            ("fast: {", '"fast\\n": {', 4, "is not a name for an alias"),
            ("fast: {", "'': {", 4, "'' is not a name for an alias"),
        ],
    )
    def test_the_error_names_file_and_line(self, source, old, new, line, message):
        assert old in LINES
        error = failure({AGENT: agent(), source: LINES.replace(old, new, 1)})
        assert message in error.message
        assert (error.file, error.line) == (source, line)

    def test_without_a_fault_there_is_none(self):
        assert bound({AGENT: agent(), SETTINGS: LINES}, profile="ci") == "openai/big"


PROFILED = {
    AGENT: agent(name="A", model={"provider": "anthropic", "id": "own", "temperature": 1}, tools=["grep"]),
    ".halo/agents/b/agent.yaml": agent(name="B", model={"provider": "anthropic", "id": "own"}),
    ".halo/agents/c/agent.yaml": "name: C\nmodel: slow\n",
    SETTINGS: models(
        aliases={"slow": BIG, "tiny": {"provider": "local", "id": "tiny"}},
        profiles={
            "ci": {"default": "tiny", "agents": {"b": BIG}},
            "some": {"agents": {"b": "slow"}},
            "all": {"default": BIG},
            "none": {},
        },
    ),
}


class TestProfiles:
    @pytest.mark.parametrize(
        ("profile", "a", "b", "c"),
        [
            ("", "anthropic/own", "anthropic/own", "openai/big"),
            ("ci", "local/tiny", "openai/big", "local/tiny"),
            ("some", "anthropic/own", "openai/big", "openai/big"),
            ("all", "openai/big", "openai/big", "openai/big"),
            ("none", "anthropic/own", "anthropic/own", "openai/big"),
        ],
    )
    def test_first_the_entry_of_the_agent_then_the_default_then_its_own(self, profile, a, b, c):
        assert [bound(PROFILED, name, profile=profile) for name in "abc"] == [a, b, c]

    def test_nothing_of_the_own_model_is_left(self):
        assert runtime(PROFILED, profile="ci").binding.temperature is None

    def test_the_layers_are_the_same_and_so_is_the_fingerprint(self):
        plain = compiled({**CATALOGUES, **PROFILED})
        other = compiled({**CATALOGUES, **PROFILED}, profile="ci")
        assert other.prompt == plain.prompt
        assert other.manifest.fingerprint == plain.manifest.fingerprint
        assert other.manifest.static_prefix == plain.manifest.static_prefix
        assert other.manifest.target != plain.manifest.target
        assert other.manifest.target.name == "a/root+profile-ci"

    def test_how_the_model_calls_tools_counts(self):
        """A segment explains the format to a model without a tool protocol: that is another prompt."""
        files = {**PROFILED, SETTINGS: models(profiles={"ci": {"default": TINY}})}
        plain, other = compiled({**CATALOGUES, **files}), compiled({**CATALOGUES, **files}, profile="ci")
        assert other.manifest.runtime.tool_mode == "schema"
        assert "## How to answer" in other.prompt
        assert "## How to answer" not in plain.prompt
        assert other.manifest.fingerprint != plain.manifest.fingerprint
        assert [s.name for s in other.manifest.tools] == [s.name for s in plain.manifest.tools]

    @pytest.mark.parametrize(
        ("context", "plain", "profiled"),
        [({}, 200_000, 2048), ({"max_tokens": 50_000}, 50_000, 2048), ({"max_tokens": 1000}, 1000, 1000)],
    )
    def test_a_window_in_agent_yaml_is_meant_for_its_own_model(self, context, plain, profiled):
        """Another model has at most its own: what does not fit is shortened, not refused by the provider."""
        files = {**PROFILED, AGENT: agent(model={"provider": "anthropic", "id": "own"}, context=context)}
        assert runtime(files).context_tokens == plain
        assert runtime(files, profile="ci").context_tokens == profiled

    @pytest.mark.parametrize("mode", ["full", "minimal", "none"])
    def test_it_holds_in_every_mode(self, mode):
        assert bound(PROFILED, profile="ci", mode=mode) == "local/tiny"

    def test_an_unknown_profile_is_the_users_mistake(self):
        error = failure(PROFILED, UnknownNameError, profile="al")
        assert error.message == "unknown profile 'al'"
        assert "'all'" in error.hint
        assert failure({AGENT: agent()}, UnknownNameError, profile="ci").hint == "there are none"

    def test_an_unknown_alias_in_a_profile_is_an_error_at_its_line(self):
        text = "general:\n  models:\n    profiles:\n      ci:\n        agents:\n          a: tin\n"
        for source in (WORKSPACE_SETTINGS, GLOBAL_SETTINGS):
            files = {AGENT: agent(), source: text}
            assert bound(files) == "openai/m"
            error = failure(files, profile="ci")
            assert (error.file, error.line) == (source, 6)

    def test_the_workspaces_profile_hides_the_machines_whole(self):
        files = {
            **PROFILED,
            "secrets:settings.yaml": models(profiles={"some": {"default": "tiny"}, "m": {}}),
        }
        assert bound(files, profile="some") == "anthropic/own"
        assert sorted(read_general(tree(files)).models.profiles) == ["all", "ci", "m", "none", "some"]

    def test_settings_of_one_file_can_be_told_apart(self):
        files = {**PROFILED, "secrets:settings.yaml": models(profiles={"m": {}})}
        assert list(read_general_of(tree(files), GLOBAL_SETTINGS).models.profiles) == ["m"]
        assert "m" not in read_general_of(tree(files), WORKSPACE_SETTINGS).models.profiles


_MODELS = st.fixed_dictionaries(
    {
        "provider": st.sampled_from(["local", "openai", "anthropic"]),
        "id": st.sampled_from(["big", "tiny", "x"]),
    }
)
_NAMES = st.from_regex(r"[a-z0-9_-]{1,6}", fullmatch=True)
_ALIASES = st.dictionaries(_NAMES, _MODELS, min_size=1, max_size=3)


@given(data=st.data(), below=_ALIASES, above=_ALIASES, own=_MODELS)
def test_whatever_the_settings_say_the_text_stays_and_one_model_answers(data, below, above, own):
    """Over generated settings: precedence, whole-model override, equal fingerprints."""
    aliases = {**below, **above}
    choice = st.one_of(st.sampled_from(sorted(aliases)), _MODELS)
    profile = data.draw(
        st.fixed_dictionaries(
            {}, optional={"default": choice, "agents": st.dictionaries(st.just("a"), choice)}
        )
    )
    files = {
        **CATALOGUES,
        AGENT: agent(model=own, tools=["grep"]),
        ".halo/agents/a/AGENT.md": "Do.",
        SETTINGS: models(aliases=above, profiles={"p": profile}),
        "secrets:settings.yaml": models(aliases=below),
    }
    expected = profile.get("agents", {}).get("a", profile.get("default", own))
    expected = aliases[expected] if isinstance(expected, str) else expected
    plain, other = compiled(files), compiled(files, profile="p")
    binding = other.manifest.runtime.binding
    assert {"provider": binding.provider, "id": binding.model} == expected
    assert other.prompt == plain.prompt
    assert other.manifest.fingerprint == plain.manifest.fingerprint
    assert msgspec.structs.replace(other.manifest.target, profile="") == plain.manifest.target
