"""What a call should find in the provider's cache, what it found, and why it did not."""

import asyncio
import time

import msgspec
import pytest
from turning import run_turn

from halo.models.adapter import Finished, Notice, Request, TextDelta
from halo.models.body_differences import body_difference
from halo.models.cache_rules import CacheRule, rule_for
from halo.models.cache_watch import CacheWatch, Earlier
from halo.models.chat_wire import OPENAI, chat_body, renderer
from halo.models.prefix import Prefix
from halo.models.rendering import Rendering
from halo.models.watching import WatchedAdapter
from halo.records.artifacts import Binding, Capabilities, Reasoning
from halo.records.messages import Message, Text, user
from halo.records.tools import LISTABLE_TOOLS
from halo.records.usage import Usage

RULE = CacheRule(life=300, slack=0)
KNOWN = Capabilities()
MARKS = msgspec.structs.replace(KNOWN, cache_marks=True)


def assistant(text):
    return Message("assistant", (Text(text),))


class Conversation:
    """Calls one after the other, rendered as the adapter of Chat Completions renders them."""

    def __init__(self, rule=RULE, earlier=None):
        self.watch = CacheWatch(rule, earlier)
        self.rendering = Rendering(renderer(OPENAI))
        self.now = 1000.0

    def call(
        self, *history, read, prompt=2000, after=10.0, system="You are a.", written=0, tools=(), **fields
    ):
        """Make a call; returns (expected, warning or None)."""
        self.now += after
        prefix = Prefix(system, "You", tuple(tools), fingerprint=fields.pop("fingerprint", "f"))
        promised = fields.pop("promised", 0)
        binding = Binding("openai", "m", **fields)
        request = Request(prefix, tuple(history), binding)
        expected = self.watch.expect(request, self.now)
        body = chat_body(request, self.rendering.of(request.messages).messages, OPENAI)
        usage = Usage(uncached=prompt - read - written, written=written, read=read, output=5)
        self.now += 1.0
        finished = Finished(assistant("x"), "end", usage, "m", "", body=body, promised=promised)
        notice = self.watch.seen(finished, self.now)
        return expected, notice.text if notice else None


ONE = (user("One"),)
TWO = (*ONE, assistant("x"), user("Two"))


class TestExpectation:
    def test_nothing_at_first_then_the_whole_last_prompt(self):
        talk = Conversation()
        assert talk.call(*ONE, read=0) == (0, None)
        assert talk.call(*TWO, read=2000, prompt=2500) == (2000, None)
        assert talk.call(*TWO, assistant("y"), user("Three"), read=2500, prompt=2600) == (2500, None)

    @pytest.mark.parametrize(
        "other",
        [
            {"model": "n"},
            {"thinking": Reasoning("high")},
            {"cache": "1h"},
            {"api": "responses"},
            {"endpoint": "http://127.0.0.1:1"},
        ],
    )
    def test_another_model_or_thinking_promises_nothing(self, other):
        talk = Conversation()
        talk.call(*ONE, read=0)
        if "model" in other:
            talk.watch.expect(
                Request(Prefix("You are a.", "You", fingerprint="f"), TWO, Binding("openai", "n")), 1020
            )
            assert talk.watch._expected == 0
        else:
            assert talk.call(*TWO, read=0, **other) == (0, None)

    def test_temperature_and_length_do_not_matter(self):
        talk = Conversation()
        talk.call(*ONE, read=0)
        assert talk.call(*TWO, read=2000, temperature=0.5, max_tokens=7)[0] == 2000

    def test_another_fingerprint_or_a_shortened_history_promises_nothing(self):
        talk = Conversation()
        talk.call(*TWO, read=0)
        assert talk.call(*TWO, read=0, fingerprint="g") == (0, None)
        assert talk.call(user("Summary"), user("Two"), read=0, fingerprint="g") == (0, None)

    def test_it_ends_with_the_life_of_the_cache(self):
        talk = Conversation()
        talk.call(*ONE, read=0)
        assert talk.call(*TWO, read=0, after=300.0) == (0, None)
        talk.call(*TWO, read=0)
        assert talk.call(*TWO, read=2000, after=250.0)[0] == 2000

    def test_a_clock_that_went_back_promises_no_nonsense(self):
        talk = Conversation()
        talk.call(*ONE, read=0)
        assert talk.call(*TWO, read=2000, after=-500.0)[1] is None


