"""What a person types where a message could stand: read once, done at the door, never passed to a model."""

import asyncio
import datetime as dt

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from making import agent
from playing import Player, says
from test_talk import Clock, Office
from turning import request

from halo.errors import BusyError, UnknownNameError, UsageError
from halo.records.artifacts import Binding, Reasoning
from halo.records.events import MessageAdded
from halo.records.incoming import Incoming, Sender
from halo.records.session_events import SessionChanged, SessionRolledOver
from halo.records.stops import FORMAT as STOP_FORMAT
from halo.records.stops import Stop
from halo.records.targets import AgentTarget
from halo.sessions.beginning import Relation, begin
from halo.sessions.choice import choose
from halo.sessions.commands.answers import Answer
from halo.sessions.commands.doing import GREETING, enter
from halo.sessions.commands.reading import read_command
from halo.sessions.commands.rollover import finished, roll_over
from halo.sessions.commands.table import COMMANDS
from halo.sessions.folder import SessionFolder
from halo.sessions.inbox.control import request_stop, wanted_stop
from halo.sessions.inbox.folder import Inbox
from halo.sessions.talk import converse, typed
from halo.sessions.thinking import LEVELS, bound, with_thinking

OWNER = Sender("user", owner=True)
FRIEND = Sender("user", name="Mira", access="workspace")
GUEST = Sender("user", name="Eve", access="readonly")
TRIGGERS = ("/new", "/reset")

MODELS = """\
general:
  models:
    aliases: {quick: {provider: openai, id: gpt-5-mini}}
    profiles: {fast: {default: {provider: openai, id: gpt-5-mini}}}
"""


class Desk(Office):
    """An office where things are typed."""

    clock = Clock

    def choose(self, **more):
        given = {"agent": "a", "named": None, "new": False, **more}
        who = given.pop("agent")
        return choose(self.sessions, who, "cli", home=self.desk.builder.places.home, **given)

    def say(self, text, *replies, sender=OWNER, choice=None):
        self.player = Player(*replies)
        self.desk.adapter = lambda artifact, _target: self.open(artifact)
        self.opened = []
        message = msgspec.structs.replace(typed(text, self.desk.now_ns()), sender=sender)
        chosen = choice or self.choose()
        named = choice is not None
        return asyncio.run(converse(self.desk, chosen, message, self.shown.append, frozen=False, named=named))

    def open(self, artifact):
        self.opened.append(artifact)
        return self.player

    @property
    def folder(self):
        return self.choose().folder

    def data(self, kind, folder=None):
        from halo.records.events import TYPES

        events = (folder or self.folder).read_events()
        found = [msgspec.json.decode(e.data, type=TYPES[e.type]) for e in events]
        return [data for data in found if isinstance(data, kind)]

    def settings(self):
        return self.folder.read().standing.settings


@pytest.fixture
def make_office(make_workspace):
    def make(settings=MODELS, **config):
        files = {
            ".halo/agents/a/agent.yaml": agent(tools=["grep"], skills=["tide", "keel"], **config),
            ".halo/agents/a/AGENT.md": "You are a.\n",
            ".halo/settings.yaml": settings,
            ".halo/skills/tide/SKILL.md": "---\nname: Tide\ndescription: Tells the tide.\n---\n\n"
            "Tell the tide of $ARGUMENTS.\n",
            ".halo/skills/keel/SKILL.md": "---\nname: Keel\ndescription: Lays a keel.\n"
            "requires-access: full\n---\n\nLay it.\n",
            "notes.txt": "first line\n/stop\n@scope pkg\n",
        }
        return Desk(make_workspace(files).without_templates())

    return make


@pytest.fixture
def office(make_office):
    return make_office()


def read(text, sender=OWNER, triggers=TRIGGERS):
    return read_command(text, sender, triggers)


