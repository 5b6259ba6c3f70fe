"""Generated workspaces for the property tests: odd text, every kind of layer, placeholders everywhere."""

import json
import os

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from halo.build.targets import default_targets
from halo.records.targets import AgentTarget

# A whole workspace is a large example. For a long search: HALO_EXAMPLES=2000 pytest tests/compiler
FEW = hypothesis_settings(max_examples=int(os.environ.get("HALO_EXAMPLES", "12")))

AGENTS = ["a", "b", "c-1"]
SKILLS = ["s", "t_2"]
CONTEXT_FILES = ["SOUL.md", "TOOLS.md", "BOOTSTRAP.md", "notes/é.md"]
DIRECTORIES = ["pkg", "pkg/é", "docs"]
TOOLS = ["grep", "file_read", "draft", "shell_exec"]

_NAMES = [
    *("now", "workspace_root", "working_dir", "agent_name", "user_name", "ai_name", "args", "constructor"),
    *("channel.type", "params.k", "params.hidden", "general.models.aliases.k.id"),
    *(
        f"{owner}.params.{key}"
        for owner in [*AGENTS, *SKILLS]
        for key in ("k", "env", "shown", "hidden", "none")
    ),
    *(f"{owner}.secrets.key" for owner in [*AGENTS, *SKILLS]),
]
_PLACEHOLDERS = st.sampled_from(_NAMES).map(lambda name: f"{{{{{name}}}}}")
_WORDS = st.sampled_from(
    ["rules", "Überblick", "日本", "🙂", "<b>&", "# h", "---", "- x", "<<NAME>>", "{{", "$1", "\u00a0"]
)
_LINES = st.lists(st.one_of(_WORDS, _PLACEHOLDERS), max_size=3).map(" ".join)
_NEWLINES = st.sampled_from(["\n", "\n", "\r\n"])
_LINE = st.text(alphabet=st.sampled_from("aé <>&\"'"), max_size=8)


@st.composite
def _markdown(draw):
    front = draw(
        st.sampled_from(["", "", "---\nuser_name: Bo\nai_name: 'Ö'\n---\n", "---\nname: N\n---\n\n"])
    )
    text = front + "\n".join(draw(st.lists(_LINES, max_size=4)))
    return draw(st.sampled_from(["", "", "\ufeff"])) + text.replace("\n", draw(_NEWLINES))


@st.composite
def _agent(draw, name):
    fields = {
        "model": {"provider": "openai", "id": "m", "tool_mode": draw(st.sampled_from(["native", "schema"]))},
        "name": draw(_LINE),
        "description": draw(_LINE),
        "system_prompt": draw(_LINE),
        "tools": draw(st.lists(st.sampled_from(TOOLS), max_size=3)),
        "skills": draw(st.lists(st.sampled_from(SKILLS), max_size=3)),
        "team": draw(st.lists(st.sampled_from(AGENTS), max_size=3)),
        "priority": draw(st.integers(0, 2)),
        "internal": draw(st.booleans()) if name == "c-1" else False,
    }
    keys = draw(st.permutations(list(fields)))
    return "".join(f"{key}: {json.dumps(fields[key], ensure_ascii=False)}\n" for key in keys)


def declarations(secret):
    """A config.yaml that keeps `hidden` out of every text and lets `shown` in."""
    return f"""\
params:
  - {{key: k, default: fallback}}
  - {{key: shown, secret: false}}
  - {{key: hidden, secret: true, default: {json.dumps(secret)}}}
"""


_SECTIONS = ["safety", "documentation", "sandbox", "runtime", "reasoning", "reply_tags", "heartbeats"]


@st.composite
def _prompt(draw):
    """`general.prompt`. The caps are small enough to be exceeded, and then truncation is chosen."""
    block = {
        "sections": draw(st.lists(st.sampled_from(_SECTIONS), max_size=7)),
        "time_zone": draw(st.sampled_from(["", "local", "Europe/Oslo", "Etc/GMT+5"])),
        "context_files": draw(st.lists(st.sampled_from(CONTEXT_FILES), max_size=4)),
    }
    if draw(st.booleans()):
        block |= {"context_overflow": "truncate", "context_file_chars": draw(st.integers(200, 400))}
        block["context_total_chars"] = draw(st.integers(800, 1200))
    return block


@st.composite
def _context_file(draw):
    return draw(_markdown()) + "".join(line + "\n" for line in draw(st.lists(_LINES, max_size=60)))


def settings(secret, *, machine, declared, prompt=None):
    """A settings file in which `secret` stands wherever one may stand, and other values elsewhere.

    The settings of the `machine` may hold it anywhere. In a workspace a parameter is text for everyone,
    unless it is `declared` secret or names the environment.
    """
    blocks = {"general": {"models": {"aliases": {"k": {"provider": "openai", "id": secret}}}}}
    if prompt is not None:
        blocks["general"]["prompt"] = prompt
    for owner in (*AGENTS, *SKILLS):
        params = {
            "k": secret if machine else "v {{now}}",
            "env": "<<NAME>> x",
            "shown": "<<NAME>>",
            "none": None,
        }
        if machine or declared:
            params["hidden"] = secret
        blocks[owner] = {"params": params, "secrets": {"key": secret}}
    return json.dumps(blocks, indent=1)


@st.composite
def workspaces(draw, secret="hush"):
    """Files by tree path, as text; every agent and skill exists somewhere."""
    files = {"workspace:README.md": ""}
    declared = draw(st.booleans())

    def maybe(path, strategy):
        if draw(st.booleans()):
            files[path] = draw(strategy)

    for root in ("workspace:.halo/", "global:"):
        for name in ("USER.md", "INSTRUCTIONS.md", "INDEX.md"):
            maybe(root + name, _markdown())
        for scope in ("bootstrap", "all", "root"):
            for name in ("B.md", "a.md", "a.windows.md", ".gitkeep"):
                maybe(f"{root}prompts/{scope}/{name}", _markdown())
    for kind, names in (("agents", AGENTS), ("skills", SKILLS)):
        for name in names:
            folder = draw(st.sampled_from(["workspace:.halo/", "global:"])) + f"{kind}/{name}"
            if declared:
                files[f"{folder}/config.yaml"] = declarations(secret)
            if kind == "agents":
                files[f"{folder}/agent.yaml"] = draw(_agent(name))
                maybe(f"{folder}/AGENT.md", _markdown())
            else:
                files[f"{folder}/SKILL.md"] = "---\ndescription: d\n---\n" + draw(_markdown())
                maybe(f"{folder}/scripts/é.py", st.just(""))
    for directory in DIRECTORIES:
        maybe(f"workspace:{directory}/.halo/INSTRUCTIONS.md", _markdown())
    for root in ("workspace:.halo/", "global:"):
        for name in CONTEXT_FILES:
            maybe(root + name, _context_file())
    for path, machine in (("workspace:.halo/settings.yaml", False), ("secrets:settings.yaml", True)):
        shaped = st.one_of(st.none(), _prompt()).map(
            lambda prompt, machine=machine: settings(
                secret, machine=machine, declared=declared, prompt=prompt
            )
        )
        maybe(path, shaped)
    return files


def all_targets(tree):
    """The default targets of a generated workspace, and some that are made on request."""
    found = list(default_targets(tree).targets)
    for name in AGENTS:
        found += [
            AgentTarget(name, "sub", "pkg/é/deep"),
            AgentTarget(name, "root", "docs", "minimal", "windows"),
            AgentTarget(name, "sub", access="readonly"),
        ]
    return found
