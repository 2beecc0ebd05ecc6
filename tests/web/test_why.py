"""The API that explains: only the leader answers, and every refusal says what to do."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from nodewright_controller.ports.answers import NoAnswer, UnknownSubject
from nodewright_controller.scheduling.explanations import PodExplanation, TypeExplanation
from nodewright_controller.web.servers import metrics_app
from nodewright_controller.web.why import WhyDesk, why_route
from starlette.testclient import TestClient
from typing_extensions import override

AT = datetime(2030, 1, 2, 10, tzinfo=UTC)


class Answering:
    """Knows pod shop/web and claim general-1."""

    async def pod(self, key: str) -> PodExplanation:
        if key != "shop/web":
            raise UnknownSubject(f"there is no pod {key}; there is shop/web")
        return PodExplanation(
            pod=key, verdict="blocked", code="P101", line=f"pod/{key} blocked", as_of=AT
        )

    async def node_claim(self, name: str) -> TypeExplanation:
        if name != "general-1":
            raise NoAnswer("its NodePool general does not exist")
        return TypeExplanation(
            node_claim=name,
            verdict="chosen",
            code="T101",
            line=f"claim/{name} chosen",
            as_of=AT,
            node_pool="general",
            instance_type="m7g.large",
        )


@pytest.fixture
def desk() -> WhyDesk:
    found = WhyDesk()
    found.answers = Answering()
    return found


def get(desk: WhyDesk, path: str) -> tuple[int, dict[str, Any]]:
    response = TestClient(metrics_app(why_route(desk))).get(path)
    return response.status_code, response.json()


def test_a_pod_is_explained_in_camel_case(desk: WhyDesk) -> None:
    code, body = get(desk, "/api/v1/why?pod=shop/web")

    assert code == 200
    assert (body["pod"], body["code"], body["asOf"]) == ("shop/web", "P101", "2030-01-02T10:00:00Z")
    assert body["lookBy"] is None


def test_a_claim_is_explained(desk: WhyDesk) -> None:
    code, body = get(desk, "/api/v1/why?nodeclaim=general-1")

    assert code == 200
    assert (body["nodeClaim"], body["code"]) == ("general-1", "T101")


def test_an_unknown_pod_is_404_with_the_names_that_are_like_it(desk: WhyDesk) -> None:
    code, body = get(desk, "/api/v1/why?pod=shop/wep")

    assert code == 404
    assert body["kind"] == "Status"
    assert body["message"] == "there is no pod shop/wep; there is shop/web"
    assert body["details"]["group"] == "nodewright"


@pytest.mark.parametrize(
    "query", ["", "?pod=web", "?pod=/web", "?pod=shop/", "?node=n1", "?pod=a/b&nodeclaim=c"]
)
def test_a_question_that_is_none_is_400(desk: WhyDesk, query: str) -> None:
    code, body = get(desk, f"/api/v1/why{query}")

    assert code == 400
    assert "NAMESPACE/NAME" in body["message"]


def test_what_cannot_be_answered_now_is_503(desk: WhyDesk) -> None:
    code, body = get(desk, "/api/v1/why?nodeclaim=old-1")

    assert (code, body["message"]) == (503, "its NodePool general does not exist")


def test_a_standby_names_the_leader() -> None:
    desk = WhyDesk()
    desk.leader = lambda: "karpenter-abc"

    code, body = get(desk, "/api/v1/why?pod=shop/web")

    assert code == 503
    assert body["message"].endswith("the leader is pod karpenter-abc")
    assert body["details"]["name"] == "karpenter-abc"


def test_a_replica_that_knows_no_leader_says_that() -> None:
    code, body = get(WhyDesk(), "/api/v1/why?pod=shop/web")

    assert (code, "knows of none" in body["message"]) == (503, True)


def test_metrics_are_served_beside_it(desk: WhyDesk) -> None:
    assert TestClient(metrics_app(why_route(desk))).get("/metrics").status_code == 200


def test_a_failure_is_an_error_that_tells_nothing_of_the_inside() -> None:
    class Failing(Answering):
        @override
        async def pod(self, key: str) -> PodExplanation:
            raise RuntimeError("secret detail")

    desk = WhyDesk()
    desk.answers = Failing()

    code, body = get(desk, "/api/v1/why?pod=shop/web")

    assert (code, body["reason"]) == (500, "InternalError")
    assert body["details"]["group"] == "nodewright"
    assert "secret" not in str(body)