class TestReading:
    @pytest.mark.parametrize(
        ("text", "name", "rest"),
        [
            ("/status", "status", ""),
            ("/STATUS\n", "status", ""),
            ("/think high", "think", "high"),
            ("/compact keep the names\nand the dates", "compact", "keep the names\nand the dates"),
            ("/new", "new", ""),
            ("/New  What is the tide? ", "new", "What is the tide?"),
            ("/reset\ngo on", "reset", "go on"),
        ],
    )
    def test_a_command_begins_the_message(self, text, name, rest):
        command = read(text)
        assert (command.name, command.rest) == (name, rest)

    @pytest.mark.parametrize(
        "text",
        [
            "status",
            " /status",
            "\t/new",
            "\n/stop",
            "/etc/hosts",
            "/stopping",
            "/status.",
            "a /stop",
            "",
            "/",
            "/42",
        ],
    )
    def test_all_else_is_a_message(self, text):
        assert read(text) is None

    @pytest.mark.parametrize("kind", ["agent", "report", "event", "internal"])
    def test_only_what_a_person_typed_is_looked_at(self, kind):
        assert read("/stop", Sender(kind, owner=True)) is None

    def test_what_begins_a_session_is_said_in_the_settings(self):
        assert read("/new", triggers=("start over",)) is None
        command = read("Start over: no, now", triggers=("start over:",))
        assert (command.name, command.word, command.rest) == ("reset", "start over:", "no, now")

    @pytest.mark.parametrize(
        "text", ["/stop it", "/help me", "/think hard", "/verbose maybe", "/context all"]
    )
    def test_what_it_does_not_take_is_refused_and_never_sent(self, text):
        with pytest.raises(UsageError):
            read(text)

    def test_a_slip_is_answered_with_the_nearest_word(self):
        with pytest.raises(UsageError, match="off, low, medium, high, inherit") as raised:
            read("/think hihg")
        assert raised.value.hint == "did you mean 'high'?"

    @pytest.mark.parametrize("name", sorted(COMMANDS))
    def test_a_right_travels_with_its_sender(self, name):
        allowed = {
            "everyone": (OWNER, FRIEND, GUEST),
            "changers": (OWNER, FRIEND),
            "owner": (OWNER,),
        }[COMMANDS[name].right]
        for sender in (OWNER, FRIEND, GUEST):
            if sender in allowed:
                assert read(f"/{name}", sender).name == name
            else:
                with pytest.raises(UsageError, match=f"/{name} is for"):
                    read(f"/{name}", sender)

    @given(text=st.text(max_size=40), sender=st.sampled_from([OWNER, FRIEND, GUEST]))
    def test_any_text_is_a_command_a_refusal_or_a_message(self, text, sender):
        try:
            command = read(text, sender)
        except UsageError:
            assert text[0] == "/"
            return
        if command is None:
            return
        assert text.lower().startswith(command.word.lower())
        assert command.rest in text


class TestRefusals:
    def test_a_refused_command_reaches_no_model_and_no_log(self, office):
        office.say("Hello.", says("Hi."))
        with pytest.raises(UsageError, match="/send is for the owner"):
            office.say("/send off", sender=FRIEND)
        assert office.player.requests == []
        assert [m.message.text for m in office.data(MessageAdded)] == ["Hello.", "Hi."]

    def test_a_space_sends_it_as_text(self, office):
        office.say(" /status", says("Hi."))
        assert office.player.requests[0].history[0].text == " /status"

    def test_an_unknown_word_is_text_with_a_note(self, office):
        office.say("/statsu", says("Hi."))
        assert office.player.requests[0].history[0].text == "/statsu"
        assert office.notices == ["note: /statsu is no command and was sent as text; did you mean /status?"]

    def test_what_a_file_or_a_skill_says_is_no_command(self, office):
        office.say("/tide @file notes.txt /stop", says("High."))
        (given,) = office.player.requests[0].history
        assert given.text.endswith("Tell the tide of notes.txt /stop.\n</skill>")
        assert "first line\n/stop\n@scope pkg\n</file>" in given.text


