"""The faults of the reference system, halo-agent 1.1.0, in what Halo has of it: none of them is here.

Each test is named by what Halo does in the place of the fault. Its docstring gives the fault's number in the list
of faults: 3.1 is what that system's own documents admit, 3.3 what running it showed, 3.4 what reading it did. The
number behind is that of the item. The tests run turns of a workspace on disk with everything real but the model;
where a room has tests of its own for the matter, the one here is short.
"""

import ast
import asyncio
import itertools
import json
import os
import re
import subprocess
import tempfile
from contextlib import aclosing
from functools import partial
from pathlib import Path

import msgspec
import pytest
from making import REPOSITORY, agent, prompt, skill, skill_prompt
from playing import Player, says
from turning import request, run_turn
from web_server import RawServer, http

from halo import SyncAgent, Workspace
from halo.compiler.compile import compile_target
from halo.errors import BusyError, HaloError, LayerError, ProviderError, UnknownNameError, UsageError
from halo.files.roots import ConfinedRoot
from halo.models.adapter import Finished, Notice, Retrying
from halo.models.anthropic_messages import AnthropicMessages
from halo.models.anthropic_wire import render as render_anthropic
from halo.models.chat_wire import COMPATIBLE, renderer
from halo.models.gemini_wire import ContentRenderer
from halo.models.rendering import Rendering
from halo.models.retrying import Patience, RetryingAdapter
from halo.records.events import TYPES, MessageAdded, TurnStarted
from halo.records.messages import Message, ToolCall, ToolResult, user
from halo.records.targets import AgentTarget, SkillTarget
from halo.records.usage import Usage
from halo.runner.context.notes import summary_message
from halo.runner.context.summarise import INSTRUCTION
from halo.sessions.choice import choose
from halo.sessions.desk import Desk
from halo.sessions.find import find_session
from halo.sessions.talk import run_talk, talk
from halo.tools.sandbox.bubblewrap import Bubblewrap, find_bubblewrap
from halo.workspace.demands import read_demands
from halo.workspace.trust_file import record_trust

# How many items each part of the list has.
LISTED = {"3.1": 8, "3.3": 23, "3.4": 18}

# What tests of other rooms show, at a length that has no place here.
ELSEWHERE = {
    "3.1, 2: no end-to-end tests": "tests/cli/test_run.py::test_the_tool_loop_runs_on_the_real_model",
    "3.1, 2: formats on disk change": (
        "tests/sessions/test_newer_versions.py::test_a_log_of_a_newer_version_is_read_and_never_written_to"
    ),
    "3.1, 6: orphans of a dead process": (
        "tests/sessions/test_folder.py::test_a_dead_turn_is_mended_once_and_for_good"
    ),
    "3.4, 15: two readers of settings": (
        "tests/workspace/test_settings_and_trust.py::TestSettings::test_the_workspace_wins_value_by_value"
    ),
    "3.1, 6: one huge exchange": "tests/sessions/test_pictures.py::test_a_picture_is_seen_recorded_and_seen_again",
}

# What is not tested yet, and why.
LATER = {
    "3.1, 4": "evolution (rollback, drafts that judge, runs that teach nothing) is not built yet",
    "3.1, 5": "`draft` asks questions and judges nothing; what judges is evolution and the goal, not built yet",
    "3.1, 6": "archives of sub-sessions: sub-sessions are not built yet",
    "3.1, 7": "cron and channels are not built yet",
    "3.1, 8": "listeners of web sockets: there is no server yet",
    "3.3, 8": "stopping a session with running children: sub-sessions are not built yet",
    "3.3, 18": "evolution is not built yet",
    "3.3, 22": "evolution is not built yet",
    "3.3, 23": "a checkout whose own tests fail: that is what CI shows of Halo's",
    "3.4, 2": "query_session and compaction by hand: sub-sessions are not built yet",
    "3.4, 4": "queues of messages are not built yet; one turn holds its session (3.4, 14)",
    "3.4, 6": "reports of children over the cap: sub-sessions and queues are not built yet",
    "3.4, 8": "targets of patches, and what approving shows: evolution is not built yet",
    "3.4, 9": "fencing and publishing: evolution is not built yet",
    "3.4, 10": "retention of runs: evolution is not built yet",
    "3.4, 18": "the goal is not built yet",
}

SECRET = "hunter2-correct-horse"
AGENT = ".halo/agents/a/agent.yaml"
BODY = ".halo/agents/a/AGENT.md"
SKILL = ".halo/skills/s/SKILL.md"
MACHINE = "secrets:settings.yaml"
READING = ["file_read", "view_image", "file_list", "grep", "glob"]
TOOLS = [*READING, "file_write", "file_edit", "shell_exec", "web_fetch"]
FILES = {
    AGENT: agent(tools=TOOLS, skills=["s"]),
    BODY: "You are a.\n",
    SKILL: skill("Do it.", name="Sums", description="adds"),
    "pkg/.halo/INSTRUCTIONS.md": "pkg rules\n",
    "a.txt": "one\n",
}
BROKEN = ProviderError("the model broke off")

