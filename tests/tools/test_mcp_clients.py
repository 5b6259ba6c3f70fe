"""MCP clients: real servers over stdio and HTTP, what they answer, and what they do wrong."""

import asyncio
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from mcp_bench import SERVERS, Turn, call, is_gone, plain, with_sdk

from halo.tools.base import LONGEST, ToolFailure
from halo.tools.mcp import connection
from halo.tools.mcp.launch import launch
from halo.tools.sandbox.bubblewrap import find_bubblewrap
from halo.tools.sandbox.mounts import Opening
from halo.workspace.mcp.lock import Lock, parse_lock, render_lock
from halo.workspace.mcp.servers import McpServer

SANDBOX = pytest.mark.skipif(bool(find_bubblewrap().problem), reason="bubblewrap does not run here")


@pytest.fixture
def turn(tmp_path):
    return Turn(plain(), tmp_path)


class TestAServerThatIsAProgram:
    def test_all_pages_of_its_tools_are_listed(self, turn):
        assert [tool.name for tool in turn.listing.locked.tools] == [
            "ask", "connect", "crash", "echo", "endless", "environment", "fail", "family", "flood", "hang", "rich",
            "variable", "write",
        ]  # fmt: skip

    def test_a_call_is_answered(self, turn):
        result = turn.call("echo", text="hello, ü")
        assert (result.text, result.is_error, turn.notices) == ("hello, ü", False, [])

    def test_one_process_serves_a_turn_and_is_gone_after_it(self, tmp_path):
        state = tmp_path / "pids"
        turn = Turn(plain(env={"STATE": str(state)}), tmp_path)
        looked = len(state.read_text().split())
        assert [r.text for r in turn.calls(("echo", {"text": "1"}), ("echo", {"text": "2"}))] == ["1", "2"]
        pids = state.read_text().split()[looked:]
        assert len(pids) == 1
        assert is_gone(pids[0])

    def test_nothing_is_started_before_the_first_call(self, tmp_path):
        state = tmp_path / "pids"
        turn = Turn(plain(env={"STATE": str(state)}), tmp_path)
        state.unlink()
        assert turn.calls() == []
        assert not state.exists()

    def test_calls_at_once_share_it(self, turn):
        async def both():
            servers, toolbox = turn.open()
            try:
                return await asyncio.gather(*(toolbox.run(call("echo", text=str(i))) for i in range(8)))
            finally:
                await servers.aclose()

        assert [r.text for r in asyncio.run(both())] == [str(i) for i in range(8)]

    def test_it_gets_a_clean_environment(self, tmp_path):
        environ = {"LANG": "C.UTF-8", "OPENAI_API_KEY": "sk-1", "TOKEN_OF_MINE": "t0ken-value"}
        turn = Turn(plain(env={"GIVEN": "x", "TOKEN": "<<TOKEN_OF_MINE>>"}), tmp_path, environ=environ)
        seen = set(turn.call("environment").text.split()) - {"LC_CTYPE", "__CF_USER_TEXT_ENCODING"}
        assert seen == {"GIVEN", "HOME", "LANG", "PATH", "TOKEN"}
        assert turn.call("variable", name="GIVEN").text == "x"

    def test_values_of_variables_do_not_show_in_results(self, tmp_path):
        turn = Turn(plain(env={"TOKEN": "<<SECRET_X>>"}), tmp_path, environ={"SECRET_X": "hunter22"})
        assert turn.call("variable", name="TOKEN").text == "<<SECRET_X>>"

    def test_it_starts_in_the_workspace_or_a_folder_of_it(self, tmp_path):
        (tmp_path / "sub").mkdir()
        Turn(plain(cwd="sub"), tmp_path).call("write", path="here.txt")
        assert (tmp_path / "sub" / "here.txt").read_text() == "written"

    def test_a_variable_that_is_not_set_is_said(self, tmp_path):
        with pytest.raises(ToolFailure, match="needs the environment variable NOPE, which is not set"):
            launch("s", plain(env={"A": "<<NOPE>>"}), str(tmp_path), {})

    def test_it_gets_neither_a_model_nor_the_user_nor_folders(self, turn):
        assert turn.call("ask").text == "refused refused refused"