class TestSettings:
    def test_what_is_set_is_an_event_and_told(self, office):
        office.say("Hello.", says("Hi."))
        answer = office.say("/verbose ON")
        assert isinstance(answer, Answer)
        assert (answer.command, answer.text, answer.values) == ("verbose", "verbose: on", {"verbose": "on"})
        assert answer.session == office.folder.id
        assert office.data(SessionChanged) == [SessionChanged("verbose", "on", "user")]
        assert office.say("/verbose").text == "verbose: on"
        assert office.say("/verbose inherit").text == "verbose: inherit"
        assert office.settings() == {}

    def test_it_may_come_before_the_first_message(self, office):
        office.say("/send off")
        office.say("Hello.", says("Hi."))
        conversation = office.folder.read()
        assert conversation.standing.settings == {"send": "deny"}
        assert conversation.created.key == "agent:a:main"
        assert conversation.turn == 1

    def test_who_set_it_is_recorded(self, office):
        office.say("/verbose off", sender=FRIEND)
        assert office.data(SessionChanged)[0].by == "Mira"

    def test_a_model_is_found_by_a_part_of_its_name(self, office):
        assert office.say("/model quick").text == "model: openai/gpt-5-mini"
        assert office.settings() == {"model": "=quick"}
        office.say("Hello.", says("Hi."))
        assert office.opened[0].runtime.binding.model == "gpt-5-mini"
        assert "agent's own" in office.say("/model inherit").text
        office.say("Hello.", says("Hi."))
        assert office.opened[0].runtime.binding.model != "gpt-5-mini"

    def test_the_own_model_by_name_is_the_own_one_with_its_endpoint(self, office):
        own = office.desk.builder.ensure(AgentTarget("a")).runtime.binding
        for name in (f"{own.provider}/{own.model}", own.model.upper()):
            office.say("/model quick")
            assert "agent's own" in office.say(f"/model {name}").text
            assert office.settings() == {}

    def test_another_endpoint_is_told(self, make_office):
        office = make_office(model={"provider": "openai", "id": "m", "endpoint": "http://127.0.0.1:9/v1"})
        said = office.say("/model openai/gpt-5-mini").text
        assert (
            said == "model: openai/gpt-5-mini at its own endpoint, not at the agent's, http://127.0.0.1:9/v1"
        )

    def test_no_such_model_changes_nothing(self, office):
        with pytest.raises(UnknownNameError):
            office.say("/model nonesuch")
        assert office.folder is None

    def test_a_setting_waits_for_a_turn_that_runs(self, office):
        office.say("Hello.", says("Hi."))
        with office.folder.open(office.desk.now_ns), pytest.raises(BusyError):
            office.say("/verbose on")


class TestThinking:
    def test_it_changes_the_request_and_not_the_artifact(self, make_office):
        office = make_office(model={"provider": "openai", "id": "gpt-5-mini"})
        office.say("Hello.", says("Hi."))
        assert office.player.requests[0].binding.thinking is None
        before = office.opened[0]
        for word, effort in (("high", "high"), ("off", "none")):
            office.say(f"/think {word}")
            office.say("Again.", says("Hi."))
            assert office.player.requests[0].binding.thinking == Reasoning(effort=effort)
            assert (office.opened[0].id, office.opened[0].prompt) == (before.id, before.prompt)
        office.say("/think inherit")
        office.say("Again.", says("Hi."))
        assert office.player.requests[0].binding == before.runtime.binding

    def test_a_model_that_does_not_think_is_not_asked_to(self, make_office):
        office = make_office(model={"provider": "local", "id": "smollm2-135m-instruct"})
        with pytest.raises(UsageError, match="answers without thinking first"):
            office.say("/think high")
        assert office.say("/think off").text == "thinking: off"

    def test_a_word_of_a_later_version_leaves_the_artifact(self, office):
        office.say("Hello.", says("Hi."))
        artifact = office.opened[0]
        assert with_thinking(artifact, "") is artifact
        assert with_thinking(artifact, "immense") is artifact

    @pytest.mark.parametrize("level", LEVELS)
    @pytest.mark.parametrize("provider", ["openai", "anthropic", "deepseek", "gemini"])
    def test_every_protocol_has_words_for_it(self, provider, level):
        """Each wire in its own words; `off` is one that switches thinking off, or says nothing of it."""
        from halo.models.anthropic_wire import messages_body
        from halo.models.chat_wire import DEEPSEEK, OPENAI, chat_body
        from halo.models.gemini_wire import _generation_config

        asked = bound(Binding(provider, "m", temperature=0.5), level)
        call = msgspec.structs.replace(request(), binding=asked)
        match provider:
            case "openai":
                found = chat_body(call, [], OPENAI).get("reasoning_effort")
                expected = "none" if level == "off" else level
            case "deepseek":
                body = chat_body(call, [], DEEPSEEK)
                found = body["thinking"]["type"], body.get("reasoning_effort")
                expected = ("disabled", None) if level == "off" else ("enabled", level)
            case "anthropic":
                body = messages_body(call, [])
                found = body.get("output_config"), "temperature" in body
                expected = (None, True) if level == "off" else ({"effort": level}, False)
                assert ("thinking" in body) == (level != "off")
            case _:
                found = _generation_config(asked, None)["thinkingConfig"]
                off = {"thinkingBudget": 0}
                expected = (
                    off if level == "off" else {"includeThoughts": True, "thinkingLevel": level.upper()}
                )
        assert found == expected


