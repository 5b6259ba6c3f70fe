"""Calls that are denied or asked about, as a model meets them."""

import asyncio
import json

import pytest
from tool_specs import SPECS

from halo.records.messages import ToolCall
from halo.records.policies import PolicyRule
from halo.tools.consent import Question, gate
from halo.tools.policy import Policy
from halo.tools.toolbox import Toolbox


class User:
    """Answers as told, and keeps what it was asked."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []
        self.busy = 0

    async def __call__(self, question):
        assert self.busy == 0, "asked two things at once"
        self.busy += 1
        await asyncio.sleep(0.01)
        self.busy -= 1
        self.asked.append(question)
        return self.answers.pop(0)


@pytest.fixture
def call(bench):
    """Run calls under a policy: `call(rules, user, (tool, arguments)...)`; together, as one batch might."""
    bench.write({"a.txt": "needle\n"})

    def run(rules, user, *calls):
        async def go():
            policy = tuple(PolicyRule(*rule) for rule in rules)
            places = tuple(f".halo/settings.yaml:{line}" for line in range(4, 4 + len(policy)))
            toolbox = Toolbox(SPECS, bench.around, decide=gate([Policy(policy, places)], user))
            return await asyncio.gather(
                *(toolbox.run(ToolCall(f"c{n}", tool, json.dumps(a))) for n, (tool, a) in enumerate(calls))
            )

        return asyncio.run(go())

    return run


READ = ("file_read", {"path": "a.txt"})


def test_what_is_allowed_runs(call):
    (result,) = call([("grep", "deny")], None, READ)
    assert result.text == "1\tneedle"


def test_what_is_denied_does_not_run_and_is_not_asked_about(call):
    user = User()
    (result,) = call([("file_*", "deny")], user, READ)
    assert result.is_error
    assert result.text.startswith(
        "file_read was not run: the rule `deny file_*` (.halo/settings.yaml:4) speaks of it. "
        'The call: {"path": "a.txt"}. It stays forbidden: do not try it again'
    )
    assert "needle" not in result.text
    assert user.asked == []


def test_without_anybody_to_ask_it_is_denied_in_words_that_invite_no_retry(call):
    (result,) = call([("file_read", "ask")], None, READ)
    assert result.is_error
    assert "the rule `ask file_read` (.halo/settings.yaml:4) speaks of it" in result.text
    assert "nobody is there to give it. Do not try it again." in result.text


def test_the_user_decides(call):
    user = User(True, False)
    first, second = call([("*", "ask")], user, READ, READ)
    assert first.text == "1\tneedle"
    assert second.is_error
    assert "the user was asked and said no" in second.text
    why = "the rule `ask *` (.halo/settings.yaml:4) speaks of it"
    assert user.asked == [Question("file_read", '{"path": "a.txt"}', why)] * 2


PUSH = [("shell_exec", "allow", "git log*"), ("shell_exec", "deny", "git push*")]


def test_a_denied_command_is_named_with_the_rule(call):
    (result,) = call(PUSH, User(), ("shell_exec", {"command": "cd x; git push"}))
    assert result.text.startswith(
        "shell_exec was not run: the rule `deny shell_exec git push*` (.halo/settings.yaml:5) speaks of it. "
        "The call: cd x; git push. It stays forbidden"
    )


def test_a_command_that_nobody_can_tell_is_asked_about(call):
    """Also where the rule denies: that it is what the rule means is not known."""
    user = User(False)
    command = {"command": "git pus?"}
    (result,) = call(PUSH, user, ("shell_exec", command))
    why = "what it runs cannot be told for certain, and the rule `deny shell_exec git push*` (.halo/settings.yaml:5) may speak of it"
    assert user.asked == [Question("shell_exec", "git pus?", why)]
    assert why in result.text
    assert "said no" in result.text
    (result,) = call(PUSH, None, ("shell_exec", command))
    assert why in result.text
    assert "nobody is there" in result.text


def test_what_is_long_or_acts_is_shortened_and_spelt_out(call):
    """The answer to the model stays one line."""
    command = {"command": "git push\n\x1b[2K" + "x" * 5_000}
    (result,) = call([("shell_exec", "deny", "git push*")], None, ("shell_exec", command))
    assert "\n" not in result.text
    assert "\x1b" not in result.text
    assert "x..." in result.text
    assert len(result.text) < 1_000


def test_calls_of_one_batch_are_asked_about_one_after_the_other(call):
    user = User(*[True] * 5)
    results = call([("*", "ask")], user, *[READ] * 5)
    assert not any(result.is_error for result in results)


def test_only_a_call_that_could_run_is_asked_about(call):
    """Arguments that do not fit, and tools that there are not, are answered without troubling anybody."""
    user = User()
    for result in call([("*", "ask")], user, ("file_read", {}), ("nope", {}), ("file_read", {"path": 1})):
        assert result.is_error
    assert user.asked == []


def test_cancelling_while_the_user_thinks_runs_nothing(bench):
    bench.write({"a.txt": "needle\n"})

    async def never(question):
        await asyncio.sleep(60)

    async def go():
        policy = Policy((PolicyRule("*", "ask"),))
        toolbox = Toolbox(SPECS, bench.around, decide=gate([policy], never))
        task = asyncio.create_task(toolbox.run(ToolCall("c", "file_read", '{"path": "a.txt"}')))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(go())
