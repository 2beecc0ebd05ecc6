"""The real engine with our provider, from the first `up` to `destroy`, inline and by command line.

AWS is the stand-in alone; no Kubernetes is needed.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pulumi
import pytest
from nodewright_local.engine import EngineError, Phase, PulumiEngine, ResourceStep, program_from
from nodewright_local.state import cache_directory
from nodewright_local.toolbox import PULUMI

FOLDER = cache_directory() / "tools" / PULUMI.directory
PROGRAM = """
import json
import pulumi
import pulumi_aws as aws

config = pulumi.Config()
zones = aws.get_availability_zones(state="available")
vpc = aws.ec2.Vpc("net", cidr_block="10.7.0.0/16", tags={"size": config.require("size")})
subnets = [
    aws.ec2.Subnet(f"net-{zone}", vpc_id=vpc.id, cidr_block=f"10.7.{i}.0/24", availability_zone=zone)
    for i, zone in enumerate(zones.names[:2])
]
assume = aws.iam.get_policy_document(statements=[{
    "actions": ["sts:AssumeRole"],
    "principals": [{"type": "Service", "identifiers": ["ec2.amazonaws.com", "eks.amazonaws.com"]}],
}])
role = aws.iam.Role("node", assume_role_policy=assume.json, path=config.get("path") or "/")
cluster = aws.eks.Cluster(
    "demo",
    role_arn=role.arn,
    vpc_config={"subnet_ids": [subnet.id for subnet in subnets]},
    access_config={"authentication_mode": "API"},
)
queue = aws.sqs.Queue("events", visibility_timeout_seconds=int(config.get("visible") or 30))
aws.sqs.QueuePolicy("events", queue_url=queue.id, policy=queue.arn.apply(lambda arn: json.dumps({
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": arn,
                   "Principal": {"Service": "events.amazonaws.com"}}],
})))
pulumi.export("vpc", vpc.id)
pulumi.export("security_group", cluster.vpc_config.cluster_security_group_id)
pulumi.export("secret", config.get_secret("secret") or pulumi.Output.secret("hidden"))
print("program ran")
"""

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
if not (FOLDER / "pulumi").is_file():
    pytestmark.append(pytest.mark.skip(reason=f"no engine in {FOLDER}; `nodewright local up`"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project folder with a program and no stack yet."""
    folder = tmp_path / "project"
    (folder / "stacks").mkdir(parents=True)
    (folder / "Pulumi.yaml").write_text(
        "name: demo\nmain: stacks\nruntime:\n  name: python\n  options:\n    toolchain: pip\n"
    )
    (folder / "stacks" / "__main__.py").write_text(PROGRAM)
    return folder


@pytest.fixture
def environment(aws_url: str, tmp_path: Path) -> dict[str, str]:
    """A process environment that knows the stand-in, our plugins and the built engine only."""
    (tmp_path / "backend").mkdir()
    return {
        # The stand-in runs in this process, whose environment the engine takes over for a while.
        **{name: value for name, value in os.environ.items() if name.startswith("MOTO_")},
        "HOME": str(tmp_path),
        "PATH": os.pathsep.join(
            (str(Path(sys.executable).parent), str(FOLDER), "/usr/bin", "/bin")
        ),
        "AWS_ENDPOINT_URL": aws_url,
        "AWS_REGION": "us-west-2",
        "AWS_ACCESS_KEY_ID": "AKIATEST",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_EC2_METADATA_DISABLED": "true",
        "PULUMI_BACKEND_URL": f"file://{tmp_path}/backend",
        "PULUMI_CONFIG_PASSPHRASE": "test",
        "PULUMI_HOME": str(tmp_path / "home"),
        "PULUMI_SKIP_UPDATE_CHECK": "1",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PYTHONWARNINGS": "ignore",
    }


