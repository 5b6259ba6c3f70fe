"""Provider `local` on the real model: states across processes, and what is wrong with them."""

import asyncio
import json
import os
import stat
import subprocess
import sys
from contextlib import aclosing

import pytest
from turning import MODEL, notices, outcome, request, run_turn

from halo.errors import ModelFileError, ProviderError
from halo.models.local import Local
from halo.models.opening import prepare_state
from halo.models.states import StateStore
from halo.records.artifacts import Binding
from halo.records.messages import user
from halo.records.tools import LISTABLE_TOOLS

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

STATIC = (
    "You are a helpful assistant for the keepers of a weather station.\n\n## Rules\n\n"
    "- Answer in one short sentence.\n- Give the value first, then its unit.\n"
    "- A missing reading is never guessed.\n\n## Environment\n\n"
)
SHORT = "You are a helpful assistant. Answer in one short sentence.\n\n"
QUESTION = user("What is the capital of France?")

# One turn in a process of its own: arguments cache, slot value; prints what happened as JSON.
TURN = """
import asyncio, json, sys
from contextlib import aclosing
from turning import MODEL, notices, outcome, request
from halo.models.local import Local
from test_local import QUESTION, STATIC

async def go():
    local = Local(MODEL, cache=sys.argv[1], base_dir="/", context_tokens=2048, threads=1)
    try:
        turn = request(QUESTION, system=STATIC + sys.argv[2], static=STATIC, provider="local", model=MODEL)
        async with aclosing(local.stream(turn)) as events:
            return [e async for e in events]
    finally:
        await local.close()

events = asyncio.run(go())
text, done = outcome(events)
print(json.dumps({"text": text, "restored": done.restored, "read": done.usage.read, "written": done.usage.written,
                  "prompt": done.usage.prompt, "model": done.model, "notices": notices(events)}))
"""


def begin_turn(cache, slot):
    tests = os.path.join(REPOSITORY, "tests")
    path = os.pathsep.join([REPOSITORY, tests, os.path.join(tests, "models")])
    return subprocess.Popen(
        [sys.executable, "-c", TURN, cache, slot],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def end_turn(process):
    out, err = process.communicate(timeout=200)
    assert process.returncode == 0, err.decode()
    assert err == b""  # llama.cpp is silent
    return json.loads(out)


def states(cache):
    return os.path.join(cache, "states")


def linked(shared_cache, tmp_path):
    """A cache with the model and nothing else."""
    tmp_path.mkdir(exist_ok=True)
    (tmp_path / "models").mkdir()
    os.symlink(os.path.join(shared_cache, "models", f"{MODEL}.gguf"), tmp_path / "models" / f"{MODEL}.gguf")
    return str(tmp_path)


def test_a_state_is_saved_and_restored_in_a_new_process(shared_cache, tmp_path):
    cache = linked(shared_cache, tmp_path)
    first = end_turn(begin_turn(cache, "- Host: SLOT-VALUE-ONE"))
    assert (first["restored"], first["read"]) == (0, 0)
    assert first["written"] > 40
    assert "Paris" in first["text"]
    assert first["model"] == MODEL
    again = end_turn(begin_turn(cache, "- Host: SLOT-VALUE-ONE"))
    assert again["text"] == first["text"]
    assert again["prompt"] == first["prompt"]
    assert again["restored"] >= first["written"]
    assert again["written"] == 0
    assert again["read"] > again["prompt"] / 2
    assert f"restored {again['restored']:,} prompt tokens" in again["notices"]
    # Another machine's slot values change nothing about the state; none of them is in it.
    other = end_turn(begin_turn(cache, "- Host: SLOT-VALUE-TWO"))
    assert other["restored"] == again["restored"]
    assert stat.S_IMODE(os.stat(states(cache)).st_mode) == 0o700
    kept = sorted(e.name for e in os.scandir(states(cache)) if not e.name.startswith("."))
    assert [name.rpartition(".")[2] for name in kept] == ["json", "kv"]
    for name in kept:
        path = os.path.join(states(cache), name)
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        with open(path, "rb") as file:
            assert b"SLOT-VALUE" not in file.read()
    # Tokens lie in the file as numbers: the same state comes out whatever the slots are, so none is inside.
    with open(os.path.join(states(cache), kept[0]), "rb") as file:
        assert json.loads(file.read())["tokens"] == again["restored"]


def test_two_processes_at_once_are_both_right(shared_cache, tmp_path):
    cache = linked(shared_cache, tmp_path)
    both = [begin_turn(cache, "- Host: a"), begin_turn(cache, "- Host: a")]
    one, two = map(end_turn, both)
    assert one["text"] == two["text"]
    left = sorted(e.name.rpartition(".")[2] for e in os.scandir(states(cache)) if e.name != ".lock")
    assert left == ["json", "kv"]
    assert end_turn(begin_turn(cache, "- Host: a"))["restored"] > 0


def cut(length):
    def damage(path, _side):
        os.truncate(path, length if length >= 0 else os.path.getsize(path) + length)

    return damage


def flip(path, _side):
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 0xFF]))


def longer(path, _side):
    with open(path, "ab") as file:
        file.write(b"x")


def no_side_file(_path, side):
    os.unlink(side)


def bad_side_file(_path, side):
    with open(side, "w") as file:
        file.write('{"format": 1')


def gone(path, _side):
    os.unlink(path)


