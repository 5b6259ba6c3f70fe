"""Endpoints that come through an alias or a profile: whose file they stand in decides who is asked."""

import json

import pytest
from making import agent, tree

from halo.errors import LayerError, UnknownNameError
from halo.workspace.demands import Demands, read_demands
from halo.workspace.trust import Grants

AWAY = "https://models.example.com/v1"
FAR = {"provider": "openai", "id": "m", "endpoint": AWAY}
NEAR = {"provider": "openai", "id": "m"}
MACHINE = "secrets:settings.yaml"
HERE = ".halo/settings.yaml"
ALIAS = ("general.models.aliases.fast", "openai", AWAY)
DEFAULT = ("general.models.profiles.ci.default", "openai", AWAY)


def models(**block):
    return json.dumps({"general": {"models": block}})


def demands(files):
    return read_demands(tree(files)).endpoints


def allowed(files, *granted, name="a", profile="", provider="openai", endpoint=AWAY):
    """Whether the agent may send the provider's key there once `granted` was granted."""
    return Grants(Demands(granted)).endpoint(tree(files), name, provider, endpoint, profile)


WITH_ALIAS = {".halo/agents/a/agent.yaml": "model: fast\n", HERE: models(aliases={"fast": FAR})}
WITH_PROFILE = {
    ".halo/agents/a/agent.yaml": agent(model=NEAR),
    HERE: models(profiles={"ci": {"default": FAR, "agents": {"b": {**FAR, "provider": "anthropic"}}}}),
}


class TestWhatTheWorkspaceAsksFor:
    def test_endpoints_of_its_aliases_and_profiles(self):
        assert demands(WITH_ALIAS) == (ALIAS,)
        assert demands(WITH_PROFILE) == (
            DEFAULT,
            ("general.models.profiles.ci.agents.b", "anthropic", AWAY),
        )

    def test_used_or_not(self):
        """What is asked does not depend on what lies on this machine."""
        assert demands({HERE: models(aliases={"fast": FAR})}) == (ALIAS,)

    def test_not_those_of_the_machine(self):
        machine = models(aliases={"fast": FAR}, profiles={"ci": {"default": FAR}})
        assert demands({".halo/agents/a/agent.yaml": "model: fast\n", MACHINE: machine}) == ()

    def test_nothing_where_no_endpoint_is_named(self):
        assert demands({**WITH_ALIAS, HERE: models(aliases={"fast": NEAR})}) == ()

    def test_a_workspace_without_them_is_asked_for_what_it_was_asked_before(self):
        """Trust that was given stays."""
        files = {".halo/agents/a/agent.yaml": agent(model=FAR)}
        assert demands(files) == (("a", "openai", AWAY),)
        assert read_demands(tree({**files, HERE: models(aliases={"x": NEAR})})).digests == (
            read_demands(tree(files)).digests
        )

    @pytest.mark.parametrize(
        "block",
        [
            {"aliases": {"fast": {**FAR, "endpoint": "https://other/v1"}}},
            {"aliases": {"fast": {**FAR, "provider": "anthropic"}}},
            {"aliases": {"fast": FAR, "more": FAR}},
            {"aliases": {"fast": FAR}, "profiles": {"ci": {"default": FAR}}},
            {"aliases": {"slow": FAR}},
        ],
    )
    def test_any_change_asks_again(self, block):
        changed = {**WITH_ALIAS, HERE: models(**block)}
        assert read_demands(tree(changed)).digests != read_demands(tree(WITH_ALIAS)).digests

    def test_the_spelling_of_the_file_does_not(self):
        text = f"# x\ngeneral:\n  models:\n    aliases:\n      fast: {{endpoint: '{AWAY}', id: m, provider: openai}}\n"
        assert demands({**WITH_ALIAS, HERE: text}) == (ALIAS,)

    def test_broken_settings_are_an_error(self):
        """Trust is never guessed."""
        with pytest.raises(LayerError):
            demands({HERE: models(aliases={"fast": {"endpoint": AWAY}})})


