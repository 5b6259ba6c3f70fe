"""Pinned sessions: one artifact for every turn, bounded by what is allowed today, kept by `halo gc`."""

import shutil

import pytest
from long_talk import LongOffice, Speaker, call, files
from making import agent

from halo.build.sweeping import carry_out, plan_sweep
from halo.errors import ArtifactError, ModelFileError, UsageError
from halo.records.events import ToolResultAdded, TurnStarted
from halo.records.session_events import ArtifactChanged, SessionChanged
from halo.records.targets import AgentTarget
from halo.sessions.long.pinning import pin, unpin
from halo.workspace.demands import read_demands
from halo.workspace.trust_file import record_trust

AGENT = ".halo/agents/a/AGENT.md"
YAML = ".halo/agents/a/agent.yaml"
DAY = 24 * 3600 * 10**9


@pytest.fixture
def office(make_workspace):
    return LongOffice(make_workspace(files(tools=("file_read", "grep"))).without_templates())


def pinned(office, named=""):
    with office.folder.open(office.desk.now_ns) as session:
        return pin(office.desk.builder, session, named, "user").id


def test_turns_of_a_pinned_session_run_from_its_artifact_whatever_the_layers_say(office):
    office.say(Speaker("Yes."))
    identity = pinned(office)
    office.ws.write({AGENT: "You are another one.\n"})
    speaker = Speaker("Yes.")
    office.say(speaker)
    assert [d.artifact for d in office.data(TurnStarted)] == [identity, identity]
    assert "You are a." in speaker.requests[0].prefix.system
    assert office.data(ArtifactChanged) == []
    with office.folder.open(office.desk.now_ns) as session:
        assert unpin(session, "user") == identity
        assert unpin(session, "user") == ""
    office.say(Speaker("Yes."))
    assert len(office.data(ArtifactChanged)) == 1
    assert [d.value for d in office.data(SessionChanged)] == [identity, ""]


def test_layers_that_are_broken_do_not_reach_it(office):
    office.say(Speaker("Yes."))
    pinned(office)
    office.ws.write({".halo/agents/a/fewshots/a.yaml": "- nobody: said this\n"})
    assert office.say(Speaker("Yes.")).text == "Yes."


def test_any_artifact_of_the_agent_may_be_named_by_its_first_digits(office):
    office.say(Speaker("Yes."))
    (first,) = office.data(TurnStarted)
    office.ws.write({AGENT: "You are another one.\n"})
    office.say(Speaker("Yes."))
    assert pinned(office, first.artifact[:12]) == first.artifact
    office.say(Speaker("Yes."))
    assert office.data(TurnStarted)[-1].artifact == first.artifact


def test_what_cannot_be_pinned_is_refused_and_nothing_is_recorded(office):
    office.say(Speaker("Yes."))
    office.ws.write({".halo/agents/b/agent.yaml": agent(), ".halo/agents/b/AGENT.md": "B.\n"})
    other = office.desk.builder.ensure(AgentTarget("b")).id
    for named, why in (
        ("abc", "names no artifact"),
        ("not hex!", "names no artifact"),
        ("../../../etc", "names no artifact"),
        ("0" * 12, "there is no artifact"),
        (other, "the session is with agent 'a'"),
    ):
        with pytest.raises(UsageError, match=why):
            pinned(office, named)
    assert office.data(SessionChanged) == []


def test_a_session_without_a_turn_has_nothing_to_be_pinned_to(office):
    with (
        office.choose().open(office.desk.now_ns) as session,
        pytest.raises(UsageError, match="no turn has run"),
    ):
        pin(office.desk.builder, session, "", "user")


def test_an_artifact_that_is_gone_is_an_error_that_says_what_to_do(office):
    office.say(Speaker("Yes."))
    identity = pinned(office)
    for path in (office.ws.halo / "artifacts" / identity).iterdir():
        path.unlink()
    (office.ws.halo / "artifacts" / identity).rmdir()
    with pytest.raises(ArtifactError, match=r"pinned to artifact [0-9a-f]{12}") as caught:
        office.say(Speaker("Yes."))
    assert "halo session unpin" in caught.value.hint
    assert len(office.data(TurnStarted)) == 1  # what cannot start leaves no trace


