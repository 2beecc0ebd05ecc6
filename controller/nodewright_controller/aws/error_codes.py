"""What AWS means by an error: codes in, our reasons out. Everything here is pure.

`clients.py` turns whatever the SDK raises into `AwsError`; the rest of the package acts on its
code alone. Upstream: pkg/errors/errors.go.
"""

from __future__ import annotations

from typing import Final

from nodewright_controller.ports.errors import CloudError

UNREACHABLE: Final = "Unreachable"
"""Our own code: no answer, so what was asked for may or may not have happened."""
DRY_RUN: Final = "DryRunOperation"
SPOT_ROLE_DENIED: Final = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
SUBNET_FULL: Final = "InsufficientFreeAddressesInSubnet"
TEMPLATE_NOT_FOUND: Final = "InvalidLaunchTemplateName.NotFoundException"
TEMPLATE_EXISTS: Final = "InvalidLaunchTemplateName.AlreadyExistsException"
TOKEN_REUSED: Final = "IdempotentParameterMismatch"

NOT_FOUND: Final = frozenset(
    {
        "InvalidInstanceID.NotFound",
        "InvalidCapacityReservationId.NotFound",
        TEMPLATE_NOT_FOUND,
        "InvalidLaunchTemplateId.NotFound",
        "AWS.SimpleQueueService.NonExistentQueue",
        "QueueDoesNotExist",
        "NoSuchEntity",
        "ParameterNotFound",
        "ResourceNotFoundException",
    }
)
ALREADY_EXISTS: Final = frozenset({TEMPLATE_EXISTS, "EntityAlreadyExists"})
OUT_OF_CAPACITY: Final = frozenset(
    {
        "InsufficientInstanceCapacity",
        "MaxSpotInstanceCountExceeded",
        "VcpuLimitExceeded",
        "UnfulfillableCapacity",
        "Unsupported",
        SUBNET_FULL,
        "MaxFleetCountExceeded",
        "ReservationCapacityExceeded",
        "SpotMaxPriceTooLow",
        "InvalidCapacityReservationState.Unavailable",
    }
)
USED_UP_QUOTAS: Final = frozenset({"MaxSpotInstanceCountExceeded", "VcpuLimitExceeded"})
"""Those of them that are about the whole account: a quota of vCPUs."""

_BY_CODE: Final = {
    SPOT_ROLE_DENIED: "SpotSLRCreationFailed",
    "UnauthorizedOperation": "Unauthorized",
    "AccessDenied": "Unauthorized",
    "AccessDeniedException": "Unauthorized",
    TEMPLATE_NOT_FOUND: "LaunchTemplateNotFound",
    "InvalidAMIID.Malformed": "InvalidAMIID",
    "InvalidAMIID.NotFound": "AMINotFound",
    "InvalidAMIID.Unavailable": "AMINotFound",
    "RequestLimitExceeded": "RequestLimitExceeded",
    "InternalError": "InternalError",
    "MaxFleetCountExceeded": "FleetQuotaExceeded",
    "PendingVerification": "AccountPendingVerification",
    "MaxSpotInstanceCountExceeded": "SpotQuotaExceeded",
    "VcpuLimitExceeded": "VCPULimitExceeded",
    SUBNET_FULL: "InsufficientFreeAddressesInSubnet",
}
# Words of the message that say more than the code does; the first that fits wins.
_BY_MESSAGE: Final = (
    ("not authorized for images", "AMIAuthorizationFailure"),
    ("not authorized to use launch template", "Unauthorized"),
    ("different VPC", "SecurityGroupSubnetVPCMismatch"),
    ("belong to different networks", "SecurityGroupSubnetVPCMismatch"),
    ("iamInstanceProfile.name", "InstanceProfileNameInvalid"),
    ("Invalid IAM Instance Profile", "InstanceProfileNameInvalid"),
    ("User data is limited to", "UserDataSizeLimitExceeded"),
    ("Invalid id:", "InvalidAMIID"),
    ("not eligible for Free Tier", "FreeTierIneligible"),
)
LAUNCH_FAILED: Final = "LaunchFailed"


class AwsError(CloudError):
    """A call that AWS refused, or did not answer (`code` is then `UNREACHABLE`).

    It is a `CloudError`, so what no caller here expects still makes sense to the core.
    """

    def __init__(self, code: str, message: str, operation: str = "") -> None:
        super().__init__(f"{operation}: {code}: {message}" if operation else f"{code}: {message}")
        self.code = code
        self.message = message
        self.operation = operation

    @property
    def unclear(self) -> bool:
        """Whether the call may have taken effect although no answer came."""
        return self.code in (UNREACHABLE, "InternalError", "InternalFailure", "ServiceUnavailable")

    @property
    def not_found(self) -> bool:
        """Whether the thing named does not exist."""
        return self.code in NOT_FOUND

    @property
    def already_exists(self) -> bool:
        """Whether the thing to create is there already."""
        return self.code in ALREADY_EXISTS


def is_out_of_capacity(code: str) -> bool:
    """Whether a fleet error means that the offering cannot be had now."""
    return code in OUT_OF_CAPACITY or code == SPOT_ROLE_DENIED


def launch_failure_reason(code: str, message: str) -> str:
    """Return the condition reason for a launch error."""
    for words, reason in _BY_MESSAGE:
        if words in message:
            return reason
    return _BY_CODE.get(code, LAUNCH_FAILED)
