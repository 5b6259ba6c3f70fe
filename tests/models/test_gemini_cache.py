"""Cached contents of provider `gemini`: what is in them, when they are made, and that no turn fails by them."""

import asyncio
import json
import os
import stat
import threading
from contextlib import aclosing

import msgspec
import pytest
from gemini_server import FORBIDDEN_BESIDE_A_NAME, GeminiServer, Refused, call, chunk, invalid, text
from hypothesis import given
from hypothesis import strategies as st
from turning import notices, outcome, request, run_turn

from halo.errors import ProviderError
from halo.models import gemini_keeper
from halo.models.adapter import Request
from halo.models.cache_rules import rule_for
from halo.models.cache_watch import CacheWatch
from halo.models.gemini import Gemini
from halo.models.gemini_cache import FORMAT, LIVES, Index, Kept, naming, next_step
from halo.models.gemini_wire import gemini_body
from halo.models.opening import open_adapter
from halo.models.prefix import Prefix
from halo.models.watching import WatchedAdapter
from halo.records.artifacts import Binding, Capabilities
from halo.records.messages import Message, Text, user
from halo.records.tools import LISTABLE_TOOLS

KEY = "AIza-very-secret-0123456789"
MODEL = "gemini-3.8-flash"
READ = LISTABLE_TOOLS["file_read"]
STATIC = "You work for the harbour office. " * 60
SLOT = "The time is 12:34 in Bremerhaven.\n"
SHOTS = (user("Name a ship."), Message("assistant", (Text("Cap San Diego."),)))


@pytest.fixture
def server():
    made = GeminiServer()
    yield made
    made.close()


@pytest.fixture
def desk(server, tmp_path):
    return Desk(server, str(tmp_path / "cache"))


class Desk:
    """Runs turns, each in a process of its own as far as the adapter can tell."""

    def __init__(self, server, cache):
        self.server = server
        self.cache = cache

    def adapter(self, key=KEY, model=MODEL, minimum=100):
        return Gemini(
            self.server.url, key, model, cache=self.cache, minimum=minimum, now=lambda: self.server.now
        )

    def turn(
        self, *history, system=STATIC + SLOT, tools=(READ,), shots=(), adapter=None, choice="auto", **fields
    ):
        model = fields.get("model", MODEL)
        prefix = Prefix(system, STATIC, tuple(tools), shots, "f" * 64)
        binding = Binding("gemini", model, **fields.pop("binding", {}))
        turn = Request(prefix, history or (user("Hi"),), binding, tool_choice=choice)
        events = run_turn(adapter or self.adapter(model=model), turn)
        said, done = outcome(events)
        assert said == "Hello."
        return events, done

    def files(self):
        folder = os.path.join(self.cache, "gemini")
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".json")]

    def index(self):
        with open(self.files()[0], "rb") as file:
            return msgspec.json.decode(file.read(), type=Kept)


HOUR = {"cache": "1h"}


