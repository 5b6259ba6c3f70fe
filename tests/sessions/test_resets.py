"""When a session ends: by a trigger, at an hour, after a pause. Never by itself unless settings say so."""

import datetime as dt
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from making import tree

from halo.errors import LayerError
from halo.records.origins import Origin
from halo.sessions.routing.carrying import CARRIED, carried_over
from halo.sessions.routing.clock import find_zone, moment, next_daily
from halo.sessions.routing.grammar import parse_key
from halo.sessions.routing.inbound import Inbound
from halo.sessions.routing.known import Known
from halo.sessions.routing.policy import reset_policy
from halo.sessions.routing.reset import Times, Trigger, decide, find_trigger
from halo.sessions.routing.sweeping import overdue
from halo.workspace.settings.general import read_general
from halo.workspace.settings.sessions import SessionSettings

OSLO = ZoneInfo("Europe/Oslo")
UTC = ZoneInfo("UTC")


def times(first, last):
    """Times in UTC from the beginning of one year to that of another."""
    # hypothesis wants the bounds without a zone
    bounds = [dt.datetime(year, 1, 1) for year in (first, last)]  # noqa: DTZ001
    return st.datetimes(*bounds, timezones=st.just(dt.UTC))


def session(**fields):
    """Settings as they are written in YAML."""
    return msgspec.convert(fields, SessionSettings)


def at(text):
    return dt.datetime.fromisoformat(text).astimezone(dt.UTC)


def decided(now, interacted="", *, started="2026-01-01T00:00:00Z", key="main", zone=UTC, channel="x", **rest):
    """What is decided `now` about a session in which a person wrote at `interacted`; `rest` has the settings."""
    options = {name: rest.pop(name) for name in ("event", "trigger") if name in rest}
    times = Times(started, interacted, rest.pop("active", False))
    policy = reset_policy(session(**rest), parse_key(key, agent="a"), channel)
    return decide(policy, times, at(now), zone, **options)


def reason(*arguments, **options):
    return decided(*arguments, **options).reason


DAILY = {"reset": {"mode": "daily"}}
IDLE = {"reset": {"mode": "idle", "idle_minutes": 60}}


class TestNever:
    def test_by_default_a_session_never_ends_row_14(self):
        """A conversation at 03:59 goes on at 04:00, and a year later."""
        assert reason("2026-05-02T04:00:00Z", "2026-05-02T03:59:00Z") == ""
        found = decided("2027-05-02T04:00:00Z", "2026-05-02T03:59:00Z")
        assert not found.due
        assert found.expires_at == ""

    def test_it_can_be_said_for_one_type_and_one_channel(self):
        rest = {**DAILY, "reset_by_type": {"dm": {"mode": "never"}}}
        assert reason("2026-05-03T00:00:00Z", "2026-05-01T00:00:00Z", **rest) == ""
        rest = {**DAILY, "reset_by_channel": {"x": {"mode": "never"}}}
        assert reason("2026-05-03T00:00:00Z", "2026-05-01T00:00:00Z", **rest) == ""