class TestNew:
    def test_the_rest_is_the_first_message_and_the_old_log_says_why(self, office):
        office.say("Hello.", says("Hi."))
        old = office.folder
        reply = office.say("/new What is the tide?", says("High."))
        new = office.folder
        assert reply.session == new.id != old.id
        assert [m.text for m in office.player.requests[0].history] == ["What is the tide?"]
        (rolled,) = office.data(SessionRolledOver, old)
        assert (rolled.to, rolled.reason) == (new.id, "/new")
        assert rolled.inputs["trigger"] == "/new"
        assert rolled.inputs["interacted_at"]
        created = new.read().created
        assert (created.key, created.previous, created.reason) == ("agent:a:main", old.id, "/new")
        assert office.notices[-1] == f"a new session begins, {new.id} (/new); {old.id} is kept"

    def test_alone_it_has_a_short_greeting_that_is_nobodys_message(self, office):
        office.say("Hello.", says("Hi."))
        reply = office.say("/reset", says("Good day!"))
        assert reply.text == "Good day!"
        asked, answered = office.data(MessageAdded)
        assert asked.message.text == GREETING
        assert asked.internal
        assert not answered.internal
        conversation = office.folder.read()
        assert conversation.standing.interacted_at == ""
        assert conversation.opening == ""

    def test_what_the_user_chose_goes_on(self, office):
        """Complaint 27: the model that a user chose survives; complaint 15: nothing happens in silence."""
        office.say("Hello.", says("Hi."))
        for command in ("/model quick", "/think low", "/verbose on", "/send off"):
            office.say(command)
        with office.folder.open(office.desk.now_ns) as session:
            session.append(SessionChanged("title", "Harbour"), turn=0)
            session.append(SessionChanged("label", "work"), turn=0)
        office.say("/new Go on.", says("Yes."))
        chosen = {"model": "=quick", "thinking": "low", "verbose": "on", "send": "deny", "label": "work"}
        assert office.settings() == chosen
        assert office.player.requests[0].binding.thinking == Reasoning(effort="low")

    @pytest.mark.parametrize(
        ("text", "model", "said"),
        [
            ("/new quick Go on.", "=quick", "Go on."),
            ("/new fast", "fast", GREETING),
            ("/new QUICK", "=quick", GREETING),
            ("/new openai/gpt-5-mini Go on.", "=openai/gpt-5-mini", "Go on."),
            ("/new qui Go on.", "", "qui Go on."),
            ("/new qui", "=quick", GREETING),
            ("/new hello", "", "hello"),
            ("/new a", "", "a"),
            ("/reset quick", "", "quick"),
            ("/new /tide now", "", None),
        ],
    )
    def test_its_first_word_may_be_a_model(self, office, text, model, said):
        office.say("Hello.", says("Hi."))
        office.say(text, says("Yes."))
        assert office.settings() == ({"model": model} if model else {})
        given = office.player.requests[0].history[0].text
        assert given == said if said else "Tell the tide of now." in given

    def test_a_part_that_several_names_have_is_no_guess(self, make_office):
        office = make_office(
            MODELS.replace("aliases: {", "aliases: {quicker: {provider: openai, id: gpt-5}, ")
        )
        office.say("Hello.", says("Hi."))
        before = office.folder.id
        with pytest.raises(UsageError, match="could be"):
            office.say("/new qui")
        assert office.folder.id == before

    def test_it_works_before_there_is_a_session_and_in_one_without_a_key(self, office):
        office.say("/new", says("Good day!"))
        assert office.folder.read().created.previous == ""
        places = office.desk.builder.places
        target = office.choose().target
        with begin(office.sessions, places.home, office.desk.now_ns, target, "cli", Relation()) as older:
            older_id = older.folder.id
        assert office.folder.id == older_id
        office.say("/new Go on.", says("Yes."))
        created = office.folder.read().created
        assert (created.previous, created.key) == (older_id, "agent:a:main")

    def test_never_while_a_turn_runs(self, office):
        """Complaint 14: a session is not taken from under somebody who is being answered."""
        office.say("Hello.", says("Hi."))
        held = office.folder
        with held.open(office.desk.now_ns), pytest.raises(BusyError):
            office.say("/new Go on.")
        assert office.folder.id == held.id
        assert office.data(SessionRolledOver) == []

    def test_a_session_that_an_agent_started_is_not_followed(self, office):
        places = office.desk.builder.places
        relation = Relation(parent="20260101t000000-aaaaaa", key="agent:a:subagent:x")
        target = office.choose(new=True).target
        with begin(office.sessions, places.home, office.desk.now_ns, target, "session", relation) as child:
            child_id = child.folder.id
        with pytest.raises(UsageError, match="was started by an agent"):
            office.say("/new", choice=office.choose(named=child_id))


