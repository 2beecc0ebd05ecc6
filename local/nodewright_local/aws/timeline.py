"""Things that happen later: one thread that runs due actions in order.

Due times are monotonic, so a process that was stopped for a minute (SIGSTOP) catches up at once
and loses nothing. Actions run under the world's lock, one after the other.
"""

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

log = logging.getLogger(__name__)

Action = Callable[[], object]
"""What it returns is of no interest."""


class Timeline:
    """A queue of delayed actions with its own thread."""

    def __init__(self, lock: AbstractContextManager[object]) -> None:
        self._lock = lock
        self._due: list[tuple[float, int, Action]] = []
        self._order = itertools.count()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="timeline", daemon=True)
        self._thread.start()

    def after(self, seconds: float, action: Action) -> None:
        """Run `action` once, `seconds` from now; an error in it is logged and goes no further."""
        with self._changed:
            heapq.heappush(self._due, (time.monotonic() + seconds, next(self._order), action))
            self._changed.notify()

    def close(self) -> None:
        """Drop what is still due and end the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _next(self) -> Action | None:
        with self._changed:
            while not self._closed:
                if not self._due:
                    self._changed.wait()
                    continue
                wait = self._due[0][0] - time.monotonic()
                if wait <= 0:
                    return heapq.heappop(self._due)[2]
                self._changed.wait(wait)
            return None

    def _run(self) -> None:
        while (action := self._next()) is not None:
            try:
                with self._lock:
                    action()
            except Exception:
                log.exception("a delayed action failed")
