"""Prompt modes: what `minimal` and `none` leave out (docs/reference/layers.md)."""

import pytest
from making import agent, compiled, prompt, skill

FILES = {
    ".halo/USER.md": "USER",
    ".halo/INSTRUCTIONS.md": "RULES",
    ".halo/INDEX.md": "INDEX",
    ".halo/SOUL.md": "SOUL",
    ".halo/prompts/all/a.md": "ALL",
    ".halo/prompts/root/r.md": "ROOT",
    ".halo/agents/a/agent.yaml": agent(name="Ada", tools=["grep"], skills=["s"], team=["b"]),
    ".halo/agents/a/AGENT.md": "BODY",
    ".halo/agents/b/agent.yaml": agent(name="Bob"),
    ".halo/skills/s/SKILL.md": skill("STEPS", name="Sums", description="adds"),
    "pkg/.halo/INSTRUCTIONS.md": "PKG",
    ".halo/settings.yaml": """\
general:
  prompt:
    sections: [safety, documentation, sandbox, runtime, reasoning, reply_tags, heartbeats]
    time_zone: local
    context_files: [SOUL.md]
""",
}


def segments(**options):
    made = compiled(FILES, directory="pkg", access="workspace", **options)
    return [segment.id for segment in made.manifest.segments]


def test_full_is_everything_and_the_default_of_both_roles():
    assert segments() == segments(mode="full")
    assert segments(role="sub") == segments(role="sub", mode="full")
    assert {"skills", "reply-tags", "heartbeats"} <= set(segments(role="sub"))


def test_minimal_leaves_out_user_skills_reply_tags_and_heartbeats():
    """And nothing else: tools, safety, workspace, sandbox, zone, runtime and context files stay."""
    for role, missing in (("root", {"user", "skills", "reply-tags", "heartbeats"}), ("sub", None)):
        full, minimal = segments(role=role), segments(role=role, mode="minimal")
        gone = missing or {"skills", "reply-tags", "heartbeats"}
        assert minimal == [name for name in full if name not in gone]
        assert {"tools", "safety", "sandbox", "context/SOUL.md", "instructions", "directory"} <= set(minimal)
    made = compiled(FILES, mode="minimal")
    assert "activate_skill" not in made.prompt
    assert made.manifest.skills == ()
    assert made.prompt.endswith(", {{runtime}}\n")
    assert "\nTime zone: {{time_zone}}\n" in made.prompt


@pytest.mark.parametrize("role", ["root", "sub"])
def test_none_is_the_identity_line(role):
    """No environment, no slot, no tool: one line, the same on every machine."""
    made = compiled(FILES, role=role, mode="none", directory="pkg", access="readonly")
    assert made.prompt == "You are Ada, an agent of this workspace.\n"
    assert (made.manifest.tools, made.manifest.skills, made.manifest.team) == ((), (), ())
    assert made.manifest.slots == ()


def test_none_of_a_new_workspace_has_no_bootstrap_text():
    new = {key: text for key, text in FILES.items() if key != ".halo/USER.md"}
    new[".halo/prompts/bootstrap/b.md"] = "BOOT"
    assert "BOOT" in prompt(new)
    assert prompt(new, mode="none") == prompt(FILES, mode="none")
