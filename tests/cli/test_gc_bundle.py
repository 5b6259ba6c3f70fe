"""`halo gc` and `halo bundle` as a user meets them, with real processes, a real model and a real server."""

import json
import os
import shutil
import time

import pytest
from making import agent, skill

from halo.cli.main import run
from halo.files.locks import hold
from halo.models.states import StateStore
from halo.sessions.find import session_ids
from halo.sessions.folder import SessionFolder

MODEL = "smollm2-135m-instruct"
LOCAL = {"provider": "local", "id": MODEL, "temperature": 0, "seed": 7, "max_tokens": 8}
FILES = {
    ".halo/USER.md": "Mira.\n",
    ".halo/agents/default/agent.yaml": agent(name="Lead", tools=["file_read"], skills=["notes"]),
    ".halo/agents/default/AGENT.md": "You lead.\n",
    ".halo/skills/notes/SKILL.md": skill("Write down $ARGUMENTS.", name="notes", description="d"),
    "docs/.halo/INSTRUCTIONS.md": "Docs are short.\n",
}


@pytest.fixture
def ws(make_workspace, monkeypatch):
    made = make_workspace(FILES)
    monkeypatch.chdir(made.root)
    monkeypatch.setenv("HALO_HOME", str(made.home))
    monkeypatch.setenv("HALO_CACHE", str(made.home / "cache"))
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return made


def age(*folders):
    """Let everything in these folders be two hours old."""
    stamp = time.time() - 7200
    for folder in folders:
        for path in [*folder.rglob("*"), folder]:
            os.utime(path, (stamp, stamp))


class TestGc:
    def test_after_an_edit_the_old_artifacts_go(self, ws, capfd):
        assert run(["build"]) == 0
        before = set(os.listdir(ws.halo / "artifacts"))
        ws.write({".halo/USER.md": "Somebody else.\n"})
        assert run(["build"]) == 0
        capfd.readouterr()
        assert run(["gc"]) == 0
        out, err = capfd.readouterr()
        assert out.startswith("nothing removed, 0 bytes; ")
        assert " young)" in out
        assert err == ""
        age(ws.halo / "artifacts")
        assert run(["gc", "--dry-run"]) == 0
        planned, listed = capfd.readouterr()
        assert before <= set(os.listdir(ws.halo / "artifacts"))
        assert run(["gc"]) == 0
        done, gone = capfd.readouterr()
        assert planned.replace("would go", "removed") == done
        assert listed.replace("would go", "gone    ") == gone
        number = int(done.split()[0])
        assert number == len(gone.splitlines()) == len(before - set(os.listdir(ws.halo / "artifacts"))) > 1
        assert run(["build"]) == 0
        assert capfd.readouterr().out.endswith("all fresh\n")

    def test_what_is_left_alone_is_said(self, ws, capfd):
        assert run(["build"]) == 0
        (ws.halo / "artifacts" / "mine").mkdir()
        capfd.readouterr()
        assert run(["gc"]) == 0
        assert capfd.readouterr().err == "left     artifacts/mine: not made by Halo, or not whole\n"

    def test_a_session_that_cannot_be_read_is_named_and_nothing_goes(self, ws, capfd, tmp_path):
        assert run(["build"]) == 0
        ws.write({".halo/USER.md": "Somebody else.\n"})
        assert run(["build"]) == 0
        age(ws.halo / "artifacts")
        (ws.halo / "sessions").symlink_to(tmp_path)
        capfd.readouterr()
        assert run(["gc"]) == 1
        out, err = capfd.readouterr()
        assert out.startswith("nothing removed")
        assert f"kept     every artifact: [Errno 40] a link or a device, which is not read: '{ws.halo}" in err

    def test_two_at_once_are_one(self, ws, capfd):
        assert run(["build"]) == 0
        with hold(str(ws.halo / "build" / "gc.lock"), what="x"):
            capfd.readouterr()
            assert run(["gc"]) == 1
            assert "halo gc in this workspace is in use by process" in capfd.readouterr().err
            assert run(["gc", "--dry-run"]) == 0

    def test_in_a_workspace_that_was_never_built(self, ws, capfd):
        assert run(["gc"]) == 0
        assert capfd.readouterr().out == "nothing removed, 0 bytes; 0 artifacts kept (0 in use, 0 young)\n"


@pytest.fixture
def cache(model_file, tmp_path, monkeypatch):
    """A cache with the real model and no states."""
    folder = tmp_path / "cache"
    (folder / "models").mkdir(parents=True)
    try:
        os.link(model_file, folder / "models" / f"{MODEL}.gguf")
    except OSError:
        os.symlink(model_file, folder / "models" / f"{MODEL}.gguf")
    monkeypatch.setenv("HALO_CACHE", str(folder))
    return folder


