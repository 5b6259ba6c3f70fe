"""Notes before a history is shortened: what becomes one, where it is written, when nothing is."""

import asyncio
import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from long_talk import NOTES, SUMMARY, TURN, LongOffice, Speaker, files

from halo.errors import ProviderError
from halo.records.session_events import MemoryFlushed
from halo.sessions.long.compacting import compact
from halo.sessions.long.memory import user_day
from halo.sessions.long.notes import LARGEST_FILE, LONGEST, MOST_LINES, read_notes, written

NOTE = "the harbour master is Mira"


@pytest.fixture
def office(make_workspace):
    return LongOffice(make_workspace(files()).without_templates())


def full(office, notes, **options):
    """Two turns, after which the window is full."""
    speaker = Speaker(5_000, 6_000, notes=notes)
    office.say(speaker, "One.", **options)
    office.say(speaker, "Two.", **options)
    return speaker


def flushed(office):
    return office.data(MemoryFlushed)


def day_files(office):
    folder = office.ws.halo / "memory"
    return {path.name: path.read_text() for path in sorted(folder.iterdir())} if folder.is_dir() else {}


# Which lines become notes.


def test_a_line_is_a_note_whatever_its_bullet():
    assert read_notes("- one\n* two\n\n  • three \n+ - four", "").lines == ("one", "two", "three", "four")


@pytest.mark.parametrize("answer", ["NO_REPLY", "no_reply", "  No_Reply\n", "", " \n\n"])
def test_no_reply_is_no_note(answer):
    assert read_notes(answer, "") == ((), {})


def test_no_reply_within_a_note_is_one():
    assert read_notes("NO_REPLY is the word", "").lines == ("NO_REPLY is the word",)


def test_what_stands_there_is_not_written_again():
    """Complaint 44: a second flush appended the first again."""
    known = "- One note\n- another  note.\n"
    notes = read_notes("- one note.\nanother note\nnew\nnew", known)
    assert notes.lines == ("new",)
    assert notes.skipped == "3 known already"


def test_headings_fences_and_floods_are_refused_and_counted():
    answer = "\n".join(
        [
            "# Notes",
            "- ## Day",
            "---",
            "```",
            "<!-- x -->",
            "x" * (LONGEST + 1),
            *map(str, range(MOST_LINES + 5)),
        ]
    )
    notes = read_notes(answer, "")
    assert len(notes.lines) == MOST_LINES
    assert notes.refused == {"headings or rules": 3, "fences or comments": 2, "too long": 1, "too many": 5}


@given(st.text(max_size=400), st.text(max_size=200))
def test_whatever_is_answered_is_appended_as_plain_lines_and_only_once(answer, known):
    notes = read_notes(answer, known)
    added = written(notes.lines, known)
    for line in added.strip("\n").split("\n") if added else []:
        assert re.fullmatch(r"- \S.*", line)
        assert not line.startswith("- #")
    assert len(added.splitlines()) == len(notes.lines) + added.startswith("\n")
    assert read_notes(answer, known + added).lines == ()


@given(st.text(max_size=200), st.lists(st.sampled_from(["a", "b", "# c", "- d"]), max_size=5))
def test_nothing_that_stands_there_is_touched(known, lines):
    """Complaint 43: append-only is enforced by the engine, not by a prompt."""
    made = known + written(read_notes("\n".join(lines), known).lines, known)
    assert made.startswith(known)
    assert made == known or made.endswith("\n")


# The day is the user's.


@pytest.mark.parametrize(
    ("zone", "day"),
    [
        ("Pacific/Auckland", "2026-10-03"),
        ("America/Los_Angeles", "2026-10-02"),
        ("", "2026-10-02"),
        ("No/Zone", "2026-10-02"),
    ],
)
def test_the_day_is_that_of_the_users_zone(zone, day):
    assert user_day(1_790_939_400_000_000_000 + 2 * 3600 * 10**9, zone) == day


# In a session.


def test_notes_are_appended_before_the_summary(office, monkeypatch):
    monkeypatch.setattr(office.desk, "zone_name", lambda: "Asia/Tokyo")
    speaker = full(office, f"- {NOTE}\n- call at 9")
    day = user_day(office.desk.now_ns.ns, "Asia/Tokyo")
    assert day_files(office) == {f"{day}.md": f"- {NOTE}\n- call at 9\n"}
    assert speaker.asked == [TURN, TURN, NOTES, SUMMARY]
    assert day in speaker.of(NOTES)[0].history[-1].text
    assert flushed(office) == [MemoryFlushed(f".halo/memory/{day}.md", 2)]


