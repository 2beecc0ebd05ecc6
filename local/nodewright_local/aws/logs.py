"""The CloudWatch Logs call that moto answers too loosely."""

from nodewright_local.aws import moto_access
from nodewright_local.aws.wire import Call


def delete_log_group(call: Call) -> None:
    """Forget the tags of a group that goes; moto gives them to the next group of that name."""
    backend = moto_access.logs(call.region)
    group = backend.groups.get(str(call.params.get("logGroupName")))
    if group is not None:
        backend.tagger.delete_all_tags_for_resource(group.arn)
