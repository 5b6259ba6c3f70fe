"""What a turn may do: the least of what was asked for, what settings allow, and what `halo trust` recorded."""

import json
import os

import msgspec
import pytest
from making import agent, skill
from playing import Player, says

from halo.models.adapter import Notice
from halo.records.messages import Message, ToolCall
from halo.sessions.access import least, tool_settings
from halo.sessions.choice import choose
from halo.sessions.desk import Desk
from halo.sessions.talk import run_talk
from halo.tools.sandbox.bubblewrap import find_bubblewrap
from halo.workspace.demands import read_demands
from halo.workspace.trust import Grants, read_grants
from halo.workspace.trust_file import record_trust

SECRET = "hunter2-correct-horse"
CHANGING = ["file_read", "file_write", "shell_exec"]
needs_bubblewrap = pytest.mark.skipif(
    bool(find_bubblewrap().problem), reason=find_bubblewrap().problem or "it works"
)


def runs(command):
    return Message("assistant", (ToolCall("c1", "shell_exec", json.dumps({"command": command})),))


class Office:
    """A workspace with an agent, and turns in it with a played model."""

    def __init__(self, ws, environ=None):
        self.ws = ws
        self.environ = {"PATH": os.environ["PATH"], **(environ or {})}
        self.shown = []
        self.seconds = 0

    def now_ns(self):
        """Every look is a second later: which session is the newest is told by its second."""
        self.seconds += 1
        return self.ws.now_ns() + self.seconds * 10**9

    def talk(self, *replies, access=None, new=True):
        player = Player(*replies, says("Done."))
        desk = Desk(self.ws.builder, self.environ, str(self.ws.home / "cache"), self.now_ns)
        desk.adapter = lambda _artifact, _target: player
        home = str(self.ws.home)
        choice = choose(
            str(self.ws.halo / "sessions"), "a", "cli", home=home, named=None, new=new, access=access
        )
        run_talk(desk, choice, "Go.", self.shown.append, frozen=False)
        return player.requests

    def trust(self):
        places = self.ws.places
        record_trust(places.home, places.workspace, read_demands(places.tree()).digests)

    @property
    def notices(self):
        return [event.text for event in self.shown if isinstance(event, Notice)]

    @property
    def told_of_trust(self):
        return [text for text in self.notices if "halo trust" in text]

    def grants(self):
        return read_grants(self.ws.places.tree(), self.ws.places.workspace, self.ws.places.home)


def tools(request):
    return {spec.name for spec in request.prefix.tools} & {*CHANGING, "web_fetch"}


def result(request):
    return request.history[-1].content[0].text


@pytest.fixture
def office(make_workspace):
    return Office(make_workspace({".halo/agents/a/agent.yaml": agent(tools=CHANGING)}).without_templates())


def test_a_workspace_that_was_never_trusted_is_only_read(office):
    requests = office.talk(runs("touch made"))
    assert tools(requests[0]) == {"file_read"}
    assert "no tool 'shell_exec'" in result(requests[1])
    assert not (office.ws.root / "made").exists()
    assert any("has no file_write, shell_exec" in n and "halo trust" in n for n in office.notices)


def test_the_prompt_says_what_is_true(office):
    office.ws.write({".halo/settings.yaml": "general: {prompt: {sections: [sandbox]}}"})
    assert "Your access level is `readonly`" in office.talk()[0].prefix.system
    office.trust()
    assert "Your access level is `readonly`" not in office.talk()[0].prefix.system


def test_a_trusted_workspace_is_worked_in(office):
    office.trust()
    requests = office.talk(runs("touch made; echo ok"))
    assert tools(requests[0]) == set(CHANGING)
    assert result(requests[1]) == "ok"
    assert (office.ws.root / "made").exists()
    assert office.told_of_trust == []


