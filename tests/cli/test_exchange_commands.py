"""`halo session export`, `import` and `fork` as processes: files, pipes, and a turn behind what came."""

import json
import os

import pytest
from test_session_commands import session, shelf, ws  # noqa: F401  # fixtures
from test_worker import END, chat

from halo.sessions.find import session_ids


@pytest.fixture
def one(shelf):  # noqa: F811
    return shelf.talk(None, "When does the tide turn?", "And tomorrow?", agent="default")


def ids(shelf):  # noqa: F811
    return set(session_ids(shelf.sessions))


@pytest.mark.parametrize("form", ["json", "openai", "anthropic"])
def test_what_was_exported_comes_back_and_goes_on(ws, shelf, scripted, one, form, tmp_path):  # noqa: F811
    path = str(tmp_path / "out")
    assert session(ws, "export", one.id, "--format", form, "-o", path) == ("", "")
    out, err = session(ws, "import", path)
    made = shelf.folder(out.strip())
    assert err == f"2 turns with default; halo run -s {made.id} goes on\n"
    assert made.read().history() == one.read().history()
    scripted.says_chat(chat("At eight."), END)
    done = ws.cli("run", "-s", made.id, "And on Sunday?", OPENAI_API_KEY="sk-x")
    assert (done.returncode, done.stdout) == (0, "At eight.\n"), done.stderr
    (request,) = scripted.requests
    assert [m["content"] for m in request.json["messages"] if m["role"] != "system"] == [
        "When does the tide turn?",
        "You said: When does the tide turn?",
        "And tomorrow?",
        "You said: And tomorrow?",
        "And on Sunday?",
    ]
    assert len(one.read().history()) == 4


def test_documents_go_to_pipes_and_files(ws, one, tmp_path):  # noqa: F811
    text, err = session(ws, "export", one.id)
    assert err == ""
    assert text.startswith("# When does the tide turn?\n")
    assert "## Turn 2" in text
    page, _ = session(ws, "export", one.id, "--format", "html", "--turns", "2")
    assert page.startswith("<!doctype html>")
    assert "You said: And tomorrow?" in page
    assert "You said: When" not in page
    path = tmp_path / "out.md"
    path.write_text("mine")
    _, err = session(ws, "export", one.id, "-o", str(path), code=2)
    assert "is there already" in err
    assert path.read_text() == "mine"
    session(ws, "export", one.id, "-o", str(path), "--force")
    assert path.read_text() == text
    assert "is a folder" in session(ws, "export", one.id, "-o", str(tmp_path), code=2)[1]


def test_a_secret_that_halo_knows_leaves_in_no_format(ws, shelf):  # noqa: F811
    folder = shelf.talk(None, "it is sk-very-secret-1234567", agent="default")
    for form in ("json", "openai", "anthropic", "markdown", "html"):
        done = ws.cli(
            "session", "export", folder.id, "--format", form, OPENAI_API_KEY="sk-very-secret-1234567"
        )
        assert done.returncode == 0, done.stderr
        assert "sk-very-secret" not in done.stdout
        assert "it is" in done.stdout


def test_where_secrets_are_not_known_nothing_leaves(ws, one):  # noqa: F811
    assert ws.cli("trust", "-y").returncode == 0  # what it may know of secrets stands in the settings, too
    ws.write({".halo/settings.yaml": "general: {promt: 1}\n"})
    out, err = session(ws, "export", one.id, code=1)
    assert out == ""
    assert err.count("unknown key 'promt'") == 1


def test_a_fork_is_another_conversation(ws, shelf, scripted, one):  # noqa: F811
    out, err = session(ws, "fork", one.id, "--turn", "1")
    made = shelf.folder(out.strip())
    assert err == f"turns 1 to 1 of {one.id}; halo run -s {made.id} goes on\n"
    scripted.says_chat(chat("At nine."), END)
    done = ws.cli("run", "-s", made.id, "And then?", OPENAI_API_KEY="sk-x")
    assert done.stdout == "At nine.\n", done.stderr
    assert [m.text for m in made.read().history()[::2]] == ["When does the tide turn?", "And then?"]
    assert [m.text for m in one.read().history()[::2]] == ["When does the tide turn?", "And tomorrow?"]
    shown = session(ws, "show", made.id)[0]
    assert f"{one.id} (fork)" in shown
    assert "no turn 9" in session(ws, "fork", one.id, "--turn", "9", code=2)[1]


def test_what_cannot_be_imported_makes_no_session_and_says_why(ws, shelf, tmp_path):  # noqa: F811
    before = ids(shelf)
    path = tmp_path / "x.json"
    for text, problem in (
        ("# Tides", "x.json: it is no JSON"),
        ('[{"role": "user", "content": 7}]', "x.json: message 1: content is neither"),
        ('[{"role": "tool"}, {"role": "user", "content": [{"type": "tool_result"}]}]', "--format"),
    ):
        path.write_text(text)
        out, err = session(ws, "import", str(path), code=1)
        assert out == ""
        assert problem in err
        assert "Traceback" not in err
    path.write_text('[{"role": "user", "content": "hi"}]')
    assert "unknown agent 'nobody'" in session(ws, "import", str(path), "-a", "nobody", code=2)[1]
    assert "No such file" in session(ws, "import", str(tmp_path / "none"), code=1)[1]
    assert ids(shelf) == before


def test_an_agent_that_the_workspace_has_not_is_asked_for(ws, shelf, tmp_path):  # noqa: F811
    folder = shelf.talk(None, "Hello", agent="elsewhere")
    path = str(tmp_path / "x.json")
    session(ws, "export", folder.id, "--format", "json", "-o", path)
    assert "-a names the agent" in session(ws, "import", path, code=2)[1]
    out, _ = session(ws, "import", path, "-a", "default")
    assert shelf.folder(out.strip()).read().created.target.agent == "default"


def test_remarks_are_told_and_none_is_hidden(ws, tmp_path):  # noqa: F811
    array = [{"role": "user", "content": "hi"}, *[{"role": "system", "content": "x\x1b[2J"}] * 30]
    path = tmp_path / "x.json"
    path.write_text(json.dumps(array))
    _, err = session(ws, "import", str(path))
    assert err.count("a system text is left out") == 20
    assert "and 10 more of the kind" in err


def test_from_a_pipe_to_a_pipe(ws, shelf, one):  # noqa: F811
    import subprocess
    import sys

    halo = f"{sys.executable} -m halo session"
    command = f"{halo} export {one.id} --format anthropic | {halo} import -"
    done = subprocess.run(
        command, shell=True, cwd=ws.root, env=ws.environ(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert shelf.folder(done.stdout.strip()).read().history() == one.read().history()
    wrong = subprocess.run(
        f"echo '{{' | {halo} import -",
        shell=True, cwd=ws.root, env=ws.environ(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert wrong.stderr.startswith("halo: stdin: it is no JSON")
    assert os.path.isdir(one.path)
