"""Logs: one JSON object a line, a constant message and variable keys, as Karpenter's zap logger writes."""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

_LEVELS = {"debug": logging.DEBUG, "": logging.INFO, "info": logging.INFO, "error": logging.ERROR}


def _karpenter_keys(
    _: object, __: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    ordered: dict[str, Any] = {
        "level": str(event.pop("level", "info")).upper(),
        "time": event.pop("timestamp"),
        "logger": event.pop("logger", "controller"),
        "message": event.pop("event"),
    }
    ordered.update(event)
    return ordered


def configure_logs(level: str) -> None:
    """Send all logs, also those of libraries, to standard output as JSON."""
    threshold = _LEVELS[level]
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.dict_tracebacks,
        _karpenter_keys,
    ]
    structlog.configure(
        processors=[*shared, structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.PrintLoggerFactory(sys.stdout),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared[:-1],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _karpenter_keys,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(threshold, logging.WARNING))