class TestStates:
    def keys(self, cache):
        return {path.stem for path in (cache / "states").glob("*.kv")}

    def test_states_of_the_prompts_that_are_here_stay_and_others_go(self, ws, cache, capfd):
        """With the real model: the key of a state follows from an artifact, the model file and the engine."""
        ws.write(
            {
                ".halo/agents/default/agent.yaml": agent(name="L", model=LOCAL),
                ".halo/agents/default/AGENT.md": "You answer.\n",
                # In the place of Halo's own prompts, which take the model some seconds to read.
                ".halo/prompts/all/short.md": "Answer shortly.\n",
            }
        )
        shutil.rmtree(ws.halo / "skills")
        assert run(["build", "--kv"]) == 0
        first = self.keys(cache)
        assert len(first) == 2  # as root and as sub
        age(ws.halo / "artifacts", cache / "states")
        assert run(["gc"]) == 0
        assert self.keys(cache) == first
        ws.write({".halo/agents/default/AGENT.md": "You answer shortly.\n"})
        assert run(["build", "--kv"]) == 0
        second = self.keys(cache) - first
        assert len(second) == 2
        age(ws.halo / "artifacts", cache / "states")
        capfd.readouterr()
        assert run(["gc"]) == 0
        assert "2 model states removed" in capfd.readouterr().out
        assert self.keys(cache) == second
        # The model is gone: no state can be used any more.
        (cache / "models" / f"{MODEL}.gguf").unlink()
        assert run(["gc"]) == 0
        assert self.keys(cache) == set()


def put(cache, key, workspace):
    store = StateStore(str(cache), str(workspace))
    store.prepare()
    name = store.temporary(key)
    with open(os.path.join(store.folder, name), "wb") as file:
        file.write(b"state")
    store.put(key, name, tokens=3, size=5, rendered="r")
    return store


class TestStatesOfOthers:
    """The cache belongs to all workspaces of the user."""

    KEY = "5" * 64

    @pytest.fixture
    def two(self, tmp_path):
        for name in ("one", "two"):
            (tmp_path / name / ".halo").mkdir(parents=True)
        return tmp_path / "cache", tmp_path / "one", tmp_path / "two"

    def left(self, cache):
        return sorted(p.name for p in (cache / "states").iterdir() if not p.name.startswith("."))

    def test_one_that_another_workspace_saved_stays(self, two):
        cache, one, other = two
        put(cache, self.KEY, other)
        age(cache)
        assert StateStore(str(cache), str(one)).sweep(frozenset()).keys == ()

    def test_and_one_that_another_workspace_uses(self, two):
        cache, one, other = two
        put(cache, self.KEY, one)
        borrower = StateStore(str(cache), str(other))
        borrower.discard(borrower.borrow(self.KEY).name)
        age(cache)
        assert StateStore(str(cache), str(one)).sweep(frozenset()).keys == ()
        shutil.rmtree(other)
        assert StateStore(str(cache), str(one)).sweep(frozenset()).keys == (self.KEY,)
        assert self.left(cache) == []

    def test_finding_one_is_using_it(self, two):
        cache, one, other = two
        put(cache, self.KEY, one)
        assert StateStore(str(cache), str(other)).find(self.KEY).tokens == 3
        age(cache)
        assert StateStore(str(cache), str(one)).sweep(frozenset()).keys == ()

    def test_one_whose_workspace_no_longer_exists_goes(self, two):
        cache, one, other = two
        put(cache, self.KEY, other)
        shutil.rmtree(other / ".halo")
        age(cache)
        assert StateStore(str(cache), str(one)).sweep(None).keys == (self.KEY,)

    def test_saved_again_it_is_still_known_who_uses_it(self, two):
        cache, one, other = two
        put(cache, self.KEY, other)
        put(cache, self.KEY, one)
        with open(cache / "states" / f"{self.KEY}.json", "rb") as file:
            assert json.load(file)["workspaces"] == sorted(map(str, (one, other)))
        assert (cache / "states" / f"{self.KEY}.json").stat().st_mode & 0o777 == 0o600

    def test_live_young_and_unknown_ones_stay(self, two):
        cache, one, _ = two
        store = put(cache, self.KEY, one)
        assert store.sweep(frozenset()).keys == ()  # young
        age(cache)
        assert store.sweep(frozenset({self.KEY})).keys == ()  # live
        assert store.sweep(None).keys == ()  # nobody knows
        side = cache / "states" / f"{self.KEY}.json"
        record = json.loads(side.read_text())
        del record["workspaces"]  # as an earlier version wrote it
        side.write_text(json.dumps(record))
        age(cache)
        assert store.sweep(frozenset()).keys == ()
        side.write_text("{")
        age(cache)
        assert store.sweep(frozenset()).keys == ()

    def test_a_dry_run_removes_nothing(self, two):
        cache, one, _ = two
        store = put(cache, self.KEY, one)
        age(cache)
        swept = store.sweep(frozenset(), dry=True)
        assert (swept.keys, swept.bytes > 5) == ((self.KEY,), True)
        assert len(self.left(cache)) == 2
        assert store.sweep(frozenset()) == swept

    def test_half_of_a_state_goes_and_other_files_stay(self, two, tmp_path):
        cache, one, _ = two
        store = put(cache, self.KEY, one)
        (cache / "states" / f"{self.KEY}.json").unlink()
        (cache / "states" / "notes.txt").write_text("mine")
        (tmp_path / "victim").write_text("mine")
        (cache / "states" / f"{'6' * 64}.kv").symlink_to(tmp_path / "victim")
        age(cache)
        os.utime(cache / "states" / f"{'6' * 64}.kv", (1, 1), follow_symlinks=False)
        assert store.sweep(frozenset()).keys == (self.KEY,)
        assert self.left(cache) == [f"{'6' * 64}.kv", "notes.txt"]
        assert (tmp_path / "victim").read_text() == "mine"

    def test_a_cache_that_was_never_used(self, two):
        assert StateStore(str(two[0]), str(two[1])).sweep(frozenset()) == ((), 0)
        assert not (two[0] / "states").exists()


