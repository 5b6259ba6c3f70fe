"""What a stranger's workspace could otherwise pull in: values of this machine, its own key, a model file."""

from typing import ClassVar

import pytest
from making import agent, skill, tree

from halo.errors import MissingKeyError
from halo.records.artifacts import Slot
from halo.sessions.provider_keys import provider_key
from halo.sessions.values import Moment, slot_values
from halo.workspace.demands import Demands, read_demands
from halo.workspace.settings.files import WORKSPACE_SETTINGS
from halo.workspace.trust import Grants

MACHINE = "secrets:settings.yaml"
STRANGER = {
    ".halo/skills/mail/SKILL.md": skill("{{params.password}}", description="d"),
    ".halo/skills/mail/config.yaml": "params: [{key: password}]\n",
    MACHINE: "mail: {params: {password: hunter2, box: {name: in}}}\nother: {params: {k: v}}\n",
}
SLOT = Slot("mail.params.password", "settings", 0, 1)
NOW = Moment("/w", "/w", "", "", "", "")


def filled(files, grants=None):
    return slot_values([SLOT], NOW, tree(files), {}, grants or Grants())


class TestValuesOfTheMachine:
    def test_a_workspace_that_only_claims_the_id_gets_none(self):
        """The skill that says what is secret may lie in another workspace of the user."""
        found = filled(STRANGER)
        assert found.values == {}
        assert "halo trust" in found.warnings[0]
        assert "hunter2" not in str(found)

    def test_trust_names_the_parameters_and_not_their_values(self):
        demands = read_demands(tree(STRANGER))
        assert demands.values == ("mail.params.box.name", "mail.params.password")
        assert "hunter2" not in str(demands)
        assert filled(STRANGER, Grants(demands)).values == {"mail.params.password": "hunter2"}

    def test_what_a_folder_of_the_user_declares_needs_none(self):
        files = {**STRANGER, "global:skills/mail/config.yaml": "params: [{key: password}]\n"}
        assert filled(files).values == {"mail.params.password": "hunter2"}
        assert read_demands(tree(files)).values == ("mail.params.box.name",)

    def test_an_id_that_the_workspace_does_not_define_is_the_users(self):
        files = {
            "global:skills/mail/SKILL.md": skill("x", description="d"),
            MACHINE: STRANGER[MACHINE],
            ".halo/agents/a/agent.yaml": agent(skills=["mail"]),
        }
        assert filled(files).values == {"mail.params.password": "hunter2"}
        assert read_demands(tree(files)) == Demands()

    def test_an_agent_of_that_id_is_a_claim_as_well(self):
        files = {".halo/agents/mail/agent.yaml": agent(), MACHINE: STRANGER[MACHINE]}
        assert filled(files).values == {}


class TestKeys:
    LITERAL = ".halo/settings.yaml"

    @pytest.mark.parametrize("key", ["sk-stranger", "sk-<<PART>>", "<<PART>>x"])
    def test_a_key_that_came_along_is_not_used(self, key):
        """Whoever's it is could read what is sent with it."""
        files = {self.LITERAL: f"openai:\n  secrets:\n    api_key: {key}\n"}
        with pytest.raises(MissingKeyError, match="stands literally") as caught:
            provider_key("openai", tree(files), {"OPENAI_API_KEY": "sk-mine", "PART": "p"})
        assert (caught.value.file, caught.value.line) == (WORKSPACE_SETTINGS, 3)
        assert "sk-stranger" not in str(caught.value)
        demands = read_demands(tree(files))
        assert demands.keys == ("openai",)
        environ = {"PART": "p"}
        assert provider_key("openai", tree(files), environ, lambda: Grants(demands)).strip("sk-x") != ""

    def test_a_name_of_the_environment_and_the_machines_own_key_are_free(self):
        files = {self.LITERAL: "openai: {secrets: {api_key: <<MINE>>}}\n"}
        assert provider_key("openai", tree(files), {"MINE": "sk-mine"}) == "sk-mine"
        assert read_demands(tree(files)) == Demands()
        assert (
            provider_key("openai", tree({MACHINE: "openai: {secrets: {api_key: sk-mine}}\n"}), {})
            == "sk-mine"
        )


class TestModelFiles:
    FILE: ClassVar = {"provider": "local", "id": "models/x.gguf"}

    def test_one_that_the_workspace_names_needs_trust(self):
        files = tree({".halo/agents/a/agent.yaml": agent(model=self.FILE)})
        demands = read_demands(files)
        assert demands.model_files == (("a", "models/x.gguf"),)
        assert not Grants().model_file(files, "a")
        assert Grants(demands).model_file(files, "a")

    def test_so_does_one_in_an_alias_or_a_profile(self):
        settings = (
            "general: {models: {aliases: {fast: {provider: local, id: /x.GGUF}},"
            " profiles: {ci: {default: {provider: local, id: y.gguf}}}}}\n"
        )
        files = tree({".halo/agents/a/agent.yaml": agent(model="fast"), ".halo/settings.yaml": settings})
        assert not Grants().model_file(files, "a")
        assert not Grants().model_file(files, "a", "ci")
        granted = Grants(read_demands(files))
        assert granted.model_file(files, "a")
        assert granted.model_file(files, "a", "ci")

    def test_the_users_own_and_models_by_name_are_free(self):
        files = tree(
            {
                "global:agents/a/agent.yaml": agent(model=self.FILE),
                ".halo/agents/b/agent.yaml": agent(
                    model={"provider": "local", "id": "smollm2-135m-instruct"}
                ),
            }
        )
        assert Grants().model_file(files, "a")
        assert read_demands(files) == Demands()


def test_each_kind_is_granted_on_its_own():
    """A new kind, or a change of one, asks for that kind alone."""
    files = {**STRANGER, ".halo/settings.yaml": "openai: {secrets: {api_key: sk-x}}\n"}
    before = read_demands(tree(files))
    recorded = before.digests
    assert before.among(recorded) == before
    changed = read_demands(tree({**files, ".halo/settings.yaml": "anthropic: {secrets: {api_key: sk-x}}\n"}))
    assert changed.among(recorded) == Demands(values=before.values)
    assert before.among({}) == Demands()
