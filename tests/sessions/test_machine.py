"""What a turn says of its machine: only what is asked for, and an unknown zone is said."""

import sys

from making import tree

from halo.records.artifacts import Slot
from halo.sessions.machine import Machine, this_machine
from halo.sessions.values import Moment, slot_values
from halo.workspace.trust import Grants

ZONE = Slot("time_zone", "builtin", 0, 1)
RUNTIME = Slot("runtime", "builtin", 0, 1)


def test_nothing_is_looked_up_unless_a_slot_asks(monkeypatch):
    monkeypatch.setitem(sys.modules, "tzlocal", None)  # importing it would fail
    assert this_machine([Slot("workspace_root", "builtin", 0, 1)]) == Machine()
    assert this_machine([RUNTIME]).runtime


def test_a_slot_of_another_origin_does_not_ask(monkeypatch):
    monkeypatch.setitem(sys.modules, "tzlocal", None)
    assert this_machine([Slot("time_zone", "settings", 0, 1)]) == Machine()


def test_a_machine_that_contradicts_itself_has_no_zone(monkeypatch):
    import tzlocal

    def contradict():
        raise LookupError("two settings")

    monkeypatch.setattr(tzlocal, "get_localzone_name", contradict)
    assert this_machine([ZONE]).time_zone == ""


def test_an_unknown_zone_stays_as_it_is_written_and_is_said():
    moment = Moment("/w", "/w", "T", "A")
    values, warnings = slot_values([ZONE], moment, tree({}), {}, Grants())
    assert values == {}
    assert "set TZ" in warnings[0]


def test_the_zone_of_the_global_settings_goes_first():
    moment = Moment("/w", "/w", "T", "A", time_zone="Europe/Oslo")
    for said, expected in (("Asia/Tokyo", "Asia/Tokyo"), ("local", "Europe/Oslo")):
        files = {"secrets:settings.yaml": f"general: {{prompt: {{time_zone: {said}}}}}\n"}
        assert slot_values([ZONE], moment, tree(files), {}, Grants()).values == {"time_zone": expected}