@pytest.fixture
def engine(project: Path, environment: dict[str, str]) -> PulumiEngine:
    """An engine for the project's program."""
    made = PulumiEngine(
        stack="dev",
        program=program_from(project / "stacks"),
        project_dir=project,
        environment=environment,
    )
    made.set_config({"demo:size": "small"})
    return made


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the AWS SDK, when it is imported
def test_a_stack_goes_from_nothing_to_nothing(engine: PulumiEngine) -> None:
    planned = engine.preview()
    up = engine.up()

    assert planned.changes == up.changes == {"create": 8}
    assert up.outputs["vpc"].startswith("vpc-")
    assert up.outputs["security_group"].startswith("sg-")
    assert engine.outputs() == up.outputs

    assert not engine.preview().changed
    assert not engine.refresh().changed
    assert not engine.preview(refresh=True).changed

    engine.set_config({"demo:size": "large", "demo:visible": "60"})
    updated = engine.up()
    assert {(step.name, step.operation, step.properties) for step in updated.steps} == {
        ("net", "update", ("tags.size", "tagsAll.size")),
        ("events", "update", ("visibilityTimeoutSeconds",)),
    }
    assert not engine.preview().changed

    engine.set_config({"demo:path": "/nodes/"})
    replaced = engine.up()
    operations = [(step.name, step.operation) for step in replaced.steps]
    assert operations.index(("node", "create-replacement")) < operations.index(
        ("node", "delete-replaced")
    )

    destroyed = engine.destroy(remove=True)
    assert destroyed.changes == {"delete": 8}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_progress_tells_each_operation_as_it_begins_and_ends(
    project: Path, environment: dict[str, str]
) -> None:
    steps: list[ResourceStep] = []
    messages: list[tuple[str, str]] = []

    def program() -> None:
        queue = __import__("pulumi_aws").sqs.Queue("q")
        pulumi.export("url", queue.url)

    engine = PulumiEngine(
        stack="dev",
        program=program,
        project_dir=project,
        environment=environment,
        on_step=steps.append,
        on_message=lambda severity, text: messages.append((severity, text)),
    )
    engine.up()
    seen = [(step.phase, step.operation) for step in steps if step.name == "q"]
    engine.destroy()

    assert seen == [(Phase.STARTED, "create"), (Phase.DONE, "create")]
    assert messages == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_failure_carries_what_aws_said(project: Path, environment: dict[str, str]) -> None:
    def program() -> None:
        __import__("pulumi_aws").ec2.Vpc("bad", cidr_block="10.0.0.0/99")

    before = dict(os.environ)
    engine = PulumiEngine(
        stack="dev", program=program, project_dir=project, environment=environment
    )

    with pytest.raises(EngineError, match=r"bad: .*ec2 CreateVpc: InvalidParameterValue"):
        engine.up()

    assert dict(os.environ) == before
    engine.destroy()


def test_a_folder_without_a_project_is_refused(tmp_path: Path, environment: dict[str, str]) -> None:
    engine = PulumiEngine(
        stack="dev", program=lambda: None, project_dir=tmp_path, environment=environment
    )

    with pytest.raises(EngineError, match=r"no Pulumi\.yaml in"):
        engine.up()


def test_the_command_line_runs_the_same_program(project: Path, environment: dict[str, str]) -> None:
    def run(*arguments: str) -> str:
        answer = subprocess.run(
            ["pulumi", *arguments, "--non-interactive"],
            cwd=project,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert answer.returncode == 0, answer.stdout + answer.stderr
        return answer.stdout

    run("stack", "init", "dev")
    run("config", "set", "demo:size", "small")
    run("config", "set", "--secret", "demo:secret", "open sesame")
    up = run("up", "--yes", "--skip-preview")
    outputs = json.loads(run("stack", "output", "--json", "--show-secrets"))
    hidden = json.loads(run("stack", "output", "--json"))
    run("preview", "--expect-no-changes")
    run("destroy", "--yes", "--skip-preview", "--remove")

    assert "program ran" in up
    assert outputs["secret"] == "open sesame"
    assert hidden["secret"] == "[secret]"


def test_the_command_line_shows_where_a_program_broke(
    project: Path, environment: dict[str, str]
) -> None:
    (project / "stacks" / "__main__.py").write_text("import broken_part\n")
    (project / "stacks" / "broken_part.py").write_text("raise ValueError('boom')\n")
    subprocess.run(["pulumi", "stack", "init", "dev"], cwd=project, env=environment, check=True)

    answer = subprocess.run(
        ["pulumi", "preview", "--non-interactive"],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert answer.returncode != 0
    assert "broken_part.py" in answer.stdout
    assert "ValueError: boom" in answer.stdout
    assert "run_in_stack" not in answer.stdout
