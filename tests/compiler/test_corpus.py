"""240 prompts of the reference compiler: the same markers in the same order, but for five known differences.

1. The environment lines come last (docs/decisions/0001), and `activate_skill` is in the tool list; the
   reference gave the agent that tool and forbade it by leaving it out.
2. An agent without AGENT.md keeps its roster and its `system_prompt`; the reference lost both.
3. An internal agent gets no directory rules, as it gets nothing of the workspace; the reference kept them.
4. Equal priorities in a roster are in order of id; the reference took the order of the disk.
5. A skill that does not exist is an error; the reference left it out.
"""

import json
import re

import pytest
from making import REPOSITORY, prompt

from halo.errors import LayerError
from halo.records.targets import AgentTarget

CASES = REPOSITORY.parent / "shared" / "corpus" / "compose-cases.jsonl"
pytestmark = pytest.mark.skipif(not CASES.is_file(), reason=f"the corpus is not at {CASES.parent}")

ENVIRONMENT = ("The project workspace is at:", "The workspace root is:", "Working directory:")
MARKER = re.compile(r"MK-\d+")
HEADING = re.compile(r"## .*|### (docs|pkg|pkg/a|pkg/a/deep)")


def load():
    return [json.loads(line) for line in CASES.read_text().splitlines()] if CASES.is_file() else []


def files_of(case, *, keep_unknown=False):
    """The files of a case by tree path; skills that do not exist are struck out (difference 18)."""
    files = {f"workspace:{path}": text for path, text in case["files"].items()}
    files |= {f"global:{path}": text for path, text in case["global_files"].items()}
    skills = {match[1] for path in files if (match := re.search(r"skills/(\w+)/", path))}
    for path, text in files.items():
        if path.endswith("/agent.yaml") and not keep_unknown:
            config = json.loads(text)
            config["skills"] = [name for name in config.get("skills", []) if name in skills]
            files[path] = json.dumps(config)
    return files


def sequence(text):
    """Markers, headings and fixed lines in order of appearance, as the corpus lists them."""
    found = []
    for line in text.splitlines():
        if line.startswith("Your available tools:") or HEADING.fullmatch(line):
            found.append(line)
        found += [lead for lead in ENVIRONMENT if line.startswith(lead)]
        found += MARKER.findall(line)
    return found


def config_of(files, name):
    """The agent.yaml and AGENT.md that serve `name`: the folder of the workspace, else the global one."""
    for folder in (f"workspace:.halo/agents/{name}", f"global:agents/{name}"):
        if any(path.startswith(folder + "/") for path in files):
            return json.loads(files[f"{folder}/agent.yaml"]), files.get(f"{folder}/AGENT.md", "").strip()
    return None, ""


def roster(files, name, config):
    """The markers of a roster: itself first, then by priority and id; of itself the name alone."""
    members = {member: config_of(files, member)[0] for member in config.get("team", [])}
    visible = {m: c for m, c in members.items() if c is not None and not c.get("internal")}
    order = sorted(visible, key=lambda m: (m != name, -visible[m].get("priority", 0), m))
    texts = [
        visible[m].get("name", "") + (visible[m].get("description", "") if m != name else "") for m in order
    ]
    return MARKER.findall(" ".join(texts))


def as_designed(expected, files, query):
    """What the reference put together, with differences 1 to 4 applied."""
    config, text = config_of(files, query["agent"])
    environment = [item for item in expected if item in ENVIRONMENT]
    rest = [item for item in expected if item not in ENVIRONMENT]
    rest = _with_status_and_skills(rest, skills=bool(config.get("skills")))
    if config.get("internal"):
        return _without_directory_rules(rest) + environment
    title = "## Know Your Team Before You Act" if query["role"] == "root" else "## Your Team"
    team = roster(files, query["agent"], config)
    if title in rest:
        start = rest.index(title) + 1
        assert sorted(rest[start : start + len(team)]) == sorted(team)
        rest[start : start + len(team)] = team
    elif not text:
        at = next(
            i for i, item in enumerate(rest) if item in ("## User Instructions", "## Project Knowledge")
        )
        rest[at:at] = MARKER.findall(config.get("system_prompt", "")) + ([title, *team] if team else [])
    return rest + environment


def _with_status_and_skills(items, *, skills):
    more = "session_status, activate_skill" if skills else "session_status"
    if items and items[-1].startswith("Your available tools:"):
        # Difference 37: a history is a tool of its own.
        tools = items[-1].replace("session_list, ", "session_list, session_history, ")
        return [*items[:-1], tools.replace(". Only use", f", {more}. Only use")]
    return [*items, f"Your available tools: {more}. Only use tools in this list."]


def _without_directory_rules(items):
    """Drop the `## User Instructions` of an internal agent, which it has for its directory only."""
    if "## User Instructions" not in items:
        return items
    start = items.index("## User Instructions")
    ends = (i for i in range(start + 1, len(items)) if items[i].startswith(("## ", "Your available")))
    return items[:start] + items[next(ends, len(items)) :]


@pytest.mark.parametrize("case", load(), ids=lambda case: f"case-{case['case']}")
def test_the_order_of_the_reference(case):
    files = files_of(case)
    for query in case["queries"]:
        target = AgentTarget(query["agent"], query["role"], query.get("working_dir", ""))
        assert sequence(prompt(files, target)) == as_designed(query["sequence"], files, query), query


@pytest.mark.parametrize("case", load(), ids=lambda case: f"case-{case['case']}")
def test_skills_that_do_not_exist_are_errors(case):
    """Difference 5: the file and the line are named."""
    files, known = files_of(case, keep_unknown=True), files_of(case)
    for name in {query["agent"] for query in case["queries"]}:
        listed, served = (config_of(source, name)[0].get("skills", []) for source in (files, known))
        if listed != served:
            with pytest.raises(LayerError, match=r"/agent\.yaml:1: skills: unknown skill"):
                prompt(files, AgentTarget(name))
