"""Exchanges are recorded as files, and answered from them on another machine, without a model."""

import asyncio
import json
from contextlib import aclosing

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from turning import run_turn

from halo.errors import ProviderError, StartError, UsageError
from halo.models.adapter import Finished, Notice, Request, Retrying, TextDelta, ThinkingDelta
from halo.models.disguise import Disguise
from halo.models.prefix import Prefix
from halo.models.recording import RecordingAdapter
from halo.models.recording_folder import RecordingFolder
from halo.models.recordings import FORMAT, Recording, asked, decode, encode, key_of
from halo.models.replaying import Replay
from halo.models.request_chain import RequestChain
from halo.models.request_differences import difference
from halo.records.artifacts import Binding, Segment
from halo.records.messages import Message, ProviderData, Text, Thinking, ToolCall, ToolResult, user
from halo.records.tools import LISTABLE_TOOLS
from halo.records.usage import Usage
from halo.tools.secrets import masker

SECRET = "sk-very-secret-0123456789"
HERE, THERE = "/home/mira/project", "/builds/42/checkout"
PLAIN = Disguise()
USAGE = Usage(uncached=3, read=7, output=2)


class Model:
    """Says what it is told, events as they are given; an error is raised."""

    provider = "openai"

    def __init__(self, *calls):
        self.calls = list(calls)
        self.closed = 0

    async def stream(self, request):
        for event in self.calls.pop(0):
            if isinstance(event, Exception):
                raise event
            yield event

    async def close(self):
        self.closed += 1


def says(*pieces, blocks=()):
    content = (*blocks, Text("".join(pieces)))
    done = Finished(Message("assistant", content), "end", USAGE, "m-2026", "digest", body={"model": "m"})
    return [*map(TextDelta, pieces), done]


def request(*messages, unfilled="Be brief. {{now}}\n", system=None, tools=(), **binding):
    fields = {"provider": "openai", "model": "m", **binding}
    filled = unfilled.replace("{{now}}", "2026-12-01") if system is None else system
    prefix = Prefix(filled, "Be brief. ", tuple(tools), fingerprint="f", unfilled=unfilled)
    return Request(prefix, tuple(messages or (user("Hi"),)), Binding(**fields))


def record(folder, *calls, disguise=PLAIN):
    """Record calls, pairs of a request and what the model says; returns what went through."""
    model = Model(*(said for _, said in calls))
    recorder = RecordingAdapter(model, str(folder), disguise)
    return [run_turn(recorder, one, close=False) for one, _ in calls]


def replay(folder, *requests, disguise=PLAIN, segments=()):
    model = Replay("openai", str(folder), disguise, segments)
    return [run_turn(model, one, close=False) for one in requests]


def miss(folder, one, **options):
    with pytest.raises(ProviderError) as error:
        replay(folder, one, **options)
    assert error.value.kind == "request"
    return str(error.value)