def test_a_damaged_state_never_changes_an_answer(shared_cache):
    """llama.cpp aborts the process when it reads a state that is cut short, so it must never see one."""
    damages = [
        cut(0),
        cut(10),
        cut(300),
        cut(100_000),
        cut(-1),
        flip,
        longer,
        no_side_file,
        bad_side_file,
        gone,
    ]
    turn = request(QUESTION, system=SHORT + "Host: x", static=SHORT, provider="local", model=MODEL)

    async def go():
        local = Local(MODEL, cache=shared_cache, base_dir="/", context_tokens=512, threads=1)

        async def once():
            local._slot = ""  # as in a new process
            async with aclosing(local.stream(turn)) as events:
                return [e async for e in events]

        try:
            results = [await once()]
            key = local._key(local._file, SHORT, ())
            path, side = (os.path.join(states(shared_cache), key + end) for end in (".kv", ".json"))
            for damage in damages:
                damage(path, side)
                results.append(await once())
                loan = local._store.borrow(key)
                assert loan is not None, damage  # replaced
                local._store.discard(loan.name)
            return [*results, await once()]
        finally:
            await local.close()

    first, *damaged, mended = asyncio.run(go())
    text, _ = outcome(first)
    for damage, events in zip(damages, damaged, strict=True):
        assert outcome(events)[0] == text
        assert outcome(events)[1].restored == 0
        assert any("first time" in n for n in notices(events))
        assert any("damaged" in n for n in notices(events)) is (damage is not no_side_file)
    assert outcome(mended)[0] == text
    assert outcome(mended)[1].restored > 0
    assert not [e for e in os.listdir(states(shared_cache)) if e.endswith(".tmp")]


def test_a_state_that_cannot_be_saved_costs_a_notice(shared_cache, monkeypatch):
    def full(*_args, **_more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(StateStore, "put", full)
    turn = request(
        QUESTION, system="Answer briefly.\n", static="Answer briefly.\n", provider="local", model=MODEL
    )
    local = Local(MODEL, cache=shared_cache, base_dir="/", context_tokens=512, threads=1)
    events = run_turn(local, turn)
    assert outcome(events)[0]
    assert any("could not be saved" in n for n in notices(events))


def test_a_state_can_be_prepared_ahead_of_time(shared_cache, monkeypatch):
    binding = Binding("local", MODEL)
    static = "You know the capitals of the world.\n"
    tools = (LISTABLE_TOOLS["file_read"],)

    def prepare():
        return asyncio.run(
            prepare_state(
                binding,
                static,
                tools=tools,
                tool_mode="schema",
                context_tokens=512,
                cache=shared_cache,
                base_dir="/",
            )
        )

    made = prepare()
    assert made.tokens > 5
    assert not made.existed
    monkeypatch.setattr("halo.models.llama.start", None)  # the second time no model is loaded
    again = prepare()
    assert (again.tokens, again.existed) == (made.tokens, True)


def test_what_does_not_fit_is_told_before_it_is_read(shared_cache):
    long = "A rule of the house. " * 100
    local = Local(MODEL, cache=shared_cache, base_dir="/", context_tokens=256, threads=1)
    with pytest.raises(ProviderError, match="without its history; the context holds 256"):
        run_turn(local, request(QUESTION, system=long, static=long, provider="local", model=MODEL))
    local = Local(MODEL, cache=shared_cache, base_dir="/", context_tokens=256, threads=1)
    with pytest.raises(ProviderError, match="too long for"):
        run_turn(local, request(user("word " * 400), provider="local", model=MODEL))


def test_a_known_name_stands_for_one_file_only(shared_cache, tmp_path):
    (tmp_path / "models").mkdir()
    source = os.path.join(shared_cache, "models", f"{MODEL}.gguf")
    target = tmp_path / "models" / f"{MODEL}.gguf"
    with open(source, "rb") as file:
        target.write_bytes(file.read())
    with open(target, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x01")
    local = Local(MODEL, cache=str(tmp_path), base_dir="/", context_tokens=256, threads=1)
    with pytest.raises(ModelFileError, match="not the file that"):
        run_turn(local, request(QUESTION, provider="local", model=MODEL))


def test_a_file_cut_short_is_told_before_the_engine_sees_it(shared_cache, tmp_path):
    path = tmp_path / "cut.gguf"
    with open(os.path.join(shared_cache, "models", f"{MODEL}.gguf"), "rb") as file:
        path.write_bytes(file.read(3_000_000))
    local = Local(
        "cut.gguf", cache=str(tmp_path / "c"), base_dir=str(tmp_path), context_tokens=256, threads=1
    )
    with pytest.raises(ModelFileError, match="cut short: 3,000,000 bytes of at least 98,362,432"):
        run_turn(local, request(QUESTION, provider="local", model="cut.gguf"))


def test_states_that_no_cache_takes_go_with_the_adapter(shared_cache, tmp_path, monkeypatch):
    cache = linked(shared_cache, tmp_path / "cache")
    (tmp_path / "cache" / "states").write_text("in the way")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    local = Local(MODEL, cache=cache, base_dir="/", context_tokens=2048, threads=1)
    turn = request(QUESTION, system=SHORT, static=SHORT, provider="local", model=MODEL)
    text, _ = outcome(run_turn(local, turn))
    assert "Paris" in text
    assert list((tmp_path / "temporary").iterdir()) == []
