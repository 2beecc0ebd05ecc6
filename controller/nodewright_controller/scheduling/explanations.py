"""Explanations as values: what the API sends, what `nodewright why` reads back and prints.

They are Structs rather than dataclasses because they cross the wire: camelCase there, unknown fields
skipped, missing ones as their defaults, so that a command and a controller of different age
understand each other. How they come about is in `pod_why` and `type_choice`; how they read as text,
in `why_text`.
"""

from __future__ import annotations

from datetime import datetime

import msgspec


class _Value(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """Base: camelCase on the wire, nothing left out."""


class Fitting(_Value, frozen=True, kw_only=True):
    """How many nodes would take the pod, and what the others lack."""

    fit: int
    """Those with everything that can be seen on a node by itself."""
    total: int
    lacking: dict[str, int] = {}
    """What is in the way, to the number of nodes it is in the way of first; most frequent first."""
    nearest: str = ""
    """The node that lacks least of a resource, and how much."""


class PoolAnswer(_Value, frozen=True, kw_only=True):
    """What one pool says."""

    name: str
    """The NodePool."""
    misses: tuple[str, ...] = ()
    """Empty: it can make a node for the pod, or was not asked."""
    codes: tuple[str, ...] = ()
    """The codes of the misses, each once."""
    meant: bool = True
    """Whether the pool is for pods like this at all."""


class PodExplanation(_Value, frozen=True, kw_only=True):
    """The answer to `why pod`."""

    pod: str
    """`namespace/name`."""
    verdict: str
    """`blocked`, `starved`, `held`, `coming`, `placed` or `not ours`."""
    code: str
    """The reason; its meaning never changes."""
    line: str
    """All of it in one line."""
    as_of: datetime
    """When it was looked at."""
    since: datetime | None = None
    """Since when this code has held; null where nobody keeps count."""
    evaluated: int = 0
    """How many rounds in a row have come to this code; 0 where nobody keeps count."""
    look_by: datetime | None = None
    """By when it is looked at again at the latest; null when it is not."""
    node: str = ""
    """The node that it is on, or will be on."""
    node_claim: str = ""
    """The NodeClaim that is made for it."""
    needs: tuple[str, ...] = ()
    """Amounts first, then rules, one text each."""
    nodes: Fitting | None = None
    """Nodes that have joined; null where none was asked."""
    coming: Fitting | None = None
    """Nodes that have not joined yet; null where none was asked."""
    pools: tuple[PoolAnswer, ...] = ()
    """Nearest misses first."""
    fixes: tuple[str, ...] = ()
    """Changes of which the solver has proven that each by itself places the pod."""
    following: str = msgspec.field(default="", name="next")
    """What is awaited, where something is; or that no small change helps."""


class OfferView(_Value, frozen=True, kw_only=True):
    """One way to buy an instance type."""

    rank: int
    """1 is the cheapest that was offered."""
    instance_type: str
    zone: str
    capacity_type: str
    """`reserved`, `spot` or `on-demand`."""
    usd_per_hour: float | None
    chosen: bool = False


class OutOfStock(_Value, frozen=True, kw_only=True):
    """A way that would have been cheaper, and was out of stock."""

    instance_type: str
    zone: str
    capacity_type: str
    usd_per_hour: float
    until: datetime
    """Until when it is not tried again."""


class Funnel(_Value, frozen=True, kw_only=True):
    """How many instance types each step leaves."""

    types: int
    """All that there are."""
    meet: int
    """Of these, those that meet the requirements."""
    large_enough: int
    """Of these, those that hold what is asked for."""
    in_stock: int
    """Of these, those that can be had now."""
    listed: int
    """Those that the claim names."""


class TypeExplanation(_Value, frozen=True, kw_only=True):
    """The answer to `why type`."""

    node_claim: str
    """The NodeClaim's name."""
    verdict: str
    """`chosen`, `chosen by EC2`, `fallback` or `forced`."""
    code: str
    """The foremost reason; its meaning never changes."""
    line: str
    """All of it in one line."""
    as_of: datetime
    """When it was decided; for one that was replayed, when that was."""
    replayed: bool = False
    """Whether it was worked out anew from the claim, with the stock and the prices of now."""
    node_pool: str
    """The NodePool that it is of."""
    pods: int = 0
    """How many pods it was made for; 0 when nobody knows any more."""
    instance_type: str
    """What was launched; before the launch, what is expected."""
    zone: str = ""
    capacity_type: str = ""
    """`reserved`, `spot` or `on-demand`."""
    usd_per_hour: float | None = None
    """Null: nobody knows the price."""
    least_usd_per_hour: float | None = None
    """The cheapest that was offered."""
    most_usd_per_hour: float | None = None
    """The dearest that was offered: what it might have cost."""
    more_usd_per_hour: float = 0.0
    """What the reason costs: the difference to what would have been without it."""
    offered: int = 0
    """How many ways (type and zone) EC2 could choose from."""
    ranking: tuple[OfferView, ...] = ()
    """The cheapest, and the one that was chosen."""
    out_of_stock: tuple[OutOfStock, ...] = ()
    """What would have been cheaper, and could not be had."""
    also: tuple[str, ...] = ()
    """Further reasons that hold, with their codes."""
    asked: tuple[str, ...] = ()
    """Amounts first, then rules, one text each."""
    funnel: Funnel | None = None
    """Counts of types as they are now; null where they are not known."""


Explanation = PodExplanation | TypeExplanation


def one_line(
    subject: str, verdict: str, cause: str, *, code: str = "", scope: str = "", following: str = ""
) -> str:
    """Return a line in the grammar `SUBJECT VERDICT: CAUSE (SCOPE) → NEXT  [CODE]`."""
    scope = f" ({scope})" if scope else ""
    following = f" → {following}" if following else ""
    code = f"  [{code}]" if code else ""
    return f"{subject} {verdict}: {cause}{scope}{following}{code}"
