"""Errors that AWS would answer: a code, a message, and members that some errors carry."""

from moto.core.errors import COMMON_ERROR_CODES
from moto.core.exceptions import ServiceException

# AWS documents these as common to all services; moto's list is shorter, and it warns of every
# code that is neither in a service's model nor in the list.
COMMON_ERROR_CODES.extend(
    code
    for code in ("AccessDenied", "InternalFailure", "InvalidAction")
    if code not in COMMON_ERROR_CODES
)


class AwsError(ServiceException):
    """One AWS error answer; the wire format follows from the service it is raised for."""

    def __init__(self, code: str, message: str, **members: object) -> None:
        super().__init__(code, message)
        for name, value in members.items():
            setattr(self, name, value)


def dry_run() -> AwsError:
    """The answer to a call with DryRun that would have succeeded."""
    return AwsError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.")
