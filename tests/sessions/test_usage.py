"""What model calls have used: added up from logs, kept beside them, and kept when a session is deleted."""

import datetime as dt
import math
import os
import shutil
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kept import Shelf

from halo.errors import LogError
from halo.files import ops
from halo.records.events import MessageAdded, TurnEnded, TurnStarted, UsageLost, UsageReported
from halo.records.messages import user
from halo.records.session_events import SessionChanged
from halo.records.usage import Usage
from halo.sessions.forking import fork
from halo.sessions.index import month_file
from halo.sessions.keeping.deleting import delete, plan
from halo.sessions.usage import ledger as ledgers
from halo.sessions.usage.gone import NAME as GONE
from halo.sessions.usage.ledger import NAME, read_ledger
from halo.sessions.usage.totals import Total, Wanted, totals

UTC = Wanted(dt.UTC)
DAY = 86_400 * 10**9


@pytest.fixture
def shelf(tmp_path):
    return Shelf(tmp_path / "sessions", tmp_path / "home")


CALLS = st.lists(
    st.tuples(
        st.sampled_from(["m", "n"]),
        st.integers(0, 50),
        st.sampled_from([None, 0.25, 1.5]),
        st.sampled_from(["EUR", "USD"]),
        st.booleans(),
        st.integers(0, 3),  # days that pass before it
    ),
    max_size=4,
)
SESSIONS = st.lists(st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(["f1", "f2"]), CALLS), max_size=5)


def spend(shelf, calls, agent="a", print_="f1", folder=None, **relation):
    """A turn with model calls, of which the marked ones came to nothing."""
    folder = folder or shelf.begin(agent, **relation)
    with folder.open(shelf.clock) as session:
        session.append(TurnStarted("artifact", print_), turn=session.conversation.turn + 1)
        session.append(MessageAdded(user("go")))
        for model, tokens, cost, currency, failed, days in calls:
            shelf.clock.ns += days * DAY
            kind = UsageLost if failed else UsageReported
            usage = Usage(uncached=tokens, read=2 * tokens, output=1)
            priced = {} if cost is None else {"cost": cost, "currency": currency}
            session.append(kind("p", model, usage, **priced))
        session.append(TurnEnded("done"))
    return folder


def by(shelf, name, wanted=UTC):
    return totals(read_ledger(shelf.sessions).sessions, name, wanted)


def added(lines):
    """Lines, added up."""
    whole = Total("total")
    for line in lines:
        costs = {**dict(whole.costs)}
        for currency, money in line.costs:
            costs[currency] = costs.get(currency, 0.0) + money
        whole = Total(
            "total", "", whole.calls + line.calls, whole.failed + line.failed, whole.usage + line.usage,
            tuple(sorted(costs.items())), whole.unpriced + line.unpriced,
        )  # fmt: skip
    return whole


def expected(made):
    """What was spent in all, by the calls themselves."""
    calls = [call for _, _, calls in made for call in calls]
    costs = {}
    for _, _, cost, currency, _, _ in calls:
        if cost is not None:
            costs[currency] = costs.get(currency, 0.0) + cost
    usage = Usage()
    for _, tokens, _, _, _, _ in calls:
        usage += Usage(uncached=tokens, read=2 * tokens, output=1)
    failed = sum(call[4] for call in calls)
    unpriced = sum(call[2] is None for call in calls)
    return Total("total", "", len(calls) - failed, failed, usage, tuple(sorted(costs.items())), unpriced)


@given(made=SESSIONS, gone=st.sets(st.integers(0, 4)))
@settings(max_examples=30)
def test_whatever_it_is_asked_by_it_adds_up_to_what_was_spent(tmp_path_factory, made, gone):
    """Also when it was asked before, and when sessions were deleted since."""
    shelf = Shelf(tmp_path_factory.mktemp("s"), tmp_path_factory.mktemp("h"))
    folders = []
    for agent, print_, calls in made:
        folders.append(spend(shelf, calls, agent, print_))
        read_ledger(shelf.sessions)
    everything = expected(made)
    for name in ("agent", "day", "model", "fingerprint", "session", "run"):
        lines, total = by(shelf, name)
        assert total == everything == added(lines)
    before = {name: by(shelf, name)[0] for name in ("agent", "day", "model", "fingerprint", "session")}
    for number in gone & set(range(len(folders))):
        delete(shelf.sessions, plan(shelf.sessions, folders[number]), force=False)
    after = {name: by(shelf, name)[0] for name in before}
    for name, lines in before.items():
        assert {line.key: line._replace(title="") for line in lines} == {
            line.key: line._replace(title="") for line in after[name]
        }


