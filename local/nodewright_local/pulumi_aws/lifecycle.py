"""The life of one resource, without the wire: preview, create, read, update, delete.

Between the gRPC service and the handlers. Decides what a state contains, what a preview can know,
what inputs a refresh reports, and what happens to a creation that fails half-way.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nodewright_local.pulumi_aws.aws import Aws, AwsError
from nodewright_local.pulumi_aws.checks import DEFAULTS_KEY
from nodewright_local.pulumi_aws.diff import Change, compare, is_empty, map_changes, same
from nodewright_local.pulumi_aws.schema import Property, Resource, Shape
from nodewright_local.pulumi_aws.values import UNKNOWN, Values, has_unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """A resource that exists."""

    ident: str
    state: Values
    inputs: Values


class CreatedInPartError(Exception):
    """The resource exists but did not become usable; the engine must remember its id."""

    def __init__(self, *, ident: str, state: Values, reason: str) -> None:
        super().__init__(reason)
        self.ident = ident
        self.state = state
        self.reason = reason


def plan_changes(
    resource: Resource, state: Values, inputs: Values, default_tags: Mapping[str, str]
) -> tuple[Change, ...]:
    """Return what differs between the state and the program's (checked) inputs."""
    changes = compare(resource.properties, state, inputs)
    if "tagsAll" not in resource.properties:
        return changes
    wanted = merge_tags(inputs.get("tags"), default_tags)
    if not isinstance(wanted, Mapping):
        return changes
    return changes + map_changes("tagsAll", state.get("tagsAll") or {}, wanted)


def deletes_first(resource: Resource, changes: tuple[Change, ...], inputs: Values) -> bool:
    """Say whether old and new cannot exist side by side, should this change replace.

    A name that was made up stands in nobody's way: the engine asks for another one.
    """
    changed = {change.name for change in changes}
    renewed = set(inputs.get(DEFAULTS_KEY) or ())
    return bool(resource.identity) and (changed | renewed).isdisjoint(resource.identity)


def preview(resource: Resource, aws: Aws, inputs: Values, state: Values | None = None) -> Values:
    """Return the outputs as far as they can be known before the deployment."""
    result = {
        name: _planned(prop, inputs.get(name), (state or {}).get(name), fresh=state is None)
        for name, prop in resource.properties.items()
    }
    if "region" in result and result["region"] is UNKNOWN:
        result["region"] = aws.region
    if "tagsAll" in result:
        result["tagsAll"] = merge_tags(inputs.get("tags"), aws.settings.default_tags)
    return result


def _planned(prop: Property, given: Any, before: Any, *, fresh: bool) -> Any:
    """Return what a property will be: as given, as it was, or UNKNOWN where AWS decides."""
    if isinstance(given, Mapping) and prop.shape is Shape.OBJECT and prop.fields is not None:
        earlier = before if isinstance(before, Mapping) else {}
        return {
            name: _planned(field, given.get(name), earlier.get(name), fresh=fresh)
            for name, field in prop.fields.items()
        }
    if given is not None:
        return given
    if prop.output or prop.computed:
        return UNKNOWN if fresh else before
    return prop.default


def create(resource: Resource, aws: Aws, inputs: Values) -> Live:
    """Make the resource; raises `AwsError`, or `CreatedInPartError` once something exists."""
    aws = aws.in_region(inputs.get("region"))
    wanted = _with_defaults(resource, inputs)
    if "tagsAll" in resource.properties:
        wanted["tags"] = merge_tags(inputs.get("tags"), aws.settings.default_tags)
    ident = resource.create(aws, wanted)
    known = {**_with_defaults(resource, inputs), "region": aws.region}
    try:
        resource.settle(aws, ident, wanted)
        state = _read_state(resource, aws, ident, known)
    except AwsError as error:
        raise CreatedInPartError(
            ident=ident, state=_salvage(resource, aws, ident, known), reason=str(error)
        ) from error
    if state is None:
        raise AwsError(
            operation=f"create {resource.token}",
            code="Vanished",
            message=f"{ident} was created and is gone already",
        )
    return Live(ident=ident, state=state, inputs=inputs)


def read(
    resource: Resource, aws: Aws, ident: str, state: Values, inputs: Values | None
) -> Live | None:
    """Return the live resource, or None when it is gone; without a state this is an import."""
    known = dict(state)
    if not known:
        ident, known = resource.import_parts(aws, ident)
    aws = aws.in_region(known.get("region"))
    known.setdefault("region", aws.region)
    live = _read_state(resource, aws, ident, known)
    if live is None:
        return None
    return Live(ident=ident, state=live, inputs=_live_inputs(resource, live, inputs or None))