class TestDaily:
    @pytest.mark.parametrize(
        ("now", "interacted", "due"),
        [
            ("2026-05-02T04:00:00Z", "2026-05-02T03:59:59Z", True),
            ("2026-05-02T03:59:59Z", "2026-05-01T04:00:00Z", False),
            ("2026-05-02T23:00:00Z", "2026-05-02T04:00:00Z", False),
            ("2026-05-02T04:00:00Z", "2026-05-01T04:00:00Z", True),
            ("2026-05-09T12:00:00Z", "2026-05-02T12:00:00Z", True),
        ],
    )
    def test_at_the_hour_four_unless_another_is_named(self, now, interacted, due):
        assert reason(now, interacted, **DAILY) == ("daily" if due else "")

    def test_at_another_hour_midnight_among_them(self):
        rest = {"reset": {"at_hour": 0}}
        assert reason("2026-05-02T00:00:00Z", "2026-05-01T23:59:00Z", **rest) == "daily"
        assert reason("2026-05-01T23:59:30Z", "2026-05-01T00:00:00Z", **rest) == ""

    def test_a_turn_that_runs_puts_it_off_row_14(self):
        found = decided("2026-05-02T04:00:00Z", "2026-05-02T03:59:00Z", active=True, **DAILY)
        assert (found.due, found.deferred, found.reason) == (False, True, "daily")

    def test_the_hour_is_that_of_the_zone(self):
        """In Oslo, two hours ahead of UTC in summer, it is 04:00 at 02:00 UTC."""
        now, interacted = "2026-05-02T02:00:00Z", "2026-05-02T01:59:00Z"
        assert reason(now, interacted, zone=OSLO, **DAILY) == "daily"
        assert reason(now, interacted, zone=UTC, **DAILY) == ""

    @pytest.mark.parametrize(
        ("after", "hour", "zone", "then"),
        [
            # The clocks of Oslo go from 02:00 to 03:00: the skipped hour comes when they have.
            ("2026-03-29T00:30:00+01:00", 2, "Europe/Oslo", "2026-03-29T03:00:00+02:00"),
            ("2026-03-29T03:00:00+02:00", 2, "Europe/Oslo", "2026-03-30T02:00:00+02:00"),
            ("2026-03-28T12:00:00+01:00", 4, "Europe/Oslo", "2026-03-29T04:00:00+02:00"),
            # They go back from 03:00 to 02:00: of the two 02:00 the first counts, and the day has only one.
            ("2026-10-25T01:30:00+02:00", 2, "Europe/Oslo", "2026-10-25T02:00:00+02:00"),
            ("2026-10-25T02:00:00+02:00", 2, "Europe/Oslo", "2026-10-26T02:00:00+01:00"),
            ("2026-10-25T02:30:00+02:00", 2, "Europe/Oslo", "2026-10-26T02:00:00+01:00"),
            ("2026-10-25T02:00:00+01:00", 2, "Europe/Oslo", "2026-10-26T02:00:00+01:00"),
            # Lord Howe skips half an hour, Cairo midnight, and Apia a whole day.
            ("2026-10-04T01:00:00+10:30", 2, "Australia/Lord_Howe", "2026-10-04T02:30:00+11:00"),
            ("2024-04-25T23:30:00+02:00", 0, "Africa/Cairo", "2024-04-26T01:00:00+03:00"),
            ("2011-12-29T23:00:00-10:00", 4, "Pacific/Apia", "2011-12-31T04:00:00+14:00"),
            ("2026-05-01T03:00:00+00:00", 4, "UTC", "2026-05-01T04:00:00+00:00"),
        ],
    )
    def test_skipped_and_doubled_hours(self, after, hour, zone, then):
        assert next_daily(at(after), hour, ZoneInfo(zone)) == at(then)

    @given(
        times(1971, 2037),
        st.integers(0, 23),
        st.sampled_from(["UTC", "Europe/Oslo", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]),
    )
    def test_it_comes_once_a_day(self, after, hour, zone):
        first = next_daily(after, hour, ZoneInfo(zone))
        second = next_daily(first, hour, ZoneInfo(zone))
        assert after < first <= after + dt.timedelta(hours=26)
        assert dt.timedelta(hours=22) < second - first < dt.timedelta(hours=26)

    def test_a_zone_that_is_unknown_here_is_told_and_the_next_one_serves(self):
        zone, notes = find_zone("Nowhere/Else", "Europe/Oslo")
        assert str(zone) == "Europe/Oslo"
        assert "Nowhere/Else" in notes[0]
        assert str(find_zone("", "../../etc/passwd")[0]) == "UTC"
        assert find_zone("", "Europe/Oslo")[1] == ()


class TestIdle:
    def test_after_a_pause_and_not_at_its_very_end(self):
        assert reason("2026-05-02T11:00:00Z", "2026-05-02T10:00:00Z", **IDLE) == ""
        assert reason("2026-05-02T11:00:00.001Z", "2026-05-02T10:00:00Z", **IDLE) == "idle"

    def test_no_minutes_no_limit(self):
        assert reason("2027-05-02T11:00:00Z", "2026-05-02T10:00:00Z", reset={"idle_minutes": 0}) == ""

    @pytest.mark.parametrize(
        ("minutes", "first", "expires_at"),
        [(60, "idle", "2026-05-01T21:00:00.000Z"), (600, "daily", "2026-05-02T04:00:00.000Z")],
    )
    def test_whichever_comes_first(self, minutes, first, expires_at):
        rest = {"reset": {"mode": "daily", "idle_minutes": minutes}}
        found = decided("2026-05-02T12:00:00Z", "2026-05-01T20:00:00Z", **rest)
        assert (found.reason, found.expires_at) == (first, expires_at)

    @given(
        st.integers(1, 3_000),
        st.integers(0, 23),
        times(2026, 2027),
        st.integers(0, 5_000),
    )
    def test_both_rules_together_end_it_exactly_when_one_does(self, minutes, hour, interacted, later):
        now = (interacted + dt.timedelta(minutes=later)).isoformat()
        then = interacted.isoformat()
        daily = {"mode": "daily", "at_hour": hour}
        both = decided(now, then, zone=OSLO, reset={**daily, "idle_minutes": minutes})
        alone = [
            decided(now, then, zone=OSLO, reset=daily),
            decided(now, then, zone=OSLO, reset={"mode": "idle", "idle_minutes": minutes}),
        ]
        assert both.due == any(found.due for found in alone)
        assert both.expires_at == min(found.expires_at for found in alone)


