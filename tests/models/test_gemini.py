"""Provider `gemini`: the real client against a server that speaks the published protocol."""

import asyncio
import json
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path

import msgspec
import pytest
from gemini_server import GeminiServer, Refused, call, chunk, text
from hypothesis import given
from hypothesis import strategies as st
from misbehaving import RESET, SILENCE, Misbehaving, answer, fault
from turning import notices, outcome, request, run_turn, thinking

from halo.errors import HaloError, MissingEngineError, MissingKeyError, ProviderError, StartError
from halo.models.endpoints import normalise
from halo.models.failures import Call
from halo.models.gemini import Gemini
from halo.models.gemini_stream import GeminiStream
from halo.models.gemini_wire import ContentRenderer
from halo.models.opening import open_adapter
from halo.models.rendering import Rendering
from halo.records.artifacts import Binding, Reasoning
from halo.records.messages import Image, Message, ProviderData, Text, Thinking, ToolCall, ToolResult, user
from halo.records.tools import LISTABLE_TOOLS
from halo.records.usage import Usage

KEY = "AIza-very-secret-0123456789"
MODEL = "gemini-3.8-flash"
READ = LISTABLE_TOOLS["file_read"]
SIGNED = ProviderData("gemini", {"thought_signature": "c2ln"})
DUMMY = "skip_thought_signature_validator"
CALL = Call("gemini", "http://127.0.0.1:1", MODEL, KEY)


@pytest.fixture
def server():
    made = GeminiServer()
    yield made
    made.close()


@pytest.fixture
def adapter(server, tmp_path):
    return Gemini(server.url, KEY, MODEL, cache=str(tmp_path))


def asked(*messages, **fields):
    return request(*messages, **{"provider": "gemini", "model": MODEL, **fields})


def rendered(*messages, model=MODEL):
    return Rendering(ContentRenderer(model)).of(messages).messages


def refused(adapter, turn):
    with pytest.raises(HaloError) as error:
        run_turn(adapter, turn)
    assert KEY not in str(error.value)
    return error.value


