"""Which loop runs: metrics of what many loops share tell by it who asked.

Tasks and threads that a loop starts inherit it.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

CONTROLLER: Final[ContextVar[str]] = ContextVar("controller", default="")
"""Name of the loop, as `supervise.run_all` was told it; empty outside of any."""
