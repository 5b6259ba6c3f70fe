"""`{{name}}` in AGENT.md and SKILL.md, `$1` in SKILL.md: what becomes text, a slot, or stays as it is.

The rules stand in docs/reference/placeholders.md: this is the boundary that keeps
secrets out of prompts. `<id>.secrets.*` and `general.*` never resolve; a parameter resolves only in
the namespaces that the body may use; a value that is secret, or holds `<<ENV>>` and is not declared
`secret: false`, keeps its placeholder. What is filled in is never scanned again.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from halo.compiler.pieces import Fill, Piece
from halo.errors import LayerError, near_miss_hint
from halo.files.tree import Tree
from halo.records.diagnostics import Diagnostic
from halo.workspace.ids import list_ids
from halo.workspace.layers import Layer
from halo.workspace.settings.files import (
    GLOBAL_SETTINGS,
    WORKSPACE_SETTINGS,
    Setting,
    lookup,
    read_settings,
)
from halo.workspace.settings.params import PARAM, Declared, Params, misfit, read_params

if TYPE_CHECKING:
    from halo.workspace.yamldoc import YamlDocument

PLACEHOLDER = re.compile(r"\{\{\s*([\w-][\w.-]*)\s*\}\}")

# What a skill is invoked with, in the body of a skill: `$ARGUMENTS`, `$1` to `$9`; with a backslash in front
# their escape. `$10`, `$1.50` and `$1,000` are sums of money or something else.
_IN_SKILL = re.compile(rf"{PLACEHOLDER.pattern}|\\?\$(?:ARGUMENTS\b|[1-9](?!\d|[.,]\d))")

# What the front matter of USER.md may give.
USER_NAMES = ("user_name", "ai_name")

# Filled by whoever runs the turn.
_BUILTIN_SLOTS = frozenset({"workspace_root", "working_dir", "now"})

Say = Callable[[Diagnostic], None]


class Placeholders:
    """Resolves the placeholders of one body.

    `known` holds names that are text at compile time, each with the source and line of its value;
    `session` names slots that the session fills; `namespaces` holds the ids whose params may be
    used. `own` is the skill whose body it is: the short form `{{params.key}}` stands for its parameters, and
    it may be invoked with arguments. Empty for what is no skill's body.
    """

    def __init__(
        self,
        tree: Tree,
        *,
        known: Mapping[str, Piece],
        session: frozenset[str],
        namespaces: frozenset[str],
        own: str,
        say: Say,
    ) -> None:
        self._tree = tree
        self._known = known
        self._session = session
        self._namespaces = namespaces
        self._own = own
        self._say = say
        self._declared: dict[str, Params] = {}
        self._settings: dict[str, YamlDocument] = {}
        self._answers: dict[str, Piece | Fill | str | None] = {}
        self._warned: set[Diagnostic] = set()

    def render(self, layer: Layer) -> Iterator[Piece]:
        """Yield the body of `layer` in pieces: verbatim runs, values, slots."""
        body, position, line = layer.body, 0, layer.line
        seen, here = 0, layer.line  # `here` is the line of the character `seen`
        pattern = _IN_SKILL if self._own else PLACEHOLDER
        for match in pattern.finditer(body):
            here += body.count("\n", seen, match.start())
            seen = match.start()
            if (piece := self._piece(match, layer.source, here)) is None:
                continue
            if match.start() > position:
                yield Piece(body[position : match.start()], layer.source, line, verbatim=True)
            yield piece
            position = match.end()
            line = here + body.count("\n", seen, position)  # a placeholder may span lines
        if position < len(body):
            yield Piece(body[position:], layer.source, line, verbatim=True)

    def _piece(self, match: re.Match[str], source: str, line: int) -> Piece | None:
        """Resolve one placeholder; None leaves it as it is written, and says why where that matters."""
        name, text = match[1], match[0]
        if name is None:
            return Piece(text, source, line, fill=Fill(text, "session"))
        if self._own and name.startswith("params."):
            name = f"{self._own}.{name}"
        if name in self._known:
            return self._known[name]
        if name in _BUILTIN_SLOTS:
            return Piece(text, source, line, fill=Fill(name, "builtin"))
        if name in self._session or (self._own and name.startswith("channel.")):
            return Piece(text, source, line, fill=Fill(name, "session"))
        param = PARAM.match(name)
        if param is not None and param[1] in self._namespaces:
            return self._param(param[1], param[2], text, source, line)
        self._warn(source, line, f"{text}{self._why_not(name, param[1] if param is not None else '')}")
        return None

    def _why_not(self, name: str, owner: str) -> str:
        """Say why `name` is none that resolves here; `owner`: whose parameter it would be."""
        if name in USER_NAMES:
            return f": USER.md gives no {name}; it stays as it is"
        if not owner:
            return " names nothing that a prompt may hold; it stays as it is"
        known = sorted({*list_ids(self._tree, "agents"), *list_ids(self._tree, "skills")})
        if owner in known:
            return f": the parameters of {owner!r} are not open to this text"
        return f": there is no agent or skill {owner!r}; {near_miss_hint(owner, known)}"

    def _param(self, owner: str, key: str, text: str, source: str, line: int) -> Piece | None:
        name = f"{owner}.params.{key}"
        if name not in self._answers:
            self._answers[name] = self._answer(owner, key, name)
        match self._answers[name]:
            case Piece() as value:
                return value
            case Fill() as fill:
                return Piece(text, source, line, fill=fill)
            case str(why):
                self._warn(source, line, f"{text}{why}")
                return None
        # A secret is substituted by the tool that runs, which does not know whose the short form was.
        return Piece(f"{{{{{name}}}}}", source, line) if name not in text else None

    def _answer(self, owner: str, key: str, name: str) -> Piece | Fill | str | None:
        """Look a parameter up: its text, a slot, why it has none, or None for a secret."""
        params = self._params(owner)
        declared = params.declared.get(key)
        if params.is_secret(key):
            return None
        setting, scope = self._setting(name)
        if setting is None:
            if declared is None or declared.param.default is None:
                return " has no value in the settings and no default"
            return _default(declared)
        if not setting.text and setting.value != "":
            return ": a list or map cannot stand in text"
        if declared is not None and (wrong := misfit(declared.param, setting)):
            raise LayerError(f"{name} {wrong}", file=setting.source, line=setting.line)
        if setting.names and key not in (
            params.opened_by_user if scope == GLOBAL_SETTINGS else params.opened
        ):
            return None  # a value with <<ENV>> counts as secret
        if scope == GLOBAL_SETTINGS:
            return Fill(name, "settings")
        if setting.names:
            return Fill(name, "environment", setting.text)
        return Piece(setting.text, setting.source, setting.line)

    def _params(self, owner: str) -> Params:
        if owner not in self._declared:
            self._declared[owner] = read_params(self._tree, owner)
        return self._declared[owner]

    def _setting(self, dotted: str) -> tuple[Setting | None, str]:
        for source in (WORKSPACE_SETTINGS, GLOBAL_SETTINGS):
            if source not in self._settings:
                self._settings[source] = read_settings(self._tree, source)
            setting = lookup(self._settings[source], dotted)
            if setting is not None:
                return setting, source
        return None, ""

    def _warn(self, source: str, line: int, message: str) -> None:
        """Say what is odd, once for a line."""
        remark = Diagnostic("placeholder-literal", "warning", message, source, line)
        if remark not in self._warned:
            self._warned.add(remark)
            self._say(remark)


def _default(declared: Declared) -> Piece:
    """Make text of a declared default, which stands in config.yaml."""
    value = declared.param.default
    text = ("true" if value else "false") if isinstance(value, bool) else str(value)
    return Piece(text, declared.source, declared.line)