class TestResults:
    def test_text_pictures_links_and_data(self, turn):
        result = turn.call("rich")
        assert result.text.splitlines() == [
            "words",
            "[a picture of the type image/png, which is damaged]",
            "[a picture of the type image/tiff, which cannot be shown]",
            "[a sound of the type audio/wav, which cannot be shown]",
            "[a file](file:///a): of mine",
            "[file:///b]",
            "inside b",
            "[file:///c: bytes of the type application/octet-stream, which cannot be shown]",
            '{"answer": 42}',
        ]
        assert [image.media_type for image in result.images] == ["image/png"]

    def test_what_the_sdk_tells_twice_is_given_once(self, tmp_path):
        number, name, names, position = Turn(with_sdk(), tmp_path).calls(
            ("add", {"a": 2, "b": 3}), ("name_of", {"number": 0}), ("names", {}), ("position", {})
        )
        assert number.text == "5"
        assert name.text == "Cap San Diego"
        assert names.text == "Cap San Diego\nRickmer Rickmers"
        assert json.loads(position.text) == {"north": 53.5, "east": 9.9}

    def test_an_error_of_the_tool_is_one(self, turn):
        result = turn.call("fail")
        assert (result.text, result.is_error, turn.notices) == ("it did not work", True, [])

    def test_a_huge_one_is_cut_and_it_is_said(self, turn):
        result = turn.call("flood")
        assert result.text.endswith("ask for a smaller part]")
        assert len(result.text) < LONGEST + 200

    @pytest.mark.parametrize(
        ("arguments", "why"),
        [
            ({}, "mcp__s__echo must be given text"),
            ({"text": 5}, "mcp__s__echo: text must be string"),
            ({"text": None}, "mcp__s__echo: text must be string"),
        ],
    )
    def test_arguments_that_do_not_fit_never_reach_the_server(self, turn, arguments, why):
        result = turn.call("echo", **arguments)
        assert (result.text, result.is_error) == (why, True)


async def started(state):
    for _ in range(500):
        if state.exists():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it was not started")


class TestAServerThatFails:
    def test_a_crash_in_mid_call(self, tmp_path):
        turn = Turn(plain(env={"TOKEN": "<<SECRET_X>>"}), tmp_path, environ={"SECRET_X": "hunter22"})
        first, second = turn.calls(("crash", {}), ("echo", {"text": "x"}))
        assert (first.text, first.is_error) == ("the MCP server s ended (exit code 7)", True)
        assert second.is_error
        assert turn.notices == ["warning: the MCP server s ended (exit code 7)\nI am done for: <<SECRET_X>>"]

    def test_one_that_cannot_start_says_why(self, turn):
        turn.start = turn.start._replace(server=plain("broken"))
        first, second = turn.calls(("echo", {"text": "x"}), ("echo", {"text": "x"}))
        assert first.text == second.text == "the MCP server s ended (exit code 3)"
        assert turn.notices == ["warning: the MCP server s ended (exit code 3)\ncannot start: no licence"]

    def test_a_program_that_is_not_there(self, turn):
        turn.start = turn.start._replace(server=McpServer(command=("no-such-program",)))
        assert turn.call("echo", text="x").text == (
            "the MCP server s could not be started: no-such-program: No such file or directory"
        )

    def test_one_that_never_answers_a_call(self, tmp_path):
        turn = Turn(plain(call_seconds=0.5), tmp_path)
        result = turn.call("hang")
        assert (result.text, result.is_error) == ("the MCP server s did not answer within 0.5 seconds", True)

    def test_one_that_never_gets_ready(self, turn, monkeypatch):
        monkeypatch.setattr(connection, "START_SECONDS", 0.5)
        turn.start = turn.start._replace(server=plain("mute"))
        assert turn.call("echo", text="x").text == "the MCP server s did not start within 0.5 seconds"

    def test_a_message_without_end(self, turn):
        assert (
            turn.call("endless").text == "the MCP server s sent a message of more than 16 MiB and was ended"
        )

    def test_children_of_it_are_gone_with_the_turn(self, turn):
        assert is_gone(turn.call("family").text)

    def test_cancelling_leaves_no_process(self, tmp_path):
        """Ctrl-C in mid-call; the server does not read its stdin, so it does not see it end either."""
        state = tmp_path / "pids"
        turn = Turn(plain(env={"STATE": str(state)}), tmp_path)
        state.unlink()

        async def broken_off():
            task = asyncio.ensure_future(turn.run(("hang", {})))
            await started(state)
            await asyncio.sleep(0.2)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

        asyncio.run(broken_off())
        assert is_gone(state.read_text().split()[0])

    def test_cancelling_the_cancelling_leaves_none_either(self, tmp_path):
        """The second Ctrl-C: the event loop ends at once, whoever still tidies up."""
        state = tmp_path / "pids"
        turn = Turn(plain(env={"STATE": str(state)}), tmp_path)
        state.unlink()

        async def broken_off_twice():
            task = asyncio.ensure_future(turn.run(("hang", {})))
            await started(state)
            task.cancel()
            await asyncio.sleep(0.05)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

        asyncio.run(broken_off_twice())
        assert is_gone(state.read_text().split()[0])