class TestInteraction:
    def test_what_programs_write_does_not_keep_a_session_young_row_16(self):
        """Heartbeats came all night; the person wrote yesterday, and that alone counts."""
        rows = Times("2026-05-01T00:00:00Z", "2026-05-01T10:00:00Z")
        policy = reset_policy(session(**IDLE), parse_key("agent:a:main"), "x")
        assert decide(policy, rows, at("2026-05-02T09:00:00Z"), UTC).due

    @pytest.mark.parametrize("event", ["heartbeat", "cron", "exec"])
    @pytest.mark.parametrize("rest", [DAILY, IDLE])
    def test_what_programs_write_ends_none_row_16(self, event, rest):
        found = decided("2027-05-02T04:00:00Z", "2026-05-01T10:00:00Z", event=event, **rest)
        assert (found.due, found.deferred, found.reason) == (False, False, "")
        assert found.inputs["event"] == event

    @pytest.mark.parametrize(
        "wrong",
        [
            "",
            "yesterday",
            "2026-05-02T10:00:00",
            "2999-01-01T00:00:00Z",
            "1969-12-31T23:59:59Z",
            "nan",
            "-1",
            "1e400",
        ],
    )
    def test_a_time_that_cannot_be_is_ignored(self, wrong):
        """The beginning counts in its place, and where that is wrong, too, nothing ends."""
        now = "2026-05-02T12:00:00Z"
        assert moment(wrong, at(now)) is None
        assert reason(now, wrong, started="2026-05-02T11:30:00Z", **IDLE) == ""
        assert reason(now, wrong, started="2026-05-02T10:00:00Z", **IDLE) == "idle"
        assert reason(now, wrong, started=wrong, **IDLE) == ""

    @given(st.text() | st.datetimes().map(str), st.text() | st.datetimes().map(lambda d: d.isoformat() + "Z"))
    def test_no_recorded_time_breaks_the_decision(self, started, interacted):
        decided("2026-05-02T12:00:00Z", interacted, started=started, zone=OSLO, **DAILY)

    def test_a_zone_in_the_record_counts(self):
        assert moment("2026-05-02T10:00:00+02:00", at("2026-05-02T08:00:00Z")) == at("2026-05-02T08:00:00Z")


