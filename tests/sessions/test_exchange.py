"""Sessions leave and come: whole as JSON, as message arrays, and as documents for people."""

import json
import os
import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kept import NOW, Shelf, photograph

from halo.errors import ExchangeError, UsageError
from halo.records.events import (
    ContextShortened,
    Edit,
    MessageAdded,
    ToolResultAdded,
    TurnEnded,
    TurnStarted,
    UsageReported,
)
from halo.records.incoming import Sender, Source
from halo.records.messages import Image, Message, ProviderData, Text, Thinking, ToolCall, ToolResult, user
from halo.records.outgoing import FORMAT, Address, Outgoing
from halo.records.session_events import ChildStarted, Delivered, DeliveryDue, ReportSent, SessionChanged
from halo.records.targets import AgentTarget
from halo.records.usage import Usage
from halo.sessions.derived import read_header, write_derived
from halo.sessions.exchange.arrays import array_of
from halo.sessions.exchange.exporting import Chosen, export, write_export
from halo.sessions.exchange.importing import form_of, lay_down_import, read_import
from halo.sessions.exchange.reading import Span, read_span, read_whole
from halo.sessions.find import begun_here, session_ids

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
ALL = Chosen()


def same(text):
    return text


@pytest.fixture
def shelf(tmp_path):
    return Shelf(tmp_path / "sessions", tmp_path / "home")


def bring(shelf, data, form=None, agent="a"):
    """Import, and return the folder and the remarks."""
    read = read_import(data, form, NOW)
    made = lay_down_import(shelf.sessions, shelf.home, shelf.clock, AgentTarget(agent), read)
    return made.folder, made.remarks


def sent(folder, form, **chosen):
    return export(read_whole(folder), form, Chosen(**chosen), same)


def histories(folder):
    """What each provider is given of a session, and what a turn starts from."""
    history = folder.read().history()
    return history, [array_of(history, provider) for provider in ("openai", "anthropic")]


# Conversations, as turns record them.

WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12).filter(str.strip)
IMAGES = st.lists(st.just(Image("image/png", PIXEL)), max_size=1).map(tuple)
THOUGHTS = st.builds(
    lambda text: Thinking(
        text, ProviderData("anthropic", {"type": "thinking", "thinking": text, "signature": "s"})
    ),
    WORDS,
)
ARGUMENTS = st.dictionaries(WORDS, WORDS | st.integers(0, 9), max_size=2).map(json.dumps)
STEPS = st.lists(
    st.tuples(
        st.lists(THOUGHTS, max_size=1),
        WORDS,
        st.lists(st.tuples(ARGUMENTS, WORDS, st.booleans(), IMAGES), min_size=1, max_size=3),
    ),
    max_size=2,
)
TURNS = st.lists(st.tuples(WORDS, IMAGES, STEPS, WORDS, st.booleans()), min_size=1, max_size=4)


def talked(shelf, turns):
    """A session of such turns; a marked one is followed by a summary in the place of what was said before."""
    folder = shelf.begin()
    count = 0
    for asked, images, steps, answer, summed_up in turns:
        with folder.open(shelf.clock) as session:
            session.append(TurnStarted("artifact", "print"), turn=session.conversation.turn + 1)
            session.append(MessageAdded(Message("user", (Text(asked), *images))))
            for thoughts, text, calls in steps:
                made = []
                for arguments, _, _, _ in calls:
                    count += 1
                    made.append(ToolCall(f"c{count}", "grep", arguments))
                session.append(MessageAdded(Message("assistant", (*thoughts, Text(text), *made))))
                for call, (_, result, is_error, pictures) in zip(made, calls, strict=True):
                    session.append(ToolResultAdded(ToolResult(call.id, result, is_error, pictures), "grep"))
            session.append(MessageAdded(Message("assistant", (Text(answer),))))
            session.append(
                UsageReported("played", "m", Usage(uncached=3, output=2), "digest", cost=0.5, currency="EUR")
            )
            session.append(TurnEnded("done"))
            if summed_up:
                before = len(session.conversation.messages)
                edit = Edit(0, before, (user("[summary]"), session.conversation.messages[-1]))
                session.append(ContextShortened("summarise", (edit,), messages_before=before))
            write_derived(session)
    return folder