@pytest.mark.parametrize(
    "change",
    [
        {".halo/agents/a/agent.yaml": agent(tools=[*CHANGING, "web_fetch"])},
        {".halo/agents/b/agent.yaml": agent(tools=["shell_exec"])},
    ],
)
def test_a_change_of_what_is_asked_for_asks_again(office, change):
    office.trust()
    office.ws.write(change)
    assert tools(office.talk()[0]) == {"file_read"}
    office.trust()
    assert "shell_exec" in tools(office.talk()[0])


def test_trust_taken_back_is_gone(office):
    office.trust()
    record_trust(str(office.ws.home), str(office.ws.root), None)
    assert tools(office.talk()[0]) == {"file_read"}


def test_an_agent_that_only_reads_is_what_it_was(office):
    office.ws.write({".halo/agents/a/agent.yaml": agent(tools=["file_read", "grep"])})
    artifact_access = [request.prefix.fingerprint for request in office.talk()]
    office.trust()
    assert [request.prefix.fingerprint for request in office.talk()] == artifact_access
    assert office.told_of_trust == []
    pointers = office.ws.pointers()
    assert list(pointers) == ["a/root"]


def test_agents_of_the_user_need_the_workspace_to_be_trusted_too(make_workspace):
    """The prompt of a stranger's workspace may talk them into anything."""
    ws = make_workspace(
        {"global:agents/a/agent.yaml": agent(tools=CHANGING), ".halo/USER.md": "x\n"}
    ).without_templates()
    office = Office(ws)
    assert tools(office.talk()[0]) == {"file_read"}
    office.trust()
    assert tools(office.talk()[0]) == set(CHANGING)


@pytest.mark.parametrize("file", ["secrets:settings.yaml", ".halo/settings.yaml"])
def test_settings_of_either_file_lower_access(office, file):
    office.ws.write({file: "general: {tools: {access: readonly}}"})
    office.trust()
    assert tools(office.talk()[0]) == {"file_read"}
    assert tools(office.talk(access="full")[0]) == {"file_read"}
    assert office.told_of_trust == []


def test_settings_raise_nothing(office):
    office.ws.write({".halo/settings.yaml": "general: {tools: {access: full}}"})
    assert tools(office.talk(access="full")[0]) == {"file_read"}
    office.trust()
    assert tools(office.talk(access="readonly")[0]) == {"file_read"}


def test_a_session_remembers_what_was_asked_for_and_not_what_was_missing(office):
    office.talk()
    office.trust()
    assert tools(office.talk(new=False)[0]) == set(CHANGING)
    office.talk(access="readonly")
    assert tools(office.talk(new=False)[0]) == {"file_read"}
    assert tools(office.talk(new=False, access="full")[0]) == set(CHANGING)


@needs_bubblewrap
def test_at_workspace_access_commands_run_in_the_sandbox(office):
    office.ws.write({"../outside.txt": "outside\n", "inside.txt": "inside\n"})
    office.trust()
    requests = office.talk(runs(f"cat inside.txt {office.ws.root.parent}/outside.txt"), access="workspace")
    assert result(requests[1]).startswith("inside\n")
    assert "No such file" in result(requests[1])
    assert result(office.talk(runs("cat ../outside.txt"), access="full")[1]) == "outside"


@needs_bubblewrap
def test_a_folder_of_settings_is_open_or_hidden_in_the_sandbox(office):
    office.ws.write({"../cache/c": "c\n", "private/p": "p\n", "secrets:settings.yaml": (
        "general: {tools: {access: workspace, writable: [~/cache], hidden: [private]}}"
    )})  # fmt: skip
    office.trust()
    cache = office.ws.root.parent / "cache"
    linking = "ln private/p hard; ln .halo/settings.yaml hard2; ln -s private/p soft; cat hard hard2 soft"
    text = result(office.talk(runs(f"cat private/p; cat {cache}/c; echo x > {cache}/made; {linking}"))[1])
    assert "c\n" in text
    assert "private/p: No such file" in text
    assert (cache / "made").exists()
    assert "p\n" not in text.replace("private/p", "")
    assert not (office.ws.root / "hard").exists()
    assert not (office.ws.root / "hard2").exists()
    assert "hide it" in result(office.talk(reads("soft"))[1])


