"""Records on disk: JSON Schemas that fit what is written, encodings that come back, unknown types kept."""

import json
from typing import Any

import fastjsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from making import agent, skill

from halo.build.whole import survey
from halo.files.canonical import canonical_json, readable_json
from halo.records import artifacts, events, incoming, messages, session_events, tools
from halo.records.damage import DamageReport, Lost
from halo.records.diagnostics import Diagnostic
from halo.records.headers import Header
from halo.records.origins import Origin
from halo.records.schemas import RECORDS, json_schema
from halo.records.stops import Stop
from halo.records.targets import AgentTarget, ScopeTarget, SkillTarget, Target
from halo.records.usage import Usage

TEXT = st.text(max_size=8)
COUNT = st.integers(0, 10**9)
_PROVIDER_DATA = st.none() | st.builds(
    messages.ProviderData, TEXT, st.dictionaries(TEXT, st.none() | st.booleans() | COUNT | TEXT, max_size=2)
)
BLOCKS = st.one_of(
    st.builds(messages.Text, TEXT, _PROVIDER_DATA),
    st.builds(messages.Thinking, TEXT, _PROVIDER_DATA),
    st.builds(messages.ToolCall, TEXT, TEXT, TEXT, _PROVIDER_DATA),
    st.builds(messages.Image, TEXT, TEXT),
    st.builds(
        messages.ToolResult,
        TEXT,
        TEXT,
        st.booleans(),
        st.just(()) | st.tuples(st.builds(messages.Image, TEXT, TEXT)),
    ),
)
MESSAGES = st.builds(
    messages.Message,
    st.sampled_from(["user", "assistant"]),
    st.lists(BLOCKS, min_size=1, max_size=3).map(tuple),
)
USAGES = st.builds(Usage, COUNT, COUNT, COUNT, COUNT)
DATA = st.one_of(
    st.builds(
        session_events.SessionCreated,
        TEXT,
        st.builds(session_events.SessionTarget, TEXT, TEXT, TEXT, TEXT, TEXT, TEXT, TEXT),
        TEXT,
        TEXT,
    ),
    st.builds(
        events.TurnStarted,
        TEXT,
        TEXT,
        st.dictionaries(TEXT, TEXT, max_size=2),
        st.dictionaries(TEXT, TEXT, max_size=2),
    ),
    st.builds(events.MessageAdded, MESSAGES, st.booleans()),
    st.builds(events.ToolResultAdded, st.builds(messages.ToolResult, TEXT, TEXT), TEXT, COUNT, st.booleans()),
    st.builds(
        events.UsageReported, TEXT, TEXT, USAGES, TEXT, TEXT, COUNT, COUNT, st.none() | st.just(0.25), TEXT
    ),
    st.builds(
        events.ContextShortened,
        TEXT,
        st.tuples(st.builds(events.Edit, COUNT, COUNT, st.tuples(MESSAGES))),
        COUNT,
        COUNT,
        TEXT,
    ),
    st.builds(events.Repaired, TEXT, TEXT, TEXT, TEXT, TEXT),
    st.builds(
        events.TurnEnded, st.sampled_from(["done", "max_tokens", "steps", "error", "interrupted"]), TEXT
    ),
)
TARGETS = st.one_of(
    st.builds(AgentTarget, TEXT, st.sampled_from(["root", "sub"]), TEXT, st.sampled_from(["full", "none"])),
    st.builds(SkillTarget, TEXT),
    st.builds(ScopeTarget, TEXT),
)
SENDERS = st.builds(
    incoming.Sender, TEXT, access=st.sampled_from(["full", "workspace", "readonly"]), owner=st.booleans()
)
ORIGINS = st.none() | st.builds(Origin, TEXT, TEXT, sender=TEXT)
VALUES: dict[str, tuple[Any, Any]] = {
    "session-header": (
        Header,
        st.builds(
            Header,
            format=st.just(1),
            id=TEXT,
            agent=TEXT,
            target=st.none() | st.builds(session_events.SessionTarget, TEXT, TEXT),
            origin=TEXT,
            title=TEXT,
            created_at=TEXT,
            updated_at=TEXT,
            seq=COUNT,
            turns=COUNT,
            model=TEXT,
            artifact=TEXT,
            usage=USAGES,
            log_bytes=COUNT,
            key=TEXT,
            source=ORIGINS,
            settings=st.dictionaries(TEXT, TEXT, max_size=2),
            cost=st.sampled_from([0.0, 0.25]),
        ),
    ),
    "incoming": (
        incoming.Incoming,
        st.builds(
            incoming.Incoming, st.just(1), TEXT, TEXT, TEXT, SENDERS, TEXT, COUNT, st.booleans(), ORIGINS
        ),
    ),
    "stop": (Stop, st.builds(Stop, st.just(1), TEXT, TEXT)),
    "damage": (
        DamageReport,
        st.builds(
            DamageReport,
            st.just(1),
            TEXT,
            COUNT,
            st.lists(st.builds(Lost, TEXT, COUNT, COUNT, COUNT, TEXT, TEXT, COUNT), max_size=2).map(tuple),
        ),
    ),
    "message": (messages.Message, MESSAGES),
    "block": (messages.Block, BLOCKS),
    "usage": (Usage, USAGES),
    "diagnostic": (
        Diagnostic,
        st.builds(Diagnostic, TEXT, st.sampled_from(["info", "warning", "error"]), TEXT, TEXT, COUNT),
    ),
    "target": (Target, TARGETS),
    "tool-spec": (tools.ToolSpec, st.sampled_from([*tools.BUILTIN_TOOLS, tools.activate_skill(("a", "b"))])),
}
CHECKS = {name: fastjsonschema.compile(json_schema(name)) for name in RECORDS}


