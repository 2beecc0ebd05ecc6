"""The conversion webhook answers every review, also the ones it must refuse."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from nodewright_controller.web.conversion import NotAReview, conversion_app, review
from starlette.testclient import TestClient

Json = dict[str, Any]


def pool(name: str, reference: Any) -> Json:
    return {
        "apiVersion": "karpenter.sh/v1beta1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": reference}}},
    }


def request_for(*objects: Any, target: str = "karpenter.sh/v1") -> bytes:
    return msgspec.json.encode(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "ConversionReview",
            "request": {"uid": "u-1", "desiredAPIVersion": target, "objects": list(objects)},
        }
    )


def answer(body: bytes) -> Json:
    parsed = msgspec.json.decode(review(body), type=dict[str, Any])
    assert parsed["kind"] == "ConversionReview"
    assert parsed["apiVersion"] == "apiextensions.k8s.io/v1"
    response: Json = parsed["response"]
    return response


def test_a_batch_is_converted_in_order() -> None:
    response = answer(request_for(*(pool(str(number), {"name": "a"}) for number in range(20))))

    assert response["uid"] == "u-1"
    assert response["result"] == {"status": "Success"}
    names = [body["metadata"]["name"] for body in response["convertedObjects"]]
    assert names == [str(number) for number in range(20)]
    assert {body["apiVersion"] for body in response["convertedObjects"]} == {"karpenter.sh/v1"}


def test_broken_objects_fail_the_review_and_are_all_named() -> None:
    response = answer(
        request_for(pool("good", {"name": "a"}), pool("bad", "a"), pool("worse", []), "text")
    )

    assert response["result"] == {
        "status": "Failure",
        "message": (
            "NodePool bad: spec.template.spec.nodeClassRef: expected an object, got str; "
            "NodePool worse: spec.template.spec.nodeClassRef: expected an object, got list; "
            "objects[3]: expected an object"
        ),
    }
    assert response["convertedObjects"] == []


def test_a_version_that_is_not_served_is_refused() -> None:
    response = answer(request_for(pool("a", {"name": "b"}), target="karpenter.sh/v9"))

    assert response["result"]["status"] == "Failure"
    assert "'karpenter.sh/v9' is not served" in response["result"]["message"]


def test_an_empty_review_succeeds() -> None:
    assert answer(request_for())["convertedObjects"] == []


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "the body is no JSON"),
        (b"[]", "no ConversionReview"),
        (b'{"kind": "ConversionReview"}', "has no request"),
        (b'{"kind": "ConversionReview", "request": {"objects": 3}}', "a list of objects"),
    ],
)
def test_what_is_no_review_is_told_so(body: bytes, message: str) -> None:
    with pytest.raises(NotAReview, match=message):
        review(body)


def test_the_app_answers_on_convert() -> None:
    with TestClient(conversion_app()) as client:
        good = client.post("/convert", content=request_for(pool("a", {"name": "b"})))
        bad = client.post("/convert", content=b"{")
        wrong = client.get("/convert")

    assert good.status_code == 200
    assert good.json()["response"]["result"] == {"status": "Success"}
    assert bad.status_code == 400
    assert bad.text.startswith("the body is no JSON")
    assert wrong.status_code == 405
