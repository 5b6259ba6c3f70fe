"""A command in the sandbox reaches no inbox: nobody sends itself what it may not do."""

import importlib.util
import os
import shutil
import subprocess

import pytest
from making import REPOSITORY, agent
from test_rights import Office, result, runs

from halo.sessions.find import session_ids, sessions_folder
from halo.sessions.folder import SessionFolder
from halo.sessions.inbox.folder import Inbox
from halo.tools.sandbox.bubblewrap import find_bubblewrap

PYTHON = "/usr/bin/python3"
pytestmark = pytest.mark.skipif(bool(find_bubblewrap().problem), reason="no bubblewrap here")


@pytest.fixture
def office(make_workspace):
    return Office(
        make_workspace({".halo/agents/a/agent.yaml": agent(tools=["shell_exec"])}).without_templates()
    )


def everything(folder):
    return {
        os.path.join(where, name): os.lstat(os.path.join(where, name)).st_size
        for where, _, names in os.walk(folder)
        for name in names
        if not name.endswith((".jsonl", ".json", ".md"))  # what the turn itself records
    }


@pytest.mark.parametrize(
    "command",
    [
        "mkdir -p .halo/sessions/{month}/{id}/inbox && echo x > .halo/sessions/{month}/{id}/inbox/{message}",
        "echo '{{}}' > .halo/sessions/{month}/{id}/stop.json",
        "echo x >> .halo/sessions/{month}/{id}/events.jsonl",
        "mkdir -p .halo/sessions/waiting && touch .halo/sessions/waiting/{id}",
        "mv .halo .halo-mine && mkdir -p .halo/sessions",
        "ln -sfn /tmp .halo/sessions",
        "cp -r .halo mine && mount --bind mine .halo",
    ],
)
def test_no_file_of_a_session_is_made_by_a_command(office, command):
    office.trust()
    office.talk()
    sessions = sessions_folder(str(office.ws.halo))
    (session_id,) = session_ids(sessions)
    folder = SessionFolder(sessions, session_id)
    before = everything(sessions)
    month = os.path.basename(os.path.dirname(folder.path))
    message = f"{1:020d}-{'0' * 32}.json"
    line = command.format(month=month, id=session_id, message=message)
    requests = office.talk(runs(f"{line} && echo made it"), access="workspace", new=False)
    assert "made it" not in result(requests[1])
    assert "exit code" in result(requests[1])
    assert everything(sessions) == before
    assert [*session_ids(sessions)] == [session_id]
    assert Inbox(folder.path).names() == []
    assert not os.path.exists(os.path.join(folder.path, "stop.json"))
    assert folder.read().damaged == []


# Of which `halo send` is made.
PACKAGES = ("click", "msgspec", "filelock", "yaml", "_yaml", "ruamel", "platformdirs")


@pytest.mark.skipif(not os.access(PYTHON, os.X_OK), reason=f"{PYTHON} is not installed")
def test_halo_send_in_the_sandbox_sends_nothing(office):
    """Halo may lie where commands can run it, in an environment of the workspace's own."""
    office.trust()
    office.talk()
    sessions = sessions_folder(str(office.ws.halo))
    (session_id,) = session_ids(sessions)
    inbox = Inbox(SessionFolder(sessions, session_id).path)
    lib = office.ws.root / "lib"
    shutil.copytree(REPOSITORY / "halo", lib / "halo", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(REPOSITORY / "templates", lib / "templates")
    for name in PACKAGES:
        if (found := importlib.util.find_spec(name)) and found.submodule_search_locations:
            shutil.copytree(found.submodule_search_locations[0], lib / name)
    line = f"PYTHONPATH=lib HOME=/tmp {PYTHON} -m halo send {session_id} 'I may do all'"
    outside = subprocess.run(
        ["sh", "-c", line], check=False, cwd=office.ws.root, capture_output=True, text=True, timeout=60
    )
    if "No module" in outside.stderr or "ImportError" in outside.stderr:
        pytest.skip(f"{PYTHON} is another Python")
    assert "accepted" in outside.stderr
    inbox.remove(inbox.names())
    requests = office.talk(runs(line), access="workspace", new=False)
    said = result(requests[1])
    assert "accepted" not in said
    assert "session" in said  # it is Halo itself that says no
    assert inbox.count() == 0
    assert [*session_ids(sessions)] == [session_id]