class TestWhenOneIsMade:
    def test_the_second_turn_in_five_minutes_makes_one_and_the_third_names_it(self, server, desk):
        first, second, third = (desk.turn()[1].usage for _ in range(3))
        assert len(server.kept()) == 1
        assert server.kept()[0]["ttl"] == "300s"
        plain, named, again = server.generated()
        assert "cachedContent" not in plain
        assert named["cachedContent"] == again["cachedContent"] == "cachedContents/made-1"
        assert (first.read, first.written) == (0, 0)
        assert (second.read, second.written > 400) == (0, True)
        assert (third.read, third.written) == (second.written, 0)
        assert first.prompt > third.uncached

    def test_it_is_told_once(self, server, desk):
        told = [notices(desk.turn()[0]) for _ in range(3)]
        assert [len(t) for t in told] == [0, 1, 0]
        assert "for five minutes" in told[1][0]

    def test_turns_far_apart_are_better_off_without(self, server, desk):
        for _ in range(3):
            desk.turn()
            server.now += 301
        assert server.kept() == []

    def test_an_hour_is_made_at_once(self, server, desk):
        events, done = desk.turn(binding=HOUR)
        assert server.kept()[0]["ttl"] == "3600s"
        assert done.usage.written > 400
        assert "for an hour" in notices(events)[0]

    def test_off_is_off(self, server, desk):
        for _ in range(3):
            desk.turn(binding={"cache": "off"})
        assert server.kept() == []
        assert not os.path.exists(desk.cache)

    @pytest.mark.parametrize("minimum", [None, 100_000])
    def test_nothing_below_the_minimum_or_without_one(self, server, desk, minimum):
        for _ in range(3):
            desk.turn(adapter=desk.adapter(minimum=minimum), binding=HOUR)
        assert server.kept() == []

    def test_a_model_that_takes_none_is_not_asked(self, server, tmp_path):
        for marks in (None, False, True):
            adapter = open_adapter(
                Binding("gemini", MODEL, server.url), tool_mode="native", key=KEY, trusted=False,
                context_tokens=1, cache=str(tmp_path), base_dir="/", min_cacheable=100,
                capabilities=Capabilities(cache_marks=marks),
            )  # fmt: skip
            run_turn(
                adapter,
                request(user("?"), system=STATIC, static=STATIC, provider="gemini", model=MODEL, **HOUR),
            )
            assert len(server.kept()) == (marks is True)

    def test_a_prompt_without_a_static_beginning_is_sent_as_it_is(self, server, desk):
        prefix = Prefix(SLOT, "", (READ,), ())
        run_turn(desk.adapter(minimum=1), Request(prefix, (user("Hi"),), Binding("gemini", MODEL, **HOUR)))
        assert server.kept() == []

    def test_half_way_through_its_life_it_is_extended(self, server, desk):
        desk.turn(binding=HOUR)
        for _ in range(6):
            server.now += 1500
            desk.turn(binding=HOUR)
        extended = [a for a in server.asked if a.method == "PATCH"]
        assert len(server.kept()) == 1
        assert len(extended) == 3
        assert extended[0].body == {"ttl": "3600s"}

    def test_one_that_has_just_ended_is_made_anew(self, server, desk):
        desk.turn()
        desk.turn()
        server.now += 400
        desk.turn()
        assert len(server.kept()) == 2
        server.now += 4000
        desk.turn()
        assert len(server.kept()) == 2

    @given(
        st.floats(0, 1e5), st.floats(0, 1e5), st.floats(0, 1e5), st.sampled_from(["", "cachedContents/a"]),
        st.sampled_from(["off", "5m", "1h"]), st.floats(0, 1e5),
    )  # fmt: skip
    def test_what_is_named_lives_and_what_was_refused_is_not_made(self, used, until, no, name, cache, now):
        step = next_step(Kept(FORMAT, "k", used, name, until, no), cache, now)
        assert step not in ("name", "extend") or (name and until > now)
        assert step != "make" or no <= now
        assert (step == "none") if cache == "off" else (step != "note" or cache == "5m")

    def test_making_one_is_not_taken_for_a_loss(self, server, desk):
        prefix = Prefix(STATIC + SLOT, STATIC, (READ,), (), "f" * 64)
        turn = Request(prefix, (user("Hi"),), Binding("gemini", MODEL))
        watch = CacheWatch(rule_for(turn.binding, Capabilities(cache_marks=True)))
        adapter = WatchedAdapter(desk.adapter(), watch, lambda: server.now)
        hit = {"promptTokenCount": 9000, "cachedContentTokenCount": 8000, "candidatesTokenCount": 1}
        server.says(chunk(text("a"), stop="STOP", usage=hit))  # by itself, which nobody promises
        figures = []
        for _ in range(3):
            events = run_turn(adapter, turn)
            figures.append(outcome(events)[1])
            assert not [n for n in notices(events) if "should have come" in n]
        full, made, named = figures
        assert (full.expected, full.usage.read) == (0, 8000)
        assert (made.expected, made.usage.read) == (0, 0)
        assert named.expected == named.usage.read == made.usage.written

    def test_another_process_knows_how_much_is_in_it(self, server, desk):
        written = desk.turn(binding=HOUR)[1].usage.written
        assert desk.turn(binding=HOUR)[1].promised == written


