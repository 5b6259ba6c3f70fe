"""What `halo settings` shows: values as they are written, secrets masked, and whose each one is."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from making import agent, skill, tree

from halo.errors import LayerError
from halo.workspace.settings.files import WORKSPACE_SETTINGS, read_settings
from halo.workspace.settings.general import read_general
from halo.workspace.settings.values import list_values

SETTINGS = ".halo/settings.yaml"
GLOBAL = "secrets:settings.yaml"
FILES = {
    ".halo/agents/a/agent.yaml": agent(),
    ".halo/skills/s/SKILL.md": skill("x"),
    ".halo/skills/s/config.yaml": (
        "params:\n"
        "  - {key: region, default: north}\n"
        "  - {key: token, secret: true}\n"
        "  - {key: port, type: int, default: 8080}\n"
        "secrets: [{key: signing}]\n"
    ),
}


def values(**files):
    return {v.name: v for v in list_values(tree({**FILES, **files})) if not v.hidden}


def test_a_value_is_shown_as_it_is_written_with_its_place():
    found = values(**{SETTINGS: "s:\n  params:\n    region: <<REGION>> east\n    port: 80\n"})
    assert found["s.params.region"] == (
        "s.params.region",
        "<<REGION>> east",
        f"workspace:{SETTINGS}",
        3,
        "declared",
        False,
        False,
        False,
    )
    assert found["s.params.port"].shown == "80"


def test_declared_parameters_without_a_value_are_listed_with_their_default():
    found = values()
    assert found["s.params.port"].shown == "8080"
    assert found["s.params.port"].default
    assert (found["s.params.port"].source, found["s.params.port"].line) == (
        "workspace:.halo/skills/s/config.yaml",
        4,
    )
    assert found["s.params.token"].shown == ""


def test_secrets_are_masked_and_references_are_not():
    found = values(
        **{
            GLOBAL: "s: {params: {token: hunter2-hunter2}, secrets: {signing: short}}\nopenai: {secrets: {api_key: <<KEY>>}}\n"
        }
    )
    assert found["s.params.token"].shown == "hu****r2"
    assert found["s.secrets.signing"].shown == "****"
    assert found["openai.secrets.api_key"][1:5:3] == ("<<KEY>>", "halo")


def test_what_nobody_claims_is_listed_kept_and_masked():
    """The skill that would say what is secret is not there any more."""
    found = values(**{SETTINGS: "gone: {params: {key: abcdefghijklmnop}}\ns: {params: {extra: plain}}\n"})
    assert (found["gone.params.key"].claim, found["gone.params.key"].shown) == ("unclaimed", "ab****op")
    assert (found["s.params.extra"].claim, found["s.params.extra"].shown) == ("undeclared", "plain")


def test_the_workspace_hides_the_machines_value():
    both = {SETTINGS: "s: {params: {region: here}}", GLOBAL: "s: {params: {region: there}}"}
    found = [v for v in list_values(tree(FILES | both)) if v.name == "s.params.region"]
    assert [(v.shown, v.hidden) for v in found] == [("here", False), ("there", True)]


@given(
    st.text(st.characters(exclude_categories=("C", "Z")), min_size=4, max_size=40),
    st.sampled_from(
        ["s.params.token", "s.secrets.signing", "openai.secrets.api_key", "gone.params.x", "gone.secrets.y"]
    ),
)
def test_no_secret_is_ever_shown_whole(secret, name):
    owner, part, key = name.split(".")
    text = json.dumps({owner: {part: {key: f"x{secret}y"}}}, ensure_ascii=False)
    found = values(**{GLOBAL: text})[name]
    assert f"x{secret}y" not in found.shown


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("general:\n  tools: {access: all}\n", 2, "general.tools.access: "),
        ("general:\n  tools:\n    network: perhaps\n", 3, "general.tools.network: "),
        ("general:\n  prompt: {time_zon: UTC}\n", 2, "unknown key 'time_zon' in general.prompt"),
        ("general:\n  tols: {}\n", 2, "unknown key 'tols' in general"),
        ("general:\n  tools: {policy: [{tool: grep}]}\n", 2, "general.tools.policy.0: "),
    ],
)
def test_an_error_names_a_setting_as_it_stands_in_the_file(text, line, said):
    with pytest.raises(LayerError) as raised:
        read_general(tree({SETTINGS: text}))
    assert said in raised.value.message
    assert raised.value.line == line


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("openai: {api_key: sk-1}", "did you mean openai.secrets.api_key?"),
        ("anthropic:\n  api_key: <<KEY>>", "did you mean anthropic.secrets.api_key?"),
        ("s: {region: north}", "s.params.region or s.secrets.region"),
        ("openai: {region: north}", "openai.params.region or openai.secrets.region"),
    ],
)
def test_a_value_directly_below_an_id_is_told_where_it_belongs(text, hint):
    with pytest.raises(LayerError, match="unknown") as raised:
        read_settings(tree({SETTINGS: text}), WORKSPACE_SETTINGS)
    assert hint in raised.value.hint
    assert "only params and secrets stand below an id" in raised.value.hint
    assert "sk-1" not in str(raised.value)