def test_gc_keeps_what_sessions_are_pinned_to(office):
    office.say(Speaker("Yes."))
    first = office.data(TurnStarted)[0].artifact
    office.ws.write({AGENT: "You are another one.\n"})
    second = office.desk.builder.ensure(AgentTarget("a")).id
    office.ws.write({AGENT: "You are a third one.\n"})
    third = office.desk.builder.ensure(AgentTarget("a")).id
    office.ws.write({AGENT: "You are the last one.\n"})
    office.desk.builder.ensure(AgentTarget("a"))
    pinned(office, second)
    builder = office.desk.builder
    builder.now_ns = lambda: 2_000_000_000_000_000_000
    gone = carry_out(builder, plan_sweep(builder)).artifacts
    assert set(gone) == {third}
    assert builder.store.load(first).id == first
    assert builder.store.load(second).id == second


# What it may do.


def test_less_access_than_its_own_bounds_its_tools(office):
    office.ws.write(files(tools=("file_read", "file_write")))
    trusted(office)
    office.say(Speaker("Yes."))
    pinned(office)
    speaker = Speaker(call("c", "file_write", path="x.txt", content="x"), "No.")
    office.say(speaker, access="readonly")
    assert "file_write" in {tool.name for tool in speaker.requests[0].prefix.tools}
    assert office.data(ToolResultAdded)[-1].result.is_error
    assert not (office.ws.root / "x.txt").exists()
    assert "note: file_write will be refused: this turn has readonly access" in office.notices


def trusted(office):
    places = office.desk.builder.places
    record_trust(places.home, places.workspace, read_demands(places.tree()).digests)


def test_a_tool_that_the_agent_has_lost_since_is_not_used(office):
    office.ws.write(files(tools=("file_read", "file_write")))
    trusted(office)
    office.say(Speaker("Yes."))
    pinned(office)
    speaker = Speaker(call("c", "file_write", path="x.txt", content="x"), "Written.")
    office.say(speaker)
    assert (office.ws.root / "x.txt").exists()
    office.ws.write(files(tools=("file_read",)))
    trusted(office)
    speaker = Speaker(call("d", "file_write", path="y.txt", content="y"), "No.")
    office.say(speaker)
    assert not (office.ws.root / "y.txt").exists()
    assert office.data(ToolResultAdded)[-1].result.is_error
    assert any("only reads here: a has no file_write by now" in notice for notice in office.notices)


def test_rules_of_today_hold_beside_its_own(office):
    office.ws.write(files(tools=("file_read", "file_write")))
    trusted(office)
    office.say(Speaker("Yes."))
    pinned(office)
    denied = (
        files(tools=("file_read", "file_write"))[YAML]
        + 'policy: [{"tool": "file_write", "action": "deny"}]\n'
    )
    office.ws.write({YAML: denied})
    trusted(office)
    office.say(Speaker(call("d", "file_write", path="y.txt", content="y"), "No."))
    assert not (office.ws.root / "y.txt").exists()


def test_a_model_file_that_is_not_the_agents_today_is_not_loaded(office):
    office.say(Speaker("Yes."))
    made = agent(name="Ada", model={"provider": "local", "id": "models/strange.gguf"})
    usual = office.ws.path(YAML).read_text()
    office.ws.write({YAML: made})
    strange = office.desk.builder.ensure(AgentTarget("a")).id
    office.ws.write({YAML: usual})
    pinned(office, strange)
    with pytest.raises(ModelFileError, match=r"strange\.gguf"):
        office.say(Speaker("Yes."))


def test_skills_are_those_of_the_present_and_one_that_is_gone_is_told(office):
    with_skill = files()[YAML] + "skills: [greet]\n"
    office.ws.write(
        {YAML: with_skill, ".halo/skills/greet/SKILL.md": "---\nname: Greet\ndescription: d\n---\nOld.\n"}
    )
    office.say(Speaker("Yes."))
    pinned(office)
    office.ws.write({".halo/skills/greet/SKILL.md": "---\nname: Greet\ndescription: d\n---\nNew.\n"})
    office.say(Speaker(call("s", "activate_skill", skill_id="greet"), "Yes."))
    assert "New." in office.data(ToolResultAdded)[-1].result.text
    shutil.rmtree(office.ws.halo / "skills")
    office.ws.write({YAML: files()[YAML]})
    assert office.say(Speaker("Yes.")).text == "Yes."
    assert any("knows skill greet, which is not there" in notice for notice in office.notices)


def test_a_model_that_was_set_is_not_used_and_that_is_told(office):
    office.say(Speaker("Yes."))
    pinned(office)
    with office.folder.open(office.desk.now_ns) as session:
        session.append(SessionChanged("model", "=openai/gpt-z", "user"), turn=0)
    speaker = Speaker("Yes.")
    office.say(speaker)
    assert speaker.requests[0].binding.model == "gpt-x"
    assert any("is not used: the session is pinned" in notice for notice in office.notices)