class TestRecordAndReplay:
    def test_the_events_come_again_piece_by_piece(self, tmp_path):
        blocks = (
            Thinking("Hm", ProviderData("openai", {"signature": "s"})),
            ToolCall("c1", "grep", '{"a": 1}'),
        )
        said = [ThinkingDelta("H"), ThinkingDelta("m"), *says("Hel", "lo", " you", blocks=blocks)]
        [went] = record(tmp_path, (request(), said))
        assert went == said
        [came] = replay(tmp_path, request())
        assert came[:-1] == said[:-1]
        assert msgspec.structs.replace(came[-1], request_digest="digest", body={"model": "m"}) == said[-1]
        assert came[-1].request_digest == key_of(asked(request(), PLAIN))

    def test_a_request_is_one_file_named_by_its_digest(self, tmp_path):
        record(tmp_path, (request(), says("a")), (request(user("Other")), says("b")))
        names = sorted(p.name for p in tmp_path.iterdir())
        assert names == sorted(f"{key_of(asked(r, PLAIN))}.json" for r in (request(), request(user("Other"))))

    def test_all_calls_of_a_turn(self, tmp_path):
        call = Message("assistant", (ToolCall("c1", "grep", "{}"),))
        first = request()
        second = request(*first.history, call, Message("user", (ToolResult("c1", "found"),)))
        record(tmp_path, (first, says("Looking")), (second, says("Found.")))
        one, two = replay(tmp_path, first, second)
        assert (one[0].text, two[0].text) == ("Looking", "Found.")

    def test_the_same_request_again_has_its_answers_in_order(self, tmp_path):
        record(tmp_path, (request(), says("one")), (request(), says("two")))
        assert len(list(tmp_path.iterdir())) == 1
        came = replay(tmp_path, request(), request())
        assert [events[0].text for events in came] == ["one", "two"]
        with pytest.raises(ProviderError, match=r"made for the 3\. time.*has 2 answers"):
            replay(tmp_path, request(), request(), request())

    def test_another_run_begins_anew(self, tmp_path):
        record(tmp_path, (request(), says("one")), (request(), says("two")))
        record(tmp_path, (request(), says("three")))
        [came] = replay(tmp_path, request())
        assert came[0].text == "three"

    def test_attempts_that_failed_and_notices_leave_no_trace(self, tmp_path):
        said = [Notice("loading"), TextDelta("Half"), Retrying("503", 1.0, 1), *says("Whole")]
        record(tmp_path, (request(), said))
        [came] = replay(tmp_path, request())
        assert [type(e) for e in came] == [TextDelta, Finished]
        assert came[0].text == "Whole"

    @pytest.mark.parametrize("kind", ["overflow", "request"])
    def test_a_refusal_of_this_request_comes_again(self, tmp_path, kind):
        error = ProviderError("too long", hint="shorten it", kind=kind)
        with pytest.raises(ProviderError):
            record(tmp_path, (request(), [error]))
        with pytest.raises(ProviderError) as again:
            replay(tmp_path, request())
        assert (again.value.kind, again.value.message, again.value.hint) == (kind, "too long", "shorten it")

    @pytest.mark.parametrize("kind", ["rate_limit", "transient", "auth", "protocol"])
    def test_a_failure_of_the_day_is_not_recorded(self, tmp_path, kind):
        with pytest.raises(ProviderError):
            record(tmp_path, (request(), [TextDelta("Half"), ProviderError("no", kind=kind)]))
        assert list(tmp_path.iterdir()) == []

    def test_a_reader_that_stops_early_leaves_nothing(self, tmp_path):
        async def go():
            recorder = RecordingAdapter(Model(says("a", "b")), str(tmp_path), PLAIN)
            async with aclosing(recorder.stream(request())) as events:
                await anext(events)

        asyncio.run(go())
        assert list(tmp_path.iterdir()) == []

    def test_it_is_on_disk_before_the_reply_is_handed_on(self, tmp_path):
        async def go():
            recorder = RecordingAdapter(Model(says("a")), str(tmp_path), PLAIN)
            async with aclosing(recorder.stream(request())) as events:
                async for event in events:
                    if isinstance(event, Finished):
                        return list(tmp_path.iterdir())
            return []

        assert len(asyncio.run(go())) == 1


class TestKeys:
    def test_slot_values_do_not_count(self):
        one = request(system="Be brief. Monday\n")
        other = request(system="Be brief. Tuesday\n")
        assert key_of(asked(one, PLAIN)) == key_of(asked(other, PLAIN))

    @pytest.mark.parametrize("elsewhere", [{"endpoint": "http://127.0.0.1:4711/v1"}, {"cache": "1h"}])
    def test_nor_does_where_the_model_is_and_how_it_is_paid(self, elsewhere):
        assert key_of(asked(request(**elsewhere), PLAIN)) == key_of(asked(request(), PLAIN))

    @pytest.mark.parametrize(
        "changed",
        [
            request(user("Hello")),
            request(unfilled="Be long. {{now}}\n"),
            request(tools=[LISTABLE_TOOLS["grep"]]),
            request(model="n"),
            request(temperature=0.5),
            request(api="responses"),
            msgspec.structs.replace(request(), response_schema={"type": "object"}),
            msgspec.structs.replace(request(), tool_choice="none"),
            msgspec.structs.replace(request(), prefix=Prefix("", "", few_shots=(user("x"),), unfilled="Be brief. {{now}}\n")),
        ],
    )  # fmt: skip
    def test_everything_else_does(self, changed):
        assert key_of(asked(changed, PLAIN)) != key_of(asked(request(), PLAIN))

    def test_the_key_of_a_known_request_never_changes(self):
        """Recordings lie in repositories: another key would make all of them useless."""
        known = request(user("Hi"), tools=[], temperature=0.0, seed=7)
        assert key_of(asked(known, PLAIN)) == KNOWN_KEY

    def test_a_file_is_the_same_bytes_each_time_and_reads_back(self):
        neutral = asked(request(), PLAIN)
        data = encode(Recording(FORMAT, (), neutral))
        assert data == encode(Recording(FORMAT, (), asked(request(), PLAIN)))
        assert decode(data).request == neutral
        assert key_of(decode(data).request) == key_of(neutral)


