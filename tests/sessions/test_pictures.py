"""Pictures in a session: a model sees what `view_image` returned, in this turn and in every later one."""

import base64
import io
import json
import os

import pytest
from making import agent
from playing import Player, says

from halo.records.messages import Message, ToolCall, ToolResult
from halo.sessions.attachments import LARGEST
from halo.sessions.choice import choose
from halo.sessions.desk import Desk
from halo.sessions.talk import run_talk

LOOK = Message("assistant", (ToolCall("c1", "view_image", json.dumps({"path": "a.png"})),))


@pytest.fixture
def office(make_workspace):
    ws = make_workspace(
        {
            ".halo/agents/a/agent.yaml": agent(tools=["view_image"]),
            ".halo/agents/a/AGENT.md": "You look at pictures.\n",
        }
    ).without_templates()
    sessions = str(ws.halo / "sessions")
    desk = Desk(ws.builder, {}, str(ws.home / "cache"), ws.now_ns)

    def talk(player):
        desk.adapter = lambda _artifact, _agent: player
        choice = choose(sessions, "a", "cli", home=sessions, named=None, new=False)
        run_talk(desk, choice, "Go.", lambda _: None, frozen=False)
        return choose(sessions, "a", "cli", home=sessions, named=None, new=False).folder

    return ws, talk


def pictures(request):
    """What a request shows of the results of tools."""
    results = [b for m in request.history for b in m.content if isinstance(b, ToolResult)]
    return [image for result in results for image in result.images]


@pytest.mark.parametrize("edge", [10, 300])
def test_a_picture_is_seen_recorded_and_seen_again(office, edge):
    """A large one lies beside the log, under its digest."""
    from PIL import Image

    ws, talk = office
    noise = Image.frombytes("RGB", (edge, edge), os.urandom(3 * edge * edge))
    noise.save(ws.root / "a.png")
    first, later = Player(LOOK, says("Noise.")), Player(says("Noise, as I said."))
    folder = talk(first)
    (seen,) = pictures(first.requests[1])
    assert Image.open(io.BytesIO(base64.b64decode(seen.data))).tobytes() == noise.tobytes()
    attached = os.path.join(folder.path, "attachments")
    assert os.path.exists(attached) == (len(seen.data) > LARGEST)
    assert os.path.getsize(folder.events) < LARGEST

    (ws.root / "a.png").unlink()
    talk(later)
    assert pictures(later.requests[0]) == [seen]


def test_an_attachment_that_is_gone_costs_the_picture_and_not_the_session(office):
    from PIL import Image

    ws, talk = office
    Image.frombytes("RGB", (300, 300), os.urandom(270_000)).save(ws.root / "a.png")
    folder = talk(Player(LOOK, says("Noise.")))
    (name,) = os.listdir(os.path.join(folder.path, "attachments"))
    os.unlink(os.path.join(folder.path, "attachments", name))
    later = Player(says("I do not remember."))
    talk(later)
    assert pictures(later.requests[0]) == []
    (result,) = (b for m in later.requests[0].history for b in m.content if isinstance(b, ToolResult))
    assert result.is_error