needs_bubblewrap = pytest.mark.skipif(
    bool(find_bubblewrap().problem), reason=find_bubblewrap().problem or "it works"
)


class Office:
    """A workspace that the user trusts, and turns in one session of it after the other."""

    def __init__(self, ws):
        self.ws = ws.without_templates()
        self.player = Player
        self.sessions = str(ws.halo / "sessions")
        self.shown = []
        self.seconds = 0
        self.write(FILES)
        environ = {"PATH": os.environ["PATH"], "ANTHROPIC_API_KEY": SECRET, "OPENAI_API_KEY": SECRET}
        self.desk = Desk(ws.builder, environ, str(ws.home / "cache"), self.now_ns)

    def now_ns(self):
        """Every look is a second later: which session is the newest is told by its second."""
        self.seconds += 1
        return self.ws.now_ns() + self.seconds * 10**9

    def write(self, files):
        """Write files, and trust the workspace as it then is."""
        self.ws.write(files)
        places = self.ws.places
        record_trust(places.home, places.workspace, read_demands(places.tree()).digests)

    def choice(self, *, new=False, access=None):
        home = str(self.ws.home)
        return choose(self.sessions, "a", "cli", home=home, named=None, new=new, access=access)

    def run(self, message, *, show=None, **choice):
        """Run a turn with whatever model the agent has."""
        self.shown.clear()
        return run_talk(self.desk, self.choice(**choice), message, show or self.shown.append, frozen=False)

    def say(self, message, *replies, **options):
        """Run a turn whose model replies so, and return what it was asked."""
        player = self.player(*(replies or (says("Yes."),)))
        self.desk.adapter = lambda *_: player
        self.reply = self.run(message, **options)
        return player.requests

    def use(self, name, /, access=None, **arguments):
        """Return the result of one call of a tool, in a session of its own."""
        call = calling(name, **arguments)
        return results(self.say("Go.", call, says("Done."), new=True, access=access)[-1])[0]

    @property
    def notices(self):
        return "\n".join(event.text for event in self.shown if isinstance(event, Notice))

    def log(self):
        return Path(self.choice().folder.events)

    def recorded(self, kind):
        events = self.choice().folder.read_events()
        decoded = (msgspec.json.decode(e.data, type=TYPES[e.type]) for e in events)
        return [data for data in decoded if isinstance(data, kind)]


class Uncounted(Player):
    """A model whose server counts no tokens, so that Halo's estimate counts."""

    async def stream(self, request):
        async with aclosing(super().stream(request)) as events:
            async for event in events:
                yield msgspec.structs.replace(event, usage=Usage()) if isinstance(event, Finished) else event


@pytest.fixture
def office(make_workspace):
    return Office(make_workspace({}))


@pytest.fixture
def serve():
    servers = []

    def start(*replies):
        servers.append(RawServer(*replies))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def calling(name, identity="c1", /, **arguments):
    return Message("assistant", (ToolCall(identity, name, json.dumps(arguments)),))


def results(asked):
    """The results that a request ends with."""
    return [block for block in asked.history[-1].content if isinstance(block, ToolResult)]


def tools(asked):
    return {spec.name for spec in asked.prefix.tools}


def speaks(server, provider="openai", **fields):
    """An agent.yaml of a model behind a server on loopback."""
    endpoint = server.url + ("/v1" if provider == "openai" else "")
    return agent(model={"provider": provider, "id": "m", "endpoint": endpoint}, **fields)


def chat(delta, finish="stop"):
    """A streamed reply of Chat Completions."""
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return [{**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}]


def chat_call(name, **arguments):
    function = {"name": name, "arguments": json.dumps(arguments)}
    return chat(
        {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]}, "tool_calls"
    )


# The list itself


def test_every_item_of_the_list_is_here_elsewhere_or_later():
    said = [f.__doc__ or "" for name, f in globals().items() if name.startswith("test_")]
    found = {at[0] for text in (*said, *ELSEWHERE, *LATER) for at in [re.match(r"3\.\d, \d+", text)] if at}
    assert found == {f"{part}, {n}" for part, count in LISTED.items() for n in range(1, count + 1)}


@pytest.mark.parametrize("node", ELSEWHERE.values())
def test_a_test_that_stands_for_one_of_them_exists(node):
    file, *names = node.split("::")
    scope = ast.parse((REPOSITORY / file).read_text(encoding="utf-8")).body
    for name in names:
        (found,) = (n for n in scope if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and n.name == name)
        scope = found.body


# Prompts