class TestGrouping:
    def test_by_each(self, shelf):
        one = spend(shelf, [("m", 10, 1.5, "EUR", False, 0)])
        spend(
            shelf,
            [("n", 5, None, "", False, 0), ("n", 5, 0.25, "USD", True, 1)],
            "b",
            "f2",
            root=one.id,
            parent=one.id,
        )
        assert [(t.key, t.calls, t.failed, t.costs, t.unpriced) for t in by(shelf, "agent")[0]] == [
            ("a", 1, 0, (("EUR", 1.5),), 0),
            ("b", 1, 1, (("USD", 0.25),), 1),
        ]
        assert [t.key for t in by(shelf, "model")[0]] == ["p/m", "p/n"]
        assert [t.key for t in by(shelf, "fingerprint")[0]] == ["f1", "f2"]
        assert [t.key for t in by(shelf, "day")[0]] == ["2026-09-21", "2026-09-22"]
        assert [(t.key, t.title) for t in by(shelf, "run")[0]] == [(one.id, "go")]
        assert len(by(shelf, "session")[0]) == 2

    def test_only_some_days_and_one_agent(self, shelf):
        spend(shelf, [("m", n, None, "", False, 1) for n in (1, 2, 3, 4)])
        spend(shelf, [("m", 100, None, "", False, 0)], "b")
        wanted = Wanted(dt.UTC, dt.date(2026, 9, 23), dt.date(2026, 9, 24), "a")
        lines, total = by(shelf, "day", wanted)
        assert [line.key for line in lines] == ["2026-09-23", "2026-09-24"]
        assert total.usage.uncached == 5

    @pytest.mark.parametrize(
        ("zone", "at", "day"),
        [
            ("Asia/Kathmandu", "2026-03-28T18:14:59Z", "2026-03-28"),  # UTC+5:45
            ("Asia/Kathmandu", "2026-03-28T18:15:00Z", "2026-03-29"),
            ("Europe/Berlin", "2026-03-29T22:00:00Z", "2026-03-30"),  # the first evening of summer time
            ("Europe/Berlin", "2026-03-28T22:30:00Z", "2026-03-28"),
            ("America/St_Johns", "2026-06-02T02:29:00Z", "2026-06-01"),  # UTC-2:30
            ("America/St_Johns", "2026-06-02T02:30:00Z", "2026-06-02"),
        ],
    )
    def test_a_day_is_the_users(self, shelf, zone, at, day):
        shelf.clock.ns = int(dt.datetime.fromisoformat(at).timestamp()) * 10**9 - 5 * 10**9
        spend(shelf, [("m", 1, None, "", False, 0)])
        assert [t.key for t in by(shelf, "day", Wanted(ZoneInfo(zone)))[0]] == [day]

    def test_money_of_two_currencies_is_not_added_up(self, shelf):
        spend(shelf, [("m", 1, 1.5, "EUR", False, 0), ("m", 1, 0.25, "USD", False, 0)])
        ((line,), total) = by(shelf, "agent")
        assert line.costs == total.costs == (("EUR", 1.5), ("USD", 0.25))

    def test_a_call_that_costs_nothing_is_not_one_without_a_price(self, shelf):
        spend(shelf, [("m", 1, 0.0, "EUR", False, 0)])
        assert by(shelf, "agent")[1].costs == (("EUR", 0.0),)