class TestPolicies:
    SETTINGS = session(
        reset={"mode": "daily", "at_hour": 5, "idle_minutes": 120, "time_zone": "Europe/Oslo"},
        reset_by_type={
            "dm": {"mode": "idle", "idle_minutes": 240},
            "group": {"idle_minutes": 30},
            "thread": {"mode": "never"},
        },
        reset_by_channel={"Discord": {"mode": "idle", "idle_minutes": 10_080}},
    )

    @pytest.mark.parametrize(
        ("key", "channel", "policy"),
        [
            ("main", "telegram", ("idle", 5, 240, "Europe/Oslo", "reset_by_type.dm")),
            ("telegram:direct:P", "telegram", ("idle", 5, 240, "Europe/Oslo", "reset_by_type.dm")),
            ("telegram:group:G", "telegram", ("daily", 5, 30, "Europe/Oslo", "reset_by_type.group")),
            ("slack:channel:C", "slack", ("daily", 5, 30, "Europe/Oslo", "reset_by_type.group")),
            (
                "telegram:group:G:topic:7",
                "telegram",
                ("never", 5, 120, "Europe/Oslo", "reset_by_type.thread"),
            ),
            ("main:thread:t", "slack", ("never", 5, 120, "Europe/Oslo", "reset_by_type.thread")),
            ("discord:group:G", "discord", ("idle", 4, 10_080, "", "reset_by_channel.Discord")),
            ("main", "discord", ("idle", 4, 10_080, "", "reset_by_channel.Discord")),
            ("discord:channel:C:thread:t", "discord", ("idle", 4, 10_080, "", "reset_by_channel.Discord")),
        ],
    )
    def test_by_type_over_all_and_by_channel_in_their_place(self, key, channel, policy):
        assert tuple(reset_policy(self.SETTINGS, parse_key(key, agent="a"), channel)) == policy

    def test_direct_and_dm_are_one_word(self):
        key = parse_key("agent:a:main")
        one, other = (
            reset_policy(session(reset_by_type={word: {"idle_minutes": 5}}), key, "x")
            for word in ("direct", "dm")
        )
        assert one[:4] == other[:4] == ("idle", 4, 5, "")

    @pytest.mark.parametrize(
        ("rule", "mode"),
        [
            ({}, "never"),
            ({"idle_minutes": 5}, "idle"),
            ({"idle_minutes": 0}, "never"),
            ({"at_hour": 0}, "daily"),
            ({"at_hour": 3, "idle_minutes": 5}, "daily"),
            ({"mode": "never", "at_hour": 3}, "never"),
        ],
    )
    def test_the_mode_that_nobody_names(self, rule, mode):
        assert reset_policy(session(reset=rule), parse_key("agent:a:main"), "x").mode == mode

    @pytest.mark.parametrize(
        ("text", "line", "said"),
        [
            ("reset: {mode: sometimes}", 3, "sometimes"),
            ("reset: {at_hour: 24}", 3, "at_hour"),
            ("reset: {idle_minutes: -1}", 3, "idle_minutes"),
            ("reset: {time_zone: ../etc}", 3, "not a time zone"),
            ("reset_by_type: {dms: {mode: never}}", 3, "unknown key 'dms'"),
            (
                "reset_by_type:\n      dm: {mode: never}\n      direct: {mode: never}",
                4,
                "another word for direct",
            ),
            ("reset_by_channel:\n      ok: {}\n      'a:b': {}", 5, "not a name for a channel"),
            ("reset_by_channel:\n      X: {}\n      x: {}", 5, "are one channel"),
            ("reset_triggers: [/new, '']", 3, "not a trigger"),
            ("reset_triggers:\n      - /new\n      - ' /x'", 5, "not a trigger"),
            ("identity_links: {' ': []}", 3, "not a name for a person"),
            ("dm_scope: everyone", 3, "everyone"),
            ("dmScope: main", 3, "did you mean 'dm_scope'"),
        ],
    )
    def test_settings_that_mean_nothing_name_their_line(self, text, line, said):
        files = {".halo/settings.yaml": f"general:\n  session:\n    {text}\n"}
        with pytest.raises(LayerError) as caught:
            read_general(tree(files))
        assert said in str(caught.value)
        assert (caught.value.file, caught.value.line) == ("workspace:.halo/settings.yaml", line)


def inbound(text, **fields):
    return Inbound("telegram", peer="U7", text=text, **{"authorised": True, **fields})


class TestTriggers:
    @pytest.mark.parametrize(
        ("text", "trigger"),
        [
            ("/new", Trigger("/new", "")),
            (" /new \n", Trigger("/new", "")),
            ("/NEW", Trigger("/new", "")),
            ("/reset", Trigger("/reset", "")),
            ("/new gpt-5 Hello There", Trigger("/new", "gpt-5 Hello There")),
            ("/new\nHello", Trigger("/new", "Hello")),
            ("/new\tHello", Trigger("/new", "Hello")),
            ("/new\u3000Hello", Trigger("/new", "Hello")),
            ("/newest", None),
            ("/new-york", None),
            ("say /new", None),
            ("", None),
            ("/ne", None),
        ],
    )
    def test_alone_or_before_white_space(self, text, trigger):
        assert find_trigger(("/new", "/reset"), inbound(text)) == trigger

    def test_more_of_them_and_the_longest_counts(self):
        words = ("/new", "/new topic", "fresh start")
        assert find_trigger(words, inbound("/new topic tides")) == Trigger("/new topic", "tides")
        assert find_trigger(words, inbound("Fresh Start")) == Trigger("fresh start", "")
        assert find_trigger(words, inbound("/new tides")) == Trigger("/new", "tides")
        assert find_trigger((), inbound("/new")) is None

    def test_only_who_is_authorised_and_no_program(self):
        assert find_trigger(("/new",), inbound("/new", authorised=False)) is None
        assert find_trigger(("/new",), inbound("/new", event="cron")) is None

    def test_it_ends_the_session_whatever_the_policy_and_also_while_a_turn_runs(self):
        found = decided("2026-05-02T12:00:00Z", trigger=Trigger("/new", ""), active=True)
        assert (found.due, found.reason, found.deferred) == (True, "/new", False)