@pytest.mark.parametrize("name", VALUES)
@given(data=st.data())
def test_a_value_fits_its_schema_and_comes_back(name, data):
    kind, strategy = VALUES[name]
    value = data.draw(strategy)
    encoded = canonical_json(value)
    CHECKS[name](json.loads(encoded))
    assert msgspec.json.decode(encoded, type=kind) == value
    assert msgspec.json.decode(readable_json(value), type=kind) == value


@pytest.mark.parametrize("name", RECORDS)
def test_a_schema_refuses_what_is_no_record(name):
    for wrong in (None, 7, "text", [1]):
        with pytest.raises(fastjsonschema.JsonSchemaValueException):
            CHECKS[name](wrong)


@given(DATA, COUNT)
def test_event_data_fits_the_schema_of_its_type(data, seq):
    """The envelope tells the types apart, not a tag."""
    kind = events.NAMES[type(data)]
    raw = msgspec.Raw(msgspec.json.encode(data))
    event = events.Event(events.FORMAT, seq, "2026-10-02T14:30:12.000Z", kind, 1, raw)
    line = msgspec.json.encode(event)
    CHECKS["event"](json.loads(line))
    CHECKS["event-data"]({kind: json.loads(line)["data"]})
    again = msgspec.json.decode(line, type=events.Event)
    assert msgspec.json.decode(again.data, type=events.TYPES[again.type]) == data


def test_every_type_has_one_name():
    assert {events.TYPES[name]: name for name in events.TYPES} == events.NAMES
    assert set(events.TYPES) == {
        "session.created",
        "turn.started",
        "message",
        "tool.result",
        "usage",
        "usage.lost",
        "turn.ended",
        "context.shortened",
        "repaired",
        "session.changed",
        "session.rolled_over",
        "artifact.changed",
        "child.started",
        "child.removed",
        "report.sent",
        "delivery.due",
        "delivery",
        "memory.flushed",
        "compaction.failed",
        "answer.taken",
    }


_JSON = st.recursive(
    st.none() | st.booleans() | COUNT | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
)


