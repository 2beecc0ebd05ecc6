"""Reference pages that are written from the code, and links that must lead somewhere.

`make golden` rewrites the pages.
"""

import ast
import dataclasses
import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest
from nodewright_controller.scheduling.reasons import Reason

from stacks import config
from stacks.config import StackConfig, key_of
from tests import golden

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
SETTINGS_INTRO = """\
# Settings of a stack

Keys of `stacks/Pulumi.<stack>.yaml`, set with `pulumi config set nodewright:<key> <value>`.
A key that is misspelt, missing or of the wrong kind is refused before anything is made.
The region is Pulumi's own setting, `aws:region`.

| key | default | meaning |
|---|---|---|
"""
COMPONENTS_INTRO = """\
# Components

Names are those of the schema; in Python they are written `like_this`.
How the components fit together is told in [the architecture](../explanation/architecture.md).
"""


def field_docs(cls: type) -> dict[str, str]:
    """Return the text that stands under each field of a class."""
    body = ast.parse(inspect.getsource(cls)).body[0]
    assert isinstance(body, ast.ClassDef)
    docs: dict[str, str] = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
        ):
            docs[field.target.id] = one_line(str(text.value.value))
    return docs


def one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def default_of(field: "dataclasses.Field[Any]") -> str:
    if field.name in ("admins", "tags"):
        return "none"
    if field.default is dataclasses.MISSING:
        return "**required**"
    value = field.default
    if value in (None, (), ""):
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{', '.join(value)}`" if isinstance(value, tuple) else f"`{value}`"


def settings_page() -> str:
    docs = field_docs(StackConfig)
    rows = []
    for field in dataclasses.fields(StackConfig):
        _, _, rest = docs[field.name].partition("`")
        name, _, meaning = rest.partition("`")
        assert name == key_of(field.name)
        meaning = meaning.lstrip(":. ")
        assert meaning, f"{field.name} says nothing about itself"
        rows.append(f"| `{name}` | {default_of(field)} | {meaning[0].upper()}{meaning[1:]} |\n")
    return SETTINGS_INTRO + "".join(rows)


def type_of(member: dict[str, Any]) -> str:
    if "$ref" in member:
        return str(member["$ref"]).rsplit("/", 1)[-1].rsplit(":", 1)[-1]
    kind = str(member.get("type", "any"))
    if kind == "array":
        return f"list of {type_of(member['items'])}"
    if kind == "object":
        values = member.get("additionalProperties", {})
        return f"map of {type_of(values)}" if "$ref" in values or "type" in values else "map"
    return {"string": "text", "boolean": "true/false", "integer": "number"}.get(kind, kind)


def member_rows(members: dict[str, Any], required: list[str]) -> list[str]:
    ordered = sorted(members, key=lambda name: (name not in required, name))
    return [
        f"| `{name}`{' (required)' if name in required else ''} | {type_of(members[name])} "
        f"| {one_line(members[name].get('description', ''))} |\n"
        for name in ordered
    ]


REASONS_INTRO = """# Why a pod has no node

The controller says it in the `FailedScheduling` event and in its log; the line ends with a code.
`nodewright why pod NAMESPACE/NAME` shows the whole tree.
A code never changes its meaning; the sentence before it may get better.
The metric `nodewright_unschedulable_pods_total` counts by code.

A line reads `pod/NAMESPACE/NAME VERDICT: CAUSE (SCOPE) → FIX  [CODE]`.
Every check of every NodePool was made, and the nearest misses come first.
Pools that are not meant for the pod are only counted.
A fix is shown only if the same solver placed the pod after it.

- `blocked`: nothing that may be built fits.
- `starved`: it fits, but a limit or the stock says no.
- `held`: it waits for something that will come.
- `not ours`: somebody else decides.

"""


def components_page() -> str:
    schema = json.loads((golden.ROOT / "components" / "schema.json").read_text("utf-8"))
    parts = [COMPONENTS_INTRO]
    for token, component in sorted(schema["resources"].items()):
        parts.append(f"\n## {token.rsplit(':', 1)[-1]}\n\n")
        parts.append(f"{one_line(component['description'].split(chr(10) * 2)[0])}\n\n")
        parts.append("| argument | type | meaning |\n|---|---|---|\n")
        parts += member_rows(component["inputProperties"], component.get("requiredInputs", []))
        parts.append("\n| output | type | meaning |\n|---|---|---|\n")
        parts += member_rows(component["properties"], [])
    return "".join(parts)


def test_the_page_of_settings_says_what_the_code_says() -> None:
    golden.check_text("../../docs/reference/stack-settings.md", settings_page())
    assert set(config.KEYS) <= set(re.findall(r"\| `(\w+)` \|", settings_page()))


def test_the_page_of_components_says_what_the_schema_says() -> None:
    golden.check_text("../../docs/reference/components.md", components_page())


def reasons_page() -> str:
    parts = [REASONS_INTRO, "| code | verdict | cause |\n|---|---|---|\n"]
    for reason in sorted(Reason, key=lambda one: one.code):
        text = re.sub(r"\{(\w+)\}", r"*\1*", reason.template)
        parts.append(f"| {reason.code} | {reason.verdict} | {text} |\n")
    return "".join(parts)


def test_the_page_of_reasons_lists_every_code() -> None:
    golden.check_text("../../docs/reference/reasons.md", reasons_page())


def test_no_two_reasons_share_a_code() -> None:
    codes = [reason.code for reason in Reason]
    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
    relative = [target for target in targets if "://" not in target]
    missing = [target for target in relative if not (page.parent / target).exists()]
    assert missing == []


def test_every_setting_named_in_the_docs_exists() -> None:
    for page in PAGES:
        for key in re.findall(r"nodewright:([a-z]\w+)", page.read_text("utf-8")):
            assert key in config.KEYS or key in ("index",), f"{page.name} names nodewright:{key}"