class TestRules:
    def rule(self, provider, capabilities=KNOWN, **fields):
        return rule_for(Binding(provider, "m", **fields), capabilities)

    def test_openai_caches_from_1024_tokens_in_steps_of_128(self):
        rule = self.rule("openai")
        assert rule.held(Usage(uncached=1023)) == 0
        assert rule.held(Usage(uncached=1300, read=128)) == 1408
        assert rule.held(Usage(uncached=1300, read=127)) == 1408

    def test_anthropic_and_models_with_marks_say_what_they_hold(self):
        usage = Usage(uncached=30, written=500, read=4000)
        assert self.rule("anthropic").held(usage) == 4500
        assert self.rule("openai", MARKS).held(usage) == 4500

    @pytest.mark.parametrize(("provider", "capabilities"), [("anthropic", KNOWN), ("openai", MARKS)])
    def test_off_is_off(self, provider, capabilities):
        assert self.rule(provider, capabilities, cache="off") is None

    def test_a_model_without_a_cache(self):
        assert self.rule("openai", Capabilities(prompt_cache=False)) is None
        talk = Conversation(None)
        talk.call(*ONE, read=0)
        assert talk.call(*TWO, read=0) == (0, None)

    def test_compatible_servers_promise_nothing_until_they_have_shown_a_hit(self):
        talk = Conversation(self.rule("openai", endpoint="http://127.0.0.1:8080/v1"))
        talk.call(*ONE, read=0)
        assert talk.call(*TWO, read=0, prompt=2100) == (0, None)
        three = (*TWO, assistant("y"), user("3"))
        assert talk.call(*three, read=2048, prompt=2200) == (0, None)
        expected, warning = talk.call(*three, assistant("z"), user("4"), read=0, prompt=2300)
        assert expected == 2176
        assert warning is not None

    def test_gemini_promises_a_resource_and_no_implicit_hit(self):
        talk = Conversation(self.rule("gemini", MARKS))
        talk.call(*ONE, read=1500)
        assert talk.call(*TWO, read=0) == (0, None)
        assert talk.call(*TWO, read=1500, promised=1500) == (0, None)
        assert talk.call(user("something else"), read=1700, promised=1500) == (1500, None)
        expected, warning = talk.call(user("something else"), read=0)
        assert expected == 1500
        assert warning is not None

    @pytest.mark.parametrize(
        ("capabilities", "fields"), [(KNOWN, {}), (Capabilities(cache_marks=False), {}), (MARKS, {"cache": "off"})]
    )  # fmt: skip
    def test_gemini_without_resources_promises_nothing(self, capabilities, fields):
        assert self.rule("gemini", capabilities, **fields) is None

    def test_deepseek_is_given_time_to_settle(self):
        talk = Conversation(self.rule("deepseek"))
        talk.call(*ONE, read=0)
        assert talk.call(*TWO, read=0, after=1.0) == (0, None)
        assert talk.call(*TWO, read=1984, after=15.0) == (1984, None)

    def test_what_is_kept_longer_when_asked_for(self):
        kept = msgspec.structs.replace(KNOWN, cache_retention=True)
        assert self.rule("openai", kept).life == 300
        assert self.rule("openai", kept, cache="1h").life == 24 * 3600
        assert self.rule("gemini", MARKS, cache="1h").life == 3600


