"""`{{name}}` in AGENT.md and SKILL.md, `$1` in SKILL.md: what becomes text, a slot, or stays as it is.

The rules stand in docs/reference/placeholders.md: this is the boundary that keeps
secrets out of prompts. `<id>.secrets.*` and `general.*` never resolve; a parameter resolves only in
the namespaces that the body may use; a value that is secret, or holds `<<ENV>>` and is not declared
`secret: false`, keeps its placeholder. What is filled in is never scanned again.
"""

import re
from collections.abc import Callable, Iterator, Mapping

from halo.compiler.pieces import Fill, Piece
from halo.errors import LayerError
from halo.files.tree import Tree
from halo.records.diagnostics import Diagnostic
from halo.workspace.layers import Layer
from halo.workspace.params import PARAM, Declared, Params, misfit, read_params
from halo.workspace.settings import (
    GLOBAL_SETTINGS,
    WORKSPACE_SETTINGS,
    Setting,
    lookup,
    read_settings,
)

_PLACEHOLDER = re.compile(r"\{\{\s*([\w-][\w.-]*)\s*\}\}")

# What a skill is invoked with, in the body of a skill: `$ARGUMENTS`, `$1` to `$9`; with a backslash in front
# their escape. `$10`, `$1.50` and `$1,000` are sums of money or something else.
_IN_SKILL = re.compile(rf"{_PLACEHOLDER.pattern}|\\?\$(?:ARGUMENTS\b|[1-9](?!\d|[.,]\d))")

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

    def render(self, layer: Layer) -> Iterator[Piece]:
        """Yield the body of `layer` in pieces: verbatim runs, values, slots."""
        position, line = 0, layer.line
        pattern = _IN_SKILL if self._own else _PLACEHOLDER
        for match in pattern.finditer(layer.body):
            if (piece := self._piece(match, layer.source, self._line(layer, match))) is None:
                continue
            if match.start() > position:
                yield Piece(layer.body[position : match.start()], layer.source, line, verbatim=True)
            yield piece
            position = match.end()
            line = layer.line + layer.body.count("\n", 0, position)  # a placeholder may span lines
        if position < len(layer.body):
            yield Piece(layer.body[position:], layer.source, line, verbatim=True)

    @staticmethod
    def _line(layer: Layer, match: re.Match[str]) -> int:
        return layer.line + layer.body.count("\n", 0, match.start())

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
        if param is None:
            self._warn(source, line, f"{text} names nothing that a prompt may hold; it stays as it is")
            return None
        if param[1] not in self._namespaces:
            self._warn(source, line, f"{text}: the parameters of {param[1]!r} are not open to this text")
            return None
        return self._param(param[1], param[2], text, source, line)

    def _param(self, owner: str, key: str, text: str, source: str, line: int) -> Piece | None:
        params = self._params(owner)
        declared = params.declared.get(key)
        name = f"{owner}.params.{key}"
        # A secret is substituted by the tool that runs, which does not know whose the short form was.
        secret = Piece(f"{{{{{name}}}}}", source, line) if name not in text else None
        if params.is_secret(key):
            return secret
        setting, scope = self._setting(name)
        if setting is None:
            if declared is None or declared.param.default is None:
                self._warn(source, line, f"{text} has no value in the settings and no default")
                return None
            return _default(declared)
        if not setting.text and setting.value != "":
            self._warn(source, line, f"{text}: a list or map cannot stand in text")
            return None
        if declared is not None and (wrong := misfit(declared.param, setting)):
            raise LayerError(f"{name}: {wrong}", file=setting.source, line=setting.line)
        if setting.names and key not in (
            params.opened_by_user if scope == GLOBAL_SETTINGS else params.opened
        ):
            return secret  # a value with <<ENV>> counts as secret
        if scope == GLOBAL_SETTINGS:
            return Piece(text, source, line, fill=Fill(name, "settings"))
        if setting.names:
            return Piece(text, source, line, fill=Fill(name, "environment", setting.text))
        return Piece(setting.text, setting.source, setting.line)

    def _params(self, owner: str) -> Params:
        if owner not in self._declared:
            self._declared[owner] = read_params(self._tree, owner)
        return self._declared[owner]

    def _setting(self, dotted: str) -> tuple[Setting | None, str]:
        for source in (WORKSPACE_SETTINGS, GLOBAL_SETTINGS):
            setting = lookup(read_settings(self._tree, source), dotted)
            if setting is not None:
                return setting, source
        return None, ""

    def _warn(self, source: str, line: int, message: str) -> None:
        self._say(Diagnostic("placeholder-literal", "warning", message, source, line))


def _default(declared: Declared) -> Piece:
    """Make text of a declared default, which stands in config.yaml."""
    value = declared.param.default
    text = ("true" if value else "false") if isinstance(value, bool) else str(value)
    return Piece(text, declared.source, declared.line)
