"""The doctor reports what is there and what is not, and never fails on either."""

from __future__ import annotations

import pytest

from measure import doctor
from measure.doctor import Gpu, examine, matching_target

H200 = Gpu(0, "NVIDIA H200", 90, 132, 150 << 30, 50 << 20, "h200")


def test_finds_packages_and_compiler() -> None:
    facts = {fact.name: fact for fact in examine(lambda: (H200,)).facts}
    for name in ("python", "torch", "triton", "numpy", "cuobjdump", "Triton's cache"):
        assert facts[name].found, name
        assert facts[name].value
    assert facts["GPU"].value == "NVIDIA H200"


def test_what_is_missing_is_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "PACKAGES", ("no-such-package-anywhere",))
    monkeypatch.setenv("CC", "")
    monkeypatch.setenv("PATH", "")
    report = examine(lambda: "the probe failed: no driver")
    missing = {fact.name: fact.missing for fact in report.facts if not fact.found}
    assert missing["no-such-package-anywhere"].startswith("not installed")
    assert missing["GPU"] == "the probe failed: no driver"
    assert "C compiler" in missing
    assert report.gpus == ()


def test_no_gpu_is_said() -> None:
    facts = {fact.name: fact for fact in examine(lambda: ()).facts}
    assert facts["GPU"].missing == "no CUDA device: times are predicted, not measured"


def test_a_gpu_finds_its_target_by_name() -> None:
    assert matching_target("NVIDIA H200") == "h200"
    assert matching_target("NVIDIA Nothing") is None


def test_the_probe_answers_with_or_without_a_gpu() -> None:
    found = doctor.cuda_devices()
    assert isinstance(found, tuple)
    assert all(gpu.multiprocessors > 0 for gpu in found)