def test_an_agent_file_about_shells_survives():
    """3.3, 11."""
    text = "awk '{print $1}' | grep \\$HOME # $ARGUMENTS $9 $10"
    assert text in prompt({AGENT: agent(), BODY: text})


def test_a_skill_about_shells_survives(office):
    """3.3, 11: where the model activates it, too."""
    text = "awk '{print $1}' | grep \\$HOME # $ARGUMENTS $9 $10"
    office.write({SKILL: skill(text, name="Shells", description="awk")})
    assert text in skill_prompt(FILES | {SKILL: skill(text)}, "s")
    assert text in office.use("activate_skill", skill_id="s").text


def test_what_every_object_has_is_no_placeholder():
    """3.3, 12."""
    text = "{{constructor}} {{toString}} {{__proto__}} {{__class__}} {{__init__}}"
    assert text in prompt({AGENT: agent(), BODY: text})


@pytest.mark.parametrize(
    ("front", "name", "description"),
    [
        ("name: s\ndescription: >\n  adds\n  numbers", "s", "adds numbers"),
        ("name: \"S one\"\ndescription: 'adds: numbers'", "S one", "adds: numbers"),
        ("name:\ndescription: adds", "s", "adds"),
    ],
)
def test_front_matter_that_is_folded_quoted_or_empty_is_read_as_yaml(front, name, description):
    """3.3, 13."""
    text = prompt({**FILES, SKILL: f"---\n{front}\n---\n\nAdd.\n"})
    assert f"<name>{name}</name>" in text
    assert f"<description>{description}</description>" in text


@pytest.mark.parametrize("role", ["root", "sub"])
@pytest.mark.parametrize("others", [{}, {".halo/INSTRUCTIONS.md": "RULES", ".halo/USER.md": "Mira."}])
def test_without_an_agent_file_system_prompt_and_roster_stay(role, others):
    """3.3, 14."""
    files = {
        AGENT: agent(system_prompt="I am SYS.", team=["b"]),
        ".halo/agents/b/agent.yaml": agent(name="Bob"),
    }
    text = prompt({**files, **others}, role=role)
    assert "I am SYS." in text
    assert "- `b` — Bob" in text


def test_the_list_of_tools_holds_the_one_that_loads_skills():
    """3.3, 15."""
    (line,) = (x for x in prompt(FILES).splitlines() if "Only use tools in this list" in x)
    assert "activate_skill" in line


def test_front_matter_gets_into_no_prompt():
    """3.3, 16."""
    text = prompt(
        {
            AGENT: agent(),
            BODY: "---\nx: leak\n---\nI serve {{user_name}}.",
            ".halo/USER.md": "---\nuser_name: Bob\nx: leak\n---\nlikes tea",
        }
    )
    assert "I serve Bob." in text
    assert "likes tea" in text
    assert not re.search(r"leak|user_name|^---\nx", text, re.MULTILINE)


def test_the_order_of_the_disk_is_not_that_of_the_prompt(office, monkeypatch):
    """3.4, 16."""
    office.write({AGENT: agent(team=["b", "c"]), **{f".halo/agents/{x}/agent.yaml": agent() for x in "bc"}})
    office.write({f".halo/prompts/all/{x}.md": x for x in ("B", "a", "1")})
    before = compile_target(office.ws.places.tree(), AgentTarget("a"))
    listed = ConfinedRoot.entries
    monkeypatch.setattr(ConfinedRoot, "entries", lambda *at: sorted(listed(*at), reverse=True))
    after = compile_target(office.ws.places.tree(), AgentTarget("a"))
    assert after.prompt == before.prompt
    assert after.manifest == before.manifest
    assert before.prompt.index("`b`") < before.prompt.index("`c`")


def test_a_session_says_what_was_in_its_prompt_and_where_it_came_from(office):
    """3.4, 16: by the id of an artifact, which has a fingerprint and names the source of every part."""
    (asked,) = office.say("Hi")
    (started,) = office.recorded(TurnStarted)
    artifact = office.ws.builder.store.load(started.artifact)
    assert artifact.manifest.fingerprint == started.fingerprint == asked.prefix.fingerprint
    assert f"workspace:{BODY}" in {segment.source for segment in artifact.manifest.segments}
    assert sum(s.end - s.start for s in artifact.manifest.segments) == len(artifact.prompt.encode())
    assert b"You are a." not in office.log().read_bytes()


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("model: [\n", 1, ""),
        ("model: {provider: openai, id: m}\ntools: file_read\n", 2, "tools"),
        ("model: {provider: openai, id: m}\nskils: [s]\n", 2, "skils"),
        ("model: {provider: openai}\n", 1, "id"),
        ("model: {provider: openai, id: m}\ntools: [file_raed]\n", 2, "file_raed"),
        ("model: {provider: openai, id: m}\nskills: [x]\n", 2, "'x'"),
        ("model: {provider: openai, id: m}\nteam: [ghost]\n", 2, "ghost"),
    ],
)
def test_a_mistyped_agent_file_is_an_error_at_its_line(text, line, said):
    """3.4, 17: names of tools, skills and members that do not exist, too."""
    with pytest.raises(LayerError) as caught:
        prompt({**FILES, AGENT: text})
    assert (caught.value.file, caught.value.line) == (f"workspace:{AGENT}", line)
    assert said in caught.value.message


