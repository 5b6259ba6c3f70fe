"""What a user may call a model when a session shall have another one."""

import pytest
from making import agent, compiled, tree

from halo.errors import HaloError, UnknownNameError, UsageError
from halo.records.targets import AgentTarget
from halo.workspace.models.naming import profile_named

SETTINGS = """\
general:
  models:
    aliases:
      fast: {provider: openai, id: gpt-mini, endpoint: "http://localhost:1/v1"}
    profiles:
      ci: {default: fast}
"""
CATALOGUE = """\
name: OpenAI
default: gpt-mini
models:
  gpt-mini: {name: Mini, as_of: 2026-11-30}
  gpt-mini-2: {name: Mini 2, as_of: 2026-11-30}
"""
FILES = {
    ".halo/agents/a/agent.yaml": agent(model={"provider": "anthropic", "id": "claude"}),
    ".halo/agents/a/AGENT.md": "You are a.\n",
    ".halo/settings.yaml": SETTINGS,
    ".halo/models/openai.yaml": CATALOGUE,
}


@pytest.mark.parametrize(
    ("text", "profile"),
    [
        ("ci", "ci"),
        ("fast", "=fast"),
        ("FAS", "=fast"),
        ("openai", "=openai/gpt-mini"),
        ("openai/gpt-99", "=openai/gpt-99"),
        ("Mini-2", "=openai/gpt-mini-2"),
        ("GPT-MINI", "=openai/gpt-mini"),
        ("Anthropic/Claude", ""),
        ("claude", ""),
    ],
)
def test_a_model_has_several_names(text, profile):
    assert profile_named(tree(FILES), text, "a") == profile


@pytest.mark.parametrize(
    ("text", "error"),
    [("mini", UsageError), ("gtp-mini", UnknownNameError), ("", HaloError), ("local/x.gguf", UsageError)],
)
def test_a_name_that_fits_none_or_several_is_refused_with_what_is_known(text, error):
    with pytest.raises(error):
        profile_named(tree(FILES), text, "a")


def test_a_target_with_one_model_is_compiled_with_it():
    artifact = compiled(FILES, AgentTarget("a", profile="=openai/gpt-99"))
    assert (artifact.manifest.runtime.binding.provider, artifact.manifest.runtime.binding.model) == (
        "openai",
        "gpt-99",
    )
    assert artifact.manifest.runtime.binding.endpoint == ""
    aliased = compiled(FILES, AgentTarget("a", profile="=fast"))
    assert aliased.manifest.runtime.binding.endpoint == "http://localhost:1/v1"
    assert aliased.manifest.fingerprint == compiled(FILES, AgentTarget("a")).manifest.fingerprint
    with pytest.raises(UnknownNameError):
        compiled(FILES, AgentTarget("a", profile="=slow"))
