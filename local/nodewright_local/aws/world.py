"""All state of the stand-in that moto does not keep, under one lock."""

import threading
from typing import TYPE_CHECKING, Any

from nodewright_local.aws import moto_access
from nodewright_local.aws.ec2.capacity import Capacity
from nodewright_local.aws.ec2.instances import Instances
from nodewright_local.aws.eks.state import EksState
from nodewright_local.aws.events import publish
from nodewright_local.aws.idempotency import ClientTokens
from nodewright_local.aws.recorder import Recorder
from nodewright_local.aws.settings import AwsSettings
from nodewright_local.aws.timeline import Timeline

if TYPE_CHECKING:
    from nodewright_local.aws.ec2.reservations import Reservation


class World:
    """The account: every handler is given it. One per process, since moto's state is the process's."""

    def __init__(self, settings: AwsSettings) -> None:
        moto_access.set_account(settings.account_id)
        self.settings = settings
        self.lock = threading.RLock()
        """Held around every call and every delayed action; moto is not written for threads."""
        self.recorder = Recorder()
        self.client_tokens = ClientTokens()
        self.capacity = Capacity()
        self.timeline = Timeline(self.lock)
        self.instances = Instances(settings.delays, self.timeline, publish)
        self.fleets: dict[str, dict[str, Any]] = {}
        self.placement_groups: dict[tuple[str, str], dict[str, Any]] = {}
        """By region and name."""
        self.capacity_reservations: dict[str, Reservation] = {}
        self.eks = EksState()

    def close(self) -> None:
        """Stop the clock."""
        self.timeline.close()