def test_a_missing_agent_file_is_told_from_a_mistyped_one():
    """3.4, 17."""
    with pytest.raises(UnknownNameError, match="'a'"):
        prompt({".halo/agents/b/agent.yaml": agent()})


# Settings


def test_defaults_of_a_skill_count():
    """3.4, 15."""
    config = {".halo/skills/s/config.yaml": "params: [{key: city, default: Oslo}]\n"}
    files = {**FILES, SKILL: skill("To {{params.city}}."), **config}
    assert "To Oslo." in skill_prompt(files, "s")
    assert "To Rome." in skill_prompt({**files, ".halo/settings.yaml": "s: {params: {city: Rome}}\n"}, "s")


def test_a_model_is_looked_up_at_its_own_provider_and_anew_each_time(office):
    """3.4, 15."""
    entry = "name: X\nmodels:\n  m: {{as_of: 2026-01-01, window: {}}}\n"
    office.write({f".halo/models/{p}.yaml": entry.format(9_000) for p in ("anthropic", "deepseek")})
    for window in (50_000, 60_000):
        office.write({".halo/models/openai.yaml": entry.format(window)})
        artifact = office.desk.builder.ensure(AgentTarget("a"))
        assert artifact.manifest.runtime.context_tokens == window


def test_a_setting_counts_from_the_next_turn_of_the_same_process(office):
    """3.4, 11."""
    (before,) = office.say("Hi")
    office.write({MACHINE: "general: {disabled: {skills: [s]}, tools: {access: readonly}}\n"})
    (after,) = office.say("Hi again")
    assert {"activate_skill", "file_write"} <= tools(before)
    assert not {"activate_skill", "file_write"} & tools(after)


@needs_bubblewrap
def test_a_folder_that_settings_make_writable_is_so_in_the_command_line(office, scripted):
    """3.4, 11."""
    office.write(
        {
            "../cache/x": "",
            MACHINE: "general: {tools: {access: workspace, writable: [~/cache]}}\n",
            AGENT: speaks(scripted, tools=["shell_exec"]),
        }
    )
    assert office.ws.cli("trust", "-y").returncode == 0  # what the templates ask for is part of it here
    scripted.says_chat(*chat_call("shell_exec", command="echo kept > ~/cache/made; echo lost > ~/made"))
    scripted.says_chat(*chat({"content": "Done."}))
    done = office.ws.cli("run", "-a", "a", "Go.", OPENAI_API_KEY=SECRET)
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    user_home = office.ws.home.parent
    assert (user_home / "cache" / "made").read_text() == "kept\n"
    assert not (user_home / "made").exists()


@pytest.mark.parametrize(
    ("disabled", "files", "listed"),
    [
        ("global:s", {"global:skills/s/SKILL.md": skill("x", description="far")}, True),
        ("global:s", {}, True),
        ("workspace:s", {"global:skills/s/SKILL.md": skill("x", description="far")}, False),
        ("workspace:s", {"global:skills/s/SKILL.md": skill("x", description="far"), SKILL: None}, True),
        ("s", {}, False),
    ],
)
def test_what_is_disabled_in_one_scope_is_not_in_the_other(disabled, files, listed):
    """3.4, 7."""
    given = {k: v for k, v in {**FILES, **files}.items() if v is not None}
    text = prompt({**given, ".halo/settings.yaml": f"general: {{disabled: {{skills: ['{disabled}']}}}}\n"})
    assert ("<id>s</id>" in text) == listed


@pytest.mark.parametrize("name", ["..", "../b", "a/../../b", "/etc", "a\0", "a\\..\\b", ""])
def test_a_path_is_no_id(office, name):
    """3.4, 8; 3.1, 8."""
    for target in (AgentTarget(name), SkillTarget(name)):
        with pytest.raises(HaloError):
            compile_target(office.ws.places.tree(), target)
    with pytest.raises(UnknownNameError):
        find_session(office.sessions, name)


def test_what_comments_refer_to_is_there():
    """3.1, 3."""
    texts = [p.read_text(encoding="utf-8") for p in (REPOSITORY / "halo").rglob("*.py")]
    named = {path for text in texts for path in re.findall(r"\bdocs/\w+/[\w.-]+\.md\b", text)}
    assert len(named) > 5
    assert [path for path in sorted(named) if not (REPOSITORY / path).exists()] == []


