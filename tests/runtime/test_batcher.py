"""Batches close when requests pause, when they are old, or when they are full."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest
from nodewright_controller.runtime.batcher import Batcher, BatchWindow, MissingAnswer


def window(idle: float = 0.02, limit: float = 1.0, items: int = 100) -> BatchWindow:
    return BatchWindow(idle=timedelta(seconds=idle), limit=timedelta(seconds=limit), items=items)


class Doubler:
    """Answers twice the number; remembers its batches."""

    def __init__(self) -> None:
        self.batches: list[Sequence[int]] = []

    async def __call__(self, numbers: Sequence[int]) -> Mapping[int, int | BaseException]:
        self.batches.append(numbers)
        return {number: number * 2 for number in numbers}


async def test_requests_of_one_moment_are_one_call() -> None:
    doubler = Doubler()
    batcher = Batcher(doubler, window())

    answers = await asyncio.gather(*(batcher.ask(number) for number in (1, 2, 3, 2)))

    assert answers == [2, 4, 6, 4]
    assert doubler.batches == [(1, 2, 3)]


async def test_a_pause_closes_a_batch() -> None:
    doubler = Doubler()
    batcher = Batcher(doubler, window())

    await batcher.ask(1)
    await batcher.ask(2)

    assert doubler.batches == [(1,), (2,)]


async def test_a_full_batch_does_not_wait() -> None:
    doubler = Doubler()
    batcher = Batcher(doubler, window(idle=30, limit=60, items=2))

    await asyncio.wait_for(asyncio.gather(batcher.ask(1), batcher.ask(2)), 1)

    assert doubler.batches == [(1, 2)]


async def test_a_stream_without_pauses_is_cut_at_the_limit() -> None:
    doubler = Doubler()
    batcher = Batcher(doubler, window(idle=0.05, limit=0.1))
    waiting = []
    for number in range(10):
        waiting.append(asyncio.create_task(batcher.ask(number)))
        await asyncio.sleep(0.02)

    await asyncio.gather(*waiting)

    assert len(doubler.batches) > 1


async def test_an_error_reaches_everyone_and_one_persons_error_only_them() -> None:
    async def refuse(numbers: Sequence[int]) -> Mapping[int, int | BaseException]:
        if 0 in numbers:
            raise RuntimeError("nobody")
        return {1: ValueError("not you")}

    batcher = Batcher(refuse, window())

    all_fail = await asyncio.gather(batcher.ask(0), batcher.ask(1), return_exceptions=True)
    some_fail = await asyncio.gather(batcher.ask(1), batcher.ask(2), return_exceptions=True)

    assert [type(each) for each in all_fail] == [RuntimeError, RuntimeError]
    assert [type(each) for each in some_fail] == [ValueError, MissingAnswer]


async def test_a_caller_that_gives_up_does_not_disturb_the_others() -> None:
    doubler = Doubler()
    batcher = Batcher(doubler, window())
    impatient = asyncio.create_task(batcher.ask(1))
    patient = asyncio.create_task(batcher.ask(1))
    await asyncio.sleep(0)
    impatient.cancel()

    assert await patient == 2
    with pytest.raises(asyncio.CancelledError):
        await impatient
