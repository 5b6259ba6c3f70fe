"""The version of the rules: a change that gives other bytes must be told, or stale artifacts stay fresh."""

from making import agent, skill, tree

from halo.compiler.compile import compile_target
from halo.compiler.version import COMPILER
from halo.files.canonical import canonical_json
from halo.files.digests import sha256
from halo.records.targets import AgentTarget, ScopeTarget, SkillTarget

# Every rule takes part: change one, and raise COMPILER together with its digest here.
DIGESTS = {"halo-compiler/5": "d626eea40b32ea4c857ee64f9e0ad21968c55e4b4a37ea149c540a610a0b8fe3"}

FILES = {
    ".halo/USER.md": "---\nuser_name: Mira\nai_name: no\n---\nMira.\n",
    ".halo/INSTRUCTIONS.md": "Rules.\n<!-- halo: ignore H702 x -->\nMore.\n",
    "global:INSTRUCTIONS.md": "Hidden.\n",
    ".halo/INDEX.md": "Index.\n",
    ".halo/prompts/all/a.md": "All.\n",
    ".halo/prompts/all/a.windows.md": "All on Windows.\n",
    ".halo/prompts/root/r.md": "Root.\n",
    "global:prompts/bootstrap/b.md": "Hello.\n",
    "pkg/.halo/INSTRUCTIONS.md": "Package.\n",
    "pkg/a/.halo/INSTRUCTIONS.md": "Package a.\n",
    ".halo/settings.yaml": (
        "s: {params: {zip: 010, time: 12:30, who: <<WHO>>, open: <<OPEN>>}}\n"
        "general:\n"
        "  disabled: {agents: [off]}\n"
        "  prompt:\n"
        "    sections: [safety, documentation, sandbox, runtime, reasoning, reply_tags, heartbeats]\n"
        "    time_zone: Europe/Berlin\n"
        "    context_files: [SOUL.md, MISSING.md]\n"
        "    context_file_chars: 400\n"
        "    context_overflow: truncate\n"
        "    instruction_files: {agents_md: chain, claude_md: true, gemini_md: true, cursor_rules: true,"
        " copilot: true}\n"
        "  models:\n"
        "    aliases: {fast: {provider: local, id: m}}\n"
        "    profiles: {ci: {default: fast}}\n"
    ),
    ".halo/SOUL.md": "Soul. " * 200,
    "AGENTS.md": "Everybody's rules.\n",
    "pkg/AGENTS.md": "Rules of the package.\n",
    "CLAUDE.md": "See @docs/style.md too.\n\n@docs/style.md\n",
    "docs/style.md": "Style.\n",
    "GEMINI.md": "Gemini's.\n",
    ".cursor/rules/a.mdc": "---\nalwaysApply: true\n---\nAlways.\n",
    ".github/copilot-instructions.md": "Copilot's.\n",
    ".halo/agents/off/agent.yaml": agent(),
    ".halo/agents/lead/fewshots/a.yaml": "- user: Hi\n- assistant: Hello\n",
    "secrets:settings.yaml": "s: {params: {there: x}}\n",
    ".halo/agents/lead/agent.yaml": agent(
        name="Lead",
        description="Leads.",
        tools=["grep", "file_read", "draft"],
        skills=["s"],
        team=["lead", "hand", "inner", "off"],
    ),
    ".halo/agents/lead/AGENT.md": (
        "{{agent_name}} {{user_name}} {{ai_name}} {{now}} {{s.params.zip}} {{s.params.time}} {{s.params.who}} "
        "{{s.params.open}} {{s.params.there}} {{s.params.size}} {{s.secrets.k}} {{nothing}}\n"
    ),
    ".halo/agents/hand/agent.yaml": agent(system_prompt="You do.", model={"provider": "local", "id": "m"}),
    ".halo/agents/inner/agent.yaml": agent(internal=True, tools=["file_read"]),
    ".halo/agents/inner/AGENT.md": "Inner.\n",
    ".halo/agents/bare/agent.yaml": agent(
        tools=["file_list"], model={"provider": "local", "id": "m", "tool_mode": "schema", "seed": 1}
    ),
    ".halo/skills/s/SKILL.md": skill(
        "{{params.size}} {{params.key}} {{args}} $1 $ARGUMENTS", name="S", description="a < b"
    ),
    ".halo/skills/s/config.yaml": (
        "params: [{key: size, type: int, default: 3}, {key: key, secret: true}, {key: open, secret: false}]\n"
    ),
    ".halo/skills/s/references/x.md": "x\n",
}

TARGETS = [
    *(AgentTarget(a, role) for a in ("lead", "hand", "inner", "bare") for role in ("root", "sub")),
    AgentTarget("lead", "sub", "pkg/a"),
    AgentTarget("lead", mode="minimal"),
    AgentTarget("lead", mode="none"),
    AgentTarget("lead", platform="windows"),
    AgentTarget("lead", access="readonly"),
    AgentTarget("hand", profile="ci"),
    SkillTarget("s"),
    ScopeTarget("pkg/a"),
]


def test_the_same_version_gives_the_same_bytes():
    layers = tree(FILES)
    without_user = tree({k: v for k, v in FILES.items() if k != ".halo/USER.md"})
    made = [compile_target(layers, target) for target in TARGETS]
    made.append(compile_target(without_user, AgentTarget("lead")))
    digest = sha256(canonical_json([(m.prompt, m.manifest) for m in made]))
    assert DIGESTS[COMPILER] == digest, "the rules give other bytes: raise COMPILER, and put its digest here"