# What the user types


def test_a_message_of_nothing_but_a_wrong_scope_is_refused_and_not_dropped(office):
    """3.3, 2."""
    with pytest.raises(UsageError, match="nope"):
        office.say("@scope nope")


@pytest.mark.parametrize("entry", ["s", "workspace:s"])
def test_a_disabled_skill_cannot_be_invoked(office, entry):
    """3.3, 3."""
    office.write({".halo/settings.yaml": f"general: {{disabled: {{skills: ['{entry}']}}}}\n"})
    with pytest.raises(UsageError, match="/s cannot be used: it is disabled"):
        office.say("/s now")


def test_an_invoked_skill_shows_no_secret_and_its_arguments_are_not_looked_into(office):
    """3.3, 4."""
    office.write(
        {
            SKILL: skill("The key is {{params.api_key}}. Do $ARGUMENTS.", name="S", description="d"),
            ".halo/skills/s/config.yaml": "params: [{key: api_key, secret: true}, {key: city}]\n",
            MACHINE: f"s: {{params: {{api_key: {SECRET}, city: Oslo}}}}\n",
        }
    )
    (asked,) = office.say("/s {{s.params.api_key}} {{s.params.city}}")
    assert "Do {{s.params.api_key}} {{s.params.city}}." in asked.history[-1].text
    assert SECRET not in repr(asked)
    assert not [p for p in office.ws.root.rglob("*") if p.is_file() and SECRET.encode() in p.read_bytes()]


def test_the_text_of_an_invoked_skill_is_not_the_users(office):
    """3.3, 5."""
    office.write({SKILL: skill("Write @scope pkg before a task.", name="S", description="d")})
    text = office.say("/s")[0].history[-1].text
    assert "Write @scope pkg before a task." in text
    assert "pkg rules" not in text


# The loop


def test_however_often_a_call_is_tried_the_message_is_sent_once(office, scripted, monkeypatch):
    """3.3, 1: after an overflow, too."""
    at_once = partial(RetryingAdapter, patience=Patience(first=0.001))
    monkeypatch.setattr("halo.sessions.desk.RetryingAdapter", at_once)
    office.write({AGENT: speaks(scripted, context={"strategies": ["truncate"]})})
    for text in ("One.", "Two."):
        scripted.says_chat(*chat({"content": text}))
        office.run(text + " word" * 2000)
    del scripted.requests[:]
    for status in (500, 429, 529):
        scripted.fails(status, {"error": {"message": "later"}})
    scripted.fails(400, {"error": {"code": "context_length_exceeded", "message": "too long"}})
    scripted.says_chat(*chat({"content": "NO_REPLY"}))  # asked for notes of what will be left out
    scripted.says_chat(*chat({"content": "Done."}))
    assert office.run("HELLO").text == "Done."
    assert len(scripted.requests) == 6
    assert [r.body.count(b"HELLO") for r in scripted.requests] == [1, 1, 1, 1, 0, 1]
    assert len(scripted.requests[5].body) < len(scripted.requests[3].body)
    assert [e.message.text for e in office.recorded(MessageAdded)].count("HELLO") == 1


def anthropic_fails(server, status, error_type, message):
    """The kind of error that an answer of Anthropic is."""
    server.fails(status, {"type": "error", "error": {"type": error_type, "message": message}})
    with pytest.raises(ProviderError) as caught:
        run_turn(AnthropicMessages(server.url, "k"), request(user("?")))
    return caught.value.kind


@pytest.mark.parametrize("message", ["This would exceed your limit of 50 requests.", "", "Wait."])
def test_a_429_of_anthropic_is_a_rate_limit_whatever_it_says(scripted, message):
    """3.4, 1: `test_however_often_a_call_is_tried_the_message_is_sent_once` shows that it is tried again."""
    assert anthropic_fails(scripted, 429, "rate_limit_error", message) == "rate_limit"


def test_a_prompt_that_is_too_long_for_anthropic_is_an_overflow(scripted):
    """3.4, 1."""
    message = "prompt is too long: 210000 tokens > 200000 maximum"
    assert anthropic_fails(scripted, 400, "invalid_request_error", message) == "overflow"


@pytest.mark.parametrize(
    "words", ["authentication", "Unauthorized", "invalid api key", "credit balance is too low"]
)
def test_words_alone_are_no_refused_key(scripted, words):
    """3.4, 1."""
    assert anthropic_fails(scripted, 529, "overloaded_error", f"{words}: try later") == "transient"
    assert anthropic_fails(scripted, 429, "rate_limit_error", f"{words}: try later") == "rate_limit"
    assert anthropic_fails(scripted, 401, "authentication_error", "x") == "auth"