class TestLosses:
    def test_a_clock_in_the_system_text_is_named_by_its_byte(self):
        talk = Conversation()
        talk.call(*ONE, read=0, system="You are a. It is 12:01.")
        expected, warning = talk.call(*TWO, read=0, system="You are a. It is 12:02.")
        assert expected == 2000
        assert "of 2,000 tokens" in warning
        assert "system text, byte 21" in warning
        assert "12:01." in warning
        assert "12:02." in warning

    def test_nothing_differs(self):
        talk = Conversation()
        talk.call(*ONE, read=0)
        _, warning = talk.call(*TWO, read=500)
        assert "1,500 did not" in warning
        assert "nothing of what was sent before differs" in warning

    def test_a_little_less_is_no_loss(self):
        talk = Conversation(msgspec.structs.replace(RULE, slack=128))
        talk.call(*ONE, read=0)
        assert talk.call(*TWO, read=1872)[1] is None
        talk.call(*ONE, read=0, fingerprint="g")
        assert talk.call(*TWO, read=1871, fingerprint="g")[1] is not None

    def test_it_is_told_once(self):
        talk = Conversation()
        talk.call(*ONE, read=0)
        assert talk.call(*TWO, read=0)[1] is not None
        assert talk.call(*TWO, assistant("y"), user("3"), read=2000) == (2000, None)


BODY = {"model": "m", "system": [{"text": "S"}], "tools": [{"name": "grep"}], "messages": [{"role": "user", "content": "a"}], "max_tokens": 5}  # fmt: skip


class TestBodies:
    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"tools": [{"name": "glob"}]}, "tools, byte 11: "),
            ({"tools": None, "system": None}, "tools, byte 0"),
            ({"system": [{"text": "T"}], "messages": []}, "system text, byte 10"),
            ({"messages": [{"role": "user", "content": "b"}]}, "message 1, byte 0: 'a' became 'b'"),
            ({"messages": [{"role": "usher", "content": "a"}]}, "message 1, byte 25"),
            ({"messages": []}, "message 1 is gone"),
            ({"model": "n", "tools": []}, "model, byte 0"),
            ({"thinking": {"type": "enabled"}}, "thinking, byte 0: the end became"),
        ],
    )
    def test_parts_in_the_order_in_which_providers_read_them(self, change, said):
        after = {k: v for k, v in {**BODY, **change}.items() if v is not None}
        assert body_difference(BODY, after).startswith(said)

    def test_a_continuation_and_other_sampling_differ_in_nothing(self):
        more = [*BODY["messages"], {"role": "assistant", "content": "x"}]
        assert body_difference(BODY, {**BODY, "messages": more, "max_tokens": 9, "temperature": 1}) == ""

    def test_a_long_history_costs_what_is_new_of_it(self):
        """Messages of a conversation are the same objects in each body, so none is looked into."""

        class Opaque(dict):
            def __eq__(self, other):
                raise AssertionError("looked into")

            __hash__ = None

        shared = [Opaque(role="user") for _ in range(10_000)]
        one, two = {"messages": [*shared]}, {"messages": [*shared, {"role": "user", "content": "new"}]}
        began = time.perf_counter()
        assert body_difference(one, two) == ""
        assert time.perf_counter() - began < 0.1