class TestATurn:
    def test_words_come_as_they_are_said_with_counts_and_model(self, server, adapter):
        events = run_turn(adapter, asked(user("Hi"), system="Be kind."))
        said, done = outcome(events)
        assert said == "Hello."
        assert done.message == Message("assistant", (Text("Hello."),))
        assert (done.stop_reason, done.model) == ("end", "gemini-3.8-flash-001")
        assert done.usage.output == 2
        assert done.usage.uncached > 0
        (sent,) = server.generated()
        assert sent == {
            "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
            "systemInstruction": {"parts": [{"text": "Be kind."}]},
            "generationConfig": {"maxOutputTokens": 24, "temperature": 0.0, "seed": 1},
        }
        assert server.asked[0].key == KEY
        assert not [name for name in server.asked[0].headers if "halo" in name]
        assert done.body == {"model": MODEL, **sent}

    def test_the_digest_of_a_request_tells_every_part_of_it(self, server, adapter):
        turns = [
            asked(user("a"), system="S"),
            asked(user("b"), system="S"),
            asked(user("a"), system="T"),
            asked(user("a"), system="S", tools=[READ]),
            asked(user("a"), system="S", top_k=3),
        ]
        digests = {outcome(run_turn(adapter, turn, close=False))[1].request_digest for turn in turns}
        again = outcome(run_turn(adapter, turns[0]))[1].request_digest
        assert len(digests) == len(turns)
        assert again in digests

    def test_thoughts_calls_and_their_signatures_come_and_go_back(self, server, adapter):
        server.says(
            chunk(text("Two ", thought=True)),
            chunk(text("files.", thought=True)),
            chunk(text("Look")),
            chunk(text("ing")),
            chunk(text("", thoughtSignature="Ab-_")),
            chunk(call("file_read", {"path": "a.md"}, thoughtSignature="c2ln"), call("file_list", {})),
            chunk(
                stop="STOP",
                usage={
                    "promptTokenCount": 100, "cachedContentTokenCount": 64, "candidatesTokenCount": 7,
                    "thoughtsTokenCount": 30, "totalTokenCount": 137,
                },
            ),
        )  # fmt: skip
        turn = asked(user("?"), system="S", tools=[READ], thinking=Reasoning("low"))
        events = run_turn(adapter, turn, close=False)
        said, done = outcome(events)
        assert said == "Looking"
        assert thinking(events) == "Two files."
        thought, words, mark, first, second = done.message.content
        assert thought == Thinking("Two files.")
        assert words == Text("Looking")
        assert mark == Text("", ProviderData("gemini", {"thought_signature": "Ab+/"}))
        assert (first.name, first.arguments, first.provider_data) == ("file_read", '{"path":"a.md"}', SIGNED)
        assert (second.name, second.arguments, second.provider_data) == ("file_list", "{}", None)
        assert first.id
        assert first.id != second.id
        assert done.stop_reason == "tool_calls"
        assert done.usage == Usage(uncached=36, read=64, output=37)
        sent = server.generated()[0]
        assert sent["generationConfig"]["thinkingConfig"] == {"includeThoughts": True, "thinkingLevel": "LOW"}
        assert sent["tools"] == [
            {
                "functionDeclarations": [
                    {
                        "name": "file_read",
                        "description": READ.description,
                        "parametersJsonSchema": READ.parameters,
                    }
                ]
            }
        ]
        # The server refuses a call without its signature, and results that are not as many as the calls.
        results = Message(
            "user", (Text("and?"), ToolResult(first.id, "A"), ToolResult(second.id, "no", is_error=True))
        )
        after = msgspec.structs.replace(turn, history=(*turn.history, done.message, results))
        run_turn(adapter, after)
        _, model, answers = server.generated()[1]["contents"]
        assert model["parts"] == [
            {"text": "Looking"},
            {"text": "", "thoughtSignature": "Ab+/"},
            {
                "functionCall": {"id": first.id, "name": "file_read", "args": {"path": "a.md"}},
                "thoughtSignature": "c2ln",
            },
            {"functionCall": {"id": second.id, "name": "file_list", "args": {}}},
        ]
        assert answers["parts"] == [
            {"functionResponse": {"id": first.id, "name": "file_read", "response": {"output": "A"}}},
            {"functionResponse": {"id": second.id, "name": "file_list", "response": {"error": "no"}}},
            {"text": "and?"},
        ]

    def test_calls_can_be_forbidden_and_replies_bound_to_a_schema(self, server, adapter):
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        turn = asked(user("?"), tools=[READ])
        run_turn(adapter, msgspec.structs.replace(turn, tool_choice="none"), close=False)
        run_turn(adapter, asked(user("?"), schema=schema), close=False)
        run_turn(
            adapter,
            msgspec.structs.replace(turn, tool_choice="none", response_schema=schema, history=(user("?"),)),
        )
        forbidden, bound, both = server.generated()
        assert forbidden["toolConfig"] == {"functionCallingConfig": {"mode": "NONE"}}
        assert forbidden["tools"]
        assert bound["generationConfig"]["responseMimeType"] == "application/json"
        assert bound["generationConfig"]["responseJsonSchema"] == schema
        assert "tools" not in both
        assert "toolConfig" not in both

    def test_older_models_take_a_schema_from_an_agent_with_tools(self, server, tmp_path):
        turn = asked(user("?"), model="gemini-2.5-flash", tools=[READ], schema={"type": "object"})
        run_turn(
            Gemini(server.url, KEY, "gemini-2.5-flash", cache=str(tmp_path)),
            msgspec.structs.replace(turn, tool_choice="none"),
        )
        assert len(server.generated()) == 1

    def test_a_bound_of_thoughts_and_all_sampling_are_sent(self, server, adapter):
        run_turn(
            adapter,
            asked(user("?"), thinking=Reasoning(budget_tokens=128), top_p=0.5, top_k=3, temperature=None),
        )
        assert server.generated()[0]["generationConfig"] == {
            "maxOutputTokens": 24, "topP": 0.5, "topK": 3, "seed": 1,
            "thinkingConfig": {"includeThoughts": True, "thinkingBudget": 128},
        }  # fmt: skip

    def test_ten_thousand_messages_are_not_walked_by_the_client(self, server, adapter):
        history = [Message("assistant" if n % 2 else "user", (Text(f"m{n}"),)) for n in range(10_001)]
        run_turn(adapter, asked(*history))
        assert [c["parts"][0]["text"] for c in server.generated()[0]["contents"]] == [m.text for m in history]

    def test_the_tokens_of_a_request_are_asked_for(self, server, adapter):
        turn = asked(user("Hi"), system="S", tools=[READ])
        number = asyncio.run(_counted(adapter, turn))
        assert number > 20
        inner = server.asked[0].body["generateContentRequest"]
        assert inner["contents"] == [{"role": "user", "parts": [{"text": "Hi"}]}]
        assert inner["systemInstruction"]
        assert inner["tools"]