class TestRecord:
    def test_a_decision_carries_what_it_was_made_on_row_18(self):
        found = decided(
            "2026-05-02T12:00:00Z",
            "2026-05-01T20:00:00Z",
            zone=OSLO,
            reset={"mode": "daily", "at_hour": 5, "idle_minutes": 600},
        )
        assert found.reason == "daily"
        assert found.inputs == {
            "now": "2026-05-02T12:00:00.000Z",
            "started_at": "2026-01-01T00:00:00Z",
            "interacted_at": "2026-05-01T20:00:00Z",
            "counted_from": "2026-05-01T20:00:00.000Z",
            "policy": "reset",
            "mode": "daily",
            "at_hour": "5",
            "idle_minutes": "600",
            "time_zone": "Europe/Oslo",
            "expires_at": "2026-05-02T03:00:00.000Z",
            "active": "no",
        }

    def test_and_so_does_one_by_a_trigger_row_18(self):
        found = decided("2026-05-02T12:00:00Z", trigger=Trigger("/new", "x"))
        assert found.inputs["trigger"] == found.reason == "/new"

    @given(
        st.sampled_from([DAILY, IDLE, {}]),
        st.booleans(),
        st.sampled_from(["", "cron"]),
        times(2026, 2027),
    )
    def test_no_session_ends_without_a_reason_row_18(self, rest, active, event, now):
        found = decided(now.isoformat(), "2026-05-01T20:00:00Z", active=active, event=event, **rest)
        assert bool(found.reason) == (found.due or found.deferred)
        assert not (found.due and found.deferred)
        assert {"now", "policy", "mode", "active"} <= set(found.inputs)


class TestSweep:
    """Row 17: rules are asked when a message arrives; whoever wants it earlier asks for what is over."""

    ROWS = (
        Known("20260501t000000-aaaaaa", "agent:a:main", interacted_at="2026-05-01T10:00:00Z"),
        Known("20260501t000000-bbbbbb", "agent:a:direct:P", interacted_at="2026-05-02T08:30:00Z"),
        Known("20260501t000000-cccccc", "agent:a:main", interacted_at="2026-05-01T10:00:00Z", successor="x"),
        Known("20260501t000000-dddddd", "agent:a:cron:j", interacted_at="2026-05-01T10:00:00Z"),
        Known("20260501t000000-eeeeee", "agent:a:slack:channel:C", "2026-05-01T10:00:00Z", active=True),
        Known("20260501t000000-ffffff", "agent:a:slack:channel:D", "2026-05-01T10:00:00Z"),
        Known("20260501t000000-gggggg", "no key", "2026-05-01T10:00:00Z"),
        Known(
            "20260501t000000-hhhhhh",
            "agent:b:main",
            "2026-05-01T10:00:00Z",
            origin=Origin(provider="discord"),
        ),
    )

    def swept(self, **settings):
        found = overdue(session(**settings), self.ROWS, at("2026-05-02T09:00:00Z"))
        return [(each.session.id[-6:], each.reset.reason) for each in found]

    def test_what_is_over_now_row_17(self):
        assert self.swept(**IDLE) == [("aaaaaa", "idle"), ("ffffff", "idle"), ("hhhhhh", "idle")]
        assert self.swept(**IDLE, reset_by_channel={"discord": {}}) == [
            ("aaaaaa", "idle"),
            ("ffffff", "idle"),
        ]
        assert self.swept() == []


class TestCarriedOver:
    def test_what_the_user_chose_outlives_a_reset_row_27(self):
        chosen = {"model": "openai/m", "label": "tides", "thinking": "high", "verbose": "on", "send": "deny"}
        assert carried_over({**chosen, "pin": "a1"}) == {**chosen, "pin": "a1"}

    def test_what_describes_the_old_conversation_does_not_row_27(self):
        assert carried_over({"title": "Tides", "archived": "yes", "stopped": "by me", "model": ""}) == {}

    def test_a_model_chosen_for_the_new_one_goes_before_row_27(self):
        assert carried_over({"model": "old", "label": "x"}, model="new") == {"model": "new", "label": "x"}

    @given(st.dictionaries(st.sampled_from(sorted(CARRIED)) | st.text(max_size=5), st.text(max_size=5)))
    def test_nothing_is_made_up_and_twice_is_once(self, settings):
        kept = carried_over(settings)
        assert kept.items() <= settings.items()
        assert carried_over(kept) == kept
