"""The provider protocol over gRPC: turns requests into `lifecycle` calls and errors into statuses.

Knows the wire messages and nothing about single resource types.
"""

import json
import threading
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, TypeVar

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.empty_pb2 import Empty
from google.protobuf.struct_pb2 import Struct
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc, status_pb2
from typing_extensions import override

from nodewright_local.pulumi_aws import lifecycle, provider_config, registry
from nodewright_local.pulumi_aws.aws import Aws, AwsError
from nodewright_local.pulumi_aws.checks import DEFAULTS_KEY, Failure, argument_failures, check
from nodewright_local.pulumi_aws.diff import Change, ChangeKind
from nodewright_local.pulumi_aws.names import Naming, NamingMode
from nodewright_local.pulumi_aws.schema import Resource
from nodewright_local.pulumi_aws.values import Bag, Values, decode, encode, has_unknown

_KINDS = {
    ChangeKind.ADD: (provider_pb2.PropertyDiff.ADD, provider_pb2.PropertyDiff.ADD_REPLACE),
    ChangeKind.DELETE: (
        provider_pb2.PropertyDiff.DELETE,
        provider_pb2.PropertyDiff.DELETE_REPLACE,
    ),
    ChangeKind.UPDATE: (
        provider_pb2.PropertyDiff.UPDATE,
        provider_pb2.PropertyDiff.UPDATE_REPLACE,
    ),
}
_T = TypeVar("_T")
_NAMING_MODES = {
    provider_pb2.CheckRequest.AutonamingOptions.PROPOSE: NamingMode.PROPOSE,
    provider_pb2.CheckRequest.AutonamingOptions.ENFORCE: NamingMode.ENFORCE,
    provider_pb2.CheckRequest.AutonamingOptions.DISABLE: NamingMode.DISABLE,
}


