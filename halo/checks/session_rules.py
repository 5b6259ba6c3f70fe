"""Rules about `general.session`: who shares a session, who is linked to whom, resets that do nothing."""

from collections import defaultdict
from collections.abc import Iterator

from halo.checks.subject import Subject
from halo.files.tree import Tree
from halo.records.channels import channel_name
from halo.records.diagnostics import Diagnostic
from halo.workspace.settings.files import GLOBAL_SETTINGS, WORKSPACE_SETTINGS, lookup, read_settings
from halo.workspace.settings.general import GENERAL, read_general_of
from halo.workspace.settings.identities import split_link
from halo.workspace.settings.resets import ResetPolicy, effective, over
from halo.workspace.settings.sessions import ResetRule, ResetTypes, SessionSettings, reset_rules

_SESSION = (GENERAL, "session")
_FILES = (WORKSPACE_SETTINGS, GLOBAL_SETTINGS)


def shared_scope(subject: Subject) -> Iterator[Diagnostic]:
    """H516: several senders, and one session for the direct messages of all of them.

    Somebody who wrote `dm_scope: main` knows that; what is told then is only that links do nothing.
    """
    session = subject.general.session
    if session.dm_scope != "main":
        return
    people, channels = len(session.identity_links), _channels(session)
    chosen = any(lookup(read_settings(subject.tree, source), "general.session.dm_scope") for source in _FILES)
    if people > 1:
        who = f"identity_links name {people} people, and their"
    elif channels and not chosen:
        who = f"whoever writes by {', '.join(sorted(channels))} shares one session: all"
    else:
        return
    source, line = _place(subject.tree, ("dm_scope",), ("identity_links",), ())
    message = f"{who} direct messages reach the main session, where each can ask what the others said"
    yield Diagnostic("shared-direct-scope", "warning", message, source, line)


def _channels(session: SessionSettings) -> set[str]:
    """Return the channels that the settings speak of."""
    named = [*session.reset_by_channel, *(rule.match.channel for rule in session.send_policy.rules)]
    named += [split_link(entry)[0] for entries in session.identity_links.values() for entry in entries]
    return {channel_name(name) for name in named} - {""}


def _place(tree: Tree, *paths: tuple[str, ...]) -> tuple[str, int]:
    """Return file and line of the first of `paths` that is in the settings."""
    for path in paths:
        for source in _FILES:
            document = read_settings(tree, source)
            if lookup(document, ".".join((*_SESSION, *path))) is not None:
                return source, document.line(*_SESSION, *path)
    return WORKSPACE_SETTINGS, 1


def links(subject: Subject) -> Iterator[Diagnostic]:
    """H517: an identity link that matches nobody, and an id that is linked to two people."""
    owners: dict[tuple[str, str], set[str]] = defaultdict(set)
    for name, entries in subject.general.session.identity_links.items():
        for entry in entries:
            owners[split_link(entry)].add(name)
    for source in _FILES:
        document = read_settings(subject.tree, source)
        for name, entries in read_general_of(subject.tree, source).session.identity_links.items():
            for i, entry in enumerate(entries):
                who = split_link(entry)
                others = owners[who] - {name}
                if not who[0]:
                    said = f"{entry!a} matches nobody: an id stands behind its channel, as in telegram:123"
                elif others:
                    said = f"{entry!a} is linked to {min(others)!a}, too: neither counts"
                else:
                    continue
                line = document.line(*_SESSION, "identity_links", name, i)
                yield Diagnostic("identity-link", "warning", said, source, line)


def idle_resets(subject: Subject) -> Iterator[Diagnostic]:
    """H518: what a rule of resets says and nothing heeds."""
    merged = subject.general.session
    for source in _FILES:
        document = read_settings(subject.tree, source)
        for path, rule in reset_rules(read_general_of(subject.tree, source).session).items():
            for field, why in _idle(path, rule, merged):
                line = document.line(*_SESSION, *path, *([field] if field else []))
                yield Diagnostic("idle-reset", "warning", f"{'.'.join(path)}: {why}", source, line)


def _idle(path: tuple[str, ...], rule: ResetRule, merged: SessionSettings) -> Iterator[tuple[str, str]]:
    """Yield the fields of a rule that do nothing, and why."""
    types = merged.reset_by_type
    if path == ("reset_by_type", "dm") and types.direct is not None:
        yield "", "direct is there, too, and serves in its place"
        return
    policies = _policies(path, rule, merged)
    if rule.mode == "idle" and not policies[0][1].idle_minutes:
        yield "mode", "mode idle needs idle_minutes; without them no session ends"
    for field in ("at_hour", "idle_minutes", "time_zone"):
        value = getattr(rule, field)
        said = value is not None and (field, value) != ("idle_minutes", 0)
        if said and not any(_heeds(policy, field) for own, policy in policies if getattr(own, field) is None):
            yield field, f"{field} does nothing where mode is {policies[0][1].mode}"


def _policies(
    path: tuple[str, ...], rule: ResetRule, merged: SessionSettings
) -> list[tuple[ResetRule, ResetPolicy]]:
    """Return what the rule comes to, itself first, and then for each type that rests on it."""
    nothing, source = ResetRule(), ".".join(path)
    if path[0] == "reset_by_channel":
        return [(nothing, effective(rule, source))]
    if path[0] == "reset_by_type":
        return [(nothing, effective(over(merged.reset, rule), source))]
    own = [getattr(merged.reset_by_type, name) for name in ResetTypes.__struct_fields__]
    base = over(merged.reset, rule)
    return [(each, effective(over(base, each), source)) for each in (nothing, *filter(None, own))]


def _heeds(policy: ResetPolicy, field: str) -> bool:
    return policy.mode == "daily" or (field == "idle_minutes" and policy.mode == "idle")