class TestWholeSessions:
    @given(turns=TURNS)
    @settings(max_examples=25)
    def test_an_import_of_an_export_gives_every_provider_the_same(self, tmp_path_factory, turns):
        shelf = Shelf(tmp_path_factory.mktemp("s"), tmp_path_factory.mktemp("h"))
        folder = talked(shelf, turns)
        copy, remarks = bring(shelf, sent(folder, "json"))
        assert remarks == ()
        assert histories(copy) == histories(folder)
        for form in ("openai", "anthropic", "markdown"):
            tail = slice(None) if form != "markdown" else slice(sent(copy, form).index(b"## Turn 1"), None)
            own = slice(None) if form != "markdown" else slice(sent(folder, form).index(b"## Turn 1"), None)
            assert sent(copy, form)[tail] == sent(folder, form)[own]

    @pytest.mark.parametrize("layout", [{"indent": 1}, {"separators": (",\r\n", ": ")}])
    def test_a_file_that_was_laid_out_anew_is_the_same_session(self, shelf, layout):
        folder = shelf.talk()
        document = json.loads(sent(folder, "json"))
        copy, _ = bring(shelf, json.dumps(document, **layout).encode())
        assert copy.read().history() == folder.read().history()

    def test_attachments_are_in_the_file(self, shelf):
        folder = shelf.talk(None, "L" * 200_000)
        assert os.listdir(os.path.join(folder.path, "attachments"))
        copy, _ = bring(shelf, sent(folder, "json"))
        assert copy.read().history() == folder.read().history()
        os.rename(folder.path, folder.path + ".away")
        assert copy.read().damaged == []

    def test_events_of_a_type_that_this_version_does_not_know_are_kept(self, shelf):
        folder = shelf.talk()
        document = json.loads(sent(folder, "json"))
        document["events"].insert(3, {**document["events"][3], "type": "dream", "data": {"of": ["sheep"]}})
        copy, _ = bring(shelf, json.dumps(document).encode())
        (dream,) = [e for e in copy.read_events() if e.type == "dream"]
        assert json.loads(bytes(dream.data)) == {"of": ["sheep"]}

    def test_what_was_paid_started_or_sent_there_is_nothing_of_this_session(self, shelf):
        folder = shelf.talk(key="agent:a:main")
        with folder.open(shelf.clock) as session:
            session.append(ChildStarted("20260921t141320-abcdef", "b"))
            session.append(ReportSent("20260921t141320-abcdef", "report:x:1", "completed"))
            message = Outgoing(FORMAT, "i", "r", 1, "block", Address("outbox"), "text")
            session.append(DeliveryDue(message))
            session.append(Delivered("outbox", "i", 1, "failed"))
            for name, value in (("title", "Tides"), ("model", "=fast"), ("pin", "a" * 64), ("send", "allow")):
                session.append(SessionChanged(name, value), turn=0)
        copy, remarks = bring(shelf, sent(folder, "json"))
        header, standing = read_header(copy), copy.read().standing
        assert (header.calls, header.cost, header.usage, header.due, header.undelivered) == (
            0,
            0.0,
            Usage(),
            0,
            0,
        )
        assert (header.key, header.parent, header.report) == ("", "", "")
        assert standing.children == {}
        assert header.settings == {"title": "Tides"}
        assert remarks == tuple(f"the setting {name} is not taken over" for name in ("model", "pin", "send"))
        assert (header.previous, copy.read().created.reason) == (folder.id, "import")
        assert begun_here(header, shelf.home)
        assert b"seal" not in sent(folder, "json")

    def test_secrets_are_masked_in_every_format(self, shelf):
        folder = shelf.talk(None, "my key is hunter2!", "again hunter2!")

        def mask(text):
            return text.replace("hunter2!", "***")

        for form in ("json", "openai", "anthropic", "markdown", "html"):
            data = export(read_whole(folder), form, ALL, mask)
            assert b"hunter2" not in data
            assert b"***" in data
        copy, _ = bring(shelf, export(read_whole(folder), "json", ALL, mask))
        assert copy.read().history()[0] == user("my key is ***")

    def test_what_is_lost_is_said(self, shelf):
        folder = shelf.talk(None, "one", "two")
        with open(folder.events, "rb+") as file:
            lines = file.readlines()
            file.seek(0)
            file.write(b"".join([*lines[:3], lines[3].replace(b"You said", b"You sang"), *lines[4:]]))
        _, remarks = bring(shelf, sent(folder, "json"))
        assert any("line 4" in remark for remark in remarks)

    def test_an_exported_file_is_never_replaced_by_mistake(self, tmp_path):
        path = str(tmp_path / "out.md")
        write_export(path, b"one", force=False)
        with pytest.raises(UsageError, match="is there already"):
            write_export(path, b"two", force=False)
        write_export(path, b"three", force=True)
        with open(path, "rb") as file:
            assert file.read() == b"three"


