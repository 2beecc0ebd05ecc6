"""The webhook's certificate: made, renewed, trusted, and agreed upon by replicas that race."""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
import stat
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from cryptography import x509
from nodewright_controller.api.core import CustomResourceDefinition, Secret
from nodewright_controller.api.meta import KubeObject, ObjectMeta
from nodewright_controller.ports.errors import Conflict, NotFound
from nodewright_controller.web.certificates import (
    AUTHORITY_VALID_FOR,
    CONVERTED,
    SERVING_VALID_FOR,
    CertificateManager,
    Certificates,
    KeyPair,
    WebhookIdentity,
    from_data,
    make_authority,
    make_serving,
    names_of,
    needs_rotation,
    renewed,
    to_data,
)
from typing_extensions import override

from tests.fakes.kube import FakeKube

K = TypeVar("K", bound=KubeObject)
NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
HOSTS = ("karpenter.karpenter.svc", "127.0.0.1")


class FixedClock:
    def __init__(self, now: datetime = NOW) -> None:
        self.time = now

    def now(self) -> datetime:
        return self.time


class SlowKube(FakeKube):
    """Gives other tasks a turn at every call, so replicas really race."""

    @override
    async def get(self, kind: type[K], name: str, namespace: str = "") -> K:
        await asyncio.sleep(0)
        found = await super().get(kind, name, namespace)
        await asyncio.sleep(0)
        return found

    @override
    async def create(self, body: K) -> K:
        await asyncio.sleep(0)
        return await super().create(body)


def definition(name: str, strategy: str = "Webhook") -> CustomResourceDefinition:
    conversion: dict[str, Any] = {"strategy": strategy}
    if strategy == "Webhook":
        conversion["webhook"] = {"clientConfig": {"url": "https://127.0.0.1:1/convert"}}
    return msgspec.convert(
        {"metadata": {"name": name}, "spec": {"conversion": conversion}}, CustomResourceDefinition
    )


def kube_with_definitions(kind: type[FakeKube] = FakeKube) -> FakeKube:
    kube = kind()
    for name in CONVERTED:
        kube.add(definition(name))
    return kube


def manager(
    kube: FakeKube, directory: Path, clock: FixedClock, hosts: tuple[str, ...] = HOSTS
) -> CertificateManager:
    identity = WebhookIdentity(
        namespace="karpenter", hosts=hosts, directory=directory, settle=timedelta(0)
    )
    return CertificateManager(kube, clock, identity)


async def secret_of(kube: FakeKube) -> Secret:
    return await kube.get(Secret, "karpenter-cert", "karpenter")


async def bundles(kube: FakeKube) -> set[bytes]:
    found = set()
    for name in CONVERTED:
        conversion = (await kube.get(CustomResourceDefinition, name)).spec.conversion
        assert conversion is not None
        assert conversion.webhook is not None
        found.add(base64.b64decode(conversion.webhook.client_config.ca_bundle))
    return found


def authorities(bundle: bytes) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(bundle)


def file_in_use(replica: CertificateManager) -> bytes:
    return Path(replica.files[0]).read_bytes()


def load(pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem)


# --- Decisions ---


def test_a_serving_certificate_names_its_hosts_and_is_signed_by_the_authority() -> None:
    authority = make_authority(NOW)
    serving = load(make_serving(authority, HOSTS, NOW).certificate)

    serving.verify_directly_issued_by(load(authority.certificate))
    assert names_of(serving) == set(HOSTS)


def test_a_certificate_for_nobody_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one host"):
        make_serving(make_authority(NOW), (), NOW)


@pytest.mark.parametrize(
    ("hosts", "age", "due"),
    [
        (HOSTS, timedelta(0), False),
        (HOSTS[:1], timedelta(0), False),
        ((*HOSTS, "other.svc"), timedelta(0), True),
        (("::1",), timedelta(0), True),
        (HOSTS, timedelta(days=58), False),
        (HOSTS, timedelta(days=61), True),
        (HOSTS, timedelta(days=400), True),
    ],
)
def test_a_certificate_is_due_in_its_last_third_or_when_a_host_is_missing(
    hosts: tuple[str, ...], age: timedelta, due: bool
) -> None:
    certificate = make_serving(make_authority(NOW), HOSTS, NOW).certificate

    assert needs_rotation(certificate, hosts, NOW + age) is due