# What general.tools opens


OPENING = "general: {tools: {network: true, private_hosts: [wiki.lan], writable: [.git, /srv/x], hidden: [a], shell_seconds: 7}}"


def test_what_the_workspace_opens_needs_trust_and_what_it_closes_does_not(office):
    office.ws.write(
        {".halo/settings.yaml": OPENING, "secrets:settings.yaml": "general: {tools: {hidden: [b]}}"}
    )
    tree = office.ws.places.tree()
    closed = tool_settings(tree, office.grants())
    assert (closed.network, closed.private_hosts, closed.writable) == (False, (), ())
    assert (closed.hidden, closed.seconds) == (("b", "a"), 7)
    office.trust()
    opened = tool_settings(tree, office.grants())
    assert (opened.network, opened.private_hosts, opened.writable) == (
        True,
        ("wiki.lan",),
        (".git", "/srv/x"),
    )


def test_what_the_machine_opens_needs_no_trust(office):
    office.ws.write({"secrets:settings.yaml": OPENING})
    opened = tool_settings(office.ws.places.tree(), Grants())
    assert (opened.network, opened.private_hosts, opened.writable) == (
        True,
        ("wiki.lan",),
        (".git", "/srv/x"),
    )


@pytest.mark.parametrize(
    ("machine", "workspace", "untrusted", "trusted"),
    [
        *((None, None, 120, 120), (None, 7, 7, 7), (None, 600, 120, 600), (30, None, 30, 30)),
        *((30, 60, 30, 60), (30, 7.5, 7.5, 7.5), (900, 600, 600, 600), (900, 900.5, 900, 900.5)),
    ],
)
def test_a_workspace_shortens_the_time_of_commands_and_lengthens_it_when_trusted(
    office, machine, workspace, untrusted, trusted
):
    for file, seconds in (("secrets:settings.yaml", machine), (".halo/settings.yaml", workspace)):
        if seconds is not None:
            office.ws.write({file: f"general: {{tools: {{shell_seconds: {seconds}}}}}"})
    tree = office.ws.places.tree()
    assert tool_settings(tree, Grants()).seconds == untrusted
    office.trust()
    assert tool_settings(tree, office.grants()).seconds == trusted
    asked = [("shell_seconds", str(workspace))] if trusted > untrusted else []
    assert [list(demand) for demand in read_demands(tree).tools] == [list(demand) for demand in asked]


def test_a_longer_time_counts_for_commands_when_it_is_trusted(office):
    office.ws.write(
        {
            ".halo/settings.yaml": "general: {tools: {shell_seconds: 60}}",
            "secrets:settings.yaml": "general: {tools: {shell_seconds: 0.3}}",
        }
    )
    record_trust(str(office.ws.home), str(office.ws.root), _without_tools(office).digests)
    assert "killed after 0.3 seconds" in result(office.talk(runs("sleep 2; echo late"))[1])
    office.trust()
    assert result(office.talk(runs("sleep 1; echo late"))[1]) == "late"


def _without_tools(office):
    """What the workspace asks for, but for what its `general.tools` opens."""
    return msgspec.structs.replace(read_demands(office.ws.places.tree()), tools=())


# What is ignored is said

ASKING = """\
general:
  tools:
    network: true
    private_hosts: [wiki.lan, api.lan]
    writable:
      - .git
    shell_seconds: 600
"""
IGNORED = [
    "note: .halo/settings.yaml:3: general.tools.network (true) is ignored",
    "note: .halo/settings.yaml:4: general.tools.private_hosts (api.lan, wiki.lan) is ignored",
    "note: .halo/settings.yaml:5: general.tools.writable (.git) is ignored",
    "note: .halo/settings.yaml:7: general.tools.shell_seconds (600) is ignored",
]