def narrow(office, strategy, *tools):
    """Give the agent a window of 6,000 tokens, of which 4,800 are filled before it is shortened."""
    small = {"provider": "openai", "id": "m", "max_tokens": 500}
    context = {"max_tokens": 6000, "strategies": [strategy]}
    office.write(
        {AGENT: agent(tools=tools, model=small, context=context), "long.txt": "a line of it\n" * 200}
    )
    office.player = Uncounted


@pytest.mark.parametrize("reply", [BROKEN, says(""), calling("file_write", path="made", content="x")])
def test_a_summary_that_fails_leaves_no_trace_in_the_history(office, reply):
    """3.3, 6."""
    narrow(office, "summarise")
    office.say("word " * 3000)
    asked = office.say("word " * 2000, says("NO_REPLY"), reply, says("Hello."))
    assert asked[1].history[-1] == INSTRUCTION
    assert asked[2].history[-1].text == "word " * 2000
    assert INSTRUCTION not in asked[2].history
    assert INSTRUCTION not in [event.message for event in office.recorded(MessageAdded)]
    assert "was not summarised" in office.notices


def test_while_a_conversation_is_summed_up_no_tool_runs(office):
    """3.3, 7."""
    narrow(office, "summarise", "file_write")
    office.say("word " * 3000)
    write = calling("file_write", path="made", content="x")
    asked = office.say("word " * 2000, says("NO_REPLY"), write, says("Hello."))
    assert [r.tool_choice for r in asked] == ["none", "none", "auto"]
    assert not (office.ws.root / "made").exists()


def test_results_of_a_batch_that_the_model_has_not_seen_stay_whole(office):
    """3.4, 3."""
    narrow(office, "prune", "file_read")

    def batch(name):
        many = (calling("file_read", f"{name}{n}", path="long.txt", limit=60 + n).calls[0] for n in range(8))
        return Message("assistant", tuple(many))

    office.say("Look.", batch("a"), says("Seen."))
    asked = office.say("Once more.", batch("b"), says("Seen."))
    old, unseen = asked[-1].history[2].content, results(asked[-1])
    assert ["left out to make room" in result.text for result in old] == [True] * 3 + [False] * 5
    assert [len(result.text.splitlines()) for result in unseen] == [61 + n for n in range(8)]


@pytest.mark.parametrize(
    "render",
    [render_anthropic, renderer(COMPATIBLE), ContentRenderer("m")],
    ids=["anthropic", "chat", "gemini"],
)
def test_what_follows_a_summary_is_no_second_message_of_the_user(render):
    """3.4, 3: roles alternate in what is sent."""
    history = (summary_message("The gist."), user("And now?"), says("This."), user("Go on."))
    sent = Rendering(render).of(history).messages
    assert [m["role"] == "user" for m in sent] == [True, False, True]
    assert re.search(r"The gist\..*And now\?", str(sent[0]))


def test_a_turn_goes_on_with_the_access_that_it_began_with(office):
    """3.4, 5: a change counts from the next turn."""

    def lower(event):
        if isinstance(event, MessageAdded):
            office.write({MACHINE: "general: {tools: {access: readonly}}\n"})

    call = calling("file_write", path="made", content="x")
    first, second = office.say("Go.", call, says("Done."), show=lower)
    assert first.prefix == second.prefix
    assert not results(second)[0].is_error
    assert "file_write" not in tools(office.say("Go.")[0])


def test_a_stop_is_heard_during_the_wait_before_the_next_attempt(office, scripted):
    """3.4, 6."""
    office.write({AGENT: speaks(scripted, "anthropic")})
    scripted.fails(429, {"error": {"type": "rate_limit_error", "message": "x"}}, **{"retry-after": "100"})

    async def go():
        waits = asyncio.Event()

        def show(event):
            if isinstance(event, Retrying):
                waits.set()

        task = asyncio.create_task(talk(office.desk, office.choice(), "Go.", show, frozen=False))
        await asyncio.wait_for(waits.wait(), 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 5)

    asyncio.run(go())
    assert office.choice().folder.read().ended.reason == "interrupted"
    assert len(scripted.requests) == 1


@pytest.mark.parametrize(("bound", "calls", "reason"), [({"steps": 3}, 3, "steps"), ({"cost": 8}, 2, "cost")])
def test_a_turn_has_a_cap_of_steps_and_of_cost(office, bound, calls, reason):
    """3.4, 6. A played call costs 5."""
    prices = "[{from: 2026-01-01, currency: USD, input: 1000000, output: 1000000}]"
    models = f"name: O\nmodels:\n  m: {{as_of: 2026-01-01, prices: {prices}}}\n"
    office.write({AGENT: agent(tools=["glob"], budgets={"turn": bound}), ".halo/models/openai.yaml": models})
    asked = office.say("Go.", *(calling("glob", pattern=f"{n}*") for n in range(9)))
    assert len(asked) == calls
    assert office.reply.reason == reason