class AwsProvider(provider_pb2_grpc.ResourceProviderServicer):
    """Serves one engine. Calls may come in parallel."""

    def __init__(self, version: str) -> None:
        self._version = version
        self._cancelled = threading.Event()
        self._aws: Aws | None = None

    @override
    def Handshake(self, request: Any, context: Any) -> provider_pb2.ProviderHandshakeResponse:
        """Say what we can handle on the wire."""
        return provider_pb2.ProviderHandshakeResponse(
            accept_secrets=True, supports_autonaming_configuration=True
        )

    @override
    def Attach(self, request: Any, context: Any) -> Empty:
        """Accept a debugging engine's address; we have nothing to tell it."""
        return Empty()

    @override
    def GetPluginInfo(self, request: Any, context: Any) -> plugin_pb2.PluginInfo:
        """Tell the version."""
        return plugin_pb2.PluginInfo(version=self._version)

    @override
    def GetSchema(self, request: Any, context: Any) -> provider_pb2.GetSchemaResponse:
        """Tell which types there are; the property types are in the installed SDK."""
        schema = {
            "name": "aws",
            "version": self._version,
            "resources": {token: {} for token in registry.resources()},
            "functions": {token: {} for token in registry.functions()},
        }
        return provider_pb2.GetSchemaResponse(schema=json.dumps(schema))

    @override
    def CheckConfig(self, request: Any, context: Any) -> provider_pb2.CheckResponse:
        """Refuse settings that we do not know."""
        news = decode(request.news)
        return provider_pb2.CheckResponse(
            inputs=request.news, failures=_failures(provider_config.check_config(news.values))
        )

    @override
    def DiffConfig(self, request: Any, context: Any) -> provider_pb2.DiffResponse:
        """Another region means other resources; other settings change in place."""
        olds = decode(request.old_inputs or request.olds).values
        changed = provider_config.differing(olds, decode(request.news).values)
        return provider_pb2.DiffResponse(
            changes=_some(changed),
            diffs=changed,
            replaces=[name for name in changed if name == "region"],
        )

    @override
    def Configure(self, request: Any, context: Any) -> provider_pb2.ConfigureResponse:
        """Remember the settings; nothing is called yet."""
        try:
            settings = provider_config.parse_config(decode(request.args).values)
        except ValueError as error:
            _abort(context, str(error))
        self._aws = Aws(settings, self._cancelled)
        return provider_pb2.ConfigureResponse(
            acceptSecrets=True,
            supportsPreview=True,
            supports_autonaming_configuration=True,
        )

    @override
    def Check(self, request: Any, context: Any) -> provider_pb2.CheckResponse:
        """Refuse what we do not support; fill in a name where AWS needs one."""
        resource = self._resource(request, context)
        news = decode(request.news)
        checked = check(resource, news.values, decode(request.olds).values, _naming(request))
        return provider_pb2.CheckResponse(
            inputs=encode(checked.inputs, news.secrets), failures=_failures(checked.failures)
        )

    @override
    def Diff(self, request: Any, context: Any) -> provider_pb2.DiffResponse:
        """Compare the state with the program."""
        resource = self._resource(request, context)
        aws = self._connection(context)
        news = decode(request.news)
        changes = lifecycle.plan_changes(
            resource,
            decode(request.olds).values,
            _inputs(news),
            aws.settings.default_tags,
        )
        ignored = set(request.ignoreChanges)
        return _diff_response(
            resource, [change for change in changes if change.name not in ignored], news.values
        )

    @override
    def Create(self, request: Any, context: Any) -> provider_pb2.CreateResponse:
        """Make the resource, or say what it would be."""
        resource = self._resource(request, context)
        aws = self._connection(context)
        bag = decode(request.properties)
        if request.preview:
            planned = lifecycle.preview(resource, aws.in_region(_region(bag)), _inputs(bag))
            return provider_pb2.CreateResponse(properties=_state(resource, planned, bag))
        _refuse_unknown(context, _subject(request.urn), bag.values)
        try:
            live = _guarded(
                context,
                _subject(request.urn),
                lambda: lifecycle.create(resource, aws, _inputs(bag)),
            )
        except lifecycle.CreatedInPartError as error:
            _abort_created(
                context, _subject(request.urn), error, bag, _state(resource, error.state, bag)
            )
        return provider_pb2.CreateResponse(
            id=live.ident, properties=_state(resource, live.state, bag)
        )

    @override
    def Read(self, request: Any, context: Any) -> provider_pb2.ReadResponse:
        """Refresh a resource, or import one; an empty id says that it is gone."""
        resource = self._resource(request, context)
        aws = self._connection(context)
        state, inputs = decode(request.properties), decode(request.inputs)
        live = _guarded(
            context,
            _subject(request.urn),
            lambda: lifecycle.read(resource, aws, request.id, state.values, inputs.values or None),
        )
        if live is None:
            return provider_pb2.ReadResponse()
        secret = Bag(values={}, secrets=state.secrets | inputs.secrets)
        return provider_pb2.ReadResponse(
            id=live.ident,
            properties=_state(resource, live.state, secret),
            inputs=encode(live.inputs, secret.secrets),
        )

    @override
    def Update(self, request: Any, context: Any) -> provider_pb2.UpdateResponse:
        """Change the resource in place, or say what it would be."""
        resource = self._resource(request, context)
        aws = self._connection(context)
        bag, olds = decode(request.news), decode(request.olds).values
        if request.preview:
            planned = lifecycle.preview(
                resource, aws.in_region(olds.get("region")), _inputs(bag), olds
            )
            return provider_pb2.UpdateResponse(properties=_state(resource, planned, bag))
        _refuse_unknown(context, _subject(request.urn), bag.values)
        new_state = _guarded(
            context,
            _subject(request.urn),
            lambda: lifecycle.update(resource, aws, request.id, olds, _inputs(bag)),
        )
        return provider_pb2.UpdateResponse(properties=_state(resource, new_state, bag))

    @override
    def Delete(self, request: Any, context: Any) -> Empty:
        """Delete the resource and wait until it is gone."""
        resource = self._resource(request, context)
        aws = self._connection(context)
        state = decode(request.properties).values
        _guarded(
            context,
            _subject(request.urn),
            lambda: lifecycle.delete(resource, aws, request.id, state),
        )
        return Empty()

    @override
    def Invoke(self, request: Any, context: Any) -> provider_pb2.InvokeResponse:
        """Call a function."""
        try:
            function = registry.function(request.tok)
        except registry.UnsupportedTokenError as error:
            _abort(context, str(error), grpc.StatusCode.UNIMPLEMENTED)
        args = decode(request.args).values
        if failures := argument_failures(function.inputs, args):
            return provider_pb2.InvokeResponse(failures=_failures(failures))
        aws = self._connection(context).in_region(args.get("region"))
        result = _guarded(context, request.tok, lambda: function.call(aws, args))
        fields: dict[str, Any] = {
            "return": encode(result.values, result.secrets)
        }  # a Python keyword
        return provider_pb2.InvokeResponse(**fields)

    @override
    def Cancel(self, request: Any, context: Any) -> Empty:
        """End all waiting."""
        self._cancelled.set()
        return Empty()

    def _resource(self, request: Any, context: Any) -> Resource:
        token = request.type or type_of_urn(request.urn)
        try:
            return registry.resource(token)
        except registry.UnsupportedTokenError as error:
            _abort(context, f"{_subject(request.urn)}: {error}", grpc.StatusCode.UNIMPLEMENTED)

    def _connection(self, context: Any) -> Aws:
        if self._aws is None:
            _abort(context, "the provider has not been configured yet")
        return self._aws


