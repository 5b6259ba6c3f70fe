"""The store of model states, without a model."""

import os

from halo.models import states
from halo.models.states import StateStore, state_key


def store(tmp_path):
    made = StateStore(str(tmp_path))
    made.prepare()
    return made


def put(store, key, data=b"state"):
    name = store.temporary(key)
    with open(os.path.join(store.folder, name), "wb") as file:
        file.write(data)
    store.put(key, name, tokens=3, size=len(data), rendered="r")


def test_what_is_put_can_be_borrowed_again_and_again(tmp_path):
    kept = store(tmp_path)
    assert kept.borrow("k") is None
    put(kept, "k")
    for _ in range(2):
        loan = kept.borrow("k")
        assert loan.meta.tokens == 3
        with open(os.path.join(kept.folder, loan.name), "rb") as file:
            assert file.read() == b"state"
        kept.discard(loan.name)
    assert kept.find("k").tokens == 3


def test_a_loan_stays_whole_when_the_state_is_replaced(tmp_path):
    kept = store(tmp_path)
    put(kept, "k")
    loan = kept.borrow("k")
    put(kept, "k", b"another")
    with open(os.path.join(kept.folder, loan.name), "rb") as file:
        assert file.read() == b"state"
    kept.discard(loan.name)
    assert kept.find("k").size == 7


def test_without_hard_links_a_loan_is_a_copy(tmp_path, monkeypatch):
    kept = store(tmp_path)
    put(kept, "k")

    def refuse(*_paths):
        raise PermissionError(1, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    assert kept.borrow("k") is not None


def test_the_longest_unused_go_first_and_abandoned_files_too(tmp_path, monkeypatch):
    monkeypatch.setattr(states, "_LIMIT", 12)
    kept = store(tmp_path)
    for age, key in ((30, "old"), (20, "used"), (10, "new")):
        put(kept, key)
        path = os.path.join(kept.folder, key + ".kv")
        stamp = os.path.getmtime(path) - age
        os.utime(path, (stamp, stamp))
        if key == "used":
            kept.discard(kept.borrow("used").name)
    abandoned = os.path.join(kept.folder, "x.tmp")
    with open(abandoned, "w"):
        os.utime(abandoned, (1, 1))
    put(kept, "last")
    left = sorted(e for e in os.listdir(kept.folder) if not e.startswith("."))
    assert left == ["last.json", "last.kv", "used.json", "used.kv"]


def test_the_key_tells_apart_all_that_a_state_depends_on():
    base = {"static_prefix": "a", "tools": [], "model_sha256": "m", "engine": "e"}
    keys = {state_key(**base)} | {state_key(**{**base, name: "x"}) for name in base}
    assert len(keys) == 5