def chat(*deltas, finish="stop"):
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "scripted-2"}
    events = [{**head, "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    return [*events, {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}]


class TestBundle:
    """Another machine: another home, a folder without layers."""

    @pytest.fixture
    def there(self, make_workspace, ws, monkeypatch):
        made = make_workspace({})
        shutil.rmtree(made.halo)
        made.packed = str(made.home.parent / "x.halo.tar")

        def move(*pack):
            assert run(["bundle", "-o", made.packed, *pack]) == 0
            monkeypatch.setenv("HALO_HOME", str(made.home))
            monkeypatch.chdir(made.root)
            assert run(["bundle", "--unpack", made.packed]) == 0
            return made

        return move

    def test_prompts_are_the_same_to_the_byte(self, ws, there, capfd):
        asked = [["-a", "default"], ["-a", "default", "--role", "sub"], ["-a", "worker", "--layers"]]
        before = [ws.cli("prompt", *words).stdout for words in asked]
        made = there()
        capfd.readouterr()
        assert [made.cli("prompt", *words).stdout for words in asked] == before
        assert [made.cli("prompt", "--frozen", *words).stdout for words in asked] == before
        assert before[0].startswith("## User Profile\n\nMira.\n")
        assert made.cli("prompt", "-a", "default", "--fill").stdout.endswith(f"is at: {made.root}\n")

    def test_what_it_says(self, ws, capfd, monkeypatch):
        ws.write({".halo/skills/notes/scripts/run.py": "x"})
        assert run(["bundle"]) == 0
        out, err = capfd.readouterr()
        path = ws.root / "ws.halo.tar"
        count = ws.cli("build").stdout.split()[0]
        assert out == f"{path}: {count} targets, {path.stat().st_size:,} bytes\n"
        assert "note: skill notes: the other files of its folder are not in the bundle\n" in err
        assert err.count("note: ") == 1
        assert not list(ws.root.glob("*.tmp"))

    def test_turns_run_there_with_skills_and_rules_of_directories(
        self, ws, there, scripted, monkeypatch, capfd
    ):
        model = {"provider": "openai", "id": "m", "endpoint": scripted.url + "/v1"}
        ws.write({".halo/agents/default/agent.yaml": agent(name="Lead", model=model, skills=["notes"])})
        made = there()
        (made.root / "docs").mkdir()  # the code is there, its rules are not
        for _ in range(2):
            scripted.says_chat(*chat({"content": "Yes."}))
        assert run(["run", "--frozen", "@scope docs Hello"]) == 0
        assert run(["run", "/notes this and that"]) == 0
        assert capfd.readouterr().out.endswith("Yes.\nYes.\n")
        first, second = (request.json["messages"] for request in scripted.requests)
        assert first[0]["content"].startswith("## User Profile\n\nMira.\n")
        assert "Docs are short.\n" in first[1]["content"]
        assert first[1]["content"].endswith("Hello")
        assert "Write down this and that." in second[-1]["content"]
        sessions = str(made.halo / "sessions")
        (session,) = session_ids(sessions)
        started = [e for e in SessionFolder(sessions, session).read_events() if e.type == "turn.started"]
        assert len(started) == 2
        age(made.halo / "artifacts")
        assert run(["gc"]) == 0
        scripted.says_chat(*chat({"content": "Again."}))
        assert run(["run", "More."]) == 0

    def test_an_endpoint_that_came_in_a_bundle_gets_no_key(self, ws, there, capfd, monkeypatch):
        """No layer says whose it is, and an artifact is not asked. There is nothing to trust either."""
        monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
        model = {"provider": "openai", "id": "m", "endpoint": "https://models.example/v1"}
        ws.write({".halo/agents/default/agent.yaml": agent(name="Lead", model=model)})
        assert run(["trust", "--yes"]) == 0  # where the layers are
        made = there()
        # Even an agent of the user that is called the same and has the same endpoint changes nothing.
        made.write({"global:agents/default/agent.yaml": agent(model=model)})
        capfd.readouterr()
        assert run(["run", "Hello"]) == 3
        assert "the key of openai must not go to https://models.example/v1" in capfd.readouterr().err
        assert run(["trust", "--yes"]) == 2
        assert "unpacked from a bundle" in capfd.readouterr().err
        assert not (made.halo / "sessions").exists()

    def test_values_of_settings_and_environment_stay_out(self, ws, there, capfd, monkeypatch):
        """Neither are they packed, nor does a bundle read any of the machine where it is unpacked."""
        monkeypatch.setenv("MY_TOKEN", "hush-environment")
        ws.write(
            {
                ".halo/skills/notes/config.yaml": "params: [{key: e, secret: false}, {key: g}]\n",
                ".halo/settings.yaml": "notes: {params: {e: <<MY_TOKEN>>}}\n",
                "secrets:settings.yaml": "notes: {params: {g: hush-global}}\n",
                ".halo/agents/default/AGENT.md": "{{notes.params.e}} {{notes.params.g}}\n",
            }
        )
        made = there()
        made.write({"secrets:settings.yaml": "notes: {params: {g: hush-there}}\n"})
        with open(made.packed, "rb") as file:
            assert b"hush" not in file.read()
        capfd.readouterr()
        assert run(["prompt", "--fill"]) == 0
        out, err = capfd.readouterr()
        assert "{{notes.params.e}} {{notes.params.g}}\n" in out
        assert "notes.params.e" in err
        assert "notes.params.g" in err
        # What a folder of the user's own declares is meant for prompts of that name.
        made.write({"global:skills/notes/config.yaml": "params: [{key: g}]\n"})
        assert run(["prompt", "--fill"]) == 0
        assert "{{notes.params.e}} hush-there\n" in capfd.readouterr().out

    def test_a_model_file_that_came_in_a_bundle_is_not_loaded(self, ws, there, capfd):
        ws.write({".halo/agents/default/agent.yaml": agent(model={"provider": "local", "id": "m.gguf"})})
        made = there()
        (made.root / "m.gguf").write_bytes(b"GGUF")
        capfd.readouterr()
        assert run(["run", "Hello"]) == 3
        assert "nobody has allowed it" in capfd.readouterr().err

    def test_nothing_is_compiled_there(self, there, capfd):
        there()
        capfd.readouterr()
        for words, code, said in (
            (["build"], 2, "no layers to compile"),
            (["prompt", "--dir", "."], 0, ""),
            (["prompt", "--access", "readonly"], 1, "not in the bundle"),
            (["prompt", "-a", "defualt"], 2, "did you mean 'default'?"),
            (["bundle"], 2, "no layers to compile"),
        ):
            assert run(words) == code, words
            assert said in capfd.readouterr().err

    def test_a_wrong_file_leaves_nothing_behind(self, ws, make_workspace, capfd, monkeypatch):
        made = make_workspace({})
        shutil.rmtree(made.halo)
        monkeypatch.chdir(made.root)
        (made.root / "x.tar").write_bytes(b"x" * 4096)
        assert run(["bundle", "--unpack", "x.tar", "there"]) == 1
        assert "not a whole bundle of Halo" in capfd.readouterr().err
        assert run(["bundle", "--unpack", "absent.tar"]) == 1
        assert {path.name for path in made.root.iterdir()} == {"x.tar"}

    @pytest.mark.parametrize(
        "words", [["--unpack", "x", "-o", "y"], ["--unpack", "x", "-w", "y"], ["somewhere"]]
    )
    def test_options_that_do_not_go_together(self, ws, words, capfd):
        assert run(["bundle", *words]) == 2

    def test_a_file_that_cannot_be_written(self, ws, capfd):
        assert run(["bundle", "-o", "no/such/folder/x.tar"]) == 1
        assert "No such file or directory" in capfd.readouterr().err
