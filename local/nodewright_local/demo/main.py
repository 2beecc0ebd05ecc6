"""What `nodewright local demo` does, given its options."""

import os
from collections.abc import Mapping
from pathlib import Path

from nodewright_local.demo.screen import Screen
from nodewright_local.demo.stack import find_checkout
from nodewright_local.demo.story import show_timings, tell
from nodewright_local.demo.walkthrough import Walkthrough
from nodewright_local.progress import Progress
from nodewright_local.toolbox import all_tools, ensure


def demo_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the demo's own state directory, beside that of `nodewright local up`."""
    base = environ.get("XDG_STATE_HOME")
    root = Path(base) if base else Path.home() / ".local" / "state"
    return root / "nodewright" / "demo"


def run_demo(
    directory: Path,
    *,
    project: Path | None = None,
    keep: bool = False,
    screen: Screen | None = None,
) -> int:
    """Tell the whole story and return an exit status.

    Raises EngineError without a checkout, ToolError when a binary can be neither found nor built.
    """
    screen = screen or Screen()
    checkout = find_checkout(project)
    progress: Progress = screen
    ensure(all_tools(), progress)
    story = Walkthrough(directory, checkout, screen)
    status, timings = tell(story.steps(keep=keep), directory, screen)
    if timings:
        show_timings(timings, screen)
    if story.figures:
        screen.title("Measured (the API server cuts its timestamps to whole seconds)")
        screen.table(("", ""), story.figures, right=1)
    if status == 0 and keep:
        screen.title("Everything is left running")
        screen.command(f'eval "$(nodewright local env --dir {directory})"')
        screen.command(f"nodewright local down --dir {directory}")
    return status
