import base64
import json
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from nodewright_local.pki import (
    REQUESTS,
    CertificateRequest,
    certificate_file,
    ensure_pki,
    key_file,
    kubeconfig_file,
)
from nodewright_local.state import ClusterState, plan_state

NOW = datetime(2026, 11, 30, tzinfo=UTC)


@pytest.fixture
def state(tmp_path: Path) -> ClusterState:
    state = plan_state(tmp_path, versions={}, binaries={})
    ensure_pki(state, now=NOW)
    return state


def certificate(state: ClusterState, name: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(certificate_file(state, name).read_bytes())


def names(state: ClusterState, name: str) -> x509.SubjectAlternativeName:
    extensions = certificate(state, name).extensions
    return extensions.get_extension_for_class(x509.SubjectAlternativeName).value


def groups(state: ClusterState, name: str) -> list[str | bytes]:
    subject = certificate(state, name).subject
    return [entry.value for entry in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]


def test_the_api_server_is_named_as_pods_and_people_reach_it(state: ClusterState) -> None:
    found = names(state, "apiserver")
    assert {
        "kubernetes",
        "kubernetes.default.svc",
        "localhost",
    } <= set(found.get_values_for_type(x509.DNSName))
    assert set(found.get_values_for_type(x509.IPAddress)) == {
        ip_address("127.0.0.1"),
        ip_address("10.100.0.1"),
    }


def test_the_kubelet_is_named_by_the_address_all_nodes_report(state: ClusterState) -> None:
    assert ip_address("127.0.0.1") in names(state, "kubelet").get_values_for_type(x509.IPAddress)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request_: request_.file_name)
def test_every_certificate_is_signed_by_the_cluster_ca(
    state: ClusterState,
    request_: CertificateRequest,
) -> None:
    authority = x509.load_pem_x509_certificate(state.ca_file.read_bytes())
    certificate(state, request_.file_name).verify_directly_issued_by(authority)


def test_clients_carry_the_groups_that_rbac_knows(state: ClusterState) -> None:
    assert groups(state, "admin") == ["system:masters"]
    assert groups(state, "controller-manager") == []
    common = certificate(state, "controller-manager").subject.get_attributes_for_oid(
        NameOID.COMMON_NAME
    )
    assert common[0].value == "system:kube-controller-manager"


def test_a_server_certificate_cannot_be_used_to_log_in(state: ClusterState) -> None:
    usage = certificate(state, "kubelet").extensions.get_extension_for_class(x509.ExtendedKeyUsage)
    assert list(usage.value) == [ExtendedKeyUsageOID.SERVER_AUTH]


def test_private_keys_are_for_their_owner_only(state: ClusterState) -> None:
    for key in (state.ca_key_file, key_file(state, "service-account"), key_file(state, "admin")):
        assert key.stat().st_mode & 0o077 == 0, key
    assert state.admin_kubeconfig.stat().st_mode & 0o077 == 0


def test_a_kept_cluster_keeps_its_ca_and_its_service_account_key(state: ClusterState) -> None:
    before = state.ca_file.read_bytes(), key_file(state, "service-account").read_bytes()
    ensure_pki(state, now=NOW)
    assert (state.ca_file.read_bytes(), key_file(state, "service-account").read_bytes()) == before


def test_a_kubeconfig_stands_on_its_own(state: ClusterState) -> None:
    document = json.loads(kubeconfig_file(state, "admin").read_text())
    cluster = document["clusters"][0]["cluster"]
    assert cluster["server"] == state.api_server_url
    inlined = base64.b64decode(cluster["certificate-authority-data"])
    assert inlined == state.ca_file.read_bytes()
    assert kubeconfig_file(state, "admin") == state.admin_kubeconfig