class TestArrays:
    @given(turns=TURNS)
    @settings(max_examples=25)
    @pytest.mark.parametrize("form", ["openai", "anthropic"])
    def test_an_array_that_comes_back_is_the_same_array(self, tmp_path_factory, form, turns):
        shelf = Shelf(tmp_path_factory.mktemp("s"), tmp_path_factory.mktemp("h"))
        array = sent(talked(shelf, turns), form)
        copy, remarks = bring(shelf, array, form)
        assert remarks == ()
        assert sent(copy, form) == array
        conversation = copy.read()
        assert not conversation.open_turn
        assert conversation.damaged == []

    def test_each_turn_begins_where_the_user_speaks_after_an_answer(self, shelf):
        array = [
            {"role": "user", "content": "one"},
            {"role": "user", "content": "and"},
            {"role": "assistant", "content": "first"},
            {"role": "assistant", "content": "more"},
            {"role": "user", "content": "two"},
        ]
        folder, _ = bring(shelf, json.dumps(array).encode())
        kinds = [(e.turn, e.type) for e in folder.read_events()][1:]
        assert kinds == [
            (1, "turn.started"),
            *[(1, "message")] * 4,
            (1, "turn.ended"),
            (2, "turn.started"),
            (2, "message"),
            (2, "turn.ended"),
        ]
        assert read_header(folder).ended == "interrupted"  # nobody has answered
        assert read_header(folder).title == "one"

    def test_a_call_and_its_result_are_never_parted(self, shelf):
        call = {"id": "call_0", "type": "function", "function": {"name": "grep", "arguments": "{}"}}
        array = [
            {"role": "user", "content": "go"},
            {"role": "assistant", "tool_calls": [call, {**call, "id": "call_1"}]},
            {"role": "tool", "tool_call_id": "call_1", "content": "found"},
            {"role": "tool", "tool_call_id": "call_1", "content": "again"},
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_0", "content": "the second"},
            {"role": "tool", "tool_call_id": "nobody", "content": "what?"},
            {"role": "assistant", "tool_calls": [call]},
        ]
        folder, remarks = bring(shelf, json.dumps(array).encode())
        assert remarks == (
            "message 4: a result of no call, 'call_1', is left out",
            "message 5: the call of grep before it has no result",
            "message 7: a result of no call, 'nobody', is left out",
            "message 8: the call of grep before it has no result",
        )
        history = folder.read().history()
        calls = [c.id for m in history for c in m.calls]
        results = {b.call_id: b.text for m in history for b in m.content if isinstance(b, ToolResult)}
        assert sorted(calls) == sorted(results)
        assert len(set(calls)) == 4
        assert results[calls[2]] == "the second"

    def test_what_cannot_be_taken_over_is_said_and_leaves_no_hole(self, shelf):
        parts = [
            {"type": "text", "text": "Look:"},
            {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,%%%"}},
            {"type": "input_audio", "input_audio": {"data": "x"}},
        ]
        array = [
            {"role": "system", "content": "Obey."},
            {"role": "user", "content": parts},
            {"role": "assistant", "content": None, "refusal": "No."},
            {"role": "assistant", "content": ""},
        ]
        folder, remarks = bring(shelf, json.dumps({"model": "m", "messages": array}).encode())
        assert remarks == (
            "only messages is taken over, not model",
            "message 1: a system text is left out: the agent has a prompt of its own",
            "message 2: the picture at https://example.com/a.png is not taken over",
            "message 2: a picture whose data are no base64 is not taken over",
            "message 2: a part of type input_audio is not taken over",
            "message 4: it is empty, and left out",
        )
        asked, refused = folder.read().history()
        assert [type(block) for block in asked.content] == [Text, Text, Image, Text, Text]
        assert "Obey" not in sent(folder, "json").decode()
        assert refused.text == "No."

    def test_calls_from_before_there_were_ids(self, shelf):
        array = [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": None, "function_call": {"name": "grep", "arguments": "{}"}},
            {"role": "function", "name": "grep", "content": "found"},
        ]
        folder, remarks = bring(shelf, json.dumps(array).encode())
        assert remarks == ()
        assert folder.read().history()[-1].content[0].text == "found"

    def test_blocks_of_anthropic(self, shelf):
        source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
        result = {"type": "tool_result", "tool_use_id": "t", "is_error": True}
        array = [
            {
                "role": "user",
                "content": [{"type": "image", "source": source}, {"type": "document", "source": {}}],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "redacted_thinking", "data": "x"},
                    {"type": "tool_use", "id": "t", "name": "grep", "input": {"pattern": "x"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        **result,
                        "content": [{"type": "text", "text": "bad"}, {"type": "image", "source": source}],
                    },
                    {"type": "text", "text": "Go on."},
                ],
            },
        ]
        data = json.dumps({"system": "Obey.", "messages": array}).encode()
        folder, remarks = bring(shelf, data)
        assert remarks == (
            "only messages is taken over, not system",
            "message 1: a block of type document is not taken over",
        )
        found = folder.read().history()[2].content[0]
        assert found == ToolResult("t", "bad", is_error=True, images=(Image("image/png", PIXEL),))
        (_, asked, answered) = json.loads(sent(folder, "anthropic"))
        assert asked["content"] == array[1]["content"]
        assert answered["content"] == array[2]["content"]

    @pytest.mark.parametrize(
        ("items", "form"),
        [
            ([{"role": "user", "content": "hi"}], "openai"),
            ([{"role": "tool", "tool_call_id": "c", "content": "x"}], "openai"),
            ([{"role": "user", "content": [{"type": "tool_result"}]}], "anthropic"),
            ([{"role": "user", "content": [{"type": "image_url"}]}], "openai"),
            ({"messages": [{"role": "assistant", "content": [{"type": "thinking"}]}]}, "anthropic"),
            ({"kind": "halo.session"}, "json"),
        ],
    )
    def test_a_file_shows_what_it_is(self, items, form):
        assert form_of(items) == form

    def test_one_that_shows_two_things_is_asked_about(self):
        both = [{"role": "tool"}, {"role": "user", "content": [{"type": "tool_result"}]}]
        with pytest.raises(ExchangeError, match="some Anthropic's") as caught:
            form_of(both)
        assert "--format" in caught.value.hint