async def _counted(adapter, turn):
    try:
        return await adapter.count(turn)
    finally:
        await adapter.close()


class TestWhatIsSent:
    def test_thoughts_of_other_providers_and_without_signature_stay_here(self):
        foreign = Thinking("x", ProviderData("anthropic", {"signature": "s"}))
        kept = Thinking("y", SIGNED)
        (sent,) = rendered(Message("assistant", (foreign, Thinking("z"), kept, Text("a"))))
        assert sent["parts"] == [
            {"text": "y", "thought": True, "thoughtSignature": "c2ln"},
            {"text": "a"},
        ]

    @pytest.mark.parametrize(
        ("model", "first"),
        [
            ("gemini-4-argon", DUMMY),
            (MODEL, DUMMY),
            ("models/gemini-3.8-flash", DUMMY),
            ("gemini-2.5-pro", None),
        ],
    )
    def test_a_call_that_the_model_did_not_make_gets_the_word_for_it(self, model, first):
        calls = Message("assistant", (ToolCall("1", "f", "{}"), ToolCall("2", "g", "{}")))
        (sent,) = rendered(calls, model=model)
        assert [p.get("thoughtSignature") for p in sent["parts"]] == [first, None]
        signed = Message("assistant", (ToolCall("1", "f", "{}", SIGNED), ToolCall("2", "g", "{}")))
        (sent,) = rendered(signed, model=model)
        assert [p.get("thoughtSignature") for p in sent["parts"]] == ["c2ln", None]

    def test_pictures_stand_inline_and_behind_the_results_they_belong_to(self):
        picture = Image("image/png", "AAAA")
        part = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
        (sent,) = rendered(Message("user", (picture, Text("what?"))))
        assert sent["parts"] == [part, {"text": "what?"}]
        calls = Message("assistant", (ToolCall("1", "view_image", "{}"), ToolCall("2", "view_image", "{}")))
        results = Message("user", (ToolResult("1", "ok", images=(picture,)), ToolResult("2", "none")))
        *_, sent = rendered(calls, results)
        assert [next(iter(p)) for p in sent["parts"]] == [
            "functionResponse",
            "functionResponse",
            "text",
            "inlineData",
        ]

    def test_what_cannot_be_sent_as_it_is_is_still_said(self):
        broken = Message("assistant", (ToolCall("1", "f", '{"a": '),))
        _, orphan = rendered(broken, Message("user", (ToolResult("other", "words"),)))
        assert rendered(broken)[0]["parts"][0]["functionCall"]["args"] == {"malformed_arguments": '{"a": '}
        assert orphan["parts"] == [{"text": "Result of a tool:\nwords"}]

    def test_blank_messages_are_left_out(self):
        assert rendered(Message("assistant", (Text(" "),))) == []

    @given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.integers(1, 12))
    def test_a_history_that_grows_is_rendered_as_one_that_is_there_at_once(self, batches, cut):
        history = [user("begin")]
        for turn, number in enumerate(batches):
            calls = tuple(ToolCall(f"{turn}.{n}", f"tool{n}", "{}") for n in range(number))
            history.append(Message("assistant", (*calls, Text("x")) if number == 0 else calls))
            results = tuple(ToolResult(c.id, "r") for c in calls)
            history.append(Message("user", results or (Text("on"),)))
        growing = Rendering(ContentRenderer(MODEL))
        for end in range(1, len(history) + 1, 2):
            latest = growing.of(tuple(history[:end]))
        assert latest == Rendering(ContentRenderer(MODEL)).of(tuple(history))
        begun = growing.of(tuple(history[: min(cut | 1, len(history))]))  # another conversation
        assert begun == Rendering(ContentRenderer(MODEL)).of(tuple(history[: min(cut | 1, len(history))]))


