"""The work queue: each key waits once, is handled by one worker at a time, and backs off."""

from __future__ import annotations

import asyncio

import pytest
from nodewright_controller.runtime.batch_window import BatchWindow
from nodewright_controller.runtime.reconciler import DONE, Controller, Result
from nodewright_controller.runtime.work_queue import WorkQueue

pytestmark = pytest.mark.looptime


async def test_a_key_that_waits_is_not_queued_twice() -> None:
    queue: WorkQueue[str] = WorkQueue()

    queue.add("a")
    queue.add("a")

    assert len(queue) == 1


async def test_a_key_that_is_being_handled_comes_again_afterwards() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    key = await queue.get()

    queue.add("a")
    assert len(queue) == 0
    queue.done(key)

    assert len(queue) == 1


async def test_the_earliest_of_two_delays_wins() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", 60)
    queue.add_after("a", 5)
    begun = asyncio.get_running_loop().time()

    await queue.get()

    assert asyncio.get_running_loop().time() - begun == pytest.approx(5, abs=0.1)


async def test_failures_back_off_exponentially_up_to_a_limit() -> None:
    queue: WorkQueue[str] = WorkQueue(base_seconds=1, max_seconds=10)

    delays = [queue.failed("a") for _ in range(6)]

    assert delays == [1, 2, 4, 8, 10, 10]
    queue.succeeded("a")
    assert queue.failed("a") == 1


async def test_a_controller_retries_what_failed_and_never_handles_a_key_twice_at_once() -> None:
    running: set[str] = set()
    handled: list[str] = []

    async def reconcile(key: str) -> Result:
        assert key not in running
        running.add(key)
        await asyncio.sleep(1)
        running.discard(key)
        handled.append(key)
        if handled.count(key) == 1:
            raise RuntimeError("the first time always fails")
        return DONE

    controller = Controller("test", reconcile, concurrency=5)
    task = asyncio.create_task(controller.run())
    for key in ("a", "b", "a"):
        controller.enqueue(key)
    await asyncio.sleep(60)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert sorted(handled) == ["a", "a", "b", "b"]


async def test_requeue_after_brings_the_key_back_at_its_time() -> None:
    times: list[float] = []

    async def reconcile(_: str) -> Result:
        times.append(asyncio.get_running_loop().time())
        return Result(30)

    controller = Controller("test", reconcile)
    task = asyncio.create_task(controller.run())
    controller.enqueue("a")
    await asyncio.sleep(65)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert [round(t - times[0]) for t in times] == [0, 30, 60]


async def test_a_batch_closes_when_pods_stop_arriving() -> None:
    window = BatchWindow(idle_seconds=1, max_seconds=10)
    loop = asyncio.get_running_loop()
    begun = loop.time()

    async def arrive() -> None:
        for name in ("a", "b", "c"):
            window.trigger(name)
            await asyncio.sleep(0.5)

    arriving = asyncio.create_task(arrive())
    count = await window.wait()
    await arriving

    assert count == 3
    assert loop.time() - begun == pytest.approx(2, abs=0.1)


async def test_a_batch_closes_at_its_longest_even_if_pods_keep_arriving() -> None:
    window = BatchWindow(idle_seconds=1, max_seconds=10)
    loop = asyncio.get_running_loop()

    async def arrive() -> None:
        for number in range(100):
            window.trigger(str(number))
            await asyncio.sleep(0.5)

    arriving = asyncio.create_task(arrive())
    begun = loop.time()
    await window.wait()
    arriving.cancel()

    assert loop.time() - begun == pytest.approx(10, abs=0.1)


async def test_the_same_pod_again_does_not_extend_the_batch() -> None:
    window = BatchWindow(idle_seconds=1, max_seconds=10)
    loop = asyncio.get_running_loop()

    async def arrive() -> None:
        for _ in range(20):
            window.trigger("a")
            await asyncio.sleep(0.5)

    arriving = asyncio.create_task(arrive())
    begun = loop.time()
    await window.wait()
    arriving.cancel()

    assert loop.time() - begun == pytest.approx(1, abs=0.1)
