"""Where slot values and keys come from, and who may have them."""

import pytest
from making import tree

from halo.errors import LayerError, MissingKeyError
from halo.records.artifacts import Slot
from halo.sessions.provider_keys import provider_key
from halo.sessions.values import Moment, slot_values
from halo.workspace.demands import Demands, read_demands
from halo.workspace.trust import Grants, read_grants
from halo.workspace.trust_file import read_trust, render_trust

MOMENT = Moment("/w", "/w/d", "2026-11-30T10:00:00.000Z", "Lead")
AGENT = 'model: {provider: openai, id: m, endpoint: "https://example.org/v1"}\n'


def values(slots, files=None, environ=None, granted=()):
    grants = Grants(Demands(environment=tuple(("s.params.who", name) for name in granted)))
    return slot_values(slots, MOMENT, tree(files or {}), environ or {}, grants)


def test_builtin_slots_come_from_the_moment():
    slots = [Slot(name, "builtin", 0, 1) for name in ("workspace_root", "working_dir", "now")]
    assert values(slots).values == {"workspace_root": "/w", "working_dir": "/w/d", "now": MOMENT.now}


def test_session_slots_are_empty_where_the_session_does_not_know():
    slots = [Slot("agent_name", "session", 0, 1), Slot("channel.chat_id", "session", 0, 1)]
    assert values(slots).values == {"agent_name": "Lead", "channel.chat_id": ""}


def test_a_global_value_is_read_when_the_turn_starts():
    slot = Slot("s.params.region", "settings", 0, 1)
    files = {
        "secrets:settings.yaml": "s: {params: {region: North <<SIDE>>}}\n",
        "global:skills/s/config.yaml": "params: [{key: region, secret: false}]\n",
    }
    assert values([slot], files, {"SIDE": "west"}).values == {"s.params.region": "North west"}
    unset = values([slot], files)
    assert unset.values == {"s.params.region": "North <<SIDE>>"}
    assert "SIDE is not set" in unset.warnings[0]
    assert "no value" in values([slot]).warnings[0]


def test_the_environment_is_closed_to_a_workspace_that_is_not_trusted():
    slot = Slot("s.params.who", "environment", 0, 1, "<<WHO>>")
    assert values([slot], environ={"WHO": "me"}, granted=["WHO"]).values == {"s.params.who": "me"}
    for granted in ([], ["OTHER"]):  # a forged artifact may name what the settings do not
        closed = values([slot], environ={"WHO": "me"}, granted=granted)
        assert closed.values == {}
        assert "halo trust" in closed.warnings[0]


def test_a_key_comes_from_the_workspace_then_global_then_the_environment():
    environ = {"OPENAI_API_KEY": "from-env", "MINE": "from-name"}
    mine = {".halo/settings.yaml": "openai: {secrets: {api_key: <<MINE>>}}\n"}
    shared = {"secrets:settings.yaml": "openai: {secrets: {api_key: global-key}}\n"}
    assert provider_key("openai", tree({**mine, **shared}), environ) == "from-name"
    assert provider_key("openai", tree(shared), environ) == "global-key"
    assert provider_key("openai", tree({}), environ) == "from-env"
    assert provider_key("openai", tree({}), {}) is None
    assert provider_key("local", tree({}), environ) is None


def test_a_key_that_names_an_unset_variable_says_where():
    with pytest.raises(MissingKeyError) as caught:
        provider_key(
            "openai", tree({".halo/settings.yaml": "\nopenai:\n  secrets:\n    api_key: <<MINE>>\n"}), {}
        )
    assert "workspace:.halo/settings.yaml:4" in str(caught.value)
    assert caught.value.exit_code == 3


