"""The golden strings of the reference, with the differences of docs/reference-differences.md applied.

Each expected text is built from the reference's own string by named steps, so that what differs, and why, can be
read here.
"""

import re

import pytest
from making import MODEL, agent, compiled, prompt, skill_prompt

from halo.records.targets import AgentTarget

FILES = {
    ".halo/USER.md": "---\nuser_name: Bob\n---\nlikes tea",
    ".halo/INSTRUCTIONS.md": "ws rules",
    ".halo/INDEX.md": "  ",
    ".halo/prompts/all/B.md": "ALL1",
    ".halo/prompts/all/a.md": "ALL2",
    ".halo/prompts/all/B.windows.md": "WIN",
    ".halo/prompts/root/r.md": "ROOT",
    ".halo/prompts/bootstrap/.gitkeep": "",
    "pkg/.halo/INSTRUCTIONS.md": "pkg rules",
    "pkg/a/.halo/INSTRUCTIONS.md": "a rules",
    ".halo/agents/dev/agent.yaml": agent(
        model=MODEL, name="Dev", description="codes", tools=["shell_exec"], system_prompt="SYS"
    ),
    ".halo/agents/dev/AGENT.md": "Dev body",
    ".halo/agents/judge/agent.yaml": agent(name="Judge", internal=True, tools=["file_read"]),
    ".halo/agents/judge/AGENT.md": "Judge body",
    ".halo/agents/lead/agent.yaml": agent(
        name="Lead", tools=["grep", "file_read"], skills=["s1"], team=["lead", "dev", "judge"]
    ),
    ".halo/agents/lead/AGENT.md": (
        "---\nx: 1\n---\nI am {{agent_name}} in {{workspace_root}} for {{user_name}}."
    ),
    ".halo/skills/s1/SKILL.md": '---\nname: "S one"\ndescription: does <things> & more\n---\nBody {{params.k}} $1 {{now}}x',
}

DEV_ROOT = (
    "## User Profile\n\n---\nuser_name: Bob\n---\nlikes tea\n\n---\n\nDev body\n\n---\n\n## User Instructions\n\n"
    "ws rules\n\nThe project workspace is at: /W\n\nROOT\n\nALL1\n\nALL2\n\nYour available tools: shell_exec, session_status."
    " Only use tools in this list."
)
DEV_SUB = (
    "Dev body\n\n---\n\n## User Instructions\n\nws rules\n\nThe workspace root is: /W\n\nALL1\n\nALL2\n\n"
    "Your available tools: shell_exec, session_status. Only use tools in this list."
)
JUDGE_ROOT = (
    "Judge body\n\nThe project workspace is at: /W\n\n\n\n\n\nYour available tools: file_read, session_status."
    " Only use tools in this list."
)
JUDGE_SUB = (
    "Judge body\n\n---\n\n## User Instructions\n\n### pkg\n\npkg rules\n\n### pkg/a\n\na rules\n\n"
    "The workspace root is: /W\nWorking directory: /W/pkg/a\n\n\n\nYour available tools: file_read, session_status."
    " Only use tools in this list."
)

_ENVIRONMENT = re.compile(
    r"(?:The project workspace is at|The workspace root is): [^\n]*\n(?:Working directory: [^\n]*\n)?\s*"
)


def environment_last(text):
    """Differences 1 and 2: the environment is the last part, and no blank lines are left over."""
    found = _ENVIRONMENT.search(text)
    return f"{_ENVIRONMENT.sub('', text, count=1).rstrip()}\n\n{found[0].rstrip()}\n"


def without_front_matter(text):
    """Difference 3."""
    return re.sub(r"---\n\w+: \w+\n---\n", "", text)


def filled(text, directory=""):
    """Slots as a turn fills them, for a workspace at /W."""
    return text.replace("{{workspace_root}}", "/W").replace("{{working_dir}}", f"/W/{directory}")


def ours(name, role="root", directory=""):
    return filled(prompt(FILES, AgentTarget(name, role, directory)), directory)


def test_a_root_agent():
    assert ours("dev") == environment_last(without_front_matter(DEV_ROOT))


def test_a_sub_agent():
    assert ours("dev", "sub") == environment_last(DEV_SUB)


def test_an_internal_agent():
    assert ours("judge") == environment_last(JUDGE_ROOT)


def test_an_internal_agent_in_a_directory_gets_none_of_its_rules():
    """Difference 7."""
    rules = "\n\n---\n\n## User Instructions\n\n### pkg\n\npkg rules\n\n### pkg/a\n\na rules"
    assert ours("judge", "sub", "pkg/a") == environment_last(JUDGE_SUB.replace(rules, ""))


def test_a_sub_agent_with_a_team_skills_and_a_directory():
    """One heading order, one roster, the chain of rules, the skills escaped, `activate_skill` in the list."""
    text = ours("lead", "sub", "pkg/a")
    assert text.startswith("I am Lead in /W for Bob.\n\n---\n\n## Your Team\n\n")
    roster = text.split("\n\n---\n\n")[1]
    assert roster.endswith("\n\n- `lead` — Lead (you)\n- `dev` — Dev: codes")
    assert text.split("\n\n---\n\n")[2:] == [
        "## User Instructions\n\nws rules",
        text.split("\n\n---\n\n")[3],
    ]
    rest = text.split("\n\n---\n\n")[3]
    assert rest.startswith(
        "## User Instructions\n\n### pkg\n\npkg rules\n\n### pkg/a\n\na rules\n\nALL1\n\nALL2\n\n## Your Skills\n\n"
    )
    assert rest.endswith(
        "<available_skills>\n  <skill>\n    <name>S one</name>\n    <id>s1</id>\n"
        "    <description>does &lt;things&gt; &amp; more</description>\n  </skill>\n</available_skills>\n\n"
        "Your available tools: file_read, grep, start_session, session_list, session_history, query_session,"
        " interrupt_session, stop_session, archive_session, get_session_output, query_agent, session_status, activate_skill."
        " Only use tools in this list.\n\nThe workspace root is: /W\nWorking directory: /W/pkg/a\n"
    )


def test_its_tools():
    names = [tool.name for tool in compiled(FILES, AgentTarget("lead")).manifest.tools]
    assert names[:2] == ["file_read", "grep"]
    assert names[-1] == "activate_skill"
    assert len(names) == 13


def test_an_activated_skill():
    """Differences 5 and 10: the name without its quotes, `$1` untouched, the clock a slot."""
    assert skill_prompt(FILES, "s1") == "# Skill: S one\n\nBody {{s1.params.k}} $1 {{now}}x\n".replace(
        "{{s1.params.k}}", "{{params.k}}"
    )


@pytest.mark.parametrize(
    "text", ["{{constructor}}", "{{toString}}", "{{__proto__}}", "awk '{print $1}'", r"\$x"]
)
def test_what_the_reference_leaked_or_ate_stays_as_it_is(text):
    """Difference 10."""
    files = {
        **FILES,
        ".halo/agents/dev/AGENT.md": f"Dev {text} body",
        ".halo/skills/s1/SKILL.md": f"Do {text} so",
    }
    assert f"Dev {text} body" in prompt(files, AgentTarget("dev"))
    assert f"Do {text} so" in skill_prompt(files, "s1")