class TestWhatIsInIt:
    def test_system_tools_and_few_shots_are_in_it_and_never_beside_it(self, server, desk):
        for _ in range(3):
            desk.turn(shots=SHOTS)
        (kept,) = server.kept()
        full, named, _ = server.generated()
        assert kept["systemInstruction"] == {"parts": [{"text": STATIC}]}
        assert kept["tools"] == full["tools"]
        assert kept["contents"] == full["contents"][:2]
        assert kept["model"] == f"models/{MODEL}"
        assert not FORBIDDEN_BESIDE_A_NAME & set(named)
        (content,) = named["contents"]
        assert content["role"] == "user"
        assert content["parts"][1] == {"text": "Hi"}
        assert named["generationConfig"] == full["generationConfig"]

    def test_no_value_of_a_slot_and_nothing_of_the_history_enters_it(self, server, desk):
        for turn in range(3):
            desk.turn(user(f"secret question {turn}"), system=STATIC + SLOT.replace("12:34", f"12:{turn}5"))
        (kept,) = server.kept()
        assert "Bremerhaven" not in json.dumps(kept)
        assert "secret question" not in json.dumps(kept)
        first = server.generated()[2]["contents"][0]["parts"][0]["text"]
        assert "The time is 12:25 in Bremerhaven." in first
        assert first.startswith("The system instructions continue here; the user has not written this:")
        assert first.endswith("End of the system instructions.")

    def test_without_slots_there_is_nothing_to_go_on_with(self, server, desk):
        desk.turn(system=STATIC, binding=HOUR)
        assert server.generated()[0]["contents"] == [{"role": "user", "parts": [{"text": "Hi"}]}]

    def test_its_label_is_the_fingerprint(self, server, desk):
        desk.turn(binding=HOUR)
        assert server.kept()[0]["displayName"] == "halo-ffffffffffff"

    def test_where_calls_are_forbidden_everything_is_sent(self, server, desk):
        desk.turn(binding=HOUR)
        desk.turn(binding=HOUR, choice="none")
        named, full = server.generated()
        assert "cachedContent" in named
        assert full["toolConfig"] == {"functionCallingConfig": {"mode": "NONE"}}
        assert full["systemInstruction"]

    def test_the_digest_and_the_body_of_a_request_do_not_depend_on_it(self, desk):
        results = [desk.turn()[1] for _ in range(3)]
        assert len({r.request_digest for r in results}) == 1
        assert results[0].body == results[2].body

    def test_every_step_of_a_turn_names_the_same(self, server, desk):
        server.says(chunk(call("file_read", {"path": "a"}, thoughtSignature="c2ln"), stop="STOP"))
        adapter = desk.adapter()
        prefix = Prefix(STATIC + SLOT, STATIC, (READ,), SHOTS)
        binding = Binding("gemini", MODEL, **HOUR)
        first = run_turn(adapter, Request(prefix, (user("Hi"),), binding), close=False)
        message = outcome(first)[1].message
        from halo.records.messages import ToolResult

        answer = Message("user", (ToolResult(message.calls[0].id, "text"),))
        run_turn(adapter, Request(prefix, (user("Hi"), message, answer), binding))
        one, two = server.generated()
        assert one["cachedContent"] == two["cachedContent"]
        assert two["contents"][: len(one["contents"])] == one["contents"]

    @given(st.integers(0, 3), st.text(), st.lists(st.text(min_size=1), min_size=1, max_size=4))
    def test_a_request_and_its_resource_are_the_whole(self, pairs, rest, said):
        shots = SHOTS * pairs
        history = tuple(Message("assistant" if n % 2 else "user", (Text(t),)) for n, t in enumerate(said))
        contents = [{"role": m.role, "parts": [{"text": m.text}]} for m in (*shots, *history)]
        prefix = Prefix(STATIC + rest, STATIC, (READ,), shots)
        body = gemini_body(Request(prefix, history, Binding("gemini", MODEL)), contents)
        before = json.dumps(body)
        sent = naming(body, prefix, len(shots), "cachedContents/a")
        assert json.dumps(body) == before
        assert not FORBIDDEN_BESIDE_A_NAME & set(sent)
        words = [p["text"] for c in sent["contents"] for p in c["parts"]]
        assert words[bool(rest.strip()) :] == [m.text for m in history]
        assert not rest.strip() or rest.strip() in words[0]


