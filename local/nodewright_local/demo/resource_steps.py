"""How the engine's steps on resources look."""

from typing import Final

from nodewright_local.demo.screen import Waiting
from nodewright_local.engine import Phase, ResourceStep

MARKS: Final = {"create": "+", "delete": "-", "update": "~"}
KIND_WIDTH: Final = 42
GROUPINGS: Final = ("nodewright:", "pulumi:")


class InHand:
    """Keeps the line about what is waited for up to date with what the engine works on."""

    def __init__(self, text: str, waiting: Waiting) -> None:
        self._text = text
        self._waiting = waiting
        self._open: dict[str, str] = {}

    def see(self, step: ResourceStep) -> None:
        """Take one step of the engine."""
        if is_grouping(step.type) or step.planned:
            return
        if step.phase is Phase.STARTED:
            self._open[f"{step.operation} {step.urn}"] = f"{kind(step.type)} {step.name}"
        else:
            self._open.pop(f"{step.operation} {step.urn}", None)
        more = len(self._open) - 1
        first = next(iter(self._open.values()), None)
        suffix = f" and {more} more" if more > 0 else ""
        self._waiting.text = self._text if first is None else f"{self._text}: {first}{suffix}"


def is_grouping(type_token: str) -> bool:
    """Say whether a resource only holds others (a component, a provider, the stack)."""
    return type_token.startswith(GROUPINGS)


def kind(type_token: str) -> str:
    """Return a short name of a resource type: `aws:ec2/vpc:Vpc` is `aws.ec2.Vpc`."""
    package, module, name = type_token.split(":")
    group = module.split("/", 1)[0].split(".", 1)[0]
    return ".".join((package, group, name))


def resource_line(step: ResourceStep) -> str:
    """Return one line about a finished step."""
    mark = MARKS.get(step.operation, "±")
    failed = " FAILED" if step.phase is Phase.FAILED else ""
    return f"{mark} {kind(step.type):<{KIND_WIDTH}} {step.name} ({step.seconds:.1f} s){failed}"