def test_the_next_turn_sees_what_was_edited_since(office):
    """3.1, 6."""
    office.say("First.")
    office.write({BODY: "You sing.\n"})
    (asked,) = office.say("Second.")
    assert "You sing." in asked.prefix.system
    assert [m.text for m in asked.history] == ["First.", "Yes.", "Second."]


def test_a_provider_that_nobody_built_in_is_an_adapter_of_ones_own(office):
    """3.1, 2."""
    with SyncAgent.load(
        Workspace(office.ws.root, environ=office.ws.environ()), "a", adapter=Player(says("Mine."))
    ) as mine:
        assert mine.generate_text("Hi").text == "Mine."


# Sessions


def test_the_log_of_a_session_is_only_ever_added_to(office):
    """3.4, 14."""
    office.say("First.")
    before = office.log().read_bytes()
    office.say("Second.")
    assert office.log().read_bytes().startswith(before)
    assert before


def test_damage_in_a_session_is_told_and_not_written_over(office):
    """3.4, 14."""
    office.say("First.")
    office.log().with_name("session.json").write_text("{")
    damaged = office.log().read_bytes().replace(b"Yes.", b"No!.")
    office.log().write_bytes(damaged)
    (asked,) = office.say("Second.")
    assert [m.text for m in asked.history] == ["First.", "Second."]
    assert "is damaged and goes on without" in office.notices
    assert office.log().read_bytes().startswith(damaged)
    assert json.loads(office.log().with_name("session.json").read_text())["turns"] == 2


def test_two_turns_do_not_mix_in_one_session(office):
    """3.4, 14; 3.4, 4."""
    office.say("First.")
    with office.choice().open(office.now_ns), pytest.raises(BusyError):
        office.say("Second.")
    assert b"Second." not in office.log().read_bytes()


def test_a_session_is_never_carried_on_by_another_agent(office, scripted):
    """3.4, 12."""
    office.write({f".halo/agents/{x}/agent.yaml": speaks(scripted, system_prompt=f"I am {x}.") for x in "ab"})
    office.ws.write({".halo/USER.md": "Mira."})
    for who in "ab":
        scripted.says_chat(*chat({"content": who}))
        assert office.ws.cli("run", "-a", who, "Hi.", OPENAI_API_KEY=SECRET).stdout == f"{who}\n"
    messages = [r.json["messages"] for r in scripted.requests]
    assert [m[0]["content"].split("\n")[0] for m in messages] == ["## User Profile"] * 2
    assert ["You are a." in m[0]["content"] for m in messages] == [True, False]
    assert [len(m) for m in messages] == [2, 2]


# Tools


def test_what_a_replacement_would_mean_elsewhere_is_text(office):
    """3.3, 9."""
    new = r"$& $$ $` $' $1 \1 \g<0> \n"
    assert not office.use("file_edit", path="a.txt", old_string="one", new_string=new).is_error
    assert (office.ws.root / "a.txt").read_text() == f"{new}\n"


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("?b.c", "ab.c"),
        ("ab?.c", "abc.c"),
        ("f(1)+.c", "f(1)+.c"),
        ("$x^.c", "$x^.c"),
        ("a.?", "a.c"),
        ("x|y.c", "x|y.c"),
    ],
)
def test_in_a_glob_only_what_globs_have_is_special(office, pattern, found):
    """3.3, 10."""
    office.write(
        dict.fromkeys(("a.c", "ab.c", "abc.c", "f(1)+.c", "ff.c", "$x^.c", "axc", "x|y.c", "y.c"), "")
    )
    assert office.use("glob", pattern=pattern).text == found


@pytest.mark.parametrize("access", ["full", pytest.param("workspace", marks=needs_bubblewrap)])
def test_a_long_output_neither_kills_a_command_nor_looks_like_a_timeout(office, access):
    """3.3, 17."""
    command = "head -c 6000000 /dev/zero | tr '\\0' x; echo; echo the end; exit 3"
    text = office.use("shell_exec", access, command=command).text
    assert "bytes of output beyond the first 5 MiB of a stream were not kept" in text
    assert text.endswith("[exit code 3]")
    assert "killed" not in text


