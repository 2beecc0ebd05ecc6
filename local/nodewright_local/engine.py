"""Runs one Pulumi program through the real engine on the laptop, and tells what happens.

The program is a Python function, run in this process (the Automation API's inline program), so no
language host is needed. Decides how the engine's events become progress and a summary; which
environment leads to the cluster is `environment.py`'s matter, what the program builds is its own.
"""

import os
import re
import runpy
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from pulumi import automation
from pulumi.automation import events

Program = Callable[[], None]

_ENVIRONMENT_LOCK: Final = threading.RLock()
_UNCHANGED: Final = frozenset({"same", "read", "refresh", "discard-replaced"})
_LOGICAL: Final = frozenset({"replace", "read-replacement", "import-replacement"})
_COLOURS: Final = re.compile(r"<\{%.*?%\}>|\x1b\[[0-9;]*m")


class EngineError(Exception):
    """An operation of the engine failed; the message holds what it reported."""


class Phase(StrEnum):
    """Where an operation on one resource stands."""

    STARTED = "started"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceStep:
    """One operation on one resource."""

    urn: str
    type: str
    """Type token: `aws:ec2/vpc:Vpc`."""
    name: str
    """The resource's name in the program."""
    operation: str
    """The engine's word: create, update, delete, replace, create-replacement, refresh, …"""
    phase: Phase
    seconds: float = 0.0
    """How long it took; 0 when it has only started."""
    planned: bool = False
    """Only previewed: nothing is done."""
    properties: tuple[str, ...] = ()
    """Paths of the properties that differ, for updates and replacements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What an operation did, or would do."""

    changes: Mapping[str, int]
    """Operation to number of resources; `same` counts the unchanged."""
    seconds: float
    outputs: Mapping[str, Any] = field(default_factory=dict)
    """Stack outputs in plain values, secrets included; empty for previews and destroys."""
    steps: tuple[ResourceStep, ...] = ()
    """The finished (or planned) operations other than `same`, in the order of the events."""

    @property
    def changed(self) -> bool:
        """Say whether anything was, or would be, different."""
        return any(
            count and operation not in _UNCHANGED for operation, count in self.changes.items()
        )


OnStep = Callable[[ResourceStep], None]
OnMessage = Callable[[str, str], None]
"""Called with severity (info, warning, error) and text of each message that is meant to stay."""


class PulumiEngine:
    """One stack of one project, run by the engine that `environment["PATH"]` leads to."""

    def __init__(
        self,
        *,
        stack: str,
        program: Program,
        project_dir: Path,
        environment: Mapping[str, str],
        on_step: OnStep | None = None,
        on_message: OnMessage | None = None,
    ) -> None:
        """Remember the parts; the stack is made by the first operation.

        `project_dir` holds Pulumi.yaml and the stack files. `environment` is a whole process
        environment (`environment.clean_environment(state)`); for the time of an operation it takes
        the place of this process's own, since the program runs in here.
        """
        self._stack_name = stack
        self._program = program
        self._project_dir = project_dir
        self._environment = {
            "PULUMI_SKIP_UPDATE_CHECK": "1",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            **environment,
        }
        self._on_step = on_step
        self._on_message = on_message

    def up(self, *, refresh: bool = False) -> Outcome:
        """Make the stack what the program says; raises `EngineError`."""
        return self._run("up", refresh=refresh)

    def preview(self, *, refresh: bool = False) -> Outcome:
        """Tell what `up` would do; raises `EngineError`."""
        return self._run("preview", refresh=refresh)

    def refresh(self) -> Outcome:
        """Read every resource again and record what changed outside; raises `EngineError`."""
        return self._run("refresh")

    def destroy(self, *, remove: bool = False) -> Outcome:
        """Delete every resource, and with `remove` the stack's record too."""
        return self._run("destroy", remove=remove)

    def outputs(self) -> dict[str, Any]:
        """Return the stack's outputs of the last `up`."""
        with self._engine() as stack:
            return {name: output.value for name, output in stack.outputs().items()}

    def set_config(self, values: Mapping[str, str]) -> None:
        """Write stack configuration (`project:key` or `provider:key`)."""
        with self._engine() as stack:
            for key, value in values.items():
                stack.set_config(key, automation.ConfigValue(value=value))

    def _run(self, operation: str, **options: bool) -> Outcome:
        watch = _Watch(
            planned=operation == "preview", on_step=self._on_step, on_message=self._on_message
        )
        begun = time.monotonic()
        with self._engine() as stack:
            try:
                result = getattr(stack, operation)(
                    on_event=watch.see, color="never", suppress_progress=True, **options
                )
            except automation.CommandError as error:
                raise EngineError(watch.explain(operation, error)) from error
        outputs = getattr(result, "outputs", None) or {}
        return Outcome(
            changes=dict(watch.changes),
            seconds=time.monotonic() - begun,
            outputs={name: output.value for name, output in outputs.items()},
            steps=tuple(watch.finished),
        )

    @contextmanager
    def _engine(self) -> Iterator[automation.Stack]:
        with _environment(self._environment):
            try:
                stack = automation.create_or_select_stack(
                    self._stack_name,
                    program=self._program,
                    project_name=_project_name(self._project_dir),
                    opts=automation.LocalWorkspaceOptions(work_dir=str(self._project_dir)),
                )
            except automation.CommandError as error:
                raise EngineError(
                    f"cannot open stack {self._stack_name!r} in {self._project_dir}: {error}"
                ) from error
            yield stack