class TestWhatIsNotLockedAnyMore:
    def test_it_is_said_once_and_others_go_on(self, tmp_path):
        turn = Turn(plain("changed"), tmp_path, locked_as=plain())
        same, changed, gone = turn.calls(("variable", {"name": "X"}), ("echo", {"text": "x"}), ("fail", {}))
        assert (same.text, same.is_error) == ("(not set)", False)
        assert changed.text == (
            "mcp__s__echo is not any more what it was on the MCP server s, so it is not called until the user has "
            "looked at it: halo mcp lock s"
        )
        assert gone.text.startswith("mcp__s__fail is gone from the MCP server s")
        assert changed.is_error
        assert gone.is_error
        assert turn.notices == [
            (
                "warning: the tools of the MCP server s are not those of mcp.lock.json: changed echo, removed fail, "
                "added new; halo mcp lock s shows how, and takes them"
            )
        ]

    def test_a_list_that_is_none_is_said(self, tmp_path):
        with pytest.raises(ToolFailure, match=r"says something that the protocol does not have: tools\.0"):
            Turn(plain("nonsense"), tmp_path)

    def test_a_hostile_list_is_taken_as_far_as_it_goes(self, tmp_path):
        listing = Turn(plain("hostile"), tmp_path).listing
        assert [tool.name for tool in listing.locked.tools] == ["echo", "number", "twice"]
        assert parse_lock(render_lock(Lock(1, {"s": listing.locked}))).servers["s"] == listing.locked
        assert dict(listing.refused) == {
            "outside": "its schema refers to something outside of it",
            "long": "its description has 20,000 characters; 10,000 are possible",
            "deep": "its schema is nested more than 40 deep",
            "two words": "its name is not one to 128 printable ASCII characters without spaces",
            "twice": "another tool has the same name",
            "hidden": "its schema holds characters that nobody sees where they have a meaning",
        }


class TestTheSandbox:
    def opening(self, folder, **more):
        return Opening(
            workspace=str(folder), home=str(folder.parent / "h"), halo_home=str(folder.parent / "hh"), **more
        )

    @SANDBOX
    def test_below_full_access_a_program_runs_in_it(self, tmp_path):
        """It writes in the workspace, and nowhere else; it does not see the network or the secrets of Halo."""
        workspace, elsewhere = tmp_path / "ws", tmp_path / "elsewhere"
        for folder in (workspace / ".halo", elsewhere):
            folder.mkdir(parents=True)
        shutil.copy(SERVERS / "plain.py", workspace / "plain.py")
        server = McpServer(command=("python3", "plain.py"))
        turn = Turn(server, workspace, access="workspace", opening=self.opening(workspace))
        inside, outside, guarded, home = turn.calls(
            ("write", {"path": "a.txt"}),
            ("write", {"path": str(elsewhere / "b.txt")}),
            ("write", {"path": ".halo/settings.yaml"}),
            ("variable", {"name": "HOME"}),
        )
        assert (inside.text, (workspace / "a.txt").read_text()) == ("done", "written")
        assert outside.is_error
        assert not (elsewhere / "b.txt").exists()
        assert guarded.is_error
        assert not (workspace / ".halo" / "settings.yaml").exists()
        assert home.text.startswith("/tmp/")

    @SANDBOX
    def test_the_sandbox_ends_with_the_turn(self, tmp_path):
        workspace = tmp_path / "ws"
        workspace.mkdir()
        shutil.copy(SERVERS / "plain.py", workspace / "plain.py")
        server = McpServer(command=("python3", "plain.py"), call_seconds=0.5)
        turn = Turn(server, workspace, access="workspace", opening=self.opening(workspace))
        turn.call("hang")
        running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
        assert str(workspace) not in running

    @SANDBOX
    def test_the_network_is_what_the_settings_say(self, tmp_path):
        workspace = tmp_path / "ws"
        workspace.mkdir()
        shutil.copy(SERVERS / "plain.py", workspace / "plain.py")
        server = McpServer(command=("python3", "plain.py"))
        with socket.create_server(("127.0.0.1", 0)) as listening:
            port = str(listening.getsockname()[1])
            for network, answer in ((False, "closed"), (True, "open")):
                opening = self.opening(workspace, network=network)
                turn = Turn(server, workspace, access="workspace", opening=opening)
                assert turn.call("connect", port=port).text == answer

    def test_without_one_a_program_is_refused(self, turn):
        turn.access = "workspace"
        assert turn.call("echo", text="x").text.startswith(
            "the MCP server s is a program: below full access those run in a sandbox only, and "
        )

    def test_who_only_reads_calls_none(self, turn):
        turn.access = "readonly"
        assert turn.call("echo", text="x").is_error


