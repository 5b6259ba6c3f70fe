"""Webhooks: signed, sent again when that helps, exactly where the settings say. Against a real server."""

import asyncio
import base64
import hashlib
import hmac
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec
import pytest

from halo.errors import DeliveryError, UsageError
from halo.models.adapter import TextDelta
from halo.records.events import MessageAdded, TurnEnded
from halo.records.messages import Message, Text
from halo.records.outgoing import FORMAT, Address, Outgoing
from halo.sessions.delivery import webhook as module
from halo.sessions.delivery.channels import Opening, Retry
from halo.sessions.delivery.delivery import Delivery, deliver
from halo.sessions.delivery.plan import plan_for
from halo.sessions.delivery.sending import send
from halo.sessions.delivery.signing import is_signed, key_of, signature
from halo.sessions.delivery.webhook import Webhook
from halo.workspace.settings.delivery import DeliverySettings

SECRET = "whsec_" + base64.b64encode(b"a key of the tests").decode()
NOW = 1_790_000_000.5


class Server:
    """A server that answers the n-th request as it is told: a status, headers, or something worse."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.requests = []  # (headers, body)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.requests.append(({k.lower(): v for k, v in self.headers.items()}, body))
                answer = outer.answers.pop(0) if outer.answers else 204
                if answer == "drop":
                    self.connection.close()
                    return
                if answer == "garbage":
                    self.wfile.write(b"what?\r\n\r\n")
                    return
                if answer == "hang":
                    time.sleep(0.6)
                    return
                status, headers = answer if isinstance(answer, tuple) else (answer, {})
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def bodies(self):
        return [json.loads(body) for _, body in self.requests]


def webhook(url, now=lambda: NOW, **params):
    return Webhook(Opening("ops", "", {"url": url, "secret": SECRET, **params}, "/w/.halo", print, now))


def message(part=1, text="Hello."):
    return Outgoing(FORMAT, f"r1.{part:05}", "r1", part, "block", Address("ops"), text)


class Slept:
    def __init__(self):
        self.asked = []

    async def __call__(self, seconds):
        self.asked.append(seconds)


def sending(url, slept=None, seconds=5.0, **params):
    hook = webhook(url, private="true", **params)
    return asyncio.run(send(hook, message(), seconds, slept or Slept()))


class TestSigning:
    def test_id_time_and_body_are_signed_as_the_specification_says(self):
        with Server() as server:
            assert sending(server.url).state == "sent"
        ((headers, body),) = server.requests
        signed = f"r1.00001.{int(NOW)}.".encode() + body
        expected = base64.b64encode(hmac.new(b"a key of the tests", signed, hashlib.sha256).digest()).decode()
        assert headers["webhook-signature"] == f"v1,{expected}"
        assert headers["webhook-timestamp"] == str(int(NOW))
        assert headers["webhook-id"] == headers["idempotency-key"] == "r1.00001"
        assert headers["content-type"] == "application/json"
        assert json.loads(body)["text"] == "Hello."

    def test_the_example_of_the_specification(self):
        key = key_of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
        body = b'{"test": 2432232314}'
        ours = signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
        assert ours == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        assert is_signed(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body, f"v1,other {ours}")

    @pytest.mark.parametrize(
        ("identity", "timestamp", "body"), [("b", 1, b"x"), ("a", 2, b"x"), ("a", 1, b"y"), ("a", 1, b"")]
    )
    def test_nothing_of_it_can_be_changed(self, identity, timestamp, body):
        key = key_of("plain words")
        assert not is_signed(key, identity, timestamp, body, signature(key, "a", 1, b"x"))

    def test_a_second_attempt_has_the_same_id_and_a_time_of_its_own(self):
        clock = iter([NOW, NOW, NOW + 60, NOW + 60])
        with Server(503) as server:
            sending(server.url, now=lambda: next(clock))
        first, second = (headers for headers, _ in server.requests)
        assert first["webhook-id"] == second["webhook-id"]
        assert int(second["webhook-timestamp"]) - int(first["webhook-timestamp"]) == 60
        assert first["webhook-signature"] != second["webhook-signature"]


class TestFaults:
    @pytest.mark.parametrize("fault", [500, 502, 503, 408, 425, 429, "drop", "garbage"])
    def test_what_passes_is_sent_again(self, fault):
        with Server(fault, fault) as server:
            result = sending(server.url)
        assert (result.state, result.attempts) == ("sent", 3)
        assert [body["id"] for body in server.bodies] == ["r1.00001"] * 3

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 413, 422])
    def test_what_does_not_is_not(self, status):
        with Server(status) as server:
            result = sending(server.url)
        assert (result.state, result.attempts) == ("failed", 1)
        assert result.error == f"127.0.0.1 answered {status}"
        assert len(server.requests) == 1

    @pytest.mark.parametrize("status", [301, 302, 307, 308])
    def test_redirects_are_not_followed(self, status):
        with Server() as elsewhere, Server((status, {"Location": elsewhere.url})) as server:
            result = sending(server.url)
        assert result.state == "failed"
        assert "redirects are not followed" in result.error
        assert elsewhere.requests == []

    def test_the_pauses_double(self):
        slept = Slept()
        with Server(*[503] * 6) as server:
            result = sending(server.url, slept)
        assert slept.asked == [0.5, 1.0, 2.0, 4.0, 8.0]
        assert (result.state, result.attempts) == ("failed", 6)
        assert len(server.requests) == 6

    def test_the_server_may_ask_for_a_longer_one(self):
        slept = Slept()
        with Server((429, {"Retry-After": "17"}), (503, {"Retry-After": "0"})) as server:
            assert sending(server.url, slept).state == "sent"
        assert slept.asked == [17.0, 1.0]

    def test_but_not_for_an_hour(self):
        with Server((503, {"Retry-After": "3600"})) as server:
            assert sending(server.url).state == "failed"

    def test_a_server_that_hangs_is_given_up_and_tried_again(self):
        with Server("hang") as server:
            result = sending(server.url, seconds=0.15)
        assert (result.state, result.attempts) == ("sent", 2)

    def test_a_server_that_is_not_there(self):
        with Server() as server:
            url = server.url
        result = sending(url)
        assert (result.state, result.attempts) == ("failed", Webhook.retry.attempts)
        assert result.error == "127.0.0.1 did not take a message: its server cannot be reached"


class TestWhereTo:
    @pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
    def test_a_private_address_needs_a_word_of_the_settings(self, host):
        with Server() as server:
            with pytest.raises(DeliveryError, match="not on the public internet") as error:
                asyncio.run(webhook(f"http://{host}:{server.port}/").send(message()))
            assert not error.value.passes
            assert server.requests == []

    @pytest.mark.parametrize(
        "url", ["https://10.0.0.8/x", "https://169.254.169.254/latest", "https://[fd00::1]/"]
    )
    def test_so_does_one_of_a_network(self, url):
        with pytest.raises(DeliveryError, match="not on the public internet"):
            asyncio.run(webhook(url).send(message()))

    def test_a_name_is_looked_up_anew_and_spoken_to_where_it_was_found(self, monkeypatch):
        """No second look-up could answer differently from the one that was checked."""
        asked = []

        async def look_up(host, port):
            asked.append((host, port))
            return ["127.0.0.1"]

        monkeypatch.setattr(module, "look_up", look_up)
        with Server() as server:
            url = f"http://hooks.internal.example:{server.port}/a?b=c"
            assert sending(url).state == "sent"
            assert server.requests[0][0]["host"] == f"hooks.internal.example:{server.port}"
        assert asked == [("hooks.internal.example", server.port)]

    @pytest.mark.parametrize(
        "url",
        [
            "",
            "hooks.example.com",
            "ftp://h/x",
            "https://user:pw@h/x",
            "https:///x",
            "https://h:99999/",
            "http://[::1",
        ],
    )
    def test_what_is_no_address_is_refused_and_not_repeated(self, url):
        with pytest.raises(UsageError, match="no plain http or https address") as error:
            webhook(url)
        assert not url or url not in str(error.value)

    def test_http_is_for_this_machine_or_ones_own_network(self):
        with pytest.raises(UsageError, match="anybody could read"):
            webhook("http://hooks.example.com/")
        assert webhook("http://hooks.example.com/", private="true")
        assert webhook("http://localhost:1/")

    def test_there_is_a_secret(self):
        with pytest.raises(UsageError, match="has no secret"):
            Webhook(Opening("ops", "", {"url": "https://h/"}, "/w", print, time.time))
        with pytest.raises(UsageError, match="goes on in base64") as error:
            webhook("https://h/", secret="whsec_not base64!")
        assert "not base64" not in str(error.value)


class TestSecrecy:
    def test_neither_secret_nor_query_is_in_any_error(self):
        with Server(
            *[(500, {"X": "y"}), 404, "drop", (302, {"Location": "http://x/?token=TOKEN"})]
        ) as server:
            for _ in range(4):
                hook = webhook(f"{server.url}?token=TOKEN", private="true")
                with pytest.raises(DeliveryError) as error:
                    asyncio.run(hook.send(message()))
                assert "TOKEN" not in f"{error.value} {error.value.__cause__}"
                assert SECRET not in f"{error.value} {error.value.__cause__} {error.value.__context__}"

    def test_the_secret_itself_is_not_sent(self):
        with Server() as server:
            sending(server.url)
        headers, body = server.requests[0]
        assert SECRET not in str(headers) + body.decode()
        assert "a key of the tests" not in str(headers) + body.decode()


class TestWholeReplies:
    TEXT = "One paragraph of it.\n\nAnother one.\n\n" + "A long last one. " * 8

    def events(self):
        async def coming():
            for i in range(0, len(self.TEXT), 9):
                yield TextDelta(self.TEXT[i : i + 9])
            yield MessageAdded(Message("assistant", (Text(self.TEXT),)))
            yield TurnEnded("done")

        return coming()

    def deliver(self, server, **settings):
        delivery = msgspec.convert(
            {"block_streaming": True, "chunk": {"max_chars": 60}, **settings}, DeliverySettings
        )
        plan = plan_for(delivery, "ops", drafts=True)
        hook = webhook(server.url, private="true")
        hook.retry = Retry(attempts=4, first=0.001)
        return asyncio.run(deliver(self.events(), Delivery(hook, Address("ops"), "r1", plan)))

    def test_arrive_in_order_whatever_fails_on_the_way(self):
        with Server(503, 204, "drop", 500, 204, "garbage") as server:
            results = self.deliver(server, coalesce={"max_chars": 1})
        assert {r.state for r in results} == {"sent"}
        taken = {body["part"]: body for body in server.bodies}
        assert list(taken) == sorted(taken)
        assert "".join(b["text"] + b.get("separator", "") for b in taken.values()) == self.TEXT

    def test_drafts_are_posts_of_their_own_and_the_answer_is_one_message(self):
        with Server() as server:
            self.deliver(server, drafts="partial")
        events = [headers["halo-event"] for headers, _ in server.requests]
        assert events.count("message") == 1
        assert events[-1] == "message"
        assert server.bodies[-1]["text"] == self.TEXT.rstrip()
