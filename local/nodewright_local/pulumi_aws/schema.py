"""What a resource type declares: its properties, and how AWS treats each of them.

The declarations are read by `checks` (what is accepted), `diff` (what changes, and whether in
place) and `lifecycle` (what a state contains). How AWS is called is up to the handler's methods.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from nodewright_local.pulumi_aws.aws import Aws
from nodewright_local.pulumi_aws.documents import canonical_json, canonical_policy
from nodewright_local.pulumi_aws.values import Values


class Shape(Enum):
    """What kind of value a property holds."""

    TEXT = "a string"
    NUMBER = "a number"
    FLAG = "a boolean"
    LIST = "a list"
    SET = "a list whose order means nothing"
    MAP = "a map of strings"
    OBJECT = "an object"


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """One property of a resource type."""

    shape: Shape = Shape.TEXT
    required: bool = False
    replaces: bool = False
    """A change needs a new resource."""
    computed: bool = False
    """AWS chooses a value when the program gives none, so its absence is never a change."""
    output: bool = False
    """Set by AWS alone; a program that sets it is refused."""
    write_only: bool = False
    """AWS never tells it back, so the state keeps what the program said."""
    secret: bool = False
    default: Any = None
    """What AWS takes an absent value for; None also stands for empty text, list and map."""
    choices: tuple[str, ...] = ()
    fields: Mapping[str, "Property"] | None = None
    """The properties of an object, or of each element of a list or set of objects."""
    canonical: Callable[[Any], object] | None = None
    """Maps a value to a form in which values that mean the same compare equal."""


def text(**options: Any) -> Property:
    """Return a string property."""
    return Property(shape=Shape.TEXT, **options)


def number(**options: Any) -> Property:
    """Return a number property."""
    return Property(shape=Shape.NUMBER, **options)


def flag(**options: Any) -> Property:
    """Return a boolean property; absent means false unless `default` says otherwise."""
    return Property(shape=Shape.FLAG, **{"default": False, **options})


def texts(**options: Any) -> Property:
    """Return a set of strings."""
    return Property(shape=Shape.SET, **options)


def mapping(**options: Any) -> Property:
    """Return a map of strings."""
    return Property(shape=Shape.MAP, **options)


def policy(**options: Any) -> Property:
    """Return an IAM or resource policy as JSON text."""
    return Property(shape=Shape.TEXT, canonical=canonical_policy, **options)


def json_text(**options: Any) -> Property:
    """Return JSON text that is compared by value."""
    return Property(shape=Shape.TEXT, canonical=canonical_json, **options)


def record(fields: Mapping[str, Property], **options: Any) -> Property:
    """Return an object property."""
    return Property(shape=Shape.OBJECT, fields=fields, **options)


def records(fields: Mapping[str, Property], **options: Any) -> Property:
    """Return a list of objects whose order means nothing."""
    return Property(shape=Shape.SET, fields=fields, **options)


def output(shape: Shape = Shape.TEXT, **options: Any) -> Property:
    """Return a property that AWS sets and a program only reads."""
    return Property(shape=shape, output=True, **options)


def regional(properties: Mapping[str, Property]) -> dict[str, Property]:
    """Add the `region` that every regional resource of pulumi-aws 7 has."""
    return {**properties, "region": text(computed=True, replaces=True)}


def tagged(properties: Mapping[str, Property]) -> dict[str, Property]:
    """Add `tags` and `tagsAll` (tags with the provider's default tags)."""
    return {**properties, "tags": mapping(), "tagsAll": output(Shape.MAP)}


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoName:
    """How a name is made up when the program gives none: logical name, dash, seven hex digits."""

    property: str = "name"
    max_length: int = 64
    prefix: str = ""
    suffix: Callable[[Values], str] = lambda _inputs: ""


class Resource(ABC):
    """A resource type: its declaration and the calls that make it so in AWS.

    Methods raise `AwsError`. `read` returns None for what is gone, and otherwise every declared
    property that AWS tells, in the form in which a program would write it.
    """

    token: ClassVar[str]
    properties: ClassVar[Mapping[str, Property]]
    identity: ClassVar[tuple[str, ...]] = ()
    """Properties of which AWS allows one combination at a time; while none of them changes, a
    replacement must delete first. Empty: old and new can live side by side."""
    autoname: ClassVar[AutoName | None] = None

    @abstractmethod
    def create(self, aws: Aws, inputs: Values) -> str:
        """Make the resource and return its id; leave waiting and extra settings to `settle`."""

    def settle(self, aws: Aws, ident: str, inputs: Values) -> None:  # noqa: B027  most need none
        """Finish a creation: wait until usable, apply what the create call cannot carry."""

    @abstractmethod
    def read(self, aws: Aws, ident: str, known: Values) -> Values | None:
        """Return the live properties; `known` is the last state (only the id's parts on import)."""

    def update(
        self, aws: Aws, ident: str, old: Values, new: Values, changed: frozenset[str]
    ) -> None:
        """Apply changed properties in place; never called for tags or replacing properties."""
        raise NotImplementedError(f"{self.token}: nothing but tags can change in place: {changed}")

    @abstractmethod
    def delete(self, aws: Aws, ident: str, state: Values) -> None:
        """Delete it and wait until it is gone; the caller takes "not found" for success."""

    def retag(
        self, aws: Aws, ident: str, state: Values, put: dict[str, str], drop: list[str]
    ) -> None:
        """Set and remove tags of the live resource."""
        raise NotImplementedError(f"{self.token} has no tags")

    def import_parts(self, aws: Aws, ident: str) -> tuple[str, Values]:
        """Split an id as a user gives it to `import` into the real id and what it tells."""
        return ident, {}