class TestWhatIsAllowed:
    def test_an_endpoint_of_an_alias_of_the_workspace_when_it_was_granted(self):
        assert not allowed(WITH_ALIAS)
        assert allowed(WITH_ALIAS, ALIAS)
        assert not allowed(WITH_ALIAS, ("a", "openai", AWAY))

    def test_an_endpoint_of_a_profile_of_the_workspace_when_it_was_granted(self):
        assert not allowed(WITH_PROFILE, profile="ci")
        assert allowed(WITH_PROFILE, DEFAULT, profile="ci")

    def test_a_grant_for_a_profile_is_for_that_profile(self):
        assert not allowed(WITH_PROFILE, DEFAULT)

    @pytest.mark.parametrize(
        "other", [{"provider": "anthropic"}, {"endpoint": "https://other/v1"}, {"endpoint": ""}]
    )
    def test_what_an_artifact_says_counts_for_nothing(self, other):
        """A build folder may come from a stranger: provider and address are those of the layers, or refused."""
        assert not allowed(WITH_ALIAS, ALIAS, **other)
        assert not allowed(WITH_PROFILE, DEFAULT, profile="ci", **other)

    @pytest.mark.parametrize("scope", ["global:", "builtin:"])
    def test_an_agent_of_the_user_with_an_alias_of_the_workspace_is_no_way_around(self, scope):
        """The agent is the user's, the endpoint is not: the workspace's alias hides the user's own."""
        files = {
            f"{scope}agents/g/agent.yaml": "model: fast\n",
            MACHINE: models(aliases={"fast": {**FAR, "endpoint": "https://mine/v1"}}),
        }
        assert allowed(files, name="g", endpoint="https://mine/v1")
        hidden = {**files, HERE: models(aliases={"fast": FAR})}
        assert not allowed(hidden, name="g")
        assert not allowed(hidden, name="g", endpoint="https://mine/v1")
        assert allowed(hidden, ALIAS, name="g")

    @pytest.mark.parametrize("scope", ["global:", "builtin:"])
    def test_neither_is_one_with_a_profile_of_the_workspace(self, scope):
        files = {
            f"{scope}agents/g/agent.yaml": agent(model=FAR),
            HERE: models(profiles={"ci": {"default": FAR}}),
        }
        assert allowed(files, name="g")
        assert not allowed(files, name="g", profile="ci")
        assert allowed(files, DEFAULT, name="g", profile="ci")

    def test_a_profile_of_the_user_that_names_an_alias_of_the_workspace_asks_for_the_alias(self):
        files = {
            ".halo/agents/a/agent.yaml": agent(model=NEAR),
            MACHINE: models(aliases={"fast": NEAR}, profiles={"ci": {"default": "fast"}}),
            HERE: models(aliases={"fast": FAR}),
        }
        assert not allowed(files, profile="ci")
        assert allowed(files, ALIAS, profile="ci")

    def test_the_users_own_aliases_and_profiles_need_no_trust(self):
        """The key goes where its owner said, whoever asks for it."""
        machine = models(aliases={"fast": FAR}, profiles={"ci": {"default": FAR}})
        assert allowed({".halo/agents/a/agent.yaml": "model: fast\n", MACHINE: machine})
        assert allowed({".halo/agents/a/agent.yaml": agent(model=NEAR), MACHINE: machine}, profile="ci")
        here = models(profiles={"mine": {"agents": {"a": "fast"}}})
        files = {".halo/agents/a/agent.yaml": agent(model=NEAR), MACHINE: machine, HERE: here}
        assert allowed(files, profile="mine")

    def test_the_workspace_cannot_bend_a_model_of_the_user(self):
        """Half a model laid over the user's would send another provider's key to the user's endpoint."""
        files = {
            ".halo/agents/a/agent.yaml": "model: fast\n",
            MACHINE: models(aliases={"fast": FAR}),
            HERE: models(aliases={"fast": {"provider": "anthropic", "id": "m"}}),
        }
        for provider in ("openai", "anthropic"):
            assert not allowed(files, provider=provider)

    def test_an_agent_that_a_profile_leaves_alone_keeps_its_own_grant(self):
        files = {
            ".halo/agents/a/agent.yaml": agent(model=FAR),
            HERE: models(profiles={"ci": {"agents": {"b": NEAR}}}),
        }
        assert allowed(files, ("a", "openai", AWAY), profile="ci")
        assert not allowed(files, profile="ci")

    def test_an_unknown_profile_allows_nothing(self):
        with pytest.raises(UnknownNameError):
            allowed(WITH_PROFILE, DEFAULT, profile="nowhere")