def test_what_a_person_wrote_stays_and_a_second_flush_adds_only_what_is_new(office):
    day = user_day(office.desk.now_ns.ns, office.desk.zone_name())
    office.ws.write({f".halo/memory/{day}.md": f"My own notes\n- {NOTE}"})
    full(office, f"- {NOTE}\n- new")
    assert day_files(office) == {f"{day}.md": f"My own notes\n- {NOTE}\n- new\n"}
    assert flushed(office)[0].skipped == "1 known already"


def test_once_for_each_compaction(office):
    speaker = Speaker(5_000, 6_000, 6_000, 6_000, notes="- one")
    speaker.beside[SUMMARY] = ProviderError("down")
    office.say(speaker, "One.")
    office.say(speaker, "Two.")
    speaker.replies[:0] = ["Yes."]
    office.say(speaker, "Three.")
    assert len(speaker.of(NOTES)) == 1  # tried twice, no compaction since
    speaker.beside[SUMMARY] = "They spoke."
    office.say(speaker, "Four.")
    office.say(speaker, "Five.")
    assert len(speaker.of(NOTES)) == 2


def test_nothing_to_note_is_recorded_and_writes_no_file(office):
    full(office, "NO_REPLY")
    assert flushed(office) == [MemoryFlushed(skipped="nothing to note")]
    assert day_files(office) == {}


def test_a_session_that_may_only_read_is_not_asked(office):
    speaker = full(office, "- one", access="readonly")
    assert speaker.asked == [TURN, TURN, SUMMARY]
    assert flushed(office) == [MemoryFlushed(skipped="the session may only read")]


def test_a_workspace_that_cannot_be_written_is_not_asked(office, monkeypatch):
    (office.ws.halo / "memory").mkdir()
    if os.geteuid() == 0:  # who may write everywhere
        usual = os.access

        def access(path, mode, **options):
            return not mode & os.W_OK and usual(path, mode, **options)

        monkeypatch.setattr(os, "access", access)
    (office.ws.halo / "memory").chmod(0o500)
    speaker = full(office, "- one")
    assert NOTES not in speaker.asked
    assert flushed(office)[0].skipped == "the workspace cannot be written"


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.write_bytes(b"\xff\xfe"),
        lambda path: path.mkdir(),
        lambda path: path.symlink_to(path.parent.parent / "elsewhere.md"),
        lambda path: path.write_text("x" * (LARGEST_FILE + 1)),
        lambda path: path.write_text("x" * (LARGEST_FILE - 3)),
    ],
)
def test_a_file_that_takes_no_notes_stops_nothing(office, make):
    folder = office.ws.halo / "memory"
    folder.mkdir()
    path = folder / f"{user_day(office.desk.now_ns.ns, office.desk.zone_name())}.md"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    speaker = full(office, "- one")
    assert speaker.asked[-2:] == [NOTES, SUMMARY]
    (record,) = flushed(office)
    assert record.lines == 0
    assert path.name in record.skipped
    assert (path.read_bytes() if path.is_file() else None) == before
    assert not (office.ws.halo / "elsewhere.md").exists()


def test_a_folder_that_leads_elsewhere_is_not_written_to(office, tmp_path):
    there = tmp_path / "there"
    there.mkdir()
    (office.ws.halo / "memory").symlink_to(there)
    full(office, "- one")
    assert list(there.iterdir()) == []
    assert flushed(office)[0].lines == 0


def test_a_model_that_fails_to_note_stops_nothing_and_is_told(office):
    speaker = full(office, ProviderError("down"))
    assert speaker.asked[-2:] == [NOTES, SUMMARY]
    assert flushed(office) == [MemoryFlushed(skipped="down")]
    assert any("no notes were kept of the conversation: down" in notice for notice in office.notices)


def test_values_of_secrets_are_masked_in_notes(office):
    office.desk.environ = {"OPENAI_API_KEY": "sk-verysecret-123456"}
    full(office, "- the key is sk-verysecret-123456")
    (text,) = day_files(office).values()
    assert "verysecret" not in text
    assert "[secret OPENAI_API_KEY]" in text


def test_notes_come_first_when_the_user_wants_a_summary_too(office):
    speaker = Speaker(2_000, "Yes.", notes="- one")
    office.say(speaker, "One.")
    office.say(speaker, "Two.")
    with office.folder.open(office.desk.now_ns) as session:
        done = asyncio.run(compact(office.desk, session, "", office.shown.append))
    assert speaker.asked == [TURN, TURN, NOTES, SUMMARY]
    assert done.notes.lines == 1
