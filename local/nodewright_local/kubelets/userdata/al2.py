"""Amazon Linux 2: the call of ``/etc/eks/bootstrap.sh`` in a shell script of the user data.

Source: https://awslabs.github.io/amazon-eks-ami/usage/al2/ . The real script asks EKS for endpoint
and CA when they are not given; here both must be given.
"""

import shlex

from nodewright_local.kubelets.userdata.bootstrap import (
    Bootstrap,
    bad,
    check_address,
    check_endpoint,
    decode_certificate_authority,
    required_text,
)
from nodewright_local.kubelets.userdata.kubelet_flags import parse_flags
from nodewright_local.kubelets.userdata.mime import SHELL_SCRIPT, is_mime, split_parts, to_text
from nodewright_local.kubelets.userdata.node_metadata import check_labels, check_taints

BOOTSTRAP_SCRIPT = "/etc/eks/bootstrap.sh"


def decode(user_data: bytes) -> Bootstrap:
    """Return what AL2 user data says; raise UserDataError if the script or kubelet would fail."""
    text = to_text(user_data)
    if is_mime(text):
        scripts = [part.text for part in split_parts(text) if part.content_type == SHELL_SCRIPT]
    elif text.startswith("#!"):
        scripts = [text]
    else:
        raise bad("AL2 user data must be a shell script or MIME multipart with one")
    name, options = _options(_command(scripts))
    endpoint, authority = options.get("--apiserver-endpoint"), options.get("--b64-cluster-ca")
    flags = parse_flags([options.get("--kubelet-extra-args", "")])
    dns = options.get("--dns-cluster-ip")
    return Bootstrap(
        cluster_name=required_text(name, "the cluster name given to bootstrap.sh"),
        api_server_endpoint=check_endpoint(endpoint, "--apiserver-endpoint"),
        certificate_authority_pem=decode_certificate_authority(authority, "--b64-cluster-ca"),
        cluster_dns=(check_address(dns, "--dns-cluster-ip"),) if dns else (),
        labels=check_labels(flags.labels),
        taints=check_taints(flags.taints),
        max_pods=flags.max_pods,
        pods_per_core=flags.pods_per_core or 0,
        kube_reserved=flags.kube_reserved,
        system_reserved=flags.system_reserved,
        eviction_hard=flags.eviction_hard,
        instance_store_raid0=options.get("--local-disks") == "raid0",
        notes=("only the call of bootstrap.sh was read, the rest of the script was not executed",),
    )


def _command(scripts: list[str]) -> list[str]:
    """Return the words of the first bootstrap.sh call, without the script itself."""
    for script in scripts:
        for line in script.replace("\\\n", " ").splitlines():
            command = line.strip()
            if BOOTSTRAP_SCRIPT not in command or command.startswith("#"):
                continue
            try:
                words = shlex.split(command, comments=True)
            except ValueError as error:
                raise bad(f"the call of bootstrap.sh does not parse: {error}") from error
            if BOOTSTRAP_SCRIPT in words:
                return words[words.index(BOOTSTRAP_SCRIPT) + 1 :]
    raise bad(f"no shell script of the user data calls {BOOTSTRAP_SCRIPT}")


def _options(words: list[str]) -> tuple[str, dict[str, str]]:
    """Split into the cluster name and ``--option value`` pairs, in any order."""
    name, options = "", {}
    rest = iter(words)
    for word in rest:
        if word.startswith("--"):
            options[word] = next(rest, "")
        elif not name:
            name = word
    return name, options
