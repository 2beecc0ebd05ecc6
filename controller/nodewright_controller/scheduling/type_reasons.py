"""Why a node is of its instance type: one code per cause, which never changes its meaning.

The codes beside those of pods (`scheduling.reasons`). Several may hold at once; the order of the
members is the order in which the foremost is told. T107 is kept for commitments.
"""

from __future__ import annotations

import enum


class TypeVerdict(enum.StrEnum):
    """Who or what decided."""

    CHOSEN = "chosen"
    """We did, by price and rules."""
    CHOSEN_BY_EC2 = "chosen by EC2"
    """EC2 did, among what we offered."""
    FORCED = "forced"
    """Nobody: only one type would do."""
    FALLBACK = "fallback"
    """The stock did: better ones were sold out."""


class TypeReason(enum.Enum):
    """A cause: code, verdict, message template, and for the reference what it means and what to do.

    `what` is type, capacity type, zone and price; `more` is what the cause costs.
    """

    RESERVED = (
        "T108",
        TypeVerdict.CHOSEN,
        "{what} from reservation {reservation}",
        "A capacity reservation had room, and what is paid for anyway comes first.",
        "Nothing; `capacityReservationSelectorTerms` of the EC2NodeClass says which are used.",
    )
    EC2_DEPTH = (
        "T106",
        TypeVerdict.CHOSEN_BY_EC2,
        "{what}, {rank} cheapest of {count} offers, {more} {why}",
        "EC2 was offered several ways and did not take the cheapest. For Spot it weighs the price"
        " against how much spare capacity there is, so that the node is less likely interrupted.",
        "Nothing, if interruptions cost more than the difference; else allow fewer of the dear"
        " types in the NodePool's requirements.",
    )
    MIN_VALUES = (
        "T104",
        TypeVerdict.CHOSEN,
        "minValues on {keys} keeps dearer spot: {what}, {more} over on-demand",
        "The NodePool asks for a minimum of different values, so offers that would be dropped for"
        " their price were kept, and the capacity type that comes first has only such.",
        "Lower `minValues` in the NodePool, or allow more types that meet it.",
    )
    OUT_OF_STOCK = (
        "T105",
        TypeVerdict.FALLBACK,
        "{short} was out of stock in {zone} until {until}",
        "A cheaper way to get the node was refused by EC2 for want of capacity, and is not tried"
        " again for a few minutes.",
        "Allow more types, zones or capacity types, so that the next best is closer in price.",
    )
    WEIGHT = (
        "T103",
        TypeVerdict.CHOSEN,
        "pool {pool} outweighs cheaper pool {lighter}: {what}, {more}",
        "NodePools are tried by weight, and one with less weight would have made cheaper nodes"
        " for the same pods; the solver has tried it.",
        "Give the cheaper NodePool more weight, or both the same.",
    )
    FORCED = (
        "T102",
        TypeVerdict.FORCED,
        "{what} is the only instance type that does",
        "No other type meets the requirements of NodePool and pods and is large enough.",
        "Allow more types in the NodePool, or ask for less in the pods.",
    )
    CHEAPEST = (
        "T101",
        TypeVerdict.CHOSEN,
        "{what} is the cheapest of {count}",
        "Of all that meets the requirements and is large enough it has the lowest price.",
        "Nothing.",
    )

    def __init__(
        self, code: str, verdict: TypeVerdict, template: str, meaning: str, cure: str
    ) -> None:
        self.code = code
        self.verdict = verdict
        self.template = template
        self.meaning = meaning
        self.cure = cure