@needs_bubblewrap
def test_a_workspace_below_tmp_is_seen_and_written_to(office):
    """3.3, 19."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="halo-test-") as folder:
        there = Office(type(office.ws)(Path(folder)))
        assert there.use("shell_exec", "workspace", command="cat a.txt; echo two > made").text == "one"
        assert (there.ws.root / "made").read_text() == "two\n"
        assert there.use("file_read", "readonly", path="made").text == "1\ttwo"
        assert there.use("shell_exec", "readonly", command="echo three > made").is_error
        assert (there.ws.root / "made").read_text() == "two\n"


@pytest.mark.parametrize("access", ["full", "workspace", "readonly"])
def test_no_search_tells_the_names_of_sessions(office, access):
    """3.3, 20; 3.1, 8."""
    office.say("A word that is told.")
    for name, arguments in {
        "glob": {"pattern": "**", "path": ".halo"},
        "grep": {"pattern": "told", "path": ".halo"},
        "file_list": {"path": ".halo", "recursive": True},
    }.items():
        text = office.use(name, access, **arguments).text
        assert "told" not in text.replace("'told'", "")
        assert "events.jsonl" not in text
        assert office.choice().folder.id not in text


def test_a_search_starts_no_process_for_each_file(office, monkeypatch):
    """3.3, 21."""
    office.write({f"many/{n}.txt": f"needle {n}\n" for n in range(150)})
    started = []
    start = subprocess.Popen.__init__

    def counted(self, *arguments, **options):
        started.append(arguments)
        start(self, *arguments, **options)

    monkeypatch.setattr(subprocess.Popen, "__init__", counted)
    text = office.use("grep", "workspace", pattern="needle 1..", path="many").text
    assert len(text.splitlines()) == 50
    assert 1 <= len(started) <= 3


@needs_bubblewrap
def test_a_large_file_is_written_whatever_the_system_lets_arguments_be(office):
    """3.4, 13."""
    content = "x" * (4 << 20)
    write, count = calling("file_write", "w", path="big", content=content), "wc -c < big"
    asked = office.say(
        "Go.", write, calling("shell_exec", "c", command=count), says("Done."), access="workspace"
    )
    assert not results(asked[1])[0].is_error
    assert results(asked[2])[0].text == str(4 << 20)


def test_a_download_ends_at_the_cap_while_it_comes_in(office, serve):
    """3.4, 13."""
    head = http(content_type="text/plain", content_length=10**12)
    server = serve(itertools.chain(head, itertools.repeat(b"x" * 65536)))
    office.write({MACHINE: "general: {tools: {private_hosts: [127.0.0.1]}}\n"})
    text = office.use("web_fetch", url=server.url).text
    assert text.endswith("x\n... [cut: only the first 50 KiB were fetched]")
    assert server.sent < 8 << 20  # what the system had buffered


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "2130706433"])
def test_no_private_address_is_fetched(office, serve, host):
    """3.4, 13."""
    server = serve(http(b"inside"))
    refused = office.use("web_fetch", url=f"http://{host}:{server.port}/")
    assert refused.is_error
    assert "is not on the public internet" in refused.text
    assert server.requests == []


def test_a_session_that_only_reads_fetches_nothing(office):
    """3.4, 13."""
    assert "web_fetch" not in tools(office.say("Hi", access="readonly")[0])


@needs_bubblewrap
def test_commands_in_the_sandbox_have_no_network(office, serve):
    """3.1, 1."""
    server = serve(http())
    command = f"(exec 3<>/dev/tcp/127.0.0.1/{server.port}) 2>/dev/null && echo in || echo out"
    assert office.use("shell_exec", "full", command=command).text == "in"
    assert office.use("shell_exec", "workspace", command=command).text == "out"


def test_without_bubblewrap_files_are_confined_and_commands_refused(office, monkeypatch):
    """3.1, 1."""
    missing = Bubblewrap(problem="bubblewrap is not installed: install it")
    monkeypatch.setattr("halo.tools.sandbox.bubblewrap.find_bubblewrap", lambda: missing)
    refused = office.use("shell_exec", "workspace", command="touch made")
    assert refused.is_error
    assert "install it" in refused.text
    assert not (office.ws.root / "made").exists()
    assert not office.use("file_write", "workspace", path="made", content="x").is_error
    assert office.use("file_read", "workspace", path="../home/machine.key").is_error


@pytest.mark.parametrize("access", ["full", "workspace"])
def test_an_internal_agent_is_confined_like_any_other(office, access):
    """3.4, 8."""
    office.write({AGENT: agent(tools=TOOLS, internal=True), "../outside": "x"})
    outside = str(office.ws.root.parent / "outside")
    assert office.use("file_read", access, path=outside).is_error
    assert office.use("file_write", access, path=outside, content="y").is_error
    assert Path(outside).read_text() == "x"


@pytest.mark.parametrize("data", [b"", b"no picture", b"\x89PNG\r\n\x1a\n" + b"\0" * 50, b"GIF89a"])
def test_a_bad_picture_does_not_brick_a_session(office, data):
    """3.1, 8."""
    (office.ws.root / "a.png").write_bytes(data)
    asked = office.say("Look.", calling("view_image", path="a.png"), says("It is broken."))
    assert results(asked[1])[0].is_error
    (later,) = office.say("And now?")
    assert not [i for m in later.history for b in m.content if isinstance(b, ToolResult) for i in b.images]