def update(resource: Resource, aws: Aws, ident: str, state: Values, inputs: Values) -> Values:
    """Apply changes in place and return the new state; raises `AwsError`."""
    aws = aws.in_region(state.get("region"))
    changes = plan_changes(resource, state, inputs, aws.settings.default_tags)
    changed = frozenset(change.name for change in changes)
    if changed & {"tags", "tagsAll"}:
        _retag(resource, aws, ident, state, inputs)
    if rest := changed - {"tags", "tagsAll"}:
        resource.update(aws, ident, state, _with_defaults(resource, inputs), rest)
    carried = {
        name: state[name]
        for name, prop in resource.properties.items()
        if (prop.computed or prop.output) and name in state
    }
    known = {**carried, **_with_defaults(resource, inputs), "region": aws.region}
    result = _read_state(resource, aws, ident, known)
    if result is None:
        raise AwsError(
            operation=f"update {resource.token}",
            code="Vanished",
            message=f"{ident} does not exist any more; run a refresh",
        )
    return result


def delete(resource: Resource, aws: Aws, ident: str, state: Values) -> None:
    """Delete the resource; what is gone already counts as deleted."""
    try:
        resource.delete(aws.in_region(state.get("region")), ident, state)
    except AwsError as error:
        if not error.is_absent:
            raise


def merge_tags(tags: Any, default_tags: Mapping[str, str]) -> Any:
    """Return a resource's tags over the provider's; UNKNOWN when the former are unknown."""
    return UNKNOWN if tags is UNKNOWN else {**default_tags, **(tags or {})}


def _retag(resource: Resource, aws: Aws, ident: str, state: Values, inputs: Values) -> None:
    live: dict[str, str] = state.get("tagsAll") or {}
    wanted: dict[str, str] = merge_tags(inputs.get("tags"), aws.settings.default_tags)
    put = {key: value for key, value in wanted.items() if live.get(key) != value}
    drop = [key for key in live if key not in wanted]
    resource.retag(aws, ident, state, put, drop)


def _read_state(resource: Resource, aws: Aws, ident: str, known: Values) -> Values | None:
    live = resource.read(aws, ident, known)
    if live is None:
        return None
    result: Values = {}
    for name, prop in resource.properties.items():
        value = live.get(name) if name in live else known.get(name, prop.default)
        result[name] = _keep_spelling(prop, known.get(name), value)
    if "tagsAll" in resource.properties:
        every = {
            key: value
            for key, value in (live.get("tagsAll") or {}).items()
            if not key.startswith("aws:")
        }
        mine = known.get("tags") or {}
        defaults = aws.settings.default_tags
        result["tagsAll"] = every
        result["tags"] = {
            key: value for key, value in every.items() if key in mine or defaults.get(key) != value
        }
    if "region" in resource.properties:
        result["region"] = aws.region
    return result


def _keep_spelling(prop: Property, known: Any, live: Any) -> Any:
    """Prefer the program's own text when AWS returned another spelling of the same thing."""
    if known is None or prop.output or has_unknown(known):
        return live
    if prop.shape is Shape.OBJECT and isinstance(known, Mapping) and isinstance(live, Mapping):
        fields = prop.fields or {}
        return {
            name: _keep_spelling(fields[name], known.get(name), value) if name in fields else value
            for name, value in live.items()
        }
    return known if same(prop, known, live) and same(prop, live, known) else live


def _salvage(resource: Resource, aws: Aws, ident: str, known: Values) -> Values:
    try:
        return _read_state(resource, aws, ident, known) or known
    except AwsError:
        return known


def _with_defaults(resource: Resource, inputs: Values) -> Values:
    filled = {
        name: prop.default
        for name, prop in resource.properties.items()
        if prop.default is not None and not prop.output
    }
    return {**filled, **{k: v for k, v in inputs.items() if k != DEFAULTS_KEY}}


def _live_inputs(resource: Resource, live: Values, inputs: Values | None) -> Values:
    """Return the inputs that would give the live state, in the program's words where it fits.

    A property that the program left to AWS stays out. On import there is no program yet, so
    everything that a program could set and that differs from its default is listed.
    """
    result: Values = {}
    for name, prop in resource.properties.items():
        value = live.get(name)
        if prop.output:
            continue
        if inputs is not None and name in inputs:
            result[name] = inputs[name] if same(prop, value, inputs[name]) else value
        elif (inputs is None or not prop.computed) and not is_empty(prop, value):
            if name == "region" and inputs is None:
                continue
            result[name] = _settable(prop, value)
    if inputs is not None and DEFAULTS_KEY in inputs:
        result[DEFAULTS_KEY] = inputs[DEFAULTS_KEY]
    return {name: value for name, value in result.items() if value is not None}


def _settable(prop: Property, value: Any) -> Any:
    """Drop what only AWS sets from an object, so that the value passes the check."""
    if prop.shape is Shape.OBJECT and prop.fields is not None and isinstance(value, Mapping):
        return {
            name: _settable(field, value[name])
            for name, field in prop.fields.items()
            if not field.output and value.get(name) is not None
        }
    return value