class TestCrashes:
    """The old session names its successor first; whoever comes next makes good what is missing."""

    @pytest.mark.parametrize("left", [0, 1, 2, 3])
    def test_a_rollover_that_breaks_off_is_finished_by_the_next_message(self, office, monkeypatch, left):
        office.say("Hello.", says("Hi."))
        office.say("/model quick")
        office.say("/think low")
        old = office.folder
        appended = self._dies_after(monkeypatch, left)
        with pytest.raises(MemoryError):
            roll_over(office.desk, office.choose(), "/new", {}, "")
        monkeypatch.undo()
        assert appended == left
        office.say("Go on.", says("Yes."))
        conversation = office.folder.read()
        if left == 0:
            assert office.folder.id == old.id
            return
        assert conversation.created.previous == old.id
        assert old.read().standing.successor.to == office.folder.id
        assert conversation.standing.settings == {"model": "=quick", "thinking": "low"}

    def _dies_after(self, monkeypatch, left):
        from halo.sessions.folder import OpenSession

        real, done = OpenSession.append, []

        def append(session, data, **more):
            if len(done) == left:
                raise MemoryError
            done.append(data)
            return real(session, data, **more)

        monkeypatch.setattr(OpenSession, "append", append)

        class Appended:
            def __eq__(self, other):
                return len(done) == other

            __hash__ = None

        return Appended()

    def test_what_was_taken_back_meanwhile_stays_so(self, office):
        office.say("Hello.", says("Hi."))
        office.say("/think low")
        roll_over(office.desk, office.choose(), "/new", {})
        office.say("/think inherit")
        finished(office.desk, office.choose())
        assert office.settings() == {}


def ago(office, **delta):
    """Let the time pass: the clock of the desk goes on by so much."""
    office.desk.now_ns.ns += int(dt.timedelta(**delta).total_seconds()) * 10**9


