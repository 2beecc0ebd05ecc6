"""Every resource type, from creation to deletion, at the AWS stand-in."""

import pytest
from nodewright_local.pulumi_aws import lifecycle, registry
from nodewright_local.pulumi_aws.checks import DEFAULTS_KEY

from tests.local.pulumi_aws.lab import Lab
from tests.local.pulumi_aws.lives import LIVES, Life


def types(*lives: Life) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("life", lives, ids=lambda life: life.token)


every_type = types(*LIVES)


def test_every_supported_type_has_a_life_here() -> None:
    assert {life.token for life in LIVES} == set(registry.resources())


@every_type
def test_a_created_resource_shows_no_change_and_reads_back_as_it_was(lab: Lab, life: Life) -> None:
    inputs = life.inputs(lab)

    live = lab.make(life.token, inputs)

    assert lab.changes(life.token, live, inputs) == ()
    again = lab.read(life.token, live)
    assert again is not None
    assert again.state == live.state
    assert again.inputs == live.inputs


@every_type
def test_a_created_resource_has_a_value_for_every_declared_output(lab: Lab, life: Life) -> None:
    live = lab.make(life.token, life.inputs(lab))

    missing = [
        name
        for name, prop in registry.resource(life.token).properties.items()
        if prop.output and live.state.get(name) is None
    ]

    allowed = {"prefixListId", "externalId"}
    assert set(missing) <= allowed


@types(*(life for life in LIVES if life.updates))
def test_changed_inputs_are_applied_in_place(lab: Lab, life: Life) -> None:
    live = lab.make(life.token, life.inputs(lab))
    wanted = {**live.inputs, **life.updates}
    wanted.pop(DEFAULTS_KEY, None)

    changes = lab.changes(life.token, live, wanted)
    updated = lab.update(life.token, live, wanted)

    assert changes
    assert not any(change.replaces for change in changes)
    assert lab.changes(life.token, updated, wanted) == ()
    again = lab.read(life.token, updated)
    assert again is not None
    assert again.state == updated.state


@types(*(life for life in LIVES if life.replaces))
def test_changes_that_need_a_new_resource_say_so(lab: Lab, life: Life) -> None:
    live = lab.make(life.token, life.inputs(lab))
    wanted = {**live.inputs, **life.replaces}
    wanted.pop(DEFAULTS_KEY, None)

    changes = lab.changes(life.token, live, wanted)

    assert any(change.replaces for change in changes)
    resource = registry.resource(life.token)
    assert lifecycle.deletes_first(resource, changes, wanted) == life.deletes_first


@every_type
def test_deleting_leaves_nothing_and_may_be_repeated(lab: Lab, life: Life) -> None:
    live = lab.make(life.token, life.inputs(lab))

    lab.delete(life.token, live)
    lab.delete(life.token, live)

    assert lab.read(life.token, live) is None


@types(*(life for life in LIVES if life.imports))
def test_an_import_by_id_gives_inputs_that_change_nothing(lab: Lab, life: Life) -> None:
    live = lab.make(life.token, life.inputs(lab))

    imported = lab.import_(life.token, life.import_id(live.ident, live.state))

    assert imported is not None
    assert imported.ident == live.ident
    assert lab.changes(life.token, imported, imported.inputs) == ()
