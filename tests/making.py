"""Makes small workspaces in memory and compiles them."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from halo.compiler.assemble import Compiled
from halo.compiler.compile import compile_target
from halo.files.tree import MemoryTree
from halo.records.targets import AgentTarget, SkillTarget, Target

REPOSITORY = Path(__file__).resolve().parent.parent

MODEL = {"provider": "openai", "id": "m"}


def tree(files: Mapping[str, str | bytes]) -> MemoryTree:
    """A tree of `files`; a key without a root, such as `.halo/USER.md`, is in the workspace."""
    return MemoryTree(
        {
            (key if ":" in key else f"workspace:{key}"): text if isinstance(text, bytes) else text.encode()
            for key, text in files.items()
        }
    )


def examples(few: int) -> int:
    """How many examples a property is tried on: fewer while one works, more for a long search (`doit soak`)."""
    return int(os.environ.get("HALO_EXAMPLES", few if "CI" in os.environ else few // 3))


def agent(**fields: Any) -> str:
    """An agent.yaml; each field stands on a line of its own. A model is there unless given."""
    fields.setdefault("model", MODEL)
    return "".join(f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in fields.items())


def skill(text: str, *, name: str = "", description: str = "") -> str:
    """A SKILL.md."""
    return f"---\nname: {json.dumps(name)}\ndescription: {json.dumps(description)}\n---\n\n{text}"


def compiled(files: Mapping[str, str | bytes], target: Target | None = None, **options: Any) -> Compiled:
    """Compile `target`, by default the agent `a` with `options`, from `files`."""
    return compile_target(tree(files), target or AgentTarget("a", **options))


def prompt(files: Mapping[str, str | bytes], target: Target | None = None, **options: Any) -> str:
    """The text of the same."""
    return compiled(files, target, **options).prompt


def body(text: str, **files: str) -> dict[str, str]:
    """An agent `a` with this AGENT.md, and no tools."""
    return {".halo/agents/a/agent.yaml": agent(), ".halo/agents/a/AGENT.md": text, **files}


def skill_prompt(files: Mapping[str, str | bytes], name: str) -> str:
    """The compiled body of a skill."""
    return prompt(files, SkillTarget(name))