def said_of(office, setting="general.tools."):
    return [text for text in office.notices if setting in text]


def test_what_the_workspace_would_open_and_nobody_allowed_is_said_with_file_and_line(office):
    office.ws.write({".halo/settings.yaml": ASKING})
    office.talk()
    assert [text.partition(", for")[0] for text in said_of(office)] == IGNORED
    assert all(text.endswith("to see and allow it: halo trust") for text in said_of(office))


def test_also_where_only_that_is_not_allowed(office):
    office.ws.write({".halo/settings.yaml": ASKING})
    record_trust(str(office.ws.home), str(office.ws.root), _without_tools(office).digests)
    office.talk(access="workspace")
    assert len(office.told_of_trust) == len(IGNORED) == len(said_of(office))


def test_what_is_allowed_or_open_anyway_is_not_said(office):
    office.ws.write({".halo/settings.yaml": ASKING})
    office.trust()
    office.talk()
    assert said_of(office) == []
    record_trust(str(office.ws.home), str(office.ws.root), None)
    opens = "general: {tools: {network: true, private_hosts: [wiki.lan], shell_seconds: 600}}"
    office.ws.write({"secrets:settings.yaml": opens})
    office.talk()
    assert [text.partition(" is ignored")[0] for text in said_of(office)] == [
        "note: .halo/settings.yaml:4: general.tools.private_hosts (api.lan)",
        "note: .halo/settings.yaml:5: general.tools.writable (.git)",
    ]


def test_who_only_reads_is_not_bothered_with_it(office):
    office.ws.write({".halo/settings.yaml": ASKING})
    office.talk(access="readonly")
    office.ws.write({".halo/agents/a/agent.yaml": agent(tools=["file_read"])})
    office.talk()
    assert office.told_of_trust == []


def reads(path):
    return Message("assistant", (ToolCall("c1", "file_read", json.dumps({"path": path})),))


@pytest.mark.parametrize("file", ["secrets:settings.yaml", ".halo/settings.yaml"])
def test_what_either_file_hides_no_tool_opens(office, file):
    """At every access, and without trust: it closes something."""
    office.ws.write({"private/p": "p\n", "../home-secret": "h\n", file: (
        "general: {tools: {hidden: [private, ~/home-secret]}}"
    )})  # fmt: skip
    assert "the user's settings hide it" in result(office.talk(reads("private/p"))[1])
    office.trust()
    assert "the user's settings hide it" in result(office.talk(reads("private/p"), access="full")[1])


def test_a_denied_call_is_told_with_the_rule_and_its_line(office):
    """Of the agent, of the workspace and of the machine: each rule where it stands."""
    policy = [{"tool": "shell_exec", "command": "git log*", "action": "allow"}]
    policy += [{"tool": "shell_exec", "command": "git push*", "action": "deny"}]
    lines = "policy:\n" + "".join(f"  - {json.dumps(rule)}\n" for rule in policy)
    settings = "general:\n  tools:\n    policy:\n      - {tool: shell_exec, command: rm *, action: deny}\n"
    office.ws.write(
        {
            ".halo/agents/a/agent.yaml": agent(tools=CHANGING) + lines,
            ".halo/settings.yaml": settings,
            "secrets:settings.yaml": settings.replace("rm", "dd"),
        }
    )
    office.trust()
    for command, rule in (
        ("git push origin", "`deny shell_exec git push*` (.halo/agents/a/agent.yaml:5)"),
        ("rm x", "`deny shell_exec rm *` (.halo/settings.yaml:4)"),
        ("dd x", "`deny shell_exec dd *` (secrets:settings.yaml:4)"),
    ):
        told = result(office.talk(runs(command))[1])
        assert f"shell_exec was not run: the rule {rule} speaks of it. The call: {command}." in told
    unsure = result(office.talk(runs("$x y"))[1])
    assert "cannot be told for certain, and the rule `deny shell_exec git push*`" in unsure


