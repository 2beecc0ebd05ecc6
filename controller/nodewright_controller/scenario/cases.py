"""One case: a folder with a world and the outcome it must have."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nodewright_controller.scenario.compare import Difference, differences
from nodewright_controller.scenario.files import (
    EXPECTED,
    INPUT,
    FilesError,
    read_expected,
    read_folder,
)
from nodewright_controller.scenario.loading import load_world
from nodewright_controller.scenario.outcome import Outcome
from nodewright_controller.scenario.runner import run


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What came of a case."""

    name: str
    differences: tuple[Difference, ...]

    @property
    def passed(self) -> bool:
        """Whether every key holds."""
        return not self.differences

    @property
    def line(self) -> str:
        """The one line about it: `ok  NAME` or `FAIL NAME: key: what differed; …`."""
        if self.passed:
            return f"ok  {self.name}"
        return f"FAIL {self.name}: {'; '.join(map(str, self.differences))}"


def case_folders(folder: Path) -> list[Path]:
    """Return the folder itself if it is a case, else the cases right below it, by name."""
    if (folder / INPUT).is_file() or (folder / EXPECTED).is_file() or not folder.is_dir():
        return [folder]
    return sorted(found.parent for found in folder.glob(f"*/{INPUT}")) or [folder]


def check_case(folder: Path) -> Checked:
    """Run a case and compare; a case that cannot be read has failed, with the reason."""
    name = folder.resolve().name
    try:
        expected = read_expected(folder)
        world = load_world(read_folder(folder))
    except FilesError as error:
        return Checked(name=name, differences=(Difference("files", str(error)),))
    outcome = run(world, expected)
    return Checked(name=name, differences=differences(expected, outcome))


def run_folder(folder: Path) -> Outcome:
    """Run the scenario of a folder, whatever it must come to.

    Raises:
        FilesError: there is nothing to run.

    """
    return run(load_world(read_folder(folder)))