WRONG = [
    (b"", "it is empty"),
    (b" \n", "it is empty"),
    (b"# Tides\n", "it is no JSON"),
    (b"\xff\xfe[", "it is no JSON"),
    (b"[" * 100_000, "nested too deeply"),
    (b"7", "neither a session nor an array"),
    (b'{"messages": 7}', "neither a session nor an array"),
    (b"[]", "no message in it"),
    (b"[7]", "message 1: it is no object, but 7"),
    (b'[{"role": "user", "content": "x"}, {"role": "robot"}]', "message 2: its role is robot"),
    (b'[{"role": "user", "content": 7}]', "message 1: content is neither text nor an array, but 7"),
    (b'[{"type": "function_call", "name": "x"}]', "message 1: it is an item of the Responses API"),
    (b'[{"role": "assistant", "tool_calls": [{"id": 7, "function": {"name": "x"}}]}]', "message 1: the id"),
    (b'[{"role": "assistant", "tool_calls": 7}]', "message 1: tool_calls is no array"),
    (b'[{"role": "tool", "content": "x"}]', "message 1: tool_call_id is no text, but null"),
    (b'[{"role": "user", "content": [7]}]', "message 1: a part of its content is 7"),
    (b'[{"role": "user", "content": [{"type": "tool_use"}]}]', "message 1: the id of a call is no text"),
    (b'{"kind": "halo.session"}', "no exported session"),
    (b'{"kind": "other", "format": 1}', "kind is other"),
    (b'{"kind": "halo.session", "format": 2, "version": "9.0"}', "newer version of Halo (9.0): format 2"),
]