KNOWN_KEY = "8c391af7fcd2397e734c1c5170d957d45f2904b1fa7f7a9b3e3959c09e2097e1"


class TestOtherMachines:
    def test_the_place_of_the_workspace_is_a_name_and_comes_back(self, tmp_path):
        def disguise(root):
            return Disguise({"workspace_root": root})

        def conversation(root):
            return request(user("Where?"), Message("assistant", (Text(f"In {root}/src"),)), user(f"{root}?"))

        said = says(f"It is {HERE[:7]}", f"{HERE[7:]}/a.md, not {HERE}2.")
        record(tmp_path, (conversation(HERE), said), disguise=disguise(HERE))
        [file] = tmp_path.iterdir()
        assert HERE not in file.read_text().replace(HERE + "2", "")
        [came] = replay(tmp_path, conversation(THERE), disguise=disguise(THERE))
        text = f"It is {THERE}/a.md, not {HERE}2."
        assert "".join(e.text for e in came[:-1]) == came[-1].message.text == text

    @given(st.lists(st.text("ab/{}", max_size=4), max_size=8))
    def test_pieces_say_what_the_whole_says(self, pieces):
        disguise = Disguise({"root": "/ab"}, lambda text: text.replace("bab", "[secret]"))
        covered = disguise.cover_pieces(pieces)
        assert "".join(covered) == disguise.cover("".join(pieces))
        if covered == list(pieces):
            assert disguise.cover("".join(pieces)) == "".join(pieces)

    def test_pieces_that_hide_nothing_stay_as_they_came(self):
        assert Disguise({"root": "/ab"}).cover_pieces(["a", "b", "", "c"]) == ["a", "b", "", "c"]
        assert Disguise({"root": "/ab"}).cover_pieces(["one ", "/a", "b two", " three"])[-1] == " three"


class TestSecrets:
    def test_no_secret_enters_a_file_in_whatever_part(self, tmp_path):
        tool = msgspec.structs.replace(LISTABLE_TOOLS["grep"], description=f"uses {SECRET}")
        blocks = (ToolCall("c", "grep", json.dumps({"q": SECRET})), Thinking(SECRET))
        said = [
            *(TextDelta(c) for c in SECRET),
            ThinkingDelta(SECRET),
            *says(SECRET[:5], SECRET[5:], blocks=blocks),
        ]
        one = request(user(SECRET), unfilled=f"Key: {SECRET}", tools=[tool], endpoint=f"http://u:{SECRET}@h/")
        record(tmp_path, (one, said), disguise=Disguise({}, masker([("KEY", SECRET)])))
        [file] = tmp_path.iterdir()
        assert SECRET not in file.read_text()
        assert file.read_text().count("[secret KEY]") > 4

    def test_what_went_over_the_wire_is_not_kept(self, tmp_path):
        record(tmp_path, (request(endpoint="http://127.0.0.1:4711/v1"), says("a")))
        [file] = tmp_path.iterdir()
        assert "4711" not in file.read_text()
        assert "body" not in json.loads(file.read_text())["answers"][0]
        assert "2026-12-01" not in file.read_text()


SEGMENTS = (
    Segment("agent", "agent", "workspace", "workspace:.halo/agents/a/AGENT.md", 0, 10, 1, 1, 3, "static", "", "", ()),
    Segment("rules", "rules", "workspace", "workspace:.halo/INSTRUCTIONS.md", 10, 99, 2, 4, 9, "static", "", "", ()),
)  # fmt: skip