def program_from(path: Path) -> Program:
    """Return the program in a file or a folder with `__main__.py`, run afresh each time."""
    source = path / "__main__.py" if path.is_dir() else path
    if not source.is_file():
        raise EngineError(f"no program at {source}")

    def run() -> None:
        sys.path.insert(0, str(source.parent))
        try:
            runpy.run_path(str(source), run_name="__main__")
        finally:
            sys.path.remove(str(source.parent))

    return run


class _Watch:
    """Turns the engine's events into steps, messages and a summary."""

    def __init__(
        self, *, planned: bool, on_step: OnStep | None, on_message: OnMessage | None
    ) -> None:
        self.changes: Counter[str] = Counter()
        self.finished: list[ResourceStep] = []
        self._planned = planned
        self._on_step = on_step
        self._on_message = on_message
        self._begun: dict[str, float] = {}
        self._errors: list[str] = []

    def see(self, event: events.EngineEvent) -> None:
        """Take one event. Called from the Automation API's reading thread, one at a time."""
        if event.resource_pre_event:
            self._started(event.resource_pre_event)
        elif event.res_outputs_event:
            self._ended(event.res_outputs_event.metadata, Phase.DONE)
        elif event.res_op_failed_event:
            self._ended(event.res_op_failed_event.metadata, Phase.FAILED)
        elif event.diagnostic_event:
            self._message(event.diagnostic_event)
        elif event.summary_event:
            self.changes = Counter(
                {
                    str(getattr(op, "value", op)): count
                    for op, count in (event.summary_event.resource_changes or {}).items()
                }
            )

    def explain(self, operation: str, error: Exception) -> str:
        """Return what went wrong in the engine's words."""
        details = "\n".join(dict.fromkeys(self._errors)) or _COLOURS.sub("", str(error)).strip()
        return f"pulumi {operation} failed:\n{details}"

    def _started(self, event: events.ResourcePreEvent) -> None:
        meta = event.metadata
        self._begun[_key(meta)] = time.monotonic()
        step = self._step(meta, Phase.STARTED, 0.0)
        if step.operation == "same":
            return
        if self._planned:
            self.finished.append(step)
        self._tell(step)

    def _ended(self, meta: events.StepEventMetadata, phase: Phase) -> None:
        begun = self._begun.pop(_key(meta), None)
        step = self._step(meta, phase, 0.0 if begun is None else time.monotonic() - begun)
        if step.operation == "same" or self._planned or begun is None:
            return
        self.finished.append(step)
        self._tell(step)

    def _step(self, meta: events.StepEventMetadata, phase: Phase, seconds: float) -> ResourceStep:
        return ResourceStep(
            urn=meta.urn,
            type=meta.type,
            name=meta.urn.rsplit("::", 1)[-1],
            operation=str(getattr(meta.op, "value", meta.op)),
            phase=phase,
            seconds=seconds,
            planned=self._planned,
            properties=tuple(sorted(meta.detailed_diff or meta.diffs or ())),
        )

    def _tell(self, step: ResourceStep) -> None:
        if self._on_step is not None and step.operation not in _LOGICAL:
            self._on_step(step)

    def _message(self, event: events.DiagnosticEvent) -> None:
        words = _COLOURS.sub("", event.message).strip()
        if not words or event.ephemeral or words.startswith("using pulumi-"):
            return  # "using pulumi-resource-aws from $PATH" is what this laptop is meant to do
        if event.severity == "error":
            subject = f"{event.urn.rsplit('::', 1)[-1]}: " if event.urn else ""
            self._errors.append(f"{subject}{words}")
        if self._on_message is not None and event.severity != "debug":
            self._on_message(event.severity, words)


def _key(meta: events.StepEventMetadata) -> str:
    return f"{meta.urn} {getattr(meta.op, 'value', meta.op)}"


def _project_name(project_dir: Path) -> str:
    """Return the project's name; the Automation API wants it beside Pulumi.yaml."""
    for name in ("Pulumi.yaml", "Pulumi.yml"):
        if (project_dir / name).is_file():
            settings = automation.LocalWorkspace(work_dir=str(project_dir)).project_settings()
            return str(settings.name)
    raise EngineError(f"no Pulumi.yaml in {project_dir}")


@contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """Put an environment in the place of this process's own for a while."""
    with _ENVIRONMENT_LOCK:
        before = dict(os.environ)
        os.environ.clear()
        os.environ.update(wanted)
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)