class TestWhereItsNameIsKept:
    def test_other_processes_find_it(self, server, desk):
        desk.turn(binding=HOUR)
        desk.turn(binding=HOUR)
        assert [b["cachedContent"] for b in server.generated()] == ["cachedContents/made-1"] * 2

    def test_the_file_is_private_and_holds_neither_key_nor_text(self, desk):
        desk.turn(binding=HOUR)
        (path,) = desk.files()
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700
        with open(path, encoding="utf-8") as file:
            text = file.read()
        assert KEY not in text
        assert "harbour" not in text
        assert json.loads(text)["name"] == "cachedContents/made-1"

    @pytest.mark.parametrize(
        "change", [{"adapter": {"key": "AIza-another-account"}}, {"model": "gemini-3.7-flash"}, {"tools": ()}]
    )
    def test_another_account_model_or_prompt_has_its_own(self, server, desk, change):
        desk.turn(binding=HOUR)
        if "adapter" in change:
            change = {"adapter": desk.adapter(**change["adapter"])}
        desk.turn(binding=HOUR, **change)
        assert len(server.kept()) == 2
        assert len(desk.files()) == 2

    @pytest.mark.parametrize(
        "damage",
        [
            lambda data: b"",
            lambda data: data[:-5],
            lambda data: data.replace(b"made-1", b"../made"),
            lambda data: data.replace(b'"format":1', b'"format":2'),
            lambda data: data.replace(b'"key":"', b'"key":"0'),
            lambda data: b"x" * 100_000,
        ],
    )
    def test_a_damaged_file_is_like_none(self, server, desk, damage):
        desk.turn(binding=HOUR)
        (path,) = desk.files()
        with open(path, "rb") as file:
            data = damage(file.read())
        with open(path, "wb") as file:
            file.write(data)
        desk.turn(binding=HOUR)
        assert len(server.kept()) == 2

    def test_a_link_is_not_followed(self, server, desk, tmp_path):
        desk.turn(binding=HOUR)
        (path,) = desk.files()
        os.rename(path, tmp_path / "elsewhere")
        os.symlink(tmp_path / "elsewhere", path)
        desk.turn(binding=HOUR)
        assert len(server.kept()) == 2
        assert not os.path.islink(path)

    def test_a_cache_that_cannot_be_written_costs_the_turn_nothing(self, server, tmp_path):
        (tmp_path / "cache").write_text("a file")
        desk = Desk(server, str(tmp_path / "cache"))
        desk.turn(binding=HOUR)
        assert server.kept() == []
        assert len(server.generated()) == 1

    def test_what_is_over_goes_when_something_is_written(self, server, desk):
        desk.turn(tools=())
        server.now += 2 * max(LIVES.values()) + 1
        desk.turn()
        assert len(desk.files()) == 1

    def test_while_one_process_makes_it_others_do_without(self, server, desk):
        server.keeping.append(0.8)
        slow = threading.Thread(target=desk.turn, kwargs={"binding": HOUR})
        slow.start()
        while not server.kept():
            pass
        desk.turn(binding=HOUR)
        slow.join()
        assert len(server.kept()) == 1
        assert sorted("cachedContent" in b for b in server.generated()) == [False, True]

    def test_the_index_remembers_within_a_process_where_the_folder_is_gone(self, tmp_path):
        (tmp_path / "no").write_text("")
        index = Index(str(tmp_path / "no"))
        index.put(Kept(FORMAT, "k" * 64, used=5.0), 5.0)
        assert index.get("k" * 64).used == 5.0


GONE = Refused(403, "PERMISSION_DENIED", "CachedContent not found (or permission denied)")