class TestWhatIsNoSession:
    @pytest.mark.parametrize(("data", "problem"), WRONG)
    def test_it_is_said_what_is_wrong_and_where(self, data, problem):
        with pytest.raises(ExchangeError, match=re.escape(problem)):
            read_import(data, None, NOW)

    @pytest.mark.parametrize("form", ["json", "openai", "anthropic"])
    def test_a_file_that_is_cut_makes_no_session_wherever_it_is_cut(self, shelf, form):
        data = sent(shelf.talk(None, "Tides?"), form)
        before = photograph(shelf.sessions)
        for length in range(len(data.rstrip())):
            with pytest.raises(ExchangeError):
                bring(shelf, data[:length])
        assert photograph(shelf.sessions) == before

    @pytest.mark.parametrize(
        ("field", "value", "problem"),
        [
            ("turn", -1, "event 3: -1 is no number of a turn"),
            ("turn", 10**12, "is no number of a turn"),
            ("ts", "noon", "event 3: noon is no time"),
            ("format", 2, "newer version of Halo"),
            ("data", {"attachment": "0" * 64, "bytes": 7}, "event 3: its data are elsewhere"),
            ("data", {"message": {"role": "user", "content": [{"type": "smell"}]}}, "newer version of Halo"),
            ("data", {"message": 7}, "newer version of Halo"),
        ],
    )
    def test_an_event_that_no_log_would_have_is_refused(self, shelf, field, value, problem):
        document = json.loads(sent(shelf.talk(), "json"))
        document["events"][2][field] = value
        before = photograph(shelf.sessions)
        with pytest.raises(ExchangeError, match=problem):
            bring(shelf, json.dumps(document).encode())
        assert photograph(shelf.sessions) == before

    def test_a_full_disk_leaves_no_half_of_it(self, shelf, monkeypatch):
        data = sent(shelf.talk(None, "L" * 200_000), "json")
        before, count = photograph(shelf.sessions), len([*session_ids(shelf.sessions)])

        def full(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("halo.sessions.exchange.laying.ops.rename", full)
        with pytest.raises(OSError, match="No space"):
            bring(shelf, data)
        assert photograph(shelf.sessions) == before
        assert len([*session_ids(shelf.sessions)]) == count

    @given(st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(
            ["user", "assistant", "tool", "text", "tool_use", "tool_result", "image", "image_url", "x"]
        ),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
            st.sampled_from(["role", "content", "type", "text", "tool_calls", "id", "function", "name", "input",
                             "source", "url", "data", "tool_use_id", "tool_call_id", "messages", "thinking"]),
            inner, max_size=4),
        max_leaves=14,
    ))  # fmt: skip
    @settings(max_examples=150)
    def test_whatever_it_is_it_is_read_or_refused(self, value):
        for form in (None, "openai", "anthropic", "json"):
            try:
                read = read_import(json.dumps(value).encode(), form, NOW)
            except ExchangeError:
                continue
            assert read.turned.events


