"""Computing without garbage collection in between.

A solve makes many small objects that all live until its end; walking them again and again costs a
third of the time and frees nothing. Reference counting goes on; cycles are collected afterwards.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_lock = threading.Lock()
_running = 0


def undisturbed(function: Callable[P, R], /, *arguments: P.args, **named: P.kwargs) -> R:
    """Return what the function returns; no cycle is collected while any such call runs."""
    _enter()
    try:
        return function(*arguments, **named)
    finally:
        _leave()


def _enter() -> None:
    global _running
    with _lock:
        if _running == 0:
            gc.disable()
        _running += 1


def _leave() -> None:
    global _running
    with _lock:
        _running -= 1
        if _running == 0:
            gc.enable()
