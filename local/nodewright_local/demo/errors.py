"""The errors that end the demo with a plain sentence instead of a traceback."""

from nodewright_local.demo.cluster_api import ApiError
from nodewright_local.demo.emulator import EmulatorError
from nodewright_local.engine import EngineError
from nodewright_local.lifecycle import LifecycleError
from nodewright_local.state import StateError
from nodewright_local.toolbox import ToolError


class StoryError(Exception):
    """Something did not come about; the message says what, and what was seen instead."""


PLAIN_ERRORS = (
    StoryError,
    ApiError,
    EmulatorError,
    EngineError,
    LifecycleError,
    StateError,
    ToolError,
)
"""What a part of the demo raises when the world is not as it should be."""
