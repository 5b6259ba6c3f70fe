"""Channels: entry points that take messages. The terminal, the outbox, and those of others."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from making import tree

from halo.errors import DeliveryError, UnknownNameError, UsageError
from halo.records.outgoing import FORMAT, Address, Outgoing
from halo.sessions.delivery.channels import Opening, channel_types, open_channel
from halo.sessions.delivery.outbox import Outbox
from halo.sessions.delivery.terminal import Terminal
from halo.workspace.trust import Grants

# Where a process of its own finds this file and `making`.
HERE = os.path.dirname(os.path.abspath(__file__))
ROOMS = [HERE, os.path.dirname(HERE)]


def message(part=1, text="Hello.", **more):
    return Outgoing(FORMAT, f"r1.{part:05}", "r1", part, "block", Address("ops", to="room"), text, **more)


def opening(halo="/w/.halo", channel="ops", account="", write=print, **params):
    return Opening(channel, account, params, str(halo), write, lambda: 0.0)


def sent(channel, *messages):
    async def main():
        return [await channel.send(m) for m in messages]

    return asyncio.run(main())


def read(path):
    return json.loads(Path(path).read_text(encoding="utf-8"))


class TestEntryPoints:
    def test_three_ship(self):
        assert {"terminal", "outbox", "webhook"} <= set(channel_types())

    def test_a_name_that_nothing_offers_is_answered_with_near_misses(self):
        with pytest.raises(UnknownNameError, match="unknown channel 'outbux'") as error:
            open_channel(tree({}), Grants(), {}, opening(channel="outbux"))
        assert "'outbox'" in error.value.hint

    @pytest.mark.parametrize("channel", ["terminal", "outbox"])
    def test_a_parameter_that_a_channel_does_not_know_is_refused(self, channel):
        text = json.dumps(
            {"general": {"delivery": {"channels": {channel: {"connect": {"params": {"colour": "x"}}}}}}}
        )
        with pytest.raises(UsageError, match="no parameter 'colour'"):
            open_channel(tree({"secrets:settings.yaml": text}), Grants(), {}, opening(channel=channel))

    @pytest.mark.parametrize(
        ("point", "says"),
        [
            ("parrots:Parrot", "taken: Hello."),
            ("parrots:nothing", "cannot be loaded: AttributeError"),
            ("parrots:number", "cannot be called"),
        ],
    )
    def test_a_package_of_somebody_else_brings_one(self, tmp_path, point, says):
        info = tmp_path / "parrot-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: parrot\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[halo.channels]\nparrot = {point}\n")
        (tmp_path / "parrots.py").write_text(
            "from halo.sessions.delivery.channels import Retry\n"
            "number = 3\n"
            "class Parrot:\n"
            "    text_limit, drafts, retry = 100, False, Retry()\n"
            "    def __init__(self, opening): pass\n"
            "    async def send(self, message): print('taken:', message.text)\n"
        )
        program = (
            "import asyncio, sys; sys.path.insert(0, sys.argv[1]); sys.path[:0] = sys.argv[2:]\n"
            "from test_channels import *\n"
            "try: sent(open_channel(tree({}), Grants(), {}, opening(channel='parrot')), message())\n"
            "except DeliveryError as error: print(error)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path), *ROOMS],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert says in done.stdout


class TestTerminal:
    def test_messages_stand_apart(self):
        written = []
        sent(Terminal(opening(write=written.append)), message(1), message(2, "Two\nlines."))
        assert "".join(written) == "Hello.\n\nTwo\nlines.\n"

    def test_nothing_in_a_message_acts_on_the_terminal(self):
        written = []
        sent(Terminal(opening(write=written.append)), message(1, "a\x1b[2Jb\tc\u202e", media=("x\x1b.png",)))
        assert "".join(written) == "a\\x1b[2Jb\tc\\u202e\n[x\\x1b.png]\n"

    def test_a_message_that_is_sent_again_is_there_once(self):
        written = []
        sent(Terminal(opening(write=written.append)), message(), message())
        assert "".join(written) == "Hello.\n"


def put_many(folder):
    box = Outbox(opening(folder=folder))
    sent(box, *(message(n, f"part {n}") for n in range(1, 26)))


class TestOutbox:
    @pytest.fixture
    def box(self, tmp_path):
        (tmp_path / ".halo").mkdir()
        return Outbox(opening(tmp_path / ".halo"))

    def test_a_message_is_a_file_in_the_folder_of_its_channel(self, box, tmp_path):
        assert sent(box, message(separator="\n\n")) == ["r1.00001.json"]
        path = tmp_path / ".halo" / "outbox" / "ops" / "r1.00001.json"
        assert json.loads(path.read_text()) == {
            "format": 1,
            "id": "r1.00001",
            "reply": "r1",
            "part": 1,
            "kind": "block",
            "address": {"channel": "ops", "to": "room"},
            "text": "Hello.",
            "separator": "\n\n",
        }
        assert path.stat().st_mode & 0o777 == 0o600

    def test_names_sort_in_the_order_of_the_messages(self, box):
        sent(box, *(message(n) for n in range(1, 12)))
        names = sorted(n for n in os.listdir(box.folder) if n.endswith(".json"))
        assert [read(f"{box.folder}/{n}")["part"] for n in names] == list(range(1, 12))

    def test_the_same_message_is_there_once_and_as_it_was_first(self, box):
        sent(box, message(1, "first"), message(1, "second"))
        (name,) = os.listdir(box.folder)
        assert read(f"{box.folder}/{name}")["text"] == "first"

    def test_several_processes_put_the_same_messages_once_each_and_whole(self, tmp_path):
        folder = str(tmp_path / "box")
        program = f"import sys; sys.path[:0] = {ROOMS!r}; import test_channels as t; t.put_many({folder!r})"
        processes = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(4)]
        assert [process.wait(60) for process in processes] == [0] * 4
        texts = sorted(read(f"{folder}/{n}")["text"] for n in os.listdir(folder))
        assert texts == sorted(f"part {n}" for n in range(1, 26))

    def test_an_account_has_a_folder_of_its_own_whatever_its_name(self, tmp_path):
        box = Outbox(opening(tmp_path / ".halo", account="../../Æ b"))
        assert box.folder == str(tmp_path / ".halo/outbox/ops/%2E%2E%2F%2E%2E%2F%C3%86%20b")

    def test_a_draft_is_replaced_and_goes_when_the_answer_comes(self, box):
        async def main():
            await box.draft(message(1, "Hel"))
            await box.draft(message(2, "Hello"))
            (name,) = os.listdir(f"{box.folder}/drafts")
            assert read(f"{box.folder}/drafts/{name}")["text"] == "Hello"
            await box.send(message())

        asyncio.run(main())
        assert os.listdir(f"{box.folder}/drafts") == []

    def test_a_link_that_leads_out_of_the_workspace_is_refused(self, tmp_path):
        (tmp_path / "ws" / ".halo").mkdir(parents=True)
        (tmp_path / "ws" / ".halo" / "outbox").symlink_to(tmp_path)
        with pytest.raises(UsageError, match="does not lie in the workspace"):
            Outbox(opening(tmp_path / "ws" / ".halo"))
        with pytest.raises(UsageError, match="does not lie in the workspace"):
            Outbox(opening(tmp_path / "ws" / ".halo", folder="../elsewhere"))

    def test_what_cannot_be_written_may_be_tried_again(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(DeliveryError, match="cannot be written") as error:
            sent(Outbox(opening(folder=str(tmp_path / "file"))), message())
        assert error.value.passes

    def test_an_id_is_never_a_path(self, box):
        with pytest.raises(DeliveryError, match="no name for a file"):
            sent(box, Outgoing(FORMAT, "../x", "r", 1, "block", Address("ops"), "t"))