class TestMisses:
    def test_the_system_text_by_segment_and_byte(self, tmp_path):
        record(tmp_path, (request(unfilled="You are a.Always answer in French.\n"), says("Oui")))
        said = miss(tmp_path, request(unfilled="You are a.Always answer in German.\n"), segments=SEGMENTS)
        assert "system text, segment rules (workspace:.halo/INSTRUCTIONS.md), byte 27" in said
        assert "French" in said
        assert "German" in said
        assert "--record" in said

    def test_the_nearest_recording_is_the_one_that_agrees_the_longest(self, tmp_path):
        one, two = Message("assistant", (Text("1"),)), user("More")
        record(
            tmp_path,
            (request(user("Hi"), model="other"), says("x")),
            (request(user("Ho")), says("x")),
            (request(user("Hi"), one, user("Less")), says("x")),
        )
        said = miss(tmp_path, request(user("Hi"), one, two))
        assert "the nearest of 3" in said
        assert "message 3 (user), byte" in said
        assert "Less" in said
        assert "More" in said

    @pytest.mark.parametrize(
        ("changed", "where"),
        [
            (request(tools=[LISTABLE_TOOLS["grep"]]), "tools: recorded with other tools: grep is new here"),
            (request(temperature=0.5), "options: recorded"),
            (request(model="n"), "model: recorded 'm', now 'n'"),
            (request(user("Hi"), Message("assistant", (Text("1"),)), user("x")), "message 2 (assistant): recorded none"),
            (msgspec.structs.replace(request(), tool_choice="none"), "tool choice"),
            (msgspec.structs.replace(request(), response_schema={}), "schema of the reply"),
        ],
    )  # fmt: skip
    def test_every_part_is_named(self, tmp_path, changed, where):
        record(tmp_path, (request(), says("x")))
        assert where in miss(tmp_path, changed)

    def test_equal_requests_have_no_difference(self):
        assert difference(asked(request(), PLAIN), asked(request(), PLAIN)) is None

    def test_an_empty_folder_and_a_missing_one(self, tmp_path):
        assert "there are none that can be read" in miss(tmp_path, request())
        with pytest.raises(UsageError, match="is no folder"):
            Replay("openai", str(tmp_path / "no"), PLAIN)

    def test_what_is_damaged_is_said_or_passed_over(self, tmp_path):
        record(tmp_path, (request(), says("x")))
        [file] = tmp_path.iterdir()
        (tmp_path / f"{'a' * 64}.json").write_text("{")
        (tmp_path / f"{'b' * 64}.json").symlink_to("/etc/passwd")
        (tmp_path / "notes.txt").write_text("mine")
        assert "the nearest of 1" in miss(tmp_path, request(user("Other")))
        good = file.read_bytes()
        for bad in (good[:-20], b"[" * 100_000, good.replace(b'"format": 2', b'"format": 3'), b""):
            file.write_bytes(bad)
            assert "cannot be used" in miss(tmp_path, request())
        file.write_bytes(good.replace(b'"Hi"', b'"Ho"'))
        assert "another request than its name says" in miss(tmp_path, request())

    def test_counts_are_not_recorded(self, tmp_path):
        with pytest.raises(ProviderError, match="no token counts"):
            asyncio.run(Replay("openai", str(tmp_path), PLAIN).count(request()))


def test_a_folder_that_cannot_be_made_is_told_before_anything_is_asked(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StartError, match="cannot be written"):
        RecordingAdapter(Model(), str(tmp_path / "file" / "x"), PLAIN)


def test_a_refusal_is_recorded_without_the_endpoint(tmp_path):
    where = "http://models.intern.example:8443/v1"
    refusal = ProviderError(f"openai at {where} rejects the request (400): see https://docs.example/ now")
    with pytest.raises(ProviderError):
        record(tmp_path, (request(endpoint=where), [refusal]))
    [written] = tmp_path.iterdir()
    assert "intern.example" not in written.read_text()
    with pytest.raises(
        ProviderError, match=r"openai rejects the request \(400\): see https://docs\.example/ now"
    ):
        replay(tmp_path, request())