class TestWhatIsKept:
    def test_only_what_has_changed_is_read(self, shelf, monkeypatch):
        one, two = (
            spend(shelf, [("m", 1, 1.0, "EUR", False, 0)]),
            spend(shelf, [("m", 2, 1.0, "EUR", False, 0)]),
        )
        read_ledger(shelf.sessions)
        read = []
        real = ledgers.spending_of
        monkeypatch.setattr(ledgers, "spending_of", lambda folder: read.append(folder.id) or real(folder))
        assert by(shelf, "agent")[1].usage.uncached == 3
        assert read == []
        spend(shelf, [("m", 10, 1.0, "EUR", False, 0)], folder=two)
        assert by(shelf, "agent")[1].usage.uncached == 13
        assert read == [two.id]
        assert one.exists()

    @pytest.mark.parametrize("damage", ["gone", "garbage", "half", "folder", "newer"])
    def test_it_is_made_anew_whatever_becomes_of_it(self, shelf, damage):
        folder = spend(shelf, [("m", 7, 1.0, "EUR", False, 0)])
        before = by(shelf, "session")
        path = os.path.join(os.path.dirname(folder.path), NAME)
        with open(path, "rb") as file:
            data = file.read()
        os.unlink(path)
        if damage == "folder":
            os.mkdir(path)
        elif damage != "gone":
            with open(path, "wb") as file:
                file.write(
                    {
                        "garbage": b"\xff\n" * 9,
                        "half": data[: len(data) // 2],
                        "newer": data.replace(b'"format":1', b'"format":2'),
                    }[damage]
                )
        assert by(shelf, "session") == before

    def test_its_file_does_not_grow_without_end(self, shelf, monkeypatch):
        monkeypatch.setattr(month_file, "_SLACK", 500)
        folder = spend(shelf, [("m", 1, None, "", False, 0)])
        for _ in range(12):
            spend(shelf, [("m", 1, None, "", False, 0)], folder=folder)
            assert by(shelf, "agent")[1].usage.output
        path = os.path.join(os.path.dirname(folder.path), NAME)
        assert os.path.getsize(path) < 5_000
        assert by(shelf, "agent")[1].calls == 13

    def test_a_log_with_damage_is_counted_as_far_as_it_goes_and_told(self, shelf):
        folder = spend(shelf, [("m", 1, None, "", False, 0), ("m", 2, None, "", False, 0)])
        with open(folder.events, "rb+") as file:
            lines = file.readlines()
            file.seek(0)
            file.write(b"".join([*lines[:3], lines[3].replace(b'"uncached":1', b'"uncached":9'), *lines[4:]]))
        found = read_ledger(shelf.sessions)
        assert found.problems == (f"session {folder.id}: 1 lines of its log cannot be read",)
        assert totals(found.sessions, "agent", UTC)[1].usage.uncached == 2

    def test_a_log_that_cannot_be_read_is_told(self, shelf):
        folder = spend(shelf, [("m", 1, None, "", False, 0)])
        os.unlink(folder.events)
        os.mkdir(folder.events)
        (problem,) = read_ledger(shelf.sessions).problems
        assert folder.id in problem


class TestCopies:
    def test_what_a_fork_was_made_from_is_counted_once(self, shelf):
        folder = spend(shelf, [("m", 5, 1.0, "EUR", False, 0)])
        made = fork(shelf.sessions, shelf.home, folder, None, shelf.clock).folder
        assert by(shelf, "agent")[1].calls == 1
        spend(shelf, [("m", 6, 1.0, "EUR", False, 0)], folder=made)
        assert by(shelf, "agent")[1].usage.uncached == 11

    def test_also_where_its_first_event_is_lost(self, shelf):
        folder = spend(shelf, [("m", 5, 1.0, "EUR", False, 0)])
        made = fork(shelf.sessions, shelf.home, folder, None, shelf.clock).folder
        with open(made.events, "rb+") as file:
            data = file.read()
            file.seek(0)
            file.write(data.replace(b'"seq":1', b'"seq":7', 1))
        assert read_ledger(shelf.sessions).problems
        assert by(shelf, "agent")[1].calls == 1


class TestWhatIsGone:
    def test_a_session_that_is_deleted_has_cost_what_it_has_cost(self, shelf):
        folder = spend(shelf, [("m", 5, 1.0, "EUR", False, 0)])
        child = spend(shelf, [("n", 6, 2.0, "EUR", False, 0)], "b", parent=folder.id, root=folder.id, depth=1)
        before = by(shelf, "agent")
        delete(shelf.sessions, plan(shelf.sessions, folder), force=True)
        assert not child.exists()
        assert by(shelf, "agent") == before

    def test_a_deletion_that_was_broken_off_counts_nothing_twice(self, shelf, monkeypatch):
        folder = spend(shelf, [("m", 5, 1.0, "EUR", False, 0)])

        def killed(*_):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(ops, "rename_folder", killed)
            with pytest.raises(KeyboardInterrupt):
                delete(shelf.sessions, plan(shelf.sessions, folder), force=False)
        assert by(shelf, "agent")[1].calls == 1
        spend(shelf, [("m", 7, 1.0, "EUR", False, 0)], folder=folder)
        delete(shelf.sessions, plan(shelf.sessions, folder), force=False)
        assert by(shelf, "agent")[1].usage.uncached == 12

    def test_where_it_cannot_be_kept_the_session_stays_unless_that_is_forced(self, shelf):
        folder = spend(shelf, [("m", 5, 1.0, "EUR", False, 0)])
        os.mkdir(os.path.join(shelf.sessions, GONE))
        with pytest.raises(LogError, match="cannot be kept for halo usage") as caught:
            delete(shelf.sessions, plan(shelf.sessions, folder), force=False)
        assert "--force" in caught.value.hint
        assert folder.exists()
        delete(shelf.sessions, plan(shelf.sessions, folder), force=True)
        assert not folder.exists()

    def test_a_line_of_it_that_is_damaged_is_told(self, shelf):
        folder = spend(shelf, [("m", 5, 1.0, "EUR", False, 0)])
        delete(shelf.sessions, plan(shelf.sessions, folder), force=False)
        with open(os.path.join(shelf.sessions, GONE), "ab") as file:
            file.write(b"{}\n")
        found = read_ledger(shelf.sessions)
        assert len(found.sessions) == 1
        assert "1 lines cannot be read" in found.problems[0]

    def test_a_session_without_a_call_leaves_nothing(self, shelf):
        folder = shelf.begin()
        with folder.open(shelf.clock) as session:
            session.append(SessionChanged("title", "x"), turn=0)
        delete(shelf.sessions, plan(shelf.sessions, folder), force=False)
        assert not os.path.exists(os.path.join(shelf.sessions, GONE))

    def test_a_folder_that_was_removed_by_hand_is_not_remembered(self, shelf):
        folder = spend(shelf, [("m", 5, 1.0, "EUR", False, 0)])
        read_ledger(shelf.sessions)
        shutil.rmtree(folder.path)
        assert math.isclose(by(shelf, "agent")[1].calls, 0)