class TestDocuments:
    @pytest.fixture
    def folder(self, shelf):
        folder = shelf.begin()
        with folder.open(shelf.clock) as session:
            session.append(TurnStarted("artifact", "print"), turn=1)
            sender = Sender("user", name="Eve <b>")
            session.append(
                MessageAdded(
                    user("<script>alert(1)</script> ![x](http://e/x.png)"), sources=(Source("i", sender),)
                )
            )
            session.append(MessageAdded(user("a secret question of Halo"), internal=True))
            session.append(MessageAdded(Message("assistant", (Text("a secret answer"),)), internal=True))
            session.append(
                MessageAdded(Message("assistant", (Text("```py\nprint(1)"), ToolCall("c", "grep", "{}"))))
            )
            session.append(
                ToolResultAdded(
                    ToolResult("c", "``` </details>", images=(Image("image/png", PIXEL),)), "grep"
                )
            )
            session.append(MessageAdded(Message("assistant", (Text("Done. [go](javascript:x)"),))))
            session.append(TurnEnded("done"))
            write_derived(session)
        return folder

    @pytest.mark.parametrize("form", ["markdown", "html"])
    def test_no_figure_acts_on_a_terminal(self, shelf, form):
        folder = shelf.begin()
        with folder.open(shelf.clock) as session:
            session.append(TurnStarted("artifact", "print"), turn=1)
            session.append(
                UsageReported("\x1b[1m", "\x07", Usage(uncached=1), cost=1.0, currency="\x1b]0;x\x07\x9b2J")
            )
            session.append(TurnEnded("\x1b[2m", error="\x1b[3m"))
        document = sent(folder, form).decode()
        assert not set("\x1b\x07\x9b") & set(document)
        assert "1.0000" in document

    def test_a_page_holds_nothing_that_acts(self, folder):
        page = sent(folder, "html").decode()
        assert "<script" not in page
        assert "javascript:" not in re.sub(r">[^<]*<", "><", page)
        assert "http://e/x.png" not in re.findall(r'src="([^"]*)', page)
        assert f'src="data:image/png;base64,{PIXEL}"' in page
        assert "default-src &#x27;none&#x27;" in page
        assert "Eve &lt;b&gt;" in page

    @pytest.mark.parametrize("form", ["markdown", "html"])
    def test_what_halo_itself_asked_is_left_out(self, folder, form):
        document = sent(folder, form).decode()
        assert "a secret" not in document
        assert "Done." in document

    def test_code_that_was_left_open_ends_with_its_message(self, folder):
        text = sent(folder, "markdown").decode()
        assert "```py\nprint(1)\n```\n" in text
        assert "````\n``` </details>\n````" in text

    def test_tools_and_turns_can_be_left_out(self, folder, shelf):
        assert "grep" not in sent(folder, "markdown", tools=False).decode()
        shelf.talk(folder, "second", "third")
        text = sent(folder, "markdown", span=read_span("2")).decode()
        assert "second" in text
        assert "third" not in text
        assert "Done." not in text
        (first, _) = json.loads(sent(folder, "openai", span=Span(3)))
        assert first == {"role": "user", "content": "third"}
        with pytest.raises(UsageError, match="there is no turn 9"):
            sent(folder, "markdown", span=Span(9))
        with pytest.raises(UsageError, match="whole session"):
            sent(folder, "json", span=Span(2))

    @pytest.mark.parametrize("text", ["", "0", "3-2", "a", "1-2-3", "-", "²"])
    def test_what_are_no_turns(self, text):
        with pytest.raises(UsageError, match="these are no turns"):
            read_span(text)


def test_the_file_is_the_one_that_the_schema_describes(shelf):
    import fastjsonschema

    from halo.records.schemas import json_schema

    document = json.loads(sent(talked_once(shelf), "json"))
    fastjsonschema.compile(json_schema("exported-session"))(document)
    assert msgspec.json.decode(sent(talked_once(shelf), "json"))["kind"] == "halo.session"


def talked_once(shelf):
    return shelf.talk(None, "Tides?")
