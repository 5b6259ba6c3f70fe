"""The prompt changes between turns: recorded with the first difference and what it costs, told once."""

import msgspec
import pytest
from long_talk import LongOffice, Speaker, call, files

from halo.records.events import TurnStarted
from halo.records.session_events import ArtifactChanged, SessionChanged
from halo.sessions.long.changes import notice_of

AGENT = ".halo/agents/a/AGENT.md"
MINUTE = 60 * 10**9
LONG = "\n".join(f"Rule {n} of the harbour is kept by everyone who comes in." for n in range(200))


@pytest.fixture
def office(make_workspace):
    return LongOffice(make_workspace(files(100_000, body=LONG)).without_templates())


def changes(office):
    return office.data(ArtifactChanged)


def told(office):
    return [n for n in office.notices if "not the one of the last turn" in n]


def test_a_change_is_an_event_of_the_turn_with_the_first_difference_and_the_cached_tokens_lost(office):
    office.say(Speaker("Yes."))
    office.ws.write({AGENT: LONG.replace("Rule 150 of", "Rule 150 (new) of") + "\n"})
    office.say(Speaker("Yes."))
    (event,) = changes(office)
    first, second = office.data(TurnStarted)
    assert (event.before, event.after) == (first.artifact, second.artifact)
    assert event.first == "segment agent (workspace:.halo/agents/a/AGENT.md:151)"
    kinds = [(e.type, e.turn) for e, _ in office.recorded()]
    assert kinds[kinds.index(("artifact.changed", 2)) - 1] == ("turn.started", 2)
    # A quarter of the text stands behind it; in front of it everything is found again.
    assert 700 < event.tokens_lost < 1_900
    lost = f"about {event.tokens_lost:,} cached tokens are lost"
    assert told(office) == [f"note: the prompt is not the one of the last turn: {event.first}; {lost}"]


def test_it_is_told_once_and_not_as_a_loss_of_the_cache_too(office):
    """The watch of the cache speaks of equal fingerprints alone: nothing is said twice."""
    office.say(Speaker("Yes."))
    office.ws.write({AGENT: f"New.\n{LONG}\n"})
    office.say(Speaker("Yes."))
    assert told(office) == office.notices
    # Only now, with the same fingerprint and nothing read, the watch has something to say.
    office.say(Speaker("Yes."))
    assert len(changes(office)) == len(told(office)) == 1
    assert "although the fingerprint is the same" in office.notices[-1]


def test_nothing_changed_is_nothing(office):
    for _ in range(3):
        office.say(Speaker("Yes."))
    assert changes(office) == []
    assert told(office) == []


@pytest.mark.parametrize(
    ("fields", "first"),
    [
        ({"tools": ("file_read",)}, "tools: removed grep"),
        ({"tools": ("file_read", "grep", "glob")}, "tools: added glob"),
    ],
)
def test_tools_stand_first_in_a_request_so_all_is_lost_behind_them(office, fields, first):
    """Complaint 47: another list of tools is no hit at all; what differs first is named."""
    office.say(Speaker("Yes."))
    held = office.folder.read().last_call.reported.usage.prompt
    office.ws.write(files(100_000, body=LONG, **fields))
    office.say(Speaker("Yes."))
    (event,) = changes(office)
    assert event.first == first
    assert held - 128 <= event.tokens_lost <= held


def test_another_model_has_a_cache_of_its_own(office):
    office.say(Speaker("Yes."))
    made = files(100_000, body=LONG)[".halo/agents/a/agent.yaml"].replace("gpt-x", "gpt-y")
    office.ws.write({".halo/agents/a/agent.yaml": made})
    office.say(Speaker("Yes."))
    assert changes(office)[0].first == "the model: openai/gpt-y was openai/gpt-x"


def test_few_shots_are_compared_last(office):
    office.ws.write({".halo/agents/a/fewshots/a.yaml": "- user: Hi\n- assistant: Hello\n"})
    office.say(Speaker("Yes."))
    office.ws.write({".halo/agents/a/fewshots/a.yaml": "- user: Hi\n- assistant: Good day\n"})
    office.say(Speaker("Yes."))
    assert changes(office)[0].first.startswith("few-shots, message 2: ")


def test_a_cache_that_was_cold_anyway_loses_nothing(office):
    office.say(Speaker("Yes."))
    office.desk.now_ns.ns += 60 * MINUTE
    office.ws.write({AGENT: f"New.\n{LONG}\n"})
    office.say(Speaker("Yes."))
    (event,) = changes(office)
    assert event.tokens_lost == 0
    assert "lost" not in told(office)[0]


def test_what_the_model_is_not_told_is_recorded_and_not_shown(office):
    office.say(Speaker("Yes."))
    office.ws.write(files(90_000, body=LONG))
    office.say(Speaker("Yes."))
    (event,) = changes(office)
    assert event.first == "nothing that the model is told"
    assert event.tokens_lost == 0
    assert told(office) == []
    assert notice_of(event) == ""


def test_an_artifact_that_is_gone_does_not_keep_a_turn_from_running(office):
    office.say(Speaker("Yes."))
    (started,) = office.data(TurnStarted)
    office.ws.write({AGENT: f"New.\n{LONG}\n"})
    for path in (office.ws.halo / "artifacts" / started.artifact).iterdir():
        path.unlink()
    office.say(Speaker("Yes."))
    assert changes(office)[0].first == "the artifact before is not here any more"


def test_the_transcript_tells_of_it(office):
    office.say(Speaker("Yes."))
    office.ws.write({AGENT: f"New.\n{LONG}\n"})
    office.say(Speaker("Yes."))
    transcript = next((office.ws.halo / "sessions").rglob("transcript.md")).read_text()
    after = transcript.partition("## Turn 2")[2]
    assert "*the prompt is another one from here on: segment agent" in after


def test_a_turn_keeps_its_artifact_whatever_happens_meanwhile(office):
    class Writing(Speaker):
        async def stream(self, request):
            office.ws.write({AGENT: "Changed while it spoke.\n"})
            async for event in super().stream(request):
                yield event

    speaker = Writing(call("c", "file_read", path=AGENT), "Yes.")
    office.say(speaker)
    one, two = speaker.requests
    assert one.prefix == two.prefix
    assert office.data(SessionChanged) == []
    assert msgspec.json.encode(one.prefix) == msgspec.json.encode(two.prefix)
