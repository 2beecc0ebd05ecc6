"""Many small requests in one call: collect for a moment, call once, give everyone their part.

A batch closes when no request came for `idle`, when its first request is `limit` old, or when it
is full. It knows nothing of what it batches. Upstream: pkg/batcher (AWS provider).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchWindow:
    """When a batch closes."""

    idle: timedelta
    limit: timedelta
    items: int


class MissingAnswer(Exception):
    """The batch was answered, but not this request."""


class Batcher(Generic[K, V]):
    """Collects requests `K` and answers them from one call of `run`.

    `run` gets the distinct requests and returns an answer, or an exception to raise, for each.
    """

    def __init__(
        self,
        run: Callable[[Sequence[K]], Awaitable[Mapping[K, V | BaseException]]],
        window: BatchWindow,
    ) -> None:
        self._run = run
        self._window = window
        self._waiting: dict[K, list[asyncio.Future[V]]] = {}
        self._first = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._running: set[asyncio.Task[None]] = set()

    async def ask(self, request: K) -> V:
        """Return the answer to one request; equal requests in a batch share it.

        Raises whatever `run` raised or answered for it. A caller that is cancelled leaves its
        request in the batch.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[V] = loop.create_future()
        if not self._waiting:
            self._first = loop.time()
        self._waiting.setdefault(request, []).append(future)
        if len(self._waiting) >= self._window.items:
            self._close()
        else:
            self._rearm(loop)
        return await future

    def _rearm(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
        idle_ends = loop.time() + self._window.idle.total_seconds()
        limit_ends = self._first + self._window.limit.total_seconds()
        self._timer = loop.call_at(min(idle_ends, limit_ends), self._close)

    def _close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, {}
        if waiting:
            task = asyncio.get_running_loop().create_task(self._answer(waiting), name="batch")
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _answer(self, waiting: dict[K, list[asyncio.Future[V]]]) -> None:
        answers: Mapping[K, V | BaseException] = {}
        failure: BaseException | None = None
        try:
            answers = await self._run(tuple(waiting))
        except asyncio.CancelledError:
            for future in (each for futures in waiting.values() for each in futures):
                future.cancel()
            raise
        except Exception as error:
            failure = error
        for request, futures in waiting.items():
            missing = failure or MissingAnswer(f"no answer for {request!r}")
            answer = answers.get(request, missing)
            for future in futures:
                if future.done():
                    continue
                if isinstance(answer, BaseException):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)
