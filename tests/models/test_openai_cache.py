"""How OpenAI is asked to cache, in both of its protocols."""

import msgspec
import pytest
from test_openai_chat import KEY, USAGE, chunk
from turning import request, run_turn

from halo.models.openai_cache import cache_fields, wants_mark
from halo.models.openai_chat import OpenAIChat
from halo.models.openai_responses import OpenAIResponses
from halo.records.artifacts import UNKNOWN_CAPABILITIES, Capabilities
from halo.records.messages import user
from halo.records.tools import LISTABLE_TOOLS

READ = LISTABLE_TOOLS["file_read"]
FINGERPRINT = "0123456789abcdef" * 4
STATIC = "You answer in one sentence. " * 200
MARKS = Capabilities(cache_marks=True)
RETENTION = Capabilities(cache_retention=True)


def asked(*, system=f"{STATIC}Now: noon.", static=STATIC, fingerprint=FINGERPRINT, tools=(), **fields):
    turn = request(user("?"), system=system, static=static, tools=tools, **fields)
    return msgspec.structs.replace(turn, prefix=msgspec.structs.replace(turn.prefix, fingerprint=fingerprint))


@pytest.fixture
def own(monkeypatch):
    """The scripted server counts as OpenAI's own endpoint."""
    monkeypatch.setattr("halo.models.openai_endpoint.is_own", lambda *_: True)


def sent(scripted, turn, *, api, **options):
    if api == "chat":
        scripted.says_chat(chunk(content="ok"), chunk(stop="stop"), chunk(usage=USAGE))
        run_turn(OpenAIChat(scripted.url, KEY, **options), turn)
    else:
        done = {"type": "response.completed", "response": {"model": "m", "output": []}}
        scripted.says_chat(done, done=False)
        run_turn(OpenAIResponses(scripted.url, KEY, "m", **options), turn)
    return scripted.requests[-1].json


class TestKey:
    def test_it_is_made_of_the_fingerprint_and_short_enough(self):
        key = cache_fields(asked(), UNKNOWN_CAPABILITIES)["prompt_cache_key"]
        assert key.removeprefix("halo-") in FINGERPRINT
        assert len(key) <= 64

    def test_equal_fingerprints_have_equal_keys(self):
        assert cache_fields(asked(), MARKS) == cache_fields(asked(system=STATIC), MARKS)
        assert cache_fields(asked(), MARKS) != cache_fields(asked(fingerprint="f" * 64), MARKS)

    def test_without_a_fingerprint_or_a_wish_there_is_none(self):
        assert cache_fields(asked(fingerprint=""), UNKNOWN_CAPABILITIES) == {}
        assert cache_fields(asked(cache="off"), UNKNOWN_CAPABILITIES) == {}

    @pytest.mark.parametrize("api", ["chat", "responses"])
    def test_openai_gets_it(self, scripted, own, api):
        assert sent(scripted, asked(), api=api)["prompt_cache_key"] == f"halo-{FINGERPRINT[:40]}"

    @pytest.mark.parametrize("api", ["chat", "responses"])
    def test_nobody_else_does_since_some_refuse_what_they_do_not_know(self, scripted, api):
        body = sent(scripted, asked(cache="1h"), api=api, capabilities=MARKS)
        assert not [name for name in body if name.startswith("prompt_cache")]
        assert "prompt_cache" not in str(body)


class TestRetention:
    @pytest.mark.parametrize(
        ("cache", "capabilities", "expected"),
        [
            ("1h", RETENTION, "24h"),
            ("5m", RETENTION, None),
            ("off", RETENTION, None),
            ("1h", MARKS, None),  # both fields together are refused
            ("1h", UNKNOWN_CAPABILITIES, None),
        ],
    )
    def test_a_day_is_asked_for_where_the_model_has_it(self, cache, capabilities, expected):
        assert cache_fields(asked(cache=cache), capabilities).get("prompt_cache_retention") == expected


class TestMarks:
    def test_chat_completions_marks_the_end_of_the_static_prefix(self, scripted, own):
        body = sent(scripted, asked(), api="chat", capabilities=MARKS, minimum=1024)
        assert body["messages"][0] == {
            "role": "system",
            "content": [
                {"type": "text", "text": STATIC, "prompt_cache_breakpoint": {"mode": "explicit"}},
                {"type": "text", "text": "Now: noon."},
            ],
        }
        assert "prompt_cache_options" not in body  # the provider's own mark at the end stays

    def test_responses_has_no_place_for_it_in_the_instructions(self, scripted, own):
        body = sent(scripted, asked(cache="1h"), api="responses", capabilities=MARKS, minimum=1024)
        assert "instructions" not in body
        assert body["input"][0] == {
            "role": "developer",
            "content": [
                {
                    "type": "input_text",
                    "text": STATIC,
                    "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"},
                },
                {"type": "input_text", "text": "Now: noon."},
            ],
        }
        assert body["input"][1] == {"role": "user", "content": "?"}

    @pytest.mark.parametrize("api", ["chat", "responses"])
    def test_off_caches_nothing(self, scripted, own, api):
        body = sent(scripted, asked(cache="off"), api=api, capabilities=MARKS)
        assert body["prompt_cache_options"] == {"mode": "explicit"}
        assert "prompt_cache_breakpoint" not in str(body)
        assert "prompt_cache_key" not in body

    def test_none_where_it_could_not_work(self):
        assert wants_mark(asked(), MARKS, 1024)
        assert wants_mark(asked(), MARKS, None)
        assert not wants_mark(asked(), MARKS, 100_000)
        assert not wants_mark(asked(static="", system=""), MARKS, None)
        assert not wants_mark(asked(), UNKNOWN_CAPABILITIES, None)

    def test_tools_count_for_the_minimum(self):
        short = {"system": "Be brief. x", "static": "Be brief. "}
        assert not wants_mark(asked(**short), MARKS, 40)
        assert wants_mark(asked(**short, tools=[READ]), MARKS, 40)

    def test_a_mark_does_not_change_what_is_compared_of_a_request(self, scripted, own):
        """The digest tells one prompt from another; where the cache is marked does not change the prompt."""
        digests = set()
        for capabilities in (MARKS, UNKNOWN_CAPABILITIES):
            scripted.says_chat(chunk(content="ok"), chunk(stop="stop"), chunk(usage=USAGE))
            events = run_turn(OpenAIChat(scripted.url, KEY, capabilities=capabilities), asked())
            digests.add(events[-1].request_digest)
        assert len(digests) == 1


def test_a_model_with_marks_is_never_sent_a_retention():
    both = Capabilities(cache_marks=True, cache_retention=True)
    assert "prompt_cache_retention" not in cache_fields(asked(cache="1h"), both)