def conversation(turns, first="Hi"):
    """The requests of a conversation, and what the model says to each."""
    history, out = (), []
    for n in range(turns):
        history = (*history, user(first if n == 0 else f"Question {n}"))
        out.append((request(*history), says(f"Answer {n}")))
        history = (*history, Message("assistant", (Text(f"Answer {n}"),)))
    return out


def contents(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def file_of(folder, one):
    return folder / f"{key_of(asked(one, PLAIN))}.json"


BEFORE = """{"answers": [{"message": {"content": [{"text": "Hello.", "type": "text"}], "role": "assistant"},
"model": "m-2026", "said": [{"kind": "text", "pieces": ["Hel", "lo."]}],
"usage": {"output": 2, "read": 7, "uncached": 3}}], "format": 1, "request": {"messages":
[{"content": [{"text": "Hi", "type": "text"}], "role": "user"}], "model": "m", "options": {"max_tokens": 4096,
"seed": 7, "temperature": 0.0}, "provider": "openai", "system": ["Be brief. {{now}}\\n"]}}"""


class TestLongConversations:
    def test_a_file_holds_what_came_since_the_last_one(self, tmp_path):
        calls = conversation(3)
        record(tmp_path, *calls)
        first, _, third = (json.loads(file_of(tmp_path, one).read_text()) for one, _ in calls)
        assert [m["content"][0]["text"] for m in first["request"]["messages"]] == ["Hi"]
        assert sorted(third) == ["answers", "follows", "format", "messages"]
        assert third["follows"] == key_of(asked(calls[1][0], PLAIN))
        assert [m["content"][0]["text"] for m in third["messages"]] == ["Answer 1", "Question 2"]

    def test_what_an_exchange_costs_does_not_grow(self, tmp_path):
        calls = conversation(40)
        record(tmp_path, *calls)
        sizes = [len(file_of(tmp_path, one).read_bytes()) for one, _ in calls]
        assert max(sizes[1:]) - min(sizes[1:]) < 10

    def test_they_are_the_same_whether_one_process_records_them_or_many(self, tmp_path):
        calls = conversation(5)
        record(tmp_path / "one", *calls)
        for call in calls:
            record(tmp_path / "many", call)
        assert contents(tmp_path / "one") == contents(tmp_path / "many")
        record(tmp_path / "one", *calls)
        assert contents(tmp_path / "one") == contents(tmp_path / "many")

    def test_all_of_it_is_answered_again(self, tmp_path):
        calls = conversation(5)
        record(tmp_path, *calls)
        came = replay(tmp_path, *(one for one, _ in calls))
        assert [events[-1].message.text for events in came] == [f"Answer {n}" for n in range(5)]

    @pytest.mark.parametrize(
        "other",
        [
            lambda one: msgspec.structs.replace(one, response_schema={"type": "object"}),
            lambda one: msgspec.structs.replace(one, history=(user("Else"), *one.history[1:])),
            lambda one: msgspec.structs.replace(one, history=(user("Hi"), *one.history[-1:] * 40)),
        ],
    )
    def test_what_goes_on_from_nothing_that_is_there_is_whole(self, tmp_path, other):
        (first, said), (second, _) = conversation(2)
        record(tmp_path, (first, said), (other(second), says("x")))
        assert json.loads(file_of(tmp_path, other(second)).read_text())["request"]

    def test_a_shortened_conversation_begins_anew_and_goes_on(self, tmp_path):
        summary = (user("Summary"), Message("assistant", (Text("Well."),)), user("And now?"))
        calls = [
            *conversation(3),
            (request(*summary), says("a")),
            (request(*summary, *summary[1:]), says("b")),
        ]
        record(tmp_path, *calls)
        kinds = ["follows" in json.loads(file_of(tmp_path, one).read_text()) for one, _ in calls]
        assert kinds == [False, True, True, False, True]
        assert replay(tmp_path, *(one for one, _ in calls))[-1][-1].message.text == "b"

    def test_an_exchange_is_answered_also_where_the_one_before_it_is_gone(self, tmp_path):
        calls = conversation(3)
        record(tmp_path, *calls)
        for one, _ in calls[:2]:
            file_of(tmp_path, one).unlink()
        [came] = replay(tmp_path, calls[2][0])
        assert came[-1].message.text == "Answer 2"

    def test_a_miss_looks_into_whole_requests(self, tmp_path):
        calls = conversation(3)
        record(tmp_path, *calls)
        changed = (*calls[2][0].history[:-1], user("Question two"))
        said = miss(tmp_path, request(*changed))
        assert "the nearest of 3" in said
        assert "message 5 (user), byte" in said
        file_of(tmp_path, calls[1][0]).unlink()
        assert "the nearest of 1" in miss(tmp_path, request(*changed))

    def test_what_was_put_together_by_hand_is_not_believed(self, tmp_path):
        calls = conversation(3)
        record(tmp_path, *calls)
        file = file_of(tmp_path, calls[2][0])
        good = file.read_text()
        first = key_of(asked(calls[0][0], PLAIN))
        for bad in (
            good.replace("Question 2", "Question 3"),
            good.replace(json.loads(good)["follows"], first),
        ):
            file.write_text(bad)
            assert "another request than its name says" in miss(tmp_path, calls[2][0])
        for bad in (
            good.replace(json.loads(good)["follows"], "../x"),
            json.dumps({"format": 2, "answers": []}),
        ):
            file.write_text(bad)
            assert "cannot be used" in miss(tmp_path, calls[2][0])

    def test_recordings_that_go_round_in_a_circle_are_passed_over(self, tmp_path):
        new = [msgspec.to_builtins(user("x"))]
        for key, follows in (("a" * 64, "b" * 64), ("b" * 64, "a" * 64), ("c" * 64, "c" * 64)):
            recording = Recording(FORMAT, (), follows=follows, messages=new)
            (tmp_path / f"{key}.json").write_bytes(encode(recording))
        assert "there are none that can be read" in miss(tmp_path, request())
        assert list(RecordingFolder(str(tmp_path)).requests()) == []

    def test_recordings_of_format_1_answer_as_before(self, tmp_path):
        (tmp_path / f"{KNOWN_KEY}.json").write_text(BEFORE)
        known = request(user("Hi"), temperature=0.0, seed=7)
        [came] = replay(tmp_path, known)
        assert [e.text for e in came[:-1]] == ["Hel", "lo."]
        assert came[-1].usage == USAGE
        assert "message 1 (user)" in miss(tmp_path, request(user("Ho"), temperature=0.0, seed=7))

    def test_a_new_recording_goes_on_from_one_of_format_1(self, tmp_path):
        (tmp_path / f"{KNOWN_KEY}.json").write_text(BEFORE)
        longer = (user("Hi"), Message("assistant", (Text("Hello."),)), user("Bye"))
        one = request(*longer, temperature=0.0, seed=7)
        record(tmp_path, (one, says("Bye.")))
        assert json.loads(file_of(tmp_path, one).read_text())["follows"] == KNOWN_KEY
        assert "message 3 (user)" in miss(tmp_path, request(*longer[:2], user("?"), temperature=0.0, seed=7))


words = st.lists(st.sampled_from(["a", "", "/home/x", 'ü"\n']), min_size=1, max_size=7)


@given(st.lists(words, min_size=1, max_size=4), st.booleans(), st.data())
def test_a_name_is_the_digest_of_the_whole_request_also_where_a_part_of_it_was_known(several, shots, data):
    """Names stay what they were when every file held a whole request."""
    disguise = Disguise({"root": "/home/x"})
    chain = RequestChain(disguise)
    for texts in several:
        history = tuple(Message("assistant" if n % 2 else "user", (Text(t),)) for n, t in enumerate(texts))
        one = request(*history, tools=[LISTABLE_TOOLS["grep"]])
        if shots:
            one = msgspec.structs.replace(
                one, prefix=msgspec.structs.replace(one.prefix, few_shots=(user("/home/x"),))
            )
        named = chain.of(one)
        assert named.asked == asked(one, disguise)
        assert named.key == key_of(asked(one, disguise))
        back = data.draw(st.integers(0, len(history)))
        before = msgspec.structs.replace(one, history=history[: len(history) - back])
        assert named.key_before(back) == key_of(asked(before, disguise))