def test_what_is_no_certificate_is_due() -> None:
    assert needs_rotation(b"garbage", HOSTS, NOW)


def test_an_address_is_the_same_however_it_is_written() -> None:
    certificate = make_serving(make_authority(NOW), ("::1",), NOW).certificate

    assert not needs_rotation(certificate, ("0:0:0:0:0:0:0:1",), NOW)


def test_nothing_changes_while_all_is_well() -> None:
    stored = renewed(None, HOSTS, NOW)

    assert stored == renewed(stored, HOSTS, NOW + timedelta(days=30))


def test_an_aged_serving_certificate_is_renewed_by_the_same_authority() -> None:
    stored = renewed(None, HOSTS, NOW)

    later = renewed(stored, HOSTS, NOW + SERVING_VALID_FOR - timedelta(days=1))

    assert later.authorities == stored.authorities
    assert later.serving != stored.serving
    load(later.serving.certificate).verify_directly_issued_by(load(stored.authorities))


def test_a_new_authority_joins_the_old_one_whose_certificate_stays_in_use() -> None:
    aging = NOW + AUTHORITY_VALID_FOR * 0.7
    old = renewed(None, HOSTS, NOW)
    old = renewed(old, HOSTS, aging - timedelta(days=200))
    old = replace(old, serving=make_serving(_pair(old), HOSTS, aging))

    rotated = renewed(old, HOSTS, aging)

    first, second = authorities(rotated.authorities)
    assert second == load(old.authorities)
    assert rotated.serving == old.serving
    assert first.not_valid_after_utc > second.not_valid_after_utc
    # The next certificate is the new authority's; the old one stays trusted until it expires.
    next_one = renewed(rotated, HOSTS, aging + timedelta(days=61))
    load(next_one.serving.certificate).verify_directly_issued_by(first)
    assert next_one.authorities == rotated.authorities
    retired = renewed(next_one, HOSTS, NOW + AUTHORITY_VALID_FOR + timedelta(days=1))
    assert authorities(retired.authorities) == [first]


def _pair(stored: Certificates) -> KeyPair:
    return KeyPair(certificate=stored.authorities, key=stored.authority_key)


def test_names_of_another_revision_stay_so_that_replicas_do_not_take_turns() -> None:
    old = renewed(None, ("old.svc",), NOW)
    both = renewed(old, ("new.svc",), NOW)

    assert names_of(load(both.serving.certificate)) == {"old.svc", "new.svc"}
    assert renewed(both, ("old.svc",), NOW) == both


@pytest.mark.parametrize("field", ["authorities", "authority_key"])
def test_a_garbled_part_is_made_anew(field: str) -> None:
    stored = renewed(None, HOSTS, NOW)
    stored = (
        replace(stored, authorities=b"garbage")
        if field == "authorities"
        else replace(stored, authority_key=b"garbage")
    )
    stored = replace(stored, serving=make_serving(make_authority(NOW), HOSTS, NOW))

    fixed = renewed(stored, HOSTS, NOW)

    serving = load(fixed.serving.certificate)
    serving.verify_directly_issued_by(authorities(fixed.authorities)[0])


def test_a_certificate_that_lost_its_key_is_made_anew() -> None:
    stored = renewed(None, HOSTS, NOW)
    stranger = renewed(None, HOSTS, NOW)
    mixed = replace(stored, serving=replace(stored.serving, key=stranger.serving.key))

    assert renewed(mixed, HOSTS, NOW).serving != mixed.serving


def test_the_secret_holds_everything() -> None:
    stored = renewed(None, HOSTS, NOW)

    assert from_data(to_data(stored)) == stored
    assert set(to_data(stored)) == {"ca.crt", "ca.key", "tls.crt", "tls.key"}


