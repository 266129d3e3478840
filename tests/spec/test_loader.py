"""From files to tasks: fields, suites, options, and the place of each mistake."""

from pathlib import Path

import pytest

from autosched import te
from autosched.spec import SpecError, from_data, load
from autosched.spec.schema import OPS
from autosched.te import text
from autosched.te.operators import batch_matmul, matmul
from search_space.workload import Workload

GOOD = "workload:\n  op: matmul\n  m: 4\n  n: 6\n  k: 8\n  dtype: float16\n"
EXPR = (
    "workload:\n"
    "  expr: C[i,j] += A[i,k] * B[k,j]\n"
    "  sizes: {i: 4, j: 6, k: 8}\n"
    "  inputs:\n"
    "    A: {shape: [4, 8], dtype: float16}\n"
    "    B: {shape: [8, 6], dtype: float16}\n"
)
SUITE = (
    "suite:\n"
    "  name: pair\n"
    "  workloads:\n"
    "    - {id: one, op: matmul, m: 4, n: 6, k: 8, dtype: float16, source: a table, tags: [odd]}\n"
    "    - id: two\n"
    "      expr: Y[i] = relu(X[i])\n"
    "      sizes: {i: 4}\n"
    "      inputs: {X: {shape: [4], dtype: float16}}\n"
)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(spec: str) -> str:
    Path("w.yaml").write_text(spec, encoding="utf-8")
    return "w.yaml"


def test_a_workload_file_is_one_task() -> None:
    (task,) = load(write(GOOD))
    assert task.workload == matmul(4, 6, 8, dtype="float16")
    assert (task.id, task.where, task.source, task.options) == ("w", "w.yaml:2:3", None, {})
    assert task.op == {"op": "matmul", "m": 4, "n": 6, "k": 8, "dtype": "float16"}


def test_an_expression_shares_the_key_of_its_operator() -> None:
    (task,) = load(write(EXPR))
    assert task.workload.key == matmul(4, 6, 8, dtype="float16").key
    assert task.op is None
    assert task.spec["expr"] == "C[i,j] += A[i,k] * B[k,j]"


def test_a_constant_is_said_of_an_operator_or_of_an_input() -> None:
    (one,) = load(write(GOOD + "  constant: [b]\n"))
    (two,) = load(write(EXPR.replace("[8, 6]", "[8, 6], constant: true")))
    assert one.workload.key == two.workload.key != load(write(GOOD))[0].workload.key
    assert one.workload.constants == ("B",)
    assert one.op is not None
    assert one.op["constant"] == ["b"]


def test_how_operands_lie_is_said_of_an_operator_as_of_an_expression() -> None:
    laid = "{b: [16, 1], bias: [0]}\n  alignment_bytes: {a: 4}\n  epilogue: [bias]\n"
    (task,) = load(write(GOOD + "  strides: " + laid))
    plain = matmul(4, 6, 8, dtype="float16", epilogue=["bias"])
    made = te.stored(te.stored(plain, "B", strides=(16, 1)), "bias", strides=(0,))
    made = te.stored(made, "A", alignment_bytes=4)
    assert task.workload == made
    assert len({plain.key, task.workload.key}) == 2
    assert task.workload.label == (
        "matmul 4x6x8 float16 nn bias strides.b=16+1 strides.bias=0 alignment_bytes.a=4"
    )
    assert from_data("a log", task.spec).workload.key == task.workload.key
    with pytest.raises(SpecError, match=r"w.yaml:7:20: workload.strides.b.1: -1 is below 0"):
        load(write(GOOD + "  strides: {b: [1, -1]}\n"))


def test_a_suite_is_a_task_a_row() -> None:
    one, two = load(write(SUITE + "tune: {trials: 64, effort: quick}\n"))
    assert (one.id, one.where, one.source) == ("one", "w.yaml:4:7", "a table")
    assert (two.id, two.where, two.source) == ("two", "w.yaml:5:7", None)
    assert (one.tags, two.tags) == (("odd",), ())
    assert "tags" not in one.spec
    assert one.op == {"op": "matmul", "m": 4, "n": 6, "k": 8, "dtype": "float16"}
    assert one.options == two.options == {"trials": 64, "effort": "quick"}