class TestOtherProcesses:
    def request(self, system="You are a."):
        return Request(Prefix(system, "You", fingerprint="f"), TWO, Binding("openai", "m"))

    def earlier(self, **fields):
        known = CacheWatch(RULE).prefix_digest(self.request())
        return Earlier(**{"usage": Usage(uncached=2000), "at": 1000.0, "prefix": known, **fields})

    def test_what_the_log_knows_is_expected(self):
        watch = CacheWatch(RULE, self.earlier())
        assert watch.expect(self.request(), 1060.0) == 2000
        assert (
            watch.seen(Finished(assistant("x"), "end", Usage(read=2000, uncached=9), "m", ""), 1061.0) is None
        )

    def test_not_after_its_life_and_not_of_an_engine_that_is_gone(self):
        assert CacheWatch(RULE, self.earlier()).expect(self.request(), 1300.0) == 0
        assert CacheWatch(RULE, self.earlier()).expect(self.request(), 900.0) == 0
        local = rule_for(Binding("local", "m"), KNOWN)
        assert CacheWatch(local, self.earlier()).expect(self.request(), 1001.0) == 0

    @pytest.mark.parametrize(
        ("system", "said"),
        [("You are a.", "by another process; the system text is the same"), ("You are b.", "the value of a slot has changed")],
    )  # fmt: skip
    def test_a_loss_says_what_can_be_known(self, system, said):
        watch = CacheWatch(RULE, self.earlier())
        watch.expect(self.request(system), 1060.0)
        notice = watch.seen(Finished(assistant("x"), "end", Usage(uncached=2100), "m", ""), 1061.0)
        assert said in notice.text


def test_an_adapter_that_is_watched_warns_before_it_is_finished():
    class Model:
        provider = "openai"

        async def stream(self, request):
            yield TextDelta("x")
            yield Finished(assistant("x"), "end", Usage(uncached=2000), "m", "")

    times = iter([1000.0, 1001.0, 1010.0, 1011.0])
    adapter = WatchedAdapter(Model(), CacheWatch(RULE), clock=lambda: next(times))
    prefix = Prefix("You are a.", "You", (LISTABLE_TOOLS["grep"],), fingerprint="f")

    def call(history):
        return run_turn(adapter, Request(prefix, history, Binding("openai", "m")), close=False)

    first, second = call(ONE), call(TWO)
    assert [type(e) for e in first] == [TextDelta, Finished]
    assert (first[-1].expected, len(first[-1].prefix)) == (0, 16)
    assert [type(e) for e in second] == [TextDelta, Notice, Finished]
    assert (second[-1].expected, second[-1].prefix) == (2000, first[-1].prefix)
    assert "cannot be compared" in second[1].text


def test_real_hits_of_a_real_server_are_expected_and_losses_are_told(llama_server):
    """llama.cpp keeps what its slot saw: the conversation goes on, another one takes the slot, it is lost."""
    from halo.models.openai_chat import OpenAIChat

    binding = Binding("openai", "m", llama_server.url + "/v1", max_tokens=4, temperature=0.0, seed=1)
    rule = msgspec.structs.replace(rule_for(binding, KNOWN), step=1, slack=32)
    prefix = Prefix(
        "You are a helpful assistant. " + "Answer in one short sentence. " * 20, "You", fingerprint="f"
    )
    other = Prefix(
        "Something else entirely. " + "Speak of boats and nothing else. " * 20, "S", fingerprint="g"
    )

    async def go():
        from contextlib import aclosing

        inner = OpenAIChat(llama_server.url + "/v1", llama_server.key)
        adapter = WatchedAdapter(inner, CacheWatch(rule))

        async def call(through, prefix, history):
            async with aclosing(through.stream(Request(prefix, history, binding))) as events:
                return [e async for e in events]

        try:
            history = (user("What is 2 + 2?"),)
            figures = []
            for turn in range(4):
                if turn == 3:
                    await call(inner, other, (user("Boats?"),))
                events = await call(adapter, prefix, history)
                done = events[-1]
                figures.append((done.expected, done.usage.read, any(isinstance(e, Notice) for e in events)))
                history = (*history, done.message, user("And 3 + 3?"))
            return figures
        finally:
            await adapter.close()

    first, second, third, last = asyncio.run(go())
    assert first[0] == second[0] == 0 or not second[2]
    assert third[0] > 100
    assert third[1] >= third[0] - 32
    assert not third[2]
    # Another conversation may have been given another slot; if it took this one, the loss is told.
    assert last[0] > third[0]
    assert last[2] == (last[1] < last[0] - 32)