def test_a_bundle_opens_nothing(office):
    office.ws.write({".halo/settings.yaml": OPENING})
    office.trust()
    office.ws.write({".halo/bundle.json": "{}"})
    grants = office.grants()
    assert grants.bundled
    assert not grants.changes
    assert not tool_settings(office.ws.places.tree(), grants).network


def test_the_least_access_counts():
    assert least("full", None, None) == "full"
    assert least("full", "workspace", None) == "workspace"
    assert least("workspace", "full", "readonly") == "readonly"


# Secrets


POST = {
    ".halo/agents/a/agent.yaml": agent(tools=CHANGING, skills=["post"]),
    ".halo/agents/a/AGENT.md": "Send with {{post.params.token}} and {{a.params.pass}}.\n",
    ".halo/agents/a/config.yaml": "params: [{key: pass, secret: true}]",
    ".halo/skills/post/SKILL.md": skill(
        "Use {{params.token}} or {{post.secrets.pin}}.", name="Post", description="Posts."
    ),
    ".halo/skills/post/config.yaml": "params: [{key: token, secret: true}, {key: city}]",
    ".halo/settings.yaml": "post: {params: {token: <<POST_TOKEN>>, city: Oslo}}\n",
    "secrets:settings.yaml": "post: {secrets: {pin: pin-of-the-machine}}\na: {params: {pass: pass-of-the-machine}}\n"
    "other: {secrets: {key: key-of-another}}\n",
}
ALL = (SECRET, "pin-of-the-machine", "pass-of-the-machine")


@pytest.fixture
def post(make_workspace):
    return Office(make_workspace(POST).without_templates(), {"POST_TOKEN": SECRET})


def test_secrets_reach_commands_and_nothing_else(post, capfd):
    post.trust()
    names = "{{post.params.token}} {{ post.secrets.pin }} {{a.params.pass}}"
    requests = post.talk(
        runs(f'for s in {names}; do printf %s "$s" | wc -c; done; echo {names}; env; cat .halo/settings.yaml; '
             f"cat {post.ws.home}/secrets/settings.yaml; echo {{{{other.secrets.key}}}}")
    )  # fmt: skip
    text = result(requests[1])
    assert [int(line) for line in text.splitlines()[:3]] == [len(value) for value in ALL]
    assert "[secret post.params.token] [secret post.secrets.pin] [secret a.params.pass]" in text
    assert "{{other.secrets.key}}" in text  # no secret of this agent or its skills
    assert "key: '[secret" in text or "[secret other.secrets.key]" in text
    seen = [repr(request).encode() for request in requests] + [*map(repr_bytes, post.shown)]
    files = [p.read_bytes() for p in post.ws.halo.rglob("*") if p.is_file()]
    out, err = capfd.readouterr()
    for value in (*ALL, "key-of-another"):
        for place in (*seen, *files, out.encode(), err.encode()):
            assert value.encode() not in place


def repr_bytes(event):
    return repr(event).encode()


def test_a_stranger_gets_no_variable_and_no_secret_of_the_machine(post):
    post.trust()
    post.ws.write({".halo/settings.yaml": "post: {params: {token: <<AWS_SECRET>>}}\n"})
    post.environ["AWS_SECRET"] = SECRET
    text = result(post.talk(runs("echo {{post.params.token}}"))[1])
    assert text == "{{post.params.token}}"
    assert any("{{post.params.token}}" in n and "halo trust" in n for n in post.notices)


