"""The files that run the product elsewhere are valid by their schemas, and name only what there is."""

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import get_commands

import convmemory
from convmemory.core.postgres.configuration import STATISTICS
from convmemory.http_limits.refusals import HEALTH_PATHS

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS = sorted(path for path in (ROOT / "deploy/kubernetes").glob("*.yaml") if path.name != "kustomization.yaml")
SETTINGS = (ROOT / "docs/settings.md").read_text(encoding="utf-8")


def complaints_of(program: str, *arguments: str) -> str:
    """Return the output of a checker, or "" if it finds nothing wrong."""
    command = [str(Path(sys.executable).parent / program), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    return "" if done.returncode == 0 else done.stdout + done.stderr


@cache
def documents(path: Path) -> tuple[dict[str, Any], ...]:
    return tuple(yaml.safe_load_all(path.read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    compose: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
    found: dict[str, Any] = compose["services"]
    return found


def pods() -> Iterator[dict[str, Any]]:
    """Yield the templates of all pods."""
    for path in MANIFESTS:
        for document in documents(path):
            if template := document.get("spec", {}).get("template"):
                yield template


def containers() -> Iterator[dict[str, Any]]:
    """Yield the containers that run the product's own image."""
    for pod in pods():
        yield from (one for one in pod["spec"]["containers"] if one["image"] == "convmemory")


def test_dockerfile_has_no_lint() -> None:
    assert complaints_of("hadolint", "Dockerfile") == ""


def test_compose_is_valid() -> None:
    assert complaints_of("check-jsonschema", "--builtin-schema", "vendor.compose-spec", "compose.yaml") == ""


def test_validator_reports_invalid_manifest(tmp_path: Path) -> None:
    broken = tmp_path / "service.yaml"
    broken.write_text("apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {port: [many]}\n", encoding="utf-8")
    assert "port" in complaints_of("kubernetes-validate", "--strict", str(broken))


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_manifests_are_valid(path: Path) -> None:
    assert complaints_of("kubernetes-validate", "--strict", str(path)) == ""


def test_kustomize_applies_every_manifest() -> None:
    (kustomization,) = documents(ROOT / "deploy/kubernetes/kustomization.yaml")
    assert sorted(kustomization["resources"]) == [path.name for path in MANIFESTS]


def test_every_command_exists(services: dict[str, Any]) -> None:
    commands = {service["command"][0] for service in services.values() if service["image"] == "convmemory"}
    commands |= {container["args"][0] for container in containers()}
    assert commands == {"web", "worker", "migrate"}
    assert commands <= set(get_commands())


def test_every_setting_is_documented(services: dict[str, Any]) -> None:
    names = {
        name for service in services.values() if service["image"] == "convmemory" for name in service["environment"]
    }
    (config,) = documents(ROOT / "deploy/kubernetes/settings.yaml")
    for name in names | set(config["data"]):
        assert f"`{name.removesuffix('_FILE')}" in SETTINGS, name


def test_probes_use_health_and_ready() -> None:
    paths = {
        container[probe]["httpGet"]["path"]
        for container in containers()
        for probe in ("startupProbe", "livenessProbe", "readinessProbe")
        if "httpGet" in container.get(probe, {})
    }
    assert paths == {"/health", "/ready"}
    assert paths <= HEALTH_PATHS


def test_database_renews_statistics_as_embedded_one(services: dict[str, Any]) -> None:
    assert {f"{name}={value}" for name, value in STATISTICS.items()} <= set(services["database"]["command"])


def test_images_of_others_have_a_full_version(services: dict[str, Any]) -> None:
    images = {service["image"] for service in services.values()} - {"convmemory"}
    images |= {one["image"] for pod in pods() for one in pod["spec"]["containers"]} - {"convmemory"}
    assert {image for image in images if not re.search(r":v?\d+\.\d+\.\d+", image)} == set()
    (kustomization,) = documents(ROOT / "deploy/kubernetes/kustomization.yaml")
    assert kustomization["images"][0]["newTag"] == convmemory.__version__


def test_processes_are_killed_after_they_have_drained(services: dict[str, Any]) -> None:
    (config,) = documents(ROOT / "deploy/kubernetes/settings.yaml")
    webs = [pod["spec"] for pod in pods() if pod["metadata"]["labels"]["app"] == "convmemory-web"]
    graces = [web["terminationGracePeriodSeconds"] for web in webs]
    drains = [int(config["data"]["DRAIN_S"])]
    for name in ("web-1", "web-2"):
        graces.append(int(services[name]["stop_grace_period"].removesuffix("s")))
        drains.append(int(services[name]["environment"]["DRAIN_S"]))
    assert len(graces) == 3
    assert min(graces) >= max(drains) + 15


def test_only_proxy_is_believed_about_clients(services: dict[str, Any]) -> None:
    compose: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
    (pool,) = compose["networks"]["edge"]["ipam"]["config"]
    address = services["proxy"]["networks"]["edge"]["ipv4_address"]
    assert ip_address(address) in ip_network(pool["subnet"])
    assert ip_address(address) not in ip_network(pool["ip_range"]), "another container could have it"
    assert ip_network(pool["ip_range"]).subnet_of(ip_network(pool["subnet"]))  # type: ignore[arg-type]
    for name in ("web-1", "web-2"):
        assert services[name]["environment"]["FORWARDED_ALLOW_IPS"] == address
    (config,) = documents(ROOT / "deploy/kubernetes/settings.yaml")
    pods = ip_network(config["data"]["FORWARDED_ALLOW_IPS"])
    assert pods.is_private
    (web,) = (one for one in documents(ROOT / "deploy/kubernetes/network.yaml") if one["metadata"]["name"] == "web")
    assert [list(rule["from"][0]) for rule in web["spec"]["ingress"]] == [["namespaceSelector"]]


def test_image_holds_every_package_of_product() -> None:
    kept = {line[1:].strip() for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"benchmarks", "tests"}
    assert packages | {"templates", "static", "manage.py"} <= kept
    assert not {"benchmarks", "tests"} & kept


def test_image_is_built_from_files_that_its_context_holds() -> None:
    kept = {line[1:].strip() for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.M)
    names = {name for line in copied for name in line.split()} - {"."}
    assert len(names) == 3
    assert names <= kept


def test_containers_run_without_root() -> None:
    assert "\nUSER 10001\n" in (ROOT / "Dockerfile").read_text(encoding="utf-8")
    for container in containers():
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