class TestHowARepliesEnds:
    @pytest.mark.parametrize(
        ("reason", "stop"),
        [("STOP", "end"), ("MAX_TOKENS", "max_tokens"), ("SAFETY", "refusal"), ("RECITATION", "refusal")],
    )
    def test_reasons(self, server, adapter, reason, stop):
        server.says(chunk(text("so far"), stop=reason))
        events = run_turn(adapter, asked(user("?")))
        said, done = outcome(events)
        assert (said, done.stop_reason) == ("so far", stop)
        assert any(reason in n for n in notices(events)) == (stop == "refusal")

    @pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"])
    def test_a_slip_of_the_model_may_pass(self, server, adapter, reason):
        server.says(chunk(stop=reason))
        error = refused(adapter, asked(user("?"), tools=[READ]))
        assert (error.kind, reason in error.message) == ("transient", True)

    def test_a_missing_signature_is_told_as_what_it_is(self, server, adapter):
        server.says(chunk(stop="MISSING_THOUGHT_SIGNATURE"))
        assert refused(adapter, asked(user("?"))).kind == "request"

    def test_a_blocked_prompt_is_a_refusal_with_its_reason(self, server, adapter):
        server.says({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "modelVersion": "m"})
        events = run_turn(adapter, asked(user("?")))
        said, done = outcome(events)
        assert (said, done.stop_reason, done.message.content) == ("", "refusal", (Text(""),))
        assert any("PROHIBITED_CONTENT" in n for n in notices(events))
        assert done.usage.uncached > 0

    def test_only_the_first_of_several_candidates_counts_and_strange_parts_are_told(self):
        reply = GeminiStream(CALL, "d" * 64)
        first = chunk(text("a"), {"executableCode": {"code": "1"}}, stop="STOP")
        second = {**chunk(text("b"))["candidates"][0], "index": 1}
        first["candidates"].append(second)
        events = reply.feed(first)
        assert len(notices(events)) == 1
        assert reply.finish()[-1].message == Message("assistant", (Text("a"),))

    def test_a_call_without_an_id_gets_one_and_others_keep_theirs(self):
        reply = GeminiStream(CALL, "d" * 64)
        reply.feed(chunk(call("f", {}), {"functionCall": {"name": "f", "id": "x"}}, stop="STOP"))
        assert [c.id for c in reply.finish()[-1].message.calls] == [f"call_{'d' * 12}_1", "x"]

    @given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda c: st.lists(c) | st.dictionaries(st.sampled_from(["candidates", "content", "parts", "text", "functionCall", "name", "finishReason", "usageMetadata"]), c)))  # fmt: skip
    def test_no_event_is_more_than_an_error(self, event):
        reply = GeminiStream(CALL, "d" * 64)
        try:
            reply.feed(event)
            reply.finish()
        except ProviderError:
            pass


def stream(*chunks):
    return b"".join(b"data: " + json.dumps(c).encode() + b"\r\n\r\n" for c in chunks)


WHOLE = stream(chunk(text("Hel")), chunk(text("lo."), stop="STOP"))
QUOTA = {
    "error": {
        "code": 429,
        "status": "RESOURCE_EXHAUSTED",
        "message": "You exceeded your current quota.",
        "details": [
            {"@type": "type.googleapis.com/google.rpc.QuotaFailure"},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"},
        ],
    }
}


def against(tmp_path, *script, read_timeout=5.0):
    """Run a call against a server that misbehaves; return the events, or the error, without the key."""

    async def go():
        async with Misbehaving(*script) as server:
            adapter = Gemini(server.url, KEY, MODEL, cache=str(tmp_path), read_timeout=read_timeout)
            try:
                async with aclosing(adapter.stream(asked(user("?")))) as events:
                    return [event async for event in events]
            except HaloError as error:
                return error
            finally:
                await adapter.close()

    got = asyncio.run(go())
    assert KEY not in str(got)
    return got


