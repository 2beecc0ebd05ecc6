"""The errors that ports may answer.

    PortError
    ├── CloudError
    │   ├── InsufficientCapacity      nothing asked for is in stock: forget the claim, plan anew
    │   ├── NodeClaimNotFound         the instance does not exist (any more)
    │   ├── NodeClassNotReady         the node class cannot be used yet
    │   ├── OverlaysPending           a pool's NodeOverlays are not worked out yet
    │   └── CreateFailed              the launch failed for a reason that may pass
    └── KubeError
        ├── Conflict                  the object changed meanwhile, or exists already
        ├── NotFound
        ├── Forbidden                 our role does not allow it
        ├── Gone                      the watch position is too old: list again
        ├── TooManyRequests           asked to wait; for evictions: a PDB forbids it now
        └── Invalid                   the API server refuses the object

Each edge turns foreign errors into these in one place and chains the original.
"""

from __future__ import annotations


class PortError(Exception):
    """The outside could not do what was asked."""


class CloudError(PortError):
    """The cloud could not do what was asked."""


class InsufficientCapacity(CloudError):
    """Nothing that was asked for is in stock."""


class NodeClaimNotFound(CloudError):
    """The instance behind a NodeClaim does not exist."""


class NodeClassNotReady(CloudError):
    """The node class cannot be used yet."""


class OverlaysPending(CloudError):
    """What the NodeOverlays make of a pool's types is not known yet."""


class CreateFailed(CloudError):
    """A launch failed; `reason` is a condition reason in CamelCase."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class KubeError(PortError):
    """The API server could not do what was asked."""


class Conflict(KubeError):
    """The object changed meanwhile, or exists already."""


class NotFound(KubeError):
    """The object does not exist."""


class Forbidden(KubeError):
    """Our role does not allow it."""


class Gone(KubeError):
    """The watch position is too old."""


class TooManyRequests(KubeError):
    """The server asks to wait; `retry_after_seconds` says how long, when it does."""

    def __init__(self, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class Invalid(KubeError):
    """The API server refuses the object."""