@pytest.fixture(scope="module")
def at_an_address():
    """The SDK's server over streamable HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, str(SERVERS / "with_sdk.py"), str(port)], stdout=subprocess.PIPE
    )
    try:
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


class TestTheOfficialSdk:
    def test_over_stdio(self, tmp_path):
        turn = Turn(with_sdk(), tmp_path)
        added, failed, picture = turn.calls(("add", {"a": 2, "b": 3}), ("fail", {}), ("picture", {}))
        assert added.text == "5"
        assert failed.is_error
        assert "this is why" not in turn.notices
        assert [image.media_type for image in picture.images] == ["image/png"]

    def test_over_http_with_headers(self, tmp_path, at_an_address):
        server = McpServer(url=at_an_address, headers={"X-Token": "Bearer <<SECRET_X>>"})
        turn = Turn(server, tmp_path, environ={"SECRET_X": "hunter22"})
        added, seen = turn.calls(("add", {"a": 2, "b": 3}), ("secret_of", {}))
        assert added.text.startswith("5")
        assert "'x-token': 'Bearer <<SECRET_X>>'" in seen.text

    def test_a_server_at_an_address_needs_no_sandbox(self, tmp_path, at_an_address):
        turn = Turn(McpServer(url=at_an_address), tmp_path, access="workspace")
        assert turn.call("add", a=1, b=1).text.startswith("2")


class Elsewhere:
    """An HTTP server that does one thing, and keeps what it was sent."""

    def __init__(self, answer):
        self.asked = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers.get("content-length", 0)))
                outer.asked.append({k.lower(): v for k, v in self.headers.items()})
                with contextlib.suppress(ConnectionError):
                    answer(self)

            def do_GET(self):
                self.do_POST()

            do_DELETE = do_GET  # noqa: N815  # the name is the library's

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def fault(url, tmp_path, **fields):
    """What is said of a server at an address that is none."""
    start = launch("s", McpServer(url=url, **fields), str(tmp_path), dict(os.environ))
    with pytest.raises(ToolFailure) as error:
        asyncio.run(Turn.look(start))
    return str(error.value)


class TestAnAddressThatFails:
    def test_nobody_listens(self, tmp_path):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        assert fault(f"http://127.0.0.1:{port}/mcp", tmp_path).startswith("the MCP server s ")

    def test_headers_do_not_follow_a_redirect_to_elsewhere(self, tmp_path):
        with Elsewhere(lambda h: h.send_error(404)) as other:

            def away(handler):
                handler.send_response(307)
                handler.send_header("location", f"{other.url}/mcp")
                handler.send_header("content-length", "0")
                handler.end_headers()

            with Elsewhere(away) as first:
                fault(f"{first.url}/mcp", tmp_path, headers={"X-Token": "secret"})
                assert first.asked[0]["x-token"] == "secret"
        assert other.asked == []

    def test_an_answer_without_end_is_left(self, tmp_path, monkeypatch):
        monkeypatch.setattr("halo.tools.mcp.addresses._LARGEST_ANSWER", 1 << 20)

        def flood(handler):
            handler.send_response(200)
            handler.send_header("content-type", "application/json")
            handler.end_headers()
            for _ in range(1000):
                handler.wfile.write(b"[" * 65536)

        with Elsewhere(flood) as server:
            began = time.monotonic()
            assert fault(f"{server.url}/mcp", tmp_path).startswith("the MCP server s ")
            assert time.monotonic() - began < 20

    def test_a_packed_answer_is_refused(self, tmp_path):
        def packed(handler):
            handler.send_response(200)
            handler.send_header("content-type", "application/json")
            handler.send_header("content-encoding", "gzip")
            handler.send_header("content-length", "3")
            handler.end_headers()
            handler.wfile.write(b"abc")

        with Elsewhere(packed) as server:
            assert fault(f"{server.url}/mcp", tmp_path).startswith("the MCP server s ")
            assert server.asked[0]["accept-encoding"] == "identity"

    def test_a_proxy_is_not_asked_for_what_is_here(self, tmp_path, at_an_address, monkeypatch):
        with Elsewhere(lambda h: h.send_error(502)) as proxy:
            for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
                monkeypatch.setenv(name, proxy.url)
            start = launch("s", McpServer(url=at_an_address), str(tmp_path), dict(os.environ))
            assert asyncio.run(Turn.look(start)).locked.find("add")
        assert proxy.asked == []
