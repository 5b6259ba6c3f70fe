"""The specification of every builtin tool, as data: what a model is told about it.

The order of `BUILTIN_TOOLS` is the order in a prompt's tool list. Implementations live in `halo/tools`.
"""

from typing import Any

import msgspec

from halo.records.targets import Access


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool: its name, what it is for, and the JSON Schema of its arguments (an object).

    `access` is the least that a target needs to have it: what changes files, runs programs or reaches out
    needs `workspace`.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    access: Access = "readonly"


def _object(required: tuple[str, ...] = (), **properties: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = list(required)
    return schema


def _string(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _integer(description: str, minimum: int = 1) -> dict[str, Any]:
    return {"type": "integer", "minimum": minimum, "description": description}


def _boolean(description: str) -> dict[str, Any]:
    return {"type": "boolean", "description": description}


_PATH = _string("Path relative to the workspace root.")

WORKSPACE_TOOLS: tuple[ToolSpec, ...] = (
    ToolSpec(
        "file_read",
        "Read a text file. Lines come numbered; use offset and limit for a part of a long file.",
        _object(
            ("path",),
            path=_PATH,
            offset=_integer("First line to return, counted from 1."),
            limit=_integer("How many lines to return; 2000 if left out."),
        ),
    ),
    ToolSpec(
        "view_image",
        "Look at a picture (png, jpg, gif or webp). Large ones are scaled down.",
        _object(("path",), path=_PATH),
    ),
    ToolSpec(
        "file_write",
        "Create a file or replace its whole content. Missing folders are made.",
        _object(("path", "content"), path=_PATH, content=_string("The complete new content.")),
        access="workspace",
    ),
    ToolSpec(
        "file_edit",
        "Replace one exact piece of text in a file. The old text must occur once, unless replace_all is set.",
        _object(
            ("path", "old_string", "new_string"),
            path=_PATH,
            old_string=_string("The text to replace, exactly as it stands in the file."),
            new_string=_string("What to put there."),
            replace_all=_boolean("Replace every occurrence."),
        ),
        access="workspace",
    ),
    ToolSpec(
        "file_list",
        "List a folder. Folders end in a slash.",
        _object(
            path=_string("Folder relative to the workspace root; the root if left out."),
            recursive=_boolean("List everything below it, at most 500 entries."),
        ),
    ),
    ToolSpec(
        "shell_exec",
        "Run a shell command in the workspace root and return its output and exit code.",
        _object(("command",), command=_string("The command line.")),
        access="workspace",
    ),
    ToolSpec(
        "grep",
        "Search file contents for a regular expression. Returns path:line:text. Skips .git and .halo.",
        _object(
            ("pattern",),
            pattern=_string("The regular expression, in Python's syntax."),
            path=_string("File or folder to search; the workspace root if left out."),
            include=_string("Only files whose name matches this glob, such as *.py or *.{md,txt}."),
            max_results=_integer("Stop after so many matches; 50 if left out."),
        ),
    ),
    ToolSpec(
        "glob",
        "Find files by a path pattern such as src/**/*.py. Skips .git and .halo unless they are named.",
        _object(
            ("pattern",),
            pattern=_string(
                "The pattern, relative to path: *, ?, [a-z], {a,b}, and ** for any number of folders."
            ),
            path=_string("Folder to start from; the workspace root if left out."),
        ),
    ),
    ToolSpec(
        "web_fetch",
        "Fetch a web page or file over HTTP and return status, type and text.",
        _object(
            ("url",),
            url=_string("An http or https address."),
            headers={
                "type": "object",
                "additionalProperties": {"type": "string"},
                "description": "Request headers.",
            },
        ),
        access="workspace",
    ),
)

_SESSION = _string("The id of the session.")
_WAIT = _integer(
    "How many seconds to wait for the reply; 0 does not wait, 30 if left out. The message is delivered in "
    "either case.",
    minimum=0,
)

# Granted together, and only to an agent with a team: a team is the switch for delegation.
SESSION_TOOLS: tuple[ToolSpec, ...] = (
    ToolSpec(
        "start_session",
        "Hand a task to an agent of your team. It works on its own, and its report comes back as a message.",
        _object(
            ("agent_id", "message"),
            agent_id=_string("Who shall do it: an id from your team."),
            message=_string("The task, complete in itself."),
            context=_string("Background that the agent needs and cannot find in the workspace."),
            working_dir=_string("Folder that the agent shall live in; its directory rules apply."),
            title=_string("A short name for the session."),
            model=_string("Another model for it: the name of one in the settings, or provider/model."),
            seconds=_integer("Its time limit; what it has by then is reported."),
            cleanup={
                "type": "string",
                "enum": ["keep", "delete"],
                "description": "What becomes of the session after its report; keep if left out.",
            },
        ),
    ),
    ToolSpec(
        "session_list",
        "List the sessions that you may see, those that changed last first.",
        _object(
            kinds={
                "type": "array",
                "items": {"type": "string", "enum": ["main", "group", "cron", "hook", "node", "other"]},
                "description": "Only sessions of these kinds.",
            },
            active_minutes=_integer("Only sessions that changed within so many minutes."),
            limit=_integer("How many at most; 50 if left out, 200 at most."),
            messages=_integer("Show so many of the last messages of each; none if left out.", minimum=0),
            tools=_boolean("Show calls of tools and their results among the messages."),
            archived=_boolean("List archived sessions, too."),
        ),
    ),
    ToolSpec(
        "session_history",
        "Return the messages of a session, the last ones if there are many.",
        _object(
            ("session_id",),
            session_id=_SESSION,
            limit=_integer("How many at most; 50 if left out, 500 at most."),
            tools=_boolean("Show calls of tools and their results, too."),
        ),
    ),
    ToolSpec(
        "query_session",
        "Send a message to a session. If it works, the message is read after the current tool call.",
        _object(
            ("session_id", "message"),
            session_id=_SESSION,
            message=_string("The message."),
            wait_seconds=_WAIT,
            key=_string("Sent twice with the same key, a message is delivered once."),
        ),
    ),
    ToolSpec(
        "interrupt_session",
        "Stop what a session is doing at once and give it a new message.",
        _object(
            ("session_id", "message"),
            session_id=_SESSION,
            message=_string("The message."),
            wait_seconds=_WAIT,
        ),
    ),
    ToolSpec(
        "stop_session",
        "Stop a session and everything that it started. Waiting messages stay in its history.",
        _object(("session_id",), session_id=_SESSION),
    ),
    ToolSpec(
        "archive_session",
        "Put a finished session and everything below it away.",
        _object(("session_id",), session_id=_SESSION),
    ),
    ToolSpec(
        "get_session_output",
        "Return how a session stands, and the full text of its last turn.",
        _object(("session_id",), session_id=_SESSION),
    ),
    ToolSpec(
        "query_agent",
        "Show what an agent of your team can do: description, model, tools and skills.",
        _object(("agent_id",), agent_id=_string("An id from your team.")),
    ),
)

DRAFT = ToolSpec(
    "draft",
    "Hand in a draft of your answer and get a checklist to review it with before you answer.",
    _object(("content",), content=_string("The draft.")),
)

# Every agent has it: the clock and the figures are never part of a prompt that could be cached.
STATUS = ToolSpec(
    "session_status",
    "Return the date and time, and the figures of this session: turns, tokens, cost, what is left.",
    _object(),
)

_ACTIVATE_SKILL = "activate_skill"


def activate_skill(skill_ids: tuple[str, ...]) -> ToolSpec:
    """Build the tool that loads a skill; its schema names the skills that are visible, sorted."""
    return ToolSpec(
        _ACTIVATE_SKILL,
        "Load the full instructions of a skill before you use it.",
        _object(
            ("skill_id",),
            skill_id={"type": "string", "enum": sorted(skill_ids)},
            arguments=_string("What the skill is to work on, if it takes arguments."),
        ),
    )


# What an agent.yaml may list under `tools:`.
LISTABLE_TOOLS: dict[str, ToolSpec] = {spec.name: spec for spec in (*WORKSPACE_TOOLS, DRAFT)}

# Every builtin tool; `activate_skill` stands for itself with no skill visible.
BUILTIN_TOOLS: tuple[ToolSpec, ...] = (*WORKSPACE_TOOLS, *SESSION_TOOLS, DRAFT, STATUS, activate_skill(()))
