"""Whatever happens to a folder, it is refused with a sentence or is as good as before."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autosched.export.shipped import autosched_kernels as loader
from autosched.export.shipped import autosched_manifest


@pytest.fixture
def copied(sample: Any, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sample.folder, tmp_path / "kernels"))


def changed(path: Path, offset: int = 100) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x01
    path.write_bytes(data)


def sign(folder: Path, data: Any) -> None:
    """Write a manifest whose own hash is right, whatever it says."""
    if isinstance(data, dict):
        data["sha256"] = autosched_manifest.digest_of(data)
    (folder / autosched_manifest.MANIFEST).write_text(json.dumps(data))


@pytest.mark.parametrize(
    "pattern",
    [
        "*.cubin",
        "autosched_cuda.py",
        "autosched_kernels.py",
        "autosched_manifest.py",
        "kernels.py",
        "example.c",
    ],
)
def test_a_changed_file_is_named(pattern: str, copied: Path, fake_cuda: Any) -> None:
    path = next(copied.glob(pattern))
    changed(path)
    with pytest.raises(loader.BadManifest) as caught:
        loader.load(copied, library=fake_cuda.library)
    assert str(caught.value).startswith(f"{path}: is damaged or was changed: SHA-256 ")
    path.unlink()
    with pytest.raises(loader.BadManifest, match="the manifest names it, and it is missing"):
        loader.load(copied, library=fake_cuda.library)


def test_a_changed_manifest_is_refused(copied: Path) -> None:
    path = copied / autosched_manifest.MANIFEST
    text = path.read_text()
    path.write_text(text.replace('"threads": 64', '"threads": 96'))
    with pytest.raises(loader.BadManifest) as caught:
        autosched_manifest.read(copied)
    assert str(caught.value) == (
        f"{path}: is damaged or was changed: its content is not what sha256 says"
    )
    path.write_text(text[: len(text) // 2])
    with pytest.raises(loader.BadManifest, match=r"manifest\.json: is not JSON: "):
        autosched_manifest.read(copied)
    path.write_text("[" * 100_000)
    with pytest.raises(loader.BadManifest, match="is not JSON"):
        autosched_manifest.read(copied)
    path.write_text(text.replace('"form": 1,', '"form": 1, "form": 1,'))
    with pytest.raises(loader.BadManifest, match="a name stands twice in one object"):
        autosched_manifest.read(copied)
    path.write_text(text.replace('"form": 1,', '"form": 2,'))
    with pytest.raises(loader.BadManifest, match="its form must be 1, and is 2"):
        autosched_manifest.read(copied)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        autosched_manifest.read(copied)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("workloads.0.kernels.0.grid.0", -1, "grid[0] must be an integer from 0 to 2147483647"),
        ("workloads.0.kernels.0.threads", 1e3, "threads must be an integer from 32 to 1024"),
        ("workloads.0.kernels.0.threads", True, "threads must be an integer from 32 to 1024"),
        ("workloads.0.kernels.0.shared_bytes", 232449, "an integer from 0 to 232448"),
        ("workloads.0.kernels.0.file", "../x.cubin", "file must be a text like"),
        ("workloads.0.kernels.0.file", "kernels.py", "a .cubin among the manifest's files"),
        ("workloads.0.kernels.0.arguments.0.buffer", "D", "must be one of A, B, bias, C"),
        ("workloads.0.kernels.0.arguments.0.box.swizzle", 4, "an integer from 0 to 3"),
        ("workloads.0.kernels.0.arguments.0.box.block", [16], "must be equally long"),
        ("workloads.0.buffers.0.shape.0", 1 << 60, "shape[0] must be an integer from 0 to"),
        ("workloads.0.buffers.0.shape", [1 << 40, 1 << 40], "a tensor of more than"),
        ("workloads.0.buffers.0.strides", [1], "2 strides, one for each extent, and is [1]"),
        ("workloads.0.buffers.0.role", "output", "buffers must hold one output"),
        ("workloads.0.buffers.0.zeroed", True, "only a workspace is cleared"),
        ("workloads.0.buffers.1.name", "A", "two have one name"),
        ("workloads.1.name", "matmul_128x64x64_bfloat16_nn_bias_relu", "two workloads have one"),
        ("workloads.0.name", "import os", "name must be a text like"),
        ("files", 7, "files must be an object of at most"),
        ("files", {}, "files.autosched_cuda.py is missing"),
        ("more", 1, "more is not known"),
    ],
)
def test_what_cannot_be_is_named(place: str, value: Any, message: str, copied: Path) -> None:
    data = json.loads((copied / autosched_manifest.MANIFEST).read_text())
    *way, last = [int(part) if part.isdigit() else part for part in place.split(".")]
    held = data
    for part in way:
        held = held[part]
    held[last] = value
    sign(copied, data)
    with pytest.raises(loader.BadManifest) as caught:
        autosched_manifest.read(copied)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 400 + len(str(copied))


def places(data: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in plain data."""
    inside = data.items() if isinstance(data, dict) else enumerate(data)
    found = []
    for key, value in inside:
        found.append((*way, key))
        if isinstance(value, dict | list):
            found += places(value, (*way, key))
    return found


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.just([]),
    st.just({}),
    st.just([[]]),
)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_manifest_makes_the_loader_fall_over(copied: Path, fake_cuda: Any, data: Any) -> None:
    """Any field is dropped or becomes odd, under a hash that is right."""
    original = (copied / "original.json").exists() or shutil.copy(
        copied / autosched_manifest.MANIFEST, copied / "original.json"
    )
    assert original
    manifest = json.loads((copied / "original.json").read_text())
    *way, last = data.draw(st.sampled_from(places(manifest)))
    held = manifest
    for part in way:
        held = held[part]
    if data.draw(st.booleans()):
        del held[last]
    else:
        held[last] = data.draw(ODD)
    sign(copied, manifest)
    fake_cuda.reset()
    try:
        loader.load(copied, library=fake_cuda.library)
    except loader.ExportError:
        return  # anything else falls through


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_flipped_byte_passes(sample: Any, copied: Path, data: Any) -> None:
    """But where it says the same: JSON has spaces that mean nothing."""
    raw = bytearray((sample.folder / autosched_manifest.MANIFEST).read_bytes())
    offset = data.draw(st.integers(0, len(raw) - 1))
    raw[offset] ^= data.draw(st.integers(1, 255))
    (copied / autosched_manifest.MANIFEST).write_bytes(raw)
    try:
        found = autosched_manifest.read(copied)
    except loader.BadManifest:
        return
    assert found == autosched_manifest.read(sample.folder)