def test_a_skill_that_the_workspace_brings_asks_for_a_secret_of_the_machine(make_workspace):
    files = {k: v for k, v in POST.items() if k != ".halo/settings.yaml"}
    office = Office(make_workspace(files).without_templates())
    assert read_demands(office.ws.places.tree()).secrets == ("a.params.pass", "post.secrets.pin")
    own = {k.replace(".halo/", "global:") if k.startswith(".halo/") else k: v for k, v in files.items()}
    office = Office(make_workspace({**own, ".halo/USER.md": "x\n"}).without_templates())
    assert read_demands(office.ws.places.tree()).secrets == ()
    office.trust()
    assert result(office.talk(runs("printf %s {{post.secrets.pin}} | wc -c"))[1]).strip() == "18"


def test_a_variable_that_is_not_set_is_said(post):
    post.trust()
    del post.environ["POST_TOKEN"]
    assert result(post.talk(runs("echo {{post.params.token}}"))[1]) == "{{post.params.token}}"
    assert any("POST_TOKEN is not set" in n for n in post.notices)


def test_the_key_of_a_provider_is_masked_and_never_substituted(make_workspace):
    ws = make_workspace(
        {
            ".halo/agents/a/agent.yaml": agent(tools=CHANGING, skills=["openai"]),
            ".halo/skills/openai/SKILL.md": skill("x", name="O", description="O."),
            "secrets:settings.yaml": "openai: {secrets: {api_key: sk-from-settings}}\n",
        }
    ).without_templates()
    office = Office(ws, {"ANTHROPIC_API_KEY": "sk-ant-from-environment"})
    office.trust()
    ws.write({"leak.txt": "sk-from-settings sk-ant-from-environment\n"})
    text = result(office.talk(runs("echo {{openai.secrets.api_key}}; cat leak.txt"))[1])
    assert text == "{{openai.secrets.api_key}}\n[secret openai.secrets.api_key] [secret ANTHROPIC_API_KEY]"


@pytest.mark.parametrize("owner", ["post", "nobody", "openai"])
def test_masking_does_not_tell_a_stranger_what_is_in_a_variable(post, owner):
    """It would, to whoever offers all values that there could be, and looks which of them is masked."""
    post.ws.write(
        {
            ".halo/settings.yaml": f"{owner}: {{secrets: {{x: padding-<<PIN>>, api_key: padding-<<PIN>>}}}}\n",
            "all.txt": "".join(f"padding-{pin}\n" for pin in range(1230, 1240)),
        }
    )
    post.environ["PIN"] = "1234"
    reads = Message("assistant", (ToolCall("c1", "file_read", '{"path": "all.txt"}'),))
    assert "padding-1234" in result(post.talk(reads)[1])
    post.trust()
    assert ("padding-1234" in result(post.talk(reads)[1])) == (owner == "nobody")


def test_a_providers_key_that_the_workspace_names_is_masked(post):
    post.ws.write({".halo/settings.yaml": "openai: {secrets: {api_key: <<MINE>>}}\n", "a.txt": SECRET})
    post.environ["MINE"] = SECRET
    reads = Message("assistant", (ToolCall("c1", "file_read", '{"path": "a.txt"}'),))
    assert "[secret openai.secrets.api_key]" in result(post.talk(reads)[1])


@pytest.mark.parametrize(
    ("settings", "secret"),
    [
        ("general: {tools: {network: false}}\n", False),
        ("openai: {secrets: {api_key: <<KEY>>}}\npost: {params: {size: 3}}\n", False),
        ("openai: {secrets: {api_key: sk-1234}}\n", True),
        ("post: {secrets: {token: hunter22}}\n", True),
        ("general: {mcp: {servers: {s: {command: [x], env: {TOKEN: hunter22}}}}}\n", True),
        ("general: {mcp: {servers: {s: {url: 'https://x.example', headers: {A: 'Bearer <<T>>'}}}}}\n", False),
        ("general: {nonsense: 1}\n", True),
    ],
)
def test_commands_see_the_settings_unless_a_secret_stands_in_them(settings, secret):
    from making import tree

    from halo.sessions.secrets import settings_hold_secrets

    assert settings_hold_secrets(tree({".halo/settings.yaml": settings})) is secret
