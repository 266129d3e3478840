"""Every file in configs/ is a spec that loads, and says what its name says."""

from pathlib import Path

import pytest

from autosched.spec import load
from autosched.te.operators import matmul

CONFIGS = Path(__file__).parents[2] / "configs"
FILES = sorted([*CONFIGS.glob("workloads/*.y*ml"), *CONFIGS.glob("suites/*.y*ml")])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_loads(path: Path) -> None:
    tasks = load(str(path))
    assert tasks
    assert len({task.workload.key for task in tasks}) == len(tasks)
    assert all(task.where.startswith(f"{path}:") for task in tasks)


def test_the_smoke_suite_is_the_four_headline_shapes() -> None:
    works = {task.id: task.workload for task in load(str(CONFIGS / "suites/smoke.yaml"))}
    assert works == {
        "square": matmul(4096, 4096, 4096, dtype="float16"),
        "prefill": matmul(2048, 10240, 8192, dtype="bfloat16", trans_b=True),
        "decode": matmul(16, 8192, 8192, dtype="bfloat16", trans_b=True),
        "small": matmul(1024, 1024, 1024, dtype="float16"),
    }


def test_every_row_of_the_gemm_suite_names_its_source() -> None:
    tasks = load(str(CONFIGS / "suites/gemm.yaml"))
    assert len(tasks) == 30
    assert all(task.source for task in tasks)
    ieee = {
        t.id
        for t in tasks
        if t.workload.precision == "ieee" and "float32" in t.spec.get("dtype", "")
    }
    assert ieee == {"P49", "P50"}


def test_the_conv_suite_has_sources_and_rounds_as_the_library_may() -> None:
    tasks = load(str(CONFIGS / "suites/conv.yaml"))
    assert len(tasks) == 16
    assert all(task.source for task in tasks)
    wide = [t.workload for t in tasks if t.spec["dtype"] == "float32"]
    assert {work.precision for work in wide} == {"tf32"}
    # 2 * outputs * channels * taps, and for a transposed one 2 * inputs * channels * taps.
    operations = {task.id: task.workload.operations for task in tasks}
    assert operations["P30"] == 2 * 16 * 56 * 56 * 64 * 64 * 9
    assert operations["P41"] == 2 * 16 * 16 * 32 * 32 * 32 * 64 * 27


def test_the_resnet_suite_has_every_layer_once_a_batch() -> None:
    tasks = {task.id: task for task in load(str(CONFIGS / "suites/resnet50.yaml"))}
    assert len(tasks) == 3 * 23
    strided = tasks["b16.layer2.0.conv2"].workload
    assert strided.output.shape == (16, 28, 28, 128)
    assert strided.inputs[0].shape == (16, 56, 56, 128)


def test_the_expression_example_is_the_matmul_it_says() -> None:
    (task,) = load(str(CONFIGS / "workloads/expr_matmul.yaml"))
    same = matmul(512, 1024, 256, dtype="float16", trans_b=True, epilogue=["bias", "relu"])
    assert task.workload.key == same.key