class TestRules:
    def test_by_default_no_session_ends_by_itself(self, office):
        """Complaint 15."""
        office.say("Hello.", says("Hi."))
        first = office.folder.id
        ago(office, days=400)
        office.say("Again.", says("Hi."))
        assert office.folder.id == first

    def test_a_rule_ends_it_with_the_next_message_and_says_so(self, make_office):
        """Complaints 15 and 18: told, and recorded with its reason and all that it was decided on."""
        office = make_office("general: {session: {reset: {mode: idle, idle_minutes: 30}}}\n")
        office.say("Hello.", says("Hi."))
        office.say("/verbose on")
        old = office.folder
        ago(office, minutes=29)
        office.say("Still here.", says("Yes."))
        assert office.folder.id == old.id
        ago(office, minutes=31)
        office.say("Back.", says("Welcome."))
        (rolled,) = office.data(SessionRolledOver, old)
        assert rolled.reason == "idle"
        assert rolled.inputs["idle_minutes"] == "30"
        assert rolled.inputs["policy"] == "reset"
        assert rolled.to == office.folder.id != old.id
        assert office.settings() == {"verbose": "on"}
        assert [m.text for m in office.player.requests[0].history] == ["Back."]
        assert office.notices[-1].startswith(f"a new session begins, {rolled.to} (idle reset, ")

    def test_a_command_ends_no_session_by_a_rule(self, make_office):
        office = make_office("general: {session: {reset: {mode: idle, idle_minutes: 30}}}\n")
        office.say("Hello.", says("Hi."))
        old = office.folder.id
        ago(office, minutes=31)
        assert office.say("/status").session == old

    def test_neither_does_a_message_to_a_session_that_was_named(self, make_office):
        office = make_office("general: {session: {reset: {mode: idle, idle_minutes: 30}}}\n")
        office.say("Hello.", says("Hi."))
        old = office.folder.id
        ago(office, minutes=31)
        office.say("Back.", says("Yes."), choice=office.choose(named=old))
        assert office.folder.id == old

    def test_nor_what_a_program_sends(self, make_office):
        office = make_office("general: {session: {reset: {mode: idle, idle_minutes: 30}}}\n")
        office.say("Hello.", says("Hi."))
        old = office.folder.id
        ago(office, minutes=31)
        office.say("tick", says("Yes."), sender=Sender("event"))
        assert office.folder.id == old


class TestStop:
    def test_nothing_runs(self, office):
        assert office.say("/stop").text == "nothing was running"
        office.say("Hello.", says("Hi."))
        answer = office.say("/stop")
        assert (answer.text, answer.values["stopped"]) == ("nothing was running", 0)
        assert office.settings() == {}

    def test_what_waits_is_kept_in_the_history(self, office):
        office.say("Hello.", says("Hi."))
        message = Incoming(1, "m1", "", "later", OWNER)
        Inbox(office.folder.path).put(message, office.desk.now_ns())
        answer = office.say("/stop")
        assert answer.text == "nothing was running; 1 message that waited is kept in the history, unanswered"
        assert office.data(MessageAdded)[-1].message.text == "later"
        assert Inbox(office.folder.path).count() == 0
        assert office.settings() == {"stopped": "the user"}

    def test_a_turn_that_runs_ends_at_once(self, office):
        """Here in one process, where the door is used beside the turn; tests/cli/test_chat.py has two."""
        office.say("Hello.", says("Hi."))

        async def both():
            office.desk.adapter = lambda _artifact, _target: Player(None)
            choice = office.choose()
            show = office.shown.append
            message = typed("Tell me.", office.desk.now_ns())
            turn = asyncio.create_task(
                converse(office.desk, choice, message, show, frozen=False, named=False)
            )
            while not choice.folder.read().open_turn:  # it looks at a file
                await asyncio.sleep(0.01)
            stop = typed("/stop", office.desk.now_ns())
            done = await enter(office.desk, choice, stop, show, named=False)
            return done.answer, await turn

        answer, reply = asyncio.run(asyncio.wait_for(both(), 20))
        assert answer.text == "1 session was stopped"
        assert reply.reason == "stopped"
        assert office.data(MessageAdded)[-1].message.text == "Half an "
        assert wanted_stop(office.folder.path) is None

    def test_a_wish_that_a_dead_process_left_is_carried_out(self, office):
        office.say("Hello.", says("Hi."))
        Inbox(office.folder.path).put(Incoming(1, "m1", "", "later", OWNER), office.desk.now_ns())
        request_stop(office.folder.path, Stop(STOP_FORMAT, "", "somebody"))
        office.say("/stop")
        assert wanted_stop(office.folder.path) is None
        assert office.say("Go on.", says("Yes.")).text == "Yes."