def type_of_urn(urn: str) -> str:
    """Return the resource type in a URN."""
    qualified = urn.split("::", 3)[2] if urn.count("::") >= 2 else ""
    return qualified.rsplit("$", 1)[-1]


def _subject(urn: str) -> str:
    """Return how an error names a resource; the engine adds the URN."""
    return f"{type_of_urn(urn)} {urn.rsplit('::', 1)[-1]!r}"


def _naming(request: Any) -> Naming:
    options = request.autonaming if request.HasField("autonaming") else None
    return Naming(
        logical_name=request.name or request.urn.rsplit("::", 1)[-1],
        seed=request.randomSeed,
        proposed=(options.proposed_name or None) if options else None,
        mode=_NAMING_MODES[options.mode] if options else NamingMode.PROPOSE,
    )


def _inputs(bag: Bag) -> Values:
    return {name: value for name, value in bag.values.items() if name != DEFAULTS_KEY}


def _region(bag: Bag) -> str | None:
    region = bag.values.get("region")
    return region if isinstance(region, str) else None


def _state(resource: Resource, values: Values, bag: Bag) -> Struct:
    always = {name for name, prop in resource.properties.items() if prop.secret}
    return encode(values, bag.secrets | always)


def _failures(failures: Iterable[Failure]) -> list[provider_pb2.CheckFailure]:
    return [
        provider_pb2.CheckFailure(property=item.property, reason=item.reason) for item in failures
    ]


def _some(changes: object) -> provider_pb2.DiffResponse.DiffChanges.ValueType:
    response = provider_pb2.DiffResponse
    return response.DIFF_SOME if changes else response.DIFF_NONE


def _diff_response(
    resource: Resource, changes: list[Change], inputs: Values
) -> provider_pb2.DiffResponse:
    replacing = sorted({change.name for change in changes if change.replaces})
    return provider_pb2.DiffResponse(
        changes=_some(changes),
        diffs=sorted({change.name for change in changes}),
        replaces=replacing,
        deleteBeforeReplace=bool(replacing)
        and lifecycle.deletes_first(resource, tuple(changes), inputs),
        detailedDiff={
            change.path: provider_pb2.PropertyDiff(kind=_KINDS[change.kind][change.replaces])
            for change in changes
        },
        hasDetailedDiff=True,
    )


def _refuse_unknown(context: Any, subject: str, values: Values) -> None:
    unknown = sorted(name for name, value in values.items() if has_unknown(value))
    if unknown:
        _abort(context, f"{subject}: still unknown at deployment: {', '.join(unknown)}")


def _guarded(context: Any, subject: str, operation: Callable[[], _T]) -> _T:
    try:
        return operation()
    except AwsError as error:
        _abort(context, f"{subject}: {error}")


def _abort(context: Any, message: str, code: grpc.StatusCode = grpc.StatusCode.UNKNOWN) -> NoReturn:
    context.abort(code, message)
    raise AssertionError("abort does not return")


def _abort_created(
    context: Any,
    subject: str,
    error: lifecycle.CreatedInPartError,
    bag: Bag,
    state: Struct,
) -> NoReturn:
    """Report a half-made resource in the form from which the engine takes id and state."""
    detail = AnyMessage()
    detail.Pack(
        provider_pb2.ErrorResourceInitFailed(
            id=error.ident,
            properties=state,
            reasons=[error.reason],
            inputs=encode(bag.values, bag.secrets),
        )
    )
    message = f"{subject}: {error.ident} exists but is not usable: {error.reason}"
    status = status_pb2.Status(
        code=grpc.StatusCode.UNKNOWN.value[0], message=message, details=[detail]
    )
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    _abort(context, message)
