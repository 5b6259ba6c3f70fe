"""What may be written at which access: text for models, and nothing that decides or that Halo keeps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo.tools.guards import why_not_written
from halo.tools.masks import masked, same_name

LAYERS = [
    ".halo/USER.md",
    ".halo/INDEX.md",
    ".halo/INSTRUCTIONS.md",
    ".halo/docs/notes.md",
    ".halo/agents/a/AGENT.md",
    ".halo/agents/a/fewshots/one.yaml",
    ".halo/prompts/all/STYLE.md",
    ".halo/skills/s/SKILL.md",
    ".halo/skills/s/references/form.csv",
    ".halo/skills/s/scripts/run.py",
    "pkg/.halo/INSTRUCTIONS.md",
]
DECIDING = [
    ".halo",
    ".halo/settings.yaml",
    ".halo/mcp.lock.json",
    ".halo/agents/a/agent.yaml",
    ".halo/agents/new/agent.yaml",
    ".halo/agents/a/config.yaml",
    ".halo/skills/s/config.yaml",
    ".halo/models/openai.yaml",
    ".halo/models/README.md",
    ".halo/evo/experiment.md",
    ".halo/what-comes-next.yaml",
    ".halo/settings.yaml/a.md",  # no folder in its place
    ".halo/agents/a/agent.yaml/b.md",
    ".halo/skills/s/config.yaml/b",
    ".halo/skills/s",
]
KEPT = [
    ".halo/sessions/2026-10/s/events.jsonl",
    ".halo/sessions",
    ".halo/secrets/settings.yaml",
    ".halo/build/a/root.json",
    ".halo/artifacts/x/prompt.md",
    ".halo/artifacts/README.md",
    ".halo/traces/t.md",
    ".halo/batch/b.md",
    ".halo/evo/runs/r.md",
    ".halo/bundle.json",
    ".halo/machine.key",
    ".halo/trust.yaml",
]
GIT = [".git", ".git/hooks/pre-commit", ".git/config", ".git/info/attributes", "lib/.git", "lib/.git/config"]
OTHERS = [
    "a.txt",
    "settings.yaml",
    "agents/a/agent.yaml",
    "x.halo/settings.yaml",
    ".github/w.yml",
    ".gitignore",
]


def nested(reals):
    return [
        *reals,
        *(f"vendor/example/{real}" for real in reals),
        *(f".halo/skills/s/{real}" for real in reals),
    ]


@pytest.mark.parametrize("real", [*nested(LAYERS), *OTHERS])
def test_text_for_models_and_files_of_the_workspace_can_be_written(real):
    assert why_not_written(real, "workspace") == ""
    assert why_not_written(real, "full") == ""


@pytest.mark.parametrize("real", nested([*DECIDING, *GIT]))
def test_what_decides_is_for_full_access(real):
    assert "cannot be written at access workspace" in why_not_written(real, "workspace")
    assert why_not_written(real, "full") == ""


@pytest.mark.parametrize("real", nested(KEPT))
def test_what_halo_keeps_is_written_by_no_tool(real):
    assert "kept by Halo itself" in why_not_written(real, "full")
    assert why_not_written(real, "workspace")


@pytest.mark.parametrize("real", [*LAYERS, *DECIDING, *KEPT, *GIT, *OTHERS])
def test_readonly_writes_nothing(real):
    assert "may only read" in why_not_written(real, "readonly")


SPELLINGS = st.sampled_from(
    [
        str.upper,
        str.title,
        lambda name: name.replace("s", "\u017f"),  # long s: its capital is S
        lambda name: name.replace("k", "\u212a"),  # Kelvin
        lambda name: name.replace("a", "\uff41"),  # full width
        lambda name: name.replace("fi", "\ufb01"),  # ligature
        lambda name: f"{name}.",  # Windows
        lambda name: f"{name} ",
        lambda name: f"\ufeff{name}",
        "\u200d".join,
        lambda name: f"{name}\ufe0f",
        lambda name: f"{name[:2]}\u00ad{name[2:]}",
    ]
)


@given(st.sampled_from([*DECIDING, *KEPT, *GIT]), st.lists(SPELLINGS, max_size=3))
def test_spellings_that_a_file_system_takes_for_the_same_help_nobody(real, spellings):
    for spell in spellings:
        real = "/".join(map(spell, real.split("/")))
    assert why_not_written(real, "workspace")


@given(st.text(st.characters(exclude_characters="/\0")).filter(lambda name: name not in ("", ".", "..")))
def test_one_spelling_is_found_for_each_name(name):
    assert same_name(same_name(name)) == same_name(name)
    assert same_name(name.upper().lower()) == same_name(name.lower())
    assert why_not_written(f"{name}/.halo/settings.yaml", "workspace")


@given(st.lists(st.sampled_from([".halo", "sessions", "evo", "runs", "a.md", "traces", "x"]), min_size=1))
def test_what_cannot_be_read_cannot_be_written(parts):
    real = "/".join(parts)
    if masked(real):
        assert why_not_written(real, "workspace")