def test_options_are_those_that_are_given() -> None:
    (task,) = load(write(GOOD + "tune: {seed: 7, early_stopping: 3, timeout_s: 2}\n"))
    assert task.options == {"seed": 7, "early_stopping": 3, "timeout_s": 2.0}


@pytest.mark.parametrize(
    "work",
    [
        matmul(4, 6, 8, dtype="float32", precision="tf32", epilogue=["bias", "gelu_tanh"]),
        batch_matmul(2, 4, 6, 8, dtype="int8", trans_a=True),
        te.stored(matmul(4, 6, 8, dtype="float16"), "B", strides=(16, 1), alignment_bytes=8),
        te.stored(matmul(4, 6, 8, dtype="bfloat16"), "C", strides=(1, 4)),
        matmul(4, 6, 8, dtype="float16", constant=["b"]),
    ],
)
def test_what_is_formatted_can_be_loaded(work: Workload) -> None:
    lines = text.format(work).splitlines()
    (task,) = load(write("workload:\n" + "".join(f"  {line}\n" for line in lines)))
    assert task.workload == work


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (GOOD.replace("dtype", "dtpye"), "6:3: workload.dtpye: unknown, did you mean dtype"),
        (GOOD + "  colour: red\n", None),
        (GOOD.replace("m: 4", "m: 0"), "3:6: workload.m: 0 is below 1"),
        (GOOD.replace("m: 4", "m: true"), "3:6: workload.m: an integer is expected, not true"),
        (GOOD.replace("m: 4", "m: 4.0"), "3:6: workload.m: an integer is expected, not 4.0"),
        (GOOD.replace("m: 4", "m: '4'"), "3:6: workload.m: an integer is expected, not '4'"),
        (GOOD.replace("m: 4", "m:"), "3:3: workload.m: an integer is expected, not nothing"),
        (
            GOOD.replace("m: 4", "m: 1099511627777"),
            "3:6: workload.m: 1099511627777 is past the limit of 1099511627776",
        ),
        (
            GOOD.replace("m: 4", "m: 1099511627776"),
            "2:3: workload: 'A' has 8796093022208 elements, the limit is 2**40",
        ),
        (GOOD.replace("  m: 4\n", ""), "2:3: workload.m: is missing"),
        (GOOD.replace("float16", "half"), None),
        (
            GOOD + "  epilogue: [bias, geul]\n",
            "7:20: workload.epilogue.1: 'geul' is no epilogue; known: bias, residual, "
            "scale_a, scale_b, row_scale, column_scale, relu, gelu, "
            "gelu_tanh, silu, scale:FACTOR, softmax",
        ),
        (
            GOOD + "  constant: [b, c]\n",
            "7:17: workload.constant.1: 'c' is no input; there are A, B",
        ),
        (
            GOOD + "  constant: [C]\n",
            "7:14: workload.constant.0: 'C' is the output; only inputs are constant",
        ),
        (GOOD + "  constant: [b, B]\n", "7:17: workload.constant.1: 'B' stands twice"),
        (GOOD + "  constant: b\n", "7:13: workload.constant: a list is expected, not 'b'"),
        (
            GOOD + "  constant: [a, b]\n",
            "7:13: workload.constant: every input is constant: nothing is left to compute",
        ),
        (
            EXPR + "  output: {constant: true}\n",
            "7:12: workload.output.constant: unknown; known: shape, dtype, strides, "
            "alignment_bytes",
        ),
        (
            EXPR.replace("[8, 6]", "[8, 6], constant: 1"),
            "6:34: workload.inputs.B.constant: true or false is expected, not 1",
        ),
        (GOOD + "  epilogue: relu\n", "7:13: workload.epilogue: a list is expected, not 'relu'"),
        (GOOD + "tunes: {}\n", "7:1: tunes: unknown, did you mean tune"),
        (GOOD + "tune: {trails: 3}\n", "7:8: tune.trails: unknown, did you mean trials"),
        (GOOD + "tune: {trials: 0}\n", "7:16: tune.trials: 0 is below 1"),
        (GOOD + "tune: {timeout_s: .inf}\n", None),
        (GOOD + "tune: {timeout_s: .nan}\n", "7:19: tune.timeout_s: nan is not finite"),
        (GOOD + "tune: {effort: fast}\n", None),
        (GOOD + SUITE, "1:1: says both of 'workload:' and 'suite:', want one"),
        ("tune: {trials: 3}\n", "1:1: says neither of 'workload:' and 'suite:', want one"),
        ("workload: 3\n", "1:11: workload: a mapping is expected, not 3"),
        ("workload: {m: 3}\n", "1:11: workload: says neither op nor expr"),
        ("workload: {op: matmul, expr: a}\n", "1:11: workload: says both op and expr"),
        ("workload: {op: 3}\n", f"1:16: workload.op: 3 is unknown; known: {', '.join(OPS)}"),
        (GOOD + "  batch: 3\n", None),
        (
            SUITE.replace("dtype: float16, source", "dytpe: float16, source"),
            "4:47: suite.workloads.0.dytpe: unknown, did you mean dtype",
        ),
        (
            SUITE.replace("id: two", "id: one"),
            "5:11: suite.workloads.1.id: 'one' stands twice in the suite",
        ),
        (
            SUITE.replace("id: one, ", ""),
            "4:7: suite.workloads.0.id: is missing, each row of a suite has one",
        ),
        ("suite: {name: a, workloads: []}\n", "1:29: suite.workloads: is empty"),
        (
            EXPR.replace("B[k,j]", "D[k,j]"),
            "2:28: workload.expr: tensor 'D' is unknown; known: A, B",
        ),
        (
            EXPR.replace("C[i,j] += A[i,k] * B[k,j]", '"C[i,j] += A[i,k] * D[k,j]"'),
            "2:29: workload.expr: tensor 'D' is unknown; known: A, B",
        ),
        (
            EXPR.replace("C[i,j] += A[i,k] * B[k,j]", "|\n    C[i,j] +=\n      A[i,k] * D[k,j]"),
            "2:9: workload.expr at character 22: tensor 'D' is unknown; known: A, B",
        ),
        (
            EXPR.replace("[8, 6]", "[6, 8]"),
            "2:28: workload.expr: axis 'k' has extent 8, but dimension 0 of 'B' has 6",
        ),
        (EXPR.replace("k: 8", "k: 0"), "3:26: workload.sizes.k: 0 is below 1"),
        (EXPR.replace("k: 8", "k: 8, l: 2"), "3:32: workload.sizes.l: axis 'l' is not used"),
        (
            EXPR.replace("shape: [4, 8]", "shpe: [4, 8]"),
            "5:9: workload.inputs.A.shpe: unknown, did you mean shape",
        ),
        (
            EXPR.replace("[8, 6]", "[8, 6], strides: [6]"),
            "6:33: workload.inputs.B.strides: 'B' has 2 dimension(s) but 1 stride(s)",
        ),
        (
            EXPR + "  output: {dtype: int8}\n",
            "7:19: workload.output.dtype: 'C' is stored as int8: only integers are, and only as "
            "int32",
        ),
        (EXPR + "  epilogue: relu(A[i,0])\n", "7:13: workload.epilogue: 'C' is not read"),
        (EXPR + "  epilogue: __import__(C[i,j])\n", None),
    ],
)
def test_mistakes_have_a_place(spec: str, sentence: str | None) -> None:
    with pytest.raises(SpecError) as caught:
        load(write(spec))
    assert str(caught.value).startswith("w.yaml:")
    if sentence is not None:
        assert str(caught.value) == f"w.yaml:{sentence}"


def test_a_name_without_a_near_one_gets_all_that_are_known() -> None:
    with pytest.raises(
        SpecError, match=r"w.yaml:7:3: workload.colour: unknown; known: id, source, tags"
    ):
        load(write(GOOD + "  colour: red\n"))