@given(TEXT.filter(lambda name: name not in events.TYPES), _JSON)
def test_an_event_of_an_unknown_type_is_kept_as_it_is(kind, data):
    """Written by a newer version: read, and written again, byte for byte."""
    line = json.dumps(
        {"format": 1, "seq": 1, "ts": "t", "type": kind, "turn": 0, "data": data}, ensure_ascii=False
    ).encode()
    event = msgspec.json.decode(line, type=events.Event)
    assert event.type == kind
    assert json.loads(bytes(event.data)) == data
    assert json.loads(msgspec.json.encode(event)) == json.loads(line)


def test_fields_that_a_newer_version_added_do_not_hinder_reading():
    data = msgspec.json.decode(b'{"reason": "done", "mood": "fine"}', type=events.TurnEnded)
    assert data == events.TurnEnded("done")


FILES = {
    ".halo/agents/a/agent.yaml": agent(
        skills=["s"], team=["a"], tools=["grep"], model={"provider": "local", "id": "m", "seed": 7}
    ),
    ".halo/agents/a/AGENT.md": "{{now}} {{nothing}} {{s.params.k}}",
    ".halo/skills/s/SKILL.md": skill("STEPS {{args}}"),
    ".halo/skills/s/config.yaml": "params: [{key: k, secret: false}]",
    ".halo/settings.yaml": 's: {params: {k: "<<NAME>>"}}',
    "pkg/.halo/INSTRUCTIONS.md": "PKG",
}


class TestArtifacts:
    @pytest.fixture
    def ws(self, make_workspace):
        made = make_workspace(FILES).without_templates()
        for target in survey(made.builder).targets:
            made.builder.ensure(target)
        return made

    def test_manifests_and_pointers_on_disk_fit_their_schemas(self, ws):
        manifests = [data for name, data in ws.artifacts().items() if name.endswith("manifest.json")]
        assert len(manifests) == len(ws.pointers()) == 4
        for data in manifests:
            CHECKS["manifest"](json.loads(data))
        for data in ws.pointers().values():
            CHECKS["pointer"](json.loads(data))

    def test_they_come_back_as_they_were(self, ws):
        for kind, files in ((artifacts.Pointer, ws.pointers()), (artifacts.Manifest, ws.artifacts())):
            for name, data in files.items():
                if not name.endswith("prompt.md"):
                    assert readable_json(msgspec.json.decode(data, type=kind)) == data

    def test_each_says_its_format(self, ws):
        manifests = [data for name, data in ws.artifacts().items() if name.endswith("manifest.json")]
        for data in [*ws.pointers().values(), *manifests]:
            assert json.loads(data)["format"] == artifacts.FORMAT


@pytest.mark.parametrize("spec", tools.BUILTIN_TOOLS, ids=lambda spec: spec.name)
def test_the_arguments_of_every_tool_are_a_strict_json_schema(spec):
    assert spec.parameters["type"] == "object"
    assert spec.parameters["additionalProperties"] is False
    assert set(spec.parameters.get("required", [])) <= set(spec.parameters["properties"])
    assert spec.description.endswith(".")
    if spec.name != "activate_skill":  # it stands here with no skill to activate
        check = fastjsonschema.compile(spec.parameters)
        with pytest.raises(fastjsonschema.JsonSchemaValueException):
            check({"nonsense": 1})


def test_tools_have_different_names():
    names = [spec.name for spec in tools.BUILTIN_TOOLS]
    assert len(set(names)) == len(names)


@given(USAGES, USAGES)
def test_usage_adds_up(one, other):
    total = one + other
    assert total.prompt == one.prompt + other.prompt
    assert total.output == one.output + other.output


def test_a_message_knows_its_text_and_its_calls():
    call = messages.ToolCall("1", "grep", "{}")
    message = messages.Message(
        "assistant", (messages.Thinking("hm"), messages.Text("a"), call, messages.Text("b"))
    )
    assert (message.text, message.calls) == ("ab", (call,))
