"""An answer on its way to a channel, and `kill -9`: real workers, a real outbox, a provider that is scripted."""

import json
import signal

from test_worker import END, chat, done, folders, halo, until, ws  # noqa: F401  # a fixture

from halo.records.session_events import Delivered, DeliveryDue
from halo.sessions.derived import read_header

PACED = """\
general:
  delivery:
    block_streaming: true
    chunk: {min_chars: 5, max_chars: 30, flush_on_paragraph: true}
    coalesce: {min_chars: 1, idle_ms: 0, max_chars: 30}
    human_delay: {mode: custom, min_ms: 2000, max_ms: 2000}
"""
PARTS = ["The tide turns at seven.", "Take the early boat.", "The wind rises at noon."]


def outbox(ws):  # noqa: F811
    found = sorted((ws.halo / "outbox").rglob("*.json"))
    return [json.loads(path.read_text())["text"] for path in found]


def data(folder, kind):
    from test_worker import data as recorded

    return recorded(folder, kind)


def test_what_a_killed_worker_had_not_sent_is_sent_by_the_next_one(ws, scripted):  # noqa: F811
    ws.write({".halo/settings.yaml": PACED})
    assert done(halo(ws, "send", "default", "--channel", "outbox", "--peer", "mira", "When?"))[0] == 0
    scripted.says_chat(chat("\n\n".join(PARTS)), END)
    worker = halo(ws, "worker", "--once")
    until(lambda: outbox(ws))
    (folder,) = folders(ws)
    until(lambda: len(data(folder, DeliveryDue)) == 3)
    worker.send_signal(signal.SIGKILL)
    done(worker)
    assert outbox(ws) == PARTS[:1]

    code, _, err = done(halo(ws, "worker", "--once"))
    assert code == 0, err
    assert outbox(ws) == PARTS
    assert sorted(d.part for d in data(folder, Delivered)) == [1, 2, 3]
    assert read_header(folder).due == 0
    assert len(scripted.requests) == 1


def test_what_a_channel_refused_is_shown_and_sent_again(ws, scripted):  # noqa: F811
    blocked = ws.halo / "outbox"
    blocked.write_text("in the way")
    assert done(halo(ws, "send", "default", "--channel", "outbox", "--peer", "mira", "When?"))[0] == 0
    scripted.says_chat(chat(PARTS[0]), END)
    assert done(halo(ws, "worker", "--once"))[0] == 0
    (folder,) = folders(ws)
    shown = ws.cli("session", "show", folder.id).stdout
    assert "1 part of replies (halo session resend)" in shown
    left = ws.cli("session", "resend", folder.id)
    assert (left.returncode, left.stdout) == (1, f"session {folder.id}: 0 sent, 1 part is left\n")
    assert (
        "warning: not delivered to outbox: unsent the outbox .halo/outbox/outbox does not lie" in left.stderr
    )
    blocked.unlink()
    sent = ws.cli("session", "resend", folder.id)
    assert (sent.returncode, sent.stdout) == (0, f"session {folder.id}: 1 sent\n")
    assert outbox(ws) == PARTS[:1]
    assert "halo session resend" not in ws.cli("session", "show", folder.id).stdout