class TestMisbehaviour:
    @pytest.mark.parametrize("framing", ["close", "length", "chunked"])
    def test_a_stream_that_is_cut_between_events_broke_off(self, tmp_path, framing):
        error = against(tmp_path, answer(200, WHOLE, framing=framing, cut=len(stream(chunk(text("Hel"))))))
        assert (error.kind, "broke off" in error.message) == ("transient", True)

    @pytest.mark.parametrize("framing", ["length", "chunked"])
    def test_a_stream_that_is_cut_inside_an_event_broke_off(self, tmp_path, framing):
        error = against(tmp_path, answer(200, WHOLE, framing=framing, cut=len(WHOLE) - 20))
        assert (error.kind, "broke off" in error.message) == ("transient", True)

    @pytest.mark.parametrize("bad", [b"data: {oops\n\n", b'data: {"candidates": 5}\n\n'])
    def test_an_event_that_cannot_be_read(self, tmp_path, bad):
        error = against(tmp_path, answer(200, bad))
        assert (error.kind, "cannot be read" in error.message) == ("protocol", True)

    def test_slow_bytes_are_waited_for(self, tmp_path):
        steps = []
        for byte in range(0, len(WHOLE), 40):
            steps += [WHOLE[byte : byte + 40], 0.01]
        said, _ = outcome(against(tmp_path, answer(200, steps)))
        assert said == "Hello."

    def test_silence_ends(self, tmp_path):
        error = against(tmp_path, answer(200, [stream(chunk(text("Hel"))), SILENCE]), read_timeout=0.2)
        assert (error.kind, "did not answer in time" in error.message) == ("transient", True)

    def test_a_connection_that_breaks(self, tmp_path):
        assert against(tmp_path, RESET).kind == "transient"

    def test_a_limit_says_when_to_come_again(self, tmp_path):
        error = against(tmp_path, fault(429, QUOTA))
        assert (error.kind, error.retry_after) == ("rate_limit", 34.5)

    @pytest.mark.parametrize(
        "body", [{"error": {"code": 503, "status": "UNAVAILABLE", "message": "busy"}}, "x"]
    )
    def test_an_overloaded_server(self, tmp_path, body):
        assert against(tmp_path, fault(503, body)).kind == "transient"

    def test_an_error_in_the_middle_of_a_stream(self, tmp_path):
        error = against(tmp_path, answer(200, stream(chunk(text("Hel")), QUOTA)))
        assert (error.kind, error.retry_after) == ("rate_limit", 34.5)

    def test_a_key_that_is_not_one(self, tmp_path):
        body = {
            "error": {
                "code": 400,
                "status": "INVALID_ARGUMENT",
                "message": f"API key not valid: {KEY}",
                "details": [{"reason": "API_KEY_INVALID", "domain": "googleapis.com"}],
            }
        }
        error = against(tmp_path, fault(400, [body]))
        assert (error.kind, "does not accept the key" in error.message) == ("auth", True)

    def test_a_prompt_that_is_too_long(self, tmp_path):
        message = "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)."
        body = {"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": message}}
        assert against(tmp_path, fault(400, body)).kind == "overflow"

    def test_the_words_of_a_refusal_come_through_without_the_key(self, tmp_path):
        body = {"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": f"no such thing {KEY}"}}
        error = against(tmp_path, fault(400, body))
        assert (error.kind, "no such thing [key]" in error.message) == ("request", True)

    def test_a_redirect_is_not_followed(self, tmp_path):
        error = against(tmp_path, answer(302, b"", location="http://127.0.0.1:1/"))
        assert "redirects" in error.message

    def test_nobody_listens(self, tmp_path):
        error = refused(Gemini("http://127.0.0.1:1", KEY, MODEL, cache=str(tmp_path)), asked(user("?")))
        assert (error.kind, "cannot reach" in error.message) == ("transient", True)

    def test_a_call_that_is_given_up_leaves_no_connection(self, tmp_path):
        async def go():
            async with Misbehaving(answer(200, [stream(chunk(text("Hel"))), SILENCE])) as server:
                adapter = Gemini(server.url, KEY, MODEL, cache=str(tmp_path))

                async def take():
                    async with aclosing(adapter.stream(asked(user("?")))) as events:
                        async for event in events:
                            if event.text == "Hel":
                                heard.set()

                heard = asyncio.Event()
                task = asyncio.create_task(take())
                await heard.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await server.quiet()
                await adapter.close()

        asyncio.run(go())

    def test_breaking_off_ends_the_call(self, tmp_path):
        async def go():
            async with Misbehaving(answer(200, [stream(chunk(text("Hel"))), SILENCE])) as server:
                adapter = Gemini(server.url, KEY, MODEL, cache=str(tmp_path))
                async with aclosing(adapter.stream(asked(user("?")))) as events:
                    async for _ in events:
                        break
                await server.quiet()
                await adapter.close()

        asyncio.run(go())


