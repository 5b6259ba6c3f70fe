"""The numbers of the rules. Each has a section in docs/reference/diagnostics.md: why, example, fix.

The hundreds say what a rule is about: 1 texts that do not compile or are not what they seem, 2 skills,
3 instruction files and context files, 4 names and links, 5 agents and settings, 6 cost, 7 safety.
"""

from typing import NamedTuple

from halo.records.diagnostics import Severity


class Rule(NamedTuple):
    """A rule: its number for suppressions and reports, its code in diagnostics, and what it says."""

    number: str
    code: str
    severity: Severity
    title: str


_RULES = (
    Rule("H101", "does-not-compile", "error", "a layer is broken, so a prompt cannot be compiled"),
    Rule("H102", "placeholder-literal", "warning", "a placeholder names nothing and stays as it is written"),
    Rule("H103", "prompts-missing", "warning", "a prompt folder exists in no scope"),
    Rule("H104", "unclosed-front-matter", "warning", "a file begins as front matter does and never ends it"),
    Rule("H105", "unused-suppression", "info", "a remark switches off a rule that says nothing there"),
    Rule("H106", "prompts-unreadable", "warning", "a prompt folder cannot be read, so the next scope serves"),
    Rule("H107", "few-shot-file", "warning", "a file among the few-shots is not one"),
    Rule("H108", "few-shots-left-out", "info", "few-shots are left out of a prompt"),
    Rule("H109", "unknown-suppression", "warning", "a remark is meant to switch a rule off and does not"),
    Rule("H201", "skill-without-description", "warning", "a model cannot know when to use a skill"),
    Rule("H202", "skill-resources", "warning", "a skill has more files than its list names"),
    Rule("H203", "skill-front-matter", "warning", "front matter is read in another way than it is written"),
    Rule("H204", "skill-file-name", "warning", "the file of a skill is not called SKILL.md"),
    Rule("H205", "skill-skipped", "warning", "a skill cannot be read and is left out"),
    Rule("H206", "skill-shadowed", "warning", "a skill of the same name comes first"),
    Rule("H207", "skill-name", "warning", "a skill's name breaks the specification"),
    Rule("H208", "skill-description", "warning", "a skill's description is too long"),
    Rule("H209", "skill-keys", "warning", "a key of the front matter is not in the specification"),
    Rule("H210", "skill-value", "warning", "a value of the front matter breaks the specification"),
    Rule("H211", "skill-length", "info", "a skill's body is longer than recommended"),
    Rule("H212", "skill-link", "warning", "a link in a skill leads to no file of it"),
    Rule("H213", "skill-command", "warning", "a skill has the name of one of Halo's own commands"),
    Rule("H301", "context-truncated", "warning", "a context file is shortened"),
    Rule("H302", "path-scoped-rules", "info", "rules for some paths only stay out of the prompt"),
    Rule("H303", "instruction-duplicate", "info", "two instruction files say the same; one is taken"),
    Rule("H304", "instruction-export", "info", "an exported file is not read back"),
    Rule("H305", "instruction-unreadable", "warning", "an instruction file cannot be read"),
    Rule("H306", "instruction-limit", "warning", "instruction files beyond a limit are left out"),
    Rule("H307", "import-refused", "warning", "an import leads nowhere, or where it may not"),
    Rule("H308", "import-cycle", "warning", "imports go in a circle"),
    Rule("H309", "context-file-missing", "warning", "the settings name a context file that is not there"),
    Rule("H401", "case-collision", "error", "two names are one where case is ignored"),
    Rule("H402", "broken-link", "warning", "a link in INDEX.md leads nowhere"),
    Rule("H403", "unusable-name", "warning", "a folder or file has a name that nothing can use"),
    Rule("H404", "too-many-directories", "warning", "the search for rules of directories stops early"),
    Rule("H405", "closed-directory", "warning", "a directory may not be looked into"),
    Rule("H406", "submodule-left-out", "warning", "a submodule is not looked into"),
    Rule("H501", "unused-agent", "info", "an agent is on no team"),
    Rule("H502", "unused-skill", "warning", "no agent lists a skill"),
    Rule("H503", "unclaimed-value", "warning", "a value of the settings belongs to nobody that is there"),
    Rule("H504", "undeclared-value", "info", "a value of the settings is not declared"),
    Rule("H505", "unfit-value", "error", "a value does not fit its declaration"),
    Rule("H506", "agent-without-text", "warning", "an agent has neither AGENT.md nor system_prompt"),
    Rule("H507", "agent-without-description", "warning", "an agent does not say what it is for"),
    Rule("H508", "unknown-model", "info", "the catalogue does not have a model"),
    Rule("H509", "unknown-alias", "error", "a profile names an alias that does not exist"),
    Rule("H510", "profile-without-agent", "warning", "a profile names an agent that does not exist"),
    Rule("H511", "broken-catalogue", "error", "a model catalogue cannot be read"),
    Rule("H512", "unread-catalogue", "warning", "nothing reads a file among the catalogues"),
    Rule("H513", "tool-without-images", "info", "a tool for pictures is left out: the model sees none"),
    Rule("H514", "idle-policy-rule", "warning", "a rule of a policy never matches a call"),
    Rule("H515", "mcp-tool-adapted", "info", "a tool of an MCP server is told otherwise than it is locked"),
    Rule("H516", "shared-direct-scope", "warning", "direct messages of several senders share a session"),
    Rule("H517", "identity-link", "warning", "an identity link matches nobody, or two people"),
    Rule("H518", "idle-reset", "warning", "a rule of resets says what nothing heeds"),
    Rule("H519", "unfit-endpoint", "error", "an endpoint is no address that a request can be sent to"),
    Rule("H601", "volatile-prefix", "warning", "a slot ends the cached prefix early"),
    Rule("H602", "below-cache-minimum", "info", "a prompt is too short for its provider to cache"),
    Rule("H603", "repeated-text", "warning", "two layers say the same"),
    Rule("H604", "over-budget", "error", "a prompt has more tokens than --budget allows"),
    Rule("H701", "hidden-characters", "error", "a layer holds characters that nobody sees"),
    Rule("H702", "secret-in-layer", "error", "a layer holds what looks like a credential"),
    Rule("H703", "committed-secret", "error", "the workspace's settings hold a secret literally"),
)

RULES = {rule.code: rule for rule in _RULES}


def rule_called(name: str) -> Rule | None:
    """Find a rule by its number or its code, in upper or lower case; None where there is none."""
    return next((r for r in _RULES if name.upper() == r.number or name.lower() == r.code), None)