class TestThatNoTurnFails:
    def test_one_that_is_gone_is_made_anew(self, server, desk):
        desk.turn(binding=HOUR)
        server.resources.clear()
        events, done = desk.turn(binding=HOUR)
        assert len(server.kept()) == 2
        assert done.usage.written > 0
        assert any("lost the prefix" in n for n in notices(events))

    def test_one_that_is_gone_when_it_is_to_be_extended_is_made_anew(self, server, desk):
        desk.turn(binding=HOUR)
        server.resources.clear()
        server.now += 3000
        desk.turn(binding=HOUR)
        assert len(server.kept()) == 2

    @pytest.mark.parametrize(
        "refusal", [invalid("ttl cannot be changed"), Refused(503, "UNAVAILABLE", f"busy {KEY}")]
    )
    def test_one_that_cannot_be_extended_is_told_once_and_named_until_it_ends(self, server, desk, refusal):
        desk.turn(binding=HOUR)
        server.now += 3000
        server.extending = [refusal] * 9
        told = [notices(desk.turn(binding=HOUR)[0]) for _ in range(3)]
        assert [len(t) for t in told] == [1, 0, 0]
        assert told[0][0].startswith("warning: gemini does not keep the cached prefix for longer")
        assert KEY not in told[0][0]
        assert len([a for a in server.asked if a.method == "PATCH"]) == 1
        assert all(b["cachedContent"] == "cachedContents/made-1" for b in server.generated())
        server.now += 600
        desk.turn(binding=HOUR)
        assert server.generated()[-1]["cachedContent"] == "cachedContents/made-2"
        assert not desk.index().fixed

    def test_without_a_folder_an_adapter_remembers_for_its_life(self, server, desk):
        adapter = desk.adapter()
        desk.turn(binding=HOUR, adapter=adapter)
        server.now += 3000
        server.extending = [invalid("no")] * 9
        folder = os.path.join(desk.cache, "gemini")
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        os.rmdir(folder)
        with open(folder, "w", encoding="utf-8"):
            pass
        for _ in range(3):
            desk.turn(binding=HOUR, adapter=adapter)
        assert len([a for a in server.asked if a.method == "PATCH"]) == 1

    def test_one_that_is_gone_at_once_is_given_up_for_an_hour(self, server, desk):
        server.says(GONE)
        events, done = desk.turn(binding=HOUR)
        assert [("cachedContent" in b) for b in server.generated()] == [True, False]
        assert (done.usage.read, done.usage.written) == (0, 0)
        assert any("sent in full" in n for n in notices(events))
        server.now += 3500
        desk.turn(binding=HOUR)
        assert len(server.kept()) == 1
        server.now += 200
        desk.turn(binding=HOUR)
        assert len(server.kept()) == 2

    @pytest.mark.parametrize("words", ["Cache content made-1 is expired.", "Tool config should not be set."])
    def test_a_request_that_is_refused_with_it_is_made_without(self, server, desk, words):
        desk.turn(binding=HOUR)
        server.says(invalid(words))
        desk.turn(binding=HOUR)
        assert [("cachedContent" in b) for b in server.generated()] == [True, True, False]
        assert len(server.kept()) == 1
        assert desk.index().refused > server.now

    def test_a_request_that_is_wrong_by_itself_stops_with_its_words_and_blames_nobody(self, server, desk):
        desk.turn(binding=HOUR)
        server.says(invalid("a picture that cannot be read"))
        server.says(invalid("a picture that cannot be read"))
        with pytest.raises(ProviderError, match="a picture that cannot be read"):
            desk.turn(binding=HOUR)
        assert desk.index().refused == 0

    def test_limits_and_overload_are_no_fault_of_the_cache(self, server, desk):
        desk.turn(binding=HOUR)
        server.says(Refused(429, "RESOURCE_EXHAUSTED", "slow down"))
        with pytest.raises(ProviderError) as error:
            desk.turn(binding=HOUR)
        assert error.value.kind == "rate_limit"
        assert desk.index().name

    @pytest.mark.parametrize(
        ("refusal", "patience"),
        [
            (invalid("Cached content is too small. total_token_count=9, min_total_token_count=4096"), 3600),
            (Refused(403, "PERMISSION_DENIED", f"no caching for {KEY}"), 3600),
            (Refused(429, "RESOURCE_EXHAUSTED", "TotalCachedContentStorageTokensPerModel"), 60),
            (Refused(503, "UNAVAILABLE", "busy"), 60),
        ],
    )
    def test_a_refusal_to_make_one_is_told_and_remembered(self, server, desk, refusal, patience):
        server.keeping.append(refusal)
        events, _ = desk.turn(binding=HOUR)
        (told,) = notices(events)
        assert told.startswith("warning: the prefix is sent in full")
        assert KEY not in told
        server.now += patience - 1
        assert notices(desk.turn(binding=HOUR)[0]) == []
        server.now += 2
        desk.turn(binding=HOUR)
        assert len(server.kept()) == 2
        assert server.generated()[-1]["cachedContent"]

    def test_a_provider_that_takes_its_time_is_not_waited_for(self, server, desk, monkeypatch):
        monkeypatch.setattr(gemini_keeper, "_PATIENCE", 0.2)
        server.keeping.append(1.0)
        events, _ = desk.turn(binding=HOUR)
        assert "no answer" in notices(events)[0]
        assert "cachedContent" not in server.generated()[0]


def test_calls_at_once_on_one_adapter_do_not_take_each_others_blame(server, desk):
    """One is refused because of the cached prefix, another begins before the first has gone through."""
    desk.turn(binding=HOUR)
    adapter = desk.adapter()
    refused, settled = asyncio.Event(), asyncio.Event()
    chunks = adapter._client.chunks

    async def slow(body):
        if body["contents"][-1]["parts"][-1]["text"] == "first":
            if "cachedContent" not in body:
                refused.set()
                await settled.wait()
            else:
                server.says(invalid("not with a cached content"))
        async with aclosing(chunks(body)) as stream:
            async for one in stream:
                yield one

    adapter._client.chunks = slow

    async def run(words):
        prefix = Prefix(STATIC + SLOT, STATIC, (READ,), (), "f" * 64)
        asked = Request(prefix, (user(words),), Binding("gemini", MODEL, **HOUR))
        async with aclosing(adapter.stream(asked)) as events:
            return [e async for e in events]

    async def both():
        try:
            first = asyncio.ensure_future(run("first"))
            await refused.wait()
            second = await run("second")
            settled.set()
            return await first, second
        finally:
            await adapter.close()

    first, second = asyncio.run(both())
    assert [n for n in notices(first) if "refuses a request with the cached prefix" in n]
    assert not [n for n in notices(second) if "refuses" in n]
    assert desk.index().refused > server.now