class TestStatus:
    def test_it_says_how_the_session_stands(self, office):
        office.say("Hello.", says("Hi."))
        office.say("/think off")
        first = office.folder.id
        office.say("/new Go on.", says("Yes."))
        answer = office.say("/status")
        lines = dict(line.split(": ", 1) for line in answer.text.splitlines())
        assert lines["name"] == office.folder.id
        assert lines["key"] == "agent:a:main"
        assert (lines["agent"], lines["state"]) == ("a", "idle")
        assert (lines["thinking"], lines["verbose"], lines["send"]) == ("off", "inherit", "inherit")
        assert (lines["waiting"], lines["previous"]) == ("0 messages", first)
        assert lines["session"] == "turn 1, 2 messages, 1 model call"
        assert answer.values["figures"]["calls"] == 1

    def test_it_is_there_before_the_first_message(self, office):
        assert "none yet" in office.say("/status").text
        assert office.folder is None

    def test_it_looks_at_a_session_that_runs(self, office):
        office.say("Hello.", says("Hi."))
        with office.folder.open(office.desk.now_ns):
            assert "state: a turn runs" in office.say("/status").text

    def test_a_key_from_elsewhere_does_not_act_on_the_terminal(self, office):
        places = office.desk.builder.places
        target = office.choose().target
        with begin(office.sessions, places.home, office.desk.now_ns, target, "cli", Relation(key="\x1b[2J")):
            pass
        assert "key: \\x1b[2J" in office.say("/status").text


class TestHelp:
    def test_it_lists_what_this_sender_may_use_in_columns(self, office):
        lines = office.say("/help").text.splitlines()
        usages = [line.split("  ")[0] for line in lines]
        assert usages[:3] == ["/help", "/status", "/context [list|detail]"]
        assert "/send [on|off|inherit]" in usages
        assert usages[-2:] == ["/tide [ARGUMENTS]", "/keel [ARGUMENTS]"]
        column = lines[0].index("the commands")
        assert all(line[column - 2 : column] == "  " and line[column] != " " for line in lines)

    def test_a_guest_sees_neither_changes_nor_skills_that_need_more(self, office):
        usages = [row["usage"] for row in office.say("/help", sender=GUEST).values["commands"]]
        assert usages == ["/help", "/status", "/context [list|detail]", "/tide [ARGUMENTS]"]

    def test_triggers_are_those_of_the_settings(self, make_office):
        office = make_office('general: {session: {reset_triggers: ["start over", "/new"]}}\n')
        usages = [row["usage"] for row in office.say("/help").values["commands"]]
        assert "/new [MODEL] [MESSAGE]" in usages
        assert "/reset [MESSAGE]" not in usages
        assert "start over [MESSAGE]" in usages


class TestWindow:
    def test_context_shows_what_fills_it(self, office):
        assert "tokens are filled" in office.say("/context").text
        office.say("Hello.", says("Hi."))
        short, long = office.say("/context list"), office.say("/context detail")
        assert len(long.text.splitlines()) > len(short.text.splitlines())
        assert "grep" in long.text
        assert short.values["parts"] == long.values["parts"]

    def test_compact_puts_a_summary_in_the_place_of_the_history(self, office):
        with pytest.raises(UsageError, match="nothing to sum up"):
            office.say("/compact")
        for number in range(6):
            office.say(f"Message {number}. " + "word " * 400, says(f"Answer {number}. " + "word " * 400))
        before = office.folder.read().seq
        summary = says("The user counted from 0 to 5. " * 3)
        answer = office.say("/compact keep the numbers", *[summary] * 4)
        assert answer.text.startswith("the history is summed up: about ")
        assert answer.values["tokens_after"] < answer.values["tokens_before"]
        assert office.folder.read().seq > before
        assert any("keep the numbers" in str(request.history) for request in office.player.requests)


def test_the_key_of_a_session_that_was_begun_here_is_the_main_one(office):
    office.say("Hello.", says("Hi."))
    assert office.folder.read().created.key == "agent:a:main"
    assert choose(office.sessions, "a", "mcp", home="", named=None, new=True).relation is None


def test_a_folder_of_another_session_is_left_alone(office):
    office.say("Hello.", says("Hi."))
    old = office.folder
    office.say("/new One.", says("1"))
    office.say("Two.", says("2"), choice=office.choose(named=old.id))
    assert SessionFolder(office.sessions, old.id).read().turn == 2
    assert office.folder.id != old.id