def opened(endpoint="", key=None, **fields):
    return open_adapter(
        Binding("gemini", MODEL, endpoint),
        tool_mode="native", context_tokens=512, cache="/nowhere", base_dir="/", key=key,
        **{"trusted": False, **fields},
    )  # fmt: skip


class TestWhereItSpeaks:
    def test_a_missing_key_names_setting_and_variable(self):
        with pytest.raises(MissingKeyError) as error:
            opened()
        assert "gemini.secrets.api_key" in str(error.value)
        assert "GEMINI_API_KEY" in str(error.value)

    @pytest.mark.parametrize(
        ("written", "address"),
        [
            ("", "https://generativelanguage.googleapis.com"),
            (
                "https://generativelanguage.googleapis.com/v1beta/",
                "https://generativelanguage.googleapis.com",
            ),
            ("http://localhost:8080/gemini/v1beta", "http://localhost:8080/gemini"),
        ],
    )
    def test_addresses(self, written, address):
        assert normalise("gemini", written) == address

    def test_other_endpoints_need_trust(self):
        with pytest.raises(StartError, match="halo trust"):
            opened("https://gemini.example.com", key=KEY)
        assert opened("https://gemini.example.com", key=KEY, trusted=True).provider == "gemini"

    def test_nothing_is_taken_from_the_environment(self, server, tmp_path, monkeypatch):
        elsewhere = GeminiServer()
        try:
            monkeypatch.setenv("GOOGLE_API_KEY", "AIza-another-key")
            monkeypatch.setenv("GEMINI_API_KEY", "AIza-one-more")
            monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", elsewhere.url)
            monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
            monkeypatch.setenv("GOOGLE_GENAI_USE_ENTERPRISE", "true")
            monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "someone-elses")
            monkeypatch.setenv("GOOGLE_GENAI_API_VERSION", "v9")
            monkeypatch.setenv("HTTP_PROXY", elsewhere.url)
            monkeypatch.setenv("ALL_PROXY", elsewhere.url)
            run_turn(opened(server.url), asked(user("?")))
        finally:
            elsewhere.close()
        assert elsewhere.asked == []
        assert server.asked[0].key == "not-needed"
        sent = json.dumps(msgspec.to_builtins(server.asked[0]))
        assert "another-key" not in sent
        assert "one-more" not in sent
        assert "someone-elses" not in sent

    def test_the_client_is_quiet_about_variables_that_are_not_used(self, server, tmp_path):
        code = (
            f"import sys; sys.path.insert(0, {str(Path(__file__).parent.parent)!r})\n"
            "from turning import run_turn, request\n"
            "from halo.models.gemini import Gemini\n"
            "from halo.records.messages import user\n"
            f"run_turn(Gemini({server.url!r}, 'k', {MODEL!r}, cache={str(tmp_path)!r}), request(user('?'), provider='gemini', model={MODEL!r}))\n"
        )
        env = {"GOOGLE_API_KEY": "a", "GEMINI_API_KEY": "b", "PATH": "/usr/bin"}
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True, timeout=60
        )
        assert done.stderr == ""
        assert done.stdout == ""

    def test_without_the_extra_the_user_is_told_what_to_install(self):
        code = (
            "import sys; sys.modules['google.genai'] = None; sys.modules['google'] = None\n"
            "from halo.models.opening import open_adapter\n"
            "from halo.records.artifacts import Binding\n"
            f"open_adapter(Binding('gemini', {MODEL!r}), tool_mode='native', key='k', trusted=False, context_tokens=1, cache='/nowhere', base_dir='/')\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60
        )
        assert MissingEngineError.__name__ in done.stderr
        assert "pip install 'halo-make[gemini]'" in done.stderr

    def test_opening_imports_no_client(self):
        code = (
            "import sys\n"
            "from halo.models.opening import open_adapter\n"
            "from halo.records.artifacts import Binding\n"
            f"open_adapter(Binding('gemini', {MODEL!r}), tool_mode='native', key='k', trusted=False, context_tokens=1, cache='/nowhere', base_dir='/')\n"
            "assert not {'google.genai', 'httpx2', 'pydantic'} & set(sys.modules)\n"
        )
        subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_refused_request_stops_with_the_words_of_the_provider(server, adapter):
    server.says(Refused(400, "FAILED_PRECONDITION", "User location is not supported for the API use."))
    error = refused(adapter, asked(user("?")))
    assert (error.kind, "User location is not supported" in error.message) == ("request", True)