def test_trust_is_bound_to_what_was_asked_for(tmp_path):
    """Any change of an endpoint or of the named variables asks anew."""
    files = {
        ".halo/agents/a/agent.yaml": AGENT,
        ".halo/settings.yaml": "s: {params: {who: <<WHO>>, hidden: <<OTHER>>}, secrets: {k: <<KEY>>}}\n",
        ".halo/skills/s/config.yaml": "params: [{key: who, secret: false}, {key: hidden, secret: true}]\n",
    }
    demands = read_demands(tree(files))
    assert demands.endpoints == (("a", "openai", "https://example.org/v1"),)
    assert demands.environment == (("s.params.who", "WHO"),)
    workspace, home = str(tmp_path / "ws"), str(tmp_path)
    nothing = Grants()
    assert read_grants(tree(files), workspace, home) == nothing
    (tmp_path / "trust.yaml").write_bytes(render_trust({workspace: demands.digests}))
    grants = read_grants(tree(files), workspace, home)
    assert grants.endpoint(tree(files), "a", "openai", "https://example.org/v1")
    assert not grants.endpoint(tree(files), "a", "openai", "https://forged.example.org/v1")
    assert grants.environment("s.params.who", ("WHO",))
    assert read_grants(tree(files), str(tmp_path / "elsewhere"), home) == nothing
    moved = tree({**files, ".halo/agents/a/agent.yaml": AGENT.replace("org", "net")})
    left = Demands(environment=demands.environment, variables=demands.variables)
    assert read_grants(moved, workspace, home).demands == left
    another = tree({**files, ".halo/agents/b/agent.yaml": AGENT})
    assert read_grants(another, workspace, home).demands.endpoints == ()
    for key, text in (
        (".halo/settings.yaml", "s: {params: {who: <<HOME>>}}\n"),
        (".halo/skills/s/config.yaml", "params: [{key: who, secret: false}, {key: hidden, secret: false}]\n"),
    ):
        named = tree({**files, key: text})
        left = read_grants(named, workspace, home).demands
        assert (left.endpoints, left.environment) == (demands.endpoints, ())


def test_agents_of_the_global_folder_are_the_users_own():
    files = {"global:agents/a/agent.yaml": AGENT}
    assert Grants().endpoint(tree(files), "a", "openai", "https://example.org/v1")
    assert not Grants().endpoint(tree(files), "a", "openai", "https://forged.example.org/v1")
    files[".halo/agents/a/agent.yaml"] = AGENT
    assert not Grants().endpoint(tree(files), "a", "openai", "https://example.org/v1")


def test_a_damaged_trust_file_is_an_error_not_a_guess(tmp_path):
    (tmp_path / "trust.yaml").write_text("format: 2\nworkspaces: {}\n")
    with pytest.raises(LayerError):
        read_trust(str(tmp_path))
    (tmp_path / "trust.yaml").write_text("{")
    with pytest.raises(LayerError):
        read_trust(str(tmp_path))


@pytest.mark.parametrize("ending", ["\n", " ", "\r\n", "\t"])
def test_white_space_around_a_key_is_taken_off(ending):
    assert provider_key("openai", tree({}), {"OPENAI_API_KEY": f"sk-1{ending}"}) == "sk-1"
    settings = {"secrets:settings.yaml": "openai:\n  secrets:\n    api_key: |\n      sk-2\n\n"}
    assert provider_key("openai", tree(settings), {}) == "sk-2"


@pytest.mark.parametrize("key", ["sk-\n1", "sk 1", "sk-\u00e9", "sk-\x00", "\u201csk-1\u201d"])
def test_what_cannot_be_a_key_is_refused_without_repeating_it(key):
    with pytest.raises(MissingKeyError) as caught:
        provider_key("openai", tree({}), {"OPENAI_API_KEY": key})
    assert key not in str(caught.value)
    assert "OPENAI_API_KEY" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "origin"),
    [
        ("openai.secrets.api_key", "settings"),
        ("general.prompt.persona", "settings"),
        ("s.params.token", "settings"),
        ("s.params.variable", "settings"),
        ("__class__", "builtin"),
        ("count", "builtin"),
    ],
)
def test_a_slot_is_filled_only_with_what_may_stand_in_text(name, origin):
    """Whatever an artifact says: it may be old, or forged."""
    files = {
        "secrets:settings.yaml": (
            "openai: {secrets: {api_key: LEAK}}\ngeneral: {prompt: {persona: LEAK}}\n"
            "s: {params: {token: LEAK, variable: <<LEAK>>}}\n"
        ),
        "global:skills/s/config.yaml": "params: [{key: token, secret: true}]\n",
        ".halo/skills/s/config.yaml": "params: [{key: token, secret: false}, {key: variable, secret: false}]\n",
    }
    assert values([Slot(name, origin, 0, 1)], files, {"LEAK": "LEAK"}).values == {}
