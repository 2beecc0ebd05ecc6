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

import msgspec
import pytest
from nodewright_controller.scheduling.explanations import (
    Fitting,
    Funnel,
    OfferView,
    OutOfStock,
    PodExplanation,
    PoolAnswer,
    TypeExplanation,
)
from nodewright_controller.scheduling.reason_guide import GUIDE
from nodewright_controller.scheduling.reasons import Reason
from nodewright_controller.scheduling.type_reasons import TypeReason

from stacks import config
from stacks.config import StackConfig, key_of
from tests import golden
from tests.scheduling.choices import EXAMPLES
from tests.scheduling.reason_moments import EXAMPLES as MOMENTS

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


REASONS_INTRO = """# Reasons

The controller gives a reason for every pod without a node, and for the instance type of every node.
A code never changes its meaning; the sentence before it may get better.
How to ask: [`nodewright why`](why.md).

## Why a pod has no node

The controller says it in the `FailedScheduling` event and in its log; the line ends with a code.
`nodewright why pod NAMESPACE/NAME` shows the whole tree.
The metric `nodewright_unschedulable_pods_total` counts by code.

A line reads `pod/NAMESPACE/NAME VERDICT: CAUSE (SCOPE) → FIX  [CODE]`.
Every check of every NodePool was made, and the nearest misses come first.
Pools that are not meant for the pod are only counted.
A fix is shown only if the same solver placed the pod after it.

- `blocked`: nothing that may be built fits.
- `starved`: it fits, but a limit or the stock says no.
- `held`: it waits for something that will come.
- `coming`: a node for it is on its way, or is there and not used yet.
- `placed`: it has a node.
- `not ours`: somebody else decides.

`nodewright why code P203` prints what is said here about a code.

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


TYPES_INTRO = """
## Why a node is of its instance type

The controller says it in the log line `launched nodeclaim`, under `code` and `reason`.
Where the node costs more than it might, an event `InstanceTypeChosen` on the NodeClaim says it too.
`nodewright why type NODECLAIM` shows the whole tree, with the offers by price.
The metric `nodewright_nodeclaims_launched_total` counts by code.

A line reads `claim/NAME VERDICT: CAUSE (PODS) → RESULT  [CODE]`, and `+$` is what the cause costs an hour.
Where several causes hold, the first in this list is told, and the tree has the others.

- `chosen`: by price and by your rules.
- `chosen by EC2`: EC2 took one of several that it was offered.
- `fallback`: better ones were out of stock.
- `forced`: only one type would do.
"""


def slot_names(template: str) -> str:
    return re.sub(r"\{(\w+)\}", r"*\1*", template)


def sentences(text: str) -> str:
    """Return the text with one sentence per line."""
    return text.replace(". ", ".\n")


def reasons_page() -> str:
    ordered = sorted(Reason, key=lambda one: one.code)
    parts = [REASONS_INTRO, "| code | verdict | cause |\n|---|---|---|\n"]
    parts += [
        f"| [{reason.code}](#{reason.code.lower()}) | {reason.verdict} "
        f"| {slot_names(reason.template)} |\n"
        for reason in ordered
    ]
    for reason in ordered:
        guide = GUIDE[reason]
        parts.append(
            f"\n### {reason.code}\n\n`{reason.verdict}`: {slot_names(reason.template)}\n\n"
        )
        parts.append(f"{sentences(guide.cause)}\n\nWhere to look: {sentences(guide.check)}\n\n")
        parts.append(f"What to do: {sentences(guide.cure)}\n\n")
        parts.append(f"```text\n{MOMENTS[reason]().line}\n```\n")
    parts.append(TYPES_INTRO)
    for found in TypeReason:
        parts.append(f"\n### {found.code}\n\n`{found.verdict}`: {slot_names(found.template)}\n\n")
        parts.append(f"{sentences(found.meaning)}\n\nWhat to do: {sentences(found.cure)}\n\n")
        parts.append(f"```text\n{EXAMPLES[found]().line}\n```\n")
    return "".join(parts)


WHY_PAGE = ROOT / "docs" / "reference" / "why.md"
WHY_FIELDS = "\n### A pod\n"
"""Where the written part of the page ends, and that about fields begins."""


def kind_of(annotation: str) -> str:
    words = {"str": "text", "int": "number", "float": "number", "bool": "true/false"}
    plain = annotation.removesuffix(" | None")
    inner = re.sub(r"^tuple\[(.*), \.\.\.\]$", r"\1", plain)
    name = words.get(inner, {"datetime": "instant", "dict[str, int]": "map"}.get(inner, inner))
    listed = f"list of {name}" if inner != plain else name
    return f"{listed} or null" if plain != annotation else listed


def fields_of(cls: type[msgspec.Struct]) -> str:
    docs = field_docs(cls)
    rows = ["| field | type | meaning |\n|---|---|---|\n"]
    for field in msgspec.structs.fields(cls):
        kind = kind_of(cls.__annotations__[field.name])
        rows.append(f"| `{field.encode_name}` | {kind} | {one_line(docs.get(field.name, ''))} |\n")
    return "".join(rows)


EXPLAINED: dict[str, tuple[type[msgspec.Struct], ...]] = {
    "A pod": (PodExplanation, Fitting, PoolAnswer),
    "An instance type": (TypeExplanation, OfferView, OutOfStock, Funnel),
}


def why_page() -> str:
    written, _, _ = WHY_PAGE.read_text("utf-8").partition(WHY_FIELDS)
    parts = [written]
    for title, (whole, *pieces) in EXPLAINED.items():
        parts.append(f"\n### {title}\n\n{fields_of(whole)}")
        parts += [f"\n`{piece.__name__}`:\n\n{fields_of(piece)}" for piece in pieces]
    return "".join(parts)


def test_the_page_of_why_describes_every_field() -> None:
    golden.check_text("../../docs/reference/why.md", why_page())


def test_the_page_of_reasons_lists_every_code() -> None:
    golden.check_text("../../docs/reference/reasons.md", reasons_page())


def test_every_code_has_an_anchor_of_its_own() -> None:
    headings = re.findall(r"^### (.+)$", reasons_page(), flags=re.MULTILINE)

    assert headings == [
        *sorted(reason.code for reason in Reason),
        *(reason.code for reason in TypeReason),
    ]
    assert set(re.findall(r"\]\(#(\w+)\)", reasons_page())) <= {one.lower() for one in headings}


def test_no_two_reasons_share_a_code() -> None:
    codes = [reason.code for reason in (*Reason, *TypeReason)]
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