@pytest.mark.parametrize("data", [None, {}, {"ca.crt": "%%%"}, {"ca.crt": "YQ=="}])
def test_a_secret_without_content_is_no_certificate(data: Mapping[str, str] | None) -> None:
    assert from_data(data) is None


# --- The manager ---


async def test_the_first_replica_makes_everything(tmp_path: Path) -> None:
    kube = kube_with_definitions()
    one = manager(kube, tmp_path / "tls", FixedClock())

    assert not one.ready
    assert await one.ensure()

    stored = from_data((await secret_of(kube)).data)
    assert stored is not None
    assert await bundles(kube) == {stored.authorities}
    certificate, key = one.files
    assert file_in_use(one) == stored.serving.certificate
    assert stat.S_IMODE(os.stat(key).st_mode) == 0o600
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    assert one.ready


async def test_a_second_look_changes_nothing(tmp_path: Path) -> None:
    kube = kube_with_definitions()
    one = manager(kube, tmp_path, FixedClock())
    await one.ensure()
    versions = [(await kube.get(CustomResourceDefinition, name)).metadata for name in CONVERTED]

    assert not await one.ensure()
    assert versions == [
        (await kube.get(CustomResourceDefinition, name)).metadata for name in CONVERTED
    ]


async def test_replicas_that_race_agree_on_one_authority(tmp_path: Path) -> None:
    kube = kube_with_definitions(SlowKube)
    replicas = [manager(kube, tmp_path / str(number), FixedClock()) for number in range(4)]

    await asyncio.gather(*(replica.ensure() for replica in replicas))

    served = {file_in_use(replica) for replica in replicas}
    stored = from_data((await secret_of(kube)).data)
    assert stored is not None
    assert served == {stored.serving.certificate}
    assert await bundles(kube) == {stored.authorities}


async def test_a_replica_takes_over_what_another_one_renewed(tmp_path: Path) -> None:
    kube = kube_with_definitions()
    clock = FixedClock()
    one, two = (manager(kube, tmp_path / name, clock) for name in ("one", "two"))
    await one.ensure()
    await two.ensure()
    clock.time += timedelta(days=70)

    assert await one.ensure()
    assert await two.ensure()

    assert file_in_use(one) == file_in_use(two)


async def test_a_secret_made_empty_by_somebody_else_is_filled(tmp_path: Path) -> None:
    kube = kube_with_definitions()
    kube.add(Secret(metadata=ObjectMeta(name="karpenter-cert", namespace="karpenter")))

    await manager(kube, tmp_path, FixedClock()).ensure()

    assert from_data((await secret_of(kube)).data) is not None


async def test_a_bundle_that_somebody_overwrote_is_put_right(tmp_path: Path) -> None:
    kube = kube_with_definitions()
    one = manager(kube, tmp_path, FixedClock())
    await one.ensure()
    client_config = {"clientConfig": {"caBundle": "AAAA"}}
    await kube.patch(
        CustomResourceDefinition,
        CONVERTED[0],
        {"spec": {"conversion": {"webhook": client_config}}},
    )

    assert not await one.ensure()  # the files stay as they are
    assert len(await bundles(kube)) == 1


async def test_definitions_that_are_missing_or_convert_nothing_are_left_alone(
    tmp_path: Path,
) -> None:
    kube = FakeKube()
    kube.add(definition(CONVERTED[0], strategy="None"))

    assert await manager(kube, tmp_path, FixedClock()).ensure()

    conversion = (await kube.get(CustomResourceDefinition, CONVERTED[0])).spec.conversion
    assert conversion is not None
    assert conversion.webhook is None
    with pytest.raises(NotFound):
        await kube.get(CustomResourceDefinition, CONVERTED[1])


async def test_a_secret_that_never_comes_to_rest_is_an_error(tmp_path: Path) -> None:
    kube = kube_with_definitions()
    kube.fail_next = [Conflict("no")] * 10

    with pytest.raises(Conflict, match="karpenter/karpenter-cert keeps changing"):
        await manager(kube, tmp_path, FixedClock()).ensure()
