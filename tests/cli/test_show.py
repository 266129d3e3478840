"""Tests of autosched show: every level, and where its schedule comes from."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from autosched.cli.main import main

SPEC = "matmul:m=500,n=512,k=512,dtype=float16,epilogue=bias+gelu"


def show(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["show", *arguments])


def test_te_is_the_formula_of_a_spec():
    result = show(SPEC, "--level", "te")
    assert result.exit_code == 0
    assert result.stdout == (
        "expr: C[i,j] += A[i,k] * B[k,j]\n"
        "sizes: {i: 500, j: 512, k: 512}\n"
        "inputs: {A: {shape: [500, 512], dtype: float16}, B: {shape: [512, 512], dtype: float16},"
        " bias: {shape: [512], dtype: float16}}\n"
        'epilogue: "gelu(C[i,j] + bias[j])"\n'
        "output: {dtype: float16}\n"
    )


def test_nest_is_the_loops_before_any_step():
    assert show(SPEC, "--level", "nest").stdout == (
        "nest kernel\n"
        "  for i < 500, j < 512:\n"
        "    for k < 512:\n"
        "      acc[i,j] += A[i,k] * B[k,j]\n"
        "    C[i,j] = gelu(acc[i,j] + bias[j])\n"
    )


def test_sketches_say_their_choices_and_the_size_of_each_space():
    result = show("matmul:m=512,n=512,k=512,dtype=float16", "--level", "sketches", "-f", "json")
    found = {s["name"]: s for s in json.loads(result.stdout)["sketches"]}
    assert {"contraction.pointer", "contraction.descriptor.persistent"} <= set(found)
    pointer = found["contraction.pointer"]
    sizes = [len(domain) for domain in pointer["choices"].values()]
    product = 1
    for size in sizes:
        product *= size
    assert pointer["size"] == product > 1000


@pytest.fixture
def schedule(tmp_path: Path) -> Path:
    path = tmp_path / "schedule.json"
    path.write_text(show(SPEC, "-f", "json").stdout, encoding="utf-8")
    return path


def test_a_schedule_round_trips_through_a_file(schedule: Path):
    assert show(SPEC, "--schedule", str(schedule)).stdout == show(SPEC).stdout


def test_nest_with_a_schedule_is_the_loops_after_its_steps(schedule: Path):
    lines = show(SPEC, "--level", "nest", "--schedule", str(schedule)).stdout.splitlines()
    assert any("(past 500:" in line for line in lines)
    assert any(line.strip().startswith("grid ") for line in lines)


def test_triton_is_a_module_that_python_reads():
    text = show(SPEC, "--level", "triton").stdout
    compile(text, "kernel", "exec")
    assert "@triton.jit\n" in text


@pytest.mark.parametrize(
    ("level", "target", "sign"),
    [
        ("ttir", "h200", "tt.func"),
        ("ttgir", "h200", "ttg.num-warps"),
        ("llir", "h200", "define "),
        ("ptx", "a100", ".target sm_80"),
        ("sass", "h200", "EXIT"),
        ("amdgcn", "mi300x", "gfx942"),
    ],
)
def test_compiled_levels_need_no_gpu(level: str, target: str, sign: str):
    result = show(SPEC, "--level", level, "--target", target)
    assert result.exit_code == 0, result.stderr
    assert sign in result.stdout


def test_a_level_that_a_target_lacks():
    result = show(SPEC, "--level", "ptx", "--target", "mi300x")
    assert result.exit_code == 2
    assert result.stderr == (
        "autosched: mi300x: level of kernel 'ptx' is not known; known: ttir, ttgir, llir, amdgcn\n"
    )


@pytest.mark.parametrize("text", ["", "[", "[1]", '{"steps": [["Splat", {}]]}', "\xff"])
def test_a_file_that_is_no_schedule(text: str, tmp_path: Path):
    path = tmp_path / "broken.json"
    path.write_bytes(text.encode("latin-1"))
    result = show(SPEC, "--schedule", str(path))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"autosched: {path}: ")


def test_a_schedule_of_another_workload_is_refused_with_the_reason(tmp_path: Path):
    path = tmp_path / "illegal.json"
    step = ["Split", {"axis": "z", "outer": "z0", "inner": "z1", "factor": 4, "nest": 0}]
    path.write_text(json.dumps({"steps": [step]}), encoding="utf-8")
    result = show(SPEC, "--level", "triton", "--schedule", str(path))
    assert result.exit_code == 2
    assert result.stderr.startswith("autosched: Split: ")
    assert "'z'" in result.stderr


def test_an_unknown_target_names_the_nearest():
    result = show(SPEC, "--target", "h20")
    assert result.exit_code == 2
    assert "did you mean h200" in result.stderr


def test_a_suite_is_shown_workload_by_workload(tmp_path: Path):
    path = tmp_path / "two.yaml"
    row = "    - {{id: {}, op: matmul, m: {}, n: 64, k: 64, dtype: float16}}\n"
    rows = row.format("a", 64) + row.format("b", 32)
    path.write_text(f"suite:\n  name: two\n  workloads:\n{rows}", encoding="utf-8")
    lines = show(str(path), "--level", "te").stdout.splitlines()
    assert [line for line in lines if line.startswith("#")] == ["# a", "# b"]
    streamed = show(str(path), "--level", "te", "-f", "json").stdout.splitlines()
    assert [json.loads(line)["id"] for line in streamed] == ["a", "b"]
